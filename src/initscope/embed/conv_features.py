"""`ConvFeatures`: one random convolutional ReLU layer as features of images, with predicted cosines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from initscope.embed._base import Embedding, random_generator
from initscope.embed._layer import image_shape_of, kernel_shape, to_images
from initscope.errors import InputError, check_count

if TYPE_CHECKING:
    from initscope.embed.cosine_distortion import CosineDistortion

__all__ = ["ConvFeatures"]


class ConvFeatures(Embedding):
    r"""Random filters, cyclic convolution, ReLU: preserves norms and has a known expected cosine for every pair.

    .. math:: x \mapsto N^{-1/2}\,(\max(F_k * x, 0))_{k\le N},\quad F_k \sim N(0, 2/r^2),\qquad E\|\cdot\|^2 = \|x\|^2

    [Nachum2022]_ theorem 1: the expected cosine of a pair is a sum over its patches, not a function of its cosine.

    Parameters
    ----------
    filters : int
        Number N of filters.
    kernel_size : int
        Side r of the filters.
    image_shape : tuple, optional
        ``(channels, height, width)`` of a row; by default one channel, and a square if the length allows it, otherwise
        a line.
    pool : int, optional
        Average each filter's response over a grid of ``pool × pool`` cells (1: over the whole image): fewer features,
        nearly invariant to small shifts. The predicted distortion holds without pooling.
    device : str, optional
        Torch device, for example ``"cuda"``.
    random_state : int, RandomState, Generator or None

    Examples
    --------
    >>> images = np.random.default_rng(1).random((4, 3 * 8 * 8))
    >>> ConvFeatures(filters=10, image_shape=(3, 8, 8)).fit_transform(images).shape
    (4, 640)
    """

    def __init__(
        self,
        filters: int = 64,
        *,
        kernel_size: int = 3,
        image_shape: tuple[int, int, int] | None = None,
        pool: int | None = None,
        device: str | None = None,
        random_state: Any = 0,
    ) -> None:
        self.filters = filters
        self.kernel_size = kernel_size
        self.image_shape = image_shape
        self.pool = pool
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the filters for the shape of the images."""
        filters = check_count("filters", self.filters)
        X = self._validated(X, reset=True)
        self.image_shape_ = image_shape_of(self.image_shape, X.shape[1])
        channels, height, width = self.image_shape_
        # Without image_shape a short row is one line, and the filter is as long as possible.
        side = min(self.kernel_size, max(height, width)) if self.image_shape is None else self.kernel_size
        self.kernel_shape_ = kernel_shape(side, self.image_shape_)
        rng = random_generator(self.random_state, "conv features")
        taps = self.kernel_shape_[0] * self.kernel_shape_[1]
        weights = rng.standard_normal((filters, channels, *self.kernel_shape_)) * np.sqrt(2 / (taps * filters))
        self.weights_ = weights.astype(X.dtype)
        if self.pool is not None:
            check_count("pool", self.pool, most=max(height, width), hint="no more cells than pixels")
        self._cells = (height, width) if self.pool is None else (min(self.pool, height), min(self.pool, width))
        return self

    @property
    def _n_features_out(self) -> int:
        return len(self.weights_) * self._cells[0] * self._cells[1]

    def _row_values(self) -> int:
        return int(len(self.weights_) * self.image_shape_[1] * self.image_shape_[2])

    def _rows_to_output(self, block: np.ndarray) -> np.ndarray:
        import torch
        from torch.nn.functional import adaptive_avg_pool2d, conv2d, pad

        tall, wide = self.kernel_shape_
        with torch.no_grad():
            images = torch.as_tensor(to_images(block, self.image_shape_), device=self.device)
            images = pad(images, (0, wide - 1, 0, tall - 1), mode="circular")
            response = conv2d(images, torch.as_tensor(self.weights_, device=self.device)).relu_()
            if self.pool is not None:
                response = adaptive_avg_pool2d(response, self._cells)
            return np.asarray(response.reshape(len(block), -1).cpu().numpy())

    def distortion_report(self, X: Any, *, pairs: int = 1000, random_state: Any = 0) -> CosineDistortion:
        """Compare cosines of random pairs of images with theorem 1 for those very pairs.

        The predicted spread comes from the filters of this layer: they are independent, so the cosine is a ratio of
        means over filters and the delta method applies.
        """
        from initscope.embed.cosine_distortion import cosine_distortion, row_cosines
        from initscope.embed.distortion import random_pairs
        from initscope.theory.images import expected_cosine

        check_is_fitted(self)
        if self.pool is not None:
            raise InputError(
                f"pool = {self.pool}: the prediction is for the layer itself; use pool=None for the report"
            )
        X = self._validated(X, reset=False)
        left, right = random_pairs(len(X), pairs, random_generator(random_state, "pairs"))
        before = row_cosines(X, left, right)
        predicted, observed, spread = np.empty((3, len(left)))
        size = max((1 << 22) // self._n_features_out, 1)
        for start in range(0, len(left), size):
            pick = slice(start, start + size)
            x, y = (X[side[pick]].astype(np.float64) for side in (left, right))
            images = (to_images(x, self.image_shape_), to_images(y, self.image_shape_))
            predicted[pick] = expected_cosine(*images, kernel_size=self.kernel_shape_)
            observed[pick], spread[pick] = self._observed(x, y)
        return cosine_distortion(before, predicted, observed, spread, "theorem 1 for each pair (cyclic, ReLU)")

    def _observed(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return cosines after the layer and their standard deviation over filters (delta method)."""
        from initscope.theory.pair_sums import filter_influence

        u, v = (
            self._rows_to_output(side.astype(self.weights_.dtype)).reshape(len(x), len(self.weights_), -1)
            for side in (x, y)
        )
        xx, yy, xy = ((a * b).sum(axis=2, dtype=np.float64) for a, b in ((u, u), (v, v), (u, v)))
        cosine, influence = filter_influence(xx, yy, xy)
        count = len(self.weights_)
        return cosine, np.sqrt((influence**2).sum(axis=1) * count / max(count - 1, 1))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
