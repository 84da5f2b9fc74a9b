"""`predict`: walk the traced model, apply the rules, and report the expected geometry of pairs after every layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from initscope._utils.progress import stage, steps
from initscope._utils.randomness import torch_generator
from initscope.data.pairs import drawn_pairs
from initscope.errors import InputError, check_count
from initscope.geometry import Floats, Prediction, Row, Tokens, numbered, reference_norms
from initscope.graph import (
    BatchArgs,
    Graph,
    Inputs,
    Node,
    bind,
    hides_attention,
    refuse_different_lengths,
    trace,
)
from initscope.graph.batch import check_norms, check_shapes, real_tensor
from initscope.graph.borrowing import borrowed, runnable
from initscope.initializers import AnyInitializer, Initializer, Present, as_initializer, not_drawn
from initscope.initializers._base import equal_parameters
from initscope.propagate.context import Context
from initscope.propagate.covariance_budget import CovarianceBudget
from initscope.propagate.finite_width import FiniteWidth, finite_width as finite_width_of
from initscope.propagate.networks import Networks, Simulation, tied_weights
from initscope.propagate.predicted_gradients import Gradients, gradients_of, sides_of
from initscope.propagate.refusals import refuse_undrawable
from initscope.propagate.spread import finite_width_sd, standard_error
from initscope.propagate.totals import NotCovered, Totals, gaps
from initscope.propagate.values.base import is_value
from initscope.propagate.values.inputs import InputValues
from initscope.propagate.walk import Walk
from initscope.theory._fast import fused_loops

__all__ = ["checked_inputs", "networks_of", "predict"]

_REPLICATES = 4  # of everything that is sampled: their spread is its error
_CHUNK = 1 << 20  # input values of one batch of pairs: their maps stay near the caches, whatever the number of pairs


def predict(
    model: nn.Module | Graph,
    x: Any,
    y: Any = None,
    initializer: AnyInitializer | None = None,
    *,
    pairs: int = 64,
    mode: Literal["train", "eval"] | None = None,
    draws: int = 4,
    seed: int = 0,
    batch_args: BatchArgs = None,
    gradients: bool = False,
    finite_width: bool = False,
) -> Prediction:
    """Return expected geometry of pairs after every layer of ``model`` with random weights.

    The covariance of each pair is propagated from layer to layer [Daniely2016]_, [Poole2016]_: weights average it over
    the taps of the filters, activations apply their dual. The result is exact in expectation for the first layer, and
    for deeper ones in the limit of large width. If there is no closed form, units or whole networks are sampled; the
    status of the row says so, and the row has a standard error. The weights of the model are used only with
    ``initializer=None``, and the model is restored.

    Parameters
    ----------
    model : torch.nn.Module
        Any model that torch.fx can trace. Every step has its row, with the status that its numbers deserve. Or its
        `initscope.graph.trace`, which is then used, unless it was recorded from a run.
    x, y : array or tensor, ``[pairs, ...]``, or tuple or dict of them
        The pairs, shaped as inputs of the model; several inputs as a tuple, or as a dict by name. Without ``y``, ``x``
        is data, an array, tensor or `initscope.data` set, and pairs are drawn from it.
    initializer : Initializer, its class or its name, optional
        Draws the weights, for example ``"he"``. None: zero-mean Gaussian with the variance that each layer's
        weights have now.
    pairs : int
        Number of pairs to draw if ``x`` is data; given pairs are all used.
    mode : {"train", "eval"}, optional
        Mode of batch norm: statistics of the batch of all x and y together, or running statistics. None: as the model
        is. Dropout is off in both.
    draws : int
        Networks to draw for steps without a rule.
    seed : int
        Of all sampling.
    batch_args : str, int or sequence of them, optional
        Arguments that carry samples, by name or position; tensors of the other arguments are passed unchanged to every
        call, such as the edges of a graph that all samples share, or a time step. None: all tensors that have an axis.
    gradients : bool
        Also predict the gradients of the weights, by the backward recursion from the output, on the first samples of x.
        A row whose gradient passes a step without a rule has no gradient, and its note gives the reason.
    finite_width : bool
        Also predict one network of the model's own widths, to first order in 1/width: how much its cosines and scales
        vary between draws, and how far their mean is from the limit of wide layers. It costs some 250 predictions. If
        this is not known, the notes give the reason.

    Returns
    -------
    Prediction
        ``rows`` and ``[rows, pairs]`` arrays ``cosine``, ``norm_ratio``, ``rms_ratio``; row 0 is the input. Norms are
        relative to those of all real-valued inputs; for a model of indices, to the first values that it computes from
        them. ``cosine_sd`` is the standard deviation of one draw of a dense ReLU network of these widths, NaN for other
        networks; with ``finite_width`` it is known for any network, together with ``rms_sd``, ``cosine_shift`` and
        ``cosine_shift_se``. ``cosine_se`` is the standard error of sampled steps, also in later rows: 0 for formulas,
        NaN if a single network was sampled.

    Examples
    --------
    >>> import torch, initscope
    >>> layer = torch.nn.Sequential(torch.nn.Linear(2, 100, bias=False), torch.nn.ReLU())
    >>> right_angle = initscope.predict(layer, [[1.0, 0.0]], [[0.0, 1.0]])
    >>> round(float(right_angle.cosine[-1, 0]), 6)      # after the ReLU: 1/pi
    0.31831
    """
    if mode not in (None, "train", "eval"):
        raise InputError(f"mode = {mode!r} must be 'train', 'eval' or None (as the model is)")
    draws, seed, initializer = (
        check_count("draws", draws),
        check_count("seed", seed, least=0),
        as_initializer(initializer),
    )
    graph, model = (model, model.model) if isinstance(model, Graph) else (None, model)
    model = runnable(model, values=False)
    if y is None:
        x, y, _ = drawn_pairs(x, pairs, seed)
    whole = any(isinstance(module, nn.Embedding) for module in model.modules())
    x, y = _bound_pairs(model, x, y, keep_integers=whole, batch_args=batch_args)
    values, given = sum(tensor.numel() for tensor in x.sample_tensors()), x.samples
    size = min(given, max(1, _CHUNK // max(1, values // given)))
    training = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if any(module.training if mode is None else mode == "train" for module in training):
        size = given  # batch statistics are those of all samples together
    with borrowed(model):  # what runs inside keeps no copy of the weights of its own
        networks = networks_of(model, x, initializer, mode=mode, draws=draws, seed=seed, size=size, graph=graph)
        alone = networks.traced.symbolic is None  # the steps of a run are those of its samples
        sides = sides_of(x) if gradients else None
        extra = None if sides is None or alone or sides[1].stop > size else sides
        parts, known = list[_Part](), None
        for start in steps(range(0, given, size), "predicting pairs"):
            whole = size == given and networks.traced.batch in (None, given)
            both = (x, y) if whole else tuple(_part(side, start, size, networks.traced.batch) for side in (x, y))
            simulation = Simulation(networks, *both, extra=None if start else extra)
            parts.append(_predicted_part(simulation, start, given))
            known = simulation.extra if extra is not None and start == 0 else known
        prediction = _assembled(networks, parts, given)
        if finite_width:
            prediction = _with_finite_width(prediction, networks, x, y, seed)
    if sides is None:
        return prediction
    returned = [prediction.rows[node.index] for node in networks.traced.returned[:1]]
    if returned and returned[0].status == "not covered":  # nothing to go back from: no second walk
        return _with_gradients(prediction, Gradients.unknown(len(prediction.rows), f"the output: {returned[0].note}"))
    first, second = (x.pick(side) for side in sides)
    with borrowed(model), stage("predicting gradients"):
        if alone:
            networks = networks_of(model, first, initializer, mode=mode, draws=draws, seed=seed, size=first.samples)
        else:
            networks = networks.of_samples(first, torch_generator(seed, "prediction"))
        return _with_gradients(prediction, gradients_of(Simulation(networks, first, second, known=known)))


def _with_gradients(prediction: Prediction, gradients: Gradients) -> Prediction:
    """Return the same with predicted gradients, and with the reasons why rows have none."""
    rows = tuple(
        replace(row, note="; ".join(filter(None, [row.note, reason and f"no gradient predicted: {reason}"])))
        for row, reason in zip(prediction.rows, gradients.reasons, strict=True)
    )
    return replace(prediction, rows=rows, gradient_ratio=gradients.ratio, gradient_ratio_se=gradients.error)


def _with_finite_width(prediction: Prediction, networks: Networks, x: Inputs, y: Inputs, seed: int) -> Prediction:
    """Return the prediction with the spread and shift of one draw, and with the reasons why rows have none."""
    try:
        spread = finite_width_of(networks, x, y, seed)
    except NotCovered as reason:
        unknown = np.full(prediction.cosine.shape, np.nan)
        spread = FiniteWidth(unknown, unknown, unknown, unknown, unknown[None], (str(reason),) * len(unknown))
    assert prediction.cosine_sd is not None
    known = np.isfinite(prediction.cosine_sd)  # the closed form of dense ReLU networks has no sampling error
    rows = tuple(
        replace(row, note="; ".join(filter(None, [row.note, reason and f"no spread predicted: {reason}"])))
        for row, reason in zip(prediction.rows, spread.reasons, strict=True)
    )
    return replace(
        prediction,
        rows=rows,
        cosine_sd=np.where(known, prediction.cosine_sd, spread.cosine_sd),
        rms_sd=spread.rms_sd * prediction.rms_ratio,
        cosine_shift=spread.cosine_shift,
        cosine_shift_se=spread.cosine_shift_se,
        cosine_deviations=spread.deviations,
    )


def networks_of(
    model: nn.Module,
    inputs: Inputs,
    initializer: Initializer | None,
    *,
    mode: Literal["train", "eval"] | None = None,
    draws: int = 4,
    seed: int = 0,
    size: int,
    graph: Graph | None = None,
) -> Networks:
    """Data that all batches of pairs share: the traced model, the distribution of its weights, the random numbers.

    ``size`` is the number of pairs of a batch; ``graph`` is a trace of the model if one exists. Call this inside
    `borrowed`, because even reading a parametrized weight may change it.
    """
    drawn_from = Present() if initializer is None else initializer
    # Networks are shared out among the replicates; a single one has no spread.
    replicates = max(2, min(_REPLICATES, draws))
    context = Context(drawn_from, torch_generator(seed, "prediction"), mode=mode, replicates=replicates)
    refuse_undrawable(model, drawn_from)
    if graph is None or graph.symbolic is None:
        graph = trace(model, inputs, recorded=size, opened=hides_attention(model))
    # The work of the whole prediction decides whether loading the compiled loops pays; later calls find them loaded.
    values = sum(tensor.numel() for tensor in inputs.sample_tensors())
    fused_loops(*inputs.tensors(), entries=values * len(graph.nodes))
    same = equal_parameters(model) if isinstance(drawn_from, Present) else {}
    return Networks(graph, inputs, replace(context, same=same, tied=tied_weights(graph)), draws, seed)


def _part(side: Inputs, start: int, size: int, batch: int | None) -> Inputs:
    """Return pairs ``start … start + size``; the last one is repeated if a recorded model needs ``batch`` of them."""

    def cut(tensor: Tensor) -> Tensor:
        part = tensor[start : start + size]
        missing = 0 if batch is None else batch - len(part)
        return torch.cat([part, *[part[-1:]] * missing]) if missing else part

    return side.map_samples(cut)


def _bound_pairs(
    model: nn.Module, x: Any, y: Any, *, keep_integers: bool, batch_args: BatchArgs
) -> tuple[Inputs, Inputs]:
    """Return arguments of the model for both sides, all tensors, checked."""
    bound_x, bound_y = (bind(model, _tensors(side), batch_args) for side in (x, y))
    if not keep_integers and not any(tensor.is_floating_point() for tensor in bound_x.tensors()):
        bound_x, bound_y = (
            side.map(real_tensor) for side in (bound_x, bound_y)
        )  # together with real numbers they are indices
    left, right = bound_x.tensors(), bound_y.tensors()
    if not left or len(left) != len(right):
        raise InputError(f"x holds {len(left)} tensors and y {len(right)}; give both the same, at least one")
    refuse_different_lengths(model, bound_x)
    axes = 1 if any(tensor.dim() > 1 for tensor in left) else 2  # with others, an input may be one number per sample
    for a, b, carries in zip(left, right, bound_x.batched, strict=True):
        if carries:
            check_shapes(a, b, axes)
        elif a.shape != b.shape or not torch.equal(a, b):
            raise InputError(f"an input of shape {tuple(a.shape)} carries no samples, yet differs between x and y")
    if not any(bound_x.batched):
        raise InputError(f"x has shape {tuple(left[0].shape)}; give at least one pair, shaped [pairs, ...]")
    return bound_x, bound_y


def _tensors(values: Any) -> Any:
    """Return arrays as tensors, in the same tuples, dicts and lists; other objects are returned unchanged."""
    if isinstance(values, Inputs):
        return values.map(lambda tensor: tensor.detach())  # what the model was called with already

    def inside(value: Any) -> Any:
        return value if value is None or isinstance(value, (bool, int, float, str)) else _tensors(value)

    if isinstance(values, Mapping):
        return {key: inside(value) for key, value in values.items()}
    if hasattr(values, "_fields"):
        return type(values)(*map(inside, values))
    several = isinstance(values, list) and bool(values) and all(isinstance(v, (Tensor, np.ndarray)) for v in values)
    if isinstance(values, tuple) or several:
        return tuple(map(inside, values))
    if isinstance(values, (Tensor, np.ndarray)):
        tensor = torch.as_tensor(values)
        return tensor if tensor.dtype in (torch.long, torch.int32) else real_tensor(tensor)
    return real_tensor(values)


def checked_inputs(simulation: Simulation, start: int = 0) -> list[Any]:
    """Return all inputs of a batch of pairs as values; inputs without samples are unchanged.

    Squared norms, which are needed anyway, show NaN, infinity and zeros; ``start`` is the number of the first pair.
    """
    x, y = simulation.x, simulation.y
    inputs: list[Any] = []
    for a, b, carries in zip(x.tensors(), y.tensors(), x.batched, strict=True):
        values = InputValues(a, b)
        if carries and values.real:
            totals = values.totals()
            check_norms(a, b, totals.xx, totals.yy, start)
        inputs.append(values if carries else a)
    return inputs


@dataclass(frozen=True)
class _RowOfPart:
    """Prediction for one op: its row, sums over units, and the cosines of all replicates if there are any."""

    row: Row
    totals: Totals
    replicates: Floats | None = None
    tokens: tuple[list[float], list[float]] | None = None
    """Of every replicate: cosine of tokens, entropy of attention; None where there is no attention."""


@dataclass(frozen=True)
class _Part:
    """Return the rows of one batch of pairs, and their numbers ``[rows, pairs]``."""

    rows: tuple[Row, ...]
    gap: Floats
    norm_ratio: Floats
    rms_ratio: Floats
    replicates: list[Floats | None]
    tokens: list[tuple[list[float], list[float]]]


def _predicted_part(simulation: Simulation, first: int, all_pairs: int) -> _Part:
    """Return the prediction of a batch of ``all_pairs``, the first of it number ``first``."""
    networks, pairs = simulation.networks, simulation.x.samples
    traced = networks.traced
    context = replace(networks.context, budget=CovarianceBudget(pairs, all_pairs), sampled=[])
    walk = Walk(traced, checked_inputs(simulation, first), context, simulation)
    attending = bool(traced.attention_nodes)
    predicted = []
    for node, value in steps(walk.states(), "predicting layers", len(traced.nodes)):
        value = value[0] if type(value) is tuple and value else value  # of several results the first, as it is measured
        tokens = walk.tokens(value) if attending else None
        one_network = networks.draws == 1 and "networks" in context.sampled  # which shows no error
        predicted.append(replace(_row_of(node, value, pairs, one_network), tokens=tokens))
    rows = [row.row for row in predicted]
    left = not_drawn(traced.model)
    remarks = [traced.fallback, f"taken as they are: {_names(left)}" if left else ""]
    rows[0] = replace(rows[0], note="; ".join(remark for remark in remarks if remark))
    totals = [row.totals for row in predicted]
    norms, units = _norms(totals, [node.op == "placeholder" for node in traced.nodes])
    tokens_of_rows = [row.tokens for row in predicted if row.tokens is not None]
    replicates = [row.replicates for row in predicted]
    return _Part(tuple(rows), gaps(totals).cpu().numpy(), norms, norms * units, replicates, tokens_of_rows)


def _row_of(node: Node, value: Any, pairs: int, one_network: bool) -> _RowOfPart:
    """Return the row of an op with its status; "not covered", with the reason, if it has no sums over units."""
    context = node.role, node.path, node.reads, node.traits
    try:
        if not is_value(value):
            raise NotCovered("its output is not one value per unit")
        values, totals = value.replicates, []
        for replicate in values:
            totals.append(replicate.totals())
            if len(totals[-1].xx) != pairs:
                raise NotCovered("its first axis is not the sample axis")
    except NotCovered as reason:
        unknown = torch.full((pairs,), torch.nan, dtype=torch.float64)
        row = Row(node.name, node.kind, "not covered", (), str(reason), *context)
        return _RowOfPart(row, Totals(unknown, unknown, 0, given_gap=unknown))
    note = "; ".join(filter(None, [node.note, values[0].note]))
    row = Row(node.name, node.kind, values[0].status, values[0].shape, note, *context)
    if len(totals) == 1:
        return _RowOfPart(row, totals[0])
    return _RowOfPart(row, Totals.mean(totals), None if one_network else 1 - gaps(totals).cpu().numpy())


def _assembled(networks: Networks, parts: list[_Part], pairs: int) -> Prediction:
    """Concatenate all batches of pairs, with the standard errors of sampled steps."""
    gap, norm, rms = (
        np.concatenate([getattr(part, name) for part in parts], axis=1)[:, :pairs]
        for name in ("gap", "norm_ratio", "rms_ratio")
    )
    cosine = 1 - gap
    rows, error = list(parts[0].rows), np.zeros_like(cosine)
    for index, (row, *drawn) in enumerate(zip(rows, *(part.replicates for part in parts), strict=True)):
        sampled = [cosines for cosines in drawn if cosines is not None] if drawn[0] is not None else []
        if len(sampled) < len(parts):
            error[index] = 0 if row.status in ("closed form", "quadrature", "approximate") else np.nan
            continue
        values = np.concatenate(sampled, axis=1)[:, :pairs]
        error[index] = standard_error(values)
        spread = float(standard_error(values.mean(axis=1)))
        if not np.isfinite(spread):
            continue  # scores after a mask of -∞ have no cosine
        stated = f"cosine ± {spread:.1g}"
        rows[index] = replace(row, note=f"{row.note}, {stated}" if row.note else stated)
    sd = finite_width_sd(networks.traced.model, parts[0].rows, cosine, networks.context.weight_distribution)
    tokens = _tokens([part.tokens for part in parts]) if parts[0].tokens else None
    return Prediction(numbered(rows), cosine, norm, rms, sd, error, gap, tokens)


def _tokens(parts: list[list[tuple[list[float], list[float]]]]) -> Tokens:
    """Return means over batches of pairs and replicates that have a value, and their errors; 0 if nothing was drawn."""
    columns: list[list[tuple[float, float]]] = [[], []]
    for row in zip(*parts, strict=True):
        for column, index in zip(columns, (0, 1), strict=True):
            values = np.array([part[index] for part in row])  # [batches, replicates]
            known = np.isfinite(values)
            means = np.where(known, values, 0.0).sum(axis=0)[known.any(axis=0)] / known.sum(axis=0)[known.any(axis=0)]
            if values.shape[1] == 1:
                column.append((means[0], 0.0) if len(means) else (np.nan, np.nan))
            else:
                error = float(standard_error(means)) if len(means) > 1 else np.nan
                column.append((float(means.mean()) if len(means) else np.nan, error))
    (cosine, cosine_se), (entropy, entropy_se) = (np.array(column).T for column in columns)
    return Tokens(cosine, entropy, cosine_se, entropy_se)


def _names(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 4 else ""
    return ", ".join(names if not more else names[:3]) + more


def _norms(totals_of_rows: list[Totals], inputs: list[bool]) -> tuple[np.ndarray, np.ndarray]:
    """Return norms of the x relative to `reference_norms`, and the factors that make them ratios per unit."""
    norms = torch.stack([totals.xx for totals in totals_of_rows]).double().sqrt().cpu().numpy()
    units = np.array([totals.units for totals in totals_of_rows], dtype=np.float64)
    start, size = reference_norms(norms, units, inputs)
    return norms / start, np.sqrt(size / np.maximum(units, 1))[:, None]
