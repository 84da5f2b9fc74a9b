"""scikit-learn's own contract for every estimator of the room, and a pipeline that clones and pickles."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from initscope.embed import AGH, ITQ, KSH, SSH, ConvFeatures, DiffHash, LearnedHash, ReLUFeatures, SignHash, unpack_bits
from initscope.errors import InputError

ESTIMATORS = [
    ConvFeatures(filters=6),
    ConvFeatures(filters=20, pool=1),
    ReLUFeatures(width=30),
    ReLUFeatures(width=20, depth=3),
    SignHash(bits=20),
    SignHash(bits=20, center=True, packed=False),
    SignHash(bits=20, kernel_size=1),
    SignHash(bits=20, orthogonal=True),
    SignHash(bits=20, center=True, directions="data"),
    ITQ(bits=12),
    AGH(bits=6, anchors=10),
    DiffHash(bits=2),
    SSH(bits=8, pairs=500),
    KSH(bits=6, anchors=20),
    LearnedHash(bits=12, steps=10),
    LearnedHash(bits=12, layers=2, hidden=16, steps=10, loss="softmax"),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_scikit_learn_contract(estimator):
    check_estimator(estimator, on_skip=None)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_pipeline_clones_and_pickles(estimator):
    X, y = load_digits(n_class=3, return_X_y=True)
    parameters = {"packed": False} if "packed" in estimator.get_params() else {}
    pipeline = make_pipeline(clone(estimator).set_params(**parameters), RidgeClassifier())
    predicted = clone(pipeline).fit(X, y).predict(X)
    restored = pickle.loads(pickle.dumps(pipeline.fit(X, y)))
    np.testing.assert_array_equal(restored.predict(X), predicted)
    assert (predicted == y).mean() > 0.6
    names = pipeline[0].get_feature_names_out()
    assert len(names) == pipeline[0].transform(X[:2]).shape[1]


@pytest.mark.parametrize(
    "estimator", [*ESTIMATORS, SignHash(20, device="cpu"), ReLUFeatures(20, device="cpu")], ids=repr
)
def test_new_data_may_have_another_type_than_the_training_data(estimator):
    """Whole numbers are exact in every type: outputs are those of the fitted type, whatever comes in."""
    X, y = load_digits(n_class=3, return_X_y=True)
    for fitted in (np.float32, np.float64):
        estimator = clone(estimator).fit(X.astype(fitted), y)
        expected = estimator.transform(X.astype(fitted))
        for other in (np.float32, np.float64, np.float16, np.uint8, np.int64):
            output = estimator.transform(X.astype(other))
            assert output.dtype == expected.dtype
            np.testing.assert_array_equal(output, expected)


@pytest.mark.parametrize(
    "estimator", [ReLUFeatures(20), ConvFeatures(4), SignHash(20), LearnedHash(12, steps=2)], ids=repr
)
def test_bytes_and_half_precision_are_fitted_in_single_precision(estimator):
    X, y = load_digits(n_class=3, return_X_y=True)
    expected = clone(estimator).fit(X.astype(np.float32), y).transform(X)
    for small in (np.uint8, np.float16):
        np.testing.assert_array_equal(clone(estimator).fit(X.astype(small), y).transform(X), expected)


@pytest.mark.parametrize("estimator", [each for each in ESTIMATORS if not isinstance(each, ConvFeatures)], ids=repr)
def test_memory_does_not_grow_with_the_rows(estimator):
    """15 MB of bytes: less than 25 MB beside input and output; as double precision they alone would take 123 MB."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 256, (40_000, 384), dtype=np.uint8), np.arange(500) % 5
    estimator = clone(estimator).fit(X[:500], y)
    expected = estimator.transform(X[:1])
    tracemalloc.start()
    output = estimator.transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < output.nbytes + 25e6
    assert output.dtype == expected.dtype


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_a_stream_may_have_empty_batches(estimator):
    X, y = load_digits(n_class=3, return_X_y=True)
    estimator = clone(estimator).fit(X, y)
    parts = list(estimator.transform_stream([X[:5], X[:0], X[5:]]))
    assert [len(part) for part in parts] == [5, 0, len(X) - 5]
    np.testing.assert_allclose(np.concatenate(parts), estimator.transform(X), rtol=1e-12)


@pytest.mark.parametrize("hasher", [each for each in ESTIMATORS if "packed" in each.get_params()], ids=repr)
def test_packing_may_be_chosen_after_fitting(hasher):
    X, y = load_digits(n_class=3, return_X_y=True)
    hasher = clone(hasher).fit(X, y)
    packed = hasher.set_params(packed=True).transform(X)
    columns = hasher.set_params(packed=False).transform(X)
    np.testing.assert_array_equal(unpack_bits(packed, hasher.bits), columns)
    assert len(hasher.get_feature_names_out()) == hasher.bits


@pytest.mark.parametrize(
    "estimator", [SignHash(64.0), ITQ(8.0), AGH(8.0), LearnedHash(8, layers=2.0), ReLUFeatures(8.0)], ids=repr
)
def test_fractions_are_no_counts(estimator):
    X, y = load_digits(n_class=3, return_X_y=True)
    with pytest.raises(InputError, match=r"(64|8|2)\.0 must be a whole number"):
        estimator.fit(X, y)


@pytest.mark.parametrize("hasher", [DiffHash(2), SSH(8, pairs=500), KSH(6), LearnedHash(12, steps=2)], ids=repr)
def test_a_continuous_target_is_no_set_of_classes(hasher):
    X, y = load_digits(n_class=3, return_X_y=True)
    with pytest.raises(InputError, match=r"y holds 0\.25, which is not a class"):
        hasher.fit(X, y + 0.25)
    hasher.fit(X, y.astype(np.float64))
    hasher.fit(X, y.astype(str))
