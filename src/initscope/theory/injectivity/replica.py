r"""Replica-symmetric and one-step thresholds: e(α) = 1, e the least number of active rows of Wx per input.

RS is a scalar equation; 1-RSB has three parameters and needs quadrature. Both lie above the full-RSB value of `parisi`.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from initscope.errors import check_between
from initscope.theory.injectivity._estimate import Estimate

__all__ = ["FULL_RSB", "one_rsb_energy", "one_rsb_threshold", "rs_energy", "rs_free_entropy", "rs_threshold"]

FULL_RSB = 6.69805
"""The value of `parisi.full_rsb_threshold` to the digits shown, for those who need no more and cannot wait (tested)."""
SATISFIABLE = 2.0
"""Below α = 2 some x has no active row at all (Cover 1965): the ground-state energy is 0."""


def _density(s: float) -> float:
    return math.exp(-s * s / 2) / math.sqrt(2 * math.pi)


def _mass(s: float) -> float:
    return math.erfc(-s / math.sqrt(2)) / 2


def rs_energy(alpha: float) -> float:
    r"""Replica-symmetric ground-state energy per input.

    .. math:: \alpha\,(\Phi(s) - \tfrac12 - s\varphi(s)) = 1,\qquad e = \alpha\,(1 - \Phi(s))

    0 for α ≤ 2. A lower bound on the energy of every deeper ansatz.

    >>> rs_energy(1.5)
    0.0
    """
    from scipy.optimize import brentq

    alpha = check_between("alpha", alpha, 0.0, math.inf)
    if alpha <= SATISFIABLE:
        return 0.0
    s = brentq(lambda s: alpha * (_mass(s) - 0.5 - s * _density(s)) - 1, 0.0, 40.0, xtol=1e-15)
    return alpha * (1 - _mass(s))


def rs_threshold() -> Estimate:
    r"""Return the expansivity with replica-symmetric energy 1.

    Source: the replica-symmetric value of [Maillard2022]_; the closed equation is ours.

    .. math:: 2\Phi(s) - s\varphi(s) = \tfrac32,\qquad \alpha = \frac1{1 - \Phi(s)}

    A rigorous upper bound on the true threshold: `gordon_threshold` arrives at the same equation by comparison.

    >>> round(rs_threshold().value, 4)
    7.6477
    """
    from scipy.optimize import brentq

    s = brentq(lambda s: 2 * _mass(s) - s * _density(s) - 1.5, 0.5, 5.0, xtol=1e-15)
    return Estimate(
        1 / (1 - _mass(s)), 1e-12, "replica symmetric; rigorous upper bound by Gordon's comparison, closed equation"
    )


def rs_free_entropy(alpha: float, beta: float) -> float:
    r"""Replica-symmetric free entropy per input at inverse temperature β.

    Source: the free entropy of [Maillard2022]_ for constant q(x).

    .. math:: \Phi(\beta) = \inf_q\; \tfrac12\log(1-q) + \frac{q}{2(1-q)}
       + \alpha\int Dz\,\log\!\Big[e^{-\beta} + (1-e^{-\beta})\,\Phi\Big(-\sqrt{\tfrac{q}{1-q}}\,z\Big)\Big]

    −Φ(β)/β tends to `rs_energy` as β → ∞, with corrections of order log β / β.

    >>> abs(rs_free_entropy(3.0, 1e-9)) < 1e-8
    True
    """
    from scipy.optimize import minimize_scalar

    check_between("alpha", alpha, 0.0, math.inf)
    check_between("beta", beta, 0.0, math.inf, hint="the zero-temperature limit is rs_energy")

    def free_entropy(logit: float) -> float:
        odds = math.exp(logit)  # q / (1 - q)
        return 0.5 * odds - 0.5 * math.log1p(odds) + alpha * _log_weight(math.sqrt(odds), beta)

    minimum = minimize_scalar(
        free_entropy, bounds=(-30.0, 2 * math.log(beta + 10) + 10), method="bounded", options={"xatol": 1e-10}
    )
    return float(minimum.fun)


def _log_weight(slope: float, beta: float) -> float:
    """∫Dz log[e^{-β} + (1 - e^{-β}) Φ(-slope·z)], with the nodes gathered where the integrand bends."""
    from scipy.special import log_ndtr

    nodes, weights = np.polynomial.legendre.leggauss(64)
    # The integrand bends from 0 to -β near z = 0 on the scale 1/slope and at z ≈ √(2β)/slope.
    bend = math.sqrt(2 * beta) / slope
    knots = np.unique(
        np.clip([-9, -6 / slope, 0, 0.5 * bend, bend - 4 / slope, bend, bend + 4 / slope, 2 * bend, 1, 3, 9], -9, 9)
    )
    middle, half = (knots[1:] + knots[:-1]) / 2, (knots[1:] - knots[:-1]) / 2
    z = middle[:, None] + half[:, None] * nodes
    inside = np.logaddexp(-beta, math.log(-math.expm1(-beta)) + log_ndtr(-slope * z))
    return float(np.sum(half[:, None] * weights * np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * inside))


@cache
def _gauss_legendre() -> tuple[np.ndarray, np.ndarray]:
    """Panels of Gauss–Legendre nodes on [-9, 9]: 1-RSB integrands are analytic on the scale of √(1 - q0)."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    edges = np.linspace(-9.0, 9.0, 37)
    half = (edges[1] - edges[0]) / 2
    grid = (edges[:-1, None] + half + half * nodes).ravel()
    return grid, np.tile(half * weights, len(edges) - 1)


