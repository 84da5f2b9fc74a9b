"""The planners: thin, they check their input, call `initscope.theory` and say what each number rests on.

In every planner ``eps`` is the distortion and ``delta`` the probability of failure.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from initscope.errors import InputError, check_between, check_count, check_seed
from initscope.plan.results import BitsPlan, DepthPlan, FiltersPlan, ProjectionPlan, SubspacePlan, WidthPlan
from initscope.theory import concentration, norms
from initscope.theory._search import log_excess, smallest
from initscope.theory.injectivity.planning import expansivity

__all__ = ["Event", "Quantity", "bits", "depth", "expansivity", "filters", "projection", "subspace", "width"]

Event = Literal["last-layer", "all-layers"]
Quantity = Literal["activations", "gradients"]

_HE = "dense ReLU layers of equal width, i.i.d. Gaussian weights of variance 2/width (He fan-out), no biases"
_SCREEN = 128
_WIDEST = 10**9
"""Widths beyond are refused: the exact laws sum over some 40 √width active units."""
_WIDEST_DEEP = 10**6
_DEEPEST = {"last-layer": 10_000, "all-layers": 50}
"""Depths beyond are refused: every layer's own band costs an integration over all layers before it."""
_LEAST_BITS_EPS = 3e-4
"""Below, the lattice of the binomial law has too many points to search."""
_LEAST_PROJECTION_EPS = 1e-5
_FAR = 690.0
"""Logarithm of a ratio that is never met: a band that has widened beyond it is open."""
_LEAST_DELTA = 1e-290
"""Probabilities below have no room left for a union over layers and samples."""
_FIXED = "inputs fixed before the weights are drawn"


def width(
    *,
    eps: float,
    delta: float,
    depth: int = 1,
    samples: int = 1,
    event: Event = "last-layer",
    quantity: Quantity = "activations",
    per_layer: bool = True,
) -> WidthPlan:
    r"""How wide must a ReLU network be, so that no squared norm is distorted beyond ``eps``?

    Parameters
    ----------
    eps
        Distortion. A layer l may have :math:`\|h^l\|^2/\|x\|^2` in :math:`[(1-\varepsilon)^l, (1+\varepsilon)^l]`, the
        band of theorem 1; with ``per_layer=False`` in [1-ε, 1+ε] whatever the depth.
    delta
        Probability of failure, over the draw of the weights, for all ``samples`` together.
    event
        ``"last-layer"``: the last layer's norm; ``"all-layers"``: every layer's (gradients: the union over layers).
    quantity
        ``"activations"``, or ``"gradients"``: :math:`\|\partial\ell/\partial W^l\|_F^2/(\|\delta\|^2\|x\|^2)` of a
        layer (theorem 3).

    >>> plan = width(eps=0.1, delta=0.05)
    >>> plan.paper, plan.chernoff, plan.exact
    (4152, 3698, 1919)
    """
    _check(eps, delta, samples, event)
    check_count("depth", depth, most=_DEEPEST[event], hint=f"for {event}")
    if quantity not in ("activations", "gradients"):
        raise InputError(f"quantity = {quantity!r} must be 'activations' or 'gradients'")
    gradients = quantity == "gradients"
    step = eps if per_layer else _layer_eps(eps, depth)
    # Theorem 3 pays twice: once for the forward, once for the backward pass.
    parts = 2 * depth if gradients else depth

    def failure(size: int) -> float:
        return samples * _failure(size, depth, eps, event, per_layer, gradients)

    guess = _guess(eps, delta / samples, depth, event, per_layer)
    _check_width(guess, f"eps = {eps:g} and delta = {delta:g}")
    exact = smallest(lambda size: log_excess(failure(size), delta), guess=guess)
    assumptions: tuple[str, ...] = (
        _HE,
        _FIXED,
        "the answer for several samples adds their probabilities (union bound)",
    )
    if gradients:
        assumptions += (
            "the error at a layer is independent of the masks and weights before it (footnote 1 of the paper)",
        )
    return WidthPlan(
        eps=eps,
        delta=delta,
        depth=depth,
        samples=samples,
        event=event,
        quantity=quantity,
        per_layer=per_layer,
        paper=norms.relu_norm_width(step, delta, depth=parts, samples=samples),
        chernoff=norms.chernoff_width(step, delta, depth=parts, samples=samples),
        exact=exact,
        failure=failure(exact),
        assumptions=assumptions,
    )


