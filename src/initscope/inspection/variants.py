"""Alternatives of a network: its weights from other initializers, or a copy of it rewritten."""

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
from initscope.inspection.suitable_laws import has_relu, steers
from initscope.models.sizes import halve_depth, scale_widths

__all__ = ["Variant", "laws", "rewritten", "sizes"]

_PREFIX = "initscope.initializers."


@dataclass(frozen=True)
class Variant:
    """A way to start: ``change`` rewrites a copy of the model, then ``law`` fills its weights.

    ``code`` is the suggested fix if one line is enough; otherwise it is None, and ``advice`` says what to do.
    """

    name: str
    law: Initializer | None
    code: str | None
    change: Callable[[nn.Module, torch.Tensor, torch.Generator], nn.Module] | None = None
    is_drawn: bool = True
    """Whether a draw differs from the next."""
    work: float = 1.0
    """Multiplications of a forward pass over those of the model as it is."""
    advice: str = ""
    """What to change by hand if ``code`` is not enough."""

    def drawing(self, model: nn.Module) -> float:
        """Multiplications of one draw of the weights, where it decomposes the matrices of all layers; else 0."""
        if not isinstance(getattr(self.law, "base", self.law), (Orthogonal, LooksLinear)):
            return 0.0
        matrices = [module.weight for module in model.modules() if isinstance(module, WEIGHT_LAYERS)]
        shapes = [(len(matrix), matrix.numel() // max(1, len(matrix))) for matrix in matrices]
        return float(sum(2 * rows * columns * min(rows, columns) for rows, columns in shapes))


def laws(model: nn.Module, rows: Sequence[Row] = ()) -> list[Variant]:
    """Other weights in the same architecture, as far as they make sense for its steps.

    Zero sums and mirrored halves are made for stacks of ReLUs: they are left out where attention or a loop over time
    reads the weights, and where there is no ReLU. Fan-out is for convolutions.
    """
    root = 2**0.5
    variants = [
        Variant("He", He(), f"{_PREFIX}he_(model)"),
        Variant("Glorot", Glorot(), f"{_PREFIX}glorot_(model)"),
        Variant("LeCun", LeCun(), f"{_PREFIX}lecun_(model)"),
        Variant("orthogonal", Orthogonal(gain=root), f"{_PREFIX}orthogonal_(model, gain=2**0.5)"),
    ]
    if steers(rows):
        return variants
    variants.insert(1, Variant("He, fan-out", He(mode="fan_out"), f'{_PREFIX}he_(model, mode="fan_out")'))
    if rows and not has_relu(rows):
        return variants
    for strength in (1.0, 0.5):
        code = f"{_PREFIX}zero_sum_(model, strength={strength:g}, compensate=True)"
        zero_sum = ZeroSum(strength=strength, compensate=True)
        variants.append(Variant(f"zero-sum, strength {strength:g}", zero_sum, code))
    for strength in (0.25, 0.15):
        base = f"base={_PREFIX}Orthogonal(gain=2**0.5)"
        code = f"{_PREFIX}zero_sum_(model, {base}, strength={strength:g}, compensate=True)"
        zero_sum = ZeroSum(base=Orthogonal(gain=root), strength=strength, compensate=True)
        variants.append(Variant(f"orthogonal zero-sum, strength {strength:g}", zero_sum, code))
    slope = _leaky_slope(model)
    argument = f", slope={slope:g}" if slope else ""
    variants.append(Variant("looks linear", LooksLinear(slope=slope), f"{_PREFIX}looks_linear_(model{argument})"))
    return variants


def rewritten(model: nn.Module, rows: Sequence[Row] = ()) -> list[Variant]:
    """A leaky slope instead of ReLU, and batch norm, where the model has a place for them."""
    modules = list(model.modules())
    variants: list[Variant] = []
    if steers(rows):
        return variants
    if any(isinstance(module, nn.ReLU) for module in modules):
        depth = sum(is_weight_layer(module) for module in modules)
        # Nearer to linear the deeper it is, so that angles change by a bounded amount over the whole depth.
        slope = round(max(0.2, 1 - 2 / max(1, depth) ** 0.5), 2)
        gain = (2 / (1 + slope**2)) ** 0.5
        advice = f"replace nn.ReLU() by nn.LeakyReLU({slope:g}), then {_PREFIX}orthogonal_(model, gain={gain:.4f})"
        name = f"leaky slope {slope:g}, orthogonal"
        variants.append(Variant(name, Orthogonal(gain=gain), None, _with_slope(slope), advice=advice))
    if not any(isinstance(module, _BatchNorm) for module in modules):
        advice = f"put nn.BatchNorm behind every Linear and convolution, then {_PREFIX}he_(model)"
        variants.append(Variant("batch norm", He(), None, _normalized, advice=advice))
    return variants


def sizes() -> list[Variant]:
    """Hidden widths doubled and halved, depth halved."""
    kept = "weights drawn with each layer's present variance × fan-in"
    return [
        Variant(
            "hidden widths × 2", None, None, _with_widths(2.0), work=4.0, advice=f"double the hidden widths ({kept})"
        ),
        Variant(
            "hidden widths × ½", None, None, _with_widths(0.5), work=0.25, advice=f"halve the hidden widths ({kept})"
        ),
        Variant(
            "depth × ½",
            None,
            None,
            _shallower,
            is_drawn=False,
            work=0.5,
            advice="leave out half of the repeated blocks",
        ),
    ]


def _leaky_slope(model: nn.Module) -> float:
    """The negative slope of the model's leaky ReLUs, where they have one in common."""
    slopes = {module.negative_slope for module in model.modules() if isinstance(module, nn.LeakyReLU)}
    return float(slopes.pop()) if len(slopes) == 1 else 0.0


def _with_slope(slope: float) -> Callable[[nn.Module, torch.Tensor, torch.Generator], nn.Module]:
    def change(model: nn.Module, x: torch.Tensor, generator: torch.Generator) -> nn.Module:
        return _replaced(model, lambda module: nn.LeakyReLU(slope) if isinstance(module, nn.ReLU) else None)

    return change


def _with_widths(factor: float) -> Callable[[nn.Module, torch.Tensor, torch.Generator], nn.Module]:
    def change(model: nn.Module, x: torch.Tensor, generator: torch.Generator) -> nn.Module:
        scale_widths(model, factor, x, generator)
        return model

    return change


def _shallower(model: nn.Module, x: torch.Tensor, generator: torch.Generator) -> nn.Module:
    halve_depth(model)
    return model


def _normalized(model: nn.Module, x: torch.Tensor, generator: torch.Generator) -> nn.Module:
    """Batch norm behind every hidden weight layer, in train mode as at the start of training."""
    weights = [module for module in model.modules() if is_weight_layer(module)]
    hidden = set(weights[:-1])

    def wrap(module: nn.Module) -> nn.Module | None:
        if module not in hidden:
            return None
        if isinstance(module, nn.Linear):
            return nn.Sequential(module, nn.BatchNorm1d(module.out_features))
        assert isinstance(module, _ConvNd)
        kind = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}[len(module.kernel_size)]
        return nn.Sequential(module, kind(module.out_channels))

    return _replaced(model, wrap).train()


def _replaced(model: nn.Module, change: Callable[[nn.Module], nn.Module | None]) -> nn.Module:
    """Put ``change(module)`` in the place of every submodule for which it is not None; the model is a copy."""
    for name, child in list(model.named_children()):
        other = change(child)
        if other is None:
            _replaced(child, change)
        else:
            setattr(model, name, other)
    return model
