"""Zero-mean initializers with one variance per layer: He, Glorot, LeCun, and an arbitrary variance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from initscope.errors import InputError
from initscope.initializers._base import Initializer, WeightDistribution, fans, normal_like

if TYPE_CHECKING:
    import torch

    from initscope.graph import WeightLayer

__all__ = ["Gaussian", "Glorot", "He", "LeCun"]

Mode = Literal["fan_in", "fan_out", "fan_avg"]
Distribution = Literal["normal", "uniform"]


@dataclass(frozen=True)
class _ZeroMean(Initializer):
    distribution: Distribution = "normal"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.distribution not in ("normal", "uniform"):
            raise InputError(f"distribution = {self.distribution!r} must be 'normal' or 'uniform'")

    def variance_of(self, module: WeightLayer) -> float:
        """Variance of each weight of ``module``."""
        raise InputError(f"{type(self).__name__} states no variance; override variance_of(module)")

    def weight_distribution(self, module: WeightLayer) -> WeightDistribution:
        """Independent weights of equal variance; for a large fan-in, uniform weights act like Gaussian weights."""
        note = "uniform weights: exact for large fan-in" if self.distribution == "uniform" else ""
        return WeightDistribution(self.variance_of(module), self.bias_variance, note=note)

    def draw(self, module: WeightLayer, generator: torch.Generator | None) -> torch.Tensor:
        """Draw each weight independently."""
        import torch

        variance = self.variance_of(module)
        if self.distribution == "normal":
            return normal_like(module.weight, variance, generator)
        bound = math.sqrt(3 * variance)
        return torch.empty_like(module.weight).uniform_(-bound, bound, generator=generator)


@dataclass(frozen=True)
class Gaussian(_ZeroMean):
    """Every weight N(0, variance), whatever the layer's size."""

    variance: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.variance < math.inf:
            raise InputError(f"variance = {self.variance} must be finite and not negative")

    def variance_of(self, module: WeightLayer) -> float:
        """Return the given variance."""
        return self.variance


@dataclass(frozen=True)
class _Scaled(_ZeroMean):
    mode: Mode = "fan_in"
    gain: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mode not in ("fan_in", "fan_out", "fan_avg"):
            raise InputError(f"mode = {self.mode!r} must be 'fan_in', 'fan_out' or 'fan_avg'")
        if not 0 < self.gain < math.inf:
            raise InputError(f"gain = {self.gain} must be positive and finite; √2 suits ReLU, 1 linear layers")

    def variance_of(self, module: WeightLayer) -> float:
        """Return gain² over the fan of the chosen mode."""
        fan_in, fan_out = fans(module)
        fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        return self.gain**2 / fan


@dataclass(frozen=True)
class He(_Scaled):
    """Variance 2/fan [He2015]_; ``fan_in`` preserves the variance per unit of a ReLU layer, ``fan_out`` its norm."""

    gain: float = math.sqrt(2)


@dataclass(frozen=True)
class Glorot(_Scaled):
    """Variance 2/(fan_in + fan_out) [Glorot2010]_; halves ‖·‖² at each ReLU layer of constant width."""

    mode: Mode = "fan_avg"


@dataclass(frozen=True)
class LeCun(_Scaled):
    """Variance 1/fan_in [LeCun1998]_: preserves the variance of linear layers."""
