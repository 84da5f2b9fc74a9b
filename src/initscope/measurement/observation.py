"""`observe`: one pass over a user's data that records, at every step of a model, what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from torch import Tensor, nn

from initscope.errors import InputError, check_count
from initscope.geometry import Floats, Row, angle_degrees, mean_over_pairs
from initscope.layers import activation_row, call_name
from initscope.layers.calls import called_activation
from initscope.measurement.recorder import Recorder
from initscope.measurement.steps import Mode, couples_samples, set_mode, traced_like_predict
from initscope.measurement.stream import Batch, batches, gather_pairs, pair_batches
from initscope.results import Result, plain
from initscope.tracing import BatchArgs, Inputs, Trace, sample_axes
from initscope.tracing.untouched import leaves_no_trace, runnable, without_dropout

__all__ = ["Observation", "observe"]

_COUPLED = "batch norm in train mode couples the samples: a sample's share in the gradient of the summed loss"


@dataclass(frozen=True, repr=False)
class Observation(Result):
    """What `observe` saw: the rows of `initscope.predict`, row 0 the input; NaN where a column does not apply.

    Attributes
    ----------
    rows : tuple of Row
        One per step, with shape and remarks.
    cosine, norm_ratio, rms_ratio : array ``[rows, pairs]``
        Cosine of the two outputs of a pair; norm of x's output over the norm of x; the same per unit.
    gradient_ratio, gradient_cosine : array ``[rows, pairs]``
        ‖∂ℓ/∂W‖_F/(‖∂ℓ/∂a‖‖x‖) of x alone, with W the layer's weights and a the model's output; cosine of the weight
        gradients of x and y. For Linear and convolution layers.
    dead_fraction, always_on_fraction : array ``[rows]``
        Fraction of the units of an activation's output that are zero, or positive, for all samples and positions.
    dead_element_fraction, always_on_element_fraction : array ``[rows]``
        The same for single elements: a unit at one position.
    saturated_fraction : array ``[rows]``
        Fraction of the values of a bounded activation (tanh, sigmoid, softsign and their piecewise linear kin) at the
        ends of its range.
    effective_rank : array ``[rows]``
        Participation ratio (tr C)²/tr C² of the outputs' covariance over the samples, at most samples - 1.
    mean_width : array ``[rows]``
        Two-sided Gaussian mean width of the outputs, in their own units.
    x, y : Tensor or Inputs
        The pairs, as inputs of the model.
    samples : int
        Number of samples seen; dead units, rank and width rest on all of them.
    mode : str
        ``train`` or ``eval``, or ``mixed`` where the model's modules differ.
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
    x: Any = field(compare=False)
    y: Any = field(compare=False)
    samples: int
    mode: str
    fallback: str = ""

    @property
    def angle(self) -> Floats:
        """Angles in degrees, ``[rows, pairs]``."""
        return angle_degrees(self.cosine)

    @property
    def pairs(self) -> int:
        """Number of pairs."""
        return int(self.cosine.shape[1])

    def table(self) -> list[dict[str, Any]]:
        """One dict per row; means over pairs, None where a column does not apply."""
        paired = ("cosine", "angle", "norm_ratio", "rms_ratio", "gradient_ratio", "gradient_cosine")
        single = ("dead_fraction", "always_on_fraction", "saturated_fraction", "effective_rank", "mean_width")
        columns = {name: mean_over_pairs(getattr(self, name)) for name in paired}
        columns |= {name: getattr(self, name) for name in single}
        return [
            {"layer": row.layer, "kind": row.kind}
            | {name: plain(values[index]) for name, values in columns.items()}
            | {"note": row.note}
            for index, row in enumerate(self.rows)
        ]

    def to_dict(self) -> dict[str, Any]:
        """``{"rows": [...], "pairs": …, "samples": …, "mode": …, "fallback": …}``."""
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
    model: nn.Module,
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
) -> Observation:
    r"""Run ``model`` on ``data`` once and record geometry, gradients and units at every step.

    Parameters
    ----------
    model : torch.nn.Module
        Left as found, also after an exception: weights, buffers, modes, hooks, gradients, random states.
    data
        Array, tensor, `initscope.data` set, ``Dataset``, ``DataLoader``, any iterable of batches; tuples of several
        inputs or (inputs, labels), dicts of inputs. Read once; memory does not grow with its length.
    pairs : int
        Pairs whose geometry and gradients are recorded: of the first 2·pairs samples, in random order. Samples after
        these count for dead units, effective rank and mean width only.
    gradients : bool
        Record per-sample gradients of the weights, which takes a backward pass.
    units : bool
        Record dead units, effective rank and mean width. Without, samples after the pairs are not read.
    mode : "train", "eval" or None
        What batch norm does; None: as the model is. In train mode the samples of all pairs are one batch.
    dropout : bool
        Keep dropout as the mode has it. Off by default: it would hide the geometry.
    seed : int
        Of the order of samples, of the pairs, and of v.
    shuffle : bool
        Random order and random pairs. False: samples as they come, the x of the pairs first, then the y, for example
        ``torch.cat([x, y])``.
    batch_args : str, int or sequence of them, optional
        Which arguments carry samples, by name or position; tensors of the others are given whole to every call. None:
        all tensors that are as long as the first.
    loss : callable, optional
        ``loss(output, targets)``. Default: ℓ = ⟨f(x), v⟩ with a fixed Gaussian v, of the first tensor of the output.
    targets : array, optional
        For ``loss``; default: what the data holds beside the inputs.

    Examples
    --------
    >>> import torch
    >>> layers = [torch.nn.Linear(64, 64), torch.nn.ReLU()] * 3
    >>> seen = observe(torch.nn.Sequential(*layers), torch.randn(100, 64), pairs=50)
    >>> seen.cosine.shape, seen.gradient_ratio.shape
    ((7, 50), (7, 50))
    """
    model = runnable(model)
    if targets is not None and loss is None:
        raise InputError("targets are given without a loss; give loss=, for example torch.nn.functional.cross_entropy")
    pairs = check_count("pairs", pairs)
    seed = check_count("seed", seed, least=0)
    with leaves_no_trace(model):
        set_mode(model, mode)
        stream = batches(model, data, targets, seed=seed, shuffle=shuffle, batch_args=batch_args)
        pool, rest = gather_pairs(stream, pairs, seed, shuffle=shuffle)
        if loss is not None and pool.targets is None:
            raise InputError("loss needs targets; give targets=, or data that holds them: (inputs, targets)")
        coupled = couples_samples(model)
        traced = traced_like_predict(model, pool.pick(slice(0, 2)).inputs)
        axes = sample_axes(traced, pool.inputs)
        parts = list(pair_batches(pool, whole=coupled))
        with nullcontext() if dropout else without_dropout(model):
            try:
                recorder = _recorded(
                    _recorder(traced, axes=axes, seed=seed, gradients=gradients, units=units, loss=loss), parts
                )
            except InputError as error:
                if not gradients or loss is not None:
                    raise
                # Some models run but cannot be differentiated; what can be measured, is.
                recorder = _recorded(_recorder(traced, axes=axes, seed=seed, gradients=False, units=units), parts)
                recorder.gradient_note = f"no gradient: {error}"
            for batch in chain(rest, stream) if units else ():
                _run(recorder.run_samples, batch)
        modes = {module.training for module in model.modules()}
    half, records = len(pool) // 2, recorder.records.values()
    if coupled and recorder.gradients:
        recorder.gradient_note = recorder.gradient_note or _COUPLED
    return Observation(
        **recorder.result(),
        saturated_fraction=np.array(
            [np.nan if record.activity is None else record.activity.saturated_fraction() for record in records]
        ),
        x=_single(pool.pick(slice(0, half)).inputs),
        y=_single(pool.pick(slice(half, None)).inputs),
        mode="mixed" if len(modes) > 1 else "train" if True in modes else "eval",
        fallback=traced.fallback,
    )


def _recorder(traced: Trace, **options: Any) -> Recorder:
    """A recorder whose tallies know the ranges of bounded activations."""
    recorder = Recorder(traced, **options)
    for node, record in recorder.records.items():
        if record.activity is not None:
            record.activity.bounds = _range(traced.module(node), traced.kind(node))
    return recorder


def _range(module: nn.Module | None, kind: str) -> tuple[float, float] | None:
    """Of an activation that levels off at both ends; the zeros of ReLU6 count as dead, like those of ReLU."""
    row = called_activation(call_name(kind)) if module is None else activation_row(module)
    return None if row is None or row.ends is None else row.ends(nn.Hardtanh() if module is None else module)


def _recorded(recorder: Recorder, parts: list[Batch]) -> Recorder:
    for part in parts:
        _run(recorder.run_pairs, part)
    return recorder


def _run(step: Callable[[Batch], None], batch: Batch) -> None:
    try:
        step(batch)
    except Exception as error:
        raise batch.inputs.refused(error) from error


def _single(inputs: Inputs) -> Any:
    values = [*inputs.args, *inputs.kwargs.values()]
    return values[0] if len(values) == 1 and isinstance(values[0], Tensor) else inputs
