"""What smaller number formats would lose of the values and gradients of a run: shares beyond or below their range."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from initscope.geometry import Floats
from initscope.graph import Graph, Node, Observer

__all__ = ["FORMATS", "FormatCount", "FormatObserver", "NumberFormat"]

_SAMPLES = 8


@dataclass(frozen=True)
class NumberFormat:
    """A floating-point format: its name, its largest value, and the smallest that is not rounded to zero."""

    name: str
    largest: float
    smallest: float

    @classmethod
    def of(cls, name: str, dtype: torch.dtype) -> NumberFormat:
        """From torch's own description; half of the least subnormal number is rounded to zero."""
        info = torch.finfo(dtype)
        return cls(name, float(info.max), float(info.smallest_normal) * float(info.eps) / 2)


FORMATS = (
    NumberFormat.of("float16", torch.float16),
    NumberFormat.of("bfloat16", torch.bfloat16),
    NumberFormat.of("float8 e4m3", torch.float8_e4m3fn),
    NumberFormat.of("float8 e5m2", torch.float8_e5m2),
)


class FormatCount:
    """Counts values that overflow or underflow in each of `FORMATS`; exact zeros and infinities do neither."""

    def __init__(self) -> None:
        self.values = 0
        self.over = np.zeros(len(FORMATS))
        self.under = np.zeros(len(FORMATS))

    def add(self, values: Tensor) -> None:
        """Take the values of a tensor into account."""
        sizes = values.detach().abs().flatten().float().cpu().numpy()  # NumPy counts many times faster than torch
        if len(sizes) and not math.isfinite(sizes.max()):
            sizes = sizes[np.isfinite(sizes)]
        zeros = int(np.count_nonzero(sizes == 0))
        self.values += len(sizes) - zeros
        if len(sizes) == zeros:
            return
        high, below = sizes.max(), 1
        for index in np.argsort([-form.smallest for form in FORMATS]):
            form = FORMATS[index]
            if high > form.largest:
                self.over[index] += np.count_nonzero(sizes > form.largest)
            if below:  # what is not below a limit is not below a smaller one
                below = int(np.count_nonzero(sizes < form.smallest)) - zeros
                self.under[index] += below

    def add_all(self, tensors: Iterable[Tensor]) -> FormatCount:
        """Several tensors; returns itself."""
        for tensor in tensors:
            self.add(tensor)
        return self

    def join(self, other: FormatCount) -> None:
        """Take the counts of another into account."""
        self.values += other.values
        self.over, self.under = self.over + other.over, self.under + other.under

    def shares(self) -> tuple[Floats, Floats]:
        """Of all values, those that overflow and those that underflow, ``[formats]`` each."""
        count = max(1, self.values)
        return self.over / count, self.under / count


class FormatObserver(Observer):
    """`FormatCount` of the first samples of each batch, at every node."""

    def __init__(self, graph: Graph) -> None:
        self._counts = {node: FormatCount() for node in graph.nodes}

    def see(self, node: Node, values: Tensor) -> None:
        """Take a few samples into account."""
        self._counts[node].add(values[:_SAMPLES])

    def columns(self) -> dict[str, Any]:
        """``overflow`` in float16, ``[steps]``, and all counts, ``formats``."""
        counts = tuple(self._counts.values())
        return {"overflow": np.array([count.shares()[0][0] for count in counts]), "formats": counts}
