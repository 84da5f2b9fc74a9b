"""k-RSB and full RSB with every parameter free: Newton's method, continued from k to k + 1, extrapolated in k.

The functional is stationary at its optimum, so its value is accurate to second order in the parameters.
Every k-RSB threshold lies above the full-RSB one and the difference falls like (k + 0.6)^-4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from initscope.errors import InputError, check_between, check_count
from initscope.results import Result, make_axes
from initscope.theory.injectivity._estimate import Estimate
from initscope.theory.injectivity.parisi_functional import Floats, FunctionalValue, Grid, Levels, evaluate
from initscope.theory.injectivity.parisi_grid import solve_grid
from initscope.theory.injectivity.replica import SATISFIABLE, one_rsb_energy, rs_energy, rs_threshold

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "OrderParameter",
    "full_rsb_threshold",
    "ground_state_energy",
    "k_rsb_threshold",
    "optimum",
    "order_parameter",
]

GRID, COARSE = Grid(), Grid(1024)
DEEPEST = 8
MOST_ON_GRID = 1000
LARGEST_LEVEL = 30.0
"""Transforms lose e^{c f} once e^{-c} nears the rounding unit."""
SMALLEST_ALPHA, LARGEST_ALPHA = 2.1, 100.0
NUMERICAL = 2e-9
"""Error of one optimum: grid, transforms and the remaining gradient (tested against quadrature and a finer grid)."""


def _unpack(point: Floats) -> Levels:
    """Free coordinates → levels: logarithms of χ, of the gaps of q below 1 and of the increments of c."""
    k = (len(point) - 1) // 2
    gaps, increments = np.exp(point[1 : k + 1]), np.exp(point[k + 1 :])
    return Levels(math.exp(point[0]), 1.0 - np.cumsum(gaps[::-1])[::-1], np.cumsum(increments))


def _pack(levels: Levels) -> Floats:
    return np.concatenate([[math.log(levels.chi)], np.log(levels.gaps), np.log(np.diff(levels.c, prepend=0.0))])


def _gradient(evaluation: FunctionalValue, alpha: float) -> Floats:
    """Return the gradient in the free coordinates of `_unpack`."""
    levels, k = evaluation.levels, len(evaluation.levels.c)
    natural = evaluation.gradient(alpha)
    by_gap = -np.cumsum(natural[1 : k + 1])  # q_i = 1 - Σ_{j>i} Δ_j
    by_increment = np.cumsum(natural[k + 1 :][::-1])[::-1]
    increments = np.diff(levels.c, prepend=0.0)
    return np.concatenate([[natural[0] * levels.chi], by_gap * levels.gaps, by_increment * increments])


def _maximize(levels: Levels, alpha: float | None) -> FunctionalValue:
    """Run Newton ascent of the functional at ``alpha``, or at the expansivity with energy 1 (None)."""
    point = _pack(levels)
    evaluation = evaluate(levels, GRID)
    for _ in range(40):
        target = evaluation.unit_energy_alpha if alpha is None else alpha
        gradient = _gradient(evaluation, target)
        if np.abs(gradient).max() < 3e-8:
            break
        # The Hessian steers, the gradient decides: one-sided differences on a coarse grid are good enough.
        width = 1e-5
        here = _gradient(evaluate(evaluation.levels, COARSE), target)
        moved = [_gradient(evaluate(_unpack(point + width * unit), COARSE), target) for unit in np.eye(len(point))]
        hessian = (np.array(moved) - here) / width
        values, vectors = np.linalg.eigh((hessian + hessian.T) / 2)
        # Flat directions carry rounding noise only; uphill curvature is reflected so that every step ascends.
        step = vectors @ ((vectors.T @ gradient) / np.maximum(np.abs(values), 1e-9))
        step *= min(1.0, 0.5 / np.abs(step).max())
        energy = evaluation.energy(target)
        while True:
            trial = evaluate(_unpack(point + step), GRID)
            if trial.energy(target) >= energy - 1e-14 and trial.levels.q[0] > 0:
                break
            step /= 2
            if np.abs(step).max() < 1e-10:
                return evaluation
        point, evaluation = point + step, trial
    return evaluation


def _refine(levels: Levels) -> Levels:
    """Return a starting point for k + 1 levels: the curve c(q) of k levels, sampled at one more point."""
    k = len(levels.c)
    overlaps = np.append(levels.q, 1.0)
    q = np.interp(np.arange(k + 1) / (k + 1), np.arange(k + 1) / k, overlaps)
    here, there = (np.arange(k) + 0.5) / k, (np.arange(k + 1) + 0.5) / (k + 1)
    logs = np.log(levels.c)
    if k == 1:
        return Levels(levels.chi * 0.8, q, levels.c[0] * np.array([0.8, 1.8]))
    slope_low, slope_high = (logs[1] - logs[0]) * k, (logs[-1] - logs[-2]) * k
    inner = np.interp(there, here, logs)
    inner[0] = logs[0] + slope_low * (there[0] - here[0])
    inner[-1] = logs[-1] + slope_high * (there[-1] - here[-1])
    return Levels(levels.chi * k / (k + 0.3), q, np.exp(inner))


@cache
def optimum(levels: int, alpha: float | None = None) -> FunctionalValue:
    """Return the best point with this many levels at ``alpha``; None: at the expansivity with energy 1."""
    if levels == 1:
        return _maximize(Levels(0.3, np.array([0.8]), np.array([3.0])), alpha)
    return _maximize(_refine(optimum(levels - 1, alpha).levels), alpha)


def _sequence(alpha: float | None, deepest: int) -> list[FunctionalValue]:
    """Optima with 1, 2, … levels; stops early once e^{-c} of the last level would drown in the transforms' rounding."""
    optima = [optimum(1, alpha)]
    while len(optima) < deepest and optima[-1].levels.c[-1] < LARGEST_LEVEL:
        optima.append(optimum(len(optima) + 1, alpha))
    return optima


