"""`mean_width` of data: against closed forms, brute force, other libraries and other batchings."""

from __future__ import annotations

import itertools
import math
import tracemalloc

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.integrate import quad
from scipy.stats import chi

import initscope
from initscope.errors import InputError
from initscope.theory.mean_width import Ball, Ellipsoid, GaussianMixture, SparseSet, Subspace, SupportSet

RNG = np.random.default_rng(7)


def deviation(result, expected):
    return (result.value - expected) / result.standard_error


def test_two_points():
    """Width of a segment is its length times sqrt(2/pi); 4,000 draws catch 5 %, and a result off by 10 % fails."""
    u, v = RNG.standard_normal((2, 6))
    result = initscope.mean_width(np.stack([u, v]), draws=4000)
    exact = np.linalg.norm(u - v) * math.sqrt(2 / math.pi)
    assert abs(deviation(result, exact)) < 4
    assert abs(deviation(result, exact * 1.1)) > 4


def test_same_as_plain_monte_carlo():
    """Drawing directions and multiplying by E|g| agrees with drawing Gaussians, and has the smaller error."""
    points = RNG.standard_normal((200, 10)) + 3
    products = points @ np.random.default_rng(5).standard_normal((10, 20_000))
    plain = np.ptp(products, axis=0)
    result = initscope.mean_width(points, draws=20_000)
    error = math.hypot(result.standard_error, plain.std() / math.sqrt(20_000))
    assert abs(result.value - plain.mean()) < 4 * error
    assert result.standard_error < plain.std() / math.sqrt(20_000)


@pytest.mark.parametrize(
    ("sampled", "exact", "method"),
    [
        (SupportSet(lambda g: 2 * np.linalg.norm(g, axis=1), 12), Ball(12, 2.0), "closed form"),
        (SupportSet(lambda g: np.linalg.norm(g[:, :3], axis=1), 40), Subspace(np.eye(40)[:, :3]), "closed form"),
        (SupportSet(Ellipsoid.from_axes([3, 2, 1, 0.1]).support, 4), Ellipsoid.from_axes([3, 2, 1, 0.1]), "quadrature"),
        (SparseSet(np.eye(300), 1), SparseSet(300, 1), "quadrature"),
        (SparseSet(np.eye(30), 30), SparseSet(30, 30), "closed form"),
    ],
)
def test_sampled_width_meets_closed_forms(sampled, exact, method):
    """Within 3 standard errors (or rounding: the norm of a direction has no variance); none is above 2 %."""
    result = initscope.mean_width(sampled, draws=4000)
    assert abs(result.value - exact.width()) < max(3 * result.standard_error, 1e-10)
    assert result.standard_error < 0.02 * result.value
    assert initscope.mean_width(exact).method == method


