"""What every embedding and hash shares: validation, block-wise encoding, packed bits, names of columns, random state.

A hash only says how to `fit` and how rows become scores (`_scores`); a bit is ``score > 0``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import assert_all_finite, check_is_fitted, validate_data

from initscope._random import generator
from initscope.embed.codes import code_bytes, pack_bits
from initscope.errors import InputError, check_count

__all__ = ["Embedding", "Hasher", "SupervisedHasher", "random_generator"]

_BLOCK_VALUES = 1 << 20  # of a block's output: the scores stay in the cache, where packing them costs next to nothing


def random_generator(random_state: Any, purpose: str) -> np.random.Generator:
    """Generator from what scikit-learn calls a random state: None, an int, a RandomState or a Generator."""
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, np.random.RandomState):
        random_state = int(random_state.randint(2**31))
    return generator(random_state, purpose)


class Embedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the transformers of this room: rows in, rows out, block by block."""

    _n_features_out: int

    def _validated(self, X: Any, *, reset: bool, y: Any = None) -> Any:
        """X (and y) as scikit-learn wants them; finiteness of new data is checked block by block, in the cache."""
        options: dict[str, Any] = {"dtype": [np.float64, np.float32], "reset": reset, "order": "C"}
        if not reset:
            options["ensure_all_finite"] = False
        if y is None:
            return validate_data(self, X, **options)
        return validate_data(self, X, y, **options)

    def _blocks(self, X: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        size = max(_BLOCK_VALUES // self._block_width(), 1)
        for start in range(0, len(X), size):
            rows = slice(start, min(start + size, len(X)))
            block = X[rows]
            with np.errstate(over="ignore", invalid="ignore"):
                total = block.sum()
            if not np.isfinite(total):
                assert_all_finite(block, estimator_name=type(self).__name__, input_name="X")
            yield rows, block

    def _block_width(self) -> int:
        """Values computed for a row, which bound the rows of a block."""
        return self._n_features_out

    @abstractmethod
    def _rows_to_output(self, block: np.ndarray) -> np.ndarray:
        """The embedded rows of a block."""

    def _empty_output(self, X: np.ndarray) -> np.ndarray:
        return np.empty((len(X), self._n_features_out), dtype=X.dtype)

    def transform(self, X: Any) -> np.ndarray:
        """Embed the rows of ``X`` block by block: beside input and output it needs a few megabytes."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        output = self._empty_output(X)
        for rows, block in self._blocks(X):
            output[rows] = self._rows_to_output(block)
        return output

    def transform_stream(self, batches: Iterable[Any]) -> Iterator[np.ndarray]:
        """Yield the embedded rows of each batch: for data that do not fit in memory."""
        for batch in batches:
            yield self.transform(batch)


class Hasher(Embedding):
    """Base of the hashes. Subclasses have parameters ``bits``, ``packed`` and give `_scores`."""

    bits: int
    packed: bool

    def _start(self) -> int:
        """Check ``bits`` and set what the output looks like; called by every ``fit``."""
        bits = check_count("bits", self.bits)
        self._n_features_out = code_bytes(bits) if self.packed else bits
        return bits

    @abstractmethod
    def _scores(self, block: np.ndarray) -> np.ndarray:
        """Real numbers [rows, bits] whose signs are the bits."""

    def _rows_to_output(self, block: np.ndarray) -> np.ndarray:
        scores = self._scores(block)
        return pack_bits(scores) if self.packed else (scores > 0).view(np.uint8)

    def _block_width(self) -> int:
        return self.bits

    def _empty_output(self, X: np.ndarray) -> np.ndarray:
        return np.empty((len(X), self._n_features_out), dtype=np.uint8)

    @abstractmethod
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the code from the rows of ``X``."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags


class SupervisedHasher(Hasher):
    """Base of the hashes that learn from class labels: rows of one class are similar, all others are not."""

    def _validated_labels(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Checked rows, and labels as class numbers 0, 1, …; the classes are kept in ``classes_``."""
        if y is None:
            raise InputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: it learns from class labels"
            )
        X, y = self._validated(X, reset=True, y=y)
        self.classes_, classes = np.unique(y, return_inverse=True)
        if len(X) < 2:
            raise InputError(f"n_samples = {len(X)}: one sample makes no pair; give at least two")
        return X, classes

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.one_d_labels = True
        return tags
