"""`inspect` and its `Report`: predicted beside measured, verdicts, what-if."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from initscope.errors import InputError
from initscope.geometry import (
    Measurement,
    Prediction,
    Row,
    Status,
    covered_rows,
    mean_over_pairs,
    median_over_pairs,
)
from initscope.initializers import Initializer, believability
from initscope.inspection.alternatives import WhatIf, what_if
from initscope.inspection.expansivity import LayerExpansivity, layer_expansivities
from initscope.inspection.verdicts import Thresholds, Verdict, judge, verdict_names
from initscope.layers import is_weight_layer
from initscope.measurement import measure
from initscope.measurement.observation import Observation, observe
from initscope.propagate import predict
from initscope.recording import set_mode
from initscope.results import Result, plain
from initscope.tracing import BatchArgs, Inputs
from initscope.tracing.untouched import leaves_no_trace, runnable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Deviation", "Report", "Unhealthy", "inspect"]

_Side = TypeVar("_Side", Prediction, Measurement)


@dataclass(frozen=True)
class Deviation(Result):
    """One pair: its angle at the input, and predicted and measured after the last step, in degrees."""

    index: int
    before: float
    predicted: float
    measured: float


class Unhealthy(AssertionError):
    """Raised by `Report.assert_healthy`; the message lists the verdicts."""


@dataclass(frozen=True, repr=False)
class Report(Result):
    """What `inspect` found: a row per layer, ``verdicts``, ``what_if``, and the ``expansivity`` of ReLU layers."""

    observation: Observation
    prediction: Prediction | None
    measurement: Measurement | None
    verdicts: tuple[Verdict, ...]
    what_if: WhatIf | None
    thresholds: Thresholds
    expansivity: tuple[LayerExpansivity, ...] = ()
    weights: dict[str, str] = field(default_factory=dict)
    """Of layers whose weights do not look like independent draws: why. Trained weights are found out here."""
    title: str = ""
    reason: str = field(default="", compare=False)
    """Why there is no prediction, where there is none."""

    @property
    def rows(self) -> tuple[Row, ...]:
        """One per layer; status and remarks of the prediction, the measurement's and the weights' remarks added."""
        expected = self.prediction
        result = []
        for index, seen in enumerate(self.observation.rows):
            status: Status = "not covered" if expected is None else expected.rows[index].status
            remark = self.reason if expected is None else expected.rows[index].note
            notes = (remark, seen.note, self.weights.get(seen.layer, ""))
            result.append(replace(seen, status=status, note="; ".join(filter(None, notes))))
        return tuple(result)

    def deviating(self, count: int = 6) -> list[Deviation]:
        """The pairs whose measured angle at the end is farthest from the predicted one, farthest first."""
        if self.prediction is None:
            return []
        predicted, measured = self.prediction.angle, self.observation.angle
        gap = np.abs(measured - predicted)
        covered = covered_rows(gap)
        if not covered:
            return []
        first, last = covered[0], covered[-1]
        order = [k for k in np.argsort(-gap[last], kind="stable") if np.isfinite(gap[last, k])][:count]
        return [
            Deviation(int(k), float(measured[first, k]), float(predicted[last, k]), float(measured[last, k]))
            for k in order
        ]

    def table(self) -> list[dict[str, Any]]:
        """One dict per layer: predicted beside measured, means over pairs."""
        seen, predicted, redrawn = self.observation, self.prediction, self.measurement
        nothing: list[float | None] = [None] * len(seen.rows)
        columns: dict[str, list[Any]] = {}
        for name in ("cosine", "norm_ratio", "rms_ratio"):
            measured = getattr(seen if redrawn is None else redrawn, name)
            columns[f"{name}_predicted"] = (
                nothing if predicted is None else plain(mean_over_pairs(getattr(predicted, name)))
            )
            columns[f"{name}_measured"] = plain(mean_over_pairs(measured))
            if name == "cosine":
                columns["cosine_se"] = nothing if redrawn is None else plain(redrawn.mean_cosine_se)
        for name in ("gradient_ratio", "gradient_cosine"):
            columns[name] = plain(mean_over_pairs(getattr(seen, name)))
        for name in ("dead_fraction", "saturated_fraction", "effective_rank", "mean_width"):
            columns[name] = plain(getattr(seen, name))
        return [
            {"layer": row.layer, "kind": row.kind, "status": row.status}
            | {name: values[index] for name, values in columns.items()}
            | {"note": row.note}
            for index, row in enumerate(self.rows)
        ]

    def to_dict(self) -> dict[str, Any]:
        """``{"rows": …, "verdicts": …, "what_if": …, "thresholds": …, "mode": …}``."""
        return {
            "rows": plain(self.table()),
            "verdicts": [verdict.to_dict() for verdict in self.verdicts],
            "what_if": [] if self.what_if is None else self.what_if.table(),
            "expansivity": [layer.to_dict() for layer in self.expansivity],
            "thresholds": self.thresholds.to_dict(),
            "mode": self.observation.mode,
            "pairs": self.observation.pairs,
            "samples": self.observation.samples,
            "fallback": self.observation.fallback,
        }

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """The one-file page; written to ``path`` too when one is given."""
        from initscope._hall.files import write_text
        from initscope.inspection.page import render_report

        text = render_report(self)
        if path is not None:
            write_text(path, text)
        return text

    def _repr_html_(self) -> str:
        from initscope.inspection.page import render_report

        return render_report(self, fragment=True)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Median angle after each layer, measured and predicted, with the collapse threshold."""
        from initscope.pages.figures import new_axes

        ax = new_axes() if ax is None else ax
        measured = median_over_pairs(self.observation.angle)
        ax.plot(measured, "o", label="measured")
        if self.prediction is not None:
            ax.plot(median_over_pairs(self.prediction.angle), label="predicted")
        start = next(iter(measured[np.isfinite(measured)]), np.nan)
        ax.axhline(self.thresholds.collapse * start, linestyle=":", label="collapse threshold")
        ax.set_xlabel("step")
        ax.set_ylabel("median angle of pairs (degrees)")
        ax.set_ylim(bottom=0)
        ax.legend()
        return ax

    def assert_healthy(self, *, ignore: tuple[str, ...] = ()) -> None:
        """Raise `Unhealthy` if a verdict that is a fault was given; ``ignore`` names those that do not count."""
        unknown = set(ignore) - set(verdict_names())
        if unknown:
            raise InputError(f"no verdict is called {', '.join(sorted(unknown))}; known: {', '.join(verdict_names())}")
        faults = [verdict for verdict in self.verdicts if verdict.fault and verdict.name not in ignore]
        if faults:
            raise Unhealthy("\n".join(str(verdict) for verdict in faults))

    def __repr__(self) -> str:
        names = ", ".join(verdict.name for verdict in self.verdicts) or "no verdict"
        return f"Report({len(self.rows) - 1} layers, {self.observation.pairs} pairs, {names})"


