"""What-if: the same network under other weights, with batch norm, with a leaky slope; ranked by what survives."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from initscope._results import Result
from initscope.errors import InputError
from initscope.initializers import Glorot, He, Initializer, LeCun, Orthogonal, Present, ZeroSum
from initscope.inspection.verdicts import Thresholds, judge
from initscope.measurement.observation import Observation, observe
from initscope.propagate import predict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["SCORE", "Alternative", "WhatIf", "what_if"]

SCORE = (
    "Alternatives that cross fewer thresholds come first, then those of higher score: "
    "score = angle × size × gradient, each in (0, 1]: min(1, median angle at the end over the input's); "
    "10^(-|log10 of the size per unit at the end|/3); 10^(-log10(largest/smallest layer gradient)/2)"
)


@dataclass(frozen=True)
class Alternative(Result):
    """One way to start the same network, and what would become of the data.

    ``angle_ratio`` and ``rms_ratio`` are of the last step, predicted where ``status`` says so, else measured on one
    draw; ``gradient_spread`` is the largest over the smallest layer gradient, measured on that draw; ``crossed`` names
    the verdicts that the draw gets.
    """

    name: str
    score: float
    angle_ratio: float
    rms_ratio: float
    gradient_spread: float
    crossed: tuple[str, ...]
    status: str
    code: str
    law: Initializer | None = field(default=None, repr=False, compare=False)
    """The weight law, where the architecture stays as it is."""

    def to_dict(self) -> dict[str, Any]:
        """All but the law, which ``code`` spells out."""
        return {name: value for name, value in super().to_dict().items() if name != "law"}


@dataclass(frozen=True)
class WhatIf(Result):
    """Alternatives, best first; ``current`` is the network as it is."""

    alternatives: tuple[Alternative, ...]
    current: str
    score_is: str = SCORE

    @property
    def best(self) -> Alternative:
        """The alternative with the highest score."""
        return self.alternatives[0]

    @property
    def best_law(self) -> Alternative | None:
        """The best alternative that changes the weights only."""
        return next((item for item in self.alternatives if item.law is not None), None)

    def table(self) -> list[dict[str, Any]]:
        """One dict per alternative, best first."""
        return [alternative.to_dict() for alternative in self.alternatives]

    def summary(self) -> list[dict[str, Any]]:
        """The table without the code, for a terminal."""
        return [
            {
                "start": item.name,
                "score": round(item.score, 3),
                "angle kept": item.angle_ratio,
                "size kept": item.rms_ratio,
                "gradient spread": item.gradient_spread,
                "verdicts": ", ".join(item.crossed) or "none",
            }
            for item in self.alternatives
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Scores as bars, the network as it is marked."""
        from initscope.report.figures import new_axes

        ax = new_axes(7.0, 0.35 * len(self.alternatives) + 1.2) if ax is None else ax
        names = [item.name for item in self.alternatives]
        bars = ax.barh(names, [item.score for item in self.alternatives])
        for bar, name in zip(bars, names, strict=True):
            if name == self.current:
                bar.set_hatch("//")
        ax.invert_yaxis()
        ax.set_xlim(0, 1)
        ax.set_xlabel("score (hatched: as it is)")
        return ax


@dataclass(frozen=True)
class _Variant:
    name: str
    law: Initializer | None
    code: str
    change: Callable[[nn.Module], nn.Module] | None = None

    @property
    def keeps_architecture(self) -> bool:
        return self.change is None


_PREFIX = "initscope.initializers."


def _variants(model: nn.Module) -> list[_Variant]:
    modules = list(model.modules())
    found = [
        _Variant("He", He(), f"{_PREFIX}he_(model)"),
        _Variant("He, fan-out", He(mode="fan_out"), f'{_PREFIX}he_(model, mode="fan_out")'),
        _Variant("Glorot", Glorot(), f"{_PREFIX}glorot_(model)"),
        _Variant("LeCun", LeCun(), f"{_PREFIX}lecun_(model)"),
        _Variant("orthogonal", Orthogonal(gain=2**0.5), f"{_PREFIX}orthogonal_(model, gain=2**0.5)"),
    ]
    for strength in (1.0, 0.5, 0.25, 0.15):
        law = ZeroSum(strength=strength, compensate=True)
        code = f"{_PREFIX}zero_sum_(model, strength={strength:g}, compensate=True)"
        found.append(_Variant(f"zero-sum, strength {strength:g}", law, code))
    if any(isinstance(module, nn.ReLU) for module in modules):
        gain = (2 / (1 + 0.2**2)) ** 0.5
        code = f"replace nn.ReLU() by nn.LeakyReLU(0.2), then {_PREFIX}he_(model, gain={gain:.4f})"
        found.append(_Variant("leaky slope 0.2", He(gain=gain), code, _leaky))
    if not any(isinstance(module, _BatchNorm) for module in modules):
        code = f"put nn.BatchNorm behind every Linear and convolution, then {_PREFIX}he_(model)"
        found.append(_Variant("batch norm", He(), code, _normalised))
    return found


