"""Ground-state energy e(α) in the replica ansatz: symmetric, one step, and many levels on a grid."""

from __future__ import annotations

from collections.abc import Sequence

from initscope.errors import check_count
from initscope.exhibits._figures import Curves, Point
from initscope.exhibits.protocol import Declared
from initscope.theory.injectivity import ground_state_energy
from initscope.theory.injectivity.parisi_grid import solve_grid
from initscope.theory.injectivity.replica import one_rsb_energy, rs_energy

__all__ = ["EXHIBITS", "run"]


def run(
    alphas: Sequence[float] = (4.0, 5.0, 6.0, 6.5, 7.0, 8.0, 9.0), *, levels: Sequence[int] = (30, 50, 100, 200)
) -> Curves:
    """Energy by ansatz and expansivity; where it crosses 1 a layer becomes injective. Dots: all levels free.

    Every curve bounds the energy from below: the more levels, the higher. [Maillard2022]_
    """
    rows = [Point("replica symmetric", alpha, predicted=rs_energy(alpha)) for alpha in alphas]
    rows += [Point("1-RSB", alpha, predicted=one_rsb_energy(alpha)) for alpha in alphas]
    for count in levels:
        check_count("levels", count, least=10)
        rows += [Point(f"{count} levels", alpha, predicted=solve_grid(alpha, count).energy(alpha)) for alpha in alphas]
    for alpha in alphas:
        full = ground_state_energy(alpha)
        rows.append(Point("full RSB", alpha, full.value, full.error))
    return Curves(tuple(rows), "expansivity α", "ground-state energy e(α)")


def _holds(found: Curves) -> bool:
    """From RS to 1-RSB to the grids the energy rises, up to the full solution."""
    order = [kind for kind in found.kinds() if kind != "full RSB"]
    for place, full in enumerate(found.curve("full RSB")):
        values = [found.curve(kind)[place].predicted for kind in order]
        lower = values[0] < values[1] <= values[-1] + 1e-9
        if not lower or not abs(values[-1] - full.measured) < 2e-3:
            return False
    return True


EXHIBITS = (
    Declared(
        id="injectivity-energy",
        source="Maillard et al. 2022, 'Algorithmic solution to F-RSB equations at T = 0': energy curves",
        statement="The ground-state energies of the replica symmetric, 1-RSB and many-level ansatz rise towards the "
        "full solution, and results are consistent as the number of levels grows.",
        produce=run,
        numbers=lambda found: {
            name: number for name, number in found.numbers().items() if name.endswith((" 6", " 6.5", " 7"))
        },
        holds=_holds,
        small={"alphas": (5.0, 6.0, 7.0), "levels": (30, 50)},
    ),
)
