r"""Gordon's comparison for a Gaussian ReLU layer: the replica-symmetric threshold is a rigorous upper bound.

x ↦ ReLU(Wx), W of shape m×n with independent standard normal entries. ``docs/gordon.rst`` has the derivation.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from initscope.errors import check_count
from initscope.theory.injectivity._estimate import Estimate

__all__ = ["gordon_bound", "gordon_threshold"]

_NEGLIGIBLE = 45.0
"""Nats below the peak at which the integrand over the cutoff is left out: e^-45 is below the rounding of a float."""
_CUTOFFS, _CONTOUR = 160, 500
"""Nodes over the cutoff and along the contour; doubling them changes no result by more than 1e-9 of its value."""
_FEWEST_INSIDE = 8
"""Points of the search grid that the integrand over the cutoff must cover: fewer, and the grid is refined."""
_FARTHEST = 55.0
_ANGLE = math.radians(75.0)
_CROSSINGS = 0.5 / (1 + np.exp(-np.linspace(-18.0, 7.0, 250)))
"""Distances from 0, up to the branch point 1/2, at which the contour may cross the real axis."""


def gordon_bound(m: int, n: int, *, active: int | None = None) -> float:
    r"""Return the upper bound on 1 - p(m, n), the probability that the layer is not injective.

    .. math:: 1 - p_{m,n} \le 2\, P\Big[\sum_{i \le N-n+1} h_{(i)}^2 \le \|g\|^2\Big],
       \qquad g \in R^n,\; h \in R^m \text{ standard normal}

    Here N is the number of positive h_i and h_(1) ≤ h_(2) ≤ … are these in order; the sum is 0 for N < n. Rigorous at
    every size. Weaker than `union_failure_bound` for small n, stronger from n ≈ 150 on (at δ = .01). Beyond the
    sources, which name the replica-symmetric value without a proof: [Gordon1988]_, [Maillard2022]_.

    The probability is computed, not sampled: given the cutoff t, the (n - 1)-th largest entry of h, the sum has
    m - n + 1 independent terms, and its distribution is one contour integral; a second integral runs over t.

    Parameters
    ----------
    m, n : int
        Rows and columns of W.
    active : int, optional
        Bound the probability that some x ≠ 0 has fewer than this number of positive products; n if it is not given.
        The proof is the same, with the sum over i ≤ N - active + 1.

    Returns
    -------
    float
        The bound, at most 1.

    >>> gordon_bound(8400, 1000) < 1e-3 < gordon_bound(8000, 1000)
    True
    """
    m, n = check_count("m", m), check_count("n", n)
    active = n if active is None else check_count("active", active, most=m)
    if m < 3 * n - 1 and active >= n:  # never injective: see cover_threshold
        return 1.0
    if active == 1:
        return min(1.0, 2 * math.exp(_log_sum_is_small(np.array([math.inf]), m, n)[0]))
    return min(1.0, 2 * _over_cutoffs(m, n, active - 1))


def gordon_threshold() -> Estimate:
    r"""Return the expansivity above which `gordon_bound` tends to 0: a rigorous upper bound on the threshold.

    .. math:: \alpha\int_0^s t^2\varphi(t)\,dt = 1,\qquad \alpha\,(1 - \Phi(s)) = 1

    As n → ∞ the cutoff and both sides of the inequality concentrate. The equations are those of `rs_threshold`, which
    is thereby a theorem; it lies below the Euler surrogate's 8.34, so that the surrogate is not the threshold. Beyond
    the sources [Maillard2022]_.

    >>> round(gordon_threshold().value, 6)
    7.647695
    """
    from scipy.integrate import quad
    from scipy.optimize import brentq
    from scipy.special import ndtr

    def excess(s: float) -> float:
        kept = quad(lambda t: t * t * math.exp(-t * t / 2) / math.sqrt(2 * math.pi), 0.0, s, epsabs=1e-14)[0]
        return float(kept / ndtr(-s) - 1)

    s = brentq(excess, 0.5, 3.0, xtol=1e-14)
    return Estimate(float(1 / ndtr(-s)), 1e-11, "Gordon's comparison; rigorous upper bound, closed equation")


def _over_cutoffs(m: int, n: int, kept: int) -> float:
    """Return P[sum ≤ ‖g‖²], averaged over the cutoff, the ``kept``-th largest of m standard normal values."""
    from scipy.special import bdtr, betaln, log_ndtr

    def log_density(t: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        tails = (kept - 1) * log_ndtr(-t) + (m - kept) * log_ndtr(t)
        return np.asarray(tails - t * t / 2 - 0.5 * math.log(2 * math.pi) - betaln(kept, m - kept + 1))

    def log_integrand(t: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return log_density(t) + _log_sum_is_small(t, m - kept, n)

    low, high = 0.0, math.sqrt(2 * math.log(m)) + 8.0
    inside = np.empty(0)
    while len(inside) < _FEWEST_INSIDE:  # one peak: what is not within one step of its highest point is left out
        grid = np.linspace(low, high, 400)[1:]
        heights = log_integrand(grid)
        step = grid[1] - grid[0]
        inside = grid[heights >= np.max(heights) - _NEGLIGIBLE]
        low, high = max(0.0, inside[0] - step), inside[-1] + step
    nodes, weights = np.polynomial.legendre.leggauss(_CUTOFFS)
    t = low + (high - low) * (nodes + 1) / 2
    few_positive = float(bdtr(kept - 1, m, 0.5))  # no positive cutoff: the sum is 0
    return float(few_positive + (np.exp(log_integrand(t)) @ weights) * (high - low) / 2)


def _log_sum_is_small(t: npt.NDArray[np.float64], terms: int, n: int) -> npt.NDArray[np.float64]:
    r"""log P[Z ≤ 0], Z = X_1 + … + X_M - χ²_n, for each cutoff t; M = ``terms``, X = h² where 0 < h < t and else 0.

    h is normal below t. With E e^{-sZ} = E e^{-sΣX} · (1 - 2s)^{-n/2},

    .. math:: P[Z \le 0] = \frac{1}{2\pi i}\int E e^{-sZ}\,\frac{ds}{s}

    along a hyperbola that crosses the real axis at the saddle point between 0 and 1/2. It opens to the right around the
    branch cut from 1/2 to ∞. Between it and the vertical line through the saddle point there is no singularity, Re s >
    0, so that \|E e^{-sX}\| ≤ 1, and (1 - 2s)^{-n/2}/s decays as a power: both integrals agree. If Z is below 0 on
    average, this saddle point is close to the pole at 0 and the integrand would grow away from it: the hyperbola then
    crosses at the saddle point below 0, and the pole adds 1.
    """
    side = np.where(_mean_term(t) * terms >= n, 1.0, -0.98)  # from below -1/2 nothing is gained
    points = side[:, None] * _CROSSINGS
    heights = _log_transform(points, t[:, None], terms, n).real - np.log(np.abs(points))
    best = np.arange(len(t)), np.argmin(heights, axis=1)
    saddle, height = points[best], np.where(side > 0, heights[best], 0.0)
    spread = _spread(saddle, t, terms, n)
    theta = np.linspace(-1.0, 1.0, 2 * _CONTOUR + 1) * (math.asinh(1 / np.min(spread)) + _FARTHEST / math.sqrt(n))
    real, imaginary = (np.cosh(theta) - 1) * math.cos(_ANGLE), np.sinh(theta) * math.sin(_ANGLE)
    s = saddle[:, None] + spread[:, None] * (real + 1j * imaginary)
    slope = spread[:, None] * (np.sinh(theta) * math.cos(_ANGLE) + 1j * np.cosh(theta) * math.sin(_ANGLE))
    values = np.exp(_log_transform(s, t[:, None], terms, n) - height[:, None]) * slope / s
    integral = (values.sum(axis=1) * (theta[1] - theta[0]) / (2j * math.pi)).real
    with np.errstate(divide="ignore"):
        return np.asarray(np.minimum(height + np.log(np.maximum(integral + (side < 0), 0.0)), 0.0))


def _mean_term(t: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the mean of h² if 0 < h < t and else 0, for h standard normal below t."""
    from scipy.special import ndtr

    finite = np.where(np.isfinite(t), t, 0.0)
    density = np.where(np.isfinite(t), np.exp(-finite * finite / 2) / math.sqrt(2 * math.pi), 0.0)
    return np.asarray((ndtr(t) - 0.5 - finite * density) / ndtr(t))


