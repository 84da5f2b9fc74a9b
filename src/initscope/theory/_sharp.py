"""The sharp number of filters, from a pilot sample of them: the normal limit, or failures of resampled layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from initscope.errors import InputError, check_between, check_probability
from initscope.results import Result
from initscope.theory._search import log_excess, smallest
from initscope.theory.pair_sums import filter_influence

__all__ = [
    "SharpFilters",
    "filter_share_sd",
    "layer_cosines",
    "living_filters",
    "sharp_filters",
    "sharp_inner_filters",
]

_RAREST = 5e-4
"""Smallest probability of failure that is counted in resampled layers: 50 events in 100,000 layers."""


@dataclass(frozen=True)
class SharpFilters(Result):
    """`sharp_filters`, `sharp_inner_filters`: the number and its 95 % interval from the pilot.

    ``normal`` is the number from the normal limit alone, ``resampled`` says whether the failures were counted instead;
    ``sd`` is the standard deviation of one filter's share, ``center`` the pilot's cosine, or mean inner product.
    """

    filters: int
    low: int
    high: int
    normal: int
    resampled: bool
    sd: float
    center: float


def sharp_filters(
    inner: np.ndarray, norm_x: np.ndarray, norm_y: np.ndarray, *, eps: float, delta: float, seed: int = 0
) -> SharpFilters:
    r"""Return the sharp number of filters from a pilot: inner products and squared norms of each filter's two outputs.

    :math:`\rho_{out} = \bar a/\sqrt{\bar b\bar c}` is a ratio of means of i.i.d. terms, so its variance is
    :math:`s^2/N` with

    .. math:: s^2 = \operatorname{Var}\Bigl[\frac{a}{\sqrt{\bar b\bar c}} - \frac{\rho}{2}\Bigl(\frac{b}{\bar b} +
              \frac{c}{\bar c}\Bigr)\Bigr], \qquad N \approx \Bigl(\frac{z_{1-\delta/2}\,s}{\varepsilon}\Bigr)^2 .

    This is the limit of many filters. Up to a thousand filters, N comes from counting failures of layers that are
    resampled from the pilot, which includes the tails (at 20 filters the limit's 5 % is closer to 7 %). Below 5e-4,
    failures are too rare to count, and the limit is multiplied by the correction at 5e-4. The interval is that of s².
    Layers in which all filters vanish on an image have no angle and count as failures, also where the cosine of the
    others never varies. Beyond [Nachum2022]_ corollary 1, whose number it replaces.
    """
    check_between("eps", eps, 0.0, 1.0)
    check_probability("delta", delta)
    pilot, rho, share = _filter_shares(inner, norm_x, norm_y)
    living = living_filters(pilot[:, 1], pilot[:, 2], delta=delta)
    return _sharp(pilot, rho, share, layer_cosines, eps=eps, delta=delta, seed=seed, least=living)


def sharp_inner_filters(inner: np.ndarray, *, eps: float, delta: float, seed: int = 0) -> SharpFilters:
    r"""Return the sharp number of filters for an inner product, from a pilot of each filter's own.

    The mean over N filters is within ``eps`` (absolute) of its expectation but for a probability ``delta``:
    :math:`N \approx (z_{1-\delta/2}\,s/\varepsilon)^2` with s the standard deviation of one filter's inner product, and
    up to a thousand filters by counting failures of resampled layers, as in `sharp_filters`. Beyond [Nachum2022]_
    theorem 2 and lemma 2, whose numbers it replaces.

    >>> pilot = np.random.default_rng(0).standard_normal(100_000)
    >>> 37 <= sharp_inner_filters(pilot, eps=0.32, delta=0.05).filters <= 38      # (1.96/0.32)² = 37.5
    True
    """
    check_between("eps", eps, 0.0, math.inf)
    check_probability("delta", delta)
    # Sums of a resampled layer, over its size: the mean. The size is what the second sum counts.
    pilot = _pilot(inner, np.ones_like(inner))
    values = pilot[:, 0]
    center = float(values.mean())
    return _sharp(pilot, center, values - center, np.divide, eps=eps, delta=delta, seed=seed, least=1)


def _sharp(
    pilot: np.ndarray,
    center: float,
    share: np.ndarray,
    value: Callable[..., np.ndarray],
    *,
    eps: float,
    delta: float,
    seed: int,
    least: int,
) -> SharpFilters:
    """The number for which ``value`` of a layer's sums is within eps of ``center``; ``share``: each filter's part."""
    squares = share**2
    variance = float(squares.mean())
    spread = 1.96 * float(squares.std()) / math.sqrt(share.size)
    normal = max(1, math.ceil((_normal_quantile(delta) / eps) ** 2 * variance))
    resampled = normal <= 1000
    number = normal
    if resampled:
        counted = max(delta, _RAREST)
        start = max((_normal_quantile(counted) / eps) ** 2 * variance, 1e-12)
        layers = max(40_000, math.ceil(50 / counted))

        def excess(size: int) -> float:
            return log_excess(_resampled_failure(pilot, center, value, size, eps, layers, seed), counted)

        number = smallest(excess, guess=math.ceil(1.3 * start), scan=1)
        if counted > delta:  # too rare to count: scaled as the normal limit is
            number = math.ceil(number * (_normal_quantile(delta) / eps) ** 2 * variance / start)
    number = max(number, least)
    low, high = (
        max(least, math.ceil(number * max(1 + sign * spread / variance, 0.0))) if variance > 1e-24 else number
        for sign in (-1, 1)
    )
    return SharpFilters(number, low, high, normal, resampled, math.sqrt(variance), center)


def living_filters(norm_x: np.ndarray, norm_y: np.ndarray, *, delta: float) -> int:
    """Return the fewest filters of which, except with probability delta, one is nonzero on each image.

    A black output has no angle.

    This follows from a pilot's squared norms: filters are independent, so N of them are all zero with the N-th power of
    the share of zero filters. Source: beyond the sources; [Nachum2022]_ corollary 1 assumes it.
    """
    dead = np.stack([np.asarray(norm_x) == 0, np.asarray(norm_y) == 0], axis=1)
    first, second, both = (float(share) for share in (*dead.mean(axis=0), dead.all(axis=1).mean()))
    return smallest(lambda size: log_excess(first**size + second**size - both**size, delta))


def filter_share_sd(inner: np.ndarray, norm_x: np.ndarray, norm_y: np.ndarray) -> float:
    """Return the standard deviation s of a filter's share in the output cosine, from a pilot as in `sharp_filters`."""
    return float(_filter_shares(inner, norm_x, norm_y)[2].std())


def _filter_shares(inner: np.ndarray, norm_x: np.ndarray, norm_y: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
    """Return the pilot as rows (inner product, squared norms), its cosine, and each filter's centered share in it."""
    pilot = _pilot(inner, norm_x, norm_y)
    if not (pilot[:, 1:].sum(axis=0) > 0).all():
        raise InputError("every filter's output is 0 for one of the images; is it all black?")
    rho, influence = filter_influence(pilot[:, 1], pilot[:, 2], pilot[:, 0])
    return pilot, float(rho), len(pilot) * influence


def _pilot(*columns: np.ndarray) -> np.ndarray:
    """Return one row a filter, of finite numbers."""
    pilot = np.stack([np.asarray(values, dtype=np.float64) for values in columns], axis=-1)
    if pilot.ndim != 2 or len(pilot) < 2:
        raise InputError(f"a pilot is made of vectors of one length, at least 2, not of shape {pilot.shape[:-1]}")
    if not np.isfinite(pilot).all():
        raise InputError("the pilot holds NaN or infinite values; did the layer that made it overflow?")
    return pilot


def _resampled_failure(
    pilot: np.ndarray,
    center: float,
    value: Callable[..., np.ndarray],
    size: int,
    eps: float,
    layers: int,
    seed: int,
) -> float:
    """Return the share of ``layers`` layers of ``size`` filters drawn from the pilot whose error exceeds eps."""
    generator = np.random.default_rng([seed, size])
    chunk = max(1, (1 << 21) // size)
    # One column at a time: gathering rows is ten times slower.
    columns = np.ascontiguousarray(pilot.T)
    failed = 0
    for start in range(0, layers, chunk):
        chosen = generator.integers(len(pilot), size=(min(chunk, layers - start), size))
        sums = (column.take(chosen).sum(axis=1) for column in columns)
        failed += int(np.count_nonzero(np.abs(value(*sums) - center) > eps))
    return failed / layers


def layer_cosines(inner: np.ndarray, norm_x: np.ndarray, norm_y: np.ndarray) -> np.ndarray:
    """Return cosines from inner products and squared norms.

    Infinite if an output vanishes, so that no band contains it.
    """
    norms = np.sqrt(norm_x * norm_y)
    cosines: np.ndarray = np.divide(inner, norms, out=np.full(norms.shape, np.inf), where=norms > 0)
    return cosines


def _normal_quantile(delta: float) -> float:
    """Two-sided normal quantile z with P(|g| > z) = delta."""
    from scipy.special import ndtri

    return float(-ndtri(delta / 2))
