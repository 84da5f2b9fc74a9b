"""`layer_widths`: mean width of a data set before and after every layer of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from initscope.errors import InputError, check_count
from initscope.graph import NO_VALUES, Batch, Node, Observer, bind, run, trace
from initscope.graph.borrowing import borrowed, runnable, without_dropout
from initscope.measurement.stream import moved
from initscope.measurement.width import MeanWidth, RunningWidth
from initscope.results import Result, label_text, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "LayerStatistics",
    "LayerWidth",
    "LayerWidths",
    "layer_statistics",
    "layer_sums",
    "layer_widths",
    "widths_of",
]

_BATCH_VALUES = 1 << 22  # input values of a batch: bounds the memory of the activations


@dataclass(frozen=True)
class LayerWidth(Result):
    """One layer's row: its name and kind, and the `MeanWidth` of its outputs, or None with the reason."""

    layer: str
    kind: str
    width: MeanWidth | None
    reason: str = ""


@dataclass(frozen=True)
class LayerWidths(Result):
    """Mean widths by layer, the inputs first.

    The width is in the units of each layer: it includes the scale of the weights.
    """

    rows: tuple[LayerWidth, ...]

    def table(self) -> list[dict[str, Any]]:
        """Return one row per layer."""
        names = ("value", "standard_error", "intrinsic_dimension", "radius", "doubling_gain", "dimension", "method")
        return [
            {"layer": row.layer, "kind": row.kind}
            | {name: None if row.width is None else getattr(row.width, name) for name in names}
            | {"note": row.reason}
            for row in self.rows
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Return the intrinsic dimension by layer."""
        ax = make_axes(ax)
        known = [(row.layer, row.width.intrinsic_dimension or 0.0) for row in self.rows if row.width is not None]
        ax.plot([label_text(name) for name, _ in known], [dimension for _, dimension in known], "o-")
        ax.set(ylabel="intrinsic dimension (ω / 2r)²", ylim=(0, None))
        ax.tick_params(axis="x", rotation=90)
        return ax


def layer_widths(model: nn.Module, points: Any, *, draws: int = 64, seed: int = 0) -> LayerWidths:
    """Return the mean width of ``points`` and of the outputs of every layer of ``model``.

    Source: [Bronstein2016]_, 'Low dimension in – low dimension out'; the theorem is in [Giryes2016]_.

    Parameters
    ----------
    model : torch.nn.Module
        It runs in evaluation mode and is restored.
    points : array or tensor [N, ...]
        Inputs of the model.
    draws, seed : int
        As in `initscope.mean_width`.

    Returns
    -------
    LayerWidths
        One row for the input and each layer.

    Examples
    --------
    >>> layers = torch.nn.Sequential(torch.nn.Linear(5, 40), torch.nn.ReLU())
    >>> [row.layer for row in layer_widths(layers, torch.randn(20, 5)).rows]
    ['input', '0', '1']
    """
    draws = check_count("draws", draws, least=2)
    inputs = _points(model, points)
    if len(inputs) < 2:
        raise InputError(f"points of shape {tuple(inputs.shape)} must be [N, ...] with at least two points")
    return widths_of(_recorded(model, inputs, _WidthObserver(draws, seed)))


LayerStatistics = tuple[str, str, Any]
"""Name and kind of a node, and what was collected of it, None if nothing: of parts of the data, to be merged."""


def layer_sums(model: nn.Module, points: Any) -> list[LayerStatistics]:
    """Return float64 sums over the points of every node's values; divided by their number, centers of the layers."""
    return _recorded(model, _points(model, points), _SumObserver())


def layer_statistics(
    model: nn.Module, points: Any, *, draws: int, seed: int, centers: Sequence[np.ndarray | None]
) -> list[LayerStatistics]:
    """Return `RunningWidth` of every node of a part of the data, around the centers that all parts share."""
    return _recorded(model, _points(model, points), _WidthObserver(draws, seed, centers))


def widths_of(statistics: Sequence[LayerStatistics]) -> LayerWidths:
    """Return the widths that follow from statistics of all data."""
    rows = []
    for name, kind, running in statistics:
        width, reason = None, NO_VALUES
        if running is not None:
            try:
                width, reason = running.result(), ""
            except InputError as error:
                reason = str(error)
        rows.append(LayerWidth(name, kind, width, reason))
    return LayerWidths(tuple(rows))


def _points(model: nn.Module, points: Any) -> Tensor:
    inputs = moved(runnable(model))(
        torch.as_tensor(np.asarray(points) if not isinstance(points, torch.Tensor) else points)
    )
    if inputs.dim() < 2 or len(inputs) == 0:
        raise InputError(f"points of shape {tuple(inputs.shape)} must be [N, ...] with at least two points")
    return inputs


def _recorded(model: nn.Module, inputs: Tensor, observer: _NodeObserver) -> list[LayerStatistics]:
    """Run all inputs through the model, in evaluation mode and batches; the observer sees every node's values."""
    model = runnable(model)
    with borrowed(model):
        model.eval()
        graph = trace(model, inputs[:2])
        size = max(1, _BATCH_VALUES // inputs[0].numel())
        with without_dropout(model):
            parts = -(-len(inputs) // size)
            # Spread over the data, which may be sorted: the first part gives the center, if none is given.
            run(graph, (Batch(bind(model, inputs[part::parts])) for part in range(parts)), [observer])
    return [(node.name, node.kind, observer.values.get(node)) for node in graph.nodes]


class _NodeObserver(Observer):
    """Something of every node's values."""

    def __init__(self) -> None:
        self.values: dict[Node, Any] = {}


class _SumObserver(_NodeObserver):
    def see(self, node: Node, values: Tensor) -> None:
        """Add a batch."""
        total = values.reshape(len(values), -1).double().sum(dim=0).cpu().numpy()
        self.values[node] = total if node not in self.values else self.values[node] + total


class _WidthObserver(_NodeObserver):
    """Mean width after every node."""

    def __init__(self, draws: int, seed: int, centers: Sequence[np.ndarray | None] = ()) -> None:
        super().__init__()
        self._draws, self._seed, self._centers = draws, seed, centers

    def see(self, node: Node, values: Tensor) -> None:
        """Add a batch. The directions, which have the size of the layer, are not stored."""
        if node not in self.values:
            center = self._centers[node.index] if self._centers else None
            self.values[node] = RunningWidth(self._draws, self._seed, center)
        running = self.values[node]
        running.add(values.reshape(len(values), -1))
        running.forget()
