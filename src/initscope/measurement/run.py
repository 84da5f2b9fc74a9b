"""`measure`: run the model on pairs and record the geometry after every layer, with standard errors."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from initscope._untouched import leaves_no_trace
from initscope.errors import check_count
from initscope.initializers import Initializer, Present
from initscope.measurement.observation import set_mode
from initscope.measurement.pairs import cosine_of, pairs_at_once
from initscope.measurement.steps import is_activation, traced_like_predict
from initscope.propagate.graph import as_pairs
from initscope.report.geometry import Floats, Measurement, Row
from initscope.tracing import Inputs, Node, Trace, bind

__all__ = ["measure"]


def measure(
    model: nn.Module,
    x: Any,
    y: Any,
    *,
    initializer: Initializer | None = None,
    draws: int = 1,
    seed: int = 0,
    progress: Callable[[Iterator[Any]], Iterable[Any]] | None = None,
) -> Measurement:
    """Run ``model`` on pairs and record their geometry after every layer.

    Parameters
    ----------
    model : torch.nn.Module
        Left as found: weights, buffers, modes, hooks, gradients, and torch's random state.
    x, y : array or tensor, ``[pairs, ...]``
        The pairs, shaped as inputs of the model.
    initializer : Initializer, optional
        Law of the redrawn weights. None: zero-mean Gaussian with the variance each layer's weights have now.
    draws : int
        0 runs the weights the model has; n ≥ 1 draws them n times anew and averages.
    seed : int
        Of the draws.
    progress : callable, optional
        Wraps the iterator over draws, as tqdm does: ``progress=lambda draws: tqdm(draws, total=8)``.

    Returns
    -------
    Measurement
        The rows of `initscope.predict`, with standard errors over the randomness of the weights. Behind the first
        weights the filters are independent, so one draw tells (the infinitesimal jackknife over filters); deeper, the
        randomness of all layers counts and only the spread between two or more draws does.
    """
    x, y = as_pairs(x, y)
    draws = check_count("draws", draws, least=0, hint="0 runs the weights the model has")
    seed = check_count("seed", seed, least=0)
    law = Present() if initializer is None else initializer
    parameter = next(model.parameters(), None) if isinstance(model, nn.Module) else None
    if parameter is not None:
        x, y = x.to(parameter), y.to(parameter)
    traced = traced_like_predict(model, x[:2])
    with leaves_no_trace(model):
        set_mode(model, None, dropout=False)  # it would hide the geometry
        if draws == 0:
            runs = [_record(traced, x, y)]
        else:
            device = "cpu" if parameter is None else parameter.device
            generator = torch.Generator(device=device).manual_seed(seed)
            redrawn = _redrawn_runs(model, law, x, y, draws, generator)
            runs = list(redrawn if progress is None else progress(redrawn))
    return _summary(traced, runs, draws, seed)


def _redrawn_runs(
    model: nn.Module, law: Initializer, x: Tensor, y: Tensor, draws: int, generator: torch.Generator
) -> Iterator[_Run]:
    """One run per draw, all in one copy of the model, which is set back to the original before each."""
    redrawn = copy.deepcopy(model)
    traced = traced_like_predict(redrawn, x[:2])
    for _ in range(draws):
        for ours, theirs in zip(
            chain(redrawn.parameters(), redrawn.buffers()), chain(model.parameters(), model.buffers())
        ):
            ours.copy_(theirs)
        law.fill_(redrawn, generator=generator)
        yield _record(traced, x, y)


@dataclass
class _Run:
    """One draw: per row the cosines, norm ratios and rms ratios of the pairs, and their jackknife errors."""

    shapes: list[tuple[int, ...]] = field(default_factory=list)
    values: list[Floats] = field(default_factory=list)  # [3, pairs]: cosine, norm ratio, rms ratio
    errors: list[Floats] = field(default_factory=list)  # [2, pairs]: variance of cosine and of norm ratio
    mean_errors: list[Floats] = field(default_factory=list)  # [2]: the same for the means over pairs


def _record(traced: Trace, x: Tensor, y: Tensor) -> _Run:
    batched = [module for module in traced.model.modules() if isinstance(module, _BatchNorm) and module.training]
    size = len(x) if batched else pairs_at_once(x[0].numel())
    groups = _filter_rows(traced)
    recorder = _Recorder(traced, groups, whole_batch=bool(batched))
    for start in range(0, len(x), size):
        part = slice(start, start + size)
        try:
            recorder.run_pairs(x[part], y[part])
        except Exception as error:
            raise Inputs((x[part],)).refused(error) from error
    return recorder.result()


def _filter_rows(traced: Trace) -> dict[Node, int]:
    """Rows whose channels are independent filters of the first weights, with that layer's number of groups."""
    found: dict[Node, int] = {}
    depth: dict[Node, int] = {}
    for node in traced.steps:
        parents = node.all_input_nodes
        depth[node] = max((depth.get(parent, 0) for parent in parents), default=0)
        module = traced.module(node)
        if isinstance(module, (nn.Linear, _ConvNd)):
            depth[node] += 1
            if depth[node] == 1:
                found[node] = getattr(module, "groups", 1)
        elif is_activation(traced, node) and len(parents) == 1 and parents[0] in found:
            found[node] = found[parents[0]]
    return found


