"""`judge`: run the checks on measurements; set levels by harm, order root causes first, list what was not checked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from initscope.geometry import spoken
from initscope.inspection._checks import Check, Thresholds, checks as all_checks
from initscope.inspection._checks.declaration import Hit
from initscope.inspection.evidence import Evidence
from initscope.inspection.facts import Facts
from initscope.inspection.finding import LEVELS, Finding, Fix, NotChecked
from initscope.inspection.levels import levelled, levels_of_causes
from initscope.inspection.suitable_initializers import by_hand, filled_in
from initscope.measurement.observation import Observation
from initscope.results import plain

__all__ = ["Checked", "judge", "rank", "run_checks"]

_ROOTS = ("IS101", "IS102", "IS205", "IS6", "IS2", "IS3", "IS8", "IS5", "IS1", "IS4", "IS7")
"""Families, from root causes to symptoms."""
_ANYWHERE = ("IS112", "IS2", "IS3", "IS4", "IS6")
"""Causes that explain a symptom anywhere in the network."""
_BACKWARD = ("IS107", "IS108", "IS2", "IS4")
"""Symptoms that appear upstream of their cause, or in the loss."""


class Checked(NamedTuple):
    """The findings, what could not be checked, and how many checks ran."""

    findings: tuple[Finding, ...]
    not_checked: tuple[NotChecked, ...]
    ran: int


def judge(seen: Observation, thresholds: Thresholds | None = None, facts: Facts | None = None) -> tuple[Finding, ...]:
    """Return the findings, the worst and root causes first; with ``facts``, run all checks.

    Parameters
    ----------
    seen : Observation
        What `initscope.measurement.observe` recorded.
    thresholds : Thresholds, optional
        Bounds of the checks; default: those of their declarations.
    facts : Facts, optional
        What is known of weights, data and one training step.

    Returns
    -------
    tuple of Finding
        Sorted by level, causes before their symptoms.
    """
    return run_checks(Evidence(seen, facts or Facts()), thresholds or Thresholds()).findings


def run_checks(evidence: Evidence, limits: Thresholds, checks: Sequence[Check] | None = None) -> Checked:
    """Run ``checks``, or all, on the evidence."""
    checks = all_checks() if checks is None else checks
    missing = evidence.missing
    ready = [item for item in checks if missing.keys().isdisjoint(item.reads)]
    applicable = [item for item in ready if item.on_constant_data or not evidence.constant]
    tested = [(item, item.test(evidence, limits.of(item))) for item in applicable]
    hits = levelled([(item, hit) for item, hit in tested if hit is not None], evidence)
    # One fix for one network: a distribution that preserves angles preserves scales too.
    preserving = any("{keeping}" in item.fix for item, hit in hits if hit.level != "info")
    findings = [_finding(item, hit, limits, evidence, preserving) for item, hit in hits]
    hit_of = {item.code: hit for item, hit in hits}
    caused = [replace(finding, caused_by=_cause(finding, item, findings, hit_of))
              for finding, (item, _) in zip(findings, hits, strict=True)]  # fmt: skip
    ordered = tuple(sorted(levels_of_causes(caused), key=rank))
    return Checked(ordered, _not_checked(evidence, checks), len(ready))


def rank(finding: Finding) -> tuple[int, bool, int, str]:
    """Return the sort key of a finding: worst first, root causes before their symptoms."""
    root = next(index for index, prefix in enumerate(_ROOTS) if finding.code.startswith(prefix))
    return LEVELS.index(finding.level), finding.caused_by is not None, root, finding.code


def _cause(finding: Finding, item: Check, findings: Sequence[Finding], hits: dict[str, Hit]) -> str | None:
    """Return the code of the first finding that explains this one: upstream, at the same row or in the same layer."""
    effect = hits[finding.code]
    for prefix in item.follows:
        for other in findings:
            hit = hits[other.code]
            free = other.code.startswith(_ANYWHERE) or finding.code.startswith(_BACKWARD)
            upstream = _share_layers(effect, hit) if prefix in item.local else free or hit.row <= effect.row
            if other.code.startswith(prefix) and other.code != finding.code and other.level != "info" and upstream:
                return other.code
    return None


def _share_layers(first: Hit, second: Hit) -> bool:
    """Return whether two hits share a layer, or one is about a part of the other's module."""
    return any(a == b or a.startswith(f"{b}.") or b.startswith(f"{a}.") for a in first.layers for b in second.layers)


def _finding(item: Check, hit: Hit, limits: Thresholds, evidence: Evidence, preserving: bool) -> Finding:
    row = evidence.seen.rows[hit.row]
    threshold = hit.threshold if hit.threshold is not None else limits.of(item) if item.unit else None
    named = {"layer": hit.layer or row.within or row.layer, "at": _title(hit, evidence)}
    facts = named | {"value": hit.value, "threshold": threshold} | hit.facts
    return Finding(
        item.code, item.name, hit.level or item.level, hit.layer or row.layer, hit.value, threshold,
        _sentence(item.message, facts), _fix(item, hit, evidence, facts, preserving),
        evidence=plain(hit.facts),
    )  # fmt: skip


def _title(hit: Hit, evidence: Evidence) -> str:
    """Return the layer of a hit for display: the op of a module, or the name of what has no op."""
    row = evidence.seen.rows[hit.row]
    return row.position if hit.layer in ("", row.layer) else spoken(hit.layer)


def _sentence(template: str, facts: Mapping[str, object]) -> str:
    """Return the message with numbers and names; a module or function name in front is not capitalized."""
    text = template.format(**facts)
    is_name = template.startswith("{") and re.match(r"[a-z]+ \d", text) is None  # "layer 3" is not a name
    return text if is_name else text[:1].upper() + text[1:]


def _fix(item: Check, hit: Hit, evidence: Evidence, facts: dict[str, object], preserving: bool) -> Fix | None:
    """Return the declared line and advice, with initializers that suit the network."""
    if not item.advice or hit.level == "info":
        return None
    rows = evidence.seen.rows
    manual = by_hand(item.name, rows)
    code, advice = ("", manual) if manual else (item.fix if hit.fix is None else hit.fix, item.advice)
    initializer = "{keeping}" if preserving else "{initializer}"
    code, advice = (
        filled_in(text.replace("{initializer}", initializer), rows).format(**facts) for text in (code, advice)
    )
    return Fix(item.name, code or None, advice)


def _not_checked(evidence: Evidence, checks: Sequence[Check]) -> tuple[NotChecked, ...]:
    """Return the missing instruments, each with the checks that could not run without it."""
    missing, groups = evidence.missing, dict[tuple[str, str, str], list[str]]()
    for item in checks:
        for name, reason in missing.items():
            if name in item.reads:
                groups.setdefault(reason, []).append(item.code)
                break
    return tuple(NotChecked(*why, tuple(codes)) for why, codes in groups.items())
