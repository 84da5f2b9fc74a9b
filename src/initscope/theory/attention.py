r"""Effect of softmax attention on tokens at initialization: how many keys it uses, and when tokens collapse.

Logits of a query are i.i.d. :math:`N(0, s^2)` over T keys here, s their `deviation`. `participation` and `entropy` are
exact for every T; `frozen_participation` is their limit for large T [Derrida1981]_. For tokens with equal cosines ρ
only :math:`s\sqrt{1-\rho}` matters, because a common part of all logits cancels. `uniform_cosine` and `collapse_depth`
give the rate at which tokens become equal if attention is spread out [Dong2021]_, [Noci2022]_; `growth_exponent` fits
exponents.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from initscope.errors import InputError, check_count
from initscope.theory._arrays import Array, namespace

__all__ = [
    "angle_exponent",
    "attended_variance",
    "collapse_depth",
    "entropy",
    "expected_log_sum_exp",
    "frozen_participation",
    "growth_exponent",
    "mean_token_cosine",
    "participation",
    "residual_growth",
    "uniform_cosine",
]

Floats = npt.NDArray[np.float64]
_STEP = 0.04  # of the trapezoidal rules, in standard deviations and in log u
_REACH = 12.0  # standard deviations
_LARGE = 40.0  # a logarithm from which on nothing is left of exp(-x)


def participation(tokens: int, deviation: float) -> float:
    r"""Return the mean of :math:`\sum_j p_j^2` of a softmax of T i.i.d.

    Gaussian logits: the inverse number of relevant keys. Gaussian logits: the inverse number of keys that count.

    .. math:: Y_2 = T\int_0^\infty u\;E[e^{2E-ue^E}]\;E[e^{-ue^E}]^{T-1}\,du, \qquad E\sim N(0, s^2)

    It follows from :math:`S^{-2} = \int u e^{-uS}du` with S the sum of the exponentials; exact for every T and s. The
    lognormal estimate :math:`e^{s^2}/T` holds only far below :math:`s = \sqrt{2\ln T}`. The random energy model
    [Derrida1981]_ has the limit of large T; the integral goes beyond the sources.

    >>> round(participation(512, math.sqrt(math.log(512))), 4), participation(1, 3.0), participation(4, 0.0)
    (0.1015, 1.0, 0.25)
    """
    tokens, deviation = _checked(tokens, deviation)
    if tokens == 1 or deviation == 0:
        return 1 / tokens
    u, energies, weights = _grid(tokens, deviation)
    heights = np.exp(np.minimum(u[:, None] + energies, _LARGE))
    # u du = u² d(log u)
    squares = (weights * heights**2 * np.exp(-heights)).sum(axis=1)
    return float(tokens * np.sum(squares * np.exp((tokens - 1) * _log_laplace(heights, weights))) * _STEP)


def entropy(tokens: int, deviation: float) -> float:
    r"""Return the mean entropy of a softmax of T i.i.d. The logits are Gaussian.

    The entropy is relative to ln T: 1 for uniform weights, 0 for one key.

    .. math:: E\,\ln S - E\sum_j p_j E_j = \int_0^\infty \big(e^{-u} - \varphi(u)^T\big)\frac{du}{u}
        - T\int_0^\infty E[E\,e^{E-ue^E}]\,\varphi(u)^{T-1}\,du, \qquad \varphi(u) = E\,e^{-ue^E}

    Exact for every T > 1 and s.

    This is the model of [Derrida1981]_ at finite T; the integral goes beyond the sources.

    >>> entropy(16, 0.0), round(entropy(512, 0.1), 3)
    (1.0, 0.999)
    """
    tokens, deviation = _checked(tokens, deviation)
    if tokens == 1:
        raise InputError("tokens = 1: a softmax of a single key has no entropy to share; give at least 2")
    if deviation == 0:
        return 1.0
    u, energies, weights = _grid(tokens, deviation)
    heights = np.exp(np.minimum(u[:, None] + energies, _LARGE))
    laplace = _log_laplace(heights, weights)
    inner = (weights * energies * heights * np.exp(-heights)).sum(axis=1)
    energy = tokens * np.sum(inner * np.exp((tokens - 1) * laplace)) * _STEP
    return float((expected_log_sum_exp(tokens, deviation) - energy) / math.log(tokens))


def _checked(tokens: int, deviation: float) -> tuple[int, float]:
    tokens = check_count("tokens", tokens)
    if not 0 <= deviation < 40:
        raise InputError(f"deviation = {deviation} must be from 0 to 40; beyond, one key has all of the weight")
    return tokens, float(deviation)


def _grid(tokens: int, deviation: float) -> tuple[Floats, Floats, Floats]:
    """log u, and the nodes and weights of the logits."""
    step = min(_STEP, 0.2 / deviation)
    z = np.arange(-_REACH, _REACH + step / 2, step)
    weights = np.exp(-(z**2) / 2) * step / math.sqrt(2 * math.pi)
    lowest = -(math.log(tokens) + _REACH * deviation + 40)
    return np.arange(lowest, _REACH * deviation + 6, _STEP), deviation * z, weights


def _log_laplace(heights: Floats, weights: Floats) -> Floats:
    """Return ln E exp(-u e^E) of ``heights`` u e^E, accurate near 0."""
    lost = (weights * -np.expm1(-heights)).sum(axis=1)
    left = np.maximum((weights * np.exp(-heights)).sum(axis=1), 1e-300)
    return np.asarray(np.where(lost < 0.5, np.log1p(-np.minimum(lost, 0.5)), np.log(left)))


def expected_log_sum_exp(
    tokens: int, deviation: float, *, own_mean: Any = None, own_deviation: float | None = None
) -> Any:
    r"""Mean of :math:`\ln\sum_j e^{E_j}` of V i.i.d. The logits are Gaussian, and one of them may have another mean.

    .. math:: \int_0^\infty \big(e^{-u} - \varphi(u)^{V-1}\,\varphi_o(u)\big)\frac{du}{u},
        \qquad \varphi(u) = E\,e^{-ue^E}

    It follows from :math:`\ln S = \int (e^{-u} - e^{-uS})\,du/u`; exact for every V and s. It is the expected
    cross-entropy of a softmax whose target is not the logit with the other mean. For small s and no such logit it is
    :math:`\ln V + s^2/2`. This is the free energy of the model of [Derrida1981]_ at finite V; the integral goes beyond
    the sources.

    Parameters
    ----------
    tokens : int
        Number of logits V, the one with a mean included.
    deviation : float
        Standard deviation s of the logits. Above 40 the sum is replaced by its largest term, with an error of less than
        .1 %.
    own_mean : float or array, optional
        Mean of one of the logits; None: all have mean 0.
    own_deviation : float, optional
        Its standard deviation, at most about s; None: s.

    Returns
    -------
    float or array
        One value for each mean.

    Examples
    --------
    >>> round(expected_log_sum_exp(1000, 0.1), 4), round(math.log(1000) + 0.1**2 / 2, 4)
    (6.9128, 6.9128)
    >>> round(expected_log_sum_exp(1000, 0.1, own_mean=50.0), 4)
    50.0
    """
    tokens = check_count("tokens", tokens)
    if not 0 <= deviation < math.inf:
        raise InputError(f"deviation = {deviation} must be finite and not negative")
    means = np.asarray(0.0 if own_mean is None else own_mean, dtype=np.float64)
    spread = deviation if own_deviation is None else own_deviation
    times = max(deviation, 40.0) / 40.0
    means, deviation, spread = means / times, deviation / times, spread / times
    widest = max(deviation, spread)
    step = min(0.25, 0.4 / max(widest, 1e-9))
    nodes = np.arange(-_REACH, _REACH + step / 2, step)
    weights = np.exp(-(nodes**2) / 2) * step / math.sqrt(2 * math.pi)

    def laplace(logs: Floats, energies: Floats) -> Floats:
        """ln φ(u) of ln u, some at a time."""
        blocks = np.array_split(logs, max(1, logs.size * energies.size >> 20))
        return np.concatenate(
            [_log_laplace(np.exp(np.minimum(block[:, None] + energies, _LARGE)), weights) for block in blocks]
        )

    low = -(math.log(tokens) + _REACH * widest + max(0.0, float(means.max())) + 40)
    logs = np.arange(low, _REACH * widest + max(0.0, -float(means.min())) + 6, 0.1)
    base, others = np.exp(-np.exp(np.minimum(logs, _LARGE))), np.exp((tokens - 1) * laplace(logs, deviation * nodes))
    # The logit with a mean has the same function of ln u, moved by the mean.
    table = np.arange(low, _REACH * widest + 6, 0.02)
    own_laplace = np.exp(laplace(table, spread * nodes))
    values = [
        0.1 * np.sum(base - others * np.interp(logs + mean, table, own_laplace, left=1.0, right=0.0))
        for mean in means.reshape(-1)
    ]
    result = times * np.reshape(values, means.shape)
    return float(result) if result.ndim == 0 else result


def frozen_participation(tokens: int, deviation: float) -> float:
    r"""The limit of `participation` as T grows with :math:`s/\sqrt{\ln T}` fixed: :math:`\max(0, 1-\sqrt{2\ln T}/s)`.

    The random energy model [Derrida1981]_: below its critical temperature a few keys hold all of the weight. At T = 512
    the limit is still inaccurate: 0 where .25 is exact (s = √(2 ln T)).

    >>> frozen_participation(4096, math.sqrt(2 * math.log(4096))), round(frozen_participation(16, 8.0), 3)
    (0.0, 0.706)
    """
    tokens, deviation = _checked(tokens, deviation)
    critical = math.sqrt(2 * math.log(tokens))
    return max(0.0, 1 - critical / deviation) if deviation > 0 else 0.0


def attended_variance(cosine: Any, tokens: int, deviation: float) -> Any:
    r"""Return mean square after attention of tokens of mean square 1 and equal cosines ρ: :math:`\rho + (1-\rho)Y_2`.

    Logits of keys with cosine ρ have a common part, which does not affect a softmax: the rest has the deviation
    :math:`s\sqrt{1-\rho}`, at which Y₂ (`participation`) is evaluated. Values have unit gain; otherwise multiply by λ_V
    λ_O. Beyond the sources: [GiorlandinoGoldt2026]_ take T to infinity, [Kedia2024]_ approximate the softmax.

    >>> attended_variance(1.0, 8, 3.0), attended_variance(0.0, 8, 0.0)
    (1.0, 0.125)
    """
    values = np.asarray(cosine, dtype=np.float64)
    if ((values < -1e-12) | (values > 1)).any():
        raise InputError(f"cosine = {cosine} must be from 0 to 1: equal cosines of many tokens cannot be negative")
    values = np.clip(values, 0, 1)
    shares = np.vectorize(lambda rho: participation(tokens, deviation * math.sqrt(1 - rho)), otypes=[float])(values)
    result = values + (1 - values) * shares
    return float(result) if result.ndim == 0 else result


def uniform_cosine(cosine: Any, tokens: int, *, strength: float = 1.0, skip: bool = True) -> Any:
    r"""Cosine of tokens after one block of uniform attention, tokens of equal cosines ρ and mean square 1 before it.

    .. math:: 1-\rho' = \frac{1-\rho}{1+\beta^2 v}, \qquad v = \rho + \frac{1-\rho}{T}

    with β² = ``strength``, the variance gain of values and output weights. Without the skip connection all tokens
    become equal at once: ρ' = 1. Uniform attention is the limit of small logits; logits that are not small collapse
    more slowly. The rank collapse of [Dong2021]_ and [Noci2022]_.

    >>> uniform_cosine(0.0, 4, strength=4.0), uniform_cosine(0.3, 4, skip=False)
    (0.5, 1.0)
    """
    rho = np.asarray(cosine, dtype=np.float64)
    if strength < 0 or not math.isfinite(strength):
        raise InputError(f"strength = {strength} must be finite and not negative: it is a gain of variances")
    tokens = check_count("tokens", tokens)
    shared = strength * (rho + (1 - rho) / tokens)
    result = (rho + shared) / (1 + shared) if skip else np.ones_like(rho)
    return float(result) if result.ndim == 0 else result


def collapse_depth(strength: float) -> float:
    r"""Return the blocks in which 1 - ρ falls by e for nearly equal tokens, with skips: :math:`1/\ln(1+\beta^2)`.

    The fixed point of `uniform_cosine` is ρ = 1; near it v = 1. Infinite without attention, 0 as its gain grows.

    >>> round(collapse_depth(math.e - 1), 6), collapse_depth(0.0)
    (1.0, inf)
    """
    if strength < 0:
        raise InputError(f"strength = {strength} must not be negative: it is a gain of variances")
    return 1 / math.log1p(strength) if strength > 0 else math.inf


def mean_token_cosine(gram: Array) -> Array:
    r"""Return the mean cosine of two different tokens from the tokens' Gram matrix; zero tokens are left out.

    .. math:: \frac{\sum_{s,t} C_{st}/\sqrt{C_{ss}C_{tt}} - n}{n(n-1)}

    The sums are over the n tokens with :math:`C_{tt} > 0`: a zero token (padding, or one that no expert received) has
    no direction. The measure of collapse of [Noci2022]_.

    Parameters
    ----------
    gram : array ``[..., tokens, tokens]``
        Inner products, or second moments of a unit.

    Returns
    -------
    array ``[...]``
        NaN if fewer than two tokens are nonzero.

    Examples
    --------
    >>> float(mean_token_cosine([[4.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))
    0.5
    """
    xp, gram = namespace(gram)
    square = xp.linalg.diagonal(gram)
    zero = square <= 0  # NaN is not zero: it stays visible
    scale = xp.where(zero, xp.zeros_like(square), 1 / xp.sqrt(xp.where(zero, xp.ones_like(square), square)))
    count = xp.sum(xp.astype(~zero, square.dtype), axis=-1)
    total = xp.sum(scale * xp.squeeze(xp.matmul(gram, scale[..., None]), axis=-1), axis=-1)
    pairs = count * (count - 1)
    return xp.where(pairs > 0, (total - count) / xp.where(pairs > 0, pairs, xp.ones_like(pairs)), float("nan"))


def angle_exponent(before: float, after: float) -> float:
    r"""Return λ_a = ln[(1-ρ')/(1-ρ)] of one block: below 0 tokens collapse, above 0 they diverge [Cowsik2024]_.

    >>> round(angle_exponent(0.5, 0.75), 4)
    -0.6931
    """
    if not (before < 1 and after < 1):
        raise InputError(f"cosines {before} and {after} must be below 1: equal tokens stay equal")
    return math.log((1 - after) / (1 - before))


def residual_growth(depth: int, branch_variance: float, *, branches: int = 2, start: float = 1.0) -> float:
    r"""Return the mean square of a pre-norm residual stream after ``depth`` blocks: :math:`k_0 + L\,b\,\sigma^2`.

    Every branch reads a normalized stream and so adds the same variance: the stream grows linearly. With output weights
    scaled by :math:`1/\sqrt{2L}` it stays bounded; with a norm after every sum it is 1.

    >>> residual_growth(32, 0.25), residual_growth(32, 0.25 / 64)
    (17.0, 1.25)
    """
    depth = check_count("depth", depth, least=0)
    return float(start + depth * check_count("branches", branches) * branch_variance)


def growth_exponent(sizes: Any, values: Any) -> Any:
    r"""Return the slope of ln values against ln sizes, by least squares: α if values grow like sizes^α.

    ``values`` has shape ``[..., len(sizes)]``; the result is NaN if a value is not positive and finite.

    >>> growth_exponent([1, 2, 4], [3.0, 6.0, 12.0])
    1.0
    """
    x = np.log(np.asarray(sizes, dtype=np.float64))
    values = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or len(x) < 2 or values.shape[-1] != len(x) or not np.ptp(x):
        raise InputError(f"sizes has shape {x.shape}; give at least two different sizes, and one value for each")
    y = np.log(np.where(np.isfinite(values) & (values > 0), values, np.nan))
    centered = x - x.mean()
    slope = np.round((y * centered).sum(axis=-1) / (centered**2).sum(), 12)
    return float(slope) if slope.ndim == 0 else slope
