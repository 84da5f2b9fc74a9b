"""Where the samples are: sequence first, folded with windows or tokens, and as many of one as of the other."""

import numpy as np
import pytest
import torch
from torch import nn

import initscope
from initscope.measurement import observe
from initscope.tracing import SampleAxes, SampleAxis, bind, sample_axes, trace


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
    return traced, axes, {traced.name(step): axes.of(step) for step in traced.steps}


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
            values[traced.name(step)] = None if found is None else found[1].clone()

        with torch.no_grad():
            traced.run(bind(model, batch), watch)
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
        generator = torch.Generator().manual_seed(0)
        v = torch.randn(3, generator=generator)
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
    assert axes.of(traced.steps[0]) == SampleAxis()
    assert SampleAxis().to_front(x, 5) is None
