"""Models that torch.fx cannot trace: predicted from the steps of one run, with all pairs together."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import initscope
from initscope.graph import bind
from initscope.initializers import He
from initscope.propagate import networks, prediction
from initscope.testing import z_score


class Branching(nn.Module):
    """A branch on the data, which symbolic tracing cannot follow, before the layers."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x) if bool(x.isfinite().all()) else x


def pairs(count, *shape, seed=0):
    x, noise = torch.randn(2, count, *shape, generator=torch.Generator().manual_seed(seed))
    return x, 0.7 * x + 0.7 * noise


def test_batch_norm_in_training_sees_all_pairs():
    """24 pairs as one batch: z-scores against 30 networks of 512 units, below 4 for each of 24 pairs.

    Statistics of 4 samples, as from a recorded batch of two pairs, are off by .1; 30 draws see .01.
    """
    x, y = pairs(24, 10)
    layers = [nn.Linear(10, 512, bias=False), nn.BatchNorm1d(512), nn.ReLU()]
    model = Branching(*layers).train()
    predicted = initscope.predict(model, x, y, He())
    assert predicted.rows[0].note.startswith("torch.fx cannot trace it")
    assert predicted.rows[-1].status == "closed form"
    plain = initscope.predict(nn.Sequential(*layers).train(), x, y, He())
    np.testing.assert_array_equal(predicted.cosine, plain.cosine)
    measured = initscope.measure(model, x, y, initializer=He(), draws=30, seed=1)
    score = (measured.cosine[-1] - predicted.cosine[-1]) / measured.cosine_se[-1]
    assert np.abs(score).max() < 4.5
    assert abs(z_score(measured.cosine[-1] - predicted.cosine[-1], 0.0)) < 4


@pytest.mark.parametrize("recorded", [True, False])
def test_networks_are_copied_once_and_run_on_large_batches(recorded, monkeypatch):
    """Whatever the number of pairs: one copy, and as many runs as draws for each batch of pairs that fits."""
    copies, runs = [], []
    copy_of, records = networks.copy_of, networks.Networks.records

    def copied(model):
        copies.append(model)
        return copy_of(model)

    def run(self, both, pairings, first):
        runs.append(len(both.tensors()[0]))
        return records(self, both, pairings, first)

    monkeypatch.setattr(networks, "copy_of", copied)
    monkeypatch.setattr(networks.Networks, "records", run)
    model = nn.Sequential(nn.Linear(6, 32), nn.Softmax(dim=-1), nn.Linear(32, 8))
    x, y = pairs(50, 6)
    initscope.predict(Branching(*model) if recorded else model, x, y, He())
    assert (len(copies), runs) == (1, [100])
    monkeypatch.setattr(prediction, "_CHUNK", 20 * 6)
    initscope.predict(Branching(*model) if recorded else model, x, y, He())
    assert (len(copies), runs[1:]) == (2, [40, 40, 40 if recorded else 20])


def test_gradients_are_predicted_from_the_runs_that_pairs_were_predicted_from(monkeypatch):
    """Of the first samples of x, unless these do not fit into the first batch of pairs."""
    runs, records = [], networks.Networks.records

    def run(self, both, pairings, first):
        runs.append(both.samples)
        return records(self, both, pairings, first)

    monkeypatch.setattr(networks.Networks, "records", run)
    model = nn.Sequential(nn.Linear(6, 32), nn.Softmax(dim=-1), nn.Linear(32, 8))
    x, y = pairs(50, 6)
    once = initscope.predict(model, x, y, He(), gradients=True)
    assert runs == [100]
    monkeypatch.setattr(prediction, "_CHUNK", 20 * 6)
    again = initscope.predict(model, x, y, He(), gradients=True)
    assert runs[1:] == [40, 40, 20, 50]
    np.testing.assert_allclose(once.gradient_ratio, again.gradient_ratio, rtol=1e-5)


def test_statistics_that_one_network_leaves_do_not_reach_the_next():
    """A running mean in forward: every draw starts from the model's own, so that draws=2 is the mean of two draws=1."""

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 64), nn.Linear(64, 64)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            if bool(self.calls > 0):
                return x
            self.calls += 1
            return torch.softmax(self.second(torch.softmax(self.first(x), -1)), -1)

    x, y = pairs(3, 4)
    predicted = initscope.predict(Counting(), x, y, He(), draws=3)
    assert [row.status for row in predicted.rows].count("not covered") == 0


