"""`Reproduction`: a statement of the sources that can be run, with our numbers and the published ones.

A file of this package runs one experiment (``run``) and declares its statements: ``REPRODUCTIONS = (Declared(…),)``.
All published numbers are in ``published.toml``.
"""

from __future__ import annotations

import functools
import json
import math
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, get_args

from initscope.errors import InputError
from initscope.results import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Declared",
    "Number",
    "Reproduction",
    "Scale",
    "Status",
    "full_scale_status",
    "published",
    "published_rounding",
]

Scale = Literal["small", "full"]
Status = Literal["agrees", "differs", "not confirmed", "not comparable", "failed"]

_ERRORS = 3.0
"""Our number agrees with a published one within this number of standard errors plus the rounding of the latter."""


@dataclass(frozen=True)
class Number(Result):
    """One of our numbers, with its standard error if it has one."""

    value: float
    error: float | None = None

    def __str__(self) -> str:
        return f"{self.value:.4g}" + ("" if self.error is None else f" ± {self.error:.2g}")

    def exceeds(self, other: Number) -> bool:
        """Return whether this number is larger by more than three standard errors of the difference.

        >>> Number(1.0, 0.1).exceeds(Number(0.5, 0.1)), Number(1.0, 0.2).exceeds(Number(0.5))
        (True, False)
        """
        return self.value - other.value > _ERRORS * math.hypot(self.error or 0.0, other.error or 0.0)


@dataclass(frozen=True)
class Reproduction(Result):
    """The outcome of a run: our numbers, the published ones, and whether they agree.

    ``result`` holds the full result of the experiment, with its table and figure.
    """

    id: str
    source: str
    statement: str
    scale: Scale
    status: Status
    why: str
    ours: dict[str, Number]
    published: dict[str, float] | None
    seconds: float
    result: Any = field(default=None, repr=False, compare=False)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Table of the result."""
        return [] if self.result is None else list(self.result.table())

    def table(self) -> list[dict[str, Any]]:
        """Return one row per number: ours, its error, and the published one."""
        published = self.published or {}
        return [
            {"reproduction": self.id, "number": name, "ours": number.value, "error": number.error}
            | {"published": published.get(name), "status": self.status}
            for name, number in self.ours.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return all fields except ``result``, whose table is ``rows``."""
        shown = {name: getattr(self, name) for name in ("id", "source", "statement", "scale", "status", "why")}
        ours = {name: number.to_dict() for name, number in self.ours.items()}
        return {**shown, "ours": ours, "published": self.published, "seconds": round(self.seconds, 3)}

    def figure(self) -> Figure | None:
        """Return the figure of the result, or None."""
        from matplotlib.figure import Figure

        if self.result is None:
            return None
        drawn = self.result.figure() if hasattr(self.result, "figure") else self.result.plot().figure
        return drawn if isinstance(drawn, Figure) else None


