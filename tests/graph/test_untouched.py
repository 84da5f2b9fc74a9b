"""A measuring tool leaves no trace, whatever the model keeps, and says at once what it cannot run."""

from collections import deque

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from stateful import Compiled
from torch import nn

import initscope
from initscope.errors import InputError
from initscope.graph.borrowing import borrowed, without_dropout
from initscope.measurement import jacobian_spectrum, layer_widths, observe


class Diary(nn.Module):
    """Keeps books in everything that an attribute may be."""

    def __init__(self, *, fails=False):
        super().__init__()
        self.fc, self.fails = nn.Linear(6, 4), fails
        self.count, self.steps = torch.zeros(()), 0
        self.log, self.recent, self.seen = [], deque([1]), {"inner"}
        self.nested = {"losses": [0.5], "pair": (torch.ones(2), [])}
        self.register_buffer("wide", torch.ones(1, 3).expand(4, 3))
        self.register_buffer("statistics", torch.full((2,), torch.nan))
        self.register_buffer("growing", torch.zeros(2))

    def forward(self, x):
        self.count += 1
        self.steps += 1
        self.log.append(len(x))
        self.recent.append(2)
        self.seen.add("outer")
        self.nested["losses"].append(0.1)
        self.nested["pair"][0].mul_(2)
        self.nested["pair"][1].append("x")
        self.wide[:1, 0].data.add_(1)
        self.statistics.copy_(torch.ones(2))
        self.growing.resize_(5).fill_(1)
        if self.fails:
            raise RuntimeError("no more")
        return self.fc(x)


def contents(model):
    names = ("count", "steps", "log", "recent", "seen", "nested", "wide", "statistics", "growing")
    return {name: repr(getattr(model, name)) for name in names}


def runs(model):
    x, y = torch.randn(2, 8, 6)
    yield lambda: observe(model, torch.cat([x, y]), pairs=4)
    yield lambda: initscope.measure(model, x, y, draws=0)
    yield lambda: initscope.measure(model, x, y, draws=2)
    yield lambda: jacobian_spectrum(model, x, samples=1)
    yield lambda: layer_widths(model, x)


@pytest.mark.parametrize("which", range(5))
def test_what_a_model_keeps_is_as_before(which):
    model = Diary()
    before, kept = contents(model), (model.log, model.count, model.wide, model.nested["losses"])
    list(runs(model))[which]()
    assert contents(model) == before
    now = (model.log, model.count, model.wide, model.nested["losses"])
    assert all(a is b for a, b in zip(kept, now, strict=True))


@pytest.mark.parametrize("which", range(5))
def test_what_a_model_keeps_is_as_before_after_an_exception(which):
    model = Diary(fails=True)
    before = contents(model)
    with pytest.raises((InputError, RuntimeError), match="no more"):
        list(runs(model))[which]()
    assert contents(model) == before


def test_a_tensor_that_did_not_change_is_not_written():
    """A write would spoil the user's own backward pass through it."""
    model = nn.Linear(3, 3)
    model.cached = model(torch.ones(1, 3)).sigmoid()
    with borrowed(model):
        model(torch.ones(1, 3))
    model.cached.sum().backward()
    assert model.weight.grad is not None


def test_lazy_models_are_refused_before_anything_happens_to_them():
    model = nn.Sequential(nn.LazyLinear(20), nn.ReLU(), nn.LazyLinear(3))
    x, y = torch.randn(2, 4, 12)
    for run in (
        lambda: observe(model, torch.cat([x, y]), pairs=4),
        lambda: initscope.measure(model, x, y),
        lambda: initscope.predict(model, x, y),
    ):
        with pytest.raises(InputError, match="once on a batch"):
            run()
    assert model(x).shape == (4, 3)
    assert np.isfinite(observe(model, torch.cat([x, y]), pairs=4).cosine).all()


def test_models_without_values_are_refused():
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(6, 4), nn.ReLU())
    for run in runs(model):
        with pytest.raises(InputError, match="meta device"):
            run()
    with pytest.raises(InputError, match="meta device"):
        initscope.initializers.Present().weight_distribution(model[0])


def test_what_cannot_be_copied_is_refused_and_runs_as_it_is():
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU())
    model.last = model(torch.randn(2, 6))  # inside of a graph
    x, y = torch.randn(2, 5, 6)
    with pytest.raises(InputError, match="cannot be copied"):
        initscope.measure(model, x, y, draws=1)
    assert np.isfinite(initscope.measure(model, x, y, draws=0).cosine[1]).all()


