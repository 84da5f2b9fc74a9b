r"""The exact distribution of the norm after many ReLU layers, by its Mellin transform.

The layer ratios are independent (rotation invariance), so :math:`\log\|h^L\|^2/\|x\|^2` is a sum of independent terms
with a closed transform. Tails follow from its inverse on a vertical line through the saddle point, which preserves
*relative* accuracy down to the tiny probabilities that a union over many samples needs. Beyond the sources.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from initscope.errors import InputError, check_between, check_count
from initscope.results import Result
from initscope.theory.norms.bounds import _widths
from initscope.theory.norms.law import active_units

__all__ = [
    "Probability",
    "backward_norm_failure",
    "deep_norm_failure",
    "gradient_norm_failure",
    "log_norm_moment",
    "norm_ratio_mean_sd",
]


@dataclass(frozen=True)
class Probability(Result):
    """A computed probability and a bound on its absolute error."""

    value: float
    error: float


@dataclass(frozen=True)
class _Layer:
    """The terms of one layer's transform: k/2 and the log weight of k active units; ``count`` layers of this width."""

    halves: np.ndarray
    log_weights: np.ndarray
    width: int
    count: int

    def between(self, low: float, high: float) -> _Layer:
        """Return the terms with ``low`` ≤ k < ``high``."""
        kept = (2 * self.halves >= low) & (2 * self.halves < high)
        return replace(self, halves=self.halves[kept], log_weights=self.log_weights[kept])

    def weight_below(self, high: float) -> float:
        """Return a bound on the probability that a layer has at least one, but fewer than ``high`` active units."""
        return self.count * float(np.exp(self.log_weights[2 * self.halves < high]).sum())

    @property
    def log_weight(self) -> float:
        """Logarithm of the probability of these terms, one layer."""
        top = float(self.log_weights.max())
        return top + math.log(float(np.exp(self.log_weights - top).sum()))

    def log_terms(self, real: float, t: np.ndarray) -> np.ndarray:
        r"""Logarithms of :math:`w_k\,(4/m)^s\,\Gamma(k/2+s)/\Gamma(k/2)`, s = real + it; shape (t, k)."""
        terms: np.ndarray = self.log_weights + _log_gamma_ratio(self.halves, real, t[:, None], 4.0 / self.width)
        return terms

    def log_moment(self, power: float) -> float:
        """Return the logarithm of the transform of one layer at a real point, to the accuracy a saddle point needs."""
        from scipy.special import gammaln

        terms = self.log_ratios + gammaln(self.halves + power)
        top = float(terms.max())
        return top + math.log(float(np.exp(terms - top).sum())) + power * math.log(4.0 / self.width)

    @cached_property
    def log_ratios(self) -> np.ndarray:
        """Logarithms of the weights over Γ(k/2)."""
        from scipy.special import gammaln

        ratios: np.ndarray = self.log_weights - gammaln(self.halves)
        return ratios

    def near(self, power: float) -> _Layer:
        """The terms that matter on the line through ``power``: the others are below e^-46 of the largest there."""
        terms = self.log_terms(power, np.zeros(1))[0].real
        kept = terms > terms.max() - 46.0
        return replace(self, halves=self.halves[kept], log_weights=self.log_weights[kept])

    def rate(self, real: float, t: float) -> float:
        """Return the lower bound on the decay of the transform's modulus per unit of t, from t on."""
        from scipy.special import digamma

        return self.count * float(digamma(self.halves[-1] + real + 1j * t).imag)


def _layers(widths: Sequence[int], *, negligible: float = 0.0) -> tuple[list[_Layer], float]:
    """Equal widths once, and the atom at zero: the probability that some layer has no active unit.

    The smallest numbers of active units that together weigh no more than ``negligible`` are left out.
    """
    layers, log_alive = [], 0.0
    for width, count in sorted(Counter(_widths(widths)).items()):
        counts, weights = active_units(width)
        if counts[0] == 0:
            log_alive += count * math.log1p(-weights[0])
            counts, weights = counts[1:], weights[1:]
        kept = (np.cumsum(weights) > negligible) & (weights > 0)
        layers.append(_Layer(counts[kept] / 2, np.log(weights[kept]), width, count))
    return layers, -math.expm1(log_alive)


_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)


def _stirling(z: np.ndarray) -> np.ndarray:
    """Return the series of log Γ(z) beyond (z - 1/2) log z - z + log(2π)/2; 1e-17 for |z| ≥ 15."""
    inverse = 1 / z
    square = inverse * inverse
    total = np.zeros_like(z)
    for coefficient in reversed(_STIRLING):
        total = total * square + coefficient
    return total * inverse


