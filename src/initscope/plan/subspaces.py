"""`subspace`: how wide ReLU layers must be to preserve the norms of a whole subspace at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from initscope.errors import InputError, check_count
from initscope.plan._base import WIDEST, Plan, check_delta, check_eps, check_width, count_failures
from initscope.plan._norms import HE
from initscope.theory import norms
from initscope.theory._search import smallest

__all__ = ["SubspacePlan", "subspace", "subspace_extremes"]


@dataclass(frozen=True)
class SubspacePlan(Plan):
    """`initscope.plan.subspace`: widths that preserve the norms of a whole subspace at once."""

    planner = "subspace"
    unit = "width"
    best = "gordon"
    statements: ClassVar[dict[str, str]] = {
        "paper": "lemma 3 (depth 1) or theorem 2 of the over-parameterization paper, as printed",
        "repaired": "theorem 2 with the union over the cones that its proof overlooks (depth 1: lemma 3)",
        "gordon": "Gordon's comparison with the exact mean norm and Gaussian concentration",
    }

    dim: int
    depth: int
    squared: bool
    paper: int
    repaired: int
    gordon: int

    @property
    def aim(self) -> dict[str, Any]:
        """Return the dimension of the subspace and the number of layers."""
        return {"dim": self.dim, "depth": self.depth}

    def numbers(self, size: int) -> int:
        """Return the number of outputs of the directions that are followed."""
        return size * 4 * self.dim

    def failures(self, size: int, trials: int, generator: np.random.Generator, images: Any = None) -> int:
        """Count the networks whose extreme norms over the subspace, as found by local search, leave the band."""
        return count_failures(trials, 1, lambda _: _fails(size, self, generator))


def subspace(
    dim: int, eps: float, delta: float, *, squared: bool = True, ambient: int | None = None, depth: int = 1
) -> SubspacePlan:
    r"""How wide must ReLU layers be, so that they preserve the norms of *all* inputs of a subspace at once?

    Parameters
    ----------
    dim
        Dimension of the subspace.
    eps
        Distortion: norms, squared or not, stay within (1 ± eps)^l at layer l.
    delta
        Probability of failure, over the draw of the weights.
    squared
        Whether the band is for squared norms (True) or for norms (False).
    ambient
        Dimension of the space that contains the subspace; it only has to be at least ``dim``.
    depth
        Number of layers.

    >>> plan = subspace(dim=10, eps=0.1, delta=0.05)
    >>> plan.paper / plan.gordon > 80
    True
    """
    check_count("dim", dim)
    if ambient is not None:
        check_count("ambient", ambient)
        if dim > ambient:
            raise InputError(f"dim = {dim} must be at most ambient = {ambient}, the dimension of the whole space")
    check_count("depth", depth)
    check_eps(eps, "the relative distortion of a norm")
    check_delta(delta)
    # Gordon's √(2/width) w, w = √dim, against a band of ± eps, or ± eps/2 for squared norms.
    check_width(2 * dim / (eps / (2 if squared else 1)) ** 2, f"dim = {dim} and eps = {eps:g}")
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
            HE,
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
        return smallest(excess, most=WIDEST // 10)
    except OverflowError:
        raise InputError(
            f"depth = {depth}: no width below {WIDEST // 10:.0g} keeps all of a subspace of dimension {dim} within "
            f"eps = {eps:g}, because the bound doubles with every layer; use fewer layers or a larger eps"
        ) from None


def subspace_extremes(
    weights: np.ndarray, *, restarts: int = 32, steps: int = 200, seed: int = 0
) -> tuple[float, float]:
    r"""Return the smallest and largest :math:`\|R(Wu)\|` over unit vectors u, by local search with random restarts.

    The squared norm is convex in u: :math:`u \leftarrow W^T R(Wu)`, normalized, never decreases it, and
    :math:`u \leftarrow cu - W^T R(Wu)` with c at least the largest squared singular value never increases it. The
    results are local optima, so the true extremes may be more extreme.
    """
    generator = np.random.default_rng(seed)
    top = float(np.linalg.norm(weights, 2)) ** 2
    best = []
    for sign in (-1.0, 1.0):
        u = generator.standard_normal((weights.shape[1], restarts))
        u /= np.linalg.norm(u, axis=0)
        value = np.zeros(restarts)
        for _ in range(steps):
            hidden = np.maximum(weights @ u, 0.0)
            before, value = value, np.linalg.norm(hidden, axis=0)
            if np.abs(value - before).max() < 1e-7:
                break
            pull = weights.T @ hidden
            # Half of the largest curvature would suffice on average; the proof needs all of it.
            u = pull if sign > 0 else top * u - pull
            u /= np.linalg.norm(u, axis=0)
        best.append(float(value.min() if sign < 0 else value.max()))
    return best[0], best[1]


def _fails(size: int, plan: SubspacePlan, generator: np.random.Generator) -> bool:
    """Return whether the extreme norms over the subspace leave the band in some layer.

    Only the first layer is searched for extremes; deeper layers are evaluated on random directions.
    """
    power = 1.0 if plan.squared else 2.0
    weights = generator.standard_normal((size, plan.dim)) * math.sqrt(2 / size)
    low, high = subspace_extremes(weights, restarts=16, steps=60, seed=int(generator.integers(2**31)))
    if not (1 - plan.eps) ** power <= low**2 <= high**2 <= (1 + plan.eps) ** power:
        return True
    if plan.depth == 1:
        return False
    directions = generator.standard_normal((plan.dim, 4 * plan.dim))
    hidden = np.maximum(weights @ (directions / np.linalg.norm(directions, axis=0)), 0.0)
    for layer in range(2, plan.depth + 1):
        basis: np.ndarray = np.linalg.qr(hidden, mode="r")  # type: ignore[assignment]
        hidden = np.maximum(generator.standard_normal((size, basis.shape[0])) * math.sqrt(2 / size) @ basis, 0.0)
        ratio = (hidden**2).sum(axis=0)
        if ratio.min() < (1 - plan.eps) ** (layer * power) or ratio.max() > (1 + plan.eps) ** (layer * power):
            return True
    return False
