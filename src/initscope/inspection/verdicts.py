"""Verdicts: where a network loses the geometry of its data, its signal or its gradients, with number and threshold.

Each verdict is one `Declaration` in `DECLARATIONS`: its name, its test, the threshold, why it matters, what to do.
To add one, add a declaration; `judge`, the report, the page and the command line read them from there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from initscope.errors import InputError, did_you_mean
from initscope.geometry import spoken
from initscope.inspection.declaration import Declaration, Finding
from initscope.inspection.evidence import Evidence
from initscope.inspection.facts import Facts
from initscope.inspection.signal_verdicts import SIGNAL_VERDICTS
from initscope.inspection.start_verdicts import START_VERDICTS
from initscope.inspection.structure_verdicts import STRUCTURE_VERDICTS
from initscope.inspection.suitable_laws import by_hand, filled_in
from initscope.measurement.observation import Observation
from initscope.results import Result

__all__ = ["DECLARATIONS", "Declaration", "Finding", "Thresholds", "Verdict", "check_fail_on", "failing",
           "judge", "verdict_names"]  # fmt: skip


_FOLLOWS = "follows from "
_LAW, _KEEPING = "{law}", "{keeping}"
"""Places in advice and code for a law that keeps sizes, and one that keeps angles too (`filled_in`)."""


@dataclass(frozen=True)
class Verdict(Result):
    """One finding: the first layer where it holds, the worst value, the threshold, why it matters and what to do.

    ``fault`` is False for what is worth knowing but not wrong (expansion, and gradients that start at zero). ``block``
    is the block of the layer, ``advice`` what to do in words, ``code`` what to type (None: nothing to type), ``words``
    what was seen beside the value, and `value_is` says of what the value is.
    """

    name: str
    layer: str
    value: float
    threshold: float
    source: str
    advice: str
    fault: bool = True
    block: str = ""
    code: str | None = None
    words: str = ""

    @property
    def value_is(self) -> str:
        """What the value and the threshold are, such as “median angle of pairs over the input's”; empty if none is."""
        told = next((declared.threshold_is for declared in DECLARATIONS if declared.name == self.name), "")
        return re.split(r"[,;]", told)[0]

    @property
    def follows(self) -> bool:
        """Whether it follows from another one, which is to be mended first."""
        return self.advice.startswith(_FOLLOWS)

    @property
    def of_the_start(self) -> bool:
        """Whether another start mends it, or what it follows from: its own advice would contradict one that helps."""
        return self.follows or any(item.of_the_start for item in DECLARATIONS if item.name == self.name)

    @property
    def where(self) -> str:
        """The block in which it first holds, or the layer, in words."""
        return spoken(self.block, "block") if self.block not in ("", self.layer) else spoken(self.layer)

    @property
    def finding(self) -> str:
        """What was found, where, and how much of what; without the advice."""
        worst = f"{self.value_is} at worst {self.value:.3g} (threshold {self.threshold:g})" if self.threshold else ""
        told = "; ".join(filter(None, [worst.strip(), self.words]))
        return f"{self.name} from {spoken(self.layer)} on{f': {told}' if told else ''}"

    def __str__(self) -> str:
        return f"{self.finding}. {self.advice[:1].upper()}{self.advice[1:]}".removesuffix(". ")


def judge(seen: Observation, thresholds: Thresholds | None = None, facts: Facts | None = None) -> tuple[Verdict, ...]:
    """Verdicts on what was measured, in the order of `DECLARATIONS`; with ``facts`` also those on the start itself."""
    limits, evidence = Thresholds() if thresholds is None else thresholds, Evidence(seen, facts or Facts())
    told = [one for one in DECLARATIONS if one.on_constant_data or not evidence.constant]
    tested = [(declared, declared.test(evidence, limits.of(declared))) for declared in told]
    given = [(declared, finding) for declared, finding in tested if finding is not None]
    # One cure for one network: a law that keeps angles keeps sizes too.
    keeping = any(finding.fault and _KEEPING in declared.code for declared, finding in given)
    found = [_verdict(declared, finding, limits.of(declared), evidence, keeping) for declared, finding in given]
    rows = {declared.name: finding.row for declared, finding in given}
    return tuple(_of_its_cause(verdict, found, rows) for verdict in found)


