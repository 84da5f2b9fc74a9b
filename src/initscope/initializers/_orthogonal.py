"""Weights that are orthogonal matrices: drawn uniformly (Haar), in all taps or only in the center tap."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from initscope.errors import InputError
from initscope.initializers._base import Initializer, WeightDistribution

if TYPE_CHECKING:
    import torch

    from initscope.graph import WeightLayer

__all__ = ["DeltaOrthogonal", "Orthogonal"]


@dataclass(frozen=True)
class Orthogonal(Initializer):
    """Haar orthogonal weights times ``gain`` [Saxe2014]_: rows or columns, whichever are fewer, are orthonormal.

    Each group's weights, flattened to (outputs) × (inputs · taps), are one such matrix; without groups this is the
    distribution of ``torch.nn.init.orthogonal_``. Entries have variance gain²/max(outputs, inputs · taps), not
    gain²/fan-in, and are uncorrelated; wide layers map angles as Gaussian weights do. They are not independent: no
    `cosine_sd` is predicted.
    """

    gain: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.gain < math.inf:
            raise InputError(f"gain = {self.gain} must be positive and finite; √2 suits ReLU, 1 linear layers")

    def weight_distribution(self, module: WeightLayer) -> WeightDistribution:
        """Return the moments of uncorrelated weights of equal variance."""
        rows, columns = _matrix_size(module)
        note = "orthogonal weights: the map of Gaussian ones, for large width"
        return WeightDistribution(self.gain**2 / max(rows, columns), self.bias_variance, note=note, independent=False)

    def draw(self, module: WeightLayer, generator: torch.Generator | None) -> torch.Tensor:
        """Return one matrix for each group."""
        import torch

        weight = torch.empty_like(module.weight)
        rows, columns = _matrix_size(module)
        for part in weight.view(-1, rows, *weight.shape[1:]):
            part.copy_(self.gain * _haar(rows, columns, weight, generator).view_as(part))
        return weight


@dataclass(frozen=True)
class DeltaOrthogonal(Orthogonal):
    """Convolutions whose center tap is a Haar orthogonal matrix times ``gain``, with all other taps zero [Xiao2018]_.

    Positions are not mixed: k_out(p) = k_in(s·p) · gain² · inputs/max(outputs, inputs) with stride s [Xiao2018]_. The
    center tap of an axis of size k is number (k-1)//2. Linear layers are `Orthogonal`.
    """

    def weight_distribution(self, module: WeightLayer) -> WeightDistribution:
        """Return the variance of the center tap's weights; ``center`` means that there are no others."""
        rows, channels = _center_size(module)
        note = "orthogonal weights: the map of Gaussian ones, for large width"
        return WeightDistribution(
            self.gain**2 / max(rows, channels), self.bias_variance, center=True, note=note, independent=False
        )

    def draw(self, module: WeightLayer, generator: torch.Generator | None) -> torch.Tensor:
        """Return one matrix for each group, in the center."""
        import torch

        weight = torch.zeros_like(module.weight)
        rows, channels = _center_size(module)
        center = tuple((size - 1) // 2 for size in weight.shape[2:])
        for part in weight.view(-1, rows, *weight.shape[1:]):
            part[(slice(None), slice(None), *center)] = self.gain * _haar(rows, channels, weight, generator)
        return weight


def _matrix_size(module: WeightLayer) -> tuple[int, int]:
    """Return the size of one group's weights as a matrix, as they are stored."""
    weight = module.weight
    return weight.shape[0] // getattr(module, "groups", 1), math.prod(weight.shape[1:])


def _center_size(module: WeightLayer) -> tuple[int, int]:
    return module.weight.shape[0] // getattr(module, "groups", 1), int(module.weight.shape[1])


def _haar(rows: int, columns: int, like: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
    """Return a uniformly random matrix with orthonormal rows or columns: Q of a Gaussian's QR, without R's signs."""
    import torch

    long, short = max(rows, columns), min(rows, columns)
    dtype = torch.promote_types(like.dtype, torch.float32)
    gaussian = torch.empty(long, short, dtype=dtype, device=like.device).normal_(generator=generator)
    q, r = torch.linalg.qr(gaussian)
    uniform: torch.Tensor = q * torch.sign(r.diagonal())
    return (uniform if rows >= columns else uniform.T).contiguous()
