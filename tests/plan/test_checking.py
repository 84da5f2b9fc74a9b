"""Promises are kept: every planner simulated over a grid, failures never significantly above, exact ones not below.

"Significantly" is 4 σ of the binomial at the promise. With these trials a promise off by a third would show.
"""

import itertools
import math

import numpy as np
import pytest
import torch

from initscope import plan
from initscope.errors import InputError

GRID = list(itertools.product((0.2, 0.4, 0.6), (0.3, 0.1), (1, 3)))


def assert_kept(found, *, exact):
    error = math.sqrt(found.promise * (1 - found.promise) / found.trials)
    assert found.observed <= found.promise + 4 * error
    if exact:
        spread = math.sqrt(found.predicted * (1 - found.predicted) / found.trials)
        assert abs(found.observed - found.predicted) < 4 * spread


@pytest.mark.parametrize(("eps", "delta", "depth"), GRID)
def test_width(eps, delta, depth):
    for event in ("last-layer", "all-layers"):
        planned = plan.width(eps=eps, delta=delta, depth=depth, event=event)
        assert_kept(plan.check(planned, trials=1500), exact=True)


@pytest.mark.parametrize(("eps", "samples"), [(0.3, 2), (0.5, 10)])
def test_width_of_several_samples(eps, samples):
    planned = plan.width(eps=eps, delta=0.2, depth=2, samples=samples)
    assert_kept(plan.check(planned, trials=400), exact=False)
    assert plan.check(planned, answer="paper", trials=50).failures == 0


@pytest.mark.parametrize(("eps", "delta", "width"), list(itertools.product((0.3, 0.5, 0.9), (0.3, 0.1), (60, 200))))
def test_depth(eps, delta, width):
    planned = plan.depth(width=width, eps=eps, delta=delta)
    if planned.exact:
        assert_kept(plan.check(planned, trials=1500), exact=True)
    else:
        with pytest.raises(InputError, match="nothing to simulate"):
            plan.check(planned)


@pytest.mark.parametrize(("eps", "delta", "pairs"), GRID)
def test_bits(eps, delta, pairs):
    planned = plan.bits(eps=eps / 2, delta=delta, pairs=pairs)
    assert_kept(plan.check(planned, trials=2000), exact=pairs == 1)
    angled = plan.bits(eps=eps / 2, delta=delta, pairs=pairs, angle=1.0)
    assert_kept(plan.check(angled, trials=2000), exact=pairs == 1)


@pytest.mark.parametrize(("eps", "delta", "samples"), list(itertools.product((0.2, 0.4, 0.6), (0.3, 0.1), (2, 8))))
def test_projection(eps, delta, samples):
    planned = plan.projection(eps=eps, delta=delta, samples=samples)
    assert_kept(plan.check(planned, trials=600), exact=samples == 2)


@pytest.mark.parametrize(("eps", "delta", "dim"), list(itertools.product((0.4, 0.6), (0.3, 0.1), (1, 3, 6))))
def test_subspace(eps, delta, dim):
    planned = plan.subspace(dim=dim, eps=eps, delta=delta)
    assert_kept(plan.check(planned, trials=40), exact=False)


def test_deep_subspace():
    assert_kept(plan.check(plan.subspace(dim=2, eps=0.5, delta=0.2, depth=2), trials=10), exact=False)


@pytest.mark.parametrize(("eps", "delta", "seed"), list(itertools.product((0.1, 0.2), (0.3, 0.1, 0.05), (0, 1))))
def test_filters(eps, delta, seed):
    """No allowance for the pilot's own error: the promise itself, at 4 σ."""
    generator = np.random.default_rng(seed)
    x = generator.random((2, 8, 8))
    y = np.clip(x + generator.standard_normal((2, 8, 8)), 0, 1)
    planned = plan.filters(x, y, kernel_size=3, eps=eps, delta=delta)
    found = plan.check(planned, trials=2000, images=(x, y))
    error = math.sqrt(delta * (1 - delta) / found.trials)
    assert found.observed <= delta + 4 * error


