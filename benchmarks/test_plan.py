"""How long exact answers take, beside the bounds they replace and the simulations they spare.

    pytest benchmarks/test_plan.py

Absolute limits are those of the issue (deep law under 2 s); everything else is a ratio within one run, threads pinned.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from measuring import in_turns

from initscope import plan
from initscope.theory import norms


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_one_layer(benchmark):
    benchmark(norms.relu_norm_failure, 1919, 0.1)


def test_deep_law(benchmark):
    found = benchmark(norms.deep_norm_failure, [1000] * 50, 0.5, 2.0)
    assert found.error < 1e-9
    assert benchmark.stats is None or benchmark.stats["min"] < 2


def test_deep_law_of_unequal_widths(benchmark):
    found = benchmark(norms.deep_norm_failure, list(range(900, 1100, 4)), 0.5, 2.0)
    assert found.error < 1e-9


def test_all_layers(benchmark):
    powers = np.arange(1, 11)
    benchmark(norms.path_norm_failure, [2000] * 10, (0.9**powers).tolist(), (1.1**powers).tolist())


def test_planner(benchmark):
    benchmark(plan.width, eps=0.1, delta=0.05, depth=10, samples=50_000)


def test_deep_law_against_simulation():
    """One exact answer costs less than the ten thousand networks that would give two digits."""
    planned = plan.depth(width=200, eps=0.5, delta=0.5)
    law, drawn = in_turns(
        lambda: norms.deep_norm_failure([200] * 10, 0.5, 2.0), lambda: plan.check(planned, trials=10_000), repeats=2
    )
    print(f"exact {law:.3f} s, simulated {drawn:.3f} s, ratio {drawn / law:.0f}")
    assert law < drawn
