"""Per-sample weight gradients without holding them, against `torch.func`."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, vmap

from initscope._utils.randomness import torch_generator
from initscope.measurement import observe, weight_gradients
from initscope.measurement.weight_gradients import weight_gradient_norms

CASES = [
    (nn.Linear(5, 7), (5,)),
    (nn.Linear(5, 7), (4, 5)),
    (nn.Linear(5, 7), (2, 3, 5)),
    (nn.Conv2d(4, 6, 3, 2, 1, 2, groups=2), (4, 9, 8)),
    (nn.Conv1d(3, 4, 3, padding="same", padding_mode="circular"), (3, 9)),
    (nn.Conv2d(2, 3, (3, 5), padding="same"), (2, 5, 6)),
    (nn.Conv3d(2, 3, 2, 1, 1), (2, 4, 5, 3)),
    (nn.Conv2d(3, 5, 3, padding=1, padding_mode="reflect"), (3, 6, 6)),
    (nn.Conv2d(64, 64, 3, padding=1), (64, 2, 2)),
    (nn.ConvTranspose1d(3, 2, 2, 2), (3, 5)),
    (nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1, groups=2), (4, 5, 4)),
    (nn.ConvTranspose2d(4, 6, 3, 2, 1, dilation=2, output_padding=1), (4, 5, 4)),
]


@pytest.mark.parametrize(("layer", "shape"), CASES, ids=lambda value: str(value)[:60])
@pytest.mark.parametrize("held", [1, 1 << 21])
def test_norms_are_those_of_the_gradients(layer, shape, held, monkeypatch):
    monkeypatch.setattr(weight_gradients, "_CHUNK_VALUES", held)
    layer = layer.double()
    x = torch.randn(6, *shape, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    delta = torch.randn(layer(x).shape, dtype=torch.double, generator=torch.Generator().manual_seed(1))

    def loss(parameters, one, top):
        return (functional_call(layer, parameters, (one[None],))[0] * top).sum()

    parameters = {name: p.detach() for name, p in layer.named_parameters()}
    each = vmap(grad(loss), (None, 0, 0))(parameters, x, delta)["weight"].flatten(1)
    sides = (each[:3], each[3:], each[:3] - each[3:])
    expected = torch.stack([side.norm(dim=1) for side in sides])
    torch.testing.assert_close(weight_gradient_norms(layer, x, delta), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("layer", "shape"), [CASES[0], CASES[3], CASES[8]])
@pytest.mark.parametrize("scale", [1e-14, 1e12])
def test_vanishing_and_exploding_gradients_keep_their_norms(layer, shape, scale):
    """Their squared products do not fit into single precision."""
    x = torch.randn(6, *shape, generator=torch.Generator().manual_seed(0))
    layer = layer.float()
    delta = torch.randn(layer(x).shape, generator=torch.Generator().manual_seed(1))
    usual = weight_gradient_norms(layer, x, delta)
    torch.testing.assert_close(
        weight_gradient_norms(layer, scale * x, scale * delta), usual * scale**2, rtol=1e-4, atol=0
    )


class Functional(nn.Module):
    """Weights that are parameters of its own, used by functions, positionally and by name; one of them computed."""

    def __init__(self):
        super().__init__()
        self.filters = nn.Parameter(0.3 * torch.randn(6, 2, 3, 3, generator=torch.Generator().manual_seed(0)))
        self.up = nn.Parameter(0.3 * torch.randn(6, 2, 2, 2, generator=torch.Generator().manual_seed(1)))
        self.scaled = nn.Parameter(0.3 * torch.randn(4, 4, 1, 1, generator=torch.Generator().manual_seed(2)))
        self.dense = nn.Parameter(0.1 * torch.randn(5, 4 * 64, generator=torch.Generator().manual_seed(3)))

    def forward(self, x):
        x = F.relu(F.conv2d(x, self.filters, None, 2, padding=1, groups=2))
        x = F.conv_transpose2d(x, self.up, stride=2, groups=2)
        x = F.conv2d(x, 0.5 * self.scaled)
        return F.linear(x.flatten(1), weight=self.dense)


class BranchingFunctional(Functional):
    """The same where steps are recorded, not traced."""

    def forward(self, x):
        return super().forward(x) if bool(x.sum() > -1e9) else x


@pytest.mark.parametrize("kind", [Functional, BranchingFunctional])
def test_functional_calls_have_the_gradients_of_their_parameters(kind):
    """Against one backward pass of autograd for each sample, with the same v."""
    model, x = kind().double(), torch.randn(6, 4, 8, 8, dtype=torch.double, generator=torch.Generator().manual_seed(4))
    seen = observe(model, x, pairs=3, seed=7, shuffle=False)
    assert bool(seen.fallback) == (kind is BranchingFunctional)
    v = torch.randn(5, generator=torch_generator(7, "direction of the output")).double()
    expected = {name: [] for name in ("filters", "up", "dense")}
    for one in x[:3]:
        gradients_of = torch.autograd.grad((model(one[None]) * v).sum(), [getattr(model, name) for name in expected])
        for name, gradient in zip(expected, gradients_of, strict=True):
            expected[name].append(float(gradient.norm() / (v.norm() * one.norm())))
    rows = {row.layer: ratio for row, ratio in zip(seen.rows, seen.gradient_ratio, strict=True)}
    for layer, name in (("conv2d", "filters"), ("conv_transpose2d", "up"), ("linear", "dense")):
        np.testing.assert_allclose(rows[layer], expected[name], rtol=1e-10)
    assert np.isnan(rows["conv2d (2)"]).all()  # of a computed weight


class Overwrites(nn.Module):
    """Writes into what its layer has read."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 4)

    def forward(self, x):
        h = x * 2
        out = self.fc(h)
        h.add_(1)
        return out


def test_an_input_that_is_overwritten_has_no_gradient_and_says_so():
    torch.manual_seed(0)
    seen = observe(Overwrites(), torch.randn(8, 5))
    row = next(index for index, entry in enumerate(seen.rows) if entry.layer == "fc")
    assert "overwritten in place" in seen.rows[row].note
    assert np.isnan(seen.gradient_ratio[row]).all()
    assert np.isfinite(seen.cosine[row]).all()
