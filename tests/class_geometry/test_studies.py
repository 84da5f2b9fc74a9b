"""Subsets and labels: what is chosen, and that the studies train on that and on nothing else."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from initscope.class_geometry import Setting, Study, label_study, subset, subset_study
from initscope.class_geometry.labeled import labeled
from initscope.data import load
from initscope.errors import InputError
from initscope.measurement.packing import farthest_first
from initscope.models import load_model


@pytest.fixture(scope="module")
def data():
    return labeled(load("digits", limit=500), None)


def build(seed):
    return load_model("dense32-relu-dense10", input_shape=(1, 8, 8), seed=seed)


def test_net_covers_what_it_says(data):
    """Every point lies within the last radius of a chosen one; chosen ones are at least that far apart."""
    rows = data.images.flatten(1).numpy().astype(np.float64)
    order, radii, left = farthest_first(rows, 60, start=7)
    assert order[0] == 7
    distance = np.linalg.norm(rows[:, None] - rows[None, order], axis=2)
    assert distance.min(axis=1).max() == pytest.approx(left)
    between = distance[order][np.triu_indices(60, 1)]
    assert between.min() == pytest.approx(radii[-1])
    assert (np.diff(radii[1:]) <= 1e-12).all()
    np.testing.assert_array_equal(subset(data, 60, "net", seed=7), np.sort(order))


def test_boundary_and_interior_are_the_two_ends(data):
    pytest.importorskip("faiss")
    rows = data.images.flatten(1).numpy().astype(np.float64)
    distance = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    own = data.classes[:, None] == data.classes
    depth = np.where(own, np.inf, distance).min(axis=1) / np.where(own, distance, np.inf).min(axis=1)
    outer, inner = subset(data, 100, "boundary"), subset(data, 100, "interior")
    # Classes that would be missing put their first sample in the place of the last ones chosen.
    assert np.isin(outer, np.argsort(depth)[:100]).sum() >= 95
    assert np.isin(inner, np.argsort(-depth)[:100]).sum() >= 90


@pytest.mark.parametrize("way", ["random", "net", "boundary", "interior"])
def test_every_class_is_there(data, way):
    pytest.importorskip("faiss")
    chosen = subset(data, 12, way)
    assert len(np.unique(chosen)) == 12
    assert len(np.unique(data.classes[chosen])) == 10


def test_studies_train(data):
    pytest.importorskip("faiss")
    test = load("digits")[1000:1300]
    options = {"test": test, "batch": 32, "learning_rate": 0.1}
    by_size = subset_study(
        build, data.images, data.classes, sizes=(20, 300), ways=("random",), seeds=(0, 1), steps=80, **options
    )
    few, many, everything = by_size.settings
    assert (few.size, many.size, everything.size) == (20, 300, 500)
    assert everything.mean < many.mean + 0.05 < few.mean
    assert few.standard_error == pytest.approx(abs(few.errors[0] - few.errors[1]) / 2)
    by_labels = label_study(build, data.images, data.classes, per_class=(2, 20), seeds=(0,), steps=80, **options)
    assert [(each.name, each.size) for each in by_labels.settings] == [
        ("cross-entropy", 20), ("cross-entropy+triplet", 20), ("cross-entropy", 200), ("cross-entropy+triplet", 200),
    ]  # fmt: skip
    assert by_labels.settings[2].mean < by_labels.settings[0].mean
    assert np.isnan(by_labels.settings[0].standard_error)
    assert by_labels.plot().get_xscale() == "log"
    assert by_labels.table()[0]["training"] == "cross-entropy"


def test_subsets_of_a_study_are_those_of_subset(data, monkeypatch):
    """Orders are searched once for all sizes; what is trained on is what `subset` gives."""
    pytest.importorskip("faiss")
    seen = []

    def notice(model, part, **options):
        seen.append(part.images)
        return SimpleNamespace(test_error=0.5)

    monkeypatch.setattr("initscope.class_geometry.studies.train", notice)
    ways, sizes, seeds = ("random", "net", "boundary", "interior"), (50, 90), (0, 3)
    subset_study(build, data.images, data.classes, test=None, sizes=sizes, ways=ways, seeds=seeds)
    expected = [subset(data, size, way, seed=seed) for way in ways for size in sizes for seed in seeds]
    for part, index in zip(seen, [*expected, *2 * [np.arange(len(data))]], strict=True):
        assert torch.equal(part, data.images[torch.from_numpy(index)])


def test_differences_are_between_runs_of_one_seed():
    settings = [("a", 10, (0.5, 0.4)), ("b", 10, (0.4, 0.35)), ("a", 20, (0.2, 0.2)), ("b", 40, (0.1, 0.1))]
    [found] = Study(tuple(Setting(*each) for each in settings)).against("a")
    assert (found.name, found.size) == ("b", 10)
    assert (found.mean, found.standard_error) == pytest.approx((-0.075, 0.025))


def test_studies_refuse(data):
    with pytest.raises(InputError, match="size = 9"):
        subset(data, 9, "random")
    with pytest.raises(InputError, match="way = 'best'"):
        subset(data, 20, "best")
    with pytest.raises(InputError, match="1000 labels were requested"):
        label_study(build, data.images, data.classes, test=load("digits"), per_class=(1000,))
