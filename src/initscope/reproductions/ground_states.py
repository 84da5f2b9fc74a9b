"""Fewest active rows that a search finds in random layers of growing size, and the replica predictions of e(α)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from initscope.errors import check_between, check_count
from initscope.injectivity import least_active
from initscope.reproductions._figures import Curves, Point
from initscope.reproductions._statistics import mean_and_error
from initscope.reproductions.protocol import Declared, Number
from initscope.theory.injectivity import ground_state_energy

__all__ = ["REPRODUCTIONS", "run"]


_FOUND = ": found, and full RSB"


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
    below the full-RSB line would refute it; points above do not. At α = 4 a search with nine times more steps (4 rounds
    instead of 2) finds 0.347 instead of 0.348 at n = 100, and 0.349 instead of 0.356 at n = 200 (six layers each,
    standard errors 0.009 and 0.007): at n = 200 the search is too weak, at n = 100 it is not known.
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
            rows.append(Point(f"α = {alpha:g}{_FOUND}", n, float(mean), float(error), full))
            rows.append(Point(f"α = {alpha:g}: replica symmetric", n, predicted=symmetric))
    return Curves(tuple(rows), "inputs n", "fewest active rows / n", "x")


def _holds(results: Curves) -> bool:
    """Return whether no point is below the full-RSB energy, which would refute it: errors and two rows are allowed."""
    measured = (row for row in results.rows if row.measured == row.measured)
    return all(row.measured >= row.predicted - 4 * row.standard_error - 2 / row.x for row in measured)


def _contrary(ours: Mapping[str, Number]) -> str:
    """Ask for a largest layer within three standard errors of e(α), or for a distance that at least shrinks."""
    by_alpha: dict[float, dict[int, Number]] = {}
    for name, number in ours.items():
        prefix, is_found, size = name.removeprefix("α = ").partition(_FOUND)
        if is_found:
            by_alpha.setdefault(float(prefix), {})[int(size.rpartition(" ")[2])] = number
    far = []
    for alpha, by_size in by_alpha.items():
        energy = Number(ground_state_energy(alpha).value)
        *_, middle, largest = sorted(by_size)
        if by_size[largest].exceeds(energy) and not by_size[middle].exceeds(by_size[largest]):
            gap = 100 * (by_size[largest].value / energy.value - 1)
            far.append(f"α = {alpha:g}: {by_size[largest]} at n = {largest}, {gap:.0f} % above {energy}")
    if not far:
        return ""
    return (
        f"the fewest active rows per input that the search finds stop above e(α) ({'; '.join(far)}). They are upper "
        "bounds on the minimum, so they do not refute e(α)"
    )


REPRODUCTIONS = (
    Declared(
        id="injectivity-ground-states",
        source="Maillard et al. 2022, 'Physics point of view': the ground state, tried by search",
        statement="The fewest active rows per input approach the full-RSB energy e(α) as layers grow.",
        produce=run,
        numbers=Curves.numbers,
        holds=_holds,
        contrary=_contrary,
        small={"alphas": (4.0,), "sizes": (10, 20, 40), "draws": 4, "rounds": 1},
    ),
)
