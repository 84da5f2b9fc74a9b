"""The table of the talk at a small size: rows, splits, and the order that known data must give."""

from __future__ import annotations

import numpy as np
import pytest

from initscope import data, embed
from initscope.errors import InputError
from initscope.exhibits import hashing_table


@pytest.fixture(scope="module")
def descriptors():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 600)
    rows = 3 * rng.standard_normal((600, 30)) + 4 * np.eye(4, 30)[labels] + 2
    return data.ImageSet(rows, labels, tuple("abcd"), name="blobs")


def test_split_is_a_partition_and_the_labelled_rows_are_ranked_too():
    labels = np.arange(1000) % 10
    query, rest, train = hashing_table.split_rows(labels, queries=100, per_class=7, seed=3)
    np.testing.assert_array_equal(np.sort(np.concatenate([query, rest])), np.arange(1000))
    assert set(train) <= set(rest)
    np.testing.assert_array_equal(np.bincount(labels[train]), [7] * 10)
    assert len(hashing_table.split_rows(labels, queries=100, per_class=None, seed=3)[2]) == 900


def test_small_table(descriptors, monkeypatch):
    monkeypatch.setitem(
        hashing_table.METHODS, "NN-1", lambda bits, seed: embed.LearnedHash(bits, steps=60, learning_rate=1e-2)
    )
    table = hashing_table.run(
        descriptors,
        methods=("raw", "random", "DiffHash", "KSH", "NN-1"),
        bits=(8,),
        splits=2,
        queries=100,
        per_class=50,
    )
    values = {row.method: row.value for row in table.rows}
    assert (table.items, table.queries, table.training) == (500, 100, 200)
    assert values["NN-1"] > values["random"] + 5
    assert values["KSH"] > values["random"] + 5
    assert all(row.worst <= row.value <= row.best for row in table.rows)
    assert [row.published for row in table.rows] == [19.16, None, None, None, None]
    assert len(table.plot().lines) >= 5
    query, rest, _ = hashing_table.split_rows(descriptors.labels, queries=100, per_class=50, seed=0)
    centred = descriptors.images - descriptors.images[_].mean(axis=0)
    centred = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    raw = embed.mean_average_precision(
        None, descriptors.labels[query], None, descriptors.labels[rest], distances=-centred[query] @ centred[rest].T
    )
    single = hashing_table.run(descriptors, methods=("raw",), splits=1, queries=100, per_class=50)
    assert single.rows[0].value == pytest.approx(100 * raw.value, rel=1e-4)


def test_cnn_row_reads_images():
    rng = np.random.default_rng(1)
    labels = np.arange(60) % 2
    images = rng.random((60, 1, 8, 8)) * 0.2
    images[labels == 1, :, ::2] += 0.8
    table = hashing_table.run(
        data.ImageSet(images, labels, ("plain", "striped")),
        methods=("CNN",),
        bits=(8,),
        splits=1,
        queries=20,
        per_class=15,
        cnn_steps=40,
    )
    assert table.rows[0].value > 80


def test_unknown_method_and_missing_labels_are_refused(descriptors):
    with pytest.raises(InputError, match="unknown"):
        hashing_table.run(descriptors, methods=("magic",))
    with pytest.raises(InputError, match="no labels"):
        hashing_table.run(data.ImageSet(np.ones((4, 2))))
