"""Suggested fixes: applied to a copy of the model, and tried, by the same trial with and without them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

import initscope
from initscope._utils.randomness import torch_generator
from initscope.graph import Inputs
from initscope.graph.borrowing import copy_of
from initscope.inspection._checks import checks
from initscope.inspection.alternatives import WhatIf
from initscope.inspection.finding import Finding, Fix
from initscope.inspection.instruments import Candidate, Trial, compare_trials
from initscope.inspection.instruments.optimizers import for_versions
from initscope.inspection.judging import rank
from initscope.inspection.levels import level_after_fix, levels_of_effects
from initscope.models.training_loop import seeded

__all__ = ["Tries", "after_fixes", "tried_fixes", "with_fix"]

_MOST_TRIES, _PER_FINDING, _SECONDS = 6, 3, 20.0
"""Number of fixes to try in all, and for one finding; and the longest time for all trials."""
_BEFORE = "as it is"


def with_fix(model: nn.Module, fix: Fix, seed: int = 0) -> nn.Module | None:
    """Return a copy of the model after a fix; None if the fix does not change weights, or changes more than weights."""
    names = _applied(model, fix, seed)
    if names is None or names["model"].__class__ is not model.__class__:
        return None
    before, after = model.state_dict(), names["model"].state_dict()
    same = {name: value.shape for name, value in before.items()} == {k: value.shape for k, value in after.items()}
    changes = same and any(not torch.equal(value, after[name]) for name, value in before.items())
    return names["model"] if changes else None


def _applied(model: nn.Module, fix: Fix, seed: int, **names: Any) -> dict[str, Any] | None:
    """Return the ``names`` and ``model``, a copy, after the line of a fix was run as a user would run it.

    None if the line cannot be run here, for instance because it changes the user's forward.
    """
    names |= {"torch": torch, "initscope": initscope, "model": copy_of(model)}
    if fix.initializer is not None:
        fix.initializer.fill_(names["model"], generator=torch_generator(seed, "weights"))
        return names
    with suppress(Exception), torch.no_grad(), seeded(seed):
        exec(fix.code or "", names)
        return names
    return None


@dataclass(frozen=True)
class Tries:
    """What a trial needs: the model, its data and how it is trained; ``trial`` is the trial of the unchanged model."""

    model: nn.Module
    inputs: Any
    targets: Any
    loss: Any
    optimizer: Any
    lr: float | None
    trial: Trial
    seed: int = 0

    def candidate(self, fix: Fix) -> Candidate | None:
        """Return what is trained with a fix; None if its line cannot be run here."""
        optimizer = for_versions(self.optimizer, self.model)
        if fix.initializer is not None:
            return Candidate(
                lambda seed: (_applied(self.model, fix, seed) or {})["model"], optimizer=optimizer, lr=self.lr
            )
        several = isinstance(self.inputs, Inputs)
        data = next(iter((*self.inputs.args, *self.inputs.kwargs.values()))) if several else self.inputs
        names = _applied(self.model, fix, self.seed, data=data, targets=self.targets, lr=None)
        if names is None:
            return None
        changed = None if names["data"] is data or several else names["data"]
        lr = self.lr if names["lr"] is None else names["lr"]
        return Candidate(names["model"], changed, names["targets"], optimizer=optimizer, lr=lr)

    def compared(self, fixes: list[Fix]) -> dict[Fix, Fix]:
        """Return the fixes with the results of trials before and after; fixes that cannot be tried stay unchanged."""
        made = {str(index): candidate for index, fix in enumerate(fixes) if (candidate := self.candidate(fix))}
        if not made:
            return {}
        first = Candidate(self.model, self.inputs, self.targets, self.loss, self.optimizer, self.lr)
        trials = compare_trials({_BEFORE: first} | made, self.inputs, self.targets, seconds=_SECONDS, seed=self.seed)
        before, results = max(0.0, trials[_BEFORE].share or 0.0), {}
        for name in made:
            if (after := trials[name].share) is not None:
                tie, fix = len(trials.ties) > 1 and name in trials.ties, fixes[int(name)]
                results[fix] = replace(fix, before=before, after=after, tie=tie, measure=_SHARE)
        return results


_SHARE = "share of the possible fall of the loss in the same number of steps"


def tried_fixes(findings: tuple[Finding, ...], table: WhatIf | None, tries: Tries) -> dict[str, tuple[Fix, ...]]:
    """Return the fixes of findings by code, after their trials, best first; a line that did not help becomes advice.

    The first alternatives of ``table`` are tried for findings that other weights can fix.
    """
    wanted: dict[str, list[Fix]] = {}
    for finding in findings:
        fix = finding.fix
        if fix is None or not fix.code or finding.level == "info" or finding.caused_by:
            continue
        wanted[finding.code] = [replace(fix, code=line) for line in finding.evidence.get("fixes") or [fix.code]]
        if table is not None and fix.code.startswith("initscope.initializers."):
            several = [item for item in dict.fromkeys((*table.fixes, fix)) if item.code]
            wanted[finding.code] = several[:_PER_FINDING]
    results = tries.compared(list(dict.fromkeys(fix for several in wanted.values() for fix in several))[:_MOST_TRIES])
    done = {code: [results.get(fix, fix) for fix in several] for code, several in wanted.items()}
    return {code: _ranked(several) or tuple(map(_as_advice, several)) for code, several in done.items()}


def _as_advice(fix: Fix) -> Fix:
    return replace(fix, code=None) if fix.tried else fix


def _ranked(tried: list[Fix]) -> tuple[Fix, ...]:
    """Return the fixes that helped, ties in the order of suggestion, then the others, best first."""
    helped = [fix for fix in tried if fix.helped]
    return tuple(sorted(helped, key=lambda fix: 0.0 if fix.tie else -(fix.after or 0.0) + 1.0))


def after_fixes(findings: tuple[Finding, ...], fixes: dict[str, tuple[Fix, ...]], trial: Trial) -> tuple[Finding, ...]:
    """Return the findings with the fixes that were tried, and the levels that follow from the trials."""
    changed = []
    for finding in findings:
        fix = next(iter(fixes.get(finding.code, ())), None)
        finding = finding if fix is None else replace(finding, fix=fix)
        changed.append(level_after_fix(finding, checks(finding.code)[0], fix, trial))
    return tuple(sorted(levels_of_effects(findings, changed), key=rank))
