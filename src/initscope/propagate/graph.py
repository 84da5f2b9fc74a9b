"""`predict`: walk the traced model, apply the rules, and report the expected geometry of pairs after every layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from initscope.errors import InputError
from initscope.initializers import Initializer, Present
from initscope.propagate.rules import Context, NotCovered, find_rule
from initscope.propagate.state import Given, State
from initscope.report.geometry import Prediction, Row
from initscope.tracing import Node, Trace, trace

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
    >>> (right_angle.cosine[:, 0] * np.pi).round(6)      # input, Linear, ReLU: cosines 0, 0, 1/pi
    array([0., 0., 1.])
    """
    x, y = as_pairs(x, y)
    traced = trace(model, is_leaf=lambda module: find_rule(module) is not None)
    context = Context(Present() if initializer is None else initializer)
    per_pair = max(1, x[0].numel())
    size = max(1, _CHUNK // per_pair)
    with torch.no_grad():
        chunks = [
            _walk(traced, Given(x[start : start + size], y[start : start + size]), context)
            for start in range(0, len(x), size)
        ]
    arrays = [np.concatenate([chunk[1][index] for chunk in chunks], axis=1) for index in range(3)]
    return Prediction(chunks[0][0], *arrays)


def as_pairs(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Both sides of the pairs as floating tensors, checked."""
    x, y = _tensor(x), _tensor(y)
    if x.shape != y.shape:
        raise InputError(f"x has shape {tuple(x.shape)} and y {tuple(y.shape)}; pairs need equal shapes [pairs, ...]")
    if x.dim() < 2 or len(x) == 0:
        raise InputError(f"x has shape {tuple(x.shape)}; give at least one pair, shaped [pairs, ...]")
    if x.device != y.device:
        raise InputError(f"x is on {x.device} and y on {y.device}; move them to one device")
    for name, side in (("x", x), ("y", y)):
        flat = side.detach().flatten(1)
        if not bool(torch.isfinite(flat).all()):
            bad = int((~torch.isfinite(flat)).any(dim=1).nonzero()[0])
            raise InputError(f"{name}[{bad}] holds NaN or infinity; clean the data first")
        zero = (flat == 0).all(dim=1)
        if bool(zero.any()):
            raise InputError(f"{name}[{int(zero.nonzero()[0])}] is all zero, so it has no angle; leave it out")
    return x, y


def _tensor(values: Any) -> Tensor:
    tensor = values if isinstance(values, Tensor) else torch.as_tensor(np.asarray(values))
    if tensor.is_complex():
        raise InputError("complex inputs are not supported; give real tensors")
    return tensor.detach() if tensor.is_floating_point() else tensor.float()


def _walk(traced: Trace, given: Given, context: Context) -> tuple[tuple[Row, ...], tuple[np.ndarray, ...]]:
    """Rows and their (cosine, norm ratio, rms ratio) for one batch of pairs."""
    start = given.totals()
    states: dict[Node, State | str] = {}
    rows: list[Row] = []
    columns: tuple[list[np.ndarray], ...] = ([], [], [])
    for node in traced.steps:
        outcome, note = _step(traced, node, states, given, context)
        states[node] = outcome
        covered = not isinstance(outcome, str)
        name, kind = traced.name(node), traced.kind(node)
        if not covered:
            rows.append(Row(name, kind, "not covered", note=str(outcome)))
            for column in columns:
                column.append(np.full(len(given.x), np.nan))
            continue
        assert not isinstance(outcome, str)
        totals = outcome.totals()
        rows.append(Row(name, kind, outcome.status, outcome.shape, note))
        ratio = (totals.xx / start.xx).sqrt()
        columns[0].append(totals.cosine.cpu().numpy())
        columns[1].append(ratio.cpu().numpy())
        columns[2].append((ratio * (start.units / totals.units) ** 0.5).cpu().numpy())
    return tuple(rows), tuple(np.stack(column) for column in columns)


def _step(
    traced: Trace, node: Node, states: dict[Node, State | str], given: Given, context: Context
) -> tuple[State | str, str]:
    """The state after a node, or the reason why there is none; and a remark for the row."""
    if node.op == "placeholder":
        return given, ""
    module = traced.module(node)
    found = None if module is None else find_rule(module)
    if module is None or found is None:
        return f"{traced.kind(node)} has no rule", ""
    before = [states[parent] for parent in node.all_input_nodes if parent in states]
    if len(before) != 1:
        return f"{traced.kind(node)} reads {len(before)} values", ""
    if isinstance(before[0], str):
        return "a layer before it is not covered", ""
    try:
        after = found(module, before[0], context)
    except NotCovered as reason:
        return str(reason), ""
    return after, _law_note(module, context)


def _law_note(module: nn.Module, context: Context) -> str:
    from initscope.initializers._base import weight_layers

    return "; ".join(note for layer in weight_layers(module) if (note := context.initializer.law(layer).note))