def test_a_simulation_that_fails_is_tried_once(monkeypatch):
    """On the meta device nothing can be run; every row says so, and the attempt is made once."""
    tries = []
    records = networks.Networks.records

    def tried(self, both, pairings, first):
        tries.append(1)
        return records(self, both, pairings, first)

    monkeypatch.setattr(networks.Networks, "records", tried)
    with torch.device("meta"):
        model = nn.Sequential(*(layer for _ in range(5) for layer in (nn.Linear(8, 8), nn.Softmax(dim=-1))))
    predicted = initscope.predict(model, *pairs(2, 8), He())
    assert len(tries) == 1
    assert predicted.rows[1].status == "closed form"
    assert all("fails on inputs of shape" in row.note for row in predicted.rows if row.kind == "Softmax")


class Routed(nn.Module):
    """Hard routing: each sample goes through the expert of its largest gate, and is written where it came from."""

    def __init__(self, width=64, experts=4, *, skipping):
        super().__init__()
        self.gate, self.head = nn.Linear(8, experts), nn.Linear(width, width)
        self.experts = nn.ModuleList(nn.Linear(8, width) for _ in range(experts))
        self.width, self.skipping = width, skipping

    def forward(self, x):
        chosen = self.gate(x).argmax(dim=-1)
        out = torch.zeros(len(x), self.width)
        for index, expert in enumerate(self.experts):
            mask = chosen == index
            if bool(mask.any()) or not self.skipping:
                out[mask] = torch.relu(expert(x[mask]))
        return torch.relu(self.head(out))


@pytest.mark.parametrize("skipping", [False, True])
def test_masked_writes_are_sampled_with_all_samples(skipping):
    """12 pairs through 4 experts: 20 predictions of 4 networks, 80 measured; z-scores of the last rows below 4.

    Recorded on two samples, one or two of the experts would be known, and the last cosine be off by .1; .035 is seen.
    Where empty experts are skipped the steps behind them have other names in other networks, but for modules.
    """
    torch.manual_seed(0)
    model, (x, y) = Routed(skipping=skipping), pairs(12, 8)
    found = [initscope.predict(model, x, y, He(), seed=seed) for seed in range(20)]
    measured = initscope.measure(model, x, y, initializer=He(), draws=80, seed=100)
    assert [row.layer for row in found[0].rows] == [row.layer for row in measured.rows]
    assert found[0].rows[-1].status == "closed form after sampling"
    cosine = np.stack([one.cosine.mean(axis=1) for one in found])
    error = np.hypot(measured.mean_cosine_se, cosine.std(axis=0, ddof=1) / 20**0.5)
    rows = [-2] if skipping else [-3, -2, -1]
    assert np.abs((cosine.mean(axis=0) - measured.cosine.mean(axis=1))[rows] / error[rows]).max() < 4


def test_a_value_written_where_a_mask_says_is_sampled():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(8, 64), nn.Linear(64, 64)

        def forward(self, x):
            h = self.first(x)
            h[h < 0] = 0.5
            return torch.relu(self.last(h))

    torch.manual_seed(0)
    x, y = pairs(6, 8)
    predicted = initscope.predict(Masked(), x, y, He(), draws=100, seed=1)
    measured = initscope.measure(Masked(), x, y, initializer=He(), draws=100, seed=2)
    difference = (predicted.cosine - measured.cosine).mean(axis=1)[2:]
    assert np.abs(difference / (1.4 * measured.mean_cosine_se[2:])).max() < 4


def test_networks_are_recorded_from_the_op_that_asks():
    """An earlier op that is asked for later, as a second walk may, gets what it would have got at first."""
    model = nn.Sequential(nn.Linear(6, 32), nn.Softmax(dim=-1), nn.Linear(32, 8), nn.Softmax(dim=-1))
    x, y = (bind(model, side) for side in pairs(5, 6))
    found = []
    for order in ((4, 2), (2, 4)):
        drawn = prediction.networks_of(model, x, He(), size=5)
        simulation = networks.Simulation(drawn, x, y)
        found.append({row: simulation.state(drawn.traced.nodes[row], None, drawn.context) for row in order})
    for row in (2, 4):
        first, second = (states[row] for states in found)
        assert torch.equal(first.kxx, second.kxx)
        assert torch.equal(first.d, second.d)
