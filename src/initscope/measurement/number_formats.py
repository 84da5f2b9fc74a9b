"""Values and gradients that smaller number formats would lose: shares outside of their range."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from initscope.geometry import Floats
from initscope.graph import Graph, Node, Observer

__all__ = ["FORMATS", "FormatCount", "FormatObserver", "NumberFormat"]

_SAMPLES = 8


@dataclass(frozen=True)
class NumberFormat:
    """A floating-point format, and where a cast to it (to the nearest value, ties to even) loses a number entirely.

    Attributes
    ----------
    name : str
    overflow : float
        Midpoint between the largest value and the next one: the cast overflows beyond it.
    overflow_at_tie : bool
        Whether ``overflow`` itself overflows: the largest value is odd, so the tie is rounded up.
    underflow : float
        Half of the least subnormal number: up to and including it, the cast gives zero.
    """

    name: str
    overflow: float
    overflow_at_tie: bool
    underflow: float

    @classmethod
    def of(cls, name: str, dtype: torch.dtype) -> NumberFormat:
        """Return the limits that follow from torch's description of ``dtype``."""
        info = torch.finfo(dtype)
        largest, eps = float(info.max), float(info.eps)
        step = 2.0 ** math.floor(math.log2(largest)) * eps  # between the largest value and its neighbors
        return cls(name, largest + step / 2, largest / step % 2 == 1, float(info.smallest_normal) * eps / 2)

    def overflows(self, sizes: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
        """Return where absolute values are rounded beyond the largest value."""
        return sizes >= self.overflow if self.overflow_at_tie else sizes > self.overflow


FORMATS = (
    NumberFormat.of("float16", torch.float16),
    NumberFormat.of("bfloat16", torch.bfloat16),
    NumberFormat.of("float8 e4m3", torch.float8_e4m3fn),
    NumberFormat.of("float8 e5m2", torch.float8_e5m2),
)


_BY_SMALLEST = tuple(np.argsort([-form.underflow for form in FORMATS]).tolist())


class FormatCount:
    """Counts values that overflow or underflow in each of `FORMATS`; exact zeros and infinities do neither."""

    saved_fields = ("values", "over", "under")

    def __init__(self) -> None:
        self.values = 0
        self.over = np.zeros(len(FORMATS))
        self.under = np.zeros(len(FORMATS))

    def add(self, values: Tensor) -> None:
        """Take the values of a tensor into account."""
        magnitudes = values.detach().abs().flatten()
        exact = (magnitudes if magnitudes.dtype == torch.float64 else magnitudes.float()).cpu().numpy()
        if len(exact) and not math.isfinite(exact.max()):
            exact = exact[np.isfinite(exact)]
        zeros = int(np.count_nonzero(exact == 0))
        with np.errstate(over="ignore"):
            sizes = exact.astype(np.float32, copy=False)  # as torch's cast does first; NumPy counts many times faster
        self.values += len(sizes) - zeros
        if len(sizes) == zeros:
            return
        high, below = sizes.max(), 1
        for index in _BY_SMALLEST:
            form = FORMATS[index]
            if high >= form.overflow:
                self.over[index] += np.count_nonzero(form.overflows(sizes))
            if below:  # what is not below a limit is not below a smaller one
                below = int(np.count_nonzero(sizes <= form.underflow)) - zeros
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
        """Return the shares of values that overflow and that underflow, ``[formats]`` each."""
        count = max(1, self.values)
        return self.over / count, self.under / count


class FormatObserver(Observer):
    """`FormatCount` of the first samples of each batch, at every node."""

    def __init__(self, graph: Graph) -> None:
        self._nodes = graph.nodes
        self._counts: dict[Node, FormatCount] = defaultdict(FormatCount)

    def see(self, node: Node, values: Tensor) -> None:
        """Take a few samples into account."""
        self._counts[node].add(values[:_SAMPLES])

    def columns(self) -> dict[str, Any]:
        """Return ``overflow`` in float16, ``[steps]``, and all counts, ``formats``."""
        counts = tuple(map(self._counts.__getitem__, self._nodes))
        return {"overflow": np.array([count.over[0] / max(1, count.values) for count in counts]), "formats": counts}