def _log_gamma_ratio(a: np.ndarray, real: float, t: np.ndarray, scale: float) -> np.ndarray:
    r"""Return :math:`\log c^s\,\Gamma(a+s)/\Gamma(a)`, c = scale, s = real + it, without cancellation at large a."""
    from scipy.special import gammaln, loggamma

    s = real + 1j * t
    a = np.broadcast_to(a, np.broadcast_shapes(a.shape, t.shape))
    # log(1 + s/a), each part with its own digits
    ratio = 0.5 * np.log1p((2 * real + (real * real + t * t) / a) / a) + 1j * np.arctan2(t, a + real)
    result: np.ndarray = s * np.log(scale * a) + (a - 0.5 + s) * ratio - s + _stirling(a + s) - _stirling(a)
    small = np.minimum(a, a + real) < 15
    if np.any(small):
        few = a[small]
        at = np.broadcast_to(s, a.shape)[small]
        result[small] = loggamma(few + at) - gammaln(few) + at * math.log(scale)
    return result


def _log_mellin(layers: Sequence[_Layer], real: float, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the logarithm of the product of the layers' transforms at real + it, and of the bound on its modulus."""
    total = np.zeros(t.shape, dtype=np.complex128)
    modulus = np.zeros(t.shape)
    for layer in layers:
        terms = layer.log_terms(real, t)
        top = terms.real.max(axis=1)
        scaled = np.exp(terms - top[:, None])
        total += layer.count * (np.log(scaled.sum(axis=1)) + top)
        modulus += layer.count * (np.log(np.abs(scaled).sum(axis=1)) + top)
    return total, modulus


def _log_moment(layers: Sequence[_Layer], power: float) -> float:
    return sum(layer.count * layer.log_moment(power) for layer in layers)


def log_norm_moment(widths: Sequence[int], power: float) -> float:
    r"""Return the logarithm of :math:`E[(\|h^L\|^2/\|x\|^2)^s]` (over networks whose output is not 0), He fan-out.

    .. math:: E[r^s; r>0] = \prod_l \sum_{k\ge1} \binom{n_l}{k} 2^{-n_l} \Bigl(\frac{4}{n_l}\Bigr)^s
              \frac{\Gamma(k/2+s)}{\Gamma(k/2)}, \qquad s > -\tfrac12

    >>> round(math.exp(log_norm_moment([100, 30], 2)), 10)      # (1 + 5/100)(1 + 5/30)
    1.225
    """
    check_between("power", power, -0.5, math.inf, hint="lower moments are infinite: a layer may have one active unit")
    return float(_log_mellin(_layers(widths)[0], power, np.zeros(1))[0][0].real)


def norm_ratio_mean_sd(widths: Sequence[int]) -> tuple[float, float]:
    r"""Return the mean and standard deviation of :math:`\|h^L\|/\|x\|` (norms, not squares) over networks, He fan-out.

    Beyond the sources; compare [ArpitBengio2019]_.

    >>> mean, sd = norm_ratio_mean_sd([1000])
    >>> round(mean, 5), round(sd, 4)            # 1 - 5/(8m) and sqrt(5/(4m)) to first order
    (0.99937, 0.0354)
    """
    mean = math.exp(log_norm_moment(widths, 0.5))
    return mean, math.sqrt(max(math.exp(log_norm_moment(widths, 1.0)) - mean * mean, 0.0))


def deep_norm_failure(widths: Sequence[int], low: float, high: float) -> Probability:
    r"""Exact probability that :math:`\|h^L\|^2/\|x\|^2` lies outside [``low``, ``high``] after ReLU layers of these
    widths.

    He fan-out (variance 2/n_l), no biases, one fixed input; widths may differ. With M(s) the transform of
    `log_norm_moment`,

    .. math:: P(r > b) = \frac{1}{2\pi i}\int_{c-i\infty}^{c+i\infty} M(s)\,b^{-s}\,\frac{ds}{s}, \quad c > 0,

    and with c < 0 and a sign for P(0 < r < a); the atom P(r = 0) is closed. The trapezoidal rule on the line through
    the saddle point converges exponentially; its aliasing (Chernoff's bound at a second point), its truncation and the
    rounding make up ``error``. For small ratios, few active units bring poles of M close to the line; they are
    separated by their number, each part with its own line, so that small probabilities are accurate to about twelve
    digits on both sides. ``low = 0`` or ``high = inf`` leave that side out. Beyond the sources; sharpens
    [ArpitBengio2019]_ theorem 1.

    >>> probability = deep_norm_failure([1000] * 50, 0.5, 2.0)
    >>> round(probability.value, 9), probability.error < 1e-12
    (0.179361855, True)
    """
    if not 0 <= low < high:
        raise InputError(f"low = {low} and high = {high} must satisfy 0 <= low < high; they bound the squared ratio")
    value, error = 0.0, 0.0
    if low > 0:
        below, atom = _lower_tail(widths, math.log(low))
        value += atom + below.value
        error += below.error
    if high < math.inf:
        above = _tail(_layers(widths)[0], math.log(high), +1)
        value += above.value
        error += above.error
    return Probability(min(value, 1.0), error + 1e-16 * value)


_NARROWER = 0.8
"""Ratio of the numbers of active units at which the lower tail is cut into parts."""


def _lower_tail(widths: Sequence[int], y: float) -> tuple[Probability, float]:
    """Return the probability of -inf < log r < y, and the atom.

    The transform has its poles at -k/2, k the active units of a layer. Layers with few active units have negligible
    weight, but their poles keep the line away from the saddle point of the others. So the networks are sorted by the
    least share of active units among their layers: those in which all layers have at least the share f, then those with
    a layer between 0.8 f and f and all others above, and so on, until what is left is negligible compared with the sum.
    """
    layers, atom = _layers(widths)
    share, kept = 0.5, layers
    while share > 0:  # begin where most of the weight is in the first part
        kept = [layer.between(share * layer.width, math.inf) for layer in layers]
        if sum(layer.weight_below(share * layer.width) for layer in layers) < 1e-3:
            break
        share = 0.0 if all(share * layer.width < 1 for layer in layers) else _NARROWER * share
    if share == 0:
        kept = layers
    value, error = 0.0, 0.0
    if all(layer.halves.size for layer in kept):
        first = _tail(kept, y, -1)
        value, error = first.value, first.error
    while share > 0:
        rest = sum(layer.weight_below(share * layer.width) for layer in layers)
        if rest <= 1e-14 * (value + atom) or rest == 0:
            return Probability(value, error + rest), atom
        lower = _NARROWER * share if any(_NARROWER * share * layer.width >= 1 for layer in layers) else 0.0
        slices = [layer.between(lower * layer.width, share * layer.width) for layer in layers]
        above = [layer.between(share * layer.width, math.inf) for layer in layers]
        part = _some_in_slice(slices, above, y, 1e-15 * (value + atom))
        value, error, share = value + part.value, error + part.error, lower
    return Probability(value, error), atom


def _some_in_slice(slices: list[_Layer], above: list[_Layer], y: float, negligible: float) -> Probability:
    """Yield networks with one layer or more in its slice and all others above it, by the number in the slice."""
    value, error = 0.0, 0.0
    depth = sum(layer.count for layer in slices)
    for inside in range(1, depth + 1):
        added = 0.0
        for counts in _compositions(inside, [layer.count if layer.halves.size else 0 for layer in slices]):
            parts, log_ways = [], 0.0
            for layer, other, count in zip(slices, above, counts, strict=True):
                log_ways += math.log(math.comb(layer.count, count))
                parts += [replace(layer, count=count)] if count else []
                parts += [replace(other, count=layer.count - count)] if layer.count > count else []
            if any(not part.halves.size for part in parts):
                continue
            if log_ways + sum(part.count * part.log_weight for part in parts) < math.log(max(negligible, 1e-320)):
                continue
            tail = _tail(parts, y, -1)
            ways = math.exp(log_ways)
            added, error = added + ways * tail.value, error + ways * tail.error
        value += added
        if inside > 1 and added <= max(negligible, 1e-16 * value):
            break
    return Probability(value, error)


def _compositions(total: int, most: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield every way to write ``total`` as a sum of whole numbers up to ``most``."""
    if not most:
        if total == 0:
            yield ()
        return
    for first in range(min(total, most[0]) + 1):
        for others in _compositions(total - first, most[1:]):
            yield (first, *others)


def _tail(layers: Sequence[_Layer], y: float, side: int) -> Probability:
    """Probability of log r beyond y on ``side`` (+1 above, -1 below), by the transform through its saddle point."""
    c, log_height, most = _saddle(layers, y, side)
    if log_height < -700:
        return Probability(0.0, math.exp(-700))
    log_aim = log_height - 34.0
    step, aliasing = _spacing(layers, y, side, c, most, log_aim)
    layers = [layer.near(side * c) for layer in layers]
    total, size, truncation, start = 0.0, 0.0, math.inf, 0
    while truncation > math.exp(log_aim):
        t = step * np.arange(start, start + 64)
        log_m, log_bound = _log_mellin(layers, side * c, t)
        s = side * c + 1j * t
        values = np.exp(log_m - s * y) / (side * s)
        values[0] *= 0.5 if start == 0 else 1.0
        total += float(values.real.sum())
        size += float(np.abs(values).sum())
        start += 64
        last = float(t[-1])
        rate = sum(layer.rate(side * c, last) for layer in layers)
        truncation = math.exp(float(log_bound[-1]) - side * c * y) / last * (step + 1 / rate) / math.pi
    value = total * step / math.pi
    depth = sum(layer.count for layer in layers)
    rounding = 2.0**-52 * (8 * depth + 4 * abs(log_height)) * size * step / math.pi
    return Probability(max(value, 0.0), aliasing + truncation + rounding)


def _saddle(layers: Sequence[_Layer], y: float, side: int) -> tuple[float, float, float]:
    """Return the point at which M(s)e^(-sy)/s is least on the real line, |s| on ``side``; log of its height.

    The largest |s|.
    """
    from scipy.optimize import minimize_scalar

    spread = math.sqrt(sum(layer.count * 5 / layer.width for layer in layers))
    # Left of -k/2, k the fewest active units, the transform has its first pole.
    most = 50 * (1 + abs(y)) / min(spread, spread**2)
    if side < 0:
        most = min(most, *(float(layer.halves[0]) for layer in layers))
    # Far inside the bulk the factor 1/s keeps the saddle about one distance away from 0.
    least = min(0.05 / (abs(y) + 10 * spread + spread**2), most / 4)

    def height(log_c: float) -> float:
        c = side * math.exp(log_c)
        return _log_moment(layers, c) - c * y - log_c

    reach = 0.5 if side > 0 else 0.9
    minimum = minimize_scalar(
        height, bounds=(math.log(least), math.log(reach * most)), method="bounded", options={"xatol": 1e-3}
    )
    return math.exp(float(minimum.x)), float(minimum.fun), most


def _spacing(
    layers: Sequence[_Layer], y: float, side: int, c: float, most: float, log_aim: float
) -> tuple[float, float]:
    """Step of the trapezoidal rule along the line through ``c``, and the error by aliasing that it leaves."""
    # A second point beyond c for the bound on aliasing from the far side.
    second = c + min(c, (most - c) / 2)
    far = _log_moment(layers, side * second) - side * second * y
    step = 2 * math.pi / max(-log_aim / c, (far - log_aim) / (second - c))
    aliasing = 2 * math.exp(-2 * math.pi * c / step) + 2 * math.exp(far - (second - c) * 2 * math.pi / step)
    return step, aliasing


def backward_norm_failure(widths: Sequence[int], low: float, high: float) -> Probability:
    r"""Probability that :math:`\|\partial\ell/\partial a^1\|^2/\|\delta\|^2` lies outside [``low``, ``high``], He
    fan-out.

    ``widths`` are :math:`n_1, \dots, n_L` and :math:`\delta = \partial\ell/\partial a^L`. Each step back multiplies by
    a mask and by :math:`(W^{l+1})^T` with variance :math:`2/n_{l+1}`, so the ratio is that of a forward pass through
    :math:`n_1, \dots, n_{L-1}` times :math:`n_1/n_L`. Exact if the error is independent of masks and weights (footnote
    1 of [ArpitBengio2019]_); in a network it is so up to one direction per layer, an effect of order 1/n.
    """
    return gradient_norm_failure(widths, 1, low, high)


def gradient_norm_failure(widths: Sequence[int], layer: int, low: float, high: float) -> Probability:
    r"""Return probability that :math:`\|\partial\ell/\partial W^l\|_F^2/(\|\delta\|^2\|x\|^2)` lies outside [``low``,
    ``high``].

    Beyond the sources; compare [ArpitBengio2019]_.

    The gradient norm is :math:`\|\partial\ell/\partial a^l\|\,\|h^{l-1}\|`: a forward pass through
    :math:`n_1,\dots,n_{l-1}` and a backward pass through :math:`n_{L-1},\dots,n_l`, together L-1 independent ratios,
    times :math:`n_l/n_L` (He fan-out). Assumptions as in `backward_norm_failure`; sharpens theorem 3, for unequal
    widths too.
    """
    widths = _widths(widths)
    check_count("layer", layer, most=len(widths), hint=f"the network has {len(widths)} layers")
    scale = widths[layer - 1] / widths[-1]
    if len(widths) == 1:
        return Probability(float(not low <= scale <= high), 0.0)
    return deep_norm_failure(widths[:-1], low / scale, high / scale)
