"""scikit-learn's own contract for every estimator of the room, and a pipeline that clones and pickles."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from initscope.embed import AGH, ITQ, KSH, SSH, ConvFeatures, DiffHash, LearnedHash, ReLUFeatures, SignHash

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