_CAUSES = {
    "not-finite": ("exploding", "vanishing", "collapse", "rank-loss", "gradient-imbalance", "precision"),
    "bottleneck": ("collapse", "rank-loss", "vanishing", "gradient-imbalance"),
    "token-collapse": ("collapse", "rank-loss"),
}
"""What other verdicts follow from one that no weights mend."""
_OVER_MANY_BLOCKS = ("token-collapse",)
"""What comes about over the depth, so that where it is noticed says little."""


def _of_its_cause(verdict: Verdict, found: list[Verdict], rows: dict[str, int]) -> Verdict:
    """The verdict without anything to type where it begins at or behind another that it follows from."""
    for other in found:
        causes = other.fault and verdict.fault and verdict.name in _CAUSES.get(other.name, ())
        if causes and (other.name in _OVER_MANY_BLOCKS or rows[other.name] <= rows[verdict.name]):
            return replace(verdict, code=None, advice=f"{_FOLLOWS}{other.name}: mend that first")
    return verdict


def _verdict(declared: Declaration, finding: Finding, threshold: float, evidence: Evidence, keeping: bool) -> Verdict:
    row = evidence.seen.rows[finding.row]
    layer, block = finding.layer or row.layer, evidence.blocks[finding.row]
    if finding.layer and row.within != finding.layer:  # it has no row
        block = finding.layer
    fault = finding.fault and not (declared.needs_norms and evidence.facts.idle_norms)
    template = declared.code if finding.code is None else finding.code
    advice = by_hand(declared.name, evidence.seen.rows)
    texts = ("", advice) if advice else (template, declared.advice)
    law = _KEEPING if keeping else _LAW
    template, advice = (filled_in(text.replace(_LAW, law), evidence.seen.rows) for text in texts)
    crossed = threshold if finding.threshold is None else finding.threshold
    code = template.format(layer=finding.layer or row.within) or None if fault else None
    return Verdict(
        declared.name,
        layer,
        finding.value,
        crossed if finding.measured else 0.0,
        declared.source,
        advice if fault else "",
        fault,
        block,
        code,
        finding.words,
    )


DECLARATIONS: tuple[Declaration, ...] = (*START_VERDICTS, *STRUCTURE_VERDICTS, *SIGNAL_VERDICTS)
"""All verdicts, in the order in which they are given."""


def verdict_names() -> tuple[str, ...]:
    """Names of all verdicts, in the order in which they are given."""
    return tuple(declared.name for declared in DECLARATIONS)


_CALLED = dict.fromkeys(("nan", "nans", "inf", "infinite", "infinity", "overflow"), "not-finite")
"""What a verdict is called elsewhere."""


def check_fail_on(wanted: str, option: str = "fail-on") -> None:
    """Refuse a list of names, joined by commas, that holds one nobody knows; ``any`` and ``faults`` are lists too.

    ``option`` is what the caller calls the list.
    """
    known = ("any", "faults", *verdict_names())
    names = [name for part in wanted.split(",") if (name := part.strip())]
    if wanted and not names:
        raise InputError(f"{option} {wanted!r} names no verdict; known: {', '.join(known)}")
    for name in names:
        if name not in known:
            meant = did_you_mean(_CALLED.get(name.lower(), name), known)
            raise InputError(f"{option} {name}: no verdict is called so{meant}; known: {', '.join(known)}")


def failing(verdicts: Iterable[Verdict], wanted: str) -> list[Verdict]:
    """The verdicts that ``wanted`` asks for: ``any`` of them, ``faults``, or names joined by commas.

    >>> failing([], "faults")
    []
    """
    check_fail_on(wanted)
    names = {name.strip() for name in wanted.split(",")}
    return [v for v in verdicts if "any" in names or v.name in names or ("faults" in names and v.fault)]


class Thresholds(Result):
    """When a verdict is given: the defaults of `DECLARATIONS`, or others by name; printed with every report.

    >>> Thresholds(collapse=0.2).collapse, Thresholds().rank_loss
    (0.2, 1.5)
    """

    def __init__(self, **limits: float) -> None:
        defaults = {declared.option: declared.threshold for declared in DECLARATIONS if declared.threshold_is}
        if unknown := sorted(set(limits) - set(defaults)):
            raise InputError(f"no threshold is called {', '.join(unknown)}; known: {', '.join(defaults)}")
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

    def of(self, declared: Declaration) -> float:
        """The threshold of a verdict."""
        return self._limits.get(declared.option, declared.threshold)

    def to_dict(self) -> dict[str, Any]:
        """Name → threshold."""
        return dict(self._limits)
