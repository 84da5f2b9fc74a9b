"""`LearnedHash`: learns what it should, from labels, pairs and images, without touching torch's random state."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from initscope.embed import LearnedHash, SignHash, hamming_distance, mean_average_precision, unpack_bits
from initscope.errors import InputError


def blobs(rng, rows=400, spread=1.0):
    classes = rng.integers(0, 4, rows)
    return spread * rng.standard_normal((rows, 10)) + 3 * np.eye(4, 10)[classes], classes


def parity(rng, rows=400):
    corner = rng.integers(0, 2, (rows, 2))
    return 2.0 * corner - 1 + 0.2 * rng.standard_normal((rows, 2)), corner.sum(axis=1) % 2


def score(codes, classes, half):
    return mean_average_precision(codes[half:], classes[half:], codes[:half], classes[:half]).value


@pytest.mark.parametrize(("layers", "loss"), [(1, "logistic"), (1, "softmax"), (2, "logistic")])
def test_beats_random_bits_on_unseen_rows(layers, loss):
    X, classes = blobs(np.random.default_rng(0))
    learned = (
        LearnedHash(bits=12, layers=layers, loss=loss, hidden=64, steps=150, batch=200, learning_rate=1e-2)
        .fit(X[:200], classes[:200])
        .transform(X)
    )
    random = SignHash(bits=12, center=True).fit_transform(X)
    assert score(learned, classes, 200) > 0.9
    assert score(learned, classes, 200) > score(random, classes, 200) + 0.2


def test_softmax_loss_is_its_formula_and_differentiable():
    """Five rows, two classes and a row without a like one, written out as loops."""
    rng = np.random.default_rng(9)
    codes, classes = np.tanh(rng.standard_normal((5, 3))), np.array([0, 1, 0, 2, 1])
    products = codes @ codes.T
    terms = [
        np.log(sum(np.exp(4 * products[i, k] / 3) for k in range(5) if k != i)) - 4 * products[i, j] / 3
        for i in range(5)
        for j in range(5)
        if i != j and classes[i] == classes[j]
    ]
    rows = torch.tensor(codes, requires_grad=True)
    loss = LearnedHash(bits=3, sharpness=4.0)._softmax(
        rows @ rows.T, torch.tensor(classes)[:, None] == torch.tensor(classes)
    )
    assert loss.item() == pytest.approx(np.mean(terms), rel=1e-12)
    loss.backward()
    assert torch.isfinite(rows.grad).all()


def test_two_layers_learn_a_parity_that_one_cannot():
    X, classes = parity(np.random.default_rng(1))
    options = {
        "bits": 8,
        "hidden": 32,
        "steps": 120,
        "batch": 200,
        "learning_rate": 1e-2,
        "dropout": 0.0,
        "input_dropout": 0.0,
    }
    one, two = (LearnedHash(layers=n, **options).fit(X, classes).transform(X) for n in (1, 2))
    assert score(two, classes, 200) > 0.95
    assert score(one, classes, 200) < 0.85  # the four blobs get four codes, two of them alike at best


def test_pairs_teach_what_labels_teach():
    rng = np.random.default_rng(2)
    X, classes = blobs(rng)
    left, right = rng.integers(0, 200, (2, 1500))
    hasher = LearnedHash(bits=12, steps=150, batch=200, learning_rate=1e-2).fit_pairs(
        X[left], X[right], classes[left] == classes[right]
    )
    random = SignHash(bits=12, center=True).fit_transform(X)
    assert score(hasher.transform(X), classes, 200) > score(random, classes, 200) + 0.2


def test_like_rows_are_near_and_unlike_rows_far():
    X, classes = blobs(np.random.default_rng(3), spread=0.3)
    codes = LearnedHash(bits=16, steps=300, batch=100, learning_rate=1e-2).fit(X, classes).transform(X)
    left, right = np.random.default_rng(4).integers(0, 400, (2, 2000))
    like, distance = classes[left] == classes[right], hamming_distance(codes[left], codes[right])
    assert distance[like].mean() < 1
    assert distance[~like].min() > distance[like].mean()


def test_bits_are_signs_of_the_trained_network():
    """The arrays kept after training are the network's: the same scores, computed layer by layer."""
    X, classes = blobs(np.random.default_rng(5), rows=60)
    hasher = LearnedHash(bits=9, layers=2, hidden=7, steps=5).fit(X, classes)
    network = torch.nn.Sequential(torch.nn.Linear(10, 7), torch.nn.ReLU(), torch.nn.Linear(7, 9))
    for part, weights, biases in zip((network[0], network[2]), hasher.weights_, hasher.biases_):
        part.weight.data, part.bias.data = torch.tensor(weights), torch.tensor(biases)
    inputs = torch.tensor((X - X.mean(axis=0)) / X.std(axis=0), dtype=torch.float32)
    np.testing.assert_array_equal(unpack_bits(hasher.transform(X), 9), (network(inputs) > 0).numpy())


