r"""The finite-temperature Parisi formula for the free entropy of E(x) = #{active rows}, with k levels or all of them.

Overlaps q_0 < … < q_k < 1 and levels 0 < x_1 < … < x_k < 1; Λ_k = 1 - q_k, Λ_{i-1} = Λ_i + x_i(q_i - q_{i-1}):

.. math:: \Phi(\beta) = \inf\;\tfrac12\Big[\log\Lambda_k + \frac{q_0}{\Lambda_0}
   + \sum_i\frac1{x_i}\log\frac{\Lambda_{i-1}}{\Lambda_i}\Big] + \alpha\int\gamma_{q_0}\phi_0,\quad
   \phi_{i-1} = \frac1{x_i}\log\gamma_{q_i-q_{i-1}}\star e^{x_i\phi_i},\quad
   \phi_k = \log\gamma_{1-q_k}\star e^{-\beta\theta(h)}

[Maillard2022]_. k = 0 is the symmetric ansatz; as β → ∞ the energy tends to `ground_state_energy` of `parisi`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from initscope.errors import check_between, check_count
from initscope.results import Result
from initscope.theory.injectivity.parisi import extrapolate
from initscope.theory.injectivity.parisi_functional import Floats, Grid

__all__ = ["FreeEntropy", "free_entropy"]

GRID = Grid(4096)
DEEPEST = 6
LARGEST_BETA = 150.0
"""The boundary φ_k bends on the scale √(1 - q_k), which falls like β^(-1/2): beyond, the grid is too coarse."""


@dataclass(frozen=True)
class FreeEntropy(Result):
    """Φ(β) and derived numbers, per input, at the optimum of an ansatz.

    ``energy`` is -∂Φ/∂β, the mean number of active rows at that temperature, and ``entropy`` Φ + β·energy, relative to
    the uniform distribution of directions: a continuous space has entropy -∞ at zero temperature. ``error`` is that of
    the extrapolation in the levels.
    """

    alpha: float
    beta: float
    levels: int
    value: float
    error: float
    energy: float
    entropy: float
    q: tuple[float, ...]
    x: tuple[float, ...]


@dataclass(frozen=True)
class _Point:
    """Value and gradient (in q_0 … q_k, x_1 … x_k) of the functional, and the energy."""

    value: float
    gradient: Floats
    energy: float


def _boundary(q: float, beta: float) -> tuple[Floats, Floats, Floats]:
    """φ_k, its slope in h and -∂φ_k/∂β on the grid; logarithms, since e^{-β} is below the rounding of 1."""
    from scipy.special import log_ndtr

    scale = math.sqrt(1 - q)
    h = GRID.h / scale
    below = math.log(-math.expm1(-beta)) + log_ndtr(-h)
    value = np.logaddexp(-beta, below)
    density = -0.5 * h * h - 0.5 * math.log(2 * math.pi) + math.log(-math.expm1(-beta))
    slope = -np.exp(density - value) / scale
    energy = np.exp(-beta + log_ndtr(h) - value)
    return value, slope, energy


def _evaluate(alpha: float, beta: float, q: Floats, x: Floats) -> _Point:
    """Compute the functional, by a backward sweep for φ and a forward one for P; gradients by the envelope theorem."""
    k, gaps = len(x), np.diff(q)
    value, slope, energy = _boundary(float(q[-1]), beta)
    phi, slopes = [value], [slope]
    for i in range(k - 1, -1, -1):
        top = float(phi[0].max())  # e^{xφ} without underflow where the whole function is low
        u, du = GRID.smooth_with_slope(np.exp(x[i] * (phi[0] - top)), float(gaps[i]))
        u = np.maximum(u, 1e-300)
        phi.insert(0, top + np.log(u) / x[i])
        slopes.insert(0, du / (x[i] * u))
    density = [GRID.gaussian(float(q[0]))]
    for i in range(k):
        tilted = density[-1] * np.exp(-x[i] * phi[i])
        density.append(np.exp(x[i] * phi[i + 1]) * GRID.smooth(tilted, float(gaps[i])))
    means = np.array([GRID.integrate(p * f) for p, f in zip(density, phi, strict=True)])
    rates = np.array([GRID.integrate(p * s * s) for p, s in zip(density, slopes, strict=True)])
    by_q = 0.5 * (np.append(0.0, x) - np.append(x, 1.0)) * rates
    by_x = np.diff(means) / x
    entropy, by_entropy = _entropy(q, x)
    gradient = by_entropy + alpha * np.concatenate([by_q, by_x])
    return _Point(entropy + alpha * float(means[0]), gradient, alpha * GRID.integrate(density[-1] * energy))


def _entropy(q: Floats, x: Floats) -> tuple[float, Floats]:
    """½[log Λ_k + q_0/Λ_0 + Σ x_i⁻¹ log(Λ_{i-1}/Λ_i)] and its gradient."""
    gaps = np.diff(q)
    response = (1 - q[-1]) + np.append(np.cumsum((x * gaps)[::-1])[::-1], 0.0)
    logs = np.log(response[:-1] / response[1:])
    value = 0.5 * (math.log(response[-1]) + q[0] / response[0] + float(np.sum(logs / x)))
    # By Λ_i: 1/x_{i+1} from the ratio below it, -1/x_i from that above, and the two end terms.
    by_response = (np.append(1 / x, 1.0) - np.append(0.0, 1 / x)) / response
    by_response[0] -= q[0] / response[0] ** 2
    total = np.cumsum(by_response)  # Λ_0 … Λ_i all hold what is added at level i and above
    by_q = np.zeros_like(q)
    by_q[0] = 1 / response[0]
    by_q[1:] += total[:-1] * x
    by_q[:-1] -= total[:-1] * x
    by_q[-1] -= total[-1]
    by_x = total[:-1] * gaps - logs / x**2
    return value, 0.5 * np.concatenate([by_q, by_x])


def _unpack(point: Floats) -> tuple[Floats, Floats]:
    """Free coordinates → q and x, each a sum of shares of 1 (softmax, the last coordinate being 0)."""
    k = (len(point) - 1) // 2
    shares = _softmax(np.append(point[: k + 1], 0.0))  # q_0, the gaps, 1 - q_k
    levels = _softmax(np.append(point[k + 1 :], 0.0))
    return np.cumsum(shares)[:-1], np.cumsum(levels)[:-1]


def _softmax(values: Floats) -> Floats:
    shifted = np.exp(values - values.max())
    return np.asarray(np.maximum(shifted / shifted.sum(), 1e-14))


def _pull_back(point: Floats, gradient: Floats) -> Floats:
    """Return the gradient in the free coordinates."""
    k = (len(point) - 1) // 2
    parts = []
    for values, slopes in ((point[: k + 1], gradient[: k + 1]), (point[k + 1 :], gradient[k + 1 :])):
        shares = _softmax(np.append(values, 0.0))
        by_share = np.append(np.cumsum(slopes[::-1])[::-1], 0.0)  # a share raises all sums from it on
        parts.append((shares * (by_share - shares @ by_share))[:-1])
    return np.concatenate(parts)


def _initial_points(alpha: float, beta: float, levels: int) -> list[Floats]:
    """Return starting points: the optimum with one level less; for one level also the scaling of zero temperature."""
    if levels == 0:
        return [_pack(np.array([beta / (1 + beta)]), np.array([]))]
    q, x = _optimum(alpha, beta, levels - 1)[:2]
    if levels == 1:
        cold = _pack(np.array([0.8, 1 - 0.3 / (1 + beta)]), np.array([3 / (6 + beta)]))
        return [_pack(np.array([0.9 * q[0], (1 + q[0]) / 2]), np.array([0.5])), cold]
    k = levels - 1
    finer = np.interp(np.arange(levels + 1) / levels, np.arange(k + 1) / k, q)
    here, there = (np.arange(k) + 0.5) / k, (np.arange(levels) + 0.5) / levels
    inner = np.interp(there, here, np.log(x)) + np.linspace(-0.2, 0.3, levels)
    # And the same optimum with its widest step of q cut in two, which is nearly as good.
    widest = int(np.argmax(np.diff(q)))
    cut = np.insert(q, widest + 1, q[widest : widest + 2].mean())
    doubled = np.insert(x, widest, 0.95 * x[widest])
    return [_pack(finer, np.minimum(np.exp(inner), 1 - 0.5 ** np.arange(1, levels + 1))), _pack(cut, doubled)]


def _pack(q: Floats, x: Floats) -> Floats:
    """Free coordinates of q and x."""
    shares, levels = (np.maximum(np.diff(np.concatenate([[0.0], part, [1.0]])), 1e-9) for part in (q, x))
    return np.concatenate([np.log(shares[:-1] / shares[-1]), np.log(levels[:-1] / levels[-1])])


@cache
def _optimum(alpha: float, beta: float, levels: int) -> tuple[Floats, Floats, float, float]:
    """q, x, Φ and the energy at the least value found with ``levels`` levels."""
    from scipy.optimize import minimize

    def cost(point: Floats) -> tuple[float, Floats]:
        with np.errstate(all="ignore"):  # far from the optimum e^{xφ} may leave the range of floats
            evaluated = _evaluate(alpha, beta, *_unpack(point))
            slope = _pull_back(point, evaluated.gradient)
        bad = not np.isfinite(evaluated.value) or not np.isfinite(slope).all()
        return (1e6, np.zeros_like(point)) if bad else (evaluated.value, slope)

    options: Any = {"maxiter": 1000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 30}
    bounds = [(-25.0, 25.0)] * (2 * levels + 1)
    tried = [
        minimize(cost, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        for start in _initial_points(alpha, beta, levels)
    ]
    best = min(tried, key=lambda minimum: float(minimum.fun))
    q, x = _unpack(best.x)
    return q, x, float(best.fun), _evaluate(alpha, beta, q, x).energy


def free_entropy(alpha: float, beta: float, levels: int | None = None) -> FreeEntropy:
    r"""Free entropy Φ(β) per input of a Gaussian layer's count of active rows: RS (0), 1-RSB (1), k-RSB, full (None).

    .. math:: \Phi(\beta) = \lim_{n\to\infty}\frac1n\log\int_{S^{n-1}}d\mu(x)\,e^{-\beta\,\#\{\mu: (Wx)_\mu > 0\}}

    The Parisi formula of [Maillard2022]_ at finite temperature. More levels lower Φ; None adds levels until one changes
    less than 1e-9, or up to six, and extrapolates Φ as at zero temperature (the energy is that of the last level). An
    ansatz of given depth has no error but that of the optimum and the grid, a relative 1e-7.

    Parameters
    ----------
    alpha
        Expansivity m/n.
    beta
        Inverse temperature, at most 150.
    levels
        Steps of replica symmetry breaking.

    >>> found = free_entropy(3.0, 1.0, levels=0)
    >>> found.energy < 1.5 and found.entropy < 0          # half of the rows is the mean at infinite temperature
    True
    """
    check_between("alpha", alpha, 0.0, 100.0)
    check_between("beta", beta, 0.0, LARGEST_BETA, hint="the zero-temperature limit is ground_state_energy")
    if levels is None:
        values = [_optimum(alpha, beta, 0)[2]]
        while len(values) <= DEEPEST and (len(values) < 2 or values[-2] - values[-1] > 1e-9):
            values.append(_optimum(alpha, beta, len(values))[2])
        depth = len(values) - 1
        value, error = extrapolate(values[1:])
    else:
        depth, error = check_count("levels", levels, least=0, most=DEEPEST + 2), 0.0
        value = _optimum(alpha, beta, depth)[2]
    q, x, _, energy = _optimum(alpha, beta, depth)
    return FreeEntropy(
        alpha, beta, depth, value, error, energy, value + beta * energy, tuple(q.tolist()), tuple(x.tolist())
    )