def test_a_dense_sample_of_a_circle_has_the_width_of_the_disc():
    angles = np.linspace(0, 2 * np.pi, 20_000, endpoint=False)
    result = initscope.mean_width(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    assert result.value == pytest.approx(Ball(2).width(), rel=1e-6)
    assert result.intrinsic_dimension == pytest.approx(Ball(2).width() ** 2 / 4, rel=1e-6)
    assert abs(result.doubling_gain) < 1e-6


def test_samples_of_a_sphere_underestimate_it_and_say_so():
    """1,000 and 10,000 points of the 30-dimensional sphere: ω²/4 about 9 and 12 where the sphere has 29.5."""
    points = RNG.standard_normal((10_000, 30))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    large, small = initscope.mean_width(points), initscope.mean_width(points[:1000])
    assert small.one_sided**2 == pytest.approx(9, abs=0.5)
    assert large.one_sided**2 == pytest.approx(12, abs=0.5)
    half = initscope.mean_width(points[::2])
    assert large.doubling_gain == pytest.approx(large.value - half.value, abs=4 * large.doubling_gain_error + 0.05)
    assert large.doubling_gain > 4 * large.doubling_gain_error


def test_mixtures_grow_linearly_in_the_rank_and_with_the_logarithm_of_their_number():
    """Random subspaces of a large space are nearly independent: ω/2 is the mean of the largest of L chi variables.

    Within 2 % (600 draws: standard errors under 0.6 %, the rest is what dependence there is); always below the
    asymptotic (sqrt d + sqrt(2 log L))², and ten times as many Gaussians add the same again, within 10 %.
    """
    n, squared = 300, {}
    for rank, number in [(4, 1), (4, 10), (4, 100), (4, 1000), (16, 10), (40, 10)]:
        factors = np.random.default_rng(rank * number).standard_normal((number, n, rank))
        result = initscope.mean_width(GaussianMixture(np.zeros((number, n)), factors, radius=1.0), draws=600)
        largest = quad(lambda t: 1 - chi.cdf(t, rank) ** number, 0, 30, limit=200)[0]  # noqa: B023
        assert result.one_sided == pytest.approx(largest, rel=0.02)
        squared[rank, number] = result.one_sided**2
        assert squared[rank, number] < (math.sqrt(rank) + math.sqrt(2 * math.log(number))) ** 2
    assert squared[4, 1000] - squared[4, 100] == pytest.approx(squared[4, 100] - squared[4, 10], rel=0.1)


def test_translation_and_scale():
    points = RNG.standard_normal((300, 8))
    base = initscope.mean_width(points)
    assert initscope.mean_width(points + 100).value == pytest.approx(base.value, rel=1e-9)
    scaled = initscope.mean_width(-2 * points)
    assert scaled.intrinsic_dimension == pytest.approx(base.intrinsic_dimension, rel=0.1)
    assert scaled.value == pytest.approx(2 * base.value, rel=0.1)


def test_libraries_dtypes_and_batches_agree(tmp_path, monkeypatch):
    points = RNG.standard_normal((1001, 3, 4, 4)).astype(np.float32)
    base = initscope.mean_width(points, draws=16)
    np.save(tmp_path / "points.npy", points)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.from_numpy(points), torch.zeros(1001)), batch_size=100
    )
    monkeypatch.setattr("initscope.measurement.width._BLOCK_ELEMENTS", 48 * 37)
    for same in (
        torch.from_numpy(points),
        torch.from_numpy(points).requires_grad_(),
        np.load(tmp_path / "points.npy", mmap_mode="r"),
        (points[i : i + 77] for i in range(0, 1001, 77)),
        loader,
        points.reshape(1001, -1),
    ):
        result = initscope.mean_width(same, draws=16)
        assert result.value == pytest.approx(base.value, rel=1e-6)
        assert result.doubling_gain == pytest.approx(base.doubling_gain, rel=1e-4)
        assert (result.points, result.dimension) == (1001, 48)
    assert initscope.mean_width(points.astype(np.float64), draws=16).value == pytest.approx(base.value, rel=1e-6)
    assert initscope.mean_width([[0, 0], [1, 1]]).points == 2
    whole = initscope.mean_width(np.arange(12).reshape(4, 3).astype(np.uint8))
    assert whole.value == pytest.approx(initscope.mean_width(np.arange(12.0).reshape(4, 3)).value, rel=1e-6)


def test_data_frames_are_arrays():
    pandas = pytest.importorskip("pandas")
    points = RNG.standard_normal((100, 5))
    base = initscope.mean_width(points, draws=16)
    for same in (pandas.DataFrame(points), [pandas.DataFrame(points[:60]), points[60:]]):
        result = initscope.mean_width(same, draws=16)
        assert result.value == pytest.approx(base.value, rel=1e-6)
        assert (result.points, result.dimension) == (100, 5)
    with pytest.raises(InputError, match="text"):
        initscope.mean_width(pandas.DataFrame({"length": [1.0, 2.0], "name": ["a", "b"]}))


@pytest.mark.parametrize("transposed", [False, True])
def test_memory_does_not_grow_with_the_points(transposed):
    """Of 3,000 images of 8,000 numbers (24 MB) a few blocks of 4 MB are held in floats, however they are stored."""
    images = np.random.default_rng(0).integers(0, 255, (3000, 2, 4000), dtype=np.uint8)
    images = images.transpose(0, 2, 1) if transposed else images
    tracemalloc.start()
    initscope.mean_width(images, draws=8)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20e6


def test_the_radius_of_a_set_is_its_own():
    """A line at distance 3 from the center of a ball of radius 5 is a segment: intrinsic dimension 2/π wherever."""
    segment = GaussianMixture(np.array([[0.0, 3.0]]), np.array([[[1.0], [0.0]]]), radius=5.0)
    result = initscope.mean_width(segment)
    assert result.radius == pytest.approx(4)
    assert result.intrinsic_dimension == pytest.approx(2 / math.pi)