def test_own_network_sees_images():
    """Bright bar in a random place, upright or lying: a small convolutional network tells them apart."""
    rng = np.random.default_rng(6)
    classes = rng.integers(0, 2, 300)
    images = 0.1 * rng.standard_normal((300, 1, 8, 8))
    for image, kind in zip(images, classes):
        place = rng.integers(8)
        image[0, place, :] += 1 - kind
        image[0, :, place] += kind

    def network(bits):
        return torch.nn.Sequential(
            torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.AdaptiveMaxPool2d(1), torch.nn.Flatten(),
            torch.nn.Linear(8, bits),
        )  # fmt: skip

    hasher = LearnedHash(bits=8, network=network, image_shape=(1, 8, 8), steps=150, learning_rate=1e-2, batch=100)
    codes = hasher.fit(images.reshape(300, -1), classes).transform(images.reshape(300, -1))
    assert score(codes, classes, 150) > 0.95


def test_training_is_reproducible_and_leaves_torch_s_random_state_alone():
    X, classes = blobs(np.random.default_rng(7), rows=50)
    before = torch.random.get_rng_state()
    first, again, other = (
        LearnedHash(bits=8, steps=3, random_state=seed).fit(X, classes).transform(X) for seed in (0, 0, 1)
    )
    assert torch.equal(before, torch.random.get_rng_state())
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_training_seeds_no_other_device(monkeypatch):
    seeds = []
    monkeypatch.setattr("torch.cuda.manual_seed_all", seeds.append)
    LearnedHash(bits=8, steps=1).fit(*blobs(np.random.default_rng(7), rows=50))
    assert seeds == []
    torch.manual_seed(torch.initial_seed())  # what it would have seen
    assert len(seeds) == 1


def own_network(bits):
    return torch.nn.Sequential(torch.nn.Linear(10, bits))


@pytest.mark.parametrize("network", [None, own_network])
def test_torch_s_default_type_does_not_matter(network):
    X, classes = blobs(np.random.default_rng(7), rows=50)
    torch.set_default_dtype(torch.float64)
    try:
        codes = LearnedHash(bits=8, steps=3, network=network).fit(X, classes).transform(X)
    finally:
        torch.set_default_dtype(torch.float32)
    assert codes.shape == (50, 1)


def test_features_of_any_size_are_standardised():
    """Powers of two change no digit: a feature times 2²⁰⁰, beyond single precision, gives the same code."""
    X, classes = blobs(np.random.default_rng(7), rows=100)
    scale = 2.0 ** np.where(np.arange(10) == 3, 200, 0)
    hasher = LearnedHash(bits=8, steps=5)
    np.testing.assert_array_equal(
        hasher.fit(X * scale, classes).transform(X * scale), hasher.fit(X, classes).transform(X)
    )
    with pytest.raises(InputError, match="its spread overflows"):
        hasher.fit(X * 2.0 ** np.where(np.arange(10) == 3, 1000, 0), classes)


def test_diverged_training_is_refused():
    X, classes = blobs(np.random.default_rng(7), rows=50)
    with pytest.raises(InputError, match="training diverged"):
        LearnedHash(bits=8, steps=2, sharpness=float("nan")).fit(X, classes)


def test_default_loss_follows_the_depth():
    """Softmax for one layer on labels, logistic for more, for pairs and for a network of one's own."""
    X, classes = blobs(np.random.default_rng(7), rows=60)

    def codes(**parameters):
        return LearnedHash(bits=24, steps=5, hidden=8, **parameters).fit(X, classes).transform(X)

    for parameters, loss, other in (
        ({"layers": 1}, "softmax", "logistic"),
        ({"layers": 2}, "logistic", "softmax"),
        ({"network": own_network}, "logistic", "softmax"),
    ):
        np.testing.assert_array_equal(codes(**parameters), codes(loss=loss, **parameters))
        assert (codes(**parameters) != codes(loss=other, **parameters)).any()


def test_flags_of_pairs_are_true_and_false_or_one_and_zero():
    X, classes = blobs(np.random.default_rng(7), rows=60)
    left, right = X[:30], X[30:]
    like = classes[:30] == classes[30:]
    hasher = LearnedHash(bits=8, steps=3)
    expected = hasher.fit_pairs(left, right, like).transform(X)
    for same in (like.astype(int), like.astype(float), like.tolist()):
        np.testing.assert_array_equal(hasher.fit_pairs(left, right, same).transform(X), expected)
    for bad in (np.where(like, 1, -1), like * 0.5, np.where(like, "yes", "no"), np.where(like, 1, np.nan)):
        with pytest.raises(InputError, match="like holds"):
            hasher.fit_pairs(left, right, bad)


@pytest.mark.parametrize(
    "parameters",
    [
        {"bits": 0},
        {"layers": 0},
        {"steps": 0},
        {"learning_rate": -1.0},
        {"dropout": 1.0},
        {"batch": 1},
        {"loss": "hinge"},
    ],
)
def test_bad_parameters_are_refused(parameters):
    X, classes = blobs(np.random.default_rng(8), rows=20)
    with pytest.raises(InputError):
        LearnedHash(**{"layers": 2, "steps": 1, **parameters}).fit(X, classes)


def test_pairs_of_different_shapes_are_refused():
    with pytest.raises(InputError, match="one row per pair"):
        LearnedHash().fit_pairs(np.ones((3, 2)), np.ones((3, 2)), [True])
    with pytest.raises(InputError, match="needs labels"):
        LearnedHash(loss="softmax").fit_pairs(np.ones((3, 2)), np.ones((3, 2)), [True] * 3)
    with pytest.raises(InputError, match="requires y"):
        LearnedHash().fit(np.ones((3, 2)))
