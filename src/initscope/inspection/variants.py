"""Alternatives to a network: its weights from other initializers, or a rewritten copy of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from initscope.geometry import Row
from initscope.graph import is_weight_layer
from initscope.graph.ops import WEIGHT_LAYERS
from initscope.initializers import Glorot, He, Initializer, LeCun, LooksLinear, Orthogonal, ZeroSum
from initscope.inspection.suitable_initializers import has_relu, steers
from initscope.models.sizes import halve_depth, scale_widths

__all__ = ["Variant", "architecture_variants", "initializer_variants", "size_variants"]

_PREFIX = "initscope.initializers."
_ROOT = 2**0.5


@dataclass(frozen=True)
class Variant:
    """A variant of a network: ``change`` rewrites a copy of it in place, then ``initializer`` sets its weights.

    ``code`` is the suggested fix if one line is enough; otherwise it is None, and ``advice`` says what to do.
    """

    name: str
    initializer: Initializer | None
    code: str | None
    change: Callable[[nn.Module, torch.Tensor, torch.Generator], object] | None = None
    is_random: bool = True
    """Whether two samples of its weights differ."""
    work: float = 1.0
    """Multiplications of a forward pass over those of the model as it is."""
    advice: str = ""
    """What to change by hand if ``code`` is not enough."""

    def sampling_work(self, model: nn.Module) -> float:
        """Return the multiplications of one sample of the weights if it decomposes the matrices of all layers; else 0.

        An orthogonal matrix of m rows and n columns takes 2 m n min(m, n).
        """
        if not isinstance(getattr(self.initializer, "base", self.initializer), (Orthogonal, LooksLinear)):
            return 0.0
        matrices = [module.weight for module in model.modules() if isinstance(module, WEIGHT_LAYERS)]
        return float(sum(2 * matrix.numel() * min(matrix.flatten(1).shape) for matrix in matrices))


def initializer_variants(model: nn.Module, rows: Sequence[Row] = ()) -> list[Variant]:
    """Return other weights for the same architecture, if they make sense for its ops.

    Zero-sum and mirrored weights are made for stacks of ReLUs: they are left out if attention or a loop over time
    uses the weights, and if there is no ReLU. Fan-out is for convolutions.
    """
    plain = not steers(rows)
    rectified = plain and (not rows or has_relu(rows))
    slopes = {module.negative_slope for module in model.modules() if isinstance(module, nn.LeakyReLU)}
    slope = float(slopes.pop()) if len(slopes) == 1 else 0.0
    offered = [
        (True, "He", He(), "he_(model)"),
        (plain, "He, fan-out", He(mode="fan_out"), 'he_(model, mode="fan_out")'),
        (True, "Glorot", Glorot(), "glorot_(model)"),
        (True, "LeCun", LeCun(), "lecun_(model)"),
        (True, "orthogonal", Orthogonal(gain=_ROOT), "orthogonal_(model, gain=2**0.5)"),
    ]
    orthogonal = f"base={_PREFIX}Orthogonal(gain=2**0.5), "
    for name, base, argument, strength in (
        ("zero-sum", He(), "", 1.0),
        ("zero-sum", He(), "", 0.5),
        ("orthogonal zero-sum", Orthogonal(gain=_ROOT), orthogonal, 0.25),
        ("orthogonal zero-sum", Orthogonal(gain=_ROOT), orthogonal, 0.15),
    ):
        zero_sum = ZeroSum(base=base, strength=strength, compensate=True)
        call = f"zero_sum_(model, {argument}strength={strength:g}, compensate=True)"
        offered.append((rectified, f"{name}, strength {strength:g}", zero_sum, call))
    call = f"looks_linear_(model{f', slope={slope:g}' if slope else ''})"
    offered.append((rectified, "looks-linear", LooksLinear(slope=slope), call))
    return [Variant(name, initializer, _PREFIX + call) for suits, name, initializer, call in offered if suits]


def architecture_variants(model: nn.Module, rows: Sequence[Row] = ()) -> list[Variant]:
    """Return the model with a leaky slope instead of ReLU, and with batch norm, if it has modules to change."""
    modules = list(model.modules())
    variants: list[Variant] = []
    if steers(rows):
        return variants
    if any(isinstance(module, nn.ReLU) for module in modules):
        depth = sum(is_weight_layer(module) for module in modules)
        # The deeper, the nearer to linear, so that angles change by a bounded amount over the whole depth.
        slope = round(max(0.2, 1 - 2 / max(1, depth) ** 0.5), 2)
        gain = (2 / (1 + slope**2)) ** 0.5
        advice = f"replace nn.ReLU() by nn.LeakyReLU({slope:g}), then {_PREFIX}orthogonal_(model, gain={gain:.4f})"

        def leaky(model: nn.Module, *_: object) -> None:
            _replace(model, lambda module: nn.LeakyReLU(slope) if isinstance(module, nn.ReLU) else None)

        name = f"leaky slope {slope:g}, orthogonal"
        variants.append(Variant(name, Orthogonal(gain=gain), None, leaky, advice=advice))
    if not any(isinstance(module, _BatchNorm) for module in modules):
        advice = f"put nn.BatchNorm after every hidden Linear and convolution, then {_PREFIX}he_(model)"
        variants.append(Variant("batch norm", He(), None, _normalize, advice=advice))
    return variants


def size_variants() -> list[Variant]:
    """Return hidden widths doubled and halved, depth halved."""
    again = "sample the weights with each layer's present variance × fan-in"

    def widths(factor: float, name: str, verb: str) -> Variant:
        def change(model: nn.Module, x: torch.Tensor, generator: torch.Generator) -> None:
            scale_widths(model, factor, x, generator)

        advice = f"{verb} the hidden widths, and {again}"
        return Variant(f"hidden widths × {name}", None, None, change, work=factor**2, advice=advice)

    def shallower(model: nn.Module, *_: object) -> None:
        halve_depth(model)

    advice = "leave out half of the repeated blocks"
    depth = Variant("depth × ½", None, None, shallower, is_random=False, work=0.5, advice=advice)
    return [widths(2.0, "2", "double"), widths(0.5, "½", "halve"), depth]


def _normalize(model: nn.Module, *_: object) -> None:
    """Put batch norm after every hidden weight layer, in train mode as at the start of training."""
    hidden = set([module for module in model.modules() if is_weight_layer(module)][:-1])
    norms = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}

    def wrap(module: nn.Module) -> nn.Module | None:
        if module not in hidden:
            return None
        if isinstance(module, nn.Linear):
            return nn.Sequential(module, nn.BatchNorm1d(module.out_features))
        assert isinstance(module, _ConvNd)
        return nn.Sequential(module, norms[len(module.kernel_size)](module.out_channels))

    _replace(model, wrap)
    model.train()


def _replace(model: nn.Module, change: Callable[[nn.Module], nn.Module | None]) -> None:
    """Replace every submodule by ``change(module)``, unless that is None."""
    for name, child in list(model.named_children()):
        other = change(child)
        if other is None:
            _replace(child, change)
        else:
            setattr(model, name, other)
