"""The contract of a weight law: what it draws has the second moments that it states, in every kind of layer."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn
from torch.nn.modules.conv import _ConvTransposeNd

from initscope.initializers import Initializer, WeightLaw
from initscope.testing.statistics import z_score

__all__ = ["InitializerContract"]


class InitializerContract:
    """Inherit it and set ``initializer``.

    By sampling: z-scores at 4 standard errors over ``filters`` filters. A variance is then known within about
    4 √(2/filters): 15 % of 1,500.
    """

    initializer: ClassVar[Initializer]
    filters: ClassVar[int] = 1500
    depend: ClassVar[bool] = False
    """Whether the filters of one draw depend on each other, as orthogonal ones do: one of each draw is then taken."""

    def layers(self) -> list[Any]:
        """Layers to fill; override to leave out what the law does not take."""
        return [
            nn.Linear(6, 4),
            nn.Linear(3, 8),
            nn.Conv1d(3, 4, 3),
            nn.Conv2d(4, 6, (3, 2), groups=2),
            nn.Conv3d(2, 3, 2),
            nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2),
        ]

    def test_draws_have_the_second_moments_that_it_states(self) -> None:
        """Means, variances along a direction, covariances of two directions, and of two filters."""
        for layer in self.layers():
            scores = self.scores(layer, self.initializer.law(layer))
            assert (scores < 4).all(), (layer, scores)

    def test_the_contract_bites(self) -> None:
        """A stated variance that is off by 25 % is seen."""
        layer = self.layers()[0]
        stated = self.initializer.law(layer)
        wrong = WeightLaw(1.25 * stated.variance, stated.bias_variance, stated.strength, stated.centre)
        assert (self.scores(layer, wrong) > 4).any()

    def test_random_state_is_left_alone(self) -> None:
        """A generator of one's own is the only source of random numbers."""
        layer, before = self.layers()[0], torch.random.get_rng_state()
        self.initializer.fill_(layer, generator=torch.Generator().manual_seed(1))
        assert torch.equal(before, torch.random.get_rng_state())

    def scores(self, layer: Any, stated: WeightLaw) -> np.ndarray:
        """|z| of the moments of many drawn filters against what the law states."""
        generator = torch.Generator().manual_seed(5)
        count = _filters(layer).shape[1]
        a = torch.randn(count, generator=generator) + 2
        b = a + torch.randn(count, generator=generator)
        along_a, along_b, bias, neighbour = self._drawn(layer, a, b)
        scores = [
            z_score(along_a, 0),
            z_score(along_a**2, _second_moment(stated, layer, a, a)),
            z_score(along_a * along_b, _second_moment(stated, layer, a, b)),
            z_score(along_a * neighbour, 0),
        ]
        if stated.bias_variance:
            scores.append(z_score(bias**2, stated.bias_variance))
        else:
            assert not bias.any()
        return np.abs(scores)

    def _drawn(self, layer: Any, a: torch.Tensor, b: torch.Tensor) -> np.ndarray:
        """⟨w, a⟩, ⟨w, b⟩, bias, and ⟨w, a⟩ of a neighbour, of many filters."""
        generator, directions = torch.Generator().manual_seed(0), torch.stack([a, b], dim=1)
        rows = []
        for _ in range(self.filters if self.depend else self.filters // 3):
            self.initializer.fill_(layer, generator=generator)
            products = _filters(layer) @ directions
            neighbours = products[:, :1].roll(1, dims=0)
            drawn = torch.cat([products, layer.bias.detach()[:, None], neighbours], dim=1)
            rows.append(drawn[: 1 if self.depend else 3])
        return np.asarray(torch.cat(rows).double().numpy().T)


def _filters(layer: Any) -> torch.Tensor:
    """``[outputs, inputs of a group · taps]``: what one output sums, whatever the layer's storage."""
    weight, groups = layer.weight.detach(), getattr(layer, "groups", 1)
    if isinstance(layer, _ConvTransposeNd):
        grouped = weight.reshape(groups, -1, *weight.shape[1:]).transpose(1, 2)
        return torch.as_tensor(grouped.reshape(grouped.shape[0] * grouped.shape[1], -1))
    return torch.as_tensor(weight.flatten(1))


def _second_moment(stated: WeightLaw, layer: Any, a: torch.Tensor, b: torch.Tensor) -> float:
    """E⟨w,a⟩⟨w,b⟩ = v (⟨a,b⟩ - λ n ā b̄) by the stated law; with ``centre`` the vectors count there alone."""
    if stated.centre:
        centre = _centre(layer)
        a, b = a * centre, b * centre
    return stated.variance * float(a @ b - stated.strength * len(a) * a.mean() * b.mean())


def _centre(layer: Any) -> torch.Tensor:
    """Indicator of the centre tap in a flattened filter."""
    mask = torch.zeros(tuple(layer.weight.shape[2:]))
    mask[tuple((size - 1) // 2 for size in mask.shape)] = 1
    return mask.flatten().repeat(_filters(layer).shape[1] // mask.numel())
