"""The setting of a plan for filters: pairs of images, a random convolutional layer, and the quantity to preserve."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from initscope.errors import InputError
from initscope.plan._filter_draws import ConvLayer, filter_statistics, image_pairs
from initscope.theory import concentration
from initscope.theory.images import expected_cosine, expected_inner

__all__ = ["FilterAim"]

_SCREEN = 128
"""Number of filters used to find the pair with the largest variance."""


@dataclass(frozen=True)
class FilterAim:
    """Cosines, or normalized inner products (``inner``), within ``eps`` except with probability ``delta`` per pair.

    Inner products are divided by the expected norms of the outputs.
    """

    first: torch.Tensor
    second: torch.Tensor
    layer: ConvLayer
    inner: bool
    eps: float
    delta: float
    seed: int
    squared_norms: np.ndarray
    """E‖σ(F∗x)‖² and E‖σ(F∗y)‖² of every pair, ``[2, pairs]``."""

    @classmethod
    def read(
        cls,
        images: tuple[Any, Any],
        *,
        inner: bool,
        eps: float,
        delta: float,
        seed: int,
        kernel_size: int,
        **layer: Any,
    ) -> FilterAim:
        """Check the images, read the ``layer`` (`ConvLayer.read`), compute the expected norms."""
        first, second = image_pairs(*images, kernel_size)
        convolution = ConvLayer.read(first.shape[-2:], kernel_size=kernel_size, **layer)
        padded = [convolution.padded(side.double()).numpy() for side in (first, second)]
        squares = np.stack([expected_inner(side, side, **convolution.options) for side in padded])
        if not (squares > 0).all():
            raise InputError(f"pair {int(np.argmin(squares.min(axis=0)))} has an image whose outputs are all zero")
        return cls(first, second, convolution, inner, eps, delta / len(first), seed, squares)

    @property
    def scales(self) -> np.ndarray:
        """√(E‖σ(F∗x)‖² E‖σ(F∗y)‖²) of every pair."""
        return np.asarray(np.sqrt(self.squared_norms[0] * self.squared_norms[1]))

    @property
    def expected(self) -> np.ndarray:
        """Return the expected cosine or normalized inner product of every pair."""
        padded = [self.layer.padded(side.double()).numpy() for side in (self.first, self.second)]
        formula = expected_inner if self.inner else expected_cosine
        expected = np.asarray(formula(*padded, **self.layer.options))
        return expected / self.scales if self.inner else expected

    def statistics(self, index: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return inner products and squared norms of the outputs of ``count`` filters on one pair."""
        return filter_statistics(self.first[index], self.second[index], self.layer, count, seed=self.seed)

    def values(self, index: int, size: int, sums: tuple[np.ndarray, np.ndarray, np.ndarray]) -> np.ndarray:
        """Return the cosines or normalized inner products of layers of ``size`` filters with these sums."""
        return sums[0] / (size * self.scales[index]) if self.inner else concentration.layer_cosines(*sums)

    def sharp(self, pilot: int) -> concentration.SharpFilters:
        """Return the sharp number of filters for all pairs.

        A small pilot finds the pair with the largest variance; only that pair gets the whole pilot. The number also
        covers pairs whose outputs may all be zero.
        """
        pairs = len(self.first)
        if pairs == 1:
            return self._sharp_of_pair(0, pilot)
        screens = [self.statistics(index, _SCREEN) for index in range(pairs)]
        spread = [self._spread(index, screen) for index, screen in enumerate(screens)]
        worst = self._sharp_of_pair(spread.index(max(spread)), pilot)
        if self.inner:
            return worst
        living = max(concentration.living_filters(*screen[1:], delta=self.delta) for screen in screens)
        return replace(worst, **{name: max(getattr(worst, name), living) for name in ("filters", "low", "high")})

    def _spread(self, index: int, screen: tuple[np.ndarray, np.ndarray, np.ndarray]) -> float:
        """Return the standard deviation of the contribution of one filter."""
        return float(screen[0].std() / self.scales[index]) if self.inner else concentration.filter_share_sd(*screen)

    def _sharp_of_pair(self, index: int, pilot: int) -> concentration.SharpFilters:
        drawn = self.statistics(index, pilot)
        if self.inner:
            values = drawn[0] / self.scales[index]
            return concentration.sharp_inner_filters(values, eps=self.eps, delta=self.delta, seed=self.seed)
        return concentration.sharp_filters(*drawn, eps=self.eps, delta=self.delta, seed=self.seed)

    def bounds(self) -> tuple[int | None, int | None]:
        """Return the proven numbers with and without the union over positions, for the worst pair; None if none."""
        sigma = self.layer.activation
        if float(sigma(0.0)) != 0 or not math.isfinite(sigma.lipschitz):
            return None, None
        windows = self.layer.windows
        patches = np.stack(
            [windows.sum((side.double() ** 2).sum(dim=1)).flatten(1) for side in (self.first, self.second)]
        )
        bounds = [self._bounds_of_pair(index, patches[:, index]) for index in range(len(self.first))]
        return max(pair[0] for pair in bounds), max(pair[1] for pair in bounds)

    def _bounds_of_pair(self, index: int, patches: np.ndarray) -> tuple[int, int]:
        """Return both bounds; ``patches`` holds the squared norms of the patches of both images, ``[2, positions]``."""
        sigma, scale = self.layer.activation, float(self.scales[index])
        common: dict[str, Any] = {"variance": self.layer.variance, "delta": self.delta, "lipschitz": sigma.lipschitz}
        largest, energy = (np.sqrt(patches.max(axis=1)).tolist(), patches.sum(axis=1).tolist())
        positions = patches.shape[1]
        if self.inner:
            common |= {"eps": self.eps * scale}
            products = float(np.sqrt(patches[0] * patches[1]).sum())
            norm = math.sqrt(largest[0] * largest[1])
            return (
                concentration.inner_product_filters(positions=positions, patch_norm=norm, **common),
                concentration.inner_product_filters_without_union(patch_products=products, **common),
            )
        common |= {"eps": self.eps, "squared_norms": tuple(self.squared_norms[:, index].tolist())}
        return (
            concentration.layer_cosine_filters(positions=positions, patch_norms=tuple(largest), **common),
            concentration.layer_cosine_filters_without_union(patch_energies=tuple(energy), **common),
        )