def extrapolate(values: list[float]) -> tuple[float, float]:
    """Limit of a sequence that converges like A (k + b)^-4, from its last three terms, with an error estimate.

    The error is the change against the limit one term earlier, or the remaining distance if the distribution does not
    fit.

    >>> limit, error = extrapolate([2 + (k + 0.6) ** -4 for k in range(1, 7)])
    >>> abs(limit - 2) < 1e-12
    True
    """
    if len(values) < 4:
        return values[-1], abs(values[-1] - values[-2]) if len(values) > 1 else math.inf
    now, before = _limit(values), _limit(values[:-1])
    if now is None or before is None:
        return values[-1], abs(values[-1] - values[-2])
    return now, abs(now - before)


def _limit(values: list[float]) -> float | None:
    from scipy.optimize import brentq

    k = len(values)
    early, middle, late = values[-3:]

    def tail(b: float, at: int) -> float:
        return float((at + b) ** -4)

    def mismatch(b: float) -> float:
        return (tail(b, k - 2) - tail(b, k - 1)) * (middle - late) - (tail(b, k - 1) - tail(b, k)) * (early - middle)

    scale = early - middle
    if scale == 0 or mismatch(-0.5) / scale < 0 or mismatch(50.0) / scale > 0:
        return None
    b = float(brentq(mismatch, -0.5, 50.0, xtol=1e-14))
    return late - (middle - late) / (tail(b, k - 1) - tail(b, k)) * tail(b, k)


def k_rsb_threshold(levels: int) -> Estimate:
    """Return the expansivity with k-RSB energy 1; decreases with k towards `full_rsb_threshold`.

    Source: [Maillard2022]_, 'Physics point of view': thresholds in the k-RSB approximation.

    >>> k_rsb_threshold(2).value < k_rsb_threshold(1).value
    True
    """
    levels = check_count("levels", levels, least=0, most=DEEPEST + 4, hint="full_rsb_threshold is the limit")
    if levels == 0:
        return rs_threshold()
    return Estimate(optimum(levels).unit_energy_alpha, NUMERICAL, f"{levels}-RSB, all parameters free; not rigorous")


def full_rsb_threshold() -> Estimate:
    """Return the conjectured injectivity threshold: full-RSB energy 1, from 1 … 8 levels extrapolated.

    Source: [Maillard2022]_, 'Replica symmetry breaking theory' at zero temperature.
    """
    value, error = extrapolate([point.unit_energy_alpha for point in _sequence(None, DEEPEST)])
    return Estimate(value, error + NUMERICAL, f"full RSB, 1 … {DEEPEST} levels extrapolated; conjectured threshold")


