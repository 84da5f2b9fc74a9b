import numpy as np
import pytest
from sklearn.datasets import load_digits, load_sample_images

from initscope.data import load, names, within_class_pairs
from initscope.errors import InputError


def test_photos_are_exact_crops_of_the_two_photographs():
    data = load("photos")
    assert data.images.shape == (2 * 6 * 10, 3, 64, 64)
    assert np.bincount(data.labels).tolist() == [60, 60]
    expected = {
        (label, photo[row : row + 64, column : column + 64].tobytes())
        for label, photo in enumerate(load_sample_images().images)
        for row in range(0, 427 - 63, 64)
        for column in range(0, 640 - 63, 64)
    }
    bytes_of = np.round(data.images * 255).astype(np.uint8).transpose(0, 2, 3, 1)
    assert {(label, crop.tobytes()) for label, crop in zip(data.labels.tolist(), bytes_of)} == expected


def test_photos_options_and_fixed_order():
    few = load("photos", limit=7)
    assert np.array_equal(few.images, load("photos").images[:7])
    assert set(few.labels) == {0, 1}
    assert load("photos", crop=32).images.shape == (2 * 13 * 20, 3, 32, 32)
    assert len(load("photos", crop=64, stride=32)) == 2 * 12 * 19
    with pytest.raises(InputError, match=r"crop = 428 .* the photographs are 427×640"):
        load("photos", crop=428)


def test_digits_are_those_of_scikit_learn():
    data = load("digits")
    assert np.array_equal(data.images[:, 0] * 16, load_digits().images)
    assert np.array_equal(data.labels, load_digits().target)
    assert len(load("digits", limit=5)) == 5


@pytest.mark.parametrize("name", ["photos", "digits"])
def test_files_of_scikit_learn_may_lie_elsewhere(name, monkeypatch):
    """Its own functions then read them, to the same bits."""
    data = load(name)
    monkeypatch.setattr("initscope.data.bundled._file_of_sklearn", lambda file: None)
    assert np.array_equal(load(name).images, data.images)
    assert np.array_equal(load(name).labels, data.labels)


def test_gaussian_pairs_share_a_label_and_the_correlation():
    data = load("gaussian", rho=0.9, shape=(2, 50, 50), limit=100, seed=1)
    assert data.images.shape == (100, 2, 50, 50)
    x, y, indices = within_class_pairs(data, 50)
    assert sorted(map(sorted, indices.tolist())) == [[2 * k, 2 * k + 1] for k in range(50)]
    # Each correlation is over 5,000 entries: standard error (1 - ρ²)/√5000 = 0.0027, of the mean 0.0004.
    correlations = [np.corrcoef(a.ravel(), b.ravel())[0, 1] for a, b in zip(x, y)]
    assert abs(np.mean(correlations) - 0.9) < 0.0016
    assert load("gaussian", shape=7).images.shape == (400, 7)


def test_shapes_are_binary_not_empty_and_of_their_kind():
    data = load("shapes", limit=400, size=32)
    assert data.class_names == ("disc", "rectangle", "union", "noise")
    assert set(np.unique(data.images)) == {0, 1}
    assert (data.images.sum(axis=(1, 2, 3)) > 0).all()
    rectangles = data.images[data.labels == 1, 0]
    for body in rectangles:
        rows, columns = np.flatnonzero(body.any(1)), np.flatnonzero(body.any(0))
        assert body.sum() == len(rows) * len(columns)
        assert np.ptp(rows) == len(rows) - 1
    discs = data.images[data.labels == 0, 0]
    inside = [body for body in discs if not (body[[0, -1]].any() or body[:, [0, -1]].any())]
    assert len(inside) > 10
    for body in inside:
        rows, columns = np.nonzero(body)
        down, right = rows - (rows.min() + rows.max()) / 2, columns - (columns.min() + columns.max()) / 2
        # A lattice disc holds all points within its radius: the farthest member is nearer than the nearest outsider.
        outside_rows, outside_columns = np.nonzero(body == 0)
        outside = np.hypot(outside_rows - rows.mean(), outside_columns - columns.mean())
        assert np.hypot(down, right).max() < outside.min()


def test_seeds_decide():
    for name in ("gaussian", "shapes"):
        first, again, other = (load(name, limit=8, seed=seed).images for seed in (1, 1, 2))
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)


@pytest.mark.parametrize("name", ["photos", "digits", "gaussian", "shapes"])
def test_limits_and_types(name):
    data = load(name, limit=6)
    assert len(data) == 6
    assert data.images.dtype == np.float32
    assert data.images.flags.c_contiguous
    if name != "gaussian":
        assert data.images.min() >= 0
        assert data.images.max() <= 1


def test_unknown_names_options_splits_and_limits():
    published = {"fashion-mnist", "cifar10", "cifar10-gist", "imagenet-sample"}
    assert set(names()) == {"photos", "digits", "gaussian", "shapes"} | published
    with pytest.raises(InputError, match=r"neither a name .* \(did you mean fashion-mnist\?\)"):
        load("fashion-minst")
    with pytest.raises(InputError, match=r"'qqq' is neither a name \(photos, digits"):
        load("qqq")
    with pytest.raises(InputError, match="photos has no option 'size'; it has: crop, stride"):
        load("photos", size=3)
    with pytest.raises(InputError, match="digits has no option 'size'; it has: none"):
        load("digits", size=3)
    with pytest.raises(InputError, match="photos has no test split"):
        load("photos", split="test")
    with pytest.raises(InputError, match="split = 'dev' must be 'train' or 'test'"):
        load("digits", split="dev")
    with pytest.raises(InputError, match="limit = 0 must be a whole number"):
        load("digits", limit=0)
