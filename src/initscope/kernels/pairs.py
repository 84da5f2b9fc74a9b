"""Kernel matrices of any model that `predict` covers: its rules, on all pairs, some at a time."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from initscope.errors import InputError
from initscope.propagate.budget import Budget
from initscope.propagate.moments import Given, Maps, NotCovered
from initscope.propagate.networks import Networks, Simulation
from initscope.propagate.prediction import checked
from initscope.propagate.tangents import tangent
from initscope.propagate.totals import total
from initscope.propagate.walk import Missing, Several, Walk
from initscope.tracing import Inputs

__all__ = ["pair_kernel"]

Floats = npt.NDArray[np.float64]
_CHUNK = 1 << 20  # input values of one batch of pairs
_COVARIANCES = 1 << 26  # entries between positions of one batch of pairs: half a gigabyte


def pair_kernel(
    networks: Networks, left: Inputs, right: Inputs, index: tuple[Tensor, Tensor], *, tangents: bool
) -> Floats:
    """Inner products per unit of the pairs at ``index`` (rows of ``left``, rows of ``right``): ``[replicates, pairs]``.

    One replicate where all is by formulas; of the tangent kernel if ``tangents``.
    """
    rows, columns = index
    size = _batch_size(networks, left)
    batches = (slice(start, start + size) for start in range(0, len(rows), size))
    parts = [_products(networks, left.pick(rows[b]), right.pick(columns[b]), tangents=tangents) for b in batches]
    return torch.cat(parts, dim=1).cpu().numpy()


def _batch_size(networks: Networks, inputs: Inputs) -> int:
    """How many pairs at once: their maps, or their covariances between positions where a layer averages these."""
    tensors = inputs.sample_tensors()
    values = sum(tensor[0].numel() for tensor in tensors)
    size = max(1, _CHUNK // max(1, values))
    traced = networks.traced
    if traced.batch is not None:
        return traced.batch
    if any("pool" in traced.role(step) or traced.kind(step) == "mean" for step in traced.steps):
        positions = max(math.prod(tensor.shape[2:]) for tensor in tensors)
        size = min(size, max(1, _COVARIANCES // (4 * positions**2 * len(traced.steps))))
    return size


def _products(networks: Networks, x: Inputs, y: Inputs, *, tangents: bool) -> Tensor:
    traced, pairs = networks.traced, x.samples
    batch = traced.batch or pairs
    if batch > pairs:  # a recorded model has the size of its batch in its steps
        filled = torch.arange(batch).clamp_max(pairs - 1)
        x, y = x.pick(filled), y.pick(filled)
    inputs = [
        checked(a, b, 0) if carries else a for a, b, carries in zip(x.tensors(), y.tensors(), x.batched, strict=True)
    ]
    budget = Budget(pairs, pairs)
    context = replace(networks.context, budget=budget, sampled=[])
    value = _output(networks, Walk(traced, inputs, context, Simulation(networks, x, y), keep=tangents))
    states = list(value.states) if isinstance(value, Several) else [value]
    return torch.stack([_per_unit(state, budget, tangents=tangents) for state in states])[:, :pairs]


def _output(networks: Networks, walk: Walk) -> Any:
    """The value of the step that the model returns."""
    traced = networks.traced
    wanted = traced.steps[-1]
    if traced.graph_module is not None:
        (wanted,) = (node.args[0] for node in traced.graph_module.graph.nodes if node.op == "output")
    if wanted not in traced.names:
        raise InputError(
            f"{type(traced.model).__name__} returns {type(wanted).__name__}, not one tensor of data; "
            "wrap it in a module that returns the tensor whose kernel you want"
        )
    value: Any = None
    for step, state in walk.states():
        if step is wanted:
            value = state
    return value


def _per_unit(state: Any, budget: Budget, *, tangents: bool) -> Tensor:
    """⟨x, y⟩ over the number of units, or the tangent kernel."""
    if isinstance(state, Missing):
        raise InputError(f"this model has no kernel: {state.reason}")
    if not isinstance(state, (Given, Maps)):
        raise InputError("this model has no kernel: what it returns is not one value per unit")
    totals = state.totals()
    if not tangents:
        return (totals.xx * totals.yy).sqrt() * totals.cosine / totals.units
    if isinstance(state, Given):
        raise InputError("this model has no tangent kernel: it has no weights")
    try:
        maps = tangent(state, budget)
    except NotCovered as error:
        raise InputError(f"this model has no tangent kernel: {error}; it may have one of kind='nngp'") from error
    sizes = torch.tensor(state.sizes, dtype=torch.float64)
    return (total(maps, kept=2) * sizes).sum(dim=1) / totals.units
