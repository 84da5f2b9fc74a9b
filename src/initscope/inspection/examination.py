"""`inspect`: observe a model, predict it, check it, try fixes; all of it in one `Report`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from initscope._utils.progress import interrupted, kept_if_interrupted, stage
from initscope.data import ImageSet
from initscope.data.checks import check_set
from initscope.data.sources import as_data
from initscope.errors import InputError
from initscope.geometry import Measurement, Prediction, Status
from initscope.graph import BatchArgs, Inputs, is_weight_layer, set_mode
from initscope.graph.borrowing import borrowed, runnable
from initscope.initializers import AnyInitializer, Initializer, as_initializer, believability
from initscope.inspection._checks import Check, Thresholds, reinitialized, selected
from initscope.inspection.alternatives import WhatIf, what_if
from initscope.inspection.evidence import Evidence
from initscope.inspection.expansivity import layer_expansivities
from initscope.inspection.facts import Facts, TrainingSettings, facts_of
from initscope.inspection.finding import Finding, Fix
from initscope.inspection.fixes import Tries, after_fixes, tried_fixes
from initscope.inspection.instruments import loss_named
from initscope.inspection.judging import run_checks
from initscope.inspection.parameter_audit import audit
from initscope.inspection.provenance import provenance_of
from initscope.inspection.report import NOT_ASKED, Report
from initscope.measurement import measure
from initscope.measurement.observation import Observation, observe
from initscope.models import load_model
from initscope.propagate import predict

__all__ = ["WeightsNotFinite", "inspect"]

_Side = TypeVar("_Side", Prediction, Measurement)
_PREDICTED = 8
"""Pairs that are predicted for a network of any size, if that many are observed. Predicting a pair costs a few forward
passes, so more pairs of a large network would cost more than all measurements."""
_VALUES = 1 << 24
"""Number of values of all rows up to which more pairs are predicted."""


class WeightsNotFinite(InputError):
    """A weight holds NaN or infinity; ``parameter`` is its name, ``seen`` what was observed before the error."""

    def __init__(self, parameter: str, seen: Observation) -> None:
        super().__init__(f"{parameter} holds NaN or infinite values; re-initialize these weights or load them again")
        self.parameter, self.seen = parameter, seen


def inspect(
    model: nn.Module | str,
    data: Any,
    *,
    targets: Any = None,
    loss: Callable[[Any, Any], torch.Tensor] | str | None = None,
    optimizer: Any = None,
    lr: float | None = None,
    trial: bool | Literal["long"] | None = None,
    pairs: int = 256,
    draws: int = 0,
    seed: int = 0,
    initializer: AnyInitializer | None = None,
    gradients: bool = True,
    mode: Literal["train", "eval"] | None = None,
    thresholds: Thresholds | None = None,
    alternatives: bool = True,
    prediction: bool = True,
    batch_args: BatchArgs = None,
    select: str | Iterable[str] | None = None,
    ignore: str | Iterable[str] | None = None,
    progress: Callable[[list[Any]], Iterable[Any]] | None = None,
) -> Report:
    """Find what keeps ``model`` from learning on ``data``, and suggest fixes that were tried.

    Parameters
    ----------
    model : torch.nn.Module or str
        Any model; it does not change, also after an exception. Or what the command line takes: an architecture string,
        ``file.py:factory``, ``hf:NAME``, ``timm:NAME``.
    data
        Tensor, array, Dataset, DataLoader, tuple or dict of inputs; or anything that `initscope.data.load` takes: a
        name such as ``"digits"``, a path, a table of pandas, polars or pyarrow, a data set of Hugging Face.
    pairs : int
        Pairs of samples whose angles, norms and gradients are recorded. For large networks only the first pairs, at
        least 8, are predicted and compared with their measurements.
    draws : int
        0 measures the weights that the model has; n ≥ 1 averages the geometry over n draws of ``initializer``.
    seed : int
        Seed of everything random.
    initializer : Initializer, its class or its name, optional
        Distribution of the weights that are predicted and sampled, such as ``"he"``. None: zero-mean Gaussian with each
        layer's present variance.
    gradients : bool
        Record weight gradients, which takes a backward pass.
    mode : "train", "eval" or None
        Mode of batch norm; None: as the model is.
    thresholds : initscope.inspection.Thresholds, optional
        Bounds of the checks.
    alternatives, prediction : bool
        Whether to try alternative initializations, widths and depths if a check asks for them; whether to predict.
    batch_args : str, int or sequence of them, optional
        Which arguments have a sample axis, by name or position; every call gets the tensors of the others unchanged.
    loss : callable or str, optional
        ``loss(output, targets)``, or a name such as ``"cross-entropy"``, ``"mse"`` or ``"bce"``. Default: the loss that
        the model returns; cross-entropy for integer targets with an output for each class; the squared error for real
        targets of the outputs' shape. ``report.facts.loss_name`` says which loss is used.
    optimizer : Optimizer, class, factory or name, optional
        What you train the model with, as in `initscope.inspection.instruments.run_trial`. Default: Adam.
    lr : float, optional
        Learning rate; default: that of the optimizer.
    trial : bool or "long", optional
        Whether to train copies for a few steps on one batch, at most 30 s; ``"long"``: at most 10 minutes. Default:
        only if targets and a loss are known.
    targets : array, or tuple or dict of arrays, optional
        Classes or values of the samples. If they are given, all members of a tuple of data are inputs. Default: what
        the data holds next to the inputs. Labels of an `initscope.data` set are targets if there is one output for
        each class, or if ``loss`` is given.
    select, ignore : str or list of str, optional
        Codes, prefixes such as ``"IS2"`` or names of the checks to run, or to leave out.
    progress : callable, optional
        Wraps the list of alternatives and passes its items on, as ``tqdm`` does.

    Returns
    -------
    Report
        Findings with their fixes, the measured and predicted rows, and what was not checked.

    Examples
    --------
    >>> import torch, initscope
    >>> layers = [layer for _ in range(40) for layer in (torch.nn.Linear(64, 64, bias=False), torch.nn.ReLU())]
    >>> model = initscope.initializers.glorot_(torch.nn.Sequential(*layers))
    >>> report = initscope.inspect(model, torch.rand(64, 64), pairs=20, alternatives=False)
    >>> "vanishing" in {finding.name for finding in report.findings}
    True
    """
    data = as_data(data)
    if isinstance(model, str):
        model = load_model(model, input_shape=data.shape if isinstance(data, ImageSet) else None, seed=seed)
    model, distribution, wanted_checks = runnable(model), as_initializer(initializer), selected(select, ignore)
    loss = loss_named(loss) if isinstance(loss, str) else loss
    if isinstance(loss, type):
        raise InputError(f"loss = {loss.__name__} is a class; give an instance, {loss.__name__}()")
    if loss is not None and not callable(loss):
        wanted = "a callable loss(output, targets), such as torch.nn.functional.cross_entropy, or the name of a loss"
        raise InputError(f"loss = {loss!r} must be {wanted}")
    limits, classes = Thresholds() if thresholds is None else thresholds, 0
    if isinstance(data, ImageSet):
        check_set(data)
        targets = data.targets if targets is None else targets
    if targets is None and isinstance(data, ImageSet) and _has_classes(data):
        targets, classes = data.labels, len(data.class_names) if loss is None else 0
    with borrowed(model):  # also while weights are read, because some parametrizations compute them again
        options: dict[str, Any] = {"mode": mode, "seed": seed, "batch_args": batch_args, "targets": targets}
        seen = observe(model, data, pairs=pairs, gradients=gradients, opened=True, **options)
        if len(seen.rows) < 2:
            raise InputError("the model computes no tensor from its inputs: forward must use them and return tensors")
        _check_weights(model, seen)
        with borrowed(model):
            set_mode(model, mode)
            training = TrainingSettings(loss, optimizer, lr, trial, classes)
            with stage("one step of training, then a trial of at most 30 s" if trial is not False else "one step"):
                facts = facts_of(model, seen, training if gradients else None)
        tried = (progress,) if alternatives else ()
        return _report(
            model, seen, facts, training, limits, wanted_checks, draws, seed, distribution, mode, tried, prediction
        )


def _report(
    model: nn.Module,
    seen: Observation,
    facts: Facts,
    training: TrainingSettings,
    limits: Thresholds,
    checks: Sequence[Check],
    draws: int,
    seed: int,
    initializer: Initializer | None,
    mode: Literal["train", "eval"] | None,
    alternatives: tuple[Callable[[list[Any]], Iterable[Any]] | None, ...],
    prediction: bool,
) -> Report:
    """Return the report: prediction, facts and findings next to the observation."""
    compared_pairs = _pairs_with_angles(seen)
    if prediction:
        compared_pairs &= np.cumsum(compared_pairs) <= _predicted_pairs(seen)
    x, y = (_picked(side, compared_pairs) for side in (seen.x, seen.y))
    with borrowed(model):
        set_mode(model, mode)
        expected, reason = None, NOT_ASKED
        if prediction:
            reason = "interrupted"
            with kept_if_interrupted():
                expected, reason = _predicted(model, x, y, compared_pairs, seen, initializer)
        redrawn = None
        if draws and compared_pairs.any() and not interrupted():
            with kept_if_interrupted():
                measured = measure(model, x, y, initializer=initializer, draws=draws, seed=seed)
                redrawn = _on_observed(measured, seen, compared_pairs)
    checked, table = run_checks(Evidence(seen, facts), limits, checks), None
    if alternatives and not interrupted():
        present = expected if initializer is None else None
        table = _alternatives(model, seen, checked.findings, seed, mode, limits, present, alternatives[0])
    findings, tried = tuple(_fixed_by(table, finding) for finding in checked.findings), dict[str, tuple[Fix, ...]]()
    if facts.trial is not None and facts.trial.outcome != "failed" and not interrupted():
        tries = Tries(model, seen.x, seen.targets, facts.loss, training.optimizer, training.lr, facts.trial)
        with stage("trying fixes"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tried = tried_fixes(findings, table, tries)
        findings = after_fixes(findings, tried, facts.trial)
    fixes = _fixes(findings, table, tried)
    title = f"{type(model).__name__} on {seen.samples} samples"
    layers = layer_expansivities(model, seen)
    notes = _unbelievable(model) if initializer is None else {}
    return Report(
        seen, expected, redrawn, findings, table, limits, layers, notes, title, reason, audit(model), facts,
        checked.not_checked, checked.ran, fixes, provenance_of(model, seen, seed),
    )  # fmt: skip


def _alternatives(
    model: nn.Module,
    seen: Observation,
    findings: tuple[Finding, ...],
    seed: int,
    mode: Literal["train", "eval"] | None,
    limits: Thresholds,
    present: Prediction | None,
    progress: Callable[[list[Any]], Iterable[Any]] | None,
) -> WhatIf:
    """Return alternatives to a network that has an error or a warning which other weights or sizes can fix."""
    untried, roots = "", [f for f in findings if f.level != "info" and f.caused_by is None]
    if not roots:
        untried = "no alternative was tried: there are no errors or warnings"
    elif not any(map(reinitialized, roots)):
        names = ", ".join(sorted(finding.name for finding in roots))
        untried = f"no alternative was tried: other weights or sizes do not fix {names}"
    elif not hasattr(seen.x, "shape"):
        untried = "alternatives are tried on models of one input only"
    if untried:
        return WhatIf((), "as it is", untried=untried)
    try:
        options: dict[str, Any] = {"thresholds": limits, "prediction": present, "progress": progress}
        return what_if(model, seen.x, seen.y, seed=seed, mode=mode, **options)
    except InputError as error:
        return WhatIf((), "as it is", untried=str(error))


def _fixes(findings: tuple[Finding, ...], table: WhatIf | None, tried: dict[str, tuple[Fix, ...]]) -> tuple[Fix, ...]:
    """Return suggested fixes of root causes: first those that helped in a trial, then alternatives by score."""
    roots = [finding for finding in findings if finding.level != "info" and finding.caused_by is None]
    suggested = [fix for finding in roots for fix in tried.get(finding.code, (finding.fix,)) if fix is not None]
    suggested.sort(key=lambda fix: not fix.helped)
    if table is not None and not tried and any(map(reinitialized, roots)):
        suggested += table.fixes
    return tuple(dict.fromkeys(suggested))


def _fixed_by(table: WhatIf | None, finding: Finding) -> Finding:
    """Return the finding with the best alternative as its fix, if its fix is an initializer: one fix for all."""
    if table is None or not table.helps or finding.fix is None or finding.name in table.best.crossed:
        return finding
    declared = (finding.fix.code or "").startswith("initscope.initializers.")
    return replace(finding, fix=table.fixes[0]) if declared else finding


def _unbelievable(model: nn.Module) -> dict[str, str]:
    """Return the layers whose weights cannot be independent zero-mean samples, with the reason."""
    layers = {name: module for name, module in model.named_modules() if is_weight_layer(module)}
    # a parametrization may compute NaN from finite parameters: a check reports that
    layers = {name: module for name, module in layers.items() if bool(torch.isfinite(module.weight).all())}
    judged = {name: believability(module, among=len(layers)) for name, module in layers.items()}
    return {name: f"weights: {belief.summary}" for name, belief in judged.items() if not belief.believable}


def _has_classes(data: ImageSet) -> bool:
    """Return whether labels are classes to learn; labels that occur once or twice only number the samples."""
    return data.labels is not None and len(data.labels) > 2 * len(np.unique(data.labels))


def _check_weights(model: nn.Module, seen: Observation) -> None:
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            raise WeightsNotFinite(name, seen)


def _pairs_with_angles(seen: Observation) -> npt.NDArray[np.bool_]:
    """Return whether each pair has an angle: an all-zero sample, such as a black image, has no direction."""
    known = np.ones(seen.pairs, dtype=bool)
    for side in (seen.x, seen.y):
        for tensor in side.sample_tensors() if isinstance(side, Inputs) else [side]:
            if tensor.is_floating_point():
                known &= (tensor.reshape(seen.pairs, -1) != 0).any(dim=1).cpu().numpy()
    return known


def _picked(side: Any, pairs: npt.NDArray[np.bool_]) -> Any:
    """Return the samples of one side of these pairs."""
    index = torch.as_tensor(pairs, device=(side.tensors()[0] if isinstance(side, Inputs) else side).device)
    return side.pick(index) if isinstance(side, Inputs) else side[index]


def _predicted(
    model: nn.Module,
    x: Any,
    y: Any,
    pairs: npt.NDArray[np.bool_],
    seen: Observation,
    initializer: Initializer | None,
) -> tuple[Prediction | None, str]:
    """Return the prediction of these pairs, or the reason why there is none."""
    if not pairs.any():
        return None, "samples that are zero have no angle to predict"
    try:
        prediction = predict(model, x, y, initializer, gradients=bool(np.isfinite(seen.gradient_ratio).any()))
    except InputError as error:
        return None, str(error)
    return _on_observed(prediction, seen, pairs), ""


def _predicted_pairs(seen: Observation) -> int:
    """Return the largest number of pairs to predict: fewer in large networks, because only means are compared."""
    values = 2 * sum(math.prod(row.shape) for row in seen.rows)
    return max(_PREDICTED, _VALUES // max(1, values))


def _on_observed(side: _Side, seen: Observation, pairs: npt.NDArray[np.bool_]) -> _Side:
    """Return a prediction or measurement of some ``pairs``, with the rows and pairs of the observation.

    If a module was observed op by op but predicted as a whole, its last row holds the numbers. Its other rows, and the
    values of all other pairs, are NaN with the status "not covered".
    """
    indices = np.full(len(seen.rows), -1)
    same = [row.layer for row in side.rows] == [row.layer for row in seen.rows]
    # if a loop is one op, getitem of its result is another op, so equal names alone do not make ops the same
    names = {(row.layer, row.shape): index for index, row in enumerate(seen.rows)}
    for number, row in enumerate(side.rows):
        if same:
            indices[number] = number
        elif (index := names.get((row.layer, row.shape))) is not None:
            indices[index] = number
        else:
            inside = [index for index, other in enumerate(seen.rows) if f"{other.within}.".startswith(f"{row.layer}.")]
            indices[inside[-1:]] = number
    rows = list(seen.rows)
    for index, number in enumerate(indices):
        status: Status = "not covered"
        note = "inside of or next to a module that prediction takes as a whole"
        if number >= 0:
            status, note = side.rows[number].status, side.rows[number].note
        rows[index] = replace(rows[index], status=status, note=note)
    changed: dict[str, Any] = {"rows": tuple(rows)}
    for item in fields(side):
        values: Any = getattr(side, item.name)
        if isinstance(values, np.ndarray) and values.ndim < 3 and len(values) == len(side.rows):
            full = np.full((len(rows), *[len(pairs)] * (values.ndim - 1)), np.nan)
            moved = np.where(np.expand_dims(indices < 0, tuple(range(1, values.ndim))), np.nan, values[indices])
            full[..., slice(None) if values.ndim == 1 else pairs] = moved
            changed[item.name] = full
    return replace(side, **changed)
