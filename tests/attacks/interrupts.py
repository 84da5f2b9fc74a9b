"""Ctrl-C at random times, once or twice, while models are inspected: is everything as it was before?

COUNT calls, each of a random function on a random model that keeps something between calls, are struck by one SIGINT
(every other call: by two, at most 10 ms apart) at a random time of the call. Afterwards the state of the model and of
the process (`stateful.state`) is compared with that before the call. A trace, another exception than
KeyboardInterrupt, or an interrupt that arrives in a later call is a failure. There is one line for each function.
"""

from __future__ import annotations

import _thread
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any

import torch
from attacks.outcomes import Outcome
from stateful import CALLS, MODELS, changed, inputs_of, state

from initscope.errors import InputError

COUNT = 500
MODEL_NAMES = (
    *("running mean", "running mean, branching", "clamped data"),
    *("batch norm and dropout", "books", "spectral norm"),
)


def send_interrupts(delays: list[float], sent: list[bool]) -> None:
    """Send an interrupt after each of the delays."""
    for delay in delays:
        time.sleep(delay)
        os.kill(os.getpid(), signal.SIGINT)
    sent.append(True)


def run_call(call: str, model: torch.nn.Module, x: torch.Tensor) -> None:
    """Run one call, which may be refused."""
    with suppress(InputError):
        CALLS[call](model, x)


def raise_in_call(number: int, frame: FrameType | None) -> None:
    """Python's own handler, but only during `run_call`: the attack itself is not to be hit."""
    while frame is not None:
        if frame.f_code is run_call.__code__:
            raise KeyboardInterrupt
        frame = frame.f_back


def interrupted(call: Callable[[], Any], delays: list[float]) -> bool:
    """Run ``call`` and interrupt it; whether an interrupt came out of it. None is left over afterwards."""
    sent: list[bool] = []
    _thread.start_new_thread(send_interrupts, (delays, sent))
    try:
        call()
        left_by_interrupt = False
    except KeyboardInterrupt:
        left_by_interrupt = True
    while not sent:
        time.sleep(0.001)
    time.sleep(0.02)  # for the handler of the last one, which may be sent again a moment later
    return left_by_interrupt


def seconds_of(call: Callable[[], Any]) -> float:
    """Duration of the second call; the first one loads libraries. Raises if an earlier interrupt arrives in it."""
    call()
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def run(count: int, seed: int = 0) -> Iterator[Outcome]:
    """Interrupt ``count`` calls."""
    before_attack = signal.signal(signal.SIGINT, raise_in_call)
    try:
        yield from _run(count, random.Random(seed))
    finally:
        signal.signal(signal.SIGINT, before_attack)


def _run(count: int, rng: random.Random) -> Iterator[Outcome]:
    durations: dict[tuple[str, str], float] = {}
    tries, ended, messages = Counter[str](), Counter[str](), {call: list[str]() for call in CALLS}
    for index in range(count):
        name, call = rng.choice(MODEL_NAMES), rng.choice(list(CALLS))
        torch.manual_seed(0)
        model, x = MODELS[name](), inputs_of(name)
        tries[call] += 1
        try:
            if (name, call) not in durations:
                durations[name, call] = seconds_of(partial(run_call, call, model, x))
            delays = [rng.uniform(0, 1.1 * durations[name, call])]
            if index % 2:
                delays.append(rng.choice([0.0, rng.uniform(0, 0.002), rng.uniform(0, 0.01)]))
            before = state(model)
            ended[call] += interrupted(partial(run_call, call, model, x), delays)
        except KeyboardInterrupt:
            messages[call].append(f"{name}: an earlier interrupt arrived in this call")
        except Exception as error:
            messages[call].append(f"{name}: {type(error).__name__}: {error}")
        else:
            if left := changed(before, state(model)):
                messages[call].append(f"{name}: changed: {', '.join(left)}")
    for call in tries:
        yield Outcome(call, tries[call], len(messages[call]), f"{ended[call]} interrupted", tuple(messages[call]))