def _one_rsb(alpha: float, chi: float, q0: float, c: float) -> float:
    """Return the 1-RSB functional at one point; see `one_rsb_energy`."""
    from initscope.theory.injectivity.parisi_functional import first_step

    z, weights = _gauss_legendre()
    field = math.sqrt(q0) * z
    f0 = first_step(field, chi, 1 - q0, c).value
    mean = float(np.sum(weights * np.exp(-z * z / 2) * f0)) / math.sqrt(2 * math.pi)
    spread = chi + c * (1 - q0)
    return -alpha * mean - 0.5 * (q0 / spread + math.log(spread / chi) / c)


@cache
def _one_rsb_optimum(alpha: float) -> tuple[float, float]:
    """Energy and slope of the best 1-RSB point at ``alpha``."""
    from scipy.optimize import minimize

    def cost(point: np.ndarray) -> float:
        return -_one_rsb(alpha, math.exp(point[0]), 1 / (1 + math.exp(-point[1])), math.exp(point[2]))

    start = np.array([math.log(0.3), 1.5, math.log(3.0)])
    best = minimize(cost, start, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-13, "maxiter": 2000})
    best = minimize(cost, best.x, method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-15, "maxiter": 2000})
    chi, q0, c = math.exp(best.x[0]), 1 / (1 + math.exp(-best.x[1])), math.exp(best.x[2])
    spread = chi + c * (1 - q0)
    entropy = 0.5 * (q0 / spread + math.log(spread / chi) / c)
    return -float(best.fun), (-float(best.fun) + entropy) / alpha


def one_rsb_energy(alpha: float) -> float:
    r"""Ground-state energy per input with one step of replica symmetry breaking (T = 0).

    .. math:: e = \sup_{\chi, q_0, c}\; -\alpha\int\gamma_{q_0} f_0
       - \frac12\Big[\frac{q_0}{\chi + c(1-q_0)} + \frac1c\log\frac{\chi + c(1-q_0)}{\chi}\Big],\qquad
       f_0 = \frac1c\log\,\gamma_{1-q_0}\star e^{-c\min(1,\,h_+^2/2\chi)}

    The convolution is closed (`parisi_functional.first_step`), the outer integral Gauss–Legendre.
    """
    alpha = check_between("alpha", alpha, 0.0, math.inf)
    return 0.0 if alpha <= SATISFIABLE else _one_rsb_optimum(alpha)[0]


def one_rsb_threshold() -> Estimate:
    """Return the expansivity with 1-RSB energy 1, by Newton's method with the slope at the optimum (envelope theorem).

    Source: the 1-RSB value of [Maillard2022]_, 'Physics point of view'.

    >>> round(one_rsb_threshold().value, 4)
    6.7157
    """
    alpha = 6.7
    for _ in range(8):
        energy, slope = _one_rsb_optimum(alpha)
        step = (1 - energy) / slope
        alpha += step
        if abs(step) < 1e-11:
            break
    return Estimate(alpha, 1e-9, "one-step replica symmetry breaking; quadrature, not rigorous")
