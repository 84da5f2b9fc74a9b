"""What one prediction may spend on covariances between positions: known before it is spent, refused beyond."""

from __future__ import annotations

from initscope.propagate.state import NotCovered

__all__ = ["Budget"]

_FORMULAS = 1 << 29  # map entries by formulas: some ten seconds
# Entries that are drawn are not exact, and whole networks can be drawn instead: they may cost what these cost.
_DRAWN_LEAST, _DRAWN_FOR_A_VALUE = 1 << 25, 512


class Budget:
    """Map entries for a batch of ``pairs`` of the prediction's ``all_pairs``, which have ``values`` numbers each."""

    def __init__(self, pairs: int = 1, all_pairs: int = 1, values: int = 1) -> None:
        self.share = pairs / max(1, all_pairs)
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