def _leaky(model: nn.Module) -> nn.Module:
    return _replaced(model, lambda module: nn.LeakyReLU(0.2) if isinstance(module, nn.ReLU) else None)


def _normalised(model: nn.Module) -> nn.Module:
    """Batch norm behind every hidden weight layer, in train mode as at the start of training."""
    weights = [
        m for m in model.modules() if isinstance(m, (nn.Linear, _ConvNd)) and not isinstance(m, _ConvTransposeNd)
    ]
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


def what_if(
    model: nn.Module,
    x: torch.Tensor,
    y: torch.Tensor,
    *,
    seed: int = 0,
    pairs: int = 12,
    thresholds: Thresholds | None = None,
) -> WhatIf:
    """Try other starts of ``model`` on a few of the pairs; the model itself is left alone.

    Each alternative is predicted, and its gradients are measured on one draw of its weights in a copy.
    """
    x, y = x[:pairs], y[:pairs]
    as_it_is = _Variant("as it is", None, "")
    tried = [_try(variant, model, x, y, seed, thresholds) for variant in [as_it_is, *_variants(model)]]
    done = [alternative for alternative in tried if alternative is not None]
    if not done:
        raise InputError("no alternative could be run on this model; look at its rows for the reason")
    ranked = sorted(done, key=lambda alternative: (len(alternative.crossed), -alternative.score))
    return WhatIf(tuple(ranked), as_it_is.name)


def _try(
    variant: _Variant, model: nn.Module, x: torch.Tensor, y: torch.Tensor, seed: int, thresholds: Thresholds | None
) -> Alternative | None:
    changed = copy.deepcopy(model)
    if variant.change is not None:
        changed = variant.change(changed)
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    try:
        if variant.law is not None:
            variant.law.fill_(changed, generator=torch.Generator(device=device).manual_seed(seed))
        seen = observe(changed, torch.cat([x, y]), pairs=len(x), seed=seed, shuffle=False)
    except (InputError, ValueError):
        # A change that this architecture does not take (batch norm on tokens, say) is no alternative for it.
        return None
    geometry, status = _geometry(variant, changed, x, y, seen)
    angle = float(np.nanmedian(geometry.angle[-1]) / np.nanmedian(geometry.angle[0]))
    size = float(np.nanmedian(geometry.rms_ratio[-1]))
    layers = np.nanmedian(seen.gradient_ratio[np.isfinite(seen.gradient_ratio).any(axis=1)], axis=1)
    smallest = layers.min() if len(layers) else 0.0
    spread = float(layers.max() / smallest) if smallest > 0 else float("inf")
    law = variant.law if variant.keeps_architecture else None
    crossed = tuple(verdict.name for verdict in judge(seen, thresholds) if verdict.fault)
    return Alternative(
        variant.name, _score(angle, size, spread), angle, size, spread, crossed, status, variant.code, law
    )


def _geometry(
    variant: _Variant, changed: nn.Module, x: torch.Tensor, y: torch.Tensor, seen: Observation
) -> tuple[Any, str]:
    """The prediction where it covers the last step; batch statistics are measured, which costs far less."""
    if not any(isinstance(module, _BatchNorm) and module.training for module in changed.modules()):
        try:
            predicted = predict(changed, x, y, Present() if variant.law is None else variant.law)
        except InputError:
            return seen, "measured"
        if np.isfinite(predicted.cosine[-1]).all():
            return predicted, predicted.rows[-1].status
    return seen, "measured"


def _score(angle: float, size: float, spread: float) -> float:
    if not (angle > 0 and 0 < size < float("inf") and spread < float("inf")):
        return 0.0
    return float(min(1.0, angle) * 10 ** (-abs(np.log10(size)) / 3) * 10 ** (-np.log10(spread) / 2))
