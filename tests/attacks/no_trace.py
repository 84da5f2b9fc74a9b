"""Every call on every model that keeps something: is all, bit by bit, as it was before?

Every function of `stateful.CALLS` runs once on every model of `stateful.MODELS`; COUNT is the number of seeds of the
model's weights. State and version counters must be as before, the model can be copied, and a backward pass runs.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import torch
from attacks.outcomes import Outcome
from stateful import CALLS, MODELS, changed, inputs_of, state

from initscope.errors import InputError

COUNT = 1


def trace_of(name: str, call: str, seed: int = 0) -> str:
    """What one call leaves on one model, or what it raises that it should not; empty: nothing."""
    torch.manual_seed(seed)
    model, x = MODELS[name](), inputs_of(name)
    before = state(model)
    try:
        CALLS[call](model, x)
    except InputError:
        pass  # a refusal
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    left = changed(before, state(model))
    if left:
        return f"changed: {', '.join(left)}"
    if name != "pruned":  # which torch cannot copy
        copy.deepcopy(model)
    runs = name not in ("fails", "sets globals")  # the latter turns gradients off itself
    if runs and any(parameter.requires_grad for parameter in model.parameters()):
        model(x).sum().backward()
    return ""


def run(count: int) -> Iterator[Outcome]:
    """Try all calls on all models with ``count`` seeds."""
    for name in MODELS:
        traces = [(call, trace_of(name, call, seed)) for seed in range(count) for call in CALLS]
        messages = tuple(f"{call}: {trace}" for call, trace in traces if trace)
        yield Outcome(name, len(traces), len(messages), "", messages)
