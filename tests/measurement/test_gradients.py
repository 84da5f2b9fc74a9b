"""Per-sample weight gradients without holding them, against `torch.func`."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from initscope.measurement import gradients
from initscope.measurement.gradients import weight_gradient_products

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
def test_products_are_those_of_the_gradients(layer, shape, held, monkeypatch):
    monkeypatch.setattr(gradients, "_CHUNK_VALUES", held)
    layer = layer.double()
    x = torch.randn(6, *shape, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    delta = torch.randn(layer(x).shape, dtype=torch.double, generator=torch.Generator().manual_seed(1))

    def loss(parameters, one, top):
        return (functional_call(layer, parameters, (one[None],))[0] * top).sum()

    parameters = {name: p.detach() for name, p in layer.named_parameters()}
    each = vmap(grad(loss), (None, 0, 0))(parameters, x, delta)["weight"].flatten(1)
    sides = (each[:3], each[3:], each[:3] - each[3:])
    expected = torch.stack([side.square().sum(dim=1) for side in sides])
    torch.testing.assert_close(weight_gradient_products(layer, x, delta), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("layer", "shape"), [CASES[0], CASES[3], CASES[8]])
@pytest.mark.parametrize("scale", [1e-14, 1e12])
def test_vanishing_and_exploding_gradients_keep_their_norms(layer, shape, scale):
    """Their squared products do not fit into single precision."""
    x = torch.randn(6, *shape, generator=torch.Generator().manual_seed(0))
    layer = layer.float()
    delta = torch.randn(layer(x).shape, generator=torch.Generator().manual_seed(1))
    usual = weight_gradient_products(layer, x, delta)
    torch.testing.assert_close(
        weight_gradient_products(layer, scale * x, scale * delta), usual * scale**4, rtol=1e-4, atol=0
    )
