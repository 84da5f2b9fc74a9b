"""Where the samples are: sequence first, folded with windows or tokens, and as many of one as of the other."""

import numpy as np
import pytest
import torch
from torch import nn

import initscope
from initscope._utils.randomness import torch_generator
from initscope.graph import SampleAxes, SampleAxis, bind, sample_axes, trace
from initscope.measurement import observe


class SequenceFirst(nn.Module):
    """``[samples, tokens, 6]`` in, turned around inside."""

    def __init__(self):
        super().__init__()
        self.embed, self.gru, self.out = nn.Linear(6, 8), nn.GRU(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        h = torch.relu(self.embed(x.transpose(0, 1)))
        return self.out(self.gru(h)[0].mean(0))


class Folded(nn.Module):
    """``[samples, 12, 4]`` cut into windows, and flattened to tokens in three orders."""

    def __init__(self):
        super().__init__()
        self.conv, self.fc = nn.Conv1d(3, 5, 1), nn.Linear(4, 8)

    def forward(self, x):
        samples = x.shape[0]
        windows = self.fc(self.conv(x.view(samples * 4, 3, 4)))  # [samples·4, 5, 8]
        samples_last = windows.view(samples, -1, 8).transpose(0, 1).reshape(-1, 8)
        between = windows.transpose(0, 1).reshape(-1, 8)  # [5·samples·4, 8]
        mixed = windows.view(samples, -1) @ windows.view(samples, -1).T
        return samples_last, between, mixed, windows.view(samples, -1)


class Branching(Folded):
    """The same, recorded."""

    def forward(self, x):
        return super().forward(x if x.sum() < 1e9 else -x)


def axes_of(model, x):
    traced = trace(model, x)
    axes = sample_axes(traced, bind(model, x))
    return traced, axes, {step.name: axes.of(step) for step in traced.nodes}


def test_axes_are_found_wherever_the_samples_are():
    torch.manual_seed(0)
    _, axes, found = axes_of(Folded(), torch.randn(7, 12, 4))
    assert found["input"] == SampleAxis()
    assert found["conv"] == found["fc"] == SampleAxis(0, 4, 4)
    assert found["reshape"] == SampleAxis(0, 20, 1)
    assert found["transpose (2)"] == SampleAxis(1, 4, 4)
    assert found["reshape (2)"] == SampleAxis(0, 20, 4)
    assert found["matmul"] is None, "as many rows as columns grow: samples meet"
    assert axes.of(None, "[3]") == SampleAxis()


@pytest.mark.parametrize("branching", [False, True])
def test_samples_in_front_are_what_a_run_of_each_alone_gives(branching):
    """Each sample's entries, brought to the front, against a run of that sample alone."""
    torch.manual_seed(0)
    model, x = Branching() if branching else Folded(), torch.randn(6, 12, 4)
    traced, axes, _ = axes_of(model, x)
    assert bool(traced.fallback) == branching

    def seen(batch):
        values = {}

        def watch(step, args, kwargs, output):
            with torch._C.DisableTorchFunction():
                found = axes.tensor(step, output, len(batch))
            values[step.name] = None if found is None else found[1].clone()

        with torch.no_grad():
            traced.execute(bind(model, batch), watch)
        return values

    together, alone = seen(x), [seen(x[index : index + 1]) for index in range(6)]
    for name, values in together.items():
        for index in range(6) if values is not None else ():
            torch.testing.assert_close(values[index], alone[index][name][0])
    assert [name for name, values in together.items() if values is None] == ["sum"] * branching + ["matmul"]


@pytest.mark.parametrize("tokens", [5, 8, 16])
def test_a_sequence_first_model_with_as_many_tokens_as_samples_or_pairs(tokens):
    """8 pairs: against cosines of the model's own values, samples brought to the front by hand."""
    torch.manual_seed(0)
    model, x = SequenceFirst(), torch.randn(8, tokens, 6)
    y = x + 0.3 * torch.randn_like(x)
    h = [torch.relu(model.embed(side)).flatten(1) for side in (x, y)]
    expected = torch.cosine_similarity(*h).detach().numpy()
    measured = initscope.measure(model, x, y, draws=0)
    seen = observe(model, torch.cat([x, y]), pairs=8, shuffle=False)
    predicted = initscope.predict(model, x, y, seed=1)
    redrawn = initscope.measure(model, x, y, draws=16)
    rows = [row.layer for row in measured.rows]
    relu = rows.index("relu")
    np.testing.assert_allclose(measured.cosine[relu], expected, atol=1e-5)
    np.testing.assert_allclose(seen.cosine[relu], expected, atol=1e-5)
    for row in (relu, rows.index("transpose"), rows.index("out")):
        assert abs(predicted.cosine[row].mean() - redrawn.cosine[row].mean()) < 0.02
    embed = rows.index("embed")
    direct = []
    for sample in x[:3]:
        output = model(sample[None])
        v = torch.randn(3, generator=torch_generator(0, "direction of the output"))
        (gradient,) = torch.autograd.grad((output * v).sum(), model.embed.weight)
        direct.append(float(gradient.norm() / (v.norm() * sample.norm())))
    np.testing.assert_allclose(seen.gradient_ratio[embed][:3], direct, rtol=1e-4)


def test_what_is_not_known_is_taken_to_be_first():
    class Fixed(nn.Module):
        def forward(self, x):
            return x.reshape(4, 6) * 2

    model, x = Fixed(), torch.randn(4, 6)
    traced = trace(model, x)
    axes = sample_axes(traced, bind(model, x))
    assert axes == SampleAxes()
    assert axes.of(traced.nodes[0]) == SampleAxis()
    assert SampleAxis().to_front(x, 5) is None


class Residual(nn.Module):
    """Convolutions, a skip, a parameter added, a function, and the end of a classifier."""

    def __init__(self):
        super().__init__()
        self.stem, self.conv = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)), nn.Conv2d(4, 4, 1)
        self.scale, self.norm, self.pool = nn.Parameter(torch.ones(1, 4, 1, 1)), nn.GroupNorm(2, 4), nn.MaxPool2d(2)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout(), nn.Linear(16, 5))

    def forward(self, x):
        h = torch.relu(self.stem(x))
        h = h + self.scale * self.norm(self.conv(h)) / 2
        return self.head(self.pool(h))


