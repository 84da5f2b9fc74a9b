"""`NetworkKernel` against scikit-learn's solvers and against its own definitions."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from torch import nn

from initscope.embed import NetworkKernel
from initscope.embed.network_kernel import left_out_accuracy
from initscope.errors import InputError
from initscope.initializers import He
from initscope.propagate.kernels import kernel

MODEL = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten())


@pytest.fixture(scope="module")
def digits():
    found = load_digits()
    images = (found.images[:, None] / 16).astype(np.float32)
    return images[:120], found.target[:120], images[120:200], found.target[120:200]


def kernels(digits, law=None, kind="nngp"):
    train, _, test, _ = digits
    K = kernel(MODEL, train, initializer=law, kind=kind, normalize=False)
    scale = np.mean(np.diag(K))
    return K / scale, kernel(MODEL, test, train, initializer=law, kind=kind, normalize=False) / scale


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
def test_means_are_those_of_kernel_ridge(digits, kind):
    train, labels, test, _ = digits
    K, rows = kernels(digits, He(), kind)
    indicators = (labels[:, None] == np.arange(10)).astype(float)
    mean = indicators.mean(axis=0)
    expected = KernelRidge(alpha=1e-3, kernel="precomputed").fit(K, indicators - mean).predict(rows) + mean
    ours = NetworkKernel(MODEL, kind=kind, noise=1e-3, initializer=He()).fit(train, labels)
    assert np.abs(ours.decision_function(test) - expected).max() < 1e-6
    assert np.array_equal(ours.predict(test), expected.argmax(axis=1))


def test_deviation_is_that_of_the_process(digits):
    """The posterior's variance by the plain formula, and none is left without noise at a training point."""
    train, labels, test, _ = digits
    ours = NetworkKernel(MODEL, noise=1e-2).fit(train, labels)
    K, rows = kernels(digits)
    scale = np.mean(np.diag(kernel(MODEL, train, normalize=False)))
    own = np.diag(kernel(MODEL, test, normalize=False)) / scale
    variance = own - np.einsum("ij,ij->i", rows, np.linalg.solve(K + 1e-2 * np.eye(len(K)), rows.T).T)
    _, deviation = ours.predict(test, return_std=True)
    assert np.abs(deviation**2 - variance).max() < 1e-6
    _, at_training = NetworkKernel(MODEL, noise=1e-8).fit(train[:20], labels[:20]).predict(train[:20], return_std=True)
    assert at_training.max() < 2e-3


def test_probabilities_are_those_of_draws(digits):
    """z-scores against 20,000 draws of the processes; an error of 2 % in a probability would show."""
    train, labels, test, _ = digits
    ours = NetworkKernel(MODEL, noise=1e-1).fit(train, labels)
    mean, deviation = ours.decision_function(test[:5]), ours.predict(test[:5], return_std=True)[1]
    rng = np.random.default_rng(8)
    draws = mean[:, None] + deviation[:, None, None] * rng.standard_normal((5, 20_000, 10))
    seen = (draws.argmax(axis=2)[..., None] == np.arange(10)).mean(axis=1)
    chance = ours.predict_proba(test[:5])
    error = np.sqrt(np.maximum(chance * (1 - chance), 1e-4) / 20_000)
    assert np.abs((seen - chance) / error).max() < 4.5
    assert np.allclose(chance.sum(axis=1), 1)


def test_noise_is_chosen_by_leaving_out(digits):
    """The closed form against refitting without each sample."""
    train, labels, *_ = digits
    ours = NetworkKernel(MODEL).fit(train, labels)
    K, _ = kernels(digits)
    accuracy, noise = left_out_accuracy(K, labels)
    assert noise == ours.noise_
    indicators = (labels[:, None] == np.arange(10)).astype(float)
    targets = indicators - indicators.mean(axis=0)
    right = 0
    for i in range(len(K)):
        rest = np.arange(len(K)) != i
        solved = np.linalg.solve(K[np.ix_(rest, rest)] + noise * np.eye(rest.sum()), targets[rest])
        right += (K[i, rest] @ solved + indicators.mean(axis=0)).argmax() == labels[i]
    assert abs(accuracy - right / len(K)) < 1e-12


def test_support_vectors_and_pipelines(digits):
    """Compare with scikit-learn's solver.

    It stops at a tolerance, so an error of 1e-7 in the kernel can change a prediction. Predictions are therefore
    compared on one kernel; margins on two kernels are compared after solving to 1e-9.
    """
    train, labels, test, classes = digits
    K, rows = kernels(digits)
    ours = NetworkKernel(MODEL, method="svm", noise=0.1).fit(train, labels)
    assert np.abs(ours.K_ - K).max() < 1e-6
    assert np.abs(ours.transform(test) - rows).max() < 1e-6
    expected = SVC(C=10, kernel="precomputed").fit(ours.K_, labels).predict(ours.transform(test))
    assert np.array_equal(ours.predict(test), expected)
    assert ours.score(test, classes) == (expected == classes).mean()

    def precise():
        return SVC(C=10, kernel="precomputed", tol=1e-9, decision_function_shape="ovo")

    margins = precise().fit(K, labels).decision_function(rows)
    pipeline = make_pipeline(NetworkKernel(MODEL), precise()).fit(train, labels)
    assert np.abs(pipeline.decision_function(test) - margins).max() < 1e-4


def test_numbers(digits):
    """Regression of a smooth function of the images."""
    train, _, test, _ = digits
    values, wanted = (side.mean(axis=(1, 2, 3)).astype(float) + 0.5 for side in (train, test))
    ours = NetworkKernel(MODEL).fit(train, values)
    assert ours.score(test, wanted) > 0.9
    with pytest.raises(InputError, match="fitted to classes"):
        ours.predict_proba(test)


@pytest.mark.parametrize(
    ("options", "labels", "message"),
    [
        ({"method": "forest"}, [0, 1, 0], "must be 'gp' or 'svm'"),
        ({"noise": -1.0}, [0, 1, 0], "must be positive"),
        ({}, [0, 1], "one target per sample"),
        ({}, [1, 1, 1], "one class"),
        ({"method": "svm"}, [0.5, 1.5, 2.5], "takes classes"),
    ],
)
def test_bad_input(options, labels, message):
    with pytest.raises(InputError, match=message):
        NetworkKernel(nn.Linear(2, 4), **options).fit(torch.eye(2)[[0, 1, 0]].numpy() + 1, labels)


def test_support_vectors_have_no_uncertainty():
    ours = NetworkKernel(nn.Linear(2, 4), method="svm").fit(np.array([[1.0, 0.0], [0.0, 1.0]]), [0, 1])
    with pytest.raises(InputError, match="no uncertainty"):
        ours.predict_proba(np.array([[1.0, 1.0]]))


def test_one_image_of_a_class_is_not_left_out(digits):
    """Who is left out is then the whole class, and the largest noise seems best: it classifies by the images' size.

    Fitting the images is better over eight disjoint sets by at least three standard errors; nothing is drawn.
    """
    train, labels, test, answers = digits
    gains = []
    for place in range(8):
        chosen = [np.flatnonzero(labels == c)[place] for c in range(10)]
        few = NetworkKernel(MODEL, initializer="he").fit(train[chosen], labels[chosen])
        _, noise = left_out_accuracy(few.K_, labels[chosen])
        left_out = NetworkKernel(MODEL, initializer="he", noise=noise).fit(train[chosen], labels[chosen])
        gains.append(100 * (few.score(test, answers) - left_out.score(test, answers)))
    assert np.mean(gains) > 3 * np.std(gains, ddof=1) / np.sqrt(len(gains))