def ground_state_energy(alpha: float, levels: int | None = None) -> Estimate:
    """Ground-state energy e(α) of #{μ : (Wx)_μ > 0} per input: RS (0), 1-RSB (1), k-RSB or full RSB (None).

    Source: [Maillard2022]_, 'Physics point of view'.

    It is 0 for α ≤ 2, because some x leaves every row inactive. The layer is injective when e(α) > 1.

    >>> ground_state_energy(2.0).value, round(ground_state_energy(6.0, levels=1).value, 6)
    (0.0, 0.801585)
    """
    alpha = check_between("alpha", alpha, 0.0, LARGEST_ALPHA)
    if alpha <= SATISFIABLE:
        return Estimate(0.0, 0.0, "satisfiable for α ≤ 2 (Cover 1965); exact")
    if levels == 0:
        return Estimate(rs_energy(alpha), 1e-12, "replica symmetric; closed equation")
    if levels == 1:
        return Estimate(one_rsb_energy(alpha), 1e-9, "one-step replica symmetry breaking; quadrature")
    if alpha < SMALLEST_ALPHA:
        raise InputError(
            f"alpha = {alpha:g} must be at most 2 or at least {SMALLEST_ALPHA:g} with several levels, which diverge "
            "at 2; use levels=1, which is accurate to 1e-6 there"
        )
    if levels is not None:
        levels = check_count("levels", levels, least=0, most=DEEPEST + 4)
        points = _sequence(alpha, levels)
        if len(points) < levels:
            raise InputError(
                f"levels = {levels} must be at most {len(points)} at alpha = {alpha:g}, c exceeds {LARGEST_LEVEL:g};"
                " use levels=None"
            )
        return Estimate(points[-1].energy(alpha), NUMERICAL, f"{levels}-RSB, all parameters free")
    points = _sequence(alpha, DEEPEST - 1)
    value, error = extrapolate([point.energy(alpha) for point in points])
    return Estimate(value, error + NUMERICAL, f"full RSB, 1 … {len(points)} levels extrapolated")


@dataclass(frozen=True)
class OrderParameter(Result):
    """The order parameter q(x) as steps (level ``c[i]`` lifts the overlap to ``q[i + 1]``), with f and P on ``h``."""

    alpha: float
    energy: float
    slope: float
    chi: float
    c: Floats
    q: Floats
    h: Floats
    f: Floats
    density: Floats

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw q(x), the overlap against the level."""
        ax = make_axes(ax)
        ax.stairs(self.q, np.concatenate([[0.0], self.c, [1.15 * self.c[-1]]]), baseline=None)
        ax.set(
            xlabel="x (level c)", ylabel="overlap q(x)", title=f"Expansivity {self.alpha:g}: energy {self.energy:.5f}"
        )
        return ax


def order_parameter(alpha: float, levels: int = DEEPEST) -> OrderParameter:
    """Order parameter, functions f_i and densities P_i (row i: level i) and the slope de/dα at the k-RSB optimum.

    Up to 12 levels all parameters are free; more lie on the talk's fixed grid up to x = 15 (`solve_grid`: two seconds
    for 200), for α between 2.9 and 30. [Maillard2022]_
    """
    levels = check_count("levels", levels, most=MOST_ON_GRID)
    if levels > DEEPEST + 4:
        alpha = check_between("alpha", alpha, 2.9, 30.0, hint=f"with at most {DEEPEST + 4} levels further")
        point = solve_grid(alpha, levels)
    else:
        alpha = check_between("alpha", alpha, SMALLEST_ALPHA, LARGEST_ALPHA)
        point = _sequence(alpha, levels)[-1]
    return OrderParameter(
        alpha,
        point.energy(alpha),
        -point.free,
        point.levels.chi,
        point.levels.c.copy(),  # the caller's to change: `optimum` and the grid are shared
        np.append(point.levels.q, 1.0),
        point.grid.h.copy(),
        np.array(point.f),
        np.array(point.density),
    )