class Crossed(Residual):
    """The same up to the end, where samples are mixed, counted twice or turned."""

    def __init__(self, end):
        super().__init__()
        self.end = end

    def forward(self, x):
        return self.end(super().forward(x))


def without_definitions(model, x, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("initscope.graph.samples.all_keep_samples_first", lambda *given: False)
        return axes_of(model, x)[1:]


def test_steps_that_keep_samples_first_by_definition_need_no_run(monkeypatch):
    """What the definitions say is what runs of two and of three samples find."""
    model, x = Residual(), torch.randn(4, 3, 10, 10, generator=torch.Generator().manual_seed(0))
    axes, found = without_definitions(model, x, monkeypatch)
    monkeypatch.setattr(type(trace(model, x)), "execute", None)
    assert axes_of(model, x)[2] == found
    assert set(found.values()) == {SampleAxis()}
    assert axes_of(model, x)[1].of(None) == axes.of(None) == SampleAxis()


@pytest.mark.parametrize(
    "end",
    [
        lambda h: h.T,
        lambda h: h[:, None] + h,  # [samples, samples, 5]: added as if the samples were units
        lambda h: h.sum(0),
        lambda h: (h, h.T),
        lambda h: torch.flatten(h, 0),
        lambda h: h.view(-1),
    ],
)
def test_steps_that_may_move_samples_are_run(end, monkeypatch):
    model, x = Crossed(end), torch.randn(4, 3, 10, 10, generator=torch.Generator().manual_seed(0))
    axes, found = without_definitions(model, x, monkeypatch)
    _, again, ours = axes_of(model, x)
    assert ours == found
    assert again.axes[None] == axes.axes[None] != {"": SampleAxis()}


def test_hooks_and_layers_of_ones_own_are_run(monkeypatch):
    class Turned(nn.Conv2d):
        def forward(self, x):
            return super().forward(x).transpose(0, 1)

    x = torch.randn(4, 3, 10, 10, generator=torch.Generator().manual_seed(0))
    hooked = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
    hooked[0].register_forward_hook(lambda module, given, output: output.transpose(0, 1))
    for model in (hooked, nn.Sequential(Turned(3, 4, 3), nn.ReLU())):
        found = axes_of(model, x)[2]
        assert found["1"] == SampleAxis(1)
        assert found == without_definitions(model, x, monkeypatch)[1]
