"""The contract of a hash: a scikit-learn transformer whose codes are bits, the same for the same seed."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from initscope.embed import hamming_distance

__all__ = ["HasherContract"]


class HasherContract:
    """Inherit it and override `hasher`; the estimator is fitted on three classes of digits."""

    def hasher(self) -> Any:
        """A new, unfitted estimator with packed codes."""
        raise AssertionError(f"{type(self).__name__} must override hasher()")

    def test_scikit_learn_contract(self) -> None:
        """`sklearn.utils.estimator_checks.check_estimator`."""
        from sklearn.utils.estimator_checks import check_estimator

        check_estimator(self.hasher(), on_skip=None)

    def test_codes_are_packed_bits_and_repeatable(self) -> None:
        """uint8 bytes, eight bits each; two fits with one seed give the same codes."""
        X, y = _digits()
        codes = self.hasher().fit(X, y).transform(X)
        assert codes.dtype == np.uint8
        assert codes.shape[0] == len(X)
        np.testing.assert_array_equal(self.hasher().fit(X, y).transform(X), codes)

    def test_equal_rows_have_equal_codes(self) -> None:
        """Distance 0 from a row to itself, and codes that do not depend on the batch."""
        X, y = _digits()
        fitted = self.hasher().fit(X, y)
        together, alone = fitted.transform(X[:5]), np.concatenate([fitted.transform(X[k : k + 1]) for k in range(5)])
        assert not hamming_distance(together, alone).any()

    def test_pickle(self) -> None:
        """What is read back gives the same codes."""
        X, y = _digits()
        fitted = self.hasher().fit(X, y)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).transform(X), fitted.transform(X))

    def test_codes_tell_classes_apart(self) -> None:
        """Rows of one class are nearer to each other than rows of different classes, on average."""
        X, y = _digits()
        codes = self.hasher().fit(X, y).transform(X)
        generator = np.random.default_rng(0)
        left, right = generator.integers(len(X), size=(2, 4000))
        distance, same = hamming_distance(codes[left], codes[right]), y[left] == y[right]
        assert distance[same].mean() < distance[~same].mean()


def _digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    X, y = load_digits(n_class=3, return_X_y=True)
    return np.asarray(X), np.asarray(y)
