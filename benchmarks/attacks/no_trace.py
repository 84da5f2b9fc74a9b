"""Every call on every model that keeps something: is all, bit by bit, as it was before?

``python benchmarks/attacks/no_trace.py`` prints one line for each model; the exit code is the number of traces.
"""

import copy
import sys
import warnings
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from stateful import CALLS, MODELS, changed, inputs_of, state

from initscope.errors import InputError


def trace_of(name: str, call: str) -> str:
    """What one call leaves on one model, or what it raises that it should not; empty: nothing."""
    torch.manual_seed(0)
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


def main() -> int:
    """Print the matrix; the number of traces."""
    warnings.simplefilter("ignore")
    found = 0
    for name in MODELS:
        left = {call: trace_of(name, call) for call in CALLS}
        told = {call: what for call, what in left.items() if what}
        found += len(told)
        print(f"{name:28} {told or 'no trace'}", flush=True)
    print(f"{len(MODELS)} models × {len(CALLS)} calls: {found} traces")
    return found


if __name__ == "__main__":
    sys.exit(main())
