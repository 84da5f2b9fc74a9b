"""Fewest active rows that a search finds in random layers of growing size, and the replica predictions of e(α)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from initscope.errors import check_between, check_count
from initscope.injectivity import least_active
from initscope.reproductions._figures import Curves, Point
from initscope.reproductions._statistics import mean_and_error
from initscope.reproductions.protocol import Declared
from initscope.theory.injectivity import ground_state_energy

__all__ = ["REPRODUCTIONS", "run"]


def run(
    alphas: Sequence[float] = (3.0, 4.0, 6.0),
    *,
    sizes: Sequence[int] = (25, 50, 100, 200, 400),
    draws: int = 10,
    rounds: int = 2,
    seed: int = 0,
) -> Curves:
    """Return the mean over layers of the fewest active rows per input, and the full-RSB and symmetric predictions.

    The search does not stop at a collision but continues below n. Its result is an upper bound on the minimum. Points
    below the full-RSB line would refute it; points above are explained by finite size and an imperfect search.
    [Maillard2022]_
    """
    check_count("draws", draws, least=2)
    rows = []
    for alpha in alphas:
        full = ground_state_energy(check_between("alpha", alpha, 2.0, 30.0)).value
        symmetric = ground_state_energy(alpha, levels=0).value
        for n in sizes:
            shape = (round(alpha * n), n)
            results = [
                least_active(
                    np.random.default_rng([seed, *shape, draw]).standard_normal(shape), rounds=rounds, seed=draw
                )
                for draw in range(draws)
            ]
            mean, error = mean_and_error([result.fewest_active / n for result in results])
            rows.append(Point(f"α = {alpha:g}: found, and full RSB", n, float(mean), float(error), full))
            rows.append(Point(f"α = {alpha:g}: replica symmetric", n, predicted=symmetric))
    return Curves(tuple(rows), "inputs n", "fewest active rows / n", "x")


def _holds(results: Curves) -> bool:
    """Return whether no point is below full RSB (within errors) and the largest layers are within a third of it."""
    for kind in results.kinds():
        points = [row for row in results.curve(kind) if row.measured == row.measured]
        if any(row.measured < row.predicted - 4 * row.standard_error - 2 / row.x for row in points):
            return False
        if points and points[-1].measured > 4 / 3 * points[-1].predicted + 4 * points[-1].standard_error:
            return False
    return True


REPRODUCTIONS = (
    Declared(
        id="injectivity-ground-states",
        source="Maillard et al. 2022, 'Physics point of view': the ground state, tried by search",
        statement="The fewest active rows per input approach the full-RSB energy e(α) as layers grow.",
        produce=run,
        numbers=Curves.numbers,
        holds=_holds,
        small={"alphas": (4.0,), "sizes": (10, 20, 40), "draws": 4, "rounds": 1},
    ),
)
