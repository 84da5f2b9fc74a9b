"""How many calls inside the package a command makes, in how many functions and files; and its CPU time.

``python benchmarks/calls.py`` prints it for `inspect` of 40 Linear+ReLU layers and `predict` of two convolutions, with
the files that are called most. Calls are counted by ``sys.setprofile``; each comprehension is one, too. Functions are
the distinct functions, methods and lambdas of the package that ran; comprehensions and generator expressions, which are
parts of a function, are counted separately: Python 3.12 and later run most of them inside of it.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
from torch import nn

import initscope

PACKAGE = str(Path(initscope.__file__).parent)
EXPRESSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")


def calls_of(command: Callable[[], Any]) -> Counter[CodeType]:
    """Calls inside the package, by function."""
    calls: Counter[CodeType] = Counter()

    def count(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            calls[frame.f_code] += 1

    sys.setprofile(count)
    try:
        command()
    finally:
        sys.setprofile(None)
    return calls


def stack(depth: int = 40, width: int = 64) -> nn.Module:
    """Layers of Linear and ReLU, and a last Linear."""
    torch.manual_seed(0)
    layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(width, 10))


def convolutions() -> nn.Module:
    """Two convolutions with ReLUs."""
    return nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU())


def show(name: str, command: Callable[[], Any], most: int = 12, runs: int = 5) -> None:
    """Print what a command calls, after a first run that loads what it needs."""
    command()
    times = []
    for _ in range(runs):
        start = time.process_time()
        command()
        times.append(time.process_time() - start)
    calls = calls_of(command)
    files = Counter[str]()
    for code, count in calls.items():
        files[os.path.relpath(code.co_filename, PACKAGE)] += count
    functions = sum(code.co_name not in EXPRESSIONS for code in calls)
    print(
        f"{name}: {sum(calls.values())} calls, {functions} functions and {len(calls) - functions} comprehensions, "
        f"{len(files)} files, {min(times):.2f} s CPU"
    )
    for file, count in files.most_common(most):
        print(f"  {count:8d} {file}")


def main() -> None:
    """Print both."""
    torch.set_num_threads(1)
    model, x = stack(), torch.randn(256, 64)
    show("inspect of 40 Linear+ReLU layers", lambda: initscope.inspect(model, x))
    images = torch.randn(2, 20, 3, 16, 16)
    show("predict of two convolutions", lambda: initscope.predict(convolutions(), *images))


if __name__ == "__main__":
    main()
