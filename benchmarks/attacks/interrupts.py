"""Ctrl-C at random times, once or twice, while models are inspected: is everything as it was before?

``python benchmarks/attacks/interrupts.py [COUNT]`` (2,000 of them by default, a few minutes) prints how many struck
during a call, and exits with the number of traces.
"""

import _thread
import os
import random
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from stateful import CALLS, MODELS, changed, inputs_of, state

from initscope.errors import InputError

NAMES = ("running mean", "running mean, branching", "clamped data", "batch norm and dropout", "books", "spectral norm")


def strike(delays: list[float], done: list[bool]) -> None:
    """Send an interrupt after each of the delays."""
    for delay in delays:
        time.sleep(delay)
        os.kill(os.getpid(), signal.SIGINT)
    done.append(True)


def run(call: str, model: torch.nn.Module, x: torch.Tensor) -> None:
    """One call, which may be refused."""
    with suppress(InputError):
        CALLS[call](model, x)


def strike_down(number: int, frame: FrameType | None) -> None:
    """Python's own handler, but only during `run`: the attack itself is not to be hit."""
    while frame is not None:
        if frame.f_code is run.__code__:
            raise KeyboardInterrupt
        frame = frame.f_back


def interrupted(call: Callable[[], Any], delays: list[float]) -> bool:
    """Run ``call`` under fire; whether an interrupt came out of it. None is left over afterwards."""
    done: list[bool] = []
    _thread.start_new_thread(strike, (delays, done))
    try:
        call()
        out = False
    except KeyboardInterrupt:
        out = True
    while not done:
        time.sleep(0.001)
    time.sleep(0.002)  # for the handler of the last one
    return out


def attack(count: int, seed: int = 0) -> tuple[int, Counter[str]]:
    """How many of ``count`` calls were interrupted, and the traces that were left, by what they are."""
    signal.signal(signal.SIGINT, strike_down)
    rng, left, struck = random.Random(seed), Counter[str](), 0
    length: dict[tuple[str, str], float] = {}
    for index in range(count):
        name, call = rng.choice(NAMES), rng.choice(list(CALLS))
        torch.manual_seed(0)
        model, x = MODELS[name](), inputs_of(name)
        if (name, call) not in length:
            run(call, model, x)
            start = time.perf_counter()
            run(call, model, x)
            length[name, call] = time.perf_counter() - start
        delays = [rng.uniform(0, 1.1 * length[name, call])]
        if index % 2:
            delays.append(rng.choice([0.0, rng.uniform(0, 0.002), rng.uniform(0, 0.01)]))
        before = state(model)
        struck += interrupted(partial(run, call, model, x), delays)
        left.update(f"{name}, {call}: {what}" for what in changed(before, state(model)))
    return struck, left


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    hits, traces = attack(wanted)
    print(f"{wanted} calls, {hits} interrupted, {sum(traces.values())} traces")
    for what, times in traces.most_common(20):
        print(f"  {times} × {what}")
    sys.exit(min(100, sum(traces.values())))
