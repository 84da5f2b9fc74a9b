"""Facts about a model that a recording needs: sample and unit axes of each step, and steps that couple samples."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from initscope.errors import InputError
from initscope.graph.borrowing import modules_of
from initscope.graph.graph import Graph
from initscope.graph.node import Node
from initscope.graph.samples import SampleAxes

__all__ = ["NO_VALUES", "Mode", "couples_samples", "output_tensor", "set_mode", "unit_axes"]

Mode = Literal["train", "eval"]

NO_VALUES = "its output holds no real values, one set for each sample"
"""Why a step has a row without numbers: `output_tensor` finds none in its output."""


def set_mode(model: nn.Module, mode: Mode | None) -> None:
    """Set the modes of the modules (None: unchanged); `borrowed` restores them.

    Parameters
    ----------
    model : nn.Module
        A borrowed model.
    mode : "train", "eval" or None
        None: as the modules are.
    """
    if mode not in (None, "train", "eval"):
        raise InputError(f"mode = {mode!r} must be 'train', 'eval' or None (as the model is)")
    if mode is not None:
        model.train(mode == "train")


def couples_samples(model: nn.Module) -> bool:
    """Return whether the output of a sample depends on its batch: batch norm in train mode.

    Parameters
    ----------
    model : nn.Module
        The model in its present mode.

    Returns
    -------
    bool
    """
    return any([module.training and isinstance(module, _BatchNorm) for module in modules_of(model)])  # noqa: C419


def unit_axes(graph: Graph, samples: SampleAxes | None = None) -> dict[Node, int]:
    """Return the axis of one sample's output along which its units lie: the last after a Linear, otherwise the first.

    After the axis of the windows or frames that are folded into that of the samples.

    Parameters
    ----------
    graph : Graph
        The nodes.
    samples : SampleAxes, optional
        Sample axis; None: the first axis, one entry per sample.

    Returns
    -------
    dict
        Axis of every node.
    """
    axes: dict[Node, int] = {}
    for node in graph.nodes:
        axes[node] = 0
        if node.module is not None and node.traits.unit_axis is not None:
            axes[node] = node.traits.unit_axis
            continue
        for parent in node.inputs:
            if parent in axes:
                axes[node] = axes[parent]
                break
    if samples is None:
        return axes
    for node in graph.nodes:
        by_name = samples.axes.get(node)
        axis = None if by_name is None else by_name.get("")
        if axis is not None and axis.fold > 1 and axes[node] >= 0:
            axes[node] += 1
    return axes


def output_tensor(output: Any, samples: int) -> Tensor | None:
    """Return the real-valued tensor of a model's output with one entry per sample.

    In a tuple or dict, it is the first such tensor.

    Parameters
    ----------
    output : object
        What the model returned.
    samples : int
        Number of samples of the batch.

    Returns
    -------
    Tensor or None
        ``[samples, ...]``.
    """
    with_axis = SampleAxes().tensor(None, output, samples)
    return None if with_axis is None else with_axis[1]