class _Recorder:
    """Runs the model and reduces each node's output to sums over units at once, before anything overwrites it.

    An input that is part of several pairs is run once, unless the model looks at its whole batch.
    """

    def __init__(self, traced: Trace, filters: dict[Node, int], *, whole_batch: bool) -> None:
        self._traced, self._steps, self._filters = traced, traced.steps, filters
        self._whole_batch = whole_batch
        self._sums: dict[Node, list[Tensor]] = {node: [] for node in traced.steps}
        self._shapes: dict[Node, tuple[int, ...]] = {}

    def run_pairs(self, x: Tensor, y: Tensor) -> None:
        inputs = torch.cat([x, y])
        place = torch.arange(len(inputs), device=x.device)
        if not self._whole_batch:
            inputs, place = torch.unique(inputs, dim=0, return_inverse=True)
        self._inputs, self._x, self._y = len(inputs), place[: len(x)], place[len(x) :]
        self._traced.run(bind(self._traced.model, inputs), self._watch)

    def _watch(self, node: Node, args: Any, kwargs: Any, output: Any) -> None:
        self._sums[node].append(self._reduce(node, output))

    def _reduce(self, node: Node, output: Any) -> Tensor:
        """Sums of x², y², (x-y)²: ``[3, pairs, filters]`` where filters are independent, else ``[3, pairs, 1]``."""
        if (
            not isinstance(output, Tensor)
            or output.dim() < 2
            or len(output) != self._inputs
            or not output.is_floating_point()
        ):
            return torch.full((3, len(self._x), 1), torch.nan, dtype=torch.float64)
        self._shapes[node] = tuple(output.shape[1:])
        units = output.detach().reshape(len(output), output.shape[1] if node in self._filters else 1, -1)
        squares = units.square().sum(dim=2, dtype=torch.float64)
        apart = (units[self._x] - units[self._y]).square().sum(dim=2, dtype=torch.float64)
        return torch.stack([squares[self._x], squares[self._y], apart]).cpu()

    def result(self) -> _Run:
        run = _Run()
        start: tuple[Floats, int] | None = None
        for node in self._steps:
            sums = torch.cat(self._sums[node], dim=1).numpy()
            shape = self._shapes.get(node, ())
            units = int(np.prod(shape)) if shape else 0
            total = sums.sum(axis=2)
            norm_x, cosine = np.sqrt(total[0]), cosine_of(total)
            start = (norm_x, units) if start is None else start
            with np.errstate(invalid="ignore", divide="ignore"):
                ratio = norm_x / start[0]
                rms = ratio * np.sqrt(start[1] / units) if units else np.full_like(ratio, np.nan)
                errors, mean_errors = _jackknife(sums, cosine, ratio, self._filters.get(node))
            run.shapes.append(shape)
            run.values.append(np.stack([cosine, ratio, rms]))
            run.errors.append(errors)
            run.mean_errors.append(mean_errors)
        return run


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
    errors[0], mean_errors[0] = 0.0, 0.0
    rows = tuple(
        Row(
            traced.name(node),
            traced.kind(node),
            "measured",
            shape,
            "" if shape else "its output is not one value per unit",
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
