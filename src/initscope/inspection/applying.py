"""Apply a suggested fix that changes only weights: what ``--apply`` writes is what the report suggests."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
from torch import nn

import initscope
from initscope._utils.randomness import torch_generator
from initscope.graph.borrowing import copy_of
from initscope.inspection.finding import Fix
from initscope.models.training_loop import seeded

__all__ = ["with_fix"]


def with_fix(model: nn.Module, fix: Fix, seed: int = 0) -> nn.Module | None:
    """A copy of the model after a fix; None where the fix changes more than values of weights, or none of them.

    Parameters
    ----------
    model : nn.Module
        Left as it is.
    fix : Fix
        With an initializer, or with a line that is run as a user would type it.
    seed : int
        Of what is sampled.
    """
    changed = copy_of(model)
    if fix.law is not None:
        filled: nn.Module = fix.law.fill_(changed, generator=torch_generator(seed, "weights"))
        return filled
    names: dict[str, Any] = {"torch": torch, "initscope": initscope, "model": changed}
    with suppress(Exception), torch.no_grad(), seeded(seed):  # lines about data or about the user's own code fail here
        exec(fix.code or "", names)
        before, after = model.state_dict(), names["model"].state_dict()
        same = {name: value.shape for name, value in before.items()} == {
            name: value.shape for name, value in after.items()
        }
        if same and any(not torch.equal(value, after[name]) for name, value in before.items()):
            return changed
    return None
