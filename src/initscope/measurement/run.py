"""`measure`: run the model on pairs and record the geometry after every layer, with standard errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from initscope.errors import check_count
from initscope.geometry import Floats, Measurement, Row
from initscope.initializers import Initializer, Present
from initscope.initializers._base import weight_layers
from initscope.layers import is_weight_layer
from initscope.measurement.pairs import cosine_of
from initscope.measurement.steps import (
    NO_VALUES,
    Mode,
    aside,
    couples_samples,
    is_activation,
    norms_at_start,
    output_tensor,
    set_mode,
    traced_like_predict,
    unit_axes,
)
from initscope.measurement.stream import Batch, given_pairs, pair_batches
from initscope.tracing import BatchArgs, Inputs, Node, SampleAxes, Trace, sample_axes
from initscope.tracing.untouched import copy_of, leaves_no_trace, runnable, snapshot, without_dropout

__all__ = ["measure"]


def measure(
    model: nn.Module,
    x: Any,
    y: Any,
    *,
    initializer: Initializer | None = None,
    draws: int = 1,
    mode: Mode | None = None,
    seed: int = 0,
    batch_args: BatchArgs = None,
    progress: Callable[[Iterator[Any]], Iterable[Any]] | None = None,
) -> Measurement:
    """Run ``model`` on pairs and record their geometry after every layer.

    Parameters
    ----------
    model : torch.nn.Module
        Left as found, also after an exception: weights, buffers, modes, hooks, gradients, random states.
    x, y : array or tensor, ``[pairs, ...]``, or tuple or dict of them
        The pairs, shaped as inputs of the model; several inputs as a tuple, or as a dict by name. Indices of embeddings
        stay whole numbers: norms then start at the first values that are made of them.
    initializer : Initializer, optional
        Law of the redrawn weights. None: zero-mean Gaussian with the variance each layer's weights have now.
    draws : int
        0 runs the weights the model has; n ≥ 1 draws them n times anew and averages.
    mode : "train", "eval" or None
        What batch norm does: statistics of the batch of all x and y together, or its running statistics. None: as the
        model is. Dropout is off in both.
    seed : int
        Of the draws.
    batch_args : str, int or sequence of them, optional
        Which arguments carry samples, by name or position; tensors of the others are given whole to every call, as the
        edges of a graph that all samples share, or a time step. None: all tensors that have an axis.
    progress : callable, optional
        Wraps the iterator over draws, as tqdm does: ``progress=lambda draws: tqdm(draws, total=8)``.

    Returns
    -------
    Measurement
        The rows of `initscope.predict`, with standard errors over the randomness of the weights. Behind the first
        weights the filters are independent, so one draw tells (the infinitesimal jackknife over filters); deeper, the
        randomness of all layers counts and only the spread between two or more draws does.
    """
    model = runnable(model)
    pairs = given_pairs(model, x, y, batch_args)
    draws = check_count("draws", draws, least=0, hint="0 runs the weights the model has")
    seed = check_count("seed", seed, least=0)
    law = Present() if initializer is None else initializer
    with leaves_no_trace(model):
        set_mode(model, mode)
        traced = traced_like_predict(model, pairs.pick(slice(0, 2)).inputs)
        axes = sample_axes(traced, pairs.inputs)
        if draws == 0:
            runs = [_record(traced, axes, pairs)]
        else:
            device = next((parameter.device for parameter in model.parameters()), "cpu")
            generator = torch.Generator(device=device).manual_seed(seed)
            redrawn = _redrawn_runs(model, law, pairs, draws, generator)
            runs = list(redrawn if progress is None else progress(redrawn))
    return _summary(traced, runs, draws, seed)


def _redrawn_runs(
    model: nn.Module, law: Initializer, pairs: Batch, draws: int, generator: torch.Generator
) -> Iterator[_Run]:
    """One run per draw, all in one copy of the model, which is set back to the original before each."""
    redrawn = copy_of(model)
    traced = traced_like_predict(redrawn, pairs.pick(slice(0, 2)).inputs)
    axes = sample_axes(traced, pairs.inputs)
    set_back = snapshot(redrawn)
    for _ in range(draws):
        set_back()
        for ours, theirs in zip(redrawn.parameters(), model.parameters(), strict=True):
            ours.copy_(theirs)
        law.fill_(redrawn, generator=generator)
        yield _record(traced, axes, pairs)


@dataclass
class _Run:
    """One draw: per row the cosines, norm ratios and rms ratios of the pairs, and their jackknife errors."""

    shapes: list[tuple[int, ...] | None] = field(default_factory=list)  # None: the row has no numbers
    values: list[Floats] = field(default_factory=list)  # [3, pairs]: cosine, norm ratio, rms ratio
    errors: list[Floats] = field(default_factory=list)  # [2, pairs]: variance of cosine and of norm ratio
    mean_errors: list[Floats] = field(default_factory=list)  # [2]: the same for the means over pairs


def _record(traced: Trace, axes: SampleAxes, pairs: Batch) -> _Run:
    coupled = couples_samples(traced.model)
    recorder = _Recorder(traced, axes, _filter_rows(traced), whole_batch=coupled)
    with without_dropout(traced.model):  # it would hide the geometry
        for part in pair_batches(pairs, whole=coupled):
            try:
                recorder.run_pairs(part)
            except Exception as error:
                raise part.inputs.refused(error) from error
    return recorder.result()


def _filter_rows(traced: Trace) -> dict[Node, int]:
    """Rows whose channels are independent filters of the first weights, with that layer's number of groups."""
    found: dict[Node, int] = {}
    depth: dict[Node, int] = {}
    for node in traced.steps:
        parents = node.all_input_nodes
        depth[node] = max((depth.get(parent, 0) for parent in parents), default=0)
        module = traced.module(node)
        if module is not None and weight_layers(module):  # attention holds some, and stays whole
            depth[node] += 1
            if depth[node] == 1 and is_weight_layer(module):
                found[node] = getattr(module, "groups", 1)
        elif is_activation(traced, node) and len(parents) == 1 and parents[0] in found:
            found[node] = found[parents[0]]
    return found


