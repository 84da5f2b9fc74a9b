"""`separation` against the definition, computed point by point; and what it must refuse."""

import numpy as np
import pytest
import torch

from initscope.class_geometry import separation, separations, triplets
from initscope.data import load
from initscope.errors import InputError

pytest.importorskip("faiss")


@pytest.fixture(scope="module")
def digits():
    return load("digits", limit=400)


def network(width=50, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return torch.nn.Sequential(
            torch.nn.Flatten(),
            torch.nn.Linear(64, width),
            torch.nn.ReLU(),
            torch.nn.Dropout(0.5),
            torch.nn.Linear(width, 10),
        )


def outputs(model, digits):
    with torch.no_grad():
        hidden = torch.relu(model[1](torch.from_numpy(digits.images).flatten(1)))
        return {"2": hidden.double().numpy(), "4": model[4](hidden).double().numpy()}


def by_definition(rows, digits, points, *, rechosen=False):
    """Ratios of one layer, scale removed: [anchors, 4]."""
    inputs = digits.images.reshape(len(digits), -1).astype(np.float64)
    scale = np.sqrt(rows.var(axis=0).sum() / inputs.var(axis=0).sum())  # of all samples, not of the anchors
    ratios = []
    for anchor, *others in points:
        after = np.linalg.norm(rows - rows[anchor], axis=1)
        before = np.linalg.norm(inputs - inputs[anchor], axis=1)
        own = digits.labels == digits.labels[anchor]
        numerator = after[others]
        if rechosen:
            numerator = [*numerator[:2], after[own].max(), after[~own].min()]
        ratios.append(numerator / before[others] / scale)
    return np.array(ratios)


def test_every_reading_against_its_definition(digits):
    model = network()
    found = separation(model, digits, anchors=150, seed=4)
    assert [row.layer for row in found.rows] == ["2", "4"]
    assert (digits.labels[found.points[:, 0]] == digits.labels[found.points[:, 1]]).all()
    assert (digits.labels[found.points[:, 0]] != digits.labels[found.points[:, 2]]).all()
    for place, rows in enumerate(outputs(model, digits).values()):
        expected = by_definition(rows, digits, found.points)
        again = by_definition(rows, digits, found.points, rechosen=True)
        for column, name in enumerate(("intra_random", "inter_random", "intra_boundary", "inter_boundary")):
            np.testing.assert_allclose(found.ratios[name][place], expected[:, column], rtol=1e-4)
            assert getattr(found.rows[place], name).median == pytest.approx(np.median(expected[:, column]), rel=1e-4)
        np.testing.assert_allclose(found.ratios["intra_rechosen"][place], again[:, 2], rtol=1e-4)
        np.testing.assert_allclose(found.ratios["inter_rechosen"][place], again[:, 3], rtol=1e-4)
        assert found.rows[place].recall == 1.0


@pytest.mark.parametrize("rechosen", [False, True])
def test_scale_is_that_of_all_samples(digits, rechosen):
    """Anchors are drawn with repeats: ten of them say little of the variance."""
    model = network()
    inputs = digits.images.reshape(len(digits), -1).astype(np.float64)
    found = separation(model, digits, anchors=10, boundary=rechosen, rechosen=rechosen)
    for row, values in zip(found.rows, outputs(model, digits).values(), strict=True):
        assert row.scale == pytest.approx(np.sqrt(values.var(axis=0).sum() / inputs.var(axis=0).sum()), rel=1e-5)


def test_boundary_points_of_the_inputs_are_those_of_brute_force(digits):
    found = separation(network(), digits, anchors=60, rechosen=False)
    inputs = digits.images.reshape(len(digits), -1).astype(np.float64)
    for anchor, _, _, far, near in found.points:
        distance = np.linalg.norm(inputs - inputs[anchor], axis=1)
        own = digits.labels == digits.labels[anchor]
        assert distance[far] == distance[own].max()
        assert distance[near] == distance[~own].min()
        assert own[far]
        assert not own[near]


def test_wide_layers_state_their_recall(digits, monkeypatch):
    """A sketched layer's points are true candidates: never nearer than the nearest, and recall counts the hits."""
    model = network(width=600)
    exact = separation(model, digits, anchors=80, layers=["2"])
    monkeypatch.setattr(triplets, "EXACT_WIDTH", 100)
    near = separation(model, digits, anchors=80, layers=["2"])
    assert exact.rows[0].recall == 1.0
    hits_near = near.ratios["inter_rechosen"] <= exact.ratios["inter_rechosen"] * (1 + 1e-5)
    hits_far = near.ratios["intra_rechosen"] >= exact.ratios["intra_rechosen"] * (1 - 1e-5)
    assert (near.ratios["inter_rechosen"] >= exact.ratios["inter_rechosen"] * (1 - 1e-5)).all()
    assert near.rows[0].recall == np.concatenate([hits_near[0, :32], hits_far[0, :32]]).mean()
    assert near.rows[0].recall > 0.9


def test_scale_is_removed(digits):
    """Weights 1,000 times as large change nothing but the scale."""
    model = network()
    small = separation(model, digits, anchors=50)
    with torch.no_grad():
        for part in (model[1].weight, model[1].bias, model[4].bias):
            part *= 1000
    large = separation(model, digits, anchors=50)
    for name, ratios in small.ratios.items():
        np.testing.assert_allclose(ratios, large.ratios[name], rtol=1e-3)
    assert large.rows[0].scale == pytest.approx(1000 * small.rows[0].scale, rel=1e-4)


def test_wide_random_layer_follows_the_prediction(digits):
    """Angles after one ReLU layer without bias, 20,000 units: the median within half a percent of the theorem."""
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 20_000, bias=False), torch.nn.ReLU())
    with torch.random.fork_rng():
        torch.manual_seed(1)
        torch.nn.init.kaiming_normal_(model[1].weight, nonlinearity="relu")
    found = separation(model, digits, anchors=200, boundary=False)
    np.testing.assert_allclose(found.angles, found.angles_predicted, rtol=0.05)
    assert found.rows[0].angle_random.median == pytest.approx(found.rows[0].angle_predicted.median, rel=0.005)


