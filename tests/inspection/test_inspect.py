"""`inspect`: right verdicts on networks made bad on purpose, none on a good one, cures that cure, and a page."""

import json

import numpy as np
import pytest
import torch
from torch import nn

import initscope
from initscope.errors import InputError
from initscope.initializers import Glorot, He
from initscope.inspection import Thresholds, Unhealthy, judge

COLUMNS = [
    "layer", "kind", "status", "cosine_predicted", "cosine_measured", "cosine_se", "norm_ratio_predicted",
    "norm_ratio_measured", "rms_ratio_predicted", "rms_ratio_measured", "gradient_ratio", "gradient_cosine",
    "dead_fraction", "effective_rank", "mean_width",
]  # fmt: skip


def mlp(depth, law, *, width=96, bias=False):
    layers, inputs = [], 64
    for _ in range(depth):
        layers += [nn.Linear(inputs, width, bias=bias), nn.ReLU()]
        inputs = width
    return law.fill_(nn.Sequential(*layers, nn.Linear(inputs, 10)), generator=torch.Generator().manual_seed(0))


def samples(count=96):
    return torch.rand(count, 64, generator=torch.Generator().manual_seed(1))


def names(report):
    return {verdict.name for verdict in report.verdicts}


@pytest.fixture(scope="module")
def glorot():
    return initscope.inspect(mlp(40, Glorot()), samples(), pairs=24)


def test_forty_glorot_layers_vanish(glorot):
    assert {"vanishing", "collapse"} <= names(glorot)
    vanishing = next(verdict for verdict in glorot.verdicts if verdict.name == "vanishing")
    assert vanishing.value < vanishing.threshold == 1e-3
    assert vanishing.source
    assert vanishing.advice
    # Equal widths halve the squared size at each layer: 1e-3 is crossed after 20 of them.
    weights = [int(row.layer) for row in glorot.rows[1:] if row.kind == "Linear"]
    assert abs(weights.index(int(vanishing.layer)) - 20) <= 3 if int(vanishing.layer) in weights else True


def test_the_recommended_start_cures(glorot):
    """The best law that leaves the architecture alone, applied: the size stays and angles no longer collapse."""
    best = glorot.what_if.best_law
    model = best.law.fill_(mlp(40, Glorot()), generator=torch.Generator().manual_seed(3))
    cured = initscope.inspect(model, samples(), pairs=24, alternatives=False)
    assert not {"vanishing", "collapse", "exploding", "gradient-imbalance"} & names(cured)


def test_a_hundred_he_layers_collapse_and_partial_zero_sum_cures():
    model = mlp(100, He(), width=192)
    report = initscope.inspect(model, samples(), pairs=16)
    assert "collapse" in names(report)
    assert "vanishing" not in names(report)
    best = report.what_if.best
    assert best.name.startswith("zero-sum")
    best.law.fill_(model, generator=torch.Generator().manual_seed(0))  # what --apply writes
    cured = initscope.inspect(model, samples(), pairs=16, alternatives=False)
    assert not {"collapse", "vanishing", "exploding", "gradient-imbalance"} & names(cured)


def test_a_dead_layer_is_found():
    model = mlp(4, He(), bias=True)
    with torch.no_grad():
        model[4].bias.fill_(-100.0)
    report = initscope.inspect(model, samples(), pairs=16, alternatives=False)
    dead = next(verdict for verdict in report.verdicts if verdict.name == "dead-units")
    assert dead.layer == "5"
    assert dead.value == 1.0


def test_a_good_network_has_no_verdict_and_is_healthy():
    report = initscope.inspect(mlp(4, He()), samples(), pairs=24, alternatives=False)
    assert not [verdict for verdict in report.verdicts if verdict.fault]
    report.assert_healthy()


def test_assert_healthy_names_the_faults(glorot):
    with pytest.raises(Unhealthy, match="vanishing at"):
        glorot.assert_healthy()
    with pytest.raises(InputError, match="no verdict is called colapse"):
        glorot.assert_healthy(ignore=("colapse",))


def test_table_and_exports(glorot, tmp_path):
    frame = glorot.to_pandas()
    assert list(frame.columns[: len(COLUMNS)]) == COLUMNS
    assert len(frame) == 82
    assert json.loads(json.dumps(glorot.to_dict()))["verdicts"][0]["name"] in names(glorot)
    text = glorot.to_html(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == text
    assert len(text) < 1_000_000
    assert "vanishing" in text
    assert "zero_sum_" in text
    assert "http" not in text.replace("http://www.w3.org", "")
    assert glorot.plot().get_ylabel()
    assert glorot.what_if.plot().get_xlabel()


def test_predicted_stands_beside_measured():
    """Four layers of width 96, the model's own weights: within a few times depth/width."""
    report = initscope.inspect(mlp(4, He()), samples(), pairs=24, alternatives=False)
    for row in report.table():
        assert row["status"] == "closed form"
        assert abs(row["cosine_predicted"] - row["cosine_measured"]) < 0.1


def test_draws_give_standard_errors():
    report = initscope.inspect(mlp(3, He()), samples(), pairs=8, draws=3, initializer=He(), alternatives=False)
    errors = [row["cosine_se"] for row in report.table()]
    assert all(error is not None and error >= 0 for error in errors)


class Tangled(nn.Module):
    """Branches on its data, calls functions and methods, adds a skip: nothing of it may crash or be dropped."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 32)
        self.second = nn.Linear(32, 32)

    def forward(self, x):
        h = torch.relu(self.first(x))
        if h.sum() > -1:
            h = h + self.second(h).relu_()
        return nn.functional.gelu(h).softmax(dim=-1)


def test_a_tangled_model_keeps_all_its_rows():
    torch.manual_seed(0)
    report = initscope.inspect(Tangled(), samples(), pairs=8, alternatives=False)
    kinds = [row.kind for row in report.rows]
    assert kinds.count("Linear") == 2
    assert report.observation.fallback
    # The sum over everything is one number, not one for each sample.
    assert all(np.isfinite(row["cosine_measured"]) for row in report.table() if row["kind"] != "sum")


def test_thresholds_are_settable_and_checked(glorot):
    assert "collapse" not in {v.name for v in judge(glorot.observation, Thresholds(collapse=1e-6))}
    with pytest.raises(InputError, match="threshold vanishing = -1"):
        Thresholds(vanishing=-1)


def test_expansivity_of_relu_layers_and_proofs_for_small_ones():
    """Widths 3 → 30 → 40 → 8: the first is decided by branching, the second is below 2, the last has no ReLU."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 30), nn.ReLU(), nn.Linear(30, 40), nn.ReLU(inplace=True), nn.Linear(40, 8))
    report = initscope.inspect(model, torch.randn(40, 3), pairs=8, alternatives=False)
    first, second = report.expansivity
    assert (first.layer, first.inputs, first.outputs) == ("0", 3, 30)
    weight, bias = (tensor.detach().double().numpy() for tensor in (model[0].weight, model[0].bias))
    decision = initscope.injectivity.decide(weight, bias)
    assert initscope.injectivity.verify(weight, bias, decision)
    assert first.injective == decision.injective
    assert second.injective is False
    assert "below 2" in second.stands
    assert "Can the input be recovered?" in report.to_html()
