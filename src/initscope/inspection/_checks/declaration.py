"""`Check`: the declaration of one finding, and `Hit`: where its test matches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from initscope.geometry import Floats
from initscope.inspection.evidence import Evidence
from initscope.inspection.finding import Level

__all__ = ["ALL", "Check", "Hit", "check", "first_above", "first_below"]

ALL: list[Check] = []
"""All declared checks. A family adds its checks when it is imported."""


@dataclass(frozen=True)
class Hit:
    """Where a check matches.

    ``row`` is the first op and ``value`` the worst value. ``layer`` names a module or parameter that has no op of its
    own, such as a module that is never called. ``layers`` are all modules and parameters concerned. ``level``,
    ``threshold`` and ``fix`` replace those of the check. ``facts`` fill the message and become the finding's evidence.
    """

    row: int
    value: float | None = None
    layer: str = ""
    level: Level | None = None
    threshold: float | None = None
    fix: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    layers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Check:
    """One finding: its code and name, the condition for it, its message and its fix.

    Attributes
    ----------
    code, name : str
        ``IS103`` and ``collapse``.
    level, learning, stuck : "error", "warning" or "info"
        The level without a trial, the level if the trial learns well, and the level if the trial does not learn.
    test : callable
        ``test(evidence, threshold)`` returns a `Hit`, or None.
    message : str
        A template: ``{at}`` is the layer, ``{value}`` and ``{threshold}`` are numbers, others are facts of the hit.
    why, advice : str
        Why it matters, and what to do, each a sentence without a full stop.
    reads : tuple of str
        Instruments that the check needs; without them it does not run (`Evidence.missing`).
    threshold : float
        The bound beyond which the check matches.
    unit : str
        The quantity that the threshold bounds; empty if the check has no threshold to set.
    fix : str
        A line of code; ``{layer}`` is the module of the finding.
    references : tuple of str
        Where to read more.
    follows : tuple of str
        Codes or prefixes of checks that explain this one if they match at the same row or upstream of it.
    local : tuple of str
        Those of ``follows`` that explain this one only if both are about the same layer.
    reinitialize : bool
        Whether other initial weights, or another width or depth, can fix the finding.
    on_constant_data : bool
        Whether the check runs if all samples are equal.
    needs_norms : bool
        Whether the check is meaningless as long as batch norms have seen no data.
    """

    code: str
    name: str
    level: Level
    test: Callable[[Evidence, float], Hit | None]
    message: str
    why: str
    advice: str = ""
    reads: tuple[str, ...] = ()
    threshold: float = 0.0
    unit: str = ""
    fix: str = ""
    references: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    local: tuple[str, ...] = ()
    learning: Level | None = None
    stuck: Level | None = None
    reinitialize: bool = False
    on_constant_data: bool = True
    needs_norms: bool = False

    @property
    def option(self) -> str:
        """The name of the check in `Thresholds`."""
        return self.name.replace("-", "_")

    @property
    def summary(self) -> str:
        """What the check looks for, in one line."""
        return (self.test.__doc__ or "").strip().splitlines()[0].rstrip(".")

    def matches(self, wanted: str) -> bool:
        """Return whether ``wanted`` is the code of this check, a prefix of the code, or its name."""
        return wanted == self.name or self.code.startswith(wanted.upper())


_Test = Callable[[Evidence, float], Hit | None]


def check(code: str, name: str, level: Level, **declared: Any) -> Callable[[_Test], _Test]:
    """Declare the decorated test as a check."""

    def declare(test: _Test) -> _Test:
        ALL.append(Check(code, name, level, test, **declared))
        return test

    return declare


def first_below(values: Floats, threshold: float, level: Level | None = None) -> Hit | None:
    """Return the first row below the threshold, with the lowest value of all rows."""
    beyond = np.flatnonzero(values < threshold)
    return Hit(int(beyond[0]), float(np.nanmin(values)), level=level, threshold=threshold) if len(beyond) else None


def first_above(values: Floats, threshold: float, level: Level | None = None) -> Hit | None:
    """Return the first row above the threshold, with the highest value of all rows."""
    beyond = np.flatnonzero(values > threshold)
    return Hit(int(beyond[0]), float(np.nanmax(values)), level=level, threshold=threshold) if len(beyond) else None
