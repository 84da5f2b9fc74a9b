"""Sums over all units of a state: what a row shows of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from initscope.propagate import loops
from initscope.theory._fast import as_numpy

__all__ = ["NotCovered", "Totals", "total"]


class NotCovered(Exception):
    """Raised by a rule that cannot predict; the message becomes the row's reason."""


@dataclass(frozen=True)
class Totals:
    """Sums over all units, per pair, in float64: E‖x‖², E‖y‖², E‖x-y‖², and the number of units."""

    xx: Tensor
    yy: Tensor
    gap: Tensor
    units: int

    @property
    def cosine(self) -> Tensor:
        """⟨x, y⟩/(‖x‖‖y‖), through the gap."""
        product = self.xx.sqrt() * self.yy.sqrt()
        return 1 - (self.gap - (self.xx.sqrt() - self.yy.sqrt()).square()) / (2 * product)


def total(maps: Tensor, kept: int = 1) -> Tensor:
    """Sum in float64 over all axes but the first ``kept``."""
    flat = maps.reshape(*maps.shape[:kept], -1)
    fused = loops.large_loops(flat)
    if fused is not None and flat.is_contiguous():
        return torch.from_numpy(fused.totals(as_numpy(flat)))
    return flat.sum(dim=-1, dtype=torch.float64)
