"""What a recording needs to know about a model: where a step's values and its units are, and what couples samples."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from initscope.errors import InputError
from initscope.graph.graph import Graph
from initscope.graph.node import Node
from initscope.graph.samples import SampleAxes
from initscope.graph.weights import unit_axis

__all__ = ["NO_VALUES", "Mode", "couples_samples", "output_tensor", "set_mode", "unit_axes"]

Mode = Literal["train", "eval"]

NO_VALUES = "its output holds no real values, one set for each sample"
"""Why a step has a row without numbers: `output_tensor` finds none in its output."""


def set_mode(model: nn.Module, mode: Mode | None) -> None:
    """Modes of the modules as asked for, None: as they are; `leaves_no_trace` puts them back."""
    if mode not in (None, "train", "eval"):
        raise InputError(f"mode = {mode!r} must be 'train', 'eval' or None (as the model is)")
    if mode is not None:
        model.train(mode == "train")


def couples_samples(model: nn.Module) -> bool:
    """Whether what becomes of a sample depends on its batch: batch norm in train mode."""
    return any(isinstance(module, _BatchNorm) and module.training for module in model.modules())


def unit_axes(graph: Graph, samples: SampleAxes | None = None) -> dict[Node, int]:
    """Axis of one sample's output along which its units lie: the last after a Linear, the first otherwise.

    Behind the axis of the windows or frames that are folded into that of the samples.
    """
    axes: dict[Node, int] = {}
    for node in graph.nodes:
        own = unit_axis(node.module)
        before = next((axes[parent] for parent in node.inputs if parent in axes), 0)
        axes[node] = before if own is None else own
    if samples is None:
        return axes
    folded = {node for node in axes if (place := samples.of(node)) is not None and place.fold > 1}
    return {node: axis + 1 if node in folded and axis >= 0 else axis for node, axis in axes.items()}


def output_tensor(output: Any, samples: int) -> Tensor | None:
    """The real-valued tensor of a model's output with one entry per sample; of a tuple or dict, the first such."""
    found = SampleAxes().tensor(None, output, samples)
    return None if found is None else found[1]
