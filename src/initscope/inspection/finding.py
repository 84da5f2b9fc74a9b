"""`Finding`: one problem as data, `Fix`: what to do about it, `NotChecked`: what could not be checked and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from initscope.results import Result

__all__ = ["LEVELS", "Finding", "Fix", "Level", "NotChecked"]

Level = Literal["error", "warning", "info"]
_HELPS = 0.1
"""Increase of the share from which a fix counts as a help."""
SCORE = "score"
"""The quantity that is compared without targets: the score of `WhatIf`."""
LEVELS: tuple[Level, ...] = ("error", "warning", "info")
"""From worst to mildest."""


@dataclass(frozen=True)
class Fix(Result):
    """One suggested change.

    Attributes
    ----------
    name : str
        The change in a few words.
    code : str or None
        A line of code; None if the change has to be made by hand.
    advice : str
        The change as a sentence.
    before, after : float or None
        The result of a trial without and with it; None: not tried.
    measure : str
        What ``before`` and ``after`` are: the loss, or without targets the score of `WhatIf`.
    tie : bool
        Whether the best fix is not measurably better than this one.
    """

    name: str
    code: str | None = None
    advice: str = ""
    before: float | None = None
    after: float | None = None
    tie: bool = False
    measure: str = SCORE
    initializer: Any = field(default=None, repr=False, compare=False, metadata={"key": "law"})
    """The initializer, if only weights change; ``--apply`` writes its weights."""

    def to_dict(self) -> dict[str, Any]:
        """Return all fields but the initializer, which ``code`` spells out."""
        return {name: value for name, value in super().to_dict().items() if name != "initializer"}

    @property
    def tried(self) -> bool:
        """Whether a trial compared the model with and without it."""
        return self.after is not None

    @property
    def helped(self) -> bool:
        """Whether a trial showed that it helps. Scored alternatives become fixes only if they have fewer findings."""
        if self.before is None or self.after is None:
            return False
        return self.after > self.before if self.measure == SCORE else self.after >= self.before + _HELPS

    @property
    def outcome(self) -> str:
        """The result of the trial: ``0.1 → 0.88``, or that there was none."""
        if self.before is None or self.after is None:
            return "not tried"
        gain = "" if self.helped else ", which is no gain"
        return f"tried: {self.measure} {self.before:.3g} → {self.after:.3g}{gain}"

    def __str__(self) -> str:
        return f"{self.code or self.advice} ({self.outcome})"


@dataclass(frozen=True)
class Finding(Result):
    """What one check found.

    Attributes
    ----------
    code, name : str
        Code and name of the check, such as ``IS201`` and ``loss-floor``.
    level : "error", "warning" or "info"
        How much it hurts.
    layer : str
        The first layer, module or parameter where it holds.
    value, threshold : float or None
        The worst value, and the bound that it crossed.
    message : str
        What was found, where, and why it matters.
    fix : Fix or None
        What to do.
    caused_by : str or None
        Code of the finding that this one follows from: fix that first.
    evidence : dict
        The numbers and names in the message.
    """

    code: str
    name: str
    level: Level
    layer: str
    value: float | None
    threshold: float | None
    message: str
    fix: Fix | None = None
    caused_by: str | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        after = f" Follows from {self.caused_by}." if self.caused_by else ""
        fix = f" Fix: {self.fix}." if self.fix is not None and not self.caused_by else ""
        return f"{self.code} {self.name} ({self.level}): {self.message}{after}{fix}"


@dataclass(frozen=True)
class NotChecked(Result):
    """Checks that did not run: ``what`` they look at, the ``reason``, what to ``give`` to run them, their ``codes``."""

    what: str
    reason: str
    give: str
    codes: tuple[str, ...]

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the arguments to give, which are those of the options of the command line."""
        return tuple(name for part in self.give.split(", ") if (name := part.partition("=")[0]))

    def __str__(self) -> str:
        give = f"; pass {' and '.join(self.options)}" if self.options else ""
        return f"{self.what} ({self.reason}{give})"
