"""`ReLUFeatures`: random dense ReLU layers as features that preserve norms and change angles by a known function."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from initscope.embed._base import Embedding, random_generator
from initscope.embed._layer import linear
from initscope.errors import check_count

if TYPE_CHECKING:
    from initscope.embed.cosine_distortion import CosineDistortion

__all__ = ["ReLUFeatures"]


class ReLUFeatures(Embedding):
    r"""Random dense ReLU layers that preserve norms and change cosines by a known function.

    .. math:: u \mapsto \sqrt{2/m}\,\max(Au, 0),\quad a_{ij}\sim N(0, 1),\qquad
              E\|\cdot\|^2 = \|u\|^2,\quad \cos \mapsto \frac{\sin\theta + (\pi-\theta)\cos\theta}{\pi}

    [ChoSaul2009]_, [Bronstein2016]_ (who scale by 1/√m, which halves the squared norm).

    Parameters
    ----------
    width : int
        Number m of features of each layer.
    depth : int
        Number of layers.
    device : str, optional
        Torch device for the products; by default NumPy.
    random_state : int, RandomState, Generator or None
        Seed of the layers.

    Examples
    --------
    >>> X = np.random.default_rng(1).standard_normal((5, 20))
    >>> features = ReLUFeatures(width=20_000).fit_transform(X)
    >>> bool(np.allclose(np.linalg.norm(features, axis=1), np.linalg.norm(X, axis=1), rtol=0.05))
    True
    """

    def __init__(self, width: int = 1024, *, depth: int = 1, device: str | None = None, random_state: Any = 0) -> None:
        self.width = width
        self.depth = depth
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the layers for the dimension of ``X``."""
        width, depth = check_count("width", self.width), check_count("depth", self.depth)
        X = self._validated(X, reset=True)
        rng = random_generator(self.random_state, "relu features")
        sizes = [X.shape[1]] + [width] * depth
        self.weights_ = [
            (rng.standard_normal((out, into)) * np.sqrt(2 / out)).astype(X.dtype) for into, out in pairwise(sizes)
        ]
        return self

    @property
    def _n_features_out(self) -> int:
        return len(self.weights_[-1])

    def _float_type(self) -> Any:
        return self.weights_[-1].dtype

    def _rows_to_output(self, block: np.ndarray) -> np.ndarray:
        for weights in self.weights_:
            block = linear(block, weights, None, self.device)
            np.maximum(block, 0, out=block)
        return block

    def distortion_report(self, X: Any, *, pairs: int = 10_000, random_state: Any = 0) -> CosineDistortion:
        """Compare cosines of random pairs before and after with the predicted map and its spread at this width."""
        from initscope.embed.cosine_distortion import cosine_distortion, dense_spread, row_cosines
        from initscope.embed.distortion import random_pairs, rows_of_pairs

        check_is_fitted(self)
        X = self._validated(X, reset=False)
        left, right = random_pairs(len(X), pairs, random_generator(random_state, "pairs"))
        rows, left, right = rows_of_pairs(X, left, right)
        before = row_cosines(rows, left, right)
        predicted, spread = dense_spread(before, self.width, self.depth)
        observed = row_cosines(self.transform(rows), left, right)
        return cosine_distortion(
            before, predicted, observed, spread, "mean cosine map of ReLU and its spread at this width"
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