def test_compiled_models_are_measured_as_what_they_were_compiled_from():
    model = nn.Sequential(nn.Linear(6, 4), nn.Tanh())
    compiled = Compiled(model)
    x, y = torch.randn(2, 5, 6)
    assert np.array_equal(
        initscope.measure(compiled, x, y, draws=0).cosine, initscope.measure(model, x, y, draws=0).cosine
    )
    assert [row.layer for row in observe(compiled, torch.cat([x, y]), pairs=5).rows] == ["input", "0", "1"]


class Drops(nn.Module):
    """Dropout as modules, as functions, inside of attention and between recurrent layers."""

    def __init__(self):
        super().__init__()
        self.dropout, self.attention = nn.Dropout(0.5), nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True)
        self.lstm = nn.LSTM(8, 8, num_layers=2, dropout=0.5, batch_first=True)

    def forward(self, x):
        x = F.dropout(self.dropout(x), 0.5, self.training)
        x = x + self.attention(x, x, x)[0]
        x = x + F.scaled_dot_product_attention(x, x, x, None, 0.5)
        x = torch.dropout(self.lstm(x)[0], 0.5, True)
        return F.alpha_dropout(input=x, p=0.5, training=True)


def test_no_kind_of_dropout_is_left_in_any_mode():
    torch.manual_seed(0)
    model, x = Drops().train(), torch.randn(3, 5, 8)
    modes = [module.training for module in model.modules()]
    assert not torch.equal(model(x), model(x))
    with without_dropout(model):
        first, second = model(x), model(x)
    assert torch.equal(first, second)
    assert [module.training for module in model.modules()] == modes


@pytest.mark.parametrize("draws", [0, 2])
def test_neither_observation_nor_measurement_drops(draws):
    """Pairs that are nearly the same stay so: with dropout their cosine would be about 1/2."""
    torch.manual_seed(0)
    model = Drops().train()
    if draws:
        model = nn.Sequential(model, nn.Linear(8, 8))
    x = torch.randn(6, 5, 8)
    y = x + 1e-4 * torch.randn_like(x)
    measured = initscope.measure(model, x, y, draws=draws)
    seen = observe(model, torch.cat([x, y]), pairs=6, shuffle=False, gradients=False)
    assert measured.cosine[-1].min() > 0.999
    assert seen.cosine[-1].min() > 0.999
    assert model.training
    assert seen.mode == "train"


class WritesLarge(nn.Module):
    """Rescales weights that are copied to a room of their own, of several types and layouts, past the version count."""

    def __init__(self):
        super().__init__()
        self.fc, self.odd = nn.Linear(2048, 2100), nn.Parameter(torch.randn(3), requires_grad=False)
        self.whole = nn.Parameter(torch.arange(5), requires_grad=False)
        self.turned = nn.Parameter(torch.randn(40, 30).T)
        self.precise = nn.Parameter(torch.randn(7, dtype=torch.float64))

    def forward(self, x):
        for parameter in self.parameters():
            parameter.data.add_(1)
        return self.fc(x)


def test_large_weights_written_past_the_version_count_are_put_back():
    model = WritesLarge()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    places = {name: (value.data_ptr(), value.stride()) for name, value in model.named_parameters()}
    with borrowed(model):
        model(torch.randn(2, 2048))
        assert not torch.equal(model.fc.weight, before["fc.weight"])
    for name, value in model.named_parameters():
        assert torch.equal(value, before[name])
        assert (value.data_ptr(), value.stride()) == places[name]


CALLS = {
    "predict": lambda model, x: initscope.predict(model, x[:8], x[8:], gradients=True),
    "predict he": lambda model, x: initscope.predict(model, x[:8], x[8:], initializer="he"),
    "measure": lambda model, x: initscope.measure(model, x[:8], x[8:], draws=2),
    "inspect": lambda model, x: initscope.inspect(model, x, pairs=8),
    "kernel": lambda model, x: initscope.kernel(model, x),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("call", CALLS)
def test_weights_of_torchs_own_layers_are_as_before(call, dtype):
    """No copy of them is kept: whoever writes into a weight that is in double precision already writes the user's."""
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 8), nn.ReLU(), nn.Linear(8, 3))
    model = model.to(dtype)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.1, generator=generator)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    CALLS[call](model, torch.randn(16, 1, 8, 8, generator=generator, dtype=dtype))
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