def depth(*, width: int, eps: float, delta: float, samples: int = 1, event: Event = "last-layer") -> DepthPlan:
    r"""How deep may a ReLU network of this width be, if :math:`\|h^L\|^2/\|x\|^2` is to stay within 1 ± ``eps``?

    The band does not widen with depth here: within :math:`(1\pm\varepsilon)^L` deeper is easier. 0 means not even one
    layer.

    >>> plan = depth(width=1000, eps=0.5, delta=0.1)
    >>> plan.paper <= plan.chernoff < plan.exact
    True
    """
    _check(eps, delta, samples, event)
    check_count("width", width, most=_WIDEST_DEEP, hint="the exact law of many layers takes too long beyond")

    def failure(layers: int) -> float:
        return samples * _failure(width, layers, eps, event, False, False)

    def deepest(bound: Callable[[int], float]) -> int:
        return smallest(lambda layers: -log_excess(bound(layers), delta * (1 + 1e-15)), scan=2, guess=guess) - 1

    # The log ratio is about normal with variance 5/width a layer.
    guess = math.ceil(width * math.log1p(eps) ** 2 / (10 * math.log(2 * samples / delta)))
    exact = deepest(failure)
    return DepthPlan(
        eps=eps,
        delta=delta,
        width=width,
        samples=samples,
        event=event,
        paper=deepest(lambda layers: layers * norms.relu_norm_bound(width, _layer_eps(eps, layers), samples=samples)),
        chernoff=deepest(lambda layers: layers * norms.chernoff_bound(width, _layer_eps(eps, layers), samples=samples)),
        exact=exact,
        failure=failure(exact) if exact else 0.0,
        assumptions=(_HE, _FIXED, "the answer for several samples adds their probabilities (union bound)"),
    )


def _check(eps: float, delta: float, samples: int, event: str) -> None:
    check_between("eps", eps, 0.0, 1.0, hint="the relative distortion of a squared norm")
    _check_delta(delta)
    check_count("samples", samples, most=10**9)
    if event not in ("last-layer", "all-layers"):
        raise InputError(f"event = {event!r} must be 'last-layer' or 'all-layers'")


def _check_delta(delta: float) -> None:
    check_between("delta", delta, _LEAST_DELTA, 1.0, hint="a probability of failure, for example 0.05")


def _check_width(width: float, aim: str) -> None:
    if width > _WIDEST:
        raise InputError(f"{aim} ask for a width of about {width:.1g}, more than {_WIDEST:.0g}; use a larger eps")


def _layer_eps(eps: float, layers: int) -> float:
    """The distortion each of the layers may add so that together they stay within 1 ± eps."""
    return math.expm1(math.log1p(eps) / layers)


def _guess(eps: float, delta: float, layers: int, event: str, per_layer: bool) -> int:
    """Where the search for the width starts: the log ratio is about normal with variance 5/width a layer."""
    steps = 1 if event == "all-layers" and per_layer else layers
    band = eps * (steps if per_layer else 1)
    return math.ceil(steps * 5 * math.log(2 / delta) / band**2)


def _failure(size: int, layers: int, eps: float, event: str, per_layer: bool, gradients: bool) -> float:
    """Exact probability of failure for one input in a network of equal width."""
    powers = range(1, layers + 1) if per_layer else [1] * layers
    lows = [math.exp(max(power * math.log1p(-eps), -_FAR)) for power in powers]
    highs = [math.exp(min(power * math.log1p(eps), _FAR)) for power in powers]
    widths = [size] * layers
    if gradients:
        found = norms.gradient_norm_failure(widths, layers, lows[-1], highs[-1])
        return (layers if event == "all-layers" else 1) * (found.value + found.error)
    if layers == 1:
        return norms.relu_norm_failure(size, eps)
    if event == "all-layers":
        found = norms.path_norm_failure(widths, lows, highs)
    else:
        found = norms.deep_norm_failure(widths, lows[-1], highs[-1])
    return found.value + found.error


