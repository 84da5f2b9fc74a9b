"""`observe`: one pass over a user's data that records statistics at every node of a model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from torch import Tensor, nn

from initscope._utils.progress import steps
from initscope.errors import InputError, check_count
from initscope.geometry import Floats, Row, angle_degrees, mean_over_pairs
from initscope.graph import (
    BatchArgs,
    Graph,
    GraphRun,
    Inputs,
    Mode,
    Node,
    Observer,
    SampleAxes,
    cosine_of,
    couples_samples,
    pair_batches,
    run,
    sample_axes,
    set_mode,
    trace,
)
from initscope.graph.borrowing import borrowed, runnable, without_dropout
from initscope.measurement.attention import AttentionObserver, TokenObserver
from initscope.measurement.number_formats import FormatObserver
from initscope.measurement.observers import GradientObserver, PairObserver
from initscope.measurement.recording_run import mode_of
from initscope.measurement.stream import BATCH, batches, gather_pairs
from initscope.measurement.units import ActivityObserver, SpreadObserver
from initscope.results import Result, plain

__all__ = ["Observation", "observe"]

_COUPLED = "batch norm in train mode couples the samples: a sample's share in the gradient of the summed loss"


@dataclass(frozen=True, repr=False)
class Observation(Result):
    """Result of `observe`: the rows of `initscope.predict`, row 0 is the input; NaN if a column does not apply.

    Attributes
    ----------
    rows : tuple of Row
        One per node, with shape and remarks.
    cosine, norm_ratio, rms_ratio : array ``[rows, pairs]``
        Cosine of the two outputs of a pair; norm of x's output over the norm of x; the same per unit.
    gradient_ratio, gradient_cosine : array ``[rows, pairs]``
        ‖∂ℓ/∂W‖_F/(‖∂ℓ/∂a‖‖x‖) of x alone, with W the layer's weights and a the model's output; cosine of the weight
        gradients of x and y. Available for Linear and convolution layers.
    dead_fraction, always_on_fraction : array ``[rows]``
        Fraction of the units of an activation's output that are zero, or positive, for all samples and positions. A
        zero counts as dead if the activation is flat there (ReLU and similar): a unit of tanh at zero passes gradients.
    dead_element_fraction, always_on_element_fraction : array ``[rows]``
        The same for single elements, that is, a unit at one position.
    saturated_fraction : array ``[rows]``
        Fraction of the values of a bounded activation (tanh, sigmoid, softsign and their piecewise linear variants) at
        the ends of its range.
    effective_rank : array ``[rows]``
        Participation ratio (tr C)²/tr C² of the outputs' covariance over the samples, at most samples - 1.
    mean_width : array ``[rows]``
        Two-sided Gaussian mean width of the outputs, in their own units.
    mean_width_error : array ``[rows]``
        Its standard error over 64 directions and, in layers of more than 128 units, over the choice of units.
    x, y : Tensor or Inputs
        The pairs, as inputs of the model.
    samples : int
        Number of samples; dead units, rank and width use all of them.
    mode : str
        ``train`` or ``eval``, or ``mixed`` if the model's modules differ.
    fallback : str
        Why the model could not be traced symbolically, or empty.
    """

    rows: tuple[Row, ...]
    cosine: Floats
    norm_ratio: Floats
    rms_ratio: Floats
    gradient_ratio: Floats
    gradient_cosine: Floats
    dead_fraction: Floats
    always_on_fraction: Floats
    dead_element_fraction: Floats
    always_on_element_fraction: Floats
    saturated_fraction: Floats
    effective_rank: Floats
    mean_width: Floats
    mean_width_error: Floats
    x: Any = field(compare=False)
    y: Any = field(compare=False)
    samples: int
    mode: str
    fallback: str = ""
    gap: Floats | None = field(default=None, repr=False, compare=False)
    """1 - cosine with all its digits."""
    signal_gradient: Floats | None = field(default=None, repr=False, compare=False)
    """‖∂ℓ/∂h‖‖h‖ of x at each row over the same at the output, ``[rows, pairs]``: what relative changes there weigh."""
    token_cosine: Floats | None = field(default=None, repr=False, compare=False)
    """Mean cosine between the tokens of a sample, ``[rows]``."""
    attention_entropy: Floats | None = field(default=None, repr=False, compare=False)
    """Entropy of attention weights over that of uniform ones, ``[rows]``."""
    attention_sum: Floats | None = field(default=None, repr=False, compare=False)
    """1 plus the largest deviation from 1 of what a query's weights sum to, ``[rows]``."""
    attention_self: Floats | None = field(default=None, repr=False, compare=False)
    """Largest weight that a token gives to itself, ``[rows]``."""
    overflow: Floats | None = field(default=None, repr=False, compare=False)
    """Share of the values of a few samples that float16 cannot hold, ``[rows]``."""
    formats: Any = field(default=None, repr=False, compare=False)
    """Counts of values that smaller number formats cannot hold, by row: `initscope.measurement.number_formats`."""
    targets: Any = field(default=None, repr=False, compare=False)
    """Of x, where the data holds them."""
    targets_y: Any = field(default=None, repr=False, compare=False)
    """Of y, where the data holds them."""
    output: int = -1
    """The row whose values the model returns, the first of them."""

    @property
    def angle(self) -> Floats:
        """Angles in degrees, ``[rows, pairs]``."""
        return angle_degrees(self.cosine, self.gap)

    @property
    def pairs(self) -> int:
        """Number of pairs."""
        return int(self.cosine.shape[1])

    def table(self) -> list[dict[str, Any]]:
        """Return one dict per row with means over pairs, None if a column does not apply."""
        paired = ("cosine", "angle", "norm_ratio", "rms_ratio", "gradient_ratio", "gradient_cosine")
        single = (
            "dead_fraction",
            "always_on_fraction",
            "saturated_fraction",
            "effective_rank",
            "mean_width",
            "mean_width_error",
        )
        columns = {name: mean_over_pairs(getattr(self, name)) for name in paired}
        columns |= {name: getattr(self, name) for name in single}
        return [
            {"layer": row.layer, "kind": row.kind}
            | {name: plain(values[index]) for name, values in columns.items()}
            | {"note": row.note}
            for index, row in enumerate(self.rows)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"rows": [...], "pairs": …, "samples": …, "mode": …, "fallback": …}``."""
        return {
            "rows": self.table(),
            "pairs": self.pairs,
            "samples": self.samples,
            "mode": self.mode,
            "fallback": self.fallback,
        }

    def __repr__(self) -> str:
        return f"Observation({len(self.rows)} rows, {self.pairs} pairs, {self.samples} samples, {self.mode})"


def observe(
    model: nn.Module | Graph,
    data: Any,
    *,
    pairs: int = 256,
    gradients: bool = True,
    units: bool = True,
    mode: Mode | None = None,
    dropout: bool = False,
    seed: int = 0,
    shuffle: bool = True,
    batch_args: BatchArgs = None,
    loss: Callable[[Any, Any], Tensor] | None = None,
    targets: Any = None,
    opened: bool = False,
) -> Observation:
    r"""Run ``model`` on ``data`` once and record geometry, gradients and units at every node.

    Parameters
    ----------
    model : torch.nn.Module
        Left as found, also after an exception: weights, buffers, modes, hooks, gradients, random states. Or its
        `initscope.graph.trace` in the mode of the run, which then is not computed again.
    data
        Array, tensor, `initscope.data` set, ``Dataset``, ``DataLoader``, any iterable of batches; tuples of several
        inputs or (inputs, labels), dicts of inputs. Read once; memory does not grow with its length.
    pairs : int
        Number of pairs whose geometry and gradients are recorded; they come from the first 2·pairs samples, in random
        order. Samples after these count for dead units, effective rank and mean width only.
    gradients : bool
        Record per-sample gradients of the weights, which needs a backward pass.
    units : bool
        Record dead units, effective rank and mean width. Without, samples after the pairs are not read.
    mode : "train", "eval" or None
        Mode of batch norm; None: the present mode of the model. In train mode the samples of all pairs are one batch.
    dropout : bool
        Keep dropout as the mode has it. Off by default: it would hide the geometry.
    seed : int
        Seed of the order of samples, of the pairs, and of v.
    shuffle : bool
        Random order and random pairs. False: samples as they come, the x of the pairs first, then the y, for example
        ``torch.cat([x, y])``.
    batch_args : str, int or sequence of them, optional
        Which arguments carry samples, by name or position; tensors of the others are given whole to every call. None:
        all tensors that are as long as the first.
    loss : callable, optional
        ``loss(output, targets)``. Default: ℓ = ⟨f(x), v⟩ with a fixed Gaussian v, of the first tensor of the output.
    targets : array, optional
        Targets for ``loss``; default: the part of the data that is not an input.
    opened : bool
        Include rows for the steps inside attention, transformers and recurrent loops of torch, instead of one row for
        the whole module.

    Returns
    -------
    Observation
        One row for every node.

    Examples
    --------
    >>> import torch
    >>> layers = [torch.nn.Linear(64, 64), torch.nn.ReLU()] * 3
    >>> seen = observe(torch.nn.Sequential(*layers), torch.randn(100, 64), pairs=50)
    >>> seen.cosine.shape, seen.gradient_ratio.shape
    ((7, 50), (7, 50))
    """
    known, model = (model, model.model) if isinstance(model, Graph) else (None, model)
    model = runnable(model)
    pairs = check_count("pairs", pairs)
    seed = check_count("seed", seed, least=0)
    with borrowed(model):
        set_mode(model, mode)
        stream = batches(model, data, targets, seed=seed, shuffle=shuffle, batch_args=batch_args)
        pool, rest = gather_pairs(stream, pairs, seed, shuffle=shuffle)
        if loss is not None and pool.targets is None:
            raise InputError("loss needs targets; give targets=, or data that holds them: (inputs, targets)")
        coupled = couples_samples(model)
        graph = known or trace(model, pool.pick(slice(0, 2)).inputs, opened=opened)
        axes = sample_axes(graph, pool.inputs)
        parts = list(pair_batches(pool, whole=coupled))
        options: dict[str, Any] = {"seed": seed, "units": units, "loss": loss}
        with nullcontext() if dropout else without_dropout(model):
            observers = _Observers(graph, axes, gradients=gradients, **options)
            try:
                seen = run(graph, steps(parts, "measuring pairs"), observers.all, axes)
            except InputError as error:
                if not gradients or loss is not None:
                    raise
                # Some models run but cannot be differentiated; what can be measured, is.
                observers = _Observers(graph, axes, gradients=False, **options)
                observers.note = f"no gradient: {error}"
                seen = run(graph, parts, observers.all, axes)
            if units:
                left = _batches(data, after=len(pool))
                run(graph, steps(chain(rest, stream), "reading the other samples", left), observers.all, seen=seen)
        ran_as = mode_of(model)
    observers.note_coupling(coupled)
    half = len(pool) // 2
    return Observation(
        **observers.columns(seen),
        x=_single(pool.pick(slice(0, half)).inputs),
        y=_single(pool.pick(slice(half, None)).inputs),
        targets=pool.pick(slice(0, half)).targets,
        targets_y=pool.pick(slice(half, None)).targets,
        samples=seen.samples,
        mode=ran_as,
        fallback=graph.fallback,
        output=next((node.index for node in graph.returned if node in seen.shapes), -1),
    )


class _Observers:
    """The observers of an observation, and its columns."""

    def __init__(
        self,
        graph: Graph,
        axes: SampleAxes,
        *,
        seed: int,
        gradients: bool,
        units: bool,
        loss: Callable[[Any, Any], Tensor] | None,
    ) -> None:
        self.geometry = PairObserver(graph)
        self.gradients = GradientObserver(graph, axes, seed=seed, loss=loss) if gradients else None
        self._of_units: list[Any] = []
        if units:
            self._of_units = [ActivityObserver(graph, axes), SpreadObserver(graph, seed), FormatObserver(graph)]
        if units and graph.attention_nodes:
            self._of_units += [TokenObserver(graph), AttentionObserver(graph)]
        self.all: list[Observer] = [self.geometry, *self._of_units]
        self.all += [] if self.gradients is None else [self.gradients]
        self.note = ""  # for the rows of weights

    def note_coupling(self, coupled: bool) -> None:
        """Note at the rows of weights which gradients theirs are."""
        if self.gradients is not None:
            self.note = self.gradients.note or (_COUPLED if coupled else "")

    def columns(self, seen: GraphRun) -> dict[str, Any]:
        """Return rows and arrays of the result."""
        graph = seen.graph
        gap, ratio, rms, start = self.geometry.geometry(seen.shapes)
        columns = {"cosine": 1 - gap, "gap": gap, "norm_ratio": ratio, "rms_ratio": rms}
        columns |= dict.fromkeys(("gradient_ratio", "gradient_cosine"), np.full(gap.shape, np.nan))
        if self.gradients is not None:
            norms = self.gradients.norms()
            with np.errstate(invalid="ignore", divide="ignore"):
                columns["gradient_ratio"] = norms[:, 0] / start / self.gradients.at_output()
                passed = self.gradients.at_steps() * ratio
                columns["signal_gradient"] = passed / self.gradients.at_output()
            columns["gradient_cosine"] = cosine_of(norms.swapaxes(0, 1))
        columns |= dict.fromkeys((*ActivityObserver.names, *SpreadObserver.names), np.full(len(graph.nodes), np.nan))
        for observer in self._of_units:
            columns |= observer.columns()
        return {"rows": seen.rows(self._notes(graph))} | columns

    def _notes(self, graph: Graph) -> dict[Node, str]:
        """Return remarks on the gradients of rows that have one."""
        notes = {} if self.gradients is None else dict(self.gradients.notes)
        if self.note:
            for node in graph.nodes:
                if node.module is not None and node.traits.unit_axis is not None:
                    notes[node] = f"{notes[node]}; {self.note}" if notes.get(node) else self.note
        return notes


def _batches(data: Any, after: int) -> int | None:
    """Return the number of batches of arrays beyond the first samples; None for data without a length."""
    data = getattr(data, "images", data)
    samples = len(data) if isinstance(data, (Tensor, np.ndarray)) and data.ndim else after
    return -(-(samples - after) // BATCH) if samples > after else None


def _single(inputs: Inputs) -> Any:
    values = [*inputs.args, *inputs.kwargs.values()]
    return values[0] if len(values) == 1 and isinstance(values[0], Tensor) else inputs
