"""`predict`: walk the traced model, apply the rules, and report the expected geometry of pairs after every layer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from initscope.errors import InputError
from initscope.initializers import Initializer, Present
from initscope.propagate.rules import Context, NotCovered, find_rule
from initscope.propagate.state import Given, Maps, State
from initscope.report.geometry import Prediction, Row
from initscope.theory._compiled import fused_loops
from initscope.tracing import Trace, trace

__all__ = ["as_pairs", "predict"]

_CHUNK = 1 << 20  # input values of one batch of pairs: their maps stay near the caches, whatever the number of pairs


def predict(model: nn.Module, x: Any, y: Any, initializer: Initializer | None = None) -> Prediction:
    """Expected geometry of pairs after every layer of ``model`` with random weights.

    The covariance of each pair is carried from layer to layer (theory §3.1): an average over the taps of the filters at
    weights, the dual at activations. Exact in expectation for the first layer, and for deep ones as the width grows.
    The model is not run, and its weights matter only through ``initializer=None``.

    Parameters
    ----------
    model : torch.nn.Module
        A stack of Linear, Conv1d/2d/3d, Flatten, Dropout and any activation, nested as you like. Layers without a rule
        keep their row, marked ``not covered``.
    x, y : array or tensor, ``[pairs, ...]``
        The pairs, shaped as inputs of the model.
    initializer : Initializer, optional
        The law of the weights. None: zero-mean Gaussian with the variance that each layer's weights have now.

    Returns
    -------
    Prediction
        ``rows`` and ``[rows, pairs]`` arrays ``cosine``, ``norm_ratio``, ``rms_ratio``; row 0 is the input.

    Examples
    --------
    >>> import torch, initscope
    >>> layer = torch.nn.Sequential(torch.nn.Linear(2, 100, bias=False), torch.nn.ReLU())
    >>> right_angle = initscope.predict(layer, [[1.0, 0.0]], [[0.0, 1.0]])
    >>> right_angle.cosine[:, 0].round(6)      # input, Linear, ReLU: 0, 0, 1/pi
    array([0.      , 0.      , 0.31831 ])
    """
    x, y = _shaped_pairs(x, y)
    traced = trace(model, is_leaf=lambda module: find_rule(module) is not None)
    context = Context(Present() if initializer is None else initializer, pairs=len(x))
    per_pair = max(1, x[0].numel())
    size = max(1, _CHUNK // per_pair)
    # The work of the whole prediction decides whether loading the compiled loops pays; later calls find them loaded.
    fused_loops(x, y, entries=x.numel() * len(traced.steps))
    with torch.no_grad():
        chunks = [
            _walk(traced, _checked(x[start : start + size], y[start : start + size], start), context)
            for start in range(0, len(x), size)
        ]
    arrays = [np.concatenate([chunk[1][index] for chunk in chunks], axis=1) for index in range(3)]
    return Prediction(chunks[0][0], *arrays)


def as_pairs(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Both sides of the pairs as floating tensors, checked."""
    x, y = _shaped_pairs(x, y)
    _checked(x, y, 0)
    return x, y


def _shaped_pairs(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    x, y = _tensor(x), _tensor(y)
    if x.shape != y.shape:
        raise InputError(f"x has shape {tuple(x.shape)} and y {tuple(y.shape)}; pairs need equal shapes [pairs, ...]")
    if x.dim() < 2 or len(x) == 0:
        raise InputError(f"x has shape {tuple(x.shape)}; give at least one pair, shaped [pairs, ...]")
    if x.device != y.device:
        raise InputError(f"x is on {x.device} and y on {y.device}; move them to one device")
    return x, y


def _checked(x: Tensor, y: Tensor, start: int) -> Given:
    """Pairs ``start …`` as a state; their squared norms, which are needed anyway, show NaN, infinity and zeros."""
    given = Given(x, y)
    totals = given.totals()
    for name, side, square in (("x", x, totals.xx), ("y", y, totals.yy)):
        bad = ~torch.isfinite(square)
        if bool(bad.any()):
            index = int(bad.nonzero()[0])
            if bool(torch.isfinite(side[index]).all()):
                raise InputError(f"{name}[{start + index}]: its squares overflow {side.dtype}; rescale the data")
            raise InputError(f"{name}[{start + index}] holds NaN or infinity; clean the data first")
        zero = square == 0
        if bool(zero.any()):
            raise InputError(f"{name}[{start + int(zero.nonzero()[0])}] is all zero, so it has no angle; leave it out")
    return given


def _tensor(values: Any) -> Tensor:
    tensor = values if isinstance(values, Tensor) else torch.as_tensor(np.asarray(values))
    if tensor.is_complex():
        raise InputError("complex inputs are not supported; give real tensors")
    return tensor.detach() if tensor.is_floating_point() else tensor.float()


@dataclass(frozen=True)
class _Missing:
    """Instead of a state: why there is none."""

    reason: str


def _walk(traced: Trace, given: Given, context: Context) -> tuple[tuple[Row, ...], tuple[np.ndarray, ...]]:
    """Rows and their (cosine, norm ratio, rms ratio) for one batch of pairs."""
    start = given.totals()
    values: dict[fx.Node, Any] = {}
    rows: list[Row] = []
    columns: tuple[list[np.ndarray], ...] = ([], [], [])
    for node in traced.steps:
        value = _value(traced, node, values, given, context)
        values[node] = replace(value, note="") if isinstance(value, Maps) else value
        name, kind = traced.name(node), traced.kind(node)
        if not isinstance(value, (Given, Maps)):
            reason = value.reason if isinstance(value, _Missing) else "its output is not one value per unit"
            rows.append(Row(name, kind, "not covered", note=reason))
            for column in columns:
                column.append(np.full(len(given.x), np.nan))
            continue
        totals = value.totals()
        rows.append(Row(name, kind, value.status, value.shape, value.note))
        ratio = (totals.xx / start.xx).sqrt()
        columns[0].append(totals.cosine.cpu().numpy())
        columns[1].append(ratio.cpu().numpy())
        columns[2].append((ratio * (start.units / totals.units) ** 0.5).cpu().numpy())
    return tuple(rows), tuple(np.stack(column) for column in columns)


def _value(traced: Trace, node: fx.Node, values: dict[fx.Node, Any], given: Given, context: Context) -> Any:
    """The state after a node, or why there is none."""
    if node.op == "placeholder":
        return given
    module = traced.module(node)
    found = None if module is None else find_rule(module)
    if module is None or found is None:
        return _Missing(f"{traced.kind(node)} has no rule")
    before: list[State | _Missing] = [values[parent] for parent in node.all_input_nodes if parent in values]
    if len(before) != 1:
        return _Missing(f"{traced.kind(node)} reads {len(before)} values")
    if isinstance(before[0], _Missing):
        return _Missing("a layer before it is not covered")
    try:
        return found(module, before[0], context)
    except NotCovered as reason:
        return _Missing(str(reason))
