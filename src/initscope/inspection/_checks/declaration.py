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
"""Every check that was declared; a family adds its own when it is imported."""


@dataclass(frozen=True)
class Hit:
    """Where a check matches.

    ``row`` is the first op, ``value`` the worst value; ``layer`` names what has no op of its own: a module that is
    not called, or a parameter. ``layers`` are all modules and parameters that it is about. ``level``, ``threshold``
    and ``fix`` replace those of the check. ``facts`` fill the message and become the finding's evidence.
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
    """One finding: its code and name, when it is given, what it says and what to do.

    Attributes
    ----------
    code, name : str
        ``IS103`` and ``collapse``.
    level, learning, stuck : "error", "warning" or "info"
        The level; the level if the trial learns as well as it can; the level if the trial does not learn.
    test : callable
        ``test(evidence, threshold)`` returns a `Hit`, or None.
    message : str
        A template; ``{at}`` is the layer, ``{value}`` and ``{threshold}`` the numbers, the rest facts of the hit.
    why, advice : str
        Why it matters, and what to do, each a sentence without a full stop.
    reads : tuple of str
        Instruments without which it cannot run (`Evidence.missing`).
    threshold : float
        Beyond which it matches.
    unit : str
        What the threshold is compared with; empty where there is none to set.
    fix : str
        A line to type, ``{layer}`` is the module that was found.
    references : tuple of str
        Where to read more.
    follows : tuple of str
        Codes or prefixes of the checks that explain this one where they match at or upstream of it.
    local : tuple of str
        Those of ``follows`` that explain this one only where they are about a layer that it is about.
    reinitialize : bool
        Whether other initial weights, or another width or depth, can fix it.
    on_constant_data : bool
        Whether it says anything about samples that are all equal.
    needs_norms : bool
        Whether it means nothing while batch norms have seen no data.
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
        """Its name in `Thresholds`."""
        return self.name.replace("-", "_")

    @property
    def summary(self) -> str:
        """What it checks, in one line."""
        return (self.test.__doc__ or "").strip().splitlines()[0].rstrip(".")

    def matches(self, wanted: str) -> bool:
        """Whether ``wanted`` is its code, a prefix of it, or its name."""
        return wanted == self.name or self.code.startswith(wanted.upper())


_Test = Callable[[Evidence, float], Hit | None]


def check(code: str, name: str, level: Level, **declared: Any) -> Callable[[_Test], _Test]:
    """Declare the decorated test as a check."""

    def declare(test: _Test) -> _Test:
        ALL.append(Check(code, name, level, test, **declared))
        return test

    return declare


def first_below(values: Floats, threshold: float, level: Level | None = None) -> Hit | None:
    """The first row below the threshold, with the least value of all rows."""
    beyond = np.flatnonzero(values < threshold)
    return Hit(int(beyond[0]), float(np.nanmin(values)), level=level, threshold=threshold) if len(beyond) else None


def first_above(values: Floats, threshold: float, level: Level | None = None) -> Hit | None:
    """The first row above the threshold, with the largest value of all rows."""
    beyond = np.flatnonzero(values > threshold)
    return Hit(int(beyond[0]), float(np.nanmax(values)), level=level, threshold=threshold) if len(beyond) else None
