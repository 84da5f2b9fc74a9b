"""`Recorder` runs a traced model, and what is a `Tally` sees the output of every step before anything overwrites it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from initscope.geometry import Row
from initscope.graph._samples import SampleAxes, SampleAxis, sample_axes
from initscope.graph._threads import LARGE, all_threads, multiplications
from initscope.graph._trace import Node, Trace
from initscope.graph.batch import Batch
from initscope.graph.steps import NO_VALUES

__all__ = ["Recorder", "Tally"]


class Tally:
    """Looks at the steps of a run. To add one, write `see`; the other methods are there for what needs more.

    A tally keeps what it needs by step, reduced at once: outputs are large, and the next step may overwrite them.

    >>> class Largest(Tally):
    ...     def __init__(self):
    ...         self.largest = {}
    ...     def see(self, step, values):
    ...         self.largest[step] = max(self.largest.get(step, 0.0), float(values.abs().max()))
    """

    def begin(self, batch: Batch) -> None:
        """A batch is about to run; it has the targets, and the ``sides`` of pairs where it is made of pairs."""

    def see(self, step: Node, values: Tensor) -> None:
        """The output of ``step``, real, ``[samples, ...]``, without gradient: not to be written into, nor kept."""

    def read(self, step: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """What ``step`` was called with, right after `see`; the same holds for these values."""

    def needs_graph(self, batch: Batch) -> bool:
        """Whether the run has to keep what a backward pass needs; if so `follow` is called, and `end` inside of it."""
        return False

    def follow(
        self, step: Node, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any, tensor: Tensor, axis: SampleAxis
    ) -> Any:
        """The same step with its graph; what is returned, unless None, takes the output's place.

        ``tensor`` is the part of ``output`` whose values were seen, as it is: its samples lie along ``axis``.
        """
        return None

    def end(self, output: Any) -> None:
        """The batch has run, with this output of the model."""


class Recorder:
    """Runs a traced model batch by batch and shows every step's output to tallies.

    Attributes
    ----------
    traced : Trace
        The model and its steps.
    shapes : dict
        By step, the shape of one sample's output; steps without real values, one set for each sample, are not there.
    samples : int
        Number of samples seen.
    axes : SampleAxes or None
        Where the samples of each step are; None: found by running a few samples of the first batch.
    """

    def __init__(self, traced: Trace, tallies: Sequence[Tally], axes: SampleAxes | None = None) -> None:
        self.traced, self.tallies, self.axes = traced, tuple(tallies), axes
        self.shapes: dict[Node, tuple[int, ...]] = {}
        self.samples = 0
        self._batch = 0  # samples of the batch that runs
        self._work = 0.0  # multiplications so far: those of a large run take all threads
        self._followers: tuple[Tally, ...] = ()

    def run(self, batch: Batch) -> None:
        """Run one batch; what the model raises is told with the shapes of its inputs."""
        try:
            self._run(batch)
        except Exception as error:
            raise batch.inputs.refused(error) from error

    def run_all(self, batches: Iterable[Batch]) -> None:
        """Run batch after batch."""
        for batch in batches:
            self.run(batch)

    def _run(self, batch: Batch) -> None:
        self._batch = len(batch)
        if self.axes is None:
            self.axes = sample_axes(self.traced, batch.inputs)
        self._followers = tuple(tally for tally in self.tallies if tally.needs_graph(batch))
        if self._followers:
            for parameter in self.traced.model.parameters():
                parameter.requires_grad_(False)  # only gradients of outputs are needed; `leaves_no_trace` puts it back
        for tally in self.tallies:
            tally.begin(batch)
        with torch.set_grad_enabled(bool(self._followers)):
            output = self.traced.run(batch.inputs, self._watch)
            for tally in self.tallies:
                tally.end(output)
        self.samples += len(batch)

    def _watch(self, step: Node, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        # The calls of tallies are hidden from the modes that look for calls of the model, which would cost time.
        with torch._C.DisableTorchFunction():
            found = None if self.axes is None else self.axes.tensor(step, output, self._batch)
            if found is None:
                return None
            tensor, front, axis = found
            values = front.detach()
            self.shapes[step] = tuple(values.shape[1:])
            self._work += multiplications(self.traced.module(step), values)
            if self._work > LARGE:
                all_threads()
            for tally in self.tallies:
                tally.see(step, values)
                tally.read(step, args, kwargs)
            replaced = None
            for tally in self._followers:
                again = tally.follow(step, args, kwargs, output, tensor, axis)
                replaced = replaced if again is None else again
            return replaced

    def row(self, step: Node, note: str = "") -> Row:
        """The row of a step, with a remark where it has no values or ``note`` says something."""
        traced = self.traced
        notes = [text for text in ("" if step in self.shapes else NO_VALUES, traced.note(step), note) if text]
        return Row(
            traced.name(step),
            traced.kind(step),
            "measured",
            self.shapes.get(step, ()),
            "; ".join(notes),
            traced.role(step),
            traced.within(step),
            traced.reads(step),
            traced.traits(step),
        )
