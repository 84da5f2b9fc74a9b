"""What one prediction may spend on covariances between positions: known before it is spent, refused beyond."""

from __future__ import annotations

from typing import Any

from initscope.propagate.totals import NotCovered

__all__ = ["CovarianceBudget"]

_FORMULAS = 1 << 29  # map entries: some ten seconds


class CovarianceBudget:
    """Map entries for a batch of ``pairs`` of the prediction's ``all_pairs``."""

    def __init__(self, pairs: float = 1, all_pairs: int = 1) -> None:
        self.share = pairs / max(1, all_pairs)
        self.found_last: tuple[object, Any] = (None, None)
        """What was asked for last and what was found: all replicates ask for the same before anything was sampled."""
        self._left = _FORMULAS * self.share

    def spend(self, entries: int, what: str) -> None:
        """Take ``entries`` for ``what``."""
        if entries > self._left:
            raise NotCovered(
                f"{what} would take {entries / self.share:.1e} map entries (left of the limit: "
                f"{self._left / self.share:.1e}); fewer pairs or smaller images would do without whole networks"
            )
        self._left -= entries
