"""The level of a finding, which is decided only here.

An error must do harm:

1. A check declares the level that its finding has without a trial: ``error`` for what breaks the signal, the gradients,
   the data or the loss, ``warning`` for structural facts (two linear layers in a row, frozen or equal layers).
2. If the trial learns, the finding gets the milder level that the check declares as ``learning``: errors become
   warnings, structural facts become info. A structural fact whose fix can be tried stays a warning until then.
3. If the trial learns and the fix of a finding does not help, or cannot be tried, the finding gets the level declared
   as ``learning``. If the model learns much faster with the fix, and the fix changes only what the finding is about,
   the finding gets the level declared as ``stuck``, or the level that it has without a trial.
4. If the trial does not learn, or its fix is seen to help where it does not, a warning becomes what the check declares
   as ``stuck``, and an error if only the model with the fix learns; but not while an error outside of the trial
   explains the harm. While the loss still falls, an error whose fix was tried and did not help is a warning.
5. A cause is as bad as the worst finding that follows from it. What follows from a finding that a trial made milder is
   no worse than it.
6. Findings that are meaningless while batch norms have seen no data are info.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from initscope.inspection._checks import Check
from initscope.inspection._checks.declaration import Hit
from initscope.inspection.evidence import Evidence
from initscope.inspection.finding import LEVELS, Finding, Fix
from initscope.inspection.instruments import Trial
from initscope.inspection.instruments.curves import LEARNS

__all__ = ["level_after_fix", "levelled", "levels_of_causes", "levels_of_effects"]

_CLEARLY_LESS = 0.65
"""Share of what a model learns with a fix, below which it learns far less without the fix."""
_GLOBAL = "initscope.initializers."
"""Prefix of fixes that change more than what a check found."""
_UNFREEZING = ("IS309",)
"""Findings whose fix adds trainable weights, with which every model learns faster."""


def levelled(hits: Sequence[tuple[Check, Hit]], evidence: Evidence) -> list[tuple[Check, Hit]]:
    """Return the hits with their levels, as far as head and trial decide them."""
    hits = [(item, _by_trial(item, hit, evidence)) for item, hit in hits]
    explained = any(hit.level == "error" and not item.code.startswith("IS4") for item, hit in hits)
    return [(item, _stuck(item, hit)) for item, hit in hits] if evidence.harm == "proven" and not explained else hits


def _by_trial(item: Check, hit: Hit, evidence: Evidence) -> Hit:
    level = hit.level or item.level
    if item.needs_norms and evidence.facts.idle_norms:
        return replace(hit, level="info")
    if evidence.harm == "none" and item.learning is not None:
        tried_next = bool(item.fix or hit.fix) and not item.fix.startswith(_GLOBAL)  # its fix has the last word
        level = max(level, "warning" if tried_next else item.learning, key=LEVELS.index)
    return replace(hit, level=level)


def _stuck(item: Check, hit: Hit) -> Hit:
    return replace(hit, level=item.stuck) if item.stuck is not None and hit.level == "warning" else hit


def level_after_fix(finding: Finding, declared: Check, fix: Fix | None, trial: Trial) -> Finding:
    """Return a finding with the level that the trial of its fix decides."""
    level = finding.level
    helped = fix is not None and (_much_faster(fix) if trial.prompt else fix.helped)
    reached = fix is not None and _much_faster(fix) and (fix.after or 0.0) >= LEARNS
    decisive = reached and trial.outcome != "learns" and declared.learning is not None
    own_fix = fix is not None and _is_own(fix, finding)
    serious = declared.stuck or (declared.level if decisive or trial.prompt else None)
    if level == "warning" and helped and serious and (own_fix or not trial.prompt):
        level = serious
    elif level == "warning" and trial.prompt and declared.learning:
        level = declared.learning
    elif level == "error" and fix is not None and fix.tried and not helped and declared.learning:
        level = "warning" if trial.outcome == "still falling" else level
    return replace(finding, level=level)


def _is_own(fix: Fix, finding: Finding) -> bool:
    """Return whether a fix changes only what was found; new weights everywhere, for example, change more."""
    everywhere = fix.initializer is not None or (fix.code or "").startswith(_GLOBAL)
    return not everywhere and finding.code not in _UNFREEZING


def _much_faster(fix: Fix) -> bool:
    """Return whether the model learns far less without the fix at the step where it has nearly learned with it."""
    return fix.helped and (fix.before or 0.0) < _CLEARLY_LESS * (fix.after or 0.0)


def levels_of_effects(before: Sequence[Finding], after: Sequence[Finding]) -> list[Finding]:
    """Return the findings ``after`` the trials of fixes; effects of a finding that became milder become milder too."""
    levels = {finding.code: finding.level for finding in after}
    pairs = zip(before, after, strict=True)
    milder = {old.code for old, new in pairs if LEVELS.index(new.level) > LEVELS.index(old.level)}
    changed = list(after)
    for index, finding in enumerate(after):
        if finding.caused_by in milder:
            cause = levels[finding.caused_by]
            level = max(finding.level, cause, key=LEVELS.index)
            changed[index] = replace(finding, level=level, caused_by=None if cause == "info" else finding.caused_by)
    return changed


def levels_of_causes(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings; each cause gets the level of its worst effect."""
    worst = {finding.code: finding.level for finding in findings}
    for _ in findings:  # chains of causes
        for finding in findings:
            if finding.caused_by is not None:
                worst[finding.caused_by] = min(worst[finding.caused_by], worst[finding.code], key=LEVELS.index)
    return [replace(finding, level=worst[finding.code]) for finding in findings]
