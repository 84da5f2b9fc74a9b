"""Neural collapse and probes: a network that has collapsed, one that has not, and the numbers in between."""

import numpy as np
import pytest
import torch

from initscope.class_geometry import (
    accuracy_by_distance,
    angle_distortion,
    boundary_distance,
    collapse,
    extreme_learning,
)
from initscope.class_geometry.supervised import nearest_class_mean
from initscope.data import load
from initscope.errors import InputError
from initscope.models import load_model


@pytest.fixture(scope="module")
def digits():
    return load("digits")


class Oracle(torch.nn.Module):
    """Knows the class of every digit and gives the corner of a simplex, plus a little of the digit."""

    def __init__(self, digits, little):
        super().__init__()
        self.rows, self.labels = torch.from_numpy(digits.images).flatten(1), torch.from_numpy(digits.labels)
        self.little, self.last = little, torch.nn.Identity()

    def forward(self, images):
        rows = images.flatten(1)
        corner = torch.nn.functional.one_hot(self.labels[torch.cdist(rows, self.rows).argmin(dim=1)], 10)
        return self.last(torch.cat([corner.float(), self.little * rows], dim=1))


def test_collapsed_network_is_a_simplex(digits):
    start, end = collapse(Oracle(digits, 0.0), digits, samples=500, layers=["last"]).rows
    assert end.within_between < 1e-10
    assert end.variability < 1e-10
    assert end.cosine == pytest.approx(-1 / 9, abs=1e-6)
    assert end.simplex == -1 / 9
    assert end.cosine_spread < 1e-6
    assert end.norm_spread < 1e-6
    assert end.probe_accuracy == end.class_mean_accuracy == 1.0
    assert start.layer == "input"
    assert start.within_between > 0.5
    assert start.cosine_spread > 0.1


def test_partly_collapsed_is_between(digits):
    values = [collapse(Oracle(digits, little), digits, samples=400, layers=["last"]).rows[-1] for little in (0.1, 0.3)]
    assert 0 < values[0].within_between < values[1].within_between
    assert 0 < values[0].variability < values[1].variability


@pytest.mark.filterwarnings("ignore:self.within_class_std_dev_")  # some corners of the digits are always white
def test_probe_of_pixels_against_a_known_method(digits):
    """Nearest class mean on held-out digits: about .9; scikit-learn's NearestCentroid on the same halves agrees."""
    from sklearn.neighbors import NearestCentroid

    rows, labels = digits.images.reshape(len(digits), -1), digits.labels
    guess = nearest_class_mean(rows[:900], labels[:900], rows[900:])
    np.testing.assert_array_equal(guess, NearestCentroid().fit(rows[:900], labels[:900]).predict(rows[900:]))
    found = collapse(torch.nn.Flatten(), digits, samples=1000).rows[0]
    assert abs(found.class_mean_accuracy - 0.9) < 0.05
    assert found.probe_accuracy > found.class_mean_accuracy
    shares, errors = (
        (found.class_mean_accuracy, found.probe_accuracy),
        (found.class_mean_accuracy_se, found.probe_accuracy_se),
    )
    assert errors == pytest.approx([np.sqrt(p * (1 - p) / 500) for p in shares])


def test_collapse_refuses(digits):
    with pytest.raises(InputError, match="samples = 3"):
        collapse(torch.nn.Flatten(), digits, samples=3)
    with pytest.raises(InputError, match="class 1 has 1 sample"):
        collapse(torch.nn.Flatten(), digits.images[:5], [0, 0, 0, 0, 1])


def test_boundary_distance_against_brute_force(digits):
    pytest.importorskip("faiss")
    train, test = digits[:300], digits[300:400]
    inputs = digits.images.reshape(len(digits), -1).astype(np.float64)
    distance = np.linalg.norm(inputs[300:400, None] - inputs[None, :300], axis=2)
    own = test.labels[:, None] == train.labels
    expected = np.where(own, np.inf, distance).min(axis=1) / np.where(own, distance, np.inf).min(axis=1)
    np.testing.assert_allclose(boundary_distance(train, test), expected, rtol=1e-3)
    with pytest.raises(InputError, match="different classes"):
        boundary_distance(train, (test.images, test.labels + 1))


def test_extreme_learning_beats_chance_and_finds_the_layer(digits):
    train, test = digits[:600], digits[600:900]
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 300), torch.nn.ReLU(), torch.nn.Linear(300, 3))
    guess = extreme_learning(model, train, test)
    assert (guess == test.labels).mean() > 0.85
    np.testing.assert_array_equal(guess, extreme_learning(model, train, test, layer="2"))
    assert (extreme_learning(model, train, test, layer="3") == test.labels).mean() < 0.7


def test_accuracy_by_distance_counts():
    found = accuracy_by_distance([4.0, 1.0, 3.0, 2.0], {"a": np.array([True, False, True, True])}, groups=2)
    assert found.distance == (1.5, 3.5)
    assert found.accuracy == {"a": (0.5, 1.0)}
    assert found.standard_error["a"] == pytest.approx((0.5 / np.sqrt(2), 0.0))
    assert found.table()[1] == {"group": 2, "distance": 3.5, "a": 1.0, "a ±": 0.0}
    assert found.plot().get_ylabel() == "test accuracy"
    with pytest.raises(InputError, match="one for each"):
        accuracy_by_distance([1.0], {"a": [True, False]}, groups=1)


def test_angle_distortion_against_arccos(digits):
    model = load_model("conv3x3x8:zeros-relu-maxpool2", input_shape=(1, 8, 8))
    found = angle_distortion(model, digits, pairs=40, layers=["relu1"], seed=2)
    from initscope.data import random_pairs

    x, y, _ = random_pairs(digits, 40, 2)
    with torch.no_grad():
        after = [model[:2](torch.from_numpy(each)).flatten(1).double().numpy() for each in (x, y)]
    before = [each.reshape(40, -1).astype(np.float64) for each in (x, y)]

    def angle(u, v):
        return np.arccos((u * v).sum(axis=1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1))

    np.testing.assert_allclose(found.ratios[0], angle(*after) / angle(*before), rtol=1e-4)
    assert found.rows[0].depth == 1
    assert found.table()[0]["measured"] == pytest.approx(np.median(found.ratios[0]))
    assert found.plot(layer="relu1").get_xlabel().startswith("angle after relu1")


def test_vgg_has_the_names_of_published_weights():
    model = load_model("initscope.class_geometry:vgg16")
    names = list(model.state_dict())
    assert names[:2] == ["conv1.weight", "conv1.bias"]
    assert names[-1] == "conv13.bias"
    with torch.no_grad():
        assert model(torch.zeros(1, 3, 32, 32)).shape == (1, 512, 1, 1)
