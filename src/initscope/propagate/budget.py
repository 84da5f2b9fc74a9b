"""What one prediction may spend on covariances between positions: known before it is spent, refused beyond; and what it
may keep of the samples that they were taken from."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from torch import Tensor

from initscope.propagate.totals import NotCovered

__all__ = ["Budget", "Memory"]

_FORMULAS = 1 << 29  # map entries by formulas: some ten seconds
# Entries that are drawn are not exact, and whole networks can be drawn instead: they may cost what these cost.
_DRAWN_LEAST, _DRAWN_FOR_A_VALUE = 1 << 25, 512
_BYTES = 1 << 27


class Memory:
    """The pairs of tensors that were used last, up to 128 MiB of them."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, tuple[Tensor, Tensor]] = OrderedDict()
        self._bytes = 0

    def get(self, key: Hashable) -> tuple[Tensor, Tensor] | None:
        """What is kept under ``key``, if it still is."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def put(self, key: Hashable, values: tuple[Tensor, Tensor]) -> None:
        """Keep ``values``, and forget what was not used for longest."""
        self._kept[key] = values
        self._bytes += sum(side.nbytes for side in values)
        while self._bytes > _BYTES:
            _, forgotten = self._kept.popitem(last=False)
            self._bytes -= sum(side.nbytes for side in forgotten)


class Budget:
    """Map entries for a batch of ``pairs`` of the prediction's ``all_pairs``, which have ``values`` numbers each."""

    def __init__(self, pairs: int = 1, all_pairs: int = 1, values: int = 1) -> None:
        self.share = pairs / max(1, all_pairs)
        self.memory = Memory()
        most = min(_FORMULAS, max(_DRAWN_LEAST, _DRAWN_FOR_A_VALUE * all_pairs * values))
        self._left = {True: _FORMULAS * self.share, False: most * self.share}

    def spend(self, entries: int, what: str, *, exact: bool) -> None:
        """Take ``entries`` for ``what``; ``exact`` says that all are by formulas."""
        if entries > self._left[exact]:
            raise NotCovered(
                f"{what} would take {entries / self.share:.1e} map entries (left of the limit: "
                f"{self._left[exact] / self.share:.1e}); fewer pairs or smaller images would do without whole networks"
            )
        for kind in {exact, True}:
            self._left[kind] -= entries
