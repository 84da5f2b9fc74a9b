"""Cells of the input space: the number of activation patterns of deep and shallow networks on a plane.

The talk says that depth gives exponentially more cells for the same number of parameters. This holds for folding
networks but not for random ones; both are counted here. Random networks are compared at equal numbers of parameters
and at equal numbers of units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from initscope.errors import InputError, check_count
from initscope.reproductions._figures import Rows
from initscope.reproductions._statistics import mean_and_error
from initscope.reproductions.protocol import Declared, Number
from initscope.results import Result, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["REPRODUCTIONS", "Tessellation", "TessellationRow", "cells", "folding_network", "random_network", "run"]

Network = list[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class TessellationRow(Result):
    """Networks of one shape: the quantity held equal, depth, width, units, parameters, and the number of cells.

    Cells of random networks are means over draws; ``standard_error`` is 0 for deterministic networks.
    """

    kind: str
    depth: int
    width: int
    units: int
    parameters: int
    cells: float
    standard_error: float


@dataclass(frozen=True)
class Tessellation(Rows):
    """Rows by network, and for figures the cell numbers on the plane for the last random network of each row."""

    rows: tuple[TessellationRow, ...]
    maps: tuple[np.ndarray, ...]
    titles: tuple[str, ...]

    def plot(self, ax: Axes | None = None, *, index: int = -1) -> Axes:
        """Plot the cells of one random network on the plane, each in its color."""
        if not self.maps:
            raise InputError("only cells on the plane can be plotted; run without points")
        ax = make_axes(ax)
        numbers = self.maps[index]
        # Pale random colors, with the boundaries of cells as lines.
        shades = 0.78 + 0.22 * np.random.default_rng(0).random((int(numbers.max()) + 1, 3))
        edge = np.zeros(numbers.shape, dtype=bool)
        edge[1:] |= numbers[1:] != numbers[:-1]
        edge[:, 1:] |= numbers[:, 1:] != numbers[:, :-1]
        image = np.where(edge[..., None], 0.45, 1.0) * shades[numbers]
        ax.imshow(image, origin="lower", extent=(-1, 1, -1, 1), interpolation="antialiased")
        ax.set(xticks=(-1, 0, 1), yticks=(-1, 0, 1))
        ax.set_title(self.titles[index])
        return ax


def cells(network: Network, points: np.ndarray) -> np.ndarray:
    """Return the cell number of each point: two points are in one cell if the same units are active for both.

    >>> step = [(np.array([[1.0]]), np.array([0.0]))]
    >>> cells(step, np.array([[-2.0], [-1.0], [3.0]]))
    array([0, 0, 1])
    """
    # A pattern is identified by the sum of random 64-bit numbers of its active units: the probability that two of 10^5
    # patterns have the same sum is below 10^-9.
    rng = np.random.default_rng(0)
    keys = np.zeros(len(points), dtype=np.uint64)
    for weights, biases in network:
        points = points @ weights.T + biases
        names = rng.integers(0, 2**64, size=len(weights), dtype=np.uint64)
        keys += np.where(points > 0, names, np.uint64(0)).sum(axis=1, dtype=np.uint64)
        points = np.maximum(points, 0)
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    order = np.empty_like(first)
    order[np.argsort(first)] = np.arange(len(first))  # numbered in the order of appearance
    return np.asarray(order[number])


def random_network(inputs: int, width: int, depth: int, rng: np.random.Generator) -> Network:
    """Return a network with He-scaled weights and biases of standard deviation 0.1, so that not all cells are cones."""
    sizes = [inputs] + [width] * depth
    return [
        (rng.standard_normal((sizes[i + 1], sizes[i])) * np.sqrt(2 / sizes[i]), 0.1 * rng.standard_normal(sizes[i + 1]))
        for i in range(depth)
    ]


def folding_network(depth: int) -> Network:
    """Return a composition of tent maps x ↦ 2 min(x, 1-x) on [0, 1]: two units per layer, 2^depth linear pieces."""
    tent = (np.array([[2.0], [4.0]]), np.array([0.0, -2.0]))  # tent = relu(2x) - relu(4x - 2)
    again = (np.array([[2.0, -2.0], [4.0, -4.0]]), np.array([0.0, -2.0]))
    return [tent, *[again] * (check_count("depth", depth) - 1)]


def run(
    points: np.ndarray | None = None,
    *,
    depths: Sequence[int] = (1, 2, 4, 8),
    parameters: int = 1000,
    units: int = 88,
    resolution: int = 256,
    draws: int = 20,
    folds: Sequence[int] = (1, 2, 4, 8, 12),
    seed: int = 0,
) -> Tessellation:
    """Count the cells of random networks with about ``parameters`` parameters or ``units`` units, and of folding ones.

    Source: [Bronstein2016]_, 'Representation power' and 'Similarity-preserving hashing': cells of deep networks.

    Cells are counted on the rows of ``points``, by default a grid of ``resolution``² points of the square [-1, 1]²,
    which misses smaller cells. Folding networks (one input, cells on a fine line) are compared with a shallow network
    with the same number of units, which has at most units + 1 cells.
    """
    check_count("draws", draws, least=2, hint="a standard error needs at least two")
    axis = np.linspace(-1, 1, resolution)
    cloud = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2) if points is None else np.asarray(points)
    inputs = cloud.shape[1]
    shapes = [("equal parameters", depth, _width_for(parameters, depth, inputs)) for depth in depths]
    shapes += [("equal units", depth, max(units // depth, 1)) for depth in depths]
    rng = np.random.default_rng(seed)
    rows, maps, titles = [], [], []
    for kind, depth, width in shapes:
        counts = []
        for _ in range(draws):
            numbers = cells(random_network(inputs, width, depth, rng), cloud)
            counts.append(int(numbers.max()) + 1)
        met, error = map(float, mean_and_error(counts))
        size = _parameters(width, depth, inputs)
        rows.append(TessellationRow(kind, depth, width, depth * width, size, met, error))
        if points is None:
            maps.append(numbers.reshape(resolution, resolution))
            layers = "1 layer" if depth == 1 else f"{depth} layers"
            titles.append(f"random, {layers} of {width}: {counts[-1]:,} cells")
    for depth in folds:
        line = (np.arange(2 ** (depth + 4)) + 0.5)[:, None] / 2 ** (depth + 4)
        result = int(cells(folding_network(depth), line).max()) + 1
        width = 2 * depth
        rows.append(TessellationRow("folding", depth, 2, width, 4 + 6 * (depth - 1), float(result), 0.0))
        shallow = [(np.ones((width, 1)), -(np.arange(width) + 0.5) / width)]
        result = int(cells(shallow, line).max()) + 1
        rows.append(TessellationRow("best shallow", 1, width, width, 2 * width, float(result), 0.0))
    return Tessellation(tuple(rows), tuple(maps), tuple(titles))


def _parameters(width: int, depth: int, inputs: int) -> int:
    return (inputs + 1) * width + (depth - 1) * width * (width + 1)


def _width_for(parameters: int, depth: int, inputs: int) -> int:
    width = 1
    while _parameters(width + 1, depth, inputs) <= parameters:
        width += 1
    return width


def _cells(result: Tessellation) -> dict[str, Number]:
    return {
        f"{row.kind}, {row.depth} × {row.width}": Number(row.cells, row.standard_error)
        for row in result.rows
        if row.kind in ("equal parameters", "equal units")
    }


_EQUAL = "equal parameters, "


def _contrary(ours: Mapping[str, Number]) -> str:
    """Ask for more cells in some deep random network than in one layer with the same number of parameters."""
    by_depth = {int(name.removeprefix(_EQUAL).split()[0]): n for name, n in ours.items() if name.startswith(_EQUAL)}
    shallow = by_depth.pop(1, None)
    if shallow is None or any(deep.exceeds(shallow) for deep in by_depth.values()):
        return ""
    listed = ", ".join(f"{deep.value:,.0f} with {depth} layers" for depth, deep in by_depth.items())
    return (
        f"at equal numbers of parameters one random layer has {shallow.value:,.0f} cells, but deep random networks "
        f"have fewer ({listed}); only networks built to fold have exponentially more"
    )


REPRODUCTIONS = (
    Declared(
        id="talk-tessellation",
        source="Bronstein 2016, 'Deep vs shallow': cells",
        statement="Deep networks divide the input into exponentially more cells than shallow ones with the same number "
        "of parameters. Random networks are counted here, and networks built to fold next to them.",
        produce=run,
        numbers=_cells,
        holds=lambda result: (
            max(row.cells for row in result.rows if row.kind == "folding")
            > max(row.cells for row in result.rows if row.kind == "best shallow")
        ),
        contrary=_contrary,
        small={"depths": (1, 3), "parameters": 200, "units": 24, "resolution": 48, "draws": 3, "folds": (1, 4, 8)},
        data="points",
    ),
)
