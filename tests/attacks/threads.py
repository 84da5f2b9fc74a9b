"""Nine things that threads do at the same time: does each thread get what it gets alone?

The jobs of a scenario run in one thread each for COUNT seconds; a result that differs from that of the job alone, bit
by bit, or an exception is a failure.
"""

import copy
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from attacks.outcomes import Outcome
from stateful import MODELS, inputs_of
from torch import nn

import initscope
from initscope.errors import InputError
from initscope.measurement import observe

COUNT = 3
Job = Callable[[], str]
"""Does something once; returns what went wrong, or nothing."""


def network(width: int, seed: int) -> nn.Module:
    """Dense layers with norms."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, width), nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, 4)).eval()


def branching(seed: int) -> nn.Module:
    """A model that has to be recorded."""
    torch.manual_seed(seed)
    return MODELS["running mean, branching"]()


def same(run: Callable[[], Any]) -> Job:
    """Whether ``run`` gives always the numbers that it gives alone."""
    expected = run()

    def job() -> str:
        return "" if np.array_equal(run(), expected, equal_nan=True) else "other numbers"

    return job


def forward(model: nn.Module, x: torch.Tensor) -> Job:
    """A plain call."""
    return same(lambda: model(x).detach().numpy())


def observed(model: nn.Module, x: torch.Tensor) -> Job:
    """Cosines and gradients as they are observed."""
    return same(lambda: np.concatenate([(seen := observe(model, x, pairs=4)).cosine, seen.gradient_ratio]))


def predicted(model: nn.Module, x: torch.Tensor) -> Job:
    """Predicted cosines."""
    return same(lambda: initscope.predict(model, x[:4], x[4:]).cosine)


def measured(model: nn.Module, x: torch.Tensor) -> Job:
    """Measured cosines of two draws."""
    return same(lambda: initscope.measure(model, x[:4], x[4:], draws=2).cosine)


def trained(x: torch.Tensor) -> Job:
    """A few steps of training from one start."""
    start = nn.Sequential(nn.Linear(6, 9), nn.BatchNorm1d(9), nn.ReLU(), nn.Linear(9, 4))

    def run() -> Any:
        model = copy.deepcopy(start)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()
        return model[3].weight.detach().numpy()

    return same(run)


def built() -> str:
    """Making modules, and reading their parameters."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Conv1d(2, 2, 1))
    return "" if isinstance(model[0].weight, nn.Parameter) and len(list(model.parameters())) == 4 else "no parameter"


def traced() -> str:
    """Compiling by script looks into modules."""
    found = torch.jit.script(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    return "" if found(torch.ones(1, 3)).shape == (1, 3) else "another shape"


def refused(model: nn.Module, x: torch.Tensor) -> Job:
    """A call of the very model that is inspected: right, or refused."""
    plain = forward(model, x)

    def job() -> str:
        try:
            return plain()
        except InputError:
            return ""

    return job


def scenarios() -> dict[str, list[Job]]:
    """What runs side by side."""
    x = inputs_of("running mean")
    a, b, shared = network(20, 1), network(12, 2), network(16, 3)
    return {
        "one inspects, another model runs": [observed(a, x), forward(b, x)],
        "two observe two models": [observed(a, x), observed(b, x)],
        "two predict two models": [predicted(a, x), predicted(b, x)],
        "two observe one model": [observed(shared, x), observed(shared, x)],
        "two observe models that are recorded": [observed(branching(1), x), observed(branching(2), x)],
        "one measures draws, one predicts": [measured(a, x), predicted(b, x)],
        "one inspects, one trains": [observed(a, x), trained(x)],
        "one predicts, one builds, one scripts": [predicted(a, x), built, traced],
        "one observes a model that another runs": [observed(shared, x), refused(shared, x)],
    }


def side_by_side(jobs: list[Job], seconds: float) -> tuple[int, list[str]]:
    """Number of calls of all jobs side by side, and what went wrong."""
    end, calls, wrong = time.monotonic() + seconds, [0] * len(jobs), list[str]()

    def repeat(index: int) -> None:
        while time.monotonic() < end:
            calls[index] += 1
            try:
                message = jobs[index]()
            except Exception as error:
                message = f"{type(error).__name__}: {error}"
            if message:
                wrong.append(message)

    threads = [threading.Thread(target=repeat, args=(index,)) for index in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(calls), wrong


def run(count: float) -> Iterator[Outcome]:
    """Run every scenario for ``count`` seconds."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        for name, jobs in scenarios().items():
            calls, wrong = side_by_side(jobs, count)
            yield Outcome(name, calls, len(wrong), "", tuple(wrong))
    finally:
        sys.setswitchinterval(interval)
