"""Test suite for a hash: a scikit-learn transformer that returns packed bits, reproducible by its seed."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from initscope.embed import hamming_distance

__all__ = ["HasherContract"]


class HasherContract:
    """Inherit this class and override `hasher`; the tests fit the estimator on three classes of digits."""

    def hasher(self) -> Any:
        """Return a new, unfitted estimator with packed codes."""
        raise AssertionError(f"{type(self).__name__} must override hasher()")

    def test_scikit_learn_contract(self) -> None:
        """Run `sklearn.utils.estimator_checks.check_estimator`."""
        from sklearn.utils.estimator_checks import check_estimator

        check_estimator(self.hasher(), on_skip=None)

    def test_codes_are_packed_bits_and_repeatable(self) -> None:
        """Check that codes are uint8, eight bits each, and that two fits with one seed give the same codes."""
        X, y = _digits()
        codes = self.hasher().fit(X, y).transform(X)
        assert codes.dtype == np.uint8
        assert codes.shape[0] == len(X)
        np.testing.assert_array_equal(self.hasher().fit(X, y).transform(X), codes)

    def test_equal_rows_have_equal_codes(self) -> None:
        """Check that the code of a row does not depend on the batch."""
        X, y = _digits()
        fitted = self.hasher().fit(X, y)
        together, alone = fitted.transform(X[:5]), np.concatenate([fitted.transform(X[k : k + 1]) for k in range(5)])
        assert not hamming_distance(together, alone).any()

    def test_pickle(self) -> None:
        """Check that an unpickled estimator gives the same codes."""
        X, y = _digits()
        fitted = self.hasher().fit(X, y)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).transform(X), fitted.transform(X))

    def test_codes_distinguish_classes(self) -> None:
        """Check that rows of one class are nearer to each other than rows of different classes, on average."""
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
