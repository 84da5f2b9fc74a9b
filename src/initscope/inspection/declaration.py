"""`Declaration`: one verdict, and `Finding`: what its test found. The tests are in two other files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from initscope.geometry import Floats
from initscope.inspection.evidence import Evidence

__all__ = ["Declaration", "Finding", "first_above", "first_below"]


class Finding(NamedTuple):
    """What a test found: the first row where it holds, and the worst value of all rows.

    ``layer`` names what has no row: a module that is not called, or a parameter. ``words`` add what was seen, ``code``
    is what to type where the declaration's own does not fit; ``measured`` is False where the value is of something else
    than the declaration's threshold, and ``threshold`` is what was crossed where this is another.
    """

    row: int
    value: float
    fault: bool = True
    layer: str = ""
    words: str = ""
    code: str | None = None
    measured: bool = True
    threshold: float | None = None


@dataclass(frozen=True)
class Declaration:
    """One verdict.

    Attributes
    ----------
    name : str
        As printed, and for ``--fail-on``.
    test : callable
        ``test(evidence, threshold)`` returns a `Finding`, or None where all is well.
    source, advice : str
        Why it matters, and what to do.
    threshold : float
        Beyond which the test finds something; 0 for what is a fault however little there is of it.
    threshold_is : str
        What the threshold is compared with; empty where there is none to set.
    on_constant_data : bool
        Whether it says anything of samples that are all equal.
    code : str
        What to type, with ``{layer}`` for the module that was found; empty where words have to do.
    needs_norms : bool
        Whether it is no fault while batch norms do nothing, in evaluation mode before any training.
    of_the_start : bool
        Whether another start or another size of the whole network is what mends it, as trials can see; what is wired
        or fed wrongly stays so.
    """

    name: str
    test: Callable[[Evidence, float], Finding | None]
    source: str
    advice: str
    threshold: float = 0.0
    threshold_is: str = ""
    on_constant_data: bool = False
    code: str = ""
    needs_norms: bool = False
    of_the_start: bool = True

    @property
    def option(self) -> str:
        """Its name in `Thresholds`."""
        return self.name.replace("-", "_")


def first_below(values: Floats, threshold: float, *, fault: bool = True) -> Finding | None:
    """The first row below the threshold, with the least value of all rows."""
    beyond = np.flatnonzero(values < threshold)
    return Finding(int(beyond[0]), float(np.nanmin(values)), fault, threshold=threshold) if len(beyond) else None


def first_above(values: Floats, threshold: float, *, fault: bool = True) -> Finding | None:
    """The first row above the threshold, with the largest value of all rows."""
    beyond = np.flatnonzero(values > threshold)
    return Finding(int(beyond[0]), float(np.nanmax(values)), fault, threshold=threshold) if len(beyond) else None
