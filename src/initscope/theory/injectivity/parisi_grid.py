r"""The talk's way to full RSB, a check of `parisi`: a fixed grid of levels c and an iteration for the overlaps.

.. math:: D_i = \alpha\int P_i f_i'^2,\quad \Lambda_0 = \sqrt{q_0/D_0},\quad
   \frac1{\Lambda_i} = \frac1{\Lambda_{i-1}} + c_i(D_i - D_{i-1}),\quad
   q_{i-1} = q_i - \frac{\Lambda_{i-1}-\Lambda_i}{c_i}

Maillard et al. 2022 (five minutes with 200 levels on a desktop GPU).
"""

from __future__ import annotations

from functools import cache

import numpy as np

from initscope.errors import InputError, check_between, check_count
from initscope.theory.injectivity._estimate import Estimate
from initscope.theory.injectivity.parisi_functional import Floats, FunctionalValue, Grid, Levels, evaluate

__all__ = ["grid_energy", "grid_threshold", "solve_grid"]

GRID = Grid()
_FROM_NEARBY = 8.0
"""Expansivity beyond which the iteration begins at the solution of a smaller one."""


@cache
def solve_grid(alpha: float, levels: int = 200, largest: float = 15.0, tolerance: float = 1e-4) -> FunctionalValue:
    """Iterate log Λ on the levels ``largest · i / levels`` until none moves by more than ``tolerance``.

    Levels below c(q_0) ≈ 2 collapse onto q_0 ever more slowly; mixing the last four steps (Anderson) corrects for it.
    The value is second order in what remains.
    """
    c = largest * np.arange(1, levels + 1) / levels
    start = Levels(0.2 / alpha, np.linspace(0.7, 0.999, levels), c)
    if alpha > _FROM_NEARBY:  # where the iteration leaves this start for overlaps that there are not
        start = solve_grid(max(_FROM_NEARBY, alpha / 1.1), levels, largest, tolerance).levels
    state = np.log(start.response)
    states: list[Floats] = []
    moves: list[Floats] = []
    for _ in range(1000):
        response = np.exp(state)
        gaps = np.maximum((response[:-1] - response[1:]) / c, 0.0)
        q = 1.0 - np.cumsum(gaps[::-1])[::-1]
        point = evaluate(Levels(float(response[-1]), q, c), GRID)
        rates = alpha * np.append(point.overlap_rates, 2 * point.free_gradient[0])
        target = -np.log(np.sqrt(rates[0] / q[0]) + np.append(0.0, np.cumsum(c * np.diff(rates))))
        if np.abs(target - state).max() < tolerance:
            return point
        states, moves = [*states[-4:], state], [*moves[-4:], target - state]
        state = target
        if len(states) > 1:
            by_state, by_move = np.diff(np.array(states), axis=0).T, np.diff(np.array(moves), axis=0).T
            mixing = np.linalg.lstsq(by_move, moves[-1], rcond=1e-8)[0]
            state = np.minimum.accumulate(target - (by_state + by_move) @ mixing)  # Λ decreases with the level
    raise InputError(
        f"alpha = {alpha:g} with {levels} levels up to {largest:g} did not converge in 1000 iterations;"
        " use ground_state_energy"
    )


def grid_energy(alpha: float, levels: int = 200, largest: float = 15.0) -> Estimate:
    """Ground-state energy e(α) on a fixed grid of levels.

    The value is a lower bound on the full-RSB energy; the error adds what half the levels and two thirds of the range
    change, which covers the discretization and the cut at ``largest``.
    """
    alpha = check_between("alpha", alpha, 3.4, 9.5, hint="ground_state_energy reaches further")
    levels = check_count("levels", levels, least=10, most=1000)
    largest = check_between("largest", largest, 3.0, 30.0, hint="transforms lose levels beyond 30")
    value = solve_grid(alpha, levels, largest).energy(alpha)
    coarse = solve_grid(alpha, levels // 2, largest).energy(alpha)
    short = solve_grid(alpha, levels, largest * 2 / 3).energy(alpha)
    return Estimate(value, abs(value - coarse) + abs(value - short), f"full RSB on a fixed grid of {levels} levels")


def grid_threshold(levels: int = 100, largest: float = 15.0) -> Estimate:
    """Full-RSB threshold by the grid method: the expansivity of energy 1, by Newton steps along the known slope.

    Source: [Maillard2022]_, 'Algorithmic solution to F-RSB equations at T = 0'.
    """
    alpha, slope = 6.7, 0.3
    for _ in range(2):
        point = solve_grid(alpha, levels, largest)
        slope = -point.free
        alpha += (1 - point.energy(alpha)) / slope
    energy = grid_energy(alpha, levels, largest)
    return Estimate(alpha + (1 - energy.value) / slope, energy.error / slope, energy.method)