def subspace(
    dim: int, eps: float, delta: float, *, squared: bool = True, ambient: int | None = None, depth: int = 1
) -> SubspacePlan:
    r"""How wide must ReLU layers be, so that they keep the norms of *all* inputs of a subspace at once?

    ``squared=True``: squared norms within :math:`(1\pm\varepsilon)^l` at layer l, else norms. ``ambient`` is the
    dimension of the space around it, which does not matter beyond ``dim <= ambient``.

    >>> plan = subspace(dim=10, eps=0.1, delta=0.05)
    >>> plan.paper / plan.gordon > 80
    True
    """
    check_count("dim", dim)
    if ambient is not None:
        check_count("ambient", ambient)
        if dim > ambient:
            raise InputError(f"dim = {dim} must be at most ambient = {ambient}: a subspace fits into its space")
    check_count("depth", depth)
    check_between("eps", eps, 0.0, 1.0)
    _check_delta(delta)
    # Gordon's √(2/width) w, w = √dim, against a band of ± eps, or ± eps/2 for squared norms.
    _check_width(2 * dim / (eps / (2 if squared else 1)) ** 2, f"dim = {dim} and eps = {eps:g}")
    return SubspacePlan(
        eps=eps,
        delta=delta,
        dim=dim,
        depth=depth,
        squared=squared,
        paper=norms.theorem2_width(dim, eps, delta, depth=depth, squared=squared),
        repaired=norms.theorem2_width(dim, eps, delta, depth=depth, squared=squared, repaired=True),
        gordon=_gordon(dim, eps, delta, squared, depth),
        assumptions=(
            _HE,
            "the subspace is fixed before the weights are drawn",
            "lemma 3 prints squared norms, its proof gives norms: here all answers are for "
            + ("squared norms" if squared else "norms"),
            *(
                ("theorem 2 as printed is proven for the first layer only; repaired and gordon hold for all",)
                * (depth > 1)
            ),
        ),
    )


