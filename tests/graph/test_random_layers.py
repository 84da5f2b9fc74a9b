"""Random layers are off like dropout, and what else a forward draws is told in the row that reads it."""

import numpy as np
import pytest
import torch
from torch import nn

import initscope
from initscope.graph import bind, trace
from initscope.graph.borrowing import without_dropout
from initscope.measurement import observe


def by_bernoulli(x, p, training):
    """Stochastic depth as in timm."""
    if not training:
        return x
    mask = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(1 - p)
    return x * mask.div_(1 - p)


def by_uniform(x, p, training):
    """Stochastic depth as in older code."""
    if not training:
        return x
    mask = (1 - p + torch.rand((x.shape[0],) + (1,) * (x.ndim - 1), dtype=x.dtype)).floor_()
    return x.div(1 - p) * mask


class DropPath(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x, 0.5, self.training)


class Residual(nn.Module):
    """Skips over layers that are dropped by a module or by a call."""

    def __init__(self, drop, called=None, branching=False):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(64, 64) for _ in range(3)])
        self.drop, self.called, self.branching = drop, called, branching

    def forward(self, x):
        if self.branching and x.sum() > 1e9:
            x = -x
        for layer in self.layers:
            h = layer(x).relu()
            x = x + (self.drop(h) if self.called is None else self.called(h, 0.5, self.training))
        return x


@pytest.mark.parametrize("branching", [False, True])
@pytest.mark.parametrize("kind", [by_bernoulli, by_uniform])
def test_stochastic_depth_as_a_module_is_off_in_training_mode(kind, branching):
    torch.manual_seed(0)
    model = Residual(DropPath(kind), branching=branching).train()
    x, y = torch.randn(2, 8, 64)
    expected = torch.cosine_similarity(model.eval()(x), model(y)).detach().numpy()
    model.train()
    assert not torch.equal(model(x), model(x))
    measured = initscope.measure(model, x, y, draws=0)
    seen = observe(model, torch.cat([x, y]), pairs=8, shuffle=False)
    np.testing.assert_allclose(measured.cosine[-1], expected, atol=1e-5)
    np.testing.assert_allclose(seen.cosine[-1], expected, atol=1e-5)
    assert not {row.kind for row in measured.rows} & {"new_empty", "bernoulli_", "rand", "floor_"}
    assert [row.layer for row in initscope.predict(model, x, y).rows] == [row.layer for row in measured.rows]
    assert all(module.training for module in model.modules())


@pytest.mark.parametrize("branching", [False, True])
def test_masks_by_bernoulli_are_their_mean_and_no_row(branching):
    torch.manual_seed(0)
    model = Residual(None, by_bernoulli, branching).train()
    x, y = torch.randn(2, 8, 64)
    expected = torch.cosine_similarity(model.eval()(x), model(y)).detach().numpy()
    model.train()
    measured = initscope.measure(model, x, y, draws=0)
    np.testing.assert_allclose(measured.cosine[-1], expected, atol=1e-5)
    assert not {row.kind for row in measured.rows} & {"new_empty", "bernoulli_"}
    assert not any("draws in each run" in row.note for row in measured.rows)
    predicted = initscope.predict(model, x, y)
    redrawn = initscope.measure(model, x, y, draws=32)
    assert abs(predicted.cosine[-1].mean() - redrawn.cosine[-1].mean()) < 0.05
    assert bool(trace(model, x).fallback) == branching


@pytest.mark.parametrize("branching", [False, True])
def test_unknown_random_calls_are_told_in_the_row_that_reads_them(branching):
    torch.manual_seed(0)
    model = Residual(None, by_uniform, branching).train()
    x, y = torch.randn(2, 8, 64)
    for rows in (
        initscope.measure(model, x, y, draws=0).rows,
        observe(model, torch.cat([x, y]), pairs=8).rows,
        initscope.predict(model, x, y).rows,
    ):
        told = [row.layer for row in rows if "draws in each run (rand)" in row.note]
        assert told == ["mul", "mul (2)", "mul (3)"]


def test_numbers_drawn_while_tracing_are_not_kept_as_constants():
    class Noisy(nn.Module):
        def forward(self, x):
            return x + torch.randn(6)

    model, x = Noisy(), torch.zeros(3, 6)
    traced = trace(model, x)
    assert "which a trace would record" in traced.fallback
    assert "(randn)" in traced.nodes[1].note
    first, second = (traced.execute(bind(model, x), lambda *call: None) for _ in range(2))
    assert not torch.equal(first, second)


def test_random_layers_are_known_by_their_names():
    class StochasticDepth(DropPath): ...

    class DropBlock2d(DropPath): ...

    class Plain(DropPath): ...

    for kind, off in ((StochasticDepth, True), (DropBlock2d, True), (Plain, False)):
        model = nn.Sequential(kind(by_uniform)).train()
        with without_dropout(model):
            assert model[0].training is not off
        assert model[0].training
