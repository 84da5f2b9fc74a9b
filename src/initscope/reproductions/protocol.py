"""What a reproduction is: a statement of the sources that can be run, with the published value beside ours.

A file of this room runs one experiment (``run``) and declares what it shows: ``REPRODUCTIONS = (Declared(…),)``.
Published numbers stand in ``published.toml`` and nowhere else.
"""

from __future__ import annotations

import functools
import math
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, get_args

from initscope.errors import InputError
from initscope.results import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Declared", "Number", "Reproduction", "Scale", "Status", "published", "published_rounding"]

Scale = Literal["small", "full"]
Status = Literal["agrees", "differs", "not comparable", "failed"]

_ERRORS = 3.0
"""Standard errors within which a number of ours agrees with a published one, beside the rounding of that."""


@dataclass(frozen=True)
class Number(Result):
    """One number of ours, with its standard error where it has one."""

    value: float
    error: float | None = None

    def __str__(self) -> str:
        return f"{self.value:.4g}" + ("" if self.error is None else f" ± {self.error:.2g}")


@dataclass(frozen=True)
class Reproduction(Result):
    """A reproduction that was run: our numbers beside the published ones, whether they agree, and what was drawn.

    ``result`` holds everything that came out, with its own table and picture.
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
        """The table of the result."""
        return [] if self.result is None else list(self.result.table())

    def table(self) -> list[dict[str, Any]]:
        """One row for each number: ours, its error, and the published one."""
        published = self.published or {}
        return [
            {"reproduction": self.id, "number": name, "ours": number.value, "error": number.error}
            | {"published": published.get(name), "status": self.status}
            for name, number in self.ours.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """All but the result, whose table is ``rows``."""
        shown = {name: getattr(self, name) for name in ("id", "source", "statement", "scale", "status", "why")}
        ours = {name: number.to_dict() for name, number in self.ours.items()}
        return {**shown, "ours": ours, "published": self.published, "seconds": round(self.seconds, 3)}

    def figure(self) -> Figure | None:
        """The picture, if the result has one."""
        from matplotlib.figure import Figure

        if self.result is None:
            return None
        drawn = self.result.figure() if hasattr(self.result, "figure") else self.result.plot().figure
        return drawn if isinstance(drawn, Figure) else None


@dataclass(frozen=True)
class Declared:
    """A statement, and how it is shown.

    Attributes
    ----------
    id, source, statement : str
        Its name on the command line, where it stands, and what it says.
    produce : callable
        Runs the experiment with the keywords ``small`` or ``full``; returns a `Result`.
    numbers : callable
        Our numbers by name, of what ``produce`` returned; those with a published value have its name.
    holds : callable, optional
        Whether a statement that is no single number came true.
    data : str
        Keyword of ``produce`` that takes a user's own data, if it takes any.
    incomparable : str
        Why our numbers cannot be set against the published ones, if they cannot.
    small_incomparable : str
        Why those of the small scale cannot.
    """

    id: str
    source: str
    statement: str
    produce: Callable[..., Any]
    numbers: Callable[[Any], dict[str, Number]]
    holds: Callable[[Any], bool] | None = None
    small: dict[str, Any] = field(default_factory=dict)
    full: dict[str, Any] = field(default_factory=dict)
    data: str = ""
    incomparable: str = ""
    small_incomparable: str = ""

    @property
    def published(self) -> dict[str, float] | None:
        """Published numbers by name, None where the source gives none."""
        return published(self.id)

    def describe(self) -> dict[str, Any]:
        """``{"id", "source", "statement", "published"}``."""
        return {"id": self.id, "source": self.source, "statement": self.statement, "published": self.published}

    def run(self, scale: Scale = "small", data: Any = None) -> Reproduction:
        """Run it: ``small`` in seconds on bundled data, ``full`` at the published sizes."""
        if scale not in get_args(Scale):
            raise InputError(f"scale = {scale!r} must be 'small' or 'full'")
        if data is not None and not self.data:
            raise InputError(f"{self.id} takes no data: its statement is about what it draws itself")
        begun = time.perf_counter()
        options = dict(self.small if scale == "small" else self.full)
        result = self.produce(**options, **({self.data: data} if data is not None else {}))
        ours = self.numbers(result)
        incomparable = self.incomparable or (self.small_incomparable if scale == "small" else "")
        if self.published and data is not None:
            incomparable = "the published numbers are of other data"
        status, why = self._judged(result, ours, incomparable)
        seconds = time.perf_counter() - begun
        return Reproduction(
            self.id, self.source, self.statement, scale, status, why, ours, self.published, seconds, result
        )

    def _judged(self, result: Any, ours: dict[str, Number], incomparable: str) -> tuple[Status, str]:
        told = self.published or {}
        if self.holds is not None and not self.holds(result):
            return "differs", "the statement did not come true here"
        if incomparable:
            return "not comparable", incomparable
        for name, value in told.items():
            number, rounding = ours[name], published_rounding(self.id, name)
            if abs(number.value - value) > _ERRORS * (number.error or 0.0) + rounding:
                return "differs", f"{name}: {number} here, {value:g} published"
        if told:
            return "agrees", f"within {_ERRORS:g} standard errors and the rounding of the published numbers"
        return (
            ("agrees", "the statement came true") if self.holds is not None else ("not comparable", "no number given")
        )


@functools.cache
def _published_file() -> dict[str, Any]:
    return tomllib.loads(files("initscope.reproductions").joinpath("published.toml").read_text(encoding="utf-8"))


def published(id: str) -> dict[str, float] | None:
    """Published numbers of a reproduction by name, from ``published.toml``."""
    entry = _published_file().get(id)
    return None if entry is None else {name: float(text) for name, text in entry["numbers"].items()}


def published_rounding(id: str, name: str) -> float:
    """Half a unit of the last digit that the source prints.

    >>> published_rounding("injectivity-thresholds", "union")
    0.005
    """
    text = str(_published_file()[id]["numbers"][name])
    mantissa, _, exponent = text.partition("e")
    digits = len(mantissa.partition(".")[2])
    return 0.5 * math.pow(10, int(exponent or 0) - digits)
