"""`layer_widths`: mean width of a data set before and after every layer of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from initscope.errors import InputError, check_count
from initscope.measurement.stream import moved
from initscope.measurement.width import MeanWidth, RunningWidth
from initscope.recording import NO_VALUES, Batch, Recorder, Tally
from initscope.results import Result, label_text, make_axes
from initscope.tracing import Node, bind, trace
from initscope.tracing.untouched import leaves_no_trace, runnable, without_dropout

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["LayerWidth", "LayerWidths", "layer_widths"]

_BATCH_VALUES = 1 << 22  # input values of a batch: bounds the memory of the activations


@dataclass(frozen=True)
class LayerWidth(Result):
    """One layer's row: its name and kind, and the `MeanWidth` of its outputs (None where they have none, with why)."""

    layer: str
    kind: str
    width: MeanWidth | None
    reason: str = ""


@dataclass(frozen=True)
class LayerWidths(Result):
    """Mean widths by layer, the inputs first. In the units of each layer: its weights' scale is part of the value."""

    rows: tuple[LayerWidth, ...]

    def table(self) -> list[dict[str, Any]]:
        """One row per layer."""
        names = ("value", "standard_error", "intrinsic_dimension", "radius", "doubling_gain", "dimension", "method")
        return [
            {"layer": row.layer, "kind": row.kind}
            | {name: None if row.width is None else getattr(row.width, name) for name in names}
            | {"note": row.reason}
            for row in self.rows
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Intrinsic dimension by layer."""
        ax = make_axes(ax)
        known = [(row.layer, row.width.intrinsic_dimension or 0.0) for row in self.rows if row.width is not None]
        ax.plot([label_text(name) for name, _ in known], [dimension for _, dimension in known], "o-")
        ax.set(ylabel="intrinsic dimension (ω / 2r)²", ylim=(0, None))
        ax.tick_params(axis="x", rotation=90)
        return ax


def layer_widths(model: nn.Module, points: Any, *, draws: int = 64, seed: int = 0) -> LayerWidths:
    """Mean width of ``points`` and of what every layer of ``model`` makes of them.

    Source: [Bronstein2016]_, 'Low dimension in – low dimension out'; the theorem is in [Giryes2016]_.

    Parameters
    ----------
    model : torch.nn.Module
        Run in evaluation mode as it is, and left as found.
    points : array or tensor [N, ...]
        Inputs of the model.
    draws, seed : int
        As in `initscope.mean_width`.

    Examples
    --------
    >>> layers = torch.nn.Sequential(torch.nn.Linear(5, 40), torch.nn.ReLU())
    >>> [row.layer for row in layer_widths(layers, torch.randn(20, 5)).rows]
    ['input', '0', '1']
    """
    draws = check_count("draws", draws, least=2)
    model = runnable(model)
    inputs = moved(model)(torch.as_tensor(np.asarray(points) if not isinstance(points, torch.Tensor) else points))
    if inputs.dim() < 2 or len(inputs) < 2:
        raise InputError(f"points of shape {tuple(inputs.shape)} must be [N, ...] with at least two points")
    with leaves_no_trace(model):
        model.eval()
        tally = _WidthTally(draws, seed)
        recorder = Recorder(trace(model, inputs[:2]), [tally])
        size = max(1, _BATCH_VALUES // inputs[0].numel())
        with without_dropout(model):
            parts = -(-len(inputs) // size)
            # Spread over the data, which may be sorted: the first part gives the centre.
            recorder.run_all(Batch(bind(model, inputs[part::parts])) for part in range(parts))
    traced, rows = recorder.traced, []
    for step in traced.steps:
        width, reason = tally.width(step)
        rows.append(LayerWidth(traced.name(step), traced.kind(step), width, reason))
    return LayerWidths(tuple(rows))


class _WidthTally(Tally):
    """Mean width after every step."""

    def __init__(self, draws: int, seed: int) -> None:
        self._draws, self._seed = draws, seed
        self._widths: dict[Node, RunningWidth] = {}

    def see(self, step: Node, values: Tensor) -> None:
        """Take a batch in; the directions, as many numbers as the layer has, are not kept."""
        running = self._widths.setdefault(step, RunningWidth(self._draws, self._seed))
        running.add(values.reshape(len(values), -1))
        running.forget()

    def width(self, step: Node) -> tuple[MeanWidth | None, str]:
        """The width, or the reason why there is none."""
        if step not in self._widths:
            return None, NO_VALUES
        try:
            return self._widths[step].result(), ""
        except InputError as error:
            return None, str(error)