def _spread(saddle: npt.NDArray[np.float64], t: npt.NDArray[np.float64], terms: int, n: int) -> npt.NDArray[np.float64]:
    """Return the width of the integrand at the saddle point, from the second difference of its logarithm."""
    step = np.minimum(np.abs(saddle), 0.5 - np.abs(saddle)) / 8
    logs = [_log_transform(saddle + k * step, t, terms, n).real - np.log(np.abs(saddle + k * step)) for k in (-1, 0, 1)]
    curvature = (logs[0] - 2 * logs[1] + logs[2]) / step**2
    distance = np.where(saddle > 0, 0.5 - saddle, -saddle) / 2  # to the branch point, or to the pole
    return np.asarray(np.minimum(1 / np.sqrt(np.maximum(curvature, 1.0)), distance))


def _log_transform(
    s: npt.NDArray[np.generic], t: npt.NDArray[np.float64], terms: int, n: int
) -> npt.NDArray[np.complex128]:
    """log E e^{-s(ΣX - χ²_n)}, up to a multiple of 2πi."""
    from scipy.special import erf, ndtr

    root = np.sqrt(1 + 2 * s.astype(np.complex128))
    inside = np.where(np.isfinite(t), erf(np.where(np.isfinite(t), t, 1.0) * root / math.sqrt(2)), 1.0)
    single = (0.5 + 0.5 * inside / root) / ndtr(t)
    return np.asarray(terms * np.log(single) - n / 2 * np.log(1 - 2 * s.astype(np.complex128)))