class _Recorder:
    """Runs the model and reduces each node's output to sums over units at once, before anything overwrites it.

    An input that is part of several pairs is run once, unless the model looks at its whole batch.
    """

    def __init__(self, traced: Trace, samples: SampleAxes, filters: dict[Node, int], *, whole_batch: bool) -> None:
        self._traced, self._filters, self._axes = traced, filters, unit_axes(traced, samples)
        self._samples = samples
        self._whole_batch = whole_batch
        self._sums: dict[Node, list[Tensor]] = {node: [] for node in traced.steps}
        self._shapes: dict[Node, tuple[int, ...]] = {}

    def run_pairs(self, pairs: Batch) -> None:
        half = len(pairs) // 2
        for sums in self._sums.values():  # until the step is seen, which a model that branches may leave out
            sums.append(torch.full((3, half, 1), torch.nan, dtype=torch.float64))
        place = torch.arange(len(pairs))
        if not self._whole_batch:
            first, place = _distinct(pairs.inputs)
            pairs = pairs.pick(first)
        self._inputs, self._x, self._y = len(pairs), place[:half], place[half:]
        self._traced.run(pairs.inputs, aside(self._watch))

    def _watch(self, node: Node, args: Any, kwargs: Any, output: Any) -> None:
        values = output_tensor(output, self._inputs, self._samples, node)
        if values is not None:
            self._shapes[node] = tuple(values.shape[1:])
            self._sums[node][-1] = self._reduce(node, values.detach())

    def _reduce(self, node: Node, values: Tensor) -> Tensor:
        """Sums of x², y², (x-y)²: ``[3, pairs, filters]`` where filters are independent, else ``[3, pairs, 1]``."""
        values = values.to(torch.promote_types(values.dtype, torch.float32))
        if node in self._filters:
            axis = self._axes[node]
            values = values.movedim(axis if axis < 0 else axis + 1, 1)
            units = values.reshape(*values.shape[:2], -1)
        else:
            units = values.reshape(len(values), 1, -1)
        squares = units.square().sum(dim=2, dtype=torch.float64)
        apart = (units[self._x] - units[self._y]).square().sum(dim=2, dtype=torch.float64)
        return torch.stack([squares[self._x], squares[self._y], apart]).cpu()

    def result(self) -> _Run:
        run = _Run()
        steps = self._traced.steps
        by_filter = [_joined(self._sums[node]) for node in steps]
        totals = np.stack([sums.sum(axis=2) for sums in by_filter])  # [rows, 3, pairs]
        shapes = [self._shapes.get(node) for node in steps]
        units = np.array([np.nan if shape is None else math.prod(shape) for shape in shapes])
        norm, size = norms_at_start(self._traced, totals[:, 0], units)
        for node, sums, total, shape, count in zip(steps, by_filter, totals, shapes, units, strict=True):
            cosine = cosine_of(total)
            with np.errstate(invalid="ignore", divide="ignore"):
                ratio = np.sqrt(total[0]) / norm
                rms = ratio * np.sqrt(size / count)
                errors, mean_errors = _jackknife(sums, cosine, ratio, self._filters.get(node))
            run.shapes.append(shape)
            run.values.append(np.stack([cosine, ratio, rms]))
            run.errors.append(errors)
            run.mean_errors.append(mean_errors)
        return run


