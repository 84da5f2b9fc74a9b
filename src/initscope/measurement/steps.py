"""What measurement needs to know about a model: its steps, which are activations, and where their units are."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from initscope.errors import InputError
from initscope.geometry import Floats
from initscope.layers import unit_axis
from initscope.propagate.rules import find_rule
from initscope.tracing import Node, SampleAxes, Trace, Watch, trace

# fmt: off
__all__ = [
    "NO_VALUES", "Mode", "aside", "couples_samples", "is_activation", "norms_at_start", "output_tensor", "set_mode",
    "traced_like_predict", "unit_axes",
]
# fmt: on

Mode = Literal["train", "eval"]

NO_VALUES = "its output holds no real values, one set for each sample"
"""Why a step has a row without numbers: `output_tensor` finds none in its output."""


def set_mode(model: nn.Module, mode: Mode | None) -> None:
    """Modes of the modules as asked for, None: as they are; `leaves_no_trace` puts them back."""
    if mode not in (None, "train", "eval"):
        raise InputError(f"mode = {mode!r} must be 'train', 'eval' or None (as the model is)")
    if mode is not None:
        model.train(mode == "train")


def aside(watch: Watch) -> Watch:
    """``watch``, with its own calls hidden from the modes that look for calls of the model, which would cost time."""

    def watch_aside(*seen: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return watch(*seen)

    return watch_aside


def couples_samples(model: nn.Module) -> bool:
    """Whether what becomes of a sample depends on its batch: batch norm in train mode."""
    return any(isinstance(module, _BatchNorm) and module.training for module in model.modules())


def traced_like_predict(model: nn.Module, inputs: Any) -> Trace:
    """The steps that prediction walks: modules with a rule stay whole."""
    return trace(model, inputs, is_leaf=lambda module: find_rule(module) is not None)


def is_activation(traced: Trace, node: Node) -> bool:
    """Whether a step applies an activation: as a module, a function, a method, in place or not."""
    return traced.role(node) == "activation"


def unit_axes(traced: Trace, samples: SampleAxes | None = None) -> dict[Node, int]:
    """Axis of one sample's output along which its units lie: the last after a Linear, the first otherwise.

    Behind the axis of the windows or frames that are folded into that of the samples.
    """
    axes: dict[Node, int] = {}
    for node in traced.steps:
        own = unit_axis(traced.module(node))
        before = next((axes[parent] for parent in node.all_input_nodes if parent in axes), 0)
        axes[node] = before if own is None else own
    if samples is None:
        return axes
    folded = {node for node in axes if (place := samples.of(node)) is not None and place.fold > 1}
    return {node: axis + 1 if node in folded and axis >= 0 else axis for node, axis in axes.items()}


def output_tensor(output: Any, samples: int, axes: SampleAxes | None = None, node: Node | None = None) -> Tensor | None:
    """The real-valued tensor of a step's output, samples first; of a tuple or dict, the first that holds samples."""
    found = (axes or SampleAxes()).tensor(node, output, samples)
    return None if found is None else found[1]


def norms_at_start(traced: Trace, squares: Floats, units: Floats) -> tuple[Floats, float]:
    """Norms that ratios refer to and how many values: of all real-valued inputs, or of what is first made of them.

    ``squares [steps, samples]`` are the squared norms after each step, ``units [steps]`` their numbers of values.
    """
    inputs = [index for index, node in enumerate(traced.steps) if node.op == "placeholder"]
    real = [index for index in inputs if np.isfinite(squares[index]).all()]
    if not real:
        real = [int(np.argmax(np.isfinite(squares).all(axis=1)))]
    return np.sqrt(squares[real].sum(axis=0)), float(units[real].sum())
