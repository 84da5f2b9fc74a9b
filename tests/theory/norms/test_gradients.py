"""Equations 17 to 20 against automatic differentiation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from initscope.errors import InputError
from initscope.theory.norms import backward_error, gradient_norm_equality, weight_gradient, weight_gradient_norm


def test_equations_18_to_20_against_autograd():
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((7, 5), (4, 7)))
    inputs = torch.randn(3, 5, generator=generator, dtype=torch.float64)
    for x in inputs:
        weights = [first.clone().requires_grad_(), second.clone().requires_grad_()]
        a = weights[0] @ x
        b = weights[1] @ a.relu()
        loss = torch.sin(b).sum() + (b**3).sum()
        *gradients, error_a, error_b = torch.autograd.grad(loss, [*weights, a, b])
        torch.testing.assert_close(weight_gradient(error_b, a.relu().detach()), gradients[1])
        torch.testing.assert_close(weight_gradient(error_a, x), gradients[0])
        torch.testing.assert_close(weight_gradient_norm(error_a, x), gradients[0].norm())
        torch.testing.assert_close(backward_error(error_b, second, a.detach()), error_a)


def test_samples_are_leading_axes_and_wide_networks_near_equation_17():
    """Width 1500, four layers: within 20 %, four standard deviations √(15/(4·1500)) = 5 % of the exact law."""
    rng = np.random.default_rng(1)
    width, depth = 1500, 4
    x = rng.standard_normal((2, width))
    weights = [rng.standard_normal((width, width)) * np.sqrt(2 / width) for _ in range(depth)]
    hidden, before = [x], []
    for weight in weights:
        before.append(hidden[-1] @ weight.T)
        hidden.append(np.maximum(before[-1], 0))
    error = rng.standard_normal((2, width)) * (before[-1] > 0)
    expected = gradient_norm_equality(error, x)
    for layer in reversed(range(depth)):
        np.testing.assert_allclose(weight_gradient_norm(error, hidden[layer]), expected, rtol=0.2)
        if layer:
            error = backward_error(error, weights[layer], before[layer - 1])


def test_refusals():
    with pytest.raises(InputError, match="same samples"):
        weight_gradient(np.ones((2, 3)), np.ones((3, 3)))
    with pytest.raises(InputError, match="units of the error"):
        backward_error(np.ones(3), np.ones((2, 3)), np.ones(3))
