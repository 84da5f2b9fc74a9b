"""The table of the talk at a small size: rows, splits, and the order that known data must give."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from initscope import data, embed
from initscope.errors import InputError
from initscope.reproductions import hashing_table


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
        draws=3,
        queries=100,
        per_class=50,
    )
    values = {row.method: row.value for row in table.rows}
    assert (table.items, table.queries, table.training) == (500, 100, 200)
    assert values["NN-1"] > values["random"] + 5
    assert values["KSH"] > values["random"] + 5
    assert all(row.worst <= row.value <= row.best for row in table.rows)
    assert [row.published for row in table.rows] == [None] * 5  # the talk speaks of CIFAR-10, not of blobs
    ax = table.plot()
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["raw", "random", "DiffHash", "KSH", "NN-1"]
    assert ax.get_title() == "Retrieval on blobs"
    of_the_talk = data.ImageSet(descriptors.images, descriptors.labels, name="cifar10-gist")
    rows = hashing_table.run(of_the_talk, methods=("raw", "DiffHash"), bits=(12,), splits=1, queries=100).rows
    assert [row.published for row in rows] == [19.16, 14.72]
    query, rest, _ = hashing_table.split_rows(descriptors.labels, queries=100, per_class=50, seed=0)
    centered = descriptors.images - descriptors.images[_].mean(axis=0)
    centered = centered / np.linalg.norm(centered, axis=1, keepdims=True)
    raw = embed.mean_average_precision(
        None, descriptors.labels[query], None, descriptors.labels[rest], distances=-centered[query] @ centered[rest].T
    )
    single = hashing_table.run(descriptors, methods=("raw",), splits=1, queries=100, per_class=50)
    assert single.rows[0].value == pytest.approx(100 * raw.value, rel=1e-4)


def test_random_rows_are_means_over_draws_and_splits(descriptors):
    """Every draw of every split by hand; the spread of one draw and the error of the mean are not the same number."""
    table = hashing_table.run(
        descriptors, methods=("random orthogonal", "ITQ"), bits=(6,), splits=2, draws=4, queries=100, per_class=50
    )
    values = np.zeros((2, 4))
    for number in range(2):
        query, rest, train = hashing_table.split_rows(descriptors.labels, queries=100, per_class=50, seed=number)
        for draw in range(4):
            hasher = embed.SignHash(6, center=True, orthogonal=True, random_state=number + 2 * draw)
            codes = hasher.fit(descriptors.images[train]).transform(descriptors.images)
            of = descriptors.labels
            values[number, draw] = (
                100 * embed.mean_average_precision(codes[query], of[query], codes[rest], of[rest]).value
            )
    random, learned = table.rows
    assert (random.splits, random.draws, learned.draws) == (2, 4, 1)
    assert random.value == pytest.approx(values.mean())
    assert random.standard_deviation == pytest.approx(values.std(ddof=1))
    assert random.standard_error == pytest.approx(values.mean(axis=1).std(ddof=1) / np.sqrt(2))


def test_mirrored_rows_learn_both_sides(monkeypatch):
    """Classes told apart by the left half only while training, queries mirrored: only the mirrored row finds them."""
    rng = np.random.default_rng(2)
    labels = np.arange(400) % 2
    left = rng.standard_normal((400, 384))
    left.reshape(400, 24, 4, 4)[labels == 1, :, :2] += 1  # cells go column by column
    rows = np.concatenate([data.mirrored_gist(left[:200]), left[200:]])
    part = np.arange(200), np.arange(200, 400), np.arange(200, 400)
    monkeypatch.setattr(hashing_table, "split_rows", lambda labels, **options: part)
    table = hashing_table.run(
        data.ImageSet(rows, labels), methods=("NN-1", "NN-1 mirrored"), bits=(8,), splits=1, queries=200, steps=30
    )
    plain, mirrored = (row.value for row in table.rows)
    assert mirrored > 90
    assert plain < 75


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


def test_cnn_sees_every_image_mirrored_or_not_and_shifted_by_itself():
    """A lit pixel in the middle of each image: while training it is found within an eighth of the side, on every place
    there, in different places within a batch; afterwards the network is a function.
    """
    images = torch.zeros(1500, 1, 16, 24)  # 70 places: all are met but with probability 1e-7
    images[:, 0, 8, 5] = 1
    network = hashing_table.SmallCNN(1, 4)
    seen = []
    network.layers.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    network.train()(images)
    count, _, rows, columns = torch.nonzero(seen[0], as_tuple=True)
    assert count.unique().numel() == 1500
    assert set(zip(rows.tolist(), columns.tolist())) == {
        (row, column) for row in range(6, 11) for column in (*range(2, 9), *range(15, 22))
    }
    network.eval()
    assert torch.equal(network(images), network(images))


def test_unknown_method_and_missing_labels_are_refused(descriptors):
    with pytest.raises(InputError, match="unknown"):
        hashing_table.run(descriptors, methods=("magic",))
    with pytest.raises(InputError, match="no labels"):
        hashing_table.run(data.ImageSet(np.ones((4, 2))))
