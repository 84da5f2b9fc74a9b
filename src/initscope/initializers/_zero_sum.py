"""Filters conditioned to sum to zero, which increase angles instead of decreasing them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from initscope.errors import InputError
from initscope.initializers._base import Initializer, WeightDistribution
from initscope.initializers._looks_linear import LooksLinear
from initscope.initializers._orthogonal import DeltaOrthogonal
from initscope.initializers._scaled import He

if TYPE_CHECKING:
    import torch

    from initscope.graph import WeightLayer

__all__ = ["ZeroSum"]


@dataclass(frozen=True)
class ZeroSum(Initializer):
    r"""A base initializer whose filters are conditioned to sum to zero ([Nachum2022]_ section 4.2).

    For independent Gaussian weights the conditioning gives :math:`w - \bar w`: it removes the direction in which all
    taps and channels are equal, and with it the mean that makes ReLU outputs similar. ``strength`` λ between 0 and 1
    removes only part of it, :math:`w - (1-\sqrt{1-\lambda})\,\bar w`: it sets the angle at which deep layers settle.

    Parameters
    ----------
    base
        The initializer before conditioning.
    strength
        1: sums are exactly zero; 0: the base initializer.
    compensate
        Enlarge the weights by :math:`(1-\lambda/\pi)^{-1/2}`, what the removal takes from a ReLU layer's signal, so
        that norms stay constant in depth. Off by default: the conditioning as the paper has it.
    """

    base: Initializer = field(default_factory=He)
    strength: float = 1.0
    compensate: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.strength <= 1:
            raise InputError(
                f"strength = {self.strength} must lie in [0, 1]: 0 is the base initializer, 1 sums of exactly zero"
            )
        if isinstance(self.base, DeltaOrthogonal):
            raise InputError(
                "base = DeltaOrthogonal has only one tap, which cannot sum to zero over taps; use Orthogonal"
            )
        if isinstance(self.base, LooksLinear):
            raise InputError("base = LooksLinear has hidden filters that sum to zero already; use it by itself")

    @property
    def _factor(self) -> float:
        return 1 / (1 - self.strength / math.pi) if self.compensate else 1.0

    def weight_distribution(self, module: WeightLayer) -> WeightDistribution:
        """Return the base distribution with its mean direction weakened by ``strength``, next to the base itself."""
        base = self.base.weight_distribution(module)
        return replace(
            base,
            variance=base.variance * self._factor,
            # A base that has removed part of the mean already leaves (1 - λ) of its second moment to each.
            strength=1 - (1 - base.strength) * (1 - self.strength),
            bias_variance=self.bias_variance or base.bias_variance,
        )

    def draw(self, module: WeightLayer, generator: torch.Generator | None) -> torch.Tensor:
        """Draw from the base initializer, then take (part of) each filter's mean away."""
        weight = self.base.draw(module, generator)
        filters = _filters(module, weight)
        mean = filters.mean(dim=(1, 3), keepdim=True)
        filters.sub_((1 - math.sqrt(1 - self.strength)) * mean).mul_(math.sqrt(self._factor))
        return weight

    def draw_bias(self, module: WeightLayer, generator: torch.Generator | None) -> torch.Tensor:
        """Return biases of this initializer's variance or, if that is zero, those of the base initializer."""
        return super().draw_bias(module, generator) if self.bias_variance else self.base.draw_bias(module, generator)


def _filters(module: WeightLayer, weight: torch.Tensor) -> torch.Tensor:
    """Return a view ``[groups, inputs, outputs, taps]`` of the weight; a filter is the weights of one output."""
    from torch.nn.modules.conv import _ConvTransposeNd

    groups = getattr(module, "groups", 1)
    if isinstance(module, _ConvTransposeNd):  # stored inputs first
        return weight.view(groups, weight.shape[0] // groups, weight.shape[1], -1)
    return weight.view(groups, weight.shape[0] // groups, weight.shape[1], -1).transpose(1, 2)
