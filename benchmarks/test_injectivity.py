"""What is promised to be fast, timed: exact decisions, thresholds, the Euler sum. Pin the threads to one for ratios."""

from __future__ import annotations

import numpy as np
import pytest

from initscope.injectivity import decide, verify
from initscope.theory.injectivity import euler_crossing, parisi, parisi_grid
from initscope.theory.injectivity.branching import branch

branch(np.vstack([np.eye(2), -np.eye(2)]))  # compile, or load the compiled code, before the clock starts


def layer(m, n, seed=0):
    return np.random.default_rng(seed).standard_normal((m, n))


@pytest.mark.parametrize(("n", "m", "promised"), [(4, 24, 0.1), (5, 30, 1.0), (6, 54, 10.0), (8, 64, 300.0)])
def test_exact_decision(benchmark, n, m, promised):
    """The verdict with its proof, verified."""
    weight = layer(m, n)
    decision = benchmark.pedantic(lambda: decide(weight, method="branching"), rounds=3, iterations=1)
    assert decision.injective is not None
    assert verify(weight, None, decision)
    benchmark.extra_info["promised seconds"] = promised


def test_branching_against_visiting_every_vertex(benchmark):
    """n = 6, m = 40: the tree against all C(40, 5) vertices counted in one vectorised pass."""
    from itertools import combinations

    weight = layer(40, 6)

    def every_vertex():
        fewest = 40
        chosen = np.array(list(combinations(range(40), 5)))
        for part in np.array_split(chosen, 64):
            rays = np.linalg.svd(weight[part], full_matrices=True)[2][:, -1]
            products = rays @ weight.T
            np.put_along_axis(products, part, 0.0, axis=1)
            fewest = min(fewest, (products > 0).sum(axis=1).min(), (products < 0).sum(axis=1).min())
        return fewest >= 6

    import time

    start = time.perf_counter()
    expected = every_vertex()
    slow = time.perf_counter() - start
    outcome = benchmark(lambda: branch(weight))
    assert outcome.injective is bool(expected)
    benchmark.extra_info["times faster"] = round(slow / benchmark.stats.stats.median)


def test_full_rsb_threshold(benchmark):
    """Promised: error below 1e-6 in under 20 s."""

    def fresh():
        parisi.optimum.cache_clear()
        return parisi.full_rsb_threshold()

    assert benchmark.pedantic(fresh, rounds=1, iterations=1).error < 1e-6


def test_energy_curve(benchmark):
    """Promised: 20 values in under 2 minutes."""

    def curve():
        parisi.optimum.cache_clear()
        return [parisi.ground_state_energy(alpha).value for alpha in np.linspace(2.5, 12, 20)]

    energies = benchmark.pedantic(curve, rounds=1, iterations=1)
    assert energies == sorted(energies)


def test_grid_method(benchmark):
    """Promised: 200 levels in under 60 s."""

    def fresh():
        parisi_grid.solve_grid.cache_clear()
        return parisi_grid.solve_grid(6.0, 200)

    assert benchmark.pedantic(fresh, rounds=1, iterations=1).energy(6.0) == pytest.approx(0.80538, abs=1e-5)


def test_euler_crossing(benchmark):
    """Promised: n = 800 exact, with its crossing, in under 30 s."""
    assert benchmark.pedantic(lambda: euler_crossing(800), rounds=1, iterations=1) == pytest.approx(8.312, abs=1e-3)