def test_every_estimate_of_the_table_has_its_error_and_its_method():
    cloud = initscope.mean_width(RNG.standard_normal((100, 5)))
    rows = {row["quantity"]: row for row in cloud.table()}
    for name in ("mean width", "one-sided width", "intrinsic dimension", "gain of the last doubling"):
        assert rows[name]["standard_error"] > 0
        assert rows[name]["method"] == "sampled (these points only)"
    assert rows["points"]["method"] is None
    assert initscope.mean_width(Ball(3)).table()[0]["method"] == "closed form"


def test_the_error_of_the_intrinsic_dimension_is_that_of_repeated_estimates():
    """50 seeds: their standard deviation is known to 10 %, so within 40 % at 4 σ; a factor of 2 would be seen."""
    points = RNG.standard_normal((100, 5))
    results = [initscope.mean_width(points, draws=64, seed=seed) for seed in range(50)]
    observed = np.std([result.intrinsic_dimension for result in results], ddof=1)
    assert np.mean([result.intrinsic_dimension_error for result in results]) == pytest.approx(observed, rel=0.4)


def test_the_seed_s_directions_are_not_the_user_s_data():
    """Points made with default_rng(0) are not aligned with the directions of seed 0 (this once gave ω²/4 = 18)."""
    points = np.random.default_rng(0).standard_normal((1000, 30))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    assert initscope.mean_width(points, seed=0).one_sided ** 2 < 10


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (np.zeros((0, 3)), "no points|one point"),
        (np.ones((1, 3)), "one point"),
        (np.ones((5, 3)), "equal"),
        (np.ones(5), r"\[N, n\]"),
        (np.array([[1.0, np.nan], [0, 1]]), "NaN"),
        (np.array([[1.0, np.inf], [0, 1]]), "NaN or infinite"),
        ([], "no points"),
        ("points", "not data"),
        ([np.ones((2, 3)), np.ones((2, 4))], "dimension 4"),
        ([["a", "b"]], "neither"),
        (np.ones((3, 2)) * 1j, "complex"),
        (np.array([["a", "b"]] * 3), "are not numbers"),
        (sparse.csr_array(np.eye(3)), r"sparse.*toarray"),
        (SupportSet(lambda g: np.full(len(g), np.inf), 3), "unbounded"),
    ],
)
def test_bad_points_are_refused(bad, reason):
    with pytest.raises(InputError, match=reason), np.errstate(invalid="ignore"):
        initscope.mean_width(bad)


def test_one_draw_is_refused():
    with pytest.raises(InputError, match="draws = 1"):
        initscope.mean_width(np.eye(3), draws=1)


def test_radius_and_dimension_do_not_depend_on_batches(monkeypatch):
    """Sorted points, whose first ones are far off: as an array, as lists, and as an iterator, cut in any way."""
    points = np.sort(RNG.standard_normal((50, 3)), axis=0) * [1, 2, 3]
    whole = initscope.mean_width(points)
    center = points.mean(axis=0)
    assert whole.radius == pytest.approx(np.linalg.norm(points - center, axis=1).max(), rel=1e-12)
    for size in (1, 7, 49, 50):
        cut = [points[start : start + size] for start in range(0, 50, size)]
        for same in (cut, iter(cut)):
            result = initscope.mean_width(same)
            assert result.radius == pytest.approx(whole.radius, rel=1e-12)
            assert result.intrinsic_dimension == pytest.approx(whole.intrinsic_dimension, rel=1e-12)
    monkeypatch.setattr("initscope.measurement.width._HELD", 3 * 20)  # of an iterator 20 points make the center
    expected = np.linalg.norm(points - points[:20].mean(axis=0), axis=1).max()
    for size in (1, 7, 50):
        cut = (points[start : start + size] for start in range(0, 50, size))
        assert initscope.mean_width(cut).radius == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e-8, 1e6 + 0.1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_constant_rows_are_told(value, dtype):
    """Their mean is off by rounding, so that a radius is there and the width is 0."""
    with pytest.raises(InputError, match="are equal"):
        initscope.mean_width(np.full((37, 5), value, dtype=dtype))


def test_an_iterator_without_an_end_is_told(monkeypatch):
    monkeypatch.setattr("initscope.measurement.endless.MOST_BATCHES", 50)
    with pytest.raises(InputError, match=r"given 50 batches without an end; .*itertools.islice"):
        initscope.mean_width(itertools.repeat(np.eye(3)))


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_points_whose_squares_overflow_are_refused():
    with pytest.raises(InputError, match="overflow"):
        initscope.mean_width(1e200 * np.eye(4))
