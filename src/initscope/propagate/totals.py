"""Sums over all units of a state, for its row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from initscope.propagate import loops
from initscope.theory._fast import as_numpy
from initscope.theory.pair_sums import half_gap_from_sums

__all__ = ["NotCovered", "Totals", "gaps", "own_call", "total"]


class NotCovered(Exception):
    """Raised by a rule that cannot predict; the message becomes the row's reason."""


def own_call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run a call of the model on values or on unit numbers; its error is the row's reason, not a bug of a rule."""
    try:
        return function(*args, **kwargs)
    except NotCovered:
        raise
    except Exception as error:
        raise NotCovered(f"{type(error).__name__}: {error}") from error


@dataclass(frozen=True)
class Totals:
    """Sums over all units, per pair, in float64: E‖x‖², E‖y‖², the number of units, and E‖x - y‖² or 1 - cosine."""

    xx: Tensor
    yy: Tensor
    units: int
    distance: Tensor | None = None
    given_gap: Tensor | None = None
    """1 - cosine, where it is not taken from the distance."""

    @cached_property
    def gap(self) -> Tensor:
        """1 - cosine."""
        return gaps([self])[0]

    @classmethod
    def mean(cls, parts: list[Totals]) -> Totals:
        """Return means over replicates of squared norms and squared distances."""
        xx, yy = (torch.stack([getattr(part, name) for part in parts]) for name in ("xx", "yy"))
        distance = (xx.sqrt() - yy.sqrt()).square() + 2 * (xx * yy).sqrt() * gaps(parts)
        return cls(xx.mean(dim=0), yy.mean(dim=0), parts[0].units, distance.mean(dim=0))

    @property
    def cosine(self) -> Tensor:
        """⟨x, y⟩/(‖x‖‖y‖), through the gap."""
        return 1 - self.gap


def gaps(many: Sequence[Totals]) -> Tensor:
    """Return 1 - cosine of several sums, ``[…, pairs]``, by one formula."""
    summed = [(totals.xx, totals.yy, totals.distance) for totals in many if totals.distance is not None]
    half_gaps = iter(2 * half_gap_from_sums(*map(torch.stack, zip(*summed, strict=True))) if summed else ())
    return torch.stack([next(half_gaps) if totals.given_gap is None else totals.given_gap for totals in many])


def total(*maps: Tensor, kept: int = 1) -> list[Tensor]:
    """Return sums in float64 of maps of one size, over all axes but the first ``kept``."""
    fused, sums = loops.large_loops(*maps), []
    for values in maps:
        flat = values.reshape(*values.shape[:kept], -1)
        if fused is not None and flat.is_contiguous():
            sums.append(torch.from_numpy(fused.totals(as_numpy(flat))))
        else:
            sums.append(flat.sum(dim=-1, dtype=torch.float64))
    return sums
