"""Can the input of each ReLU layer be recovered? Its expansivity and the thresholds, and a proof for small layers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import nn

from initscope.graph import is_weight_layer
from initscope.injectivity import decide
from initscope.measurement import Observation
from initscope.results import Result
from initscope.theory.injectivity import union_threshold
from initscope.theory.injectivity.replica import FULL_RSB

__all__ = ["LayerExpansivity", "layer_expansivities"]

_DECIDED_INPUTS, _DECIDED_OUTPUTS, _BUDGET = 6, 64, 30.0  # such layers take seconds at most


@dataclass(frozen=True)
class LayerExpansivity(Result):
    """A Linear or convolution followed by a ReLU, as a map from ``inputs`` to ``outputs`` units.

    ``injective`` is True or False if that is proven, else None. ``stands`` says between which thresholds of random
    Gaussian layers the ratio outputs / inputs lies.
    """

    layer: str
    inputs: int
    outputs: int
    expansivity: float
    stands: str
    injective: bool | None


def layer_expansivities(model: nn.Module, seen: Observation) -> tuple[LayerExpansivity, ...]:
    """Return every Linear and convolution whose output goes directly into a ReLU, in the order of the rows."""
    modules = dict(model.named_modules())
    layers = []
    for before, row, after in zip(seen.rows, seen.rows[1:], seen.rows[2:], strict=False):
        module = modules.get(row.layer, model if len(modules) == 1 else None)
        if not is_weight_layer(module) or not after.traits.is_relu or not before.shape:
            continue
        inputs, outputs = math.prod(before.shape), math.prod(row.shape)
        if isinstance(module, nn.Linear) and len(row.shape) > 1:  # one map for all tokens
            inputs, outputs = module.in_features, module.out_features
        stands, injective = _between_thresholds(inputs, outputs)
        small = inputs <= _DECIDED_INPUTS and outputs <= _DECIDED_OUTPUTS
        if injective is None and small and isinstance(module, nn.Linear):
            bias = None if module.bias is None else module.bias.detach().double().cpu().numpy()
            injective = decide(module.weight.detach().double().cpu().numpy(), bias, budget=_BUDGET).injective
        layers.append(LayerExpansivity(row.layer, inputs, outputs, outputs / inputs, stands, injective))
    return tuple(layers)


def _between_thresholds(inputs: int, outputs: int) -> tuple[str, bool | None]:
    """Return between which thresholds m/n lies, and what that alone proves about any layer."""
    ratio = outputs / inputs
    if outputs < 2 * inputs:
        return "below 2: no ReLU layer is injective", False
    if outputs < 3 * inputs - 1:
        return "below 3: never injective with rows in general position", None
    if ratio < FULL_RSB:
        return f"below {FULL_RSB:.3f}: large Gaussian layers are not injective (full RSB, conjectured)", None
    if ratio < union_threshold().value:
        return f"above {FULL_RSB:.3f}: large Gaussian layers are injective (full RSB, conjectured)", None
    return f"above {union_threshold().value:.3f}: large Gaussian layers are injective (union bound)", None