def inspect(
    model: nn.Module,
    data: Any,
    *,
    pairs: int = 256,
    draws: int = 0,
    seed: int = 0,
    initializer: Initializer | None = None,
    gradients: bool = True,
    mode: Literal["train", "eval"] | None = None,
    thresholds: Thresholds | None = None,
    alternatives: bool = True,
    prediction: bool = True,
    batch_args: BatchArgs = None,
) -> Report:
    """What ``model`` does to ``data``, why, and what to change.

    Parameters
    ----------
    model : torch.nn.Module
        Any model; left as found, also after an exception.
    data
        Tensor, array, `initscope.data` set, Dataset, DataLoader, tuple or dict of inputs.
    pairs : int
        Pairs of samples whose angles, norms and gradients are recorded.
    draws : int
        0 measures the weights the model has; n ≥ 1 averages the geometry over n draws of ``initializer``.
    seed : int
        Seed of everything random.
    initializer : Initializer, optional
        The law to predict (and draw). None: zero-mean Gaussian with each layer's present variance.
    gradients : bool
        Record weight gradients, which takes a backward pass.
    mode : "train", "eval" or None
        What batch norm does; None: as the model is.
    thresholds : initscope.inspection.Thresholds, optional
        When verdicts are given.
    alternatives, prediction : bool
        Also fill the what-if table; also predict.
    batch_args : str, int or sequence of them, optional
        Which arguments carry samples, by name or position; tensors of the others are given whole to every call.

    Examples
    --------
    >>> import torch, initscope
    >>> layers = [layer for _ in range(40) for layer in (torch.nn.Linear(64, 64, bias=False), torch.nn.ReLU())]
    >>> model = initscope.initializers.glorot_(torch.nn.Sequential(*layers))
    >>> report = initscope.inspect(model, torch.rand(64, 64), pairs=20, alternatives=False)
    >>> "vanishing" in {verdict.name for verdict in report.verdicts}
    True
    """
    model = runnable(model)
    limits = Thresholds() if thresholds is None else thresholds
    with leaves_no_trace(model):  # also while weights are read, which some parametrizations compute anew
        seen = observe(model, data, pairs=pairs, gradients=gradients, mode=mode, seed=seed, batch_args=batch_args, opened=True)
        _check_weights(model)
        return _report(model, seen, limits, draws, seed, initializer, mode, alternatives, prediction)


