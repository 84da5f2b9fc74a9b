"""Reproductions of training: their numbers computed another way, and that their checks can fail."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import mannwhitneyu

from initscope.class_geometry import Setting, Study
from initscope.data import random_pairs
from initscope.errors import InputError
from initscope.initializers import he_
from initscope.models import load_model
from initscope.reproductions import class_boundaries, get, inside_trained, training_role
from initscope.reproductions.trained_networks import networks_at_errors, split_sets

pytest.importorskip("faiss")


@pytest.fixture(scope="module")
def networks():
    return networks_at_errors("digits")


@pytest.fixture(scope="module")
def boundaries():
    return class_boundaries.run(spec="digits", anchors=200)


def accuracy(model, images):
    with torch.no_grad():
        return float((model.eval()(torch.from_numpy(images.images)).argmax(1).numpy() == images.labels).mean())


def test_networks_are_named_by_their_error(networks):
    names = list(networks)
    assert names[0] == "random weights"
    test = split_sets("digits")[1]
    for name in names[1:]:
        assert name == f"{1 - accuracy(networks[name], test):.1%} error"
    errors = [float(name.split("%")[0]) for name in names[1:]]
    assert sorted(errors, reverse=True) == errors
    assert errors[0] < 15.05
    assert errors[-1] < 4.05


def test_missing_checkpoints_say_how_to_make_them(monkeypatch, tmp_path):
    monkeypatch.setenv("INITSCOPE_DATA", str(tmp_path))
    monkeypatch.setattr("initscope.reproductions.trained_networks.split_sets", lambda spec: (None, None))
    with pytest.raises(InputError, match=r"'nowhere' were not found.*make_checkpoints"):
        networks_at_errors("cifar10", "nowhere")


def test_boundaries_are_medians_and_ranks_of_the_ratios(boundaries):
    found = boundaries.separations
    place = found.layers.index(boundaries.layer)
    assert boundaries.layer == "relu2"
    assert len(boundaries.rows) == 6 * 4
    start = found.networks["random weights"]
    for row in boundaries.rows:
        column = row.ratio.replace(", ", "_")
        ratios = found.networks[row.network].ratios[column][place]
        assert row.median == pytest.approx(np.median(ratios))
        assert row.low < row.median < row.high
        if row.network == "random weights":
            assert row.p is None
        else:
            assert row.p == pytest.approx(mannwhitneyu(start.ratios[column][place], ratios).pvalue)
            larger = (ratios[:, None] > start.ratios[column][place]).mean()
            assert row.superiority == pytest.approx(larger, abs=1e-3)
    assert len(boundaries.figure().axes) == 6


def test_boundaries_without_training_do_not_hold(boundaries):
    check = get("talk-class-boundaries").holds
    assert check(boundaries)
    first, *_, last = boundaries.separations.networks.items()
    backwards = replace(boundaries, separations=replace(boundaries.separations, networks=dict([last, first])))
    assert not check(backwards)
    same = replace(boundaries, separations=replace(boundaries.separations, networks={"a": first[1], "b": first[1]}))
    assert not check(same)


def test_role_of_training_by_groups_makes_the_whole(networks):
    found = training_role.run(spec="digits", fitted=1200, tested=597, groups=5)
    test = split_sets("digits")[1]
    sizes = [len(part) for part in np.array_split(np.arange(len(test)), 5)]
    for name, model in list(networks.items())[1:]:
        assert np.average(found.accuracy[name], weights=sizes) == pytest.approx(accuracy(model, test))
    assert training_role.gains(found)[0] == pytest.approx(
        found.accuracy[list(networks)[-1]][0] - found.accuracy["random weights"][0]
    )
    check = get("talk-role-of-training").holds
    assert check(found)
    assert not check(replace(found, accuracy=dict(reversed(found.accuracy.items()))))


def test_inside_a_network_has_the_angles_of_the_layer():
    """Angles before and after the first layer by arccos in double precision, which loses 1e-7 of a radian at most."""
    found = inside_trained.run(spec="digits", layers=("relu1",), pairs=80, seed=1)
    images = split_sets("digits")[1].images.reshape(597, -1).astype(np.float64)
    pairs = random_pairs(np.arange(597)[:, None], 80, 1).indices
    model = load_model("dense256-relu*8-dense10", input_shape=(1, 8, 8))
    he_(model, generator=torch.Generator().manual_seed(1))
    weight = next(model.parameters()).detach().double().numpy()

    def angles(rows):
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return np.arccos((unit[pairs[:, 0]] * unit[pairs[:, 1]]).sum(axis=1))

    before = angles(images)
    random, trained = found.rows
    assert (random.network, trained.network) == ("He weights", "trained")
    assert random.median == pytest.approx(np.median(angles(np.maximum(images @ weight.T, 0)) / before), abs=1e-5)
    cosine = (np.sin(before) + (np.pi - before) * np.cos(before)) / np.pi
    assert random.predicted == trained.predicted == pytest.approx(np.median(np.arccos(cosine) / before))
    check = get("talk-inside-a-network").holds
    swapped = (replace(trained, network="He weights"), replace(random, network="trained"))
    assert check(found)
    assert not check(replace(found, rows=swapped))
    assert len(found.figure().axes) == 1


def test_labels_give_both_errors_and_their_difference():
    study = Study((Setting("cross-entropy", 30, (0.3, 0.2)), Setting("cross-entropy+triplet", 30, (0.25, 0.2))))
    numbers = get("talk-metric-learning").numbers(study)
    assert numbers["cross-entropy+triplet minus cross-entropy, 30 labels"].value == pytest.approx(-0.025)
    assert numbers["cross-entropy+triplet minus cross-entropy, 30 labels"].error == pytest.approx(0.025)
    assert len(numbers) == 3
