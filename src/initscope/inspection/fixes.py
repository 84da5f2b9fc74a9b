"""Suggested fixes, each tried: the same trial with and without the line that is suggested."""

from __future__ import annotations

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
from initscope.inspection.instruments import Budget, Trial, run_trial
from initscope.inspection.judging import rank

__all__ = ["Tries", "after_fixes", "tried_fixes"]

_MOST_TRIES, _PER_FINDING, _SECONDS = 6, 3, 5.0
"""Fixes that are tried in all, and for one finding, and the time of each trial at most."""
_TIE = 0.1
"""Difference of shares that one batch cannot tell from none."""


@dataclass(frozen=True)
class Tries:
    """What a trial needs: the model, its data and how it is trained; ``trial`` is that of the model as it is."""

    model: nn.Module
    inputs: Any
    targets: Any
    loss: Any
    optimizer: Any
    lr: float | None
    trial: Trial
    seed: int = 0

    def after(self, fix: Fix) -> Trial | None:
        """The trial with a fix applied to copies; None where its line cannot be run here."""
        model, inputs, targets = copy_of(self.model), self.inputs, self.targets
        try:
            with torch.no_grad():
                if fix.law is not None:
                    fix.law.fill_(model, generator=torch_generator(self.seed, "weights"))
                else:
                    data = inputs.args[0] if isinstance(inputs, Inputs) else inputs
                    names = {"model": model, "torch": torch, "initscope": initscope, "data": data, "targets": targets}
                    exec(fix.code or "", names)  # the line that is suggested, as a user would run it
                    model, targets = names["model"], names["targets"]
                    inputs = inputs if isinstance(inputs, Inputs) else names["data"]
        except Exception:  # a line for code that we do not have, such as the user's own forward
            return None
        steps = max(20, len(self.trial.losses))
        budget = Budget(seconds=_SECONDS, passes=steps)
        optimizer = self.optimizer if not isinstance(self.optimizer, torch.optim.Optimizer) else type(self.optimizer)
        lr = self.lr if self.lr is not None or optimizer is self.optimizer else self.trial.rate
        options: dict[str, Any] = {"budget": budget, "seed": self.seed, "controls": False}
        return run_trial(model, inputs, targets, self.loss, optimizer, lr, **options)


def tried_fixes(findings: tuple[Finding, ...], table: WhatIf | None, tries: Tries) -> dict[str, tuple[Fix, ...]]:
    """By the code of a finding its fixes after their trials, best first; a line that did not help becomes advice.

    The first alternatives of ``table`` are tried for findings that are fixed by other weights.
    """
    done: dict[str, tuple[Fix, ...]] = {}
    results: dict[Fix, Fix] = {}
    for finding in findings:
        fix = finding.fix
        if fix is None or not fix.code or finding.level == "info" or finding.caused_by:
            continue
        candidates = [fix]
        if table is not None and fix.code.startswith("initscope.initializers."):
            candidates = [item for item in dict.fromkeys((*table.fixes, fix)) if item.code][:_PER_FINDING]
        for candidate in candidates:
            if candidate not in results and len(results) < _MOST_TRIES:
                results[candidate] = _tried(candidate, tries, by_rate=finding.code in ("IS403", "IS404"))
        tried = [results[item] for item in candidates if item in results]
        done[finding.code] = _ranked(tried) or tuple(replace(item, code=None) if item.tried else item for item in tried)
    return done


def _ranked(tried: list[Fix]) -> tuple[Fix, ...]:
    """Those that helped: first the ties, in the order in which they were suggested, then the others."""
    helped = [fix for fix in tried if fix.helped]
    best = max((fix.after or 0.0 for fix in helped), default=0.0)
    ties = [fix for fix in helped if best - (fix.after or 0.0) < _TIE]
    marked = [replace(fix, tie=True) for fix in ties] if len(ties) > 1 else ties
    return (*marked, *(replace(fix, tie=False) for fix in helped if fix not in ties))


def _tried(fix: Fix, tries: Tries, *, by_rate: bool) -> Fix:
    """The fix with what the trials reached; as it is where there is nothing to compare."""
    if by_rate:  # the trial of the model as it is has tried other rates
        reached = tries.trial.learn
    else:
        after = tries.after(fix)
        reached = None if after is None else after.use
    if reached is None:
        return fix
    before = max(0.0, tries.trial.use or 0.0)
    return replace(fix, before=before, after=reached, measure="share of the possible fall of the loss")


def after_fixes(findings: tuple[Finding, ...], fixes: dict[str, tuple[Fix, ...]], trial: Trial) -> tuple[Finding, ...]:
    """Findings with the fixes that were tried; a structural fact hurts if its fix clearly helps, else it does not.

    What the check itself declares for a trial that learns, or is stuck, is the level it gets.
    """
    changed = []
    for finding in findings:
        fix, declared = next(iter(fixes.get(finding.code, ())), None), checks(finding.code)[0]
        if fix is not None:
            finding = replace(finding, fix=fix)
        if fix is not None and fix.tried and finding.level == "warning":
            if fix.helped and declared.stuck and trial.outcome != "learns":
                finding = replace(finding, level=declared.stuck)
            elif not fix.helped and declared.learning and trial.outcome == "learns":
                finding = replace(finding, level=declared.learning)
        changed.append(finding)
    return tuple(sorted(changed, key=rank))