@pytest.mark.parametrize(("eps", "depth"), list(itertools.product((0.3, 0.5), (2, 4))))
def test_gradients(eps, depth):
    """Real networks, where the independence of theorem 3 is only approximate: the promise is kept all the same."""
    planned = plan.width(eps=eps, delta=0.2, depth=depth, quantity="gradients")
    found = plan.check(planned, trials=600)
    assert found.observed <= 0.2 + 4 * math.sqrt(0.16 / found.trials)


def test_a_false_promise_is_caught():
    """The check bites: half of the exact width breaks the promise."""
    import dataclasses

    planned = plan.width(eps=0.3, delta=0.05)
    halved = dataclasses.replace(planned, exact=planned.exact // 2)
    found = plan.check(halved, trials=1000)
    assert not found.holds
    assert found.table()[0]["result"] == "violated"


def test_check_is_reproducible_and_says_what_it_needs():
    planned = plan.width(eps=0.4, delta=0.1)
    assert plan.check(planned, trials=100, seed=3) == plan.check(planned, trials=100, seed=3)
    with pytest.raises(InputError, match="answer = 'sharp'"):
        plan.check(planned, answer="sharp")
    x = np.random.default_rng(0).random((1, 6, 6))
    with pytest.raises(InputError, match="images"):
        plan.check(plan.filters(x, x[:, ::-1], kernel_size=3, eps=0.2, delta=0.1, pilot=500))


def test_norm_ratios_against_autograd():
    """Forward norms and per-sample gradient norms of a small network, by torch's own differentiation."""
    generator = torch.Generator().manual_seed(0)
    sizes = [7, 9, 8, 6]
    layers = [
        torch.randn(after, before, generator=generator, dtype=torch.float64)
        for before, after in itertools.pairwise(sizes)
    ]
    head = torch.randn(4, 6, generator=generator, dtype=torch.float64)
    inputs = torch.randn(5, 7, generator=generator, dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 3, 0])
    found = plan.norm_ratios(layers, head, inputs, labels)
    for sample in range(5):
        weights = [layer.clone().requires_grad_() for layer in layers]
        hidden, pre = inputs[sample], []
        norms = []
        for weight in weights:
            pre.append(weight @ hidden)
            hidden = pre[-1].relu()
            norms.append(hidden.norm())
        loss = torch.nn.functional.cross_entropy((head @ hidden)[None], labels[sample : sample + 1])
        found_gradients = torch.autograd.grad(loss, [*weights, *pre])
        gradients, errors = found_gradients[:3], found_gradients[3:]
        delta = errors[-1]
        scale = inputs[sample].norm()
        for layer in range(3):
            assert float(found.activations[layer, sample]) == pytest.approx(float(norms[layer].detach() / scale))
            expected = gradients[layer].norm() / (delta.norm() * scale)
            assert float(found.gradients[layer, sample]) == pytest.approx(float(expected))
            expected = errors[layer].norm() / delta.norm()
            assert float(found.errors[layer, sample]) == pytest.approx(float(expected))


def test_extremes_against_a_fine_grid():
    """In the plane the extremes can be read off: 10⁴ directions."""
    weights = np.random.default_rng(1).standard_normal((30, 2))
    angles = np.linspace(0, 2 * np.pi, 10_000)
    norms = np.linalg.norm(np.maximum(weights @ np.stack([np.cos(angles), np.sin(angles)]), 0), axis=0)
    low, high = plan.subspace_extremes(weights, steps=2000)
    assert low == pytest.approx(norms.min(), rel=1e-3)
    assert high == pytest.approx(norms.max(), rel=1e-4)


def test_a_result_needs_trials():
    """No failure in 50 trials excludes neither the promise of 0.05 nor a width that is twice too large."""
    planned = plan.width(eps=0.3, delta=0.05)

    def result(answer, trials):
        return plan.check(planned, answer=answer, trials=trials).table()[0]["result"]

    assert result("paper", 50) == "undecided at 50 trials"
    assert result("paper", 4000) == "holds"
    assert result("exact", 4000) == "sharp"
