"""Test suite for an activation: its expectations must agree with the function that it computes."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import torch

from initscope.testing.statistics import z_score
from initscope.theory.activations import Activation

__all__ = ["ActivationContract"]


class ActivationContract:
    """Inherit this class and set ``activation``; the tests run under pytest or when called directly."""

    activation: ClassVar[Activation]
    covariances: ClassVar[tuple[tuple[float, float, float], ...]] = (
        (1.0, 1.0, 0.5),
        (1.0, 1.0, 0.999999),
        (2.0, 0.5, -0.9),
        (0.3, 1.7, 0.2),
        (1.0, 1.0, -1.0),
        (1.0, 1.0, 1.0),
        (0.0, 1.0, 0.0),
        (1e-6, 1.3, -0.4),
    )
    """(variance of x, variance of y, correlation) for which expectations are compared."""
    seed: ClassVar[int] = 20

    def test_expectations_agree_with_quadrature(self) -> None:
        """Compare closed forms with the numerical integrals of the base class to 1e-10."""
        for kxx, kyy, kxy in self._covariances():
            for quantity, arguments in (
                ("dual", (kxx, kyy, kxy)),
                ("distance", (kxx, kyy, kxx + kyy - 2 * kxy)),
                ("derivative_dual", (kxx, kyy, kxy)),
                ("mean", (kxx,)),
                ("second_moment", (kyy,)),
            ):
                ours = getattr(self.activation, f"_{quantity}")(np, *arguments)
                generic = getattr(Activation, f"_{quantity}")(self.activation, np, *arguments)
                assert abs(float(ours) - float(generic)) <= 1e-10, (quantity, arguments, ours, generic)

    def test_torch_gives_the_same_numbers(self) -> None:
        """Compare torch with NumPy in double precision, to a relative error of 1e-12."""
        for covariance in self._covariances():
            tensors = [torch.tensor(float(value), dtype=torch.float64) for value in covariance]
            for quantity in ("dual", "derivative_dual"):
                expected = float(getattr(self.activation, quantity)(*covariance))
                np.testing.assert_allclose(
                    float(getattr(self.activation, quantity)(*tensors)), expected, rtol=1e-12, atol=1e-14
                )

    def test_gradients_are_finite(self) -> None:
        """Check that gradients of the dual are finite for all three moments, also at the edges of the domain."""
        for covariance in self._covariances():
            moments = [torch.tensor(float(value), dtype=torch.float64, requires_grad=True) for value in covariance]
            self.activation.dual(*moments).backward()
            assert all(moment.grad is not None and bool(torch.isfinite(moment.grad)) for moment in moments), covariance

    def test_monte_carlo(self) -> None:
        """Compare with 400,000 samples, which detects errors of 1 % of the standard deviation (4.5 standard errors)."""
        x, z = np.random.default_rng(self.seed).standard_normal((2, 400_000))
        y = 0.4 * x + math.sqrt(1 - 0.16) * z
        products = self.activation(x) * self.activation(1.5 * y)
        assert abs(z_score(products, self.activation.dual(1.0, 2.25, 0.6))) < 4.5
        assert abs(z_score(self.activation(x) + 1e-9 * z, self.activation.mean(1.0))) < 4.5

    def test_zero_variance_gives_the_value_at_zero_times_the_other_mean(self) -> None:
        """Check that E σ(0)σ(y) = σ(0) E σ(y)."""
        expected = float(self.activation(np.float64(0.0))) * float(self.activation.mean(1.7))
        np.testing.assert_allclose(float(self.activation.dual(0.0, 1.7, 0.0)), expected, atol=1e-12)

    def _covariances(self) -> list[tuple[Any, Any, Any]]:
        return [
            (np.float64(kxx), np.float64(kyy), np.float64(rho * math.sqrt(kxx * kyy)))
            for kxx, kyy, rho in self.covariances
        ]
