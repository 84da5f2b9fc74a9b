"""`predict`: walk the traced model, apply the rules, and report the expected geometry of pairs after every layer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from initscope.errors import InputError, check_count
from initscope.geometry import Prediction, Row
from initscope.initializers import Initializer, Present
from initscope.propagate.budget import Budget
from initscope.propagate.moments import Given, Maps
from initscope.propagate.networks import Simulation
from initscope.propagate.rules import Context, find_rule
from initscope.propagate.spread import finite_width_sd
from initscope.propagate.totals import Totals
from initscope.propagate.walk import Missing, Walk
from initscope.theory._fast import fused_loops
from initscope.tracing import BatchArgs, Inputs, Trace, bind, refuse_different_lengths, trace
from initscope.tracing.untouched import leaves_no_trace, runnable

__all__ = ["as_pairs", "predict"]

_CHUNK = 1 << 20  # input values of one batch of pairs: their maps stay near the caches, whatever the number of pairs


def predict(
    model: nn.Module,
    x: Any,
    y: Any,
    initializer: Initializer | None = None,
    *,
    mode: Literal["train", "eval"] | None = None,
    draws: int = 4,
    seed: int = 0,
    batch_args: BatchArgs = None,
) -> Prediction:
    """Expected geometry of pairs after every layer of ``model`` with random weights.

    The covariance of each pair is carried from layer to layer [Daniely2016]_, [Poole2016]_: an average over the taps of
    the filters at weights, the dual at activations. Exact in expectation for the first layer, and for deep ones as the
    width grows.
    Where there is no closed form, units or whole networks are sampled, and the row says so in its status and gives its
    standard error. The weights of the model matter only through ``initializer=None``, and the model is left as it is.

    Parameters
    ----------
    model : torch.nn.Module
        Any model that torch.fx can trace. Every step has its row, with the status that its numbers deserve.
    x, y : array or tensor, ``[pairs, ...]``, or tuple or dict of them
        The pairs, shaped as inputs of the model; several inputs as a tuple, or as a dict by name.
    initializer : Initializer, optional
        The law of the weights. None: zero-mean Gaussian with the variance that each layer's weights have now.
    mode : {"train", "eval"}, optional
        What batch norm does: statistics of the batch of all x and y together, or its running statistics. None: as the
        model is. Dropout is off in both.
    draws : int
        Networks to draw for steps without a rule.
    seed : int
        Of all sampling.
    batch_args : str, int or sequence of them, optional
        Which arguments carry samples, by name or position; tensors of the others are given whole to every call, as the
        edges of a graph that all samples share, or a time step. None: all tensors that have an axis.

    Returns
    -------
    Prediction
        ``rows`` and ``[rows, pairs]`` arrays ``cosine``, ``norm_ratio``, ``rms_ratio``; row 0 is the input. Norms are
        ratios to those of all real-valued inputs; of a model of indices, to the first values that it makes of them.
        ``cosine_sd`` is what one draw of a dense ReLU network of these widths strays by, NaN elsewhere.

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
    draws, seed = check_count("draws", draws), check_count("seed", seed, least=0)
    model = runnable(model, values=False)
    whole = any(isinstance(module, nn.Embedding) for module in model.modules())
    x, y = _bound_pairs(model, x, y, keep_integers=whole, batch_args=batch_args)
    traced = trace(model, x, is_leaf=lambda module: find_rule(module) is not None)
    values = sum(tensor.numel() for tensor in x.sample_tensors())
    pairs, law = x.samples, Present() if initializer is None else initializer
    context = Context(law, torch.Generator().manual_seed(seed), mode=mode)
    size = max(1, _CHUNK // max(1, values // pairs))
    if any(isinstance(module, _BatchNorm) and context.training(module) for module in model.modules()):
        size = pairs  # batch statistics are those of all samples together
    if traced.batch is not None:
        size = traced.batch  # it is written into the recorded steps
    # The work of the whole prediction decides whether loading the compiled loops pays; later calls find them loaded.
    fused_loops(*x.tensors(), entries=values * len(traced.steps))

    def cut(side: Inputs, start: int) -> Inputs:
        return _part(side, start, size, traced.batch)

    with leaves_no_trace(model):
        chunks = [
            _walk(traced, cut(x, start), cut(y, start), context, draws, seed, start, pairs)
            for start in range(0, pairs, size)
        ]
        cosine, norm, rms = (np.concatenate([chunk[1][i] for chunk in chunks], axis=1)[:, :pairs] for i in range(3))
        rows = chunks[0][0]
        return Prediction(rows, cosine, norm, rms, finite_width_sd(model, rows, cosine, law))


def _part(side: Inputs, start: int, size: int, batch: int | None) -> Inputs:
    """Pairs ``start … start + size``, the last one repeated where a recorded model needs exactly ``batch`` of them."""

    def cut(tensor: Tensor) -> Tensor:
        part = tensor[start : start + size]
        missing = 0 if batch is None else batch - len(part)
        return torch.cat([part, *[part[-1:]] * missing]) if missing else part

    return side.map_samples(cut)


def as_pairs(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Both sides of the pairs as floating tensors, checked."""
    x, y = _shaped_pairs(x, y)
    _checked(x, y, 0)
    return x, y


def _shaped_pairs(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    x, y = _tensor(x), _tensor(y)
    _check_shapes(x, y)
    return x, y


def _check_shapes(x: Tensor, y: Tensor, axes: int = 2) -> None:
    if x.shape != y.shape:
        raise InputError(f"x has shape {tuple(x.shape)} and y {tuple(y.shape)}; pairs need equal shapes [pairs, ...]")
    if x.dim() < axes or len(x) == 0:
        raise InputError(f"x has shape {tuple(x.shape)}; give at least one pair, shaped [pairs, ...]")
    if x.device != y.device:
        raise InputError(f"x is on {x.device} and y on {y.device}; move them to one device")


def _bound_pairs(
    model: nn.Module, x: Any, y: Any, *, keep_integers: bool, batch_args: BatchArgs
) -> tuple[Inputs, Inputs]:
    """Arguments of the model for both sides, all tensors, checked."""
    bound_x, bound_y = (bind(model, _tensors(side), batch_args) for side in (x, y))
    if not keep_integers and not any(tensor.is_floating_point() for tensor in bound_x.tensors()):
        bound_x, bound_y = (side.map(_tensor) for side in (bound_x, bound_y))  # beside real ones they are indices
    left, right = bound_x.tensors(), bound_y.tensors()
    if not left or len(left) != len(right):
        raise InputError(f"x holds {len(left)} tensors and y {len(right)}; give both the same, at least one")
    refuse_different_lengths(model, bound_x)
    axes = 1 if any(tensor.dim() > 1 for tensor in left) else 2  # beside others an input may be one number a sample
    for a, b, carries in zip(left, right, bound_x.batched, strict=True):
        if carries:
            _check_shapes(a, b, axes)
        elif a.shape != b.shape or not torch.equal(a, b):
            raise InputError(f"an input of shape {tuple(a.shape)} carries no samples, yet differs between x and y")
    if not any(bound_x.batched):
        raise InputError(f"x has shape {tuple(left[0].shape)}; give at least one pair, shaped [pairs, ...]")
    return bound_x, bound_y


def _tensors(values: Any) -> Any:
    """Arrays as tensors, in the tuples, dicts and lists of arrays that hold them; other things as they are."""
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
        return tensor if tensor.dtype in (torch.long, torch.int32) else _tensor(tensor)
    return _tensor(values)


def _checked(x: Tensor, y: Tensor, start: int) -> Given:
    """Pairs ``start …`` as a state; their squared norms, which are needed anyway, show NaN, infinity and zeros."""
    given = Given(x, y)
    if not given.real:
        return given
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


def _walk(
    traced: Trace, x: Inputs, y: Inputs, context: Context, draws: int, seed: int, first: int, all_pairs: int
) -> tuple[tuple[Row, ...], tuple[np.ndarray, ...]]:
    """Rows and their (cosine, norm ratio, rms ratio) for a batch of ``all_pairs``, the first of it number ``first``."""
    inputs: list[Any] = [
        _checked(a, b, first) if carries else a
        for a, b, carries in zip(x.tensors(), y.tensors(), x.batched, strict=True)
    ]
    pairs, shapes = x.samples, [math.prod(tensor.shape[1:]) for tensor in x.sample_tensors()]
    context = replace(context, budget=Budget(pairs, all_pairs, max(shapes)))
    walk = Walk(traced, inputs, context, Simulation(traced, x, y, context, draws, seed))
    unknown = torch.full((pairs,), torch.nan, dtype=torch.float64)
    rows: list[Row] = []
    found: list[Totals] = []
    for node, value in walk.states():
        name, kind, role = traced.name(node), traced.kind(node), traced.role(node)
        if isinstance(value, Maps) or (isinstance(value, Given) and value.real):
            note = "; ".join(filter(None, [value.note, traced.note(node)]))
            rows.append(Row(name, kind, value.status, value.shape, note, role))
            found.append(value.totals())
        else:
            reason = value.reason if isinstance(value, Missing) else "its output is not one value per unit"
            rows.append(Row(name, kind, "not covered", note=reason, role=role))
            found.append(Totals(unknown, unknown, unknown, 0))
    if traced.fallback:
        rows[0] = replace(rows[0], note=traced.fallback)
    norms, units = _norms(found, [node.op == "placeholder" for node in traced.steps])
    return tuple(rows), (np.stack([totals.cosine.cpu().numpy() for totals in found]), norms, norms * units)


def _norms(found: list[Totals], inputs: list[bool]) -> tuple[np.ndarray, np.ndarray]:
    """Norms of the x against the start, and what makes them ratios per unit.

    The start are all real-valued inputs, or the first values made of them, as those that an embedding looks up.
    """
    real = [totals for totals, is_input in zip(found, inputs, strict=True) if is_input and totals.units]
    real = real or [totals for totals in found if totals.units][:1] or found[:1]
    start, size = sum(totals.xx for totals in real), sum(totals.units for totals in real)
    norms = torch.stack([(totals.xx / start).sqrt() for totals in found]).cpu().numpy()
    return norms, np.array([[math.sqrt(size / max(1, totals.units))] for totals in found])
