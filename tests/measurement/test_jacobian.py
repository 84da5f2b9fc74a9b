"""Singular values of Jacobians against the full matrix from `torch.func`."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import jacrev

from initscope.errors import InputError
from initscope.measurement import jacobian_spectrum


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Linear(96, 20),
        nn.Tanh(),
    ).double()


def exact(model, x):
    model = model.eval()
    smooth = nn.Sequential(*(nn.ReLU() if isinstance(layer, nn.ReLU) else layer for layer in model)).eval()
    return torch.linalg.svdvals(jacrev(lambda one: smooth(one[None])[0])(x).reshape(20, -1).detach()).numpy()


def test_whole_jacobian_and_products_agree_with_the_matrix():
    model, x = network(), torch.randn(1, 2, 4, 4, dtype=torch.double)
    values = exact(model, x[0])
    model.train()
    whole = jacobian_spectrum(model, x)
    assert model.training
    assert whole.method == "whole"
    np.testing.assert_allclose(whole.values[0], values, rtol=1e-8)
    np.testing.assert_allclose(whole.mean_square, (values**2).mean())
    products = jacobian_spectrum(model, x, whole=False, probes=200, steps=20)
    assert products.method == "products"
    assert products.values is None
    np.testing.assert_allclose([products.largest[0], products.smallest[0]], values[[0, -1]], rtol=1e-6)
    assert abs(products.mean_square[0] - (values**2).mean()) < 4 * products.mean_square_error[0]
    assert products.mean_square_error[0] < 0.1 * products.mean_square[0]


def test_few_lanczos_steps_bound_the_extremes_from_inside():
    model, x = network(), torch.randn(1, 2, 4, 4, dtype=torch.double)
    values = exact(model, x[0])
    few = jacobian_spectrum(model, x, whole=False, steps=8)
    assert values[-1] <= few.smallest[0] <= few.largest[0] <= values[0] * (1 + 1e-9)
    assert few.largest[0] > 0.95 * values[0]


def test_more_outputs_than_inputs_and_rank_deficiency():
    wide = nn.Linear(3, 50, bias=False)
    found = jacobian_spectrum(wide, torch.randn(5, 3), samples=2)
    expected = torch.linalg.svdvals(wide.weight.detach()).numpy()
    np.testing.assert_allclose(found.values, np.stack([expected] * 2), rtol=1e-5)
    assert found.table()[0]["largest"] == pytest.approx(expected[0], rel=1e-5)
    flat = nn.Sequential(nn.Linear(6, 1), nn.Linear(1, 6))
    assert jacobian_spectrum(flat, torch.randn(2, 6)).smallest[0] < 1e-6
    assert jacobian_spectrum(flat, torch.randn(2, 6), whole=False).smallest[0] < 1e-5


def test_bad_input():
    with pytest.raises(InputError, match="one"):
        jacobian_spectrum(nn.Bilinear(2, 2, 2), (torch.ones(2, 2), torch.ones(2, 2)))
    with pytest.raises(InputError, match="does not depend"):
        jacobian_spectrum(Constant(), torch.ones(2, 2))


class Constant(nn.Module):
    def forward(self, x):
        return torch.ones(len(x), 3)
