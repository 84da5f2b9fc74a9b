"""The sample axis of each step's output: found by running a few samples, never guessed from lengths.

Sequence models move the samples to the second axis; other models fold them together with windows, frames or tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from initscope.graph.borrowing import borrowed, without_dropout
from initscope.graph.few_units import FewUnits
from initscope.graph.graph import Graph
from initscope.graph.inputs import Inputs, named_tensors
from initscope.graph.node import Node
from initscope.graph.samples_first import all_keep_samples_first

__all__ = ["SampleAxes", "SampleAxis", "sample_axes"]

_MANY, _FEW = [0, 1, 0], [0, 1]
_SAME = [0, 0, 0]  # as _MANY with another sample in the middle

_T = TypeVar("_T")
_Seen = dict[Node | None, dict[str, _T]]
"""A value for every tensor of a run, by step and by the tensor's name inside the step's output."""


@dataclass(frozen=True)
class SampleAxis:
    """Sample axis of a tensor.

    Attributes
    ----------
    axis : int
        The axis.
    fold : int
        Number of entries per sample along the axis: 1, or the number of windows, frames or tokens that are folded into
        it.
    inner : int
        Stride of the samples: ``fold`` if the entries of each sample are adjacent (tokens flattened batch first), 1 if
        the samples run fastest (sequence first).
    """

    axis: int = 0
    fold: int = 1
    inner: int = 1
    first: bool = field(init=False, compare=False, repr=False)
    """Whether the first axis are the samples, one entry for each."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "first", self.axis == 0 and self.fold == 1)

    def to_front(self, tensor: Tensor, samples: int) -> Tensor | None:
        """Return ``tensor`` as ``[samples, ...]``, then folded entries; None if that axis has another length."""
        if not 0 <= self.axis < tensor.dim() or tensor.shape[self.axis] != samples * self.fold:
            return None
        if self.first:
            return tensor
        moved = tensor.movedim(self.axis, 0)
        if self.fold == 1:
            return moved
        rest = moved.shape[1:]
        apart = moved.reshape(self.fold // self.inner, samples, self.inner, *rest)
        return apart.transpose(0, 1).reshape(samples, self.fold, *rest)


_FIRST = SampleAxis()
_FIRST_ONLY: dict[str, SampleAxis | None] = {"": _FIRST}
_Look = tuple[SampleAxis | None, Tensor | None]
_NOTHING: _Look = (None, None)


@dataclass(frozen=True)
class SampleAxes:
    """The `SampleAxis` of every tensor that a step returns; the entry None is the model's own output.

    For a step that was not observed, because the model skipped it or failed, samples are assumed to come first.
    """

    axes: dict[Node | None, dict[str, SampleAxis | None]] = field(default_factory=dict)

    def of(self, step: Node | None, name: str = "") -> SampleAxis | None:
        """Return the sample axis of one tensor in a step's output; None if it holds no samples, or mixes them."""
        return self.axes.get(step, {}).get(name, SampleAxis() if step not in self.axes else None)

    def tensor(self, step: Node | None, output: Any, samples: int) -> tuple[Tensor, Tensor, SampleAxis] | None:
        """Return the first real-valued tensor of an output with samples, also with samples first, and its axis."""
        if type(output) is Tensor and output.layout is torch.strided and not output.is_nested:
            axes = self.axes.get(step)
            axis = _FIRST if axes is None else axes.get("")
            if axis is None or not output.is_floating_point() or output.numel() == 0:
                return None
            if axis.first:
                return (output, output, axis) if output.shape and output.shape[0] == samples else None
            front = axis.to_front(output, samples)
            return None if front is None else (output, front, axis)
        for name, tensor in _shaped(output):
            axis = self.of(step, name)
            if axis is not None and tensor.is_floating_point() and tensor.numel() > 0:
                front = axis.to_front(tensor, samples)
                if front is not None:
                    return tensor, front, axis
        return None


def sample_axes(graph: Graph, inputs: Inputs) -> SampleAxes:
    """Return the sample axis of each step, from two runs unless the steps' definitions determine it.

    One run has three samples; the other is the recorded run, or a run of two samples.

    The sample axis is the one whose length grows in proportion to the number of samples. If it is longer than the
    number of samples, two runs that differ in one sample show which entries belong to it. A tensor without a growing
    axis, or with several, holds no samples, or mixes them. ``inputs`` needs one sample, better two; only these are run,
    without dropout and with batch norm's running statistics.

    Parameters
    ----------
    graph : Graph
        The nodes.
    inputs : Inputs
        At least one sample.

    Returns
    -------
    SampleAxes
    """
    if all_keep_samples_first(graph, inputs):
        return SampleAxes(dict.fromkeys((*graph.nodes, None), _FIRST_ONLY))
    with borrowed(graph.model), without_dropout(graph.model):
        for module in graph.model.modules():
            if isinstance(module, _BatchNorm):
                module.training = False
        try:
            many, same = _looked_at(graph, inputs)
        except Exception:  # it wants another number of samples, or other data: then nothing is known
            return SampleAxes()
    return SampleAxes(
        {
            step: {
                name: _ordered(axis, entries, same.get(step, {}).get(name, _NOTHING)[1])
                for name, (axis, entries) in tensors.items()
            }
            for step, tensors in many.items()
        }
    )


def _looked_at(graph: Graph, inputs: Inputs) -> tuple[_Seen[_Look], _Seen[_Look]]:
    """Return the axis that grows, and entries along it, for the tensors of two runs; the second run only if needed."""
    few, count = _recorded_shapes(graph)
    if not few:
        few, count = _run(graph, inputs, _FEW, lambda step, name, tensor: tuple(tensor.shape)), len(_FEW)

    def look(step: Node | None, name: str, tensor: Tensor) -> _Look:
        axis = _grown(tuple(tensor.shape), few.get(step, {}).get(name), count)
        return axis, _along(tensor, axis)

    many = _run(graph, inputs, _MANY, look)
    folded = any(axis is not None and axis.fold > 1 for tensors in many.values() for axis, _ in tensors.values())
    return many, _run(graph, inputs, _SAME, look) if folded else {}


def _run(graph: Graph, inputs: Inputs, samples: list[int], note: Callable[[Node | None, str, Tensor], _T]) -> _Seen[_T]:
    """Run these samples and collect ``note(step, place, tensor)`` for the tensors of each step.

    The model's output has the step None.
    """
    seen: _Seen[_T] = {}

    def watch(step: Node | None, args: Any, kwargs: Any, output: Any) -> None:
        with torch._C.DisableTorchFunction():
            seen[step] = {name: note(step, name, tensor) for name, tensor in _shaped(output)}

    with FewUnits():
        output = graph.execute(inputs.pick([min(sample, inputs.samples - 1) for sample in samples]), watch)
    watch(None, (), {}, output)
    return seen


def _shaped(output: Any) -> list[tuple[str, Tensor]]:
    """Return the tensors of an output that have axes; nested and sparse tensors and numbers are left out."""
    return [
        (name, tensor)
        for name, tensor in named_tensors(output, "")
        if tensor.layout == torch.strided and not tensor.is_nested
    ]


def _recorded_shapes(graph: Graph) -> tuple[_Seen[tuple[int, ...]], int]:
    """Return the shapes of the recorded run and its number of samples.

    None if another number of samples is not available.
    """
    few: _Seen[tuple[int, ...]] = {node: node.output_shapes for node in graph.nodes if graph.symbolic is None}
    if graph.batch in (None, len(_MANY)) or not few:
        return {}, 0
    few[None] = graph.output_shapes
    return few, graph.batch or 0


def _grown(many: tuple[int, ...], few: tuple[int, ...] | None, count: int) -> SampleAxis | None:
    """Return the axis whose length depends on the number of samples.

    ``many`` has three samples, ``few`` has ``count``.
    """
    if few is None or len(many) != len(few):
        return None
    grown = [axis for axis, (a, b) in enumerate(zip(many, few, strict=True)) if a != b]
    if len(grown) != 1:
        return None
    (axis,) = grown
    fold, rest = divmod(many[axis], len(_MANY))
    return SampleAxis(axis, fold, fold) if rest == 0 and few[axis] == fold * count else None


def _along(tensor: Tensor, axis: SampleAxis | None) -> Tensor | None:
    """Return one number for each entry along the axis, if several entries belong to a sample."""
    if axis is None or axis.fold == 1 or tensor.dim() <= axis.axis:
        return None
    entries = tensor.detach().movedim(axis.axis, 0).reshape(tensor.shape[axis.axis], -1).double()
    return entries @ torch.linspace(1, 2, entries.shape[1], dtype=torch.float64, device=entries.device)


def _ordered(axis: SampleAxis | None, first: Tensor | None, second: Tensor | None) -> SampleAxis | None:
    """Return the axis with the order of its entries: entries that change with the middle sample belong to it."""
    if (
        axis is None
        or first is None
        or second is None
        or first.shape != second.shape
        or len(first) != axis.fold * len(_MANY)
    ):
        return axis
    changed = (first != second) & ~(first.isnan() & second.isnan())
    positions = torch.arange(len(first), device=first.device)
    for inner in range(axis.fold, 0, -1):
        of_sample = positions // inner % len(_MANY) == 1
        if axis.fold % inner == 0 and not bool((changed & ~of_sample).any()):
            return SampleAxis(axis.axis, axis.fold, inner)
    return None
