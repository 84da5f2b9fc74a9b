"""The error class for bad input, and the argument checks that all packages share.

A message gives the value, the bound, the cause and the next step. The command line prints it on one line and exits
with code 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Literal, NoReturn

__all__ = [
    "InputError",
    "MissingDependencyError",
    "check_between",
    "check_count",
    "check_probability",
    "check_seed",
    "did_you_mean",
]


class InputError(ValueError):
    """An argument or a file cannot be used; the message gives the reason and the next step."""


class MissingDependencyError(ImportError):
    """An optional library is not installed; the message gives the ``pip install`` command for it."""

    def __init__(self, library: str, extra: str | None) -> None:
        wanted = f"'initscope[{extra}]'" if extra else library
        super().__init__(f"{library} is not installed; install it with: pip install {wanted}")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return " (did you mean …?)" for an unknown word, or "" if no known word is similar or contains it.

    >>> did_you_mean("fashon-mnist", ["photos", "fashion-mnist"]), did_you_mean("mnist", ["photos", "fashion-mnist"])
    (' (did you mean fashion-mnist?)', ' (did you mean fashion-mnist?)')
    """
    import difflib

    words = list(known)
    near = difflib.get_close_matches(word, words, n=1) or [other for other in words if len(word) > 2 and word in other]
    return f" (did you mean {near[0]}?)" if near else ""


def _refuse(name: str, value: object, bound: str, hint: str) -> NoReturn:
    raise InputError(f"{name} = {value} must be {bound}" + (f"; {hint}" if hint else ""))


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


_BOUNDS = {
    "": "strictly between {low:g} and {high:g}",
    "low": "at least {low:g} and below {high:g}",
    "high": "above {low:g} and at most {high:g}",
    "both": "from {low:g} to {high:g}",
}


def check_between(
    name: str, value: float, low: float, high: float, *, ends: Literal["", "low", "high", "both"] = "", hint: str = ""
) -> float:
    """Return ``value`` if ``low < value < high``, else raise `InputError`; ``ends`` says which bounds are allowed.

    NaN is refused.
    """
    inside = _is_number(value) and (
        low < value < high or (value == low and ends in ("low", "both")) or (value == high and ends in ("high", "both"))
    )
    if not inside:
        _refuse(name, value, _BOUNDS[ends].format(low=low, high=high), hint)
    return float(value)


def check_probability(name: str, value: float, *, hint: str = "a probability of failure, for example 0.05") -> float:
    """Return ``value`` if it lies strictly between 0 and 1, else raise `InputError`."""
    return check_between(name, value, 0.0, 1.0, hint=hint)


def check_count(name: str, value: int, *, least: int = 1, most: float = math.inf, hint: str = "") -> int:
    """Return ``value`` as an int if it is an integer (not 2.0) of at least ``least`` and at most ``most``."""
    if not isinstance(value, Integral) or isinstance(value, bool) or not least <= value <= most:
        bound = f"a whole number of at least {least}" + (f" and at most {most:g}" if most < math.inf else "")
        _refuse(name, value, bound, hint)
    return int(value)


def check_seed(name: str, value: int) -> int:
    """Return ``value`` as an int if NumPy and torch both take it as a seed, else raise `InputError`."""
    if not _is_number(value) or not 0 <= value < 2**63 or int(value) != value:
        _refuse(name, value, "a whole number from 0 to 2^63 - 1", "any number in this range can be a seed")
    return int(value)
