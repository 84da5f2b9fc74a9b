"""The checks, one file per family, one declaration per code; `checks` lists and selects them by code or name."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from initscope.errors import InputError, did_you_mean
from initscope.inspection._checks import data, dependence, formats, head, signal, structure, trial, weights
from initscope.inspection._checks.declaration import ALL, Check
from initscope.inspection.finding import LEVELS, Finding, Level
from initscope.results import Result

__all__ = ["Check", "Thresholds", "checks", "failing", "refuse_unknown", "reinitialized", "selected"]

_FAMILIES = (signal, head, dependence, trial, weights, data, formats, structure)  # importing one declares its checks
_SYNONYMS = dict.fromkeys(("nan", "nans", "inf", "infinite", "infinity"), "not-finite")


def checks(select: str | Iterable[str] | None = None) -> tuple[Check, ...]:
    """Return all checks by code, or those that ``select`` names: codes, prefixes such as ``IS2``, or names.

    Parameters
    ----------
    select : str or iterable of str, optional
        Codes, prefixes or names, as a list or joined by commas. None: all checks.

    Returns
    -------
    tuple of Check
        Sorted by code.

    Examples
    --------
    >>> [item.name for item in checks("IS7")]
    ['float16-overflow', 'float16-underflow']
    """
    known = tuple(sorted(ALL, key=attrgetter("code")))
    if select is None:
        return known
    refuse_unknown(select, "select")
    return tuple(item for item in known if _names(select, item))


def _words(wanted: str | Iterable[str]) -> list[str]:
    parts = wanted.split(",") if isinstance(wanted, str) else list(wanted)
    return [word for part in parts if (word := part.strip())]


def refuse_unknown(wanted: str | Iterable[str], option: str, *, levels: bool = False) -> None:
    """Refuse a list of codes, prefixes and names that holds an undeclared one; ``levels`` may be named too."""
    words = _words(wanted)
    if wanted and not words:
        raise InputError(f"{option} {wanted!r} names no check; give a code such as IS103, a prefix or a name")
    for word in words:
        if not (levels and word in LEVELS) and not any(item.matches(word) for item in ALL):
            known = [*(LEVELS if levels else ()), *(text for item in ALL for text in (item.code, item.name))]
            guess = did_you_mean(_SYNONYMS.get(word.lower(), word), known)
            raise InputError(
                f"{option} {word}: there is no such check{guess}; initscope.inspection.checks() lists them"
            )


def _names(wanted: str | Iterable[str], item: Check) -> bool:
    """Return whether the code, prefix or name of a check is in a list."""
    return any(item.matches(word) for word in _words(wanted))


def selected(select: str | Iterable[str] | None, ignore: str | Iterable[str] | None) -> tuple[Check, ...]:
    """Return the checks to run: those of ``select``, or all, except those of ``ignore``."""
    if ignore is not None:
        refuse_unknown(ignore, "ignore")
    return tuple(item for item in checks(select) if ignore is None or not _names(ignore, item))


def failing(findings: Iterable[Finding], wanted: str, option: str = "fail-on") -> list[Finding]:
    """Return the findings that match ``wanted``: a level or a worse one, codes, prefixes or names, joined by commas.

    >>> failing([], "error")
    []
    """
    refuse_unknown(wanted, option, levels=True)
    words = _words(wanted)
    worst: set[Level] = {level for word in words if word in LEVELS for level in LEVELS[: LEVELS.index(word) + 1]}
    named = {item.code for item in ALL if any(word not in LEVELS and item.matches(word) for word in words)}
    return [finding for finding in findings if finding.level in worst or finding.code in named]


def reinitialized(finding: Finding) -> bool:
    """Return whether other initial weights, or another width or depth, can fix a finding."""
    return finding.code in {item.code for item in ALL if item.reinitialize}


class Thresholds(Result):
    """The bounds of the checks: the defaults of their declarations, or others by name; printed with every report.

    >>> Thresholds(collapse=0.2).collapse, Thresholds().rank_loss
    (0.2, 1.5)
    """

    saved_fields = ("_limits",)

    def __init__(self, **limits: float) -> None:
        defaults = {item.option: item.threshold for item in checks() if item.unit}
        if unknown := sorted(set(limits) - set(defaults)):
            guess = did_you_mean(unknown[0], defaults)
            raise InputError(f"no threshold is named {', '.join(unknown)}{guess}; known: {', '.join(defaults)}")
        for name, value in limits.items():
            if not value > 0:
                raise InputError(f"threshold {name} = {value} must be positive")
        self._limits = defaults | limits

    def __getattr__(self, name: str) -> float:
        limits: dict[str, float] = self.__dict__.get("_limits", {})
        if name not in limits:
            raise AttributeError(name)
        return limits[name]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Thresholds) and self._limits == other._limits

    def __hash__(self) -> int:
        return hash(tuple(self._limits.items()))

    def __repr__(self) -> str:
        return f"Thresholds({', '.join(f'{name}={value:g}' for name, value in self._limits.items())})"

    def of(self, item: Check) -> float:
        """Return the threshold of a check."""
        return self._limits.get(item.option, item.threshold)

    def to_dict(self) -> dict[str, Any]:
        """Return the thresholds by name."""
        return dict(self._limits)
