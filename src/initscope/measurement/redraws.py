"""`measure`: one recording per draw of the weights, and the geometry of pairs over all draws, with its errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from initscope._utils.progress import kept_if_interrupted, none_is_no_result, steps
from initscope.data.pairs import drawn_pairs
from initscope.errors import check_count
from initscope.geometry import Floats, Measurement, Tokens
from initscope.graph import (
    Batch,
    BatchArgs,
    Graph,
    GraphRun,
    Mode,
    Node,
    SampleAxes,
    couples_samples,
    distinct,
    hides_attention,
    pair_batches,
    run,
    sample_axes,
    set_mode,
    trace,
)
from initscope.graph.borrowing import borrowed, runnable, without_dropout
from initscope.initializers import AnyInitializer, Initializer, Present, as_initializer
from initscope.initializers._redrawn import redrawn
from initscope.measurement.attention import AttentionObserver, TokenObserver
from initscope.measurement.filters import FilterObserver, independent_filters, jackknife
from initscope.measurement.observers import PairObserver
from initscope.measurement.stream import given_pairs

__all__ = ["measure"]


def measure(
    model: nn.Module,
    x: Any,
    y: Any = None,
    *,
    pairs: int = 64,
    initializer: AnyInitializer | None = None,
    draws: int = 8,
    mode: Mode | None = None,
    seed: int = 0,
    batch_args: BatchArgs = None,
    progress: Callable[[Iterator[Any]], Iterable[Any]] | None = None,
) -> Measurement:
    """Run ``model`` on pairs and record their geometry after every layer.

    Source: [Nachum2022]_ figure 1.

    Parameters
    ----------
    model : torch.nn.Module
        Left as found, also after an exception: weights, buffers, modes, hooks, gradients, random states.
    x, y : array or tensor, ``[pairs, ...]``, or tuple or dict of them
        The pairs, shaped as inputs of the model; several inputs as a tuple, or as a dict by name. Indices of embeddings
        stay whole numbers: norms then start at the first values that the model computes from them. Without ``y``, ``x``
        is data, an array, tensor or `initscope.data` set, and pairs are drawn from it.
    pairs : int
        Number of pairs to draw if ``x`` is data; given pairs are all used.
    initializer : Initializer, its class or its name, optional
        Draws the weights, for example ``"he"``. None: zero-mean Gaussian with the variance each layer's
        weights have now.
    draws : int
        0 runs the weights the model has; n ≥ 1 draws new weights n times and averages.
    mode : "train", "eval" or None
        Mode of batch norm: statistics of the batch of all x and y together, or running statistics. None: as the model
        is. Dropout is off in both.
    seed : int
        Of the draws.
    batch_args : str, int or sequence of them, optional
        Arguments that carry samples, by name or position; tensors of the other arguments are passed unchanged to every
        call, such as the edges of a graph that all samples share, or a time step. None: all tensors that have an axis.
    progress : callable, optional
        Wraps the iterator over draws, as tqdm does: ``progress=lambda draws: tqdm(draws, total=8)``.

    Returns
    -------
    Measurement
        The rows of `initscope.predict`, with standard errors over the randomness of the weights. After the first
        weights, if filters are independent and each group has at least 16, one draw is enough (by the jackknife over
        filters). Deeper layers, smaller layers, and initializers with dependent filters (orthogonal, mirrored) need the
        spread between two or more draws. A draw in which an output of a pair is all zero has no angle: the cosine is
        then the mean over the other draws, ``cosine_draws`` is their number, and the row has a note.
    """
    model = runnable(model)
    if y is None:
        x, y, _ = drawn_pairs(x, pairs, seed)
    sides = given_pairs(model, x, y, batch_args)
    draws = check_count("draws", draws, least=0, hint="0 runs the weights the model has")
    seed = check_count("seed", seed, least=0)
    chosen = as_initializer(initializer) or Present()
    with borrowed(model):
        set_mode(model, mode)
        few = sides.pick(slice(0, 64)).inputs  # as many as prediction records of a model that branches on them
        graph = trace(model, few, opened=hides_attention(model))
        if draws == 0:
            runs = [_recorded(graph, sample_axes(graph, sides.inputs), sides, None)]
        else:
            coming = _redrawn_runs(redrawn(model, chosen, draws, few, seed=seed), sides, chosen)
            wrapped = steps(coming, "measuring draws of the weights", draws) if progress is None else progress(coming)
            runs = []
            with kept_if_interrupted():
                for run in wrapped:
                    runs.append(run)
            none_is_no_result(runs)
    return _summary(runs, min(draws, len(runs)), seed)


@dataclass(frozen=True)
class _Run:
    """One draw: the run, with the numbers of every row."""

    seen: GraphRun
    values: Floats  # [rows, 3, pairs]: 1 - cosine, norm ratio, rms ratio
    variances: Floats  # [rows, 2, pairs]: of cosine and norm ratio by the jackknife, NaN where it does not apply
    mean_variances: Floats  # [rows, 2]: the same for the means over pairs
    tokens: Floats | None = None  # [2, rows]: cosine of tokens and entropy of attention, where there is attention


def _redrawn_runs(drawn: Iterator[Graph], pairs: Batch, initializer: Initializer) -> Iterator[_Run]:
    """Run the model once per draw; the sample axes are found once, because all draws use one copy."""
    axes: SampleAxes | None = None
    for graph in drawn:
        axes = sample_axes(graph, pairs.inputs) if axes is None else axes
        yield _recorded(graph, axes, pairs, initializer)


def _recorded(graph: Graph, axes: SampleAxes, pairs: Batch, initializer: Initializer | None) -> _Run:
    coupled = couples_samples(graph.model)
    filters = independent_filters(graph, initializer)
    geometry, by_filter = PairObserver(graph), FilterObserver(graph, filters, axes)
    within: list[TokenObserver | AttentionObserver] = []
    if graph.attention_nodes:
        within = [TokenObserver(graph), AttentionObserver(graph)]
    parts = pair_batches(pairs, whole=coupled)
    with without_dropout(graph.model):  # it would hide the geometry
        # An input that is part of several pairs is run once, unless the model looks at its whole batch.
        seen = run(graph, parts if coupled else map(distinct, parts), [geometry, by_filter, *within], axes)
    reduced = _reduced(seen, geometry, by_filter, filters)
    columns = {name: values for observer in within for name, values in observer.columns().items()}
    names = ("token_cosine", "attention_entropy")
    return replace(reduced, tokens=np.stack([columns[name] for name in names])) if within else reduced


def _reduced(seen: GraphRun, geometry: PairObserver, by_filter: FilterObserver, filters: dict[Node, int]) -> _Run:
    nodes = seen.graph.nodes
    gap, ratio, rms, _ = geometry.geometry(seen.shapes)
    pairs = gap.shape[1]
    variances, mean_variances = np.full((len(nodes), 2, pairs), np.nan), np.full((len(nodes), 2), np.nan)
    for index, node in enumerate(nodes):
        squares = by_filter.squares(node)
        if squares is not None and squares.shape[1] == pairs:
            variances[index], mean_variances[index] = jackknife(squares, ratio[index], filters[node])
    return _Run(seen, np.stack([gap, ratio, rms], axis=1), variances, mean_variances)


def _linearized_squares(ratios: Floats) -> Floats:
    """Return numbers with the mean s, the root mean square of ``ratios`` over draws, and the spread of its error.

    Prediction is √E‖h‖², and deep in a narrow network the mean of norms is far below it. s = √⟨r²⟩ moves by
    (r² - s²)/2s with each draw (delta method).
    """
    with np.errstate(invalid="ignore"):
        largest = np.where(ratios.max(axis=0) > 0, ratios.max(axis=0), 1.0)  # its square may overflow or vanish
        scaled = ratios / largest
        root = np.sqrt(np.square(scaled).mean(axis=0))
        moved = np.square(scaled) + root**2
        return np.asarray(largest * np.divide(moved, 2 * root, out=np.zeros_like(ratios), where=root != 0))


def _mean_and_error(values: Floats) -> tuple[Floats, Floats, npt.NDArray[np.int64]]:
    """Return the mean over the draws that have a value, its standard error by their spread, and how many they are."""
    known = np.isfinite(values)
    counts = known.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        # An infinite norm is a value of its own: it stays the mean.
        mean = np.where(known, values, 0.0).sum(axis=0) / counts
        squares = np.where(known, (values - mean) ** 2, 0.0).sum(axis=0)
        error = np.sqrt(squares / np.where(counts > 1, counts - 1, np.nan) / counts)
    return np.where(np.isposinf(values).any(axis=0), np.inf, mean), error, counts


def _summary(runs: list[_Run], draws: int, seed: int) -> Measurement:
    values = np.stack([run.values for run in runs])  # [draws, rows, 3, pairs]
    values[:, :, 1:] = _linearized_squares(values[:, :, 1:])
    mean, between, counts = _mean_and_error(values)
    over_pairs = np.stack([_known_mean(draw[:, :2]) for draw in values])
    _, mean_between, _ = _mean_and_error(over_pairs)
    # After the first weights the jackknife knows more than a few draws do; elsewhere only their spread counts.
    errors = _chosen(np.stack([run.variances for run in runs]), between[:, :2])
    mean_errors = _chosen(np.stack([run.mean_variances for run in runs]), mean_between)
    seen = runs[0].seen
    nodes = seen.graph.nodes
    given = [node.role == "input" for node in nodes]
    errors[given], mean_errors[given] = 0.0, 0.0
    fewest = counts[:, 0].min(axis=1)
    notes = [_missing_draws(int(fewest[i]), len(runs), node in seen.shapes) for i, node in enumerate(nodes)]
    return Measurement(
        seen.rows(dict(zip(nodes, notes, strict=True))),
        1 - mean[:, 0],
        mean[:, 1],
        mean[:, 2],
        errors[:, 0],
        errors[:, 1],
        mean_errors[:, 0],
        mean_errors[:, 1],
        draws,
        seed,
        counts[:, 0],
        gap=mean[:, 0],
        tokens=_tokens(runs),
    )


def _tokens(runs: list[_Run]) -> Tokens | None:
    """Return means over the draws that have a value, and their errors."""
    columns = [run.tokens for run in runs if run.tokens is not None]
    if not columns:
        return None
    (cosine, entropy), errors, _ = _mean_and_error(np.stack(columns))
    return Tokens(cosine, entropy, *errors)


def _missing_draws(counted: int, draws: int, seen: bool) -> str:
    """Return the remark of a row whose cosine does not include all draws."""
    if counted == draws or not seen or draws == 1:
        return ""
    return f"an output is zero or not finite in some draws: cosines are means of at least {counted} of {draws}"


def _known_mean(values: Floats) -> Floats:
    """Return the mean over the last axis of finite values; NaN if there are none."""
    known = np.isfinite(values)
    counts = known.sum(axis=-1)
    sums = np.where(known, values, 0.0).sum(axis=-1)
    return np.asarray(np.divide(sums, counts, out=np.full(counts.shape, np.nan), where=counts > 0))


def _chosen(variances: Floats, between: Floats) -> Floats:
    """Return the error of the mean over draws: by the jackknife of each draw that has one, else by their spread."""
    variance, _, counts = _mean_and_error(variances)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(counts > 0, np.sqrt(variance / counts), between))
