"""Ground-state energy e(α) in the replica ansatz: symmetric, one-step, and many levels on a grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from initscope.errors import check_count
from initscope.reproductions._figures import Curves, Point
from initscope.reproductions.protocol import Declared
from initscope.results import line_color
from initscope.theory.injectivity import free_entropy, ground_state_energy
from initscope.theory.injectivity.parisi_grid import solve_grid
from initscope.theory.injectivity.replica import one_rsb_energy, rs_energy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["REPRODUCTIONS", "EnergyCurves", "run", "temperatures"]

_FULL, _LINE = "full RSB", "e = 1: injective above"


@dataclass(frozen=True)
class EnergyCurves(Curves):
    """Energies by ansatz; the curves lie close together, so an inset shows the differences from the full solution."""

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot all curves, and the differences from the full solution in an inset."""
        ax = super().plot(ax)
        ax.legend(fontsize="small", loc="upper left")
        inset = ax.inset_axes((0.6, 0.09, 0.38, 0.2))
        full = {point.x: point.measured for point in self.curve(_FULL)}
        for index, kind in enumerate(self.kinds()):
            if kind not in (_FULL, _LINE):
                gaps = [(point.x, full[point.x] - point.predicted) for point in self.curve(kind)]
                inset.plot(*zip(*gaps), "-", color=line_color(index), linewidth=1)
        inset.set_yscale("log")
        inset.set_title("full RSB less ansatz", fontsize="small")
        inset.tick_params(labelsize="small")
        return ax


def run(
    alphas: Sequence[float] = (4.0, 5.0, 6.0, 6.5, 7.0, 8.0, 9.0), *, levels: Sequence[int] = (30, 50, 100, 200)
) -> EnergyCurves:
    """Return the energy by ansatz and expansivity; a layer becomes injective where it crosses 1.

    Dots are the full solution. Every curve is a lower bound on the energy that grows with the number of levels.
    [Maillard2022]_
    """
    rows = [Point("replica symmetric", alpha, predicted=rs_energy(alpha)) for alpha in alphas]
    rows += [Point("1-RSB", alpha, predicted=one_rsb_energy(alpha)) for alpha in alphas]
    for count in levels:
        check_count("levels", count, least=10)
        rows += [Point(f"{count} levels", alpha, predicted=solve_grid(alpha, count).energy(alpha)) for alpha in alphas]
    for alpha in alphas:
        full = ground_state_energy(alpha)
        rows.append(Point(_FULL, alpha, full.value, full.error))
    rows += [Point(_LINE, alpha, predicted=1.0) for alpha in (min(alphas), max(alphas))]
    return EnergyCurves(tuple(rows), "expansivity α", "ground-state energy e(α)")


def temperatures(
    alpha: float = 6.0, *, betas: Sequence[float] = (1, 2, 4, 8, 16, 32, 64, 128), levels: Sequence[int] = (0, 1, 3)
) -> Curves:
    """Return the energy per input against the temperature 1/β by number of levels, with the ground state at T = 0.

    [Maillard2022]_, the finite-temperature Parisi formula and its limit.
    """
    names = {0: "replica symmetric"} | {count: f"{count}-RSB" for count in levels if count}
    rows = []
    for count in levels:
        rows += [
            Point(names[count], 1 / beta, predicted=free_entropy(alpha, beta, levels=count).energy) for beta in betas
        ]
        rows.append(Point(names[count], 0.0, predicted=ground_state_energy(alpha, levels=count).value))
    return Curves(tuple(rows), "temperature 1/β", "energy per input")


def _cools(result: Curves) -> bool:
    """Return whether energies fall with the temperature and extrapolate linearly in T to the ground state."""
    for kind in result.kinds():
        ground, cold, *warm = result.curve(kind)
        values = [point.predicted for point in (ground, cold, *warm)]
        line = cold.predicted - cold.x * (warm[0].predicted - cold.predicted) / (warm[0].x - cold.x)
        if values != sorted(values) or abs(line - ground.predicted) > 0.02 * ground.predicted:
            return False
    return True


def _holds(result: Curves) -> bool:
    """Return whether the energy rises from RS to 1-RSB to the grids, up to the full solution."""
    order = [kind for kind in result.kinds() if kind not in (_FULL, _LINE)]
    for index, full in enumerate(result.curve(_FULL)):
        values = [result.curve(kind)[index].predicted for kind in order]
        lower = values[0] < values[1] <= values[-1] + 1e-9
        if not lower or not abs(values[-1] - full.measured) < 2e-3:
            return False
    return True


REPRODUCTIONS = (
    Declared(
        id="injectivity-energy",
        source="Maillard et al. 2022, 'Algorithmic solution to F-RSB equations at T = 0': energy curves",
        statement="The ground-state energies of the replica symmetric, 1-RSB and many-level ansatz rise toward the "
        "full solution, and results are consistent as the number of levels grows.",
        produce=run,
        numbers=lambda result: {
            name: number
            for name, number in result.numbers().items()
            if name.endswith((" 6", " 6.5", " 7")) and not name.startswith("e = 1")
        },
        holds=_holds,
        small={"alphas": (5.0, 6.0, 7.0), "levels": (30, 50)},
    ),
    Declared(
        id="injectivity-temperature",
        source="Maillard et al. 2022, 'Replica symmetry breaking theory': finite-temperature Parisi formula",
        statement="The energy of the Parisi formula at inverse temperature β tends to the ground state as β grows.",
        produce=temperatures,
        numbers=lambda result: {name: n for name, n in result.numbers().items() if "RSB" in name},
        holds=_cools,
        small={"betas": (2, 8, 32, 64), "levels": (0, 1)},
    ),
)
