import json

import numpy as np
import pytest

import initscope
from initscope.data import ImageSet, load, overview
from initscope.data.overviews import intrinsic_dimension
from initscope.errors import InputError


def distances(points):
    return np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=-1))


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_intrinsic_dimension_of_uniform_points(dimension):
    """z < 4 of a torus, which has no boundary, embedded in 12 dimensions; a factor of two or an ambient count fails."""
    draws = np.random.default_rng(3)
    angles = draws.uniform(0, 2 * np.pi, (900, dimension))
    torus = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    rotated = torus @ np.linalg.qr(draws.normal(size=(12, 12)))[0][: 2 * dimension]
    estimate, error = intrinsic_dimension(distances(rotated))
    assert 0.9 < error / (dimension / 30) < 1.6  # 1 for independent ratios; those of neighbors are correlated
    assert abs(estimate - dimension) < 4 * error + 0.12 * (dimension - 1)  # curvature biases higher dimensions


def test_no_intrinsic_dimension_of_few_or_equal_points():
    assert intrinsic_dimension(distances(np.random.default_rng(0).normal(size=(20, 3)))) is None
    assert intrinsic_dimension(np.zeros((50, 50))) is None


def test_statistics_of_columns_and_channels():
    draws = np.random.default_rng(0)
    images = draws.uniform(size=(50, 3, 6, 5)).astype(np.float32)
    images[:, 1] = 0.25
    images[:, :, 0] = 0
    found = overview(ImageSet(images))
    for channel, column in enumerate(found.columns):
        values = images[:, channel].astype(np.float64)
        expected = (values.min(), values.max(), values.mean(), values.std())
        np.testing.assert_allclose((column.minimum, column.maximum, column.mean, column.sd), expected, rtol=1e-9)
    assert [column.name for column in found.columns] == ["red", "green", "blue"]
    assert found.constant_positions == pytest.approx(1 / 6)
    assert found.columns[1].constant is False  # its first row is 0
    assert overview(ImageSet(images[:, 1:2, 1:])).columns[0].constant


def test_missing_values_and_scales():
    values = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    values[:, 1] *= 1e4
    values[3, 0] = values[4, 0] = np.nan
    values[4, 2] = np.inf
    found = overview(ImageSet(values, name="table", column_names=("a", "b", "c")))
    assert (found.incomplete, [column.missing for column in found.columns]) == (2, [2, 0, 1])
    np.testing.assert_allclose(found.columns[0].mean, np.nanmean(values[:, 0], dtype=np.float64), rtol=1e-6)
    assert found.headline.startswith("2 samples of 40 have missing or infinite values, in 'a' (2) and 1 other column")
    assert "scales differ by a factor of" in found.problems[-1]
    assert json.loads(json.dumps(found.to_dict()))["incomplete"] == 2


def test_duplicates_and_near_duplicates():
    values = np.random.default_rng(0).normal(size=(60, 100)).astype(np.float32)
    values[7] = values[3]
    values[9] = values[3]
    values[20] = values[11] + np.float32(0.01)
    labels = np.arange(60) % 2
    found = overview(ImageSet(values, labels))
    assert (found.duplicates, found.contradictions) == (2, 0)
    assert [pair[:2] for pair in found.near_duplicates] == [(11, 20)]
    share = np.linalg.norm(values[20] - values[11]) / np.median(distances(values)[np.triu_indices(60, 1)])
    assert found.near_duplicates[0][2] == pytest.approx(share, rel=0.05)  # columns are standardized
    assert overview(ImageSet(values, np.arange(60) // 5 % 2)).contradictions == 2  # 3 against 7 and 9
    with_hole = values.copy()
    with_hole[0, 0] = np.nan
    assert overview(ImageSet(with_hole)).near_duplicates[0][:2] == (11, 20)  # rows are counted with the incomplete ones


def test_classes_tokens_and_targets(tmp_path):
    digits = load("digits")
    assert overview(digits).classes == {str(k): int((digits.labels == k).sum()) for k in range(10)}
    few = overview(digits[(digits.labels > 0) | (np.arange(1797) < 60)])
    zeros = int((digits.labels[:60] == 0).sum())
    assert f"classes are imbalanced, {zeros} to 183" in " ".join(few.problems)
    text = overview("text", size=16)
    assert [column.name for column in text.columns] == ["tokens"]
    assert text.intrinsic_dimension is None
    frame = ImageSet(np.eye(8), targets=np.arange(8.0))
    assert overview(frame).facts()["targets"] == "0 to 7, mean 3.5, sd 2.29"
    with pytest.raises(InputError, match="is empty"):
        overview(digits[:0])
    assert overview(digits[:1]).compared == 1


def test_forms():
    found = overview("photos", limit=40)
    page = found.to_html()
    assert page.count("data:image/jpeg") == 40
    assert "Near-duplicate pairs" in page
    assert "<html" not in found.section()
    assert "<h1>" not in found.section()
    assert found.to_markdown().startswith(f"## {found.headline}\n")
    assert "| red |" in found.to_markdown()
    assert found.plot().get_xlabel() == "mean ± standard deviation"
    assert "data:image" not in json.dumps(found.to_dict())
    assert [row["channel"] for row in found.table()] == ["red", "green", "blue"]


def test_saved_overviews_have_the_same_page(tmp_path):
    summary = overview("digits", limit=50)
    loaded = initscope.load(summary.save(tmp_path / "digits.initscope"))
    assert loaded.to_html() == summary.to_html()