@dataclass(frozen=True)
class Declared:
    """A statement, and the experiment that reproduces it.

    Attributes
    ----------
    id, source, statement : str
        Name on the command line, reference, and text of the statement.
    produce : callable
        Runs the experiment with the keywords ``small`` or ``full``; returns a `Result`.
    numbers : callable
        Returns our numbers by name from the result of ``produce``; published numbers have the same names.
    holds : callable, optional
        Returns whether the statement holds, if it is not a single number.
    contrary : callable, optional
        Returns from our numbers the sentence why they do not confirm the statement; empty if they confirm it or decide
        nothing. It reads the numbers only, so the status of a stored result can be computed again.
    data : str
        Keyword of ``produce`` for data of the user; empty if there is none.
    incomparable : str
        Reason why our numbers cannot be compared with the published ones; empty if they can.
    small_incomparable : str
        The same for the small scale.
    """

    id: str
    source: str
    statement: str
    produce: Callable[..., Any]
    numbers: Callable[[Any], dict[str, Number]]
    holds: Callable[[Any], bool] | None = None
    contrary: Callable[[Mapping[str, Number]], str] | None = None
    small: dict[str, Any] = field(default_factory=dict)
    full: dict[str, Any] = field(default_factory=dict)
    data: str = ""
    incomparable: str = ""
    small_incomparable: str = ""

    @property
    def published(self) -> dict[str, float] | None:
        """Published numbers by name, or None."""
        return published(self.id)

    def describe(self) -> dict[str, Any]:
        """Return ``{"id", "source", "statement", "published"}``."""
        return {"id": self.id, "source": self.source, "statement": self.statement, "published": self.published}

    def run(self, scale: Scale = "small", data: Any = None) -> Reproduction:
        """Run the experiment: ``small`` in seconds on bundled data, ``full`` at the published sizes."""
        if scale not in get_args(Scale):
            raise InputError(f"scale = {scale!r} must be 'small' or 'full'")
        if data is not None and not self.data:
            raise InputError(f"{self.id} takes no data: it generates its own inputs")
        begun = time.perf_counter()
        options = dict(self.small if scale == "small" else self.full)
        result = self.produce(**options, **({self.data: data} if data is not None else {}))
        ours = self.numbers(result)
        holds = None if self.holds is None else self.holds(result)
        status, why = self.judge(ours, holds=holds, scale=scale, other_data=data is not None)
        seconds = time.perf_counter() - begun
        return Reproduction(
            self.id, self.source, self.statement, scale, status, why, ours, self.published, seconds, result
        )

    def judge(
        self, ours: Mapping[str, Number], *, holds: bool | None, scale: Scale, other_data: bool = False
    ) -> tuple[Status, str]:
        """Return the status of these numbers and the reason; ``holds`` is None if there is no such criterion."""
        published_numbers = self.published or {}
        contrary = "" if self.contrary is None else self.contrary(ours)
        if contrary or holds is False:
            return "not confirmed", contrary or "the statement does not hold here"
        incomparable = self.incomparable or (self.small_incomparable if scale == "small" else "")
        if published_numbers and other_data:
            incomparable = "the published numbers belong to other data"
        if incomparable:
            return "not comparable", incomparable
        for name, value in published_numbers.items():
            number, rounding = ours[name], published_rounding(self.id, name)
            if abs(number.value - value) > _ERRORS * (number.error or 0.0) + rounding:
                return "differs", f"{name}: {number} here, {value:g} published"
        if published_numbers:
            within = f"within {_ERRORS:g} standard errors and the rounding of the published numbers"
            distances = {
                name: abs(ours[name].value - value) / error
                for name, value in published_numbers.items()
                if (error := ours[name].error) and abs(ours[name].value - value) > published_rounding(self.id, name)
            }
            if distances:
                furthest = max(distances, key=distances.__getitem__)
                within += f"; the largest distance is {distances[furthest]:.1f} standard errors ({furthest})"
            return "agrees", within
        if holds is not None or self.contrary is not None:
            return "agrees", "the statement holds"
        return "not comparable", "the source gives no number"


@functools.cache
def _published_file() -> dict[str, Any]:
    return tomllib.loads(files("initscope.reproductions").joinpath("published.toml").read_text(encoding="utf-8"))


def published(id: str) -> dict[str, float] | None:
    """Return the published numbers of a reproduction by name, from ``published.toml``."""
    entry = _published_file().get(id)
    return None if entry is None else {name: float(text) for name, text in entry["numbers"].items()}


@functools.cache
def _full_scale_file() -> dict[str, dict[str, str]]:
    text = files("initscope.reproductions").joinpath("full_scale_status.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def full_scale_status(id: str) -> dict[str, str] | None:
    """Return ``{"status", "why"}`` of the last run at full scale; None if the reproduction was not run.

    >>> full_scale_status("talk-training-subsets")["status"]
    'not confirmed'
    """
    return _full_scale_file().get(id)


def published_rounding(id: str, name: str) -> float:
    """Return half a unit of the last published digit.

    >>> published_rounding("injectivity-thresholds", "union")
    0.005
    """
    text = str(_published_file()[id]["numbers"][name])
    mantissa, _, exponent = text.partition("e")
    digits = len(mantissa.partition(".")[2])
    return 0.5 * math.pow(10, int(exponent or 0) - digits)
