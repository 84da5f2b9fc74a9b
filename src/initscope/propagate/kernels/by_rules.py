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
from initscope.graph import Inputs, Node
from initscope.propagate.covariance_budget import CovarianceBudget
from initscope.propagate.networks import Networks, Simulation
from initscope.propagate.prediction import checked_inputs
from initscope.propagate.tangents import tangent
from initscope.propagate.totals import NotCovered, total
from initscope.propagate.values.base import Value
from initscope.propagate.walk import Walk

__all__ = ["pair_kernel"]

Floats = npt.NDArray[np.float64]
_CHUNK = 1 << 20  # input values of one batch of pairs
_COVARIANCES = 1 << 26  # entries between positions of one batch of pairs: half a gigabyte


def pair_kernel(
    networks: Networks, left: Inputs, right: Inputs, index: tuple[Tensor, Tensor], *, tangents: bool
) -> Floats:
    """Return inner products per unit of the pairs at ``index`` (of ``left``, of ``right``): ``[replicates, pairs]``.

    Return kernels for one replicate if everything is by formulas; also the tangent kernel if ``tangents``.
    """
    rows, columns = index
    parts: list[Tensor] = []
    sizes = _Sizes(networks, left)
    start = 0
    while start < len(rows):
        batch = slice(start, start + sizes.pairs)
        inputs = left.pick(rows[batch]), right.pick(columns[batch])
        parts.append(_products(networks, *inputs, sizes, tangents=tangents))
        start = batch.stop
    return torch.cat(parts, dim=1).cpu().numpy()


class _Sizes:
    """Return the number of pairs per batch, so that maps, or covariances if a layer averages positions, fit.

    The number of positions of that layer is known after the first batch; until then, that of the input is used.
    """

    def __init__(self, networks: Networks, inputs: Inputs) -> None:
        self._traced = traced = networks.traced
        tensors = inputs.sample_tensors()
        values = sum(tensor[0].numel() for tensor in tensors)
        self._most = traced.batch or max(1, _CHUNK // max(1, values))
        self._positions = max(math.prod(tensor.shape[2:]) for tensor in tensors)
        pools = [node for node in traced.nodes if node.role == "pooling"]
        self._read_by_pools = {before for node in pools for before in node.inputs}
        self._pooled = self._positions if pools else 0

    @property
    def pairs(self) -> int:
        """Of the next batch."""
        if self._pooled == 0 or self._traced.batch is not None:
            return self._most
        entries = 4 * self._pooled * self._positions * len(self._traced.nodes)
        return min(self._most, max(1, _COVARIANCES // entries))

    def learn(self, positions: dict[Any, int]) -> None:
        """Positions after every step, from a batch that was walked through."""
        read = [positions[step] for step in self._read_by_pools if step in positions]
        if read and len(read) == len(self._read_by_pools):
            self._pooled, self._positions = max(read), max(self._positions, *positions.values())


def _products(networks: Networks, x: Inputs, y: Inputs, sizes: _Sizes, *, tangents: bool) -> Tensor:
    traced, pairs = networks.traced, x.samples
    batch = traced.batch or pairs
    if batch > pairs:  # a recorded model has the size of its batch in its steps
        filled = torch.arange(batch).clamp_max(pairs - 1)
        x, y = x.pick(filled), y.pick(filled)
    budget = CovarianceBudget(pairs, pairs)
    context, simulation = replace(networks.context, budget=budget, sampled=[]), Simulation(networks, x, y)
    walk = Walk(traced, checked_inputs(simulation), context, simulation, keep=tangents)
    value, sampled = _output(networks, walk, sizes)
    if not isinstance(value, Value):
        raise InputError("this model has no kernel: its output is not one value per unit")
    try:
        return torch.stack([_per_unit(item, budget, tangents=tangents) for item in value.replicates])[:, :pairs]
    except NotCovered as error:
        reason = f"no rule covers {sampled}, so its values are sampled, and sampled values have no derivatives"
        raise InputError(
            f"this model has no tangent kernel: {reason if sampled else error}; it may have one of kind='nngp'"
        ) from error


def _output(networks: Networks, walk: Walk, sizes: _Sizes) -> tuple[Any, str]:
    """Return the value of the step that the model returns, and the first step whose values were sampled ('': none).

    ``sizes`` learn how large maps are on the way.
    """
    traced = networks.traced
    wanted = traced.nodes[-1] if traced.symbolic is None else traced.output
    if not (isinstance(wanted, Node) and wanted.row):
        raise InputError(
            f"{type(traced.model).__name__} returns {type(wanted).__name__}, not one tensor of data; "
            "wrap it in a module that returns the tensor whose kernel you want"
        )
    value: Any = None
    sampled = ""
    positions: dict[Any, int] = {}
    for step, state in walk.states():
        if step is wanted:
            value = state
        if not isinstance(state, Value):
            continue
        unknown = [item for item in state.replicates for maps in item.moment_maps() if maps.origin is None]
        if not sampled and any(item.axis is not None for item in unknown):
            sampled = f"{step.name} ({step.kind})"
        if state.axis is not None or not state.random:
            positions[step] = math.prod(state.shape[1:])
    sizes.learn(positions)
    return value, sampled


def _per_unit(value: Value, budget: CovarianceBudget, *, tangents: bool) -> Tensor:
    """Return ⟨x, y⟩ over the number of units, or the tangent kernel."""
    try:
        totals = value.totals()
    except NotCovered as error:
        raise InputError(f"this model has no kernel: {error}") from error
    if not tangents:
        return (totals.xx * totals.yy).sqrt() * totals.cosine / totals.units
    if not value.random:
        raise InputError("this model has no tangent kernel: it has no weights")
    state = value.whole_moments()
    maps = tangent(state, budget)
    sizes = torch.tensor(state.sizes, dtype=torch.float64, device=maps.device)
    return (total(maps, kept=2)[0] * sizes).sum(dim=1) / totals.units
