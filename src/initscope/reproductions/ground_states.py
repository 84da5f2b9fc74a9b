"""Fewest active rows that a search finds in random layers of growing size, and the replica prediction of e(α)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from initscope.errors import check_between, check_count
from initscope.injectivity import least_active
from initscope.reproductions._figures import Curves, Point
from initscope.reproductions._statistics import extrapolate, mean_and_error
from initscope.reproductions.protocol import Declared, Number
from initscope.theory.injectivity import ground_state_energy

__all__ = ["REPRODUCTIONS", "run"]


_FOUND = ": found, and full RSB"
_LIMIT = ": extrapolated"


def run(
    alphas: Sequence[float] = (3.0, 4.0, 6.0),
    *,
    sizes: Sequence[int] = (18, 25, 35, 50, 100, 200, 400),
    converged: int = 50,
    draws: int = 10,
    rounds: int = 2,
    seed: int = 0,
) -> Curves:
    """Return the mean over layers of the fewest active rows per input, with the full-RSB prediction e(α).

    The search does not stop at a collision but continues below n. Its result is an upper bound on the minimum. Up to 25
    inputs three times more steps (3 rounds instead of 2) change no layer of 32, and at 50 inputs they change the mean
    by .002. So up to ``converged`` inputs the numbers are taken as minima, and a line in n^(-2/3), the order of the
    finite-size correction of the threshold, is extrapolated to n → ∞. Other powers fit as well. Larger layers show
    where the search fails: the number stops falling. [Maillard2022]_

    Parameters
    ----------
    alphas, sizes : sequence
        Expansivities and numbers of inputs.
    converged : int
        Largest number of inputs that enters the extrapolation.
    draws : int
        Layers for each point, and six times more up to ``converged`` inputs.
    rounds : int
        Rounds of the search.
    seed : int
        Seed of the weights.
    """
    check_count("draws", draws, least=2)
    rows = []
    for alpha in alphas:
        full = ground_state_energy(check_between("alpha", alpha, 2.0, 30.0)).value
        points = []
        for n in sizes:
            shape = (round(alpha * n), n)
            results = [
                least_active(
                    np.random.default_rng([seed, *shape, draw]).standard_normal(shape), rounds=rounds, seed=draw
                )
                for draw in range(6 * draws if n <= converged else draws)
            ]
            mean, error = mean_and_error([result.fewest_active / n for result in results])
            points.append(Point(f"α = {alpha:g}{_FOUND}", n ** (-2 / 3), float(mean), float(error), full))
        rows += points
        small = [(n, point) for n, point in zip(sizes, points, strict=True) if n <= converged]
        if len(small) > 1:
            limit = extrapolate(
                [n for n, _ in small],
                [point.measured for _, point in small],
                [point.standard_error for _, point in small],
            )
            rows.append(Point(f"α = {alpha:g}{_LIMIT}", 0.0, limit.value, limit.error or math.nan, full))
    return Curves(tuple(rows), "n^(-2/3), n inputs", "fewest active rows / n")


def _numbers(results: Curves) -> dict[str, Number]:
    """Return measured values by the number of inputs."""
    measured = [row for row in results.rows if row.measured == row.measured]
    sizes = [f", n = {round(row.x**-1.5)}" if row.x else "" for row in measured]
    return {
        row.kind + size: Number(row.measured, row.standard_error) for row, size in zip(measured, sizes, strict=True)
    }


def _holds(results: Curves) -> bool:
    """Return whether no point is below the full-RSB energy, which would refute it: errors and two rows are allowed."""
    searched = (row for row in results.rows if row.kind.endswith(_FOUND))
    return all(row.measured >= row.predicted - 4 * row.standard_error - 2 * row.x**1.5 for row in searched)


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
        if len(by_size) < 2:
            continue
        *_, middle, largest = sorted(by_size)
        if by_size[largest].exceeds(energy) and not by_size[middle].exceeds(by_size[largest]):
            gap = 100 * (by_size[largest].value / energy.value - 1)
            limit = ours.get(f"α = {alpha:g}{_LIMIT}", "unknown")
            far.append(f"α = {alpha:g}: {by_size[largest]} at n = {largest}, {gap:.0f} % above {energy}, limit {limit}")
    if not far:
        return ""
    return (
        f"the fewest active rows per input that the search finds stop above e(α) ({'; '.join(far)}). They are upper "
        "bounds on the minimum, so they do not refute e(α). The limit is extrapolated from smaller layers with an "
        "assumed power of n, so it does not confirm e(α)"
    )


REPRODUCTIONS = (
    Declared(
        id="injectivity-ground-states",
        source="Maillard et al. 2022, 'Physics point of view': the ground state, tried by search",
        statement="The fewest active rows per input approach the full-RSB energy e(α) as layers grow.",
        produce=run,
        numbers=_numbers,
        holds=_holds,
        contrary=_contrary,
        small={"alphas": (4.0,), "sizes": (15, 25, 40), "draws": 2, "rounds": 1},
        full={"sizes": (18, 25, 35, 50, 100, 200), "draws": 6},
    ),
)
