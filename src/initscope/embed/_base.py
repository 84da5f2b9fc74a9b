"""Base classes of embeddings and hashes: validation, block-wise encoding, packed bits, column names, random state.

A hash only implements `fit` and the scores of rows (`_scores`); a bit is ``score > 0``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from initscope._utils.randomness import generator
from initscope.embed.codes import code_bytes, pack_bits
from initscope.errors import InputError, check_count

__all__ = ["Embedding", "Hasher", "SupervisedHasher", "random_generator"]

_BLOCK_VALUES = 1 << 20  # per block: the scores stay in the CPU cache, where packing them is cheap


def random_generator(random_state: Any, purpose: str) -> np.random.Generator:
    """Return a NumPy generator for scikit-learn's ``random_state``: None, an int, a RandomState or a Generator."""
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, np.random.RandomState):
        random_state = int(random_state.randint(2**31))
    return generator(random_state, purpose)


def _check_finite(rows: np.ndarray, first: int = 0) -> None:
    """Raise `InputError` for NaN and infinity, with the row of X; ``first`` is the index of the first row here."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = rows.sum()
    if np.isfinite(total):  # one pass over what is nearly always finite
        return
    wrong = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(wrong):
        raise InputError(
            f"row {first + wrong[0]} of X holds NaN, infinity or a number too large for {rows.dtype}; remove or "
            "replace such rows"
        )


class Embedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base class of the transformers of this package: rows in, rows out, block by block."""

    weights_: Any

    @property
    @abstractmethod
    def _n_features_out(self) -> int:
        """Number of columns of the output."""

    def _validated(self, X: Any, *, reset: bool, y: Any = None) -> Any:
        """Return X (and y) as scikit-learn expects them: training data as floats, new data unchanged.

        New data is converted to floats and checked block by block.
        """
        if not reset:
            return validate_data(self, X, reset=False, ensure_all_finite=False, ensure_min_samples=0)
        checked = validate_data(self, X, *(() if y is None else (y,)), ensure_all_finite=False)
        rows = checked if y is None else checked[0]
        # Bytes and half precision are exact in single precision, at half the memory and time of double.
        rows = np.ascontiguousarray(rows, dtype=np.float32 if np.can_cast(rows.dtype, np.float32) else np.float64)
        _check_finite(rows)
        return rows if y is None else (rows, checked[1])

    def _float_type(self) -> Any:
        """Return the float type of the fitted values; new data is cast to it."""
        return self.weights_.dtype

    def _blocks(self, X: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield slices of ``X`` and their finite rows in the estimator's float type."""
        size = max(_BLOCK_VALUES // max(self._row_values(), self.n_features_in_), 1)
        for start in range(0, len(X), size):
            rows = slice(start, min(start + size, len(X)))
            with np.errstate(over="ignore", invalid="ignore"):
                block = np.ascontiguousarray(X[rows], dtype=self._float_type())
            _check_finite(block, start)
            yield rows, block

    def _row_values(self) -> int:
        """Return the number of intermediate values per row, which limits the number of rows in a block."""
        return self._n_features_out

    @abstractmethod
    def _rows_to_output(self, block: np.ndarray) -> np.ndarray:
        """The embedded rows of a block."""

    def _output_type(self) -> Any:
        return self._float_type()

    def transform(self, X: Any) -> np.ndarray:
        """Embed the rows of ``X`` in the float type of `fit`, block by block.

        In addition to input and output, this needs some tens of megabytes for any number of rows.
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        output = np.empty((len(X), self._n_features_out), dtype=self._output_type())
        for rows, block in self._blocks(X):
            output[rows] = self._rows_to_output(block)
        return output

    def transform_stream(self, batches: Iterable[Any]) -> Iterator[np.ndarray]:
        """Yield the embedded rows of each batch, for data that does not fit in memory."""
        for batch in batches:
            yield self.transform(batch)


class Hasher(Embedding):
    """Base class of hashes. Subclasses have the parameters ``bits`` and ``packed`` and implement `_scores`."""

    bits: int
    packed: bool

    def _start(self) -> int:
        """Check ``bits`` and store the length of the code; every ``fit`` calls this."""
        self._bits = check_count("bits", self.bits)
        return self._bits

    @property
    def _n_features_out(self) -> int:
        return code_bytes(self._bits) if self.packed else self._bits

    @abstractmethod
    def _scores(self, block: np.ndarray) -> np.ndarray:
        """Return real numbers [rows, bits] whose signs are the bits."""

    def _rows_to_output(self, block: np.ndarray) -> np.ndarray:
        scores = self._scores(block)
        return pack_bits(scores) if self.packed else (scores > 0).view(np.uint8)

    def _row_values(self) -> int:
        return self._bits

    def _output_type(self) -> Any:
        return np.uint8

    @abstractmethod
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the code from the rows of ``X``."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags


class SupervisedHasher(Hasher):
    """Base class of hashes that learn from class labels: rows of the same class are similar, others are not."""

    def _validated_labels(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return checked rows, and labels as class indices 0, 1, …; ``classes_`` holds the classes."""
        if y is None:
            raise InputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: it learns from class labels"
            )
        X, y = self._validated(X, reset=True, y=y)
        fractions = y[y != np.floor(y)] if y.dtype.kind == "f" else y[:0]
        if len(fractions):
            raise InputError(
                f"y holds {fractions[0]:g}, which is not a class: {type(self).__name__} learns from class labels; give "
                "whole numbers or strings, for example bins of y"
            )
        self.classes_, classes = np.unique(y, return_inverse=True)
        if len(X) < 2:
            raise InputError(f"n_samples = {len(X)}: a pair needs two samples; give at least two")
        return X, classes

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.one_d_labels = True
        return tags