def _distinct(inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Index of one of each of the different samples, and for every sample the place of its like among them."""
    tensors = inputs.sample_tensors()
    likes = torch.stack([torch.unique(tensor, dim=0, return_inverse=True)[1] for tensor in tensors], dim=1)
    different, place = torch.unique(likes, dim=0, return_inverse=True)
    first = torch.empty(len(different), dtype=torch.long, device=place.device)
    first[place] = torch.arange(len(place), device=place.device)
    return first, place


def _joined(parts: list[Tensor]) -> Floats:
    """The sums of all batches; those in which a step was missing have one NaN for all filters."""
    filters = max(part.shape[2] for part in parts)
    return torch.cat([part.expand(-1, -1, filters) for part in parts], dim=1).numpy()


def _jackknife(sums: Floats, cosine: Floats, ratio: Floats, groups: int | None) -> tuple[Floats, Floats]:
    """Variances of cosine and norm ratio per pair and of their means, from the influence of each filter.

    With S the sums over filters, ρ = Sxy/√(Sxx Syy) moves by sxy/√(Sxx Syy) - ρ(sxx/Sxx + syy/Syy)/2 with each filter,
    the norm ratio by half of itself times sxx/Sxx. Filters are compared within their group only.
    """
    pairs, filters = sums.shape[1:]
    unknown = np.full((2, pairs), np.nan), np.full(2, np.nan)
    if groups is None or filters // groups < 2:
        return unknown
    total = sums.sum(axis=2, keepdims=True)
    sxy, product = (sums[0] + sums[1] - sums[2]) / 2, np.sqrt(total[0] * total[1])
    shares = sums[:2] / total[:2]
    influence = np.stack(
        [sxy / product - cosine[:, None] * (shares[0] + shares[1]) / 2, ratio[:, None] * shares[0] / 2]
    )
    return _spread(influence, groups), _spread(influence.mean(axis=1), groups)


def _spread(influence: Floats, groups: int) -> Floats:
    """Variance of a sum of independent influences, centred within groups of the last axis."""
    grouped = influence.reshape(*influence.shape[:-1], groups, -1)
    count = grouped.shape[-1]
    centred = grouped - grouped.mean(axis=-1, keepdims=True)
    return np.asarray((centred**2).sum(axis=(-2, -1)) * count / (count - 1))


def _linearised_squares(ratios: Floats) -> Floats:
    """Numbers whose mean over draws is the root mean square s of ``ratios``, and whose spread is that of its error.

    Prediction is √E‖h‖², and deep in a narrow network the mean of norms is far below it. s = √⟨r²⟩ moves by
    (r² - s²)/2s with each draw (delta method).
    """
    root = np.sqrt(np.square(ratios).mean(axis=0))
    moved = np.square(ratios) + root**2
    return np.asarray(np.divide(moved, 2 * root, out=np.zeros_like(ratios), where=root != 0))


def _summary(traced: Trace, runs: list[_Run], draws: int, seed: int) -> Measurement:
    values = np.stack([np.stack(run.values) for run in runs])  # [draws, rows, 3, pairs]
    values[:, :, 1:] = _linearised_squares(values[:, :, 1:])
    mean = values.mean(axis=0)
    count = len(runs)
    errors = np.sqrt(np.stack([np.stack(run.errors) for run in runs]).mean(axis=0) / count)  # [rows, 2, pairs]
    mean_errors = np.sqrt(np.stack([np.stack(run.mean_errors) for run in runs]).mean(axis=0) / count)
    if count > 1:
        # Behind the first weights the jackknife knows more than a few draws do; elsewhere only their spread counts.
        between = values[:, :, :2].std(axis=0, ddof=1) / np.sqrt(count)
        errors = np.where(np.isnan(errors), between, errors)
        between = values[:, :, :2].mean(axis=3).std(axis=0, ddof=1) / np.sqrt(count)
        mean_errors = np.where(np.isnan(mean_errors), between, mean_errors)
    given = [node.op == "placeholder" for node in traced.steps]
    errors[given], mean_errors[given] = 0.0, 0.0
    rows = tuple(
        Row(
            traced.name(node),
            traced.kind(node),
            "measured",
            shape or (),
            NO_VALUES if shape is None else traced.note(node),
            traced.role(node),
        )
        for node, shape in zip(traced.steps, runs[0].shapes, strict=True)
    )
    return Measurement(
        rows,
        mean[:, 0],
        mean[:, 1],
        mean[:, 2],
        errors[:, 0],
        errors[:, 1],
        mean_errors[:, 0],
        mean_errors[:, 1],
        draws,
        seed,
    )
