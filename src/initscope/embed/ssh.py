"""`SSH`: similarity-sensitive hashing, bits chosen one by one by boosting on pairs."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from initscope.embed._base import SupervisedHasher, random_generator
from initscope.errors import InputError, check_count

__all__ = ["SSH", "sample_pairs"]


class SSH(SupervisedHasher):
    r"""Boosted similarity-sensitive coding [Shakhnarovich2005]_.

    Every bit is a stump :math:`[x_j > t]`, which predicts that a pair is similar if both rows are on the same side of
    the threshold. With pairs weighted so that the similar and the dissimilar ones have one half each, the next bit is
    the stump with the largest

    .. math:: r = \sum w\,l\,c = P_w(c = 1 \mid l = 1) - P_w(c = 1 \mid l = -1)

    (l = ±1 for similar or dissimilar, c = ±1 for the prediction), among those that separate any pair. AdaBoost
    multiplies the weights by :math:`e^{-\alpha l c}`, :math:`\alpha = \tfrac12\log\tfrac{1+r}{1-r}`, and they are
    balanced again. The balance is also a boosting step, that of the constant vote: the Hamming distance up to which a
    pair is predicted to be similar. It costs no bit.

    Parameters
    ----------
    bits : int
    pairs : int
        Number of pairs drawn from the labels, half of them similar.
    thresholds : int
        Candidate cuts per feature, at quantiles.
    packed : bool
    random_state : int, RandomState, Generator or None
    """

    def __init__(
        self, bits: int = 64, *, pairs: int = 20_000, thresholds: int = 32, packed: bool = True, random_state: Any = 0
    ) -> None:
        self.bits = bits
        self.pairs = pairs
        self.thresholds = thresholds
        self.packed = packed
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose the stumps from class labels."""
        bits, cuts = self._start(), check_count("thresholds", self.thresholds)
        X, classes = self._validated_labels(X, y)
        rng = random_generator(self.random_state, "ssh")
        left, right, like = sample_pairs(classes, check_count("pairs", self.pairs, least=2), rng)
        candidates = np.quantile(X, np.linspace(0, 1, cuts + 2)[1:-1], axis=0).T  # [features, cuts]
        level = np.stack([np.searchsorted(cut, column) for cut, column in zip(candidates, X.T)])
        lower, upper = np.sort(np.stack([level[:, left], level[:, right]]), axis=0)
        offsets = (np.arange(X.shape[1]) * (cuts + 1))[:, None]
        lower, upper = (lower + offsets).ravel(), (upper + offsets).ravel()

        def separated(weights: np.ndarray) -> np.ndarray:
            """Return the weight of the pairs that each threshold separates.

            Threshold k separates pairs with lower <= k < upper.
            """
            tiled, size = np.tile(weights, X.shape[1]), X.shape[1] * (cuts + 1)
            steps = np.bincount(lower, tiled, size) - np.bincount(upper, tiled, size)
            return np.asarray(np.cumsum(steps.reshape(X.shape[1], cuts + 1), axis=1)[:, :-1])

        idle = separated(np.ones(len(like))) < 0.5
        sign = np.where(like, 1.0, -1.0)
        weight = np.ones(len(sign))
        self.features_, self.thresholds_ = np.empty(bits, dtype=np.int64), np.empty(bits, dtype=X.dtype)
        for bit in range(bits):
            for side in (like, ~like):
                weight[side] /= 2 * weight[side].sum()
            agreement = (weight * sign).sum() - 2 * separated(weight * sign)
            agreement[idle] = -1.0
            feature, cut = np.unravel_index(int(np.argmax(agreement)), agreement.shape)
            r = float(np.clip(agreement[feature, cut], -1 + 1e-9, 1 - 1e-9))
            self.features_[bit], self.thresholds_[bit] = feature, candidates[feature, cut]
            above = X[:, feature] > candidates[feature, cut]
            vote = np.where(above[left] == above[right], 1.0, -1.0)
            weight *= np.exp(-0.5 * np.log((1 + r) / (1 - r)) * sign * vote)
        return self

    def _float_type(self) -> Any:
        return self.thresholds_.dtype

    def _scores(self, block: np.ndarray) -> np.ndarray:
        return np.asarray(block[:, self.features_] - self.thresholds_)


def sample_pairs(
    classes: np.ndarray, pairs: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return random pairs of different rows, half similar and half dissimilar if both exist, and which are similar."""
    count, sizes = len(classes), np.bincount(classes)[classes]
    order = np.argsort(classes, kind="stable")  # a class is a run of ranks, starting at `offsets`
    offsets = np.searchsorted(classes[order], classes)
    rank = np.empty(count, dtype=np.int64)
    rank[order] = np.arange(count)
    parts = []
    if (sizes > 1).any():
        chosen = rng.choice(np.flatnonzero(sizes > 1), pairs - pairs // 2)
        step = 1 + (rng.random(len(chosen)) * (sizes[chosen] - 1)).astype(np.int64)
        inside = offsets[chosen] + (rank[chosen] - offsets[chosen] + step) % sizes[chosen]
        parts.append((chosen, order[inside], np.ones(len(chosen), dtype=bool)))
    if (sizes < count).any():
        chosen = rng.integers(count, size=pairs // 2)
        step = (rng.random(len(chosen)) * (count - sizes[chosen])).astype(np.int64)
        outside = (offsets[chosen] + sizes[chosen] + step) % count
        parts.append((chosen, order[outside], np.zeros(len(chosen), dtype=bool)))
    if not parts:
        raise InputError(f"n_samples = {count}: no pair can be made; give at least two rows")
    left, right, like = (np.concatenate(column) for column in zip(*parts))
    return left, right, like