def _report(
    model: nn.Module,
    seen: Observation,
    limits: Thresholds,
    draws: int,
    seed: int,
    initializer: Initializer | None,
    mode: Literal["train", "eval"] | None,
    alternatives: bool,
    prediction: bool,
) -> Report:
    """What is found beside the observation, and what follows from it."""
    told = _pairs_with_angles(seen)
    x, y = (_picked(side, told) for side in (seen.x, seen.y))
    with leaves_no_trace(model):
        set_mode(model, mode)
        expected, reason = _predicted(model, x, y, told, seen, initializer) if prediction else (None, "not asked for")
        redrawn = None
        if draws and told.any():
            redrawn = _for_all_pairs(measure(model, x, y, initializer=initializer, draws=draws, seed=seed), told)
    verdicts, table = judge(seen, limits), None
    if alternatives:
        present = expected if initializer is None else None
        table = _alternatives(model, seen, verdicts, seed, mode, limits, present)
    title = f"{type(model).__name__} on {seen.samples} samples"
    layers = layer_expansivities(model, seen)
    notes = _unbelievable(model) if initializer is None else {}
    return Report(seen, expected, redrawn, verdicts, table, limits, layers, notes, title, reason)


def _alternatives(
    model: nn.Module,
    seen: Observation,
    verdicts: tuple[Verdict, ...],
    seed: int,
    mode: Literal["train", "eval"] | None,
    limits: Thresholds,
    present: Prediction | None,
) -> WhatIf:
    """Other starts of a network that has a fault; one without is not told to change anything."""
    untried = ""
    if not any(verdict.fault for verdict in verdicts):
        untried = "nothing to change: no verdict is a fault"
    elif not _is_tensor(seen.x):
        untried = "other starts are tried on models of one input only"
    if untried:
        return WhatIf((), "as it is", untried=untried)
    try:
        return what_if(model, seen.x, seen.y, seed=seed, mode=mode, thresholds=limits, prediction=present)
    except InputError as error:
        return WhatIf((), "as it is", untried=str(error))


def _unbelievable(model: nn.Module) -> dict[str, str]:
    """Layers whose weights cannot be independent zero-mean draws, with the reason."""
    found = {}
    for name, module in model.named_modules():
        if is_weight_layer(module):
            judged = believability(module)
            if not judged.believable:
                found[name] = f"weights: {judged.verdict}"
    return found


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "shape")


def _check_weights(model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            raise InputError(f"{name} holds NaN or infinite values; draw or load these weights anew")


def _pairs_with_angles(seen: Observation) -> npt.NDArray[np.bool_]:
    """Whether each pair has one: a sample of zeros, a black image say, has no direction."""
    told = np.ones(seen.pairs, dtype=bool)
    for side in (seen.x, seen.y):
        for tensor in side.sample_tensors() if isinstance(side, Inputs) else [side]:
            if tensor.is_floating_point():
                told &= (tensor.reshape(seen.pairs, -1) != 0).any(dim=1).cpu().numpy()
    return told


def _picked(side: Any, told: npt.NDArray[np.bool_]) -> Any:
    """The samples of a side that are ``told``."""
    index = torch.as_tensor(told, device=(side.tensors()[0] if isinstance(side, Inputs) else side).device)
    return side.pick(index) if isinstance(side, Inputs) else side[index]


def _for_all_pairs(side: _Side, told: npt.NDArray[np.bool_]) -> _Side:
    """Prediction or measurement of the pairs that are ``told``, with NaN for the others."""
    changed: dict[str, Any] = {}
    for item in fields(side):
        values = getattr(side, item.name)
        if isinstance(values, np.ndarray) and values.ndim == 2:
            changed[item.name] = np.full((len(values), len(told)), np.nan)
            changed[item.name][:, told] = values
    return replace(side, **changed)


def _predicted(
    model: nn.Module,
    x: Any,
    y: Any,
    told: npt.NDArray[np.bool_],
    seen: Observation,
    initializer: Initializer | None,
) -> tuple[Prediction | None, str]:
    try:
        prediction = predict(model, x, y, initializer)
    except InputError as error:
        return None, str(error)
    if [row.layer for row in prediction.rows] != [row.layer for row in seen.rows]:
        return None, "prediction and measurement saw different steps"
    return _for_all_pairs(prediction, told), ""