def _gordon(dim: int, eps: float, delta: float, squared: bool, depth: int) -> int:
    if depth == 1:
        return norms.gordon_width(math.sqrt(dim), eps, delta, squared=squared)
    power = 0.5 if squared else 1.0

    def excess(size: int) -> float:
        bands = norms.gordon_deep_band(size, math.sqrt(dim), depth, delta)
        return max(
            max(math.pow(1 - eps, layer * power) - low, high - math.pow(1 + eps, layer * power))
            for layer, (low, high) in enumerate(bands, start=1)
        )

    try:
        return smallest(excess, most=_WIDEST // 10)
    except OverflowError:
        raise InputError(
            f"depth = {depth}: no width below {_WIDEST // 10:.0g} keeps all of a subspace of dimension {dim} within "
            f"eps = {eps:g}, the bound doubles with every layer; use fewer layers or a larger eps"
        ) from None


def filters(
    x: Any, y: Any, *, eps: float, delta: float, kernel_size: int = 3, seed: int = 0, pilot: int = 16384
) -> FiltersPlan:
    r"""How many filters must a convolutional ReLU layer have, so that its output cosine is within ``eps`` of the
    expected one?

    Parameters
    ----------
    x, y
        Two images, (channels, height, width) or (height, width), or as many pairs, (pairs, channels, height, width):
        the plan then holds for all pairs at once (union bound), the numbers are those of the worst pair.
    pilot
        Filters drawn to measure the variance of one filter's share; the interval of ``sharp`` says what that is worth.

    Cyclic convolution, stride 1, i.i.d. Gaussian filters, as in corollary 1.
    """
    from initscope.plan.pairs import filter_statistics, image_pairs, patch_ratio

    check_between("eps", eps, 0.0, 1.0, hint="the distortion of a cosine")
    _check_delta(delta)
    check_seed("seed", seed)
    check_count("pilot", pilot, least=100)
    first, second = image_pairs(x, y, kernel_size)
    pairs, height, breadth = first.shape[0], first.shape[-2], first.shape[-1]
    each = delta / pairs

    def draw(index: int, size: int) -> tuple[Any, Any, Any]:
        return filter_statistics(first[index], second[index], kernel_size, size, seed=seed)

    # A small pilot finds the pair that varies most; only that one gets the whole pilot. Outputs may vanish on another.
    screens = [draw(index, _SCREEN) for index in range(pairs)] if pairs > 1 else []
    spread = [concentration.filter_share_sd(*screen) for screen in screens] or [0.0]
    worst = concentration.sharp_filters(*draw(spread.index(max(spread)), pilot), eps=eps, delta=each, seed=seed)
    living = max((concentration.living_filters(*screen[1:], delta=each) for screen in screens), default=1)
    worst = replace(worst, **{name: max(getattr(worst, name), living) for name in ("filters", "low", "high")})
    ratio = max(patch_ratio(first, kernel_size), patch_ratio(second, kernel_size))
    return FiltersPlan(
        eps=eps,
        delta=delta,
        kernel_size=kernel_size,
        pairs=pairs,
        pilot=pilot,
        cosine=worst.cosine,
        sd=worst.sd,
        paper=concentration.cosine_filters(
            positions=height * breadth, patch_ratio=ratio, kernel_size=kernel_size, eps=eps, delta=each
        ),
        no_union=concentration.cosine_filters_without_union(eps=eps, delta=each),
        sharp=worst.filters,
        sharp_low=worst.low,
        sharp_high=worst.high,
        assumptions=(
            "cyclic convolution with stride 1, ReLU, i.i.d. Gaussian filters",
            "images fixed before the filters are drawn",
            "sharp "
            + ("counts failures of layers resampled from" if worst.resampled else "is the normal limit for")
            + " the pilot's filters; its interval covers the pilot's sampling error",
        ),
    )


def bits(
    eps: float, delta: float, *, pairs: int = 1, angle: float | None = None, mean_width: float | None = None
) -> BitsPlan:
    r"""How many random signs, so that the Hamming distance is within ``eps`` of θ/π for ``pairs`` pairs at once?

    ``angle`` (radians) plans for pairs at that angle, None for the worst one. ``mean_width`` is the two-sided Gaussian
    mean width ω of the set, for the talk's theorem; by default the bound :math:`2\sqrt{2\log(2\,\mathrm{pairs})}` of as
    many points.

    >>> plan = bits(eps=0.1, delta=0.05)
    >>> plan.exact < plan.hoeffding < plan.paper
    True
    """
    check_between("eps", eps, _LEAST_BITS_EPS, 1.0, hint="the distortion of a Hamming distance, a fraction of the bits")
    _check_delta(delta)
    check_count("pairs", pairs, most=10**12)
    spread = 2 * math.sqrt(2 * math.log(2 * pairs)) if mean_width is None else mean_width
    exact = concentration.sign_bits(eps, delta, pairs=pairs, angle=angle)
    return BitsPlan(
        eps=eps,
        delta=delta,
        pairs=pairs,
        angle=angle,
        mean_width=spread,
        paper=math.ceil(concentration.sign_bits_theorem(eps, spread)),
        hoeffding=concentration.sign_bits_hoeffding(eps, delta, pairs=pairs),
        exact=exact,
        failure=pairs * concentration.sign_failure(exact, eps, angle=angle),
        assumptions=(
            "signs of an i.i.d. Gaussian (any isotropic) projection, inputs fixed before it is drawn",
            "the worst angle" if angle is None else f"pairs at an angle of {angle:g} radians",
            "the talk's theorem leaves its constant open: its number shows the growth, not a guarantee",
        ),
    )


def projection(*, eps: float, delta: float, samples: int) -> ProjectionPlan:
    """How many dimensions must a random *linear* layer have, so that all squared distances stay within 1 ± ``eps``?

    >>> plan = projection(eps=0.1, delta=0.05, samples=1000)
    >>> plan.textbook, plan.exact < plan.textbook
    (5920, True)
    """
    check_between("eps", eps, _LEAST_PROJECTION_EPS, 1.0, hint="the relative distortion of a squared distance")
    _check_delta(delta)
    check_count("samples", samples, least=2, most=10**9, hint="distances need two samples")
    pairs = samples * (samples - 1) // 2
    exact = concentration.projection_width(eps, delta, pairs=pairs)
    return ProjectionPlan(
        eps=eps,
        delta=delta,
        samples=samples,
        textbook=concentration.johnson_lindenstrauss_width(samples, eps),
        exact=exact,
        failure=pairs * concentration.projection_failure(exact, eps),
        assumptions=(
            "i.i.d. Gaussian weights of variance 1/width, no activation",
            "samples fixed before the weights are drawn",
        ),
    )