def test_leaves_no_trace(digits):
    model = network().train()
    before, state = {k: v.clone() for k, v in model.state_dict().items()}, torch.get_rng_state()
    separation(model, digits, anchors=20)
    assert model.training
    assert model[3].training
    assert not model[2]._forward_hooks
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())


def test_the_same_seed_gives_the_same_numbers(digits):
    first, second, other = (separation(network(), digits, anchors=30, seed=seed) for seed in (1, 1, 2))
    assert first == second
    assert first != other


def test_tests_between_networks(digits):
    """The same network twice: no difference at all. Its outputs within classes shrunk: told apart, and which way."""
    model = network()
    same, shrunk = network(), Shrunk(digits)
    found = separations({"start": model, "again": same}, digits, anchors=200, layers=["4"])
    assert all(test.superiority == 0.5 and test.ks == 0 and test.ks_p == 1 for test in found.tests())
    both = separations({"start": Shrunk(digits, 1.0), "trained": shrunk}, digits, anchors=200)
    by_column = {test.column: test for test in both.tests()}
    assert by_column["intra_random"].superiority < 0.2
    assert by_column["intra_random"].mann_whitney_p < 1e-6
    assert by_column["inter_random"].median_after > by_column["inter_random"].median_before


class Shrunk(torch.nn.Module):
    """Moves every digit towards the mean of its class, which it knows."""

    def __init__(self, digits, factor=0.2):
        super().__init__()
        rows = torch.from_numpy(digits.images).flatten(1)
        means = torch.stack([rows[digits.labels == each].mean(dim=0) for each in range(10)])
        self.rows, self.means, self.factor = rows, means[digits.labels], factor
        self.last = torch.nn.Identity()

    def forward(self, images):
        rows = images.flatten(1)
        mean = self.means[torch.cdist(rows, self.rows).argmin(dim=1)]
        return self.last(mean + self.factor * (rows - mean))


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (np.zeros(400), "at least two"),
        (np.r_[np.zeros(399), 1], "class 1.0 has 1 sample"),
        (np.zeros(399), "one label for each image"),
        (np.zeros((400, 2)), "one label for each image"),
    ],
)
def test_labels_that_cannot_be_used(digits, labels, says):
    with pytest.raises(InputError, match=says):
        separation(network(), digits.images, labels)


def test_a_dead_network_has_no_ratios(digits, tmp_path):
    """Its rows and tests say NaN, and its page is drawn."""
    dead = network()
    with torch.no_grad():
        for module in dead.modules():
            if isinstance(module, torch.nn.Linear):
                module.bias.fill_(-1e3)
    found = separations({"start": network(), "dead": dead}, digits, anchors=30)
    for test in found.tests():
        assert np.isfinite(test.median_before)
        assert np.isnan([test.median_after, test.superiority, test.mann_whitney_p, test.ks]).all()
    assert "nan" in found.to_html()


def test_other_bad_input(digits):
    with pytest.raises(InputError, match="all the same"):
        separation(network(), np.ones((20, 1, 8, 8), dtype=np.float32), np.arange(20) % 2, anchors=5)
    with pytest.raises(InputError, match="anchors = 0"):
        separation(network(), digits, anchors=0)
    with pytest.raises(InputError, match="without labels"):
        separation(network(), digits.images)
    with pytest.raises(InputError, match="layers nowhere"):
        separation(network(), digits, layers=["nowhere"], anchors=10)
    with pytest.raises(InputError, match="the model fails on inputs"):
        separation(network(), digits.images[:, :, :4], digits.labels, anchors=10)
    with pytest.raises(InputError, match="different layers"):
        separations({"a": network(), "b": torch.nn.Flatten()}, digits, anchors=10)


def test_a_row_knows_the_names_other_work_relies_on(digits):
    row = separation(network(), digits, anchors=20).table()[0]
    for name in ("intra_random", "inter_random", "intra_boundary", "inter_boundary"):
        assert row[f"{name}_low"] <= row[name] <= row[f"{name}_high"]
