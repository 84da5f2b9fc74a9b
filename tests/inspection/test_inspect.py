"""`inspect`: right findings on networks made bad on purpose, none on a good one, and a page."""

import json

import numpy as np
import pytest
import torch
from torch import nn

import initscope
from initscope.errors import InputError
from initscope.initializers import Glorot, He
from initscope.inspection import Thresholds, Unhealthy, judge
from initscope.inspection.layer_quantities import layer_quantities
from initscope.inspection.page import as_comparison
from initscope.inspection.terminal import block_texts
from initscope.measurement import observe
from initscope.models import load_model

COLUMNS = [
    "layer", "kind", "status", "angle_predicted", "angle_measured", "cosine_predicted", "cosine_measured", "cosine_se",
    "norm_ratio_predicted", "norm_ratio_measured", "rms_ratio_predicted", "rms_ratio_measured", "gradient_ratio",
    "gradient_ratio_predicted", "gradient_over_last", "gradient_over_last_predicted", "gradient_cosine",
    "dead_fraction", "saturated_fraction", "effective_rank",
    "mean_width",
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
    return {finding.name for finding in report.findings}


@pytest.fixture(scope="module")
def glorot():
    return initscope.inspect(mlp(40, Glorot()), samples(), pairs=24)


def test_forty_glorot_layers_vanish(glorot):
    assert "vanishing" in names(glorot)
    vanishing = next(finding for finding in glorot.errors if finding.name == "vanishing")
    assert vanishing.value < vanishing.threshold == 1e-6
    assert vanishing.fix.tried
    # Equal widths halve the squared size at each layer, 1e-6 is crossed after 40 of them; the squared size changes by
    # √(5/96) of itself by chance at each, over 40 by as much as two layers do.
    before = [row.kind for row in glorot.rows][: [row.layer for row in glorot.rows].index(vanishing.layer) + 1]
    assert abs(before.count("Linear") - 40) <= 6


def test_the_suggested_fix_helps(glorot):
    """The best initializer, with seeds that the table did not use: 9 of 10 are asked for."""
    model, fixed = mlp(40, Glorot()), 0
    assert glorot.fix.initializer is not None
    for seed in range(10):
        glorot.fix.initializer.fill_(model, generator=torch.Generator().manual_seed(100 + seed))
        fixed += not [finding for finding in judge(observe(model, samples(), pairs=16)) if finding.level == "error"]
    assert fixed >= 9


def test_a_dead_layer_is_found():
    model = mlp(4, He(), bias=True)
    with torch.no_grad():
        model[4].bias.fill_(-100.0)
    report = initscope.inspect(model, samples(), pairs=16, alternatives=False)
    dead = next(finding for finding in report.findings if finding.name == "dead-units")
    assert dead.layer == "5"
    assert dead.value == 1.0


def test_a_good_network_has_no_errors():
    report = initscope.inspect(mlp(4, He()), samples(), pairs=24, alternatives=False)
    assert not report.errors
    report.assert_healthy()


def test_assert_healthy_names_the_errors(glorot):
    with pytest.raises(Unhealthy, match=r"IS105 vanishing \(error\)"):
        glorot.assert_healthy()
    with pytest.raises(InputError, match=r"ignore colapse: there is no such check \(did you mean collapse\?\)"):
        glorot.assert_healthy(ignore=("colapse",))


def test_data_frame(glorot):
    pytest.importorskip("pandas")
    frame = glorot.to_pandas()
    assert list(frame.columns[: len(COLUMNS)]) == COLUMNS
    assert len(frame) == 82


def test_exports(glorot, tmp_path):
    assert json.loads(json.dumps(glorot.to_dict()))["findings"][0]["name"] in names(glorot)
    text = glorot.to_html(tmp_path / "report.html").read_text(encoding="utf-8")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == text
    assert len(text) < 1_000_000
    assert "vanishing" in text
    assert "zero_sum_" in text
    assert "http:" not in text
    assert "https:" not in text
    assert glorot.plot().get_ylabel()
    assert glorot.what_if.plot().get_xlabel()


def test_predicted_stands_beside_measured():
    """Four layers of width 96, the model's own weights: within a few times depth/width."""
    report = initscope.inspect(mlp(4, He()), samples(), pairs=24, alternatives=False)
    for index, row in enumerate(report.table()):
        assert row["status"] == "closed form"
        assert abs(row["cosine_predicted"] - row["cosine_measured"]) < 0.1
        for side, found in (("predicted", report.prediction), ("measured", report.observation)):
            angle = np.degrees(np.arccos(np.clip(found.cosine[index], -1, 1))).mean()
            assert row[f"angle_{side}"] == pytest.approx(angle, abs=1e-3)


def test_draws_give_standard_errors():
    """Those of the means over pairs, as `measure` finds them; 0 at the input, where nothing is drawn."""
    model = mlp(3, He())
    report = initscope.inspect(model, samples(), pairs=8, draws=3, initializer=He(), alternatives=False)
    errors = [row["cosine_se"] for row in report.table()]
    expected = initscope.measure(model, report.observation.x, report.observation.y, initializer=He(), draws=3)
    np.testing.assert_allclose(errors, expected.mean_cosine_se, rtol=1e-12)
    assert errors[0] == 0 < min(errors[1:])


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
    assert "collapse" not in {finding.name for finding in judge(glorot.observation, Thresholds(collapse=1e-6))}
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


def test_trained_looking_weights_are_told_so():
    """A strong rank-one part in the weights, as training makes it: found in that layer only."""
    model = mlp(3, He())
    with torch.no_grad():
        model[2].weight.add_(0.05 * torch.ones(96, 1) @ torch.randn(1, 96, generator=torch.Generator().manual_seed(2)))
    report = initscope.inspect(model, samples(), pairs=8, alternatives=False)
    assert set(report.weights) == {"2"}
    assert "weights:" in report.table()[3]["note"]


def test_deviating_pairs_come_farthest_first():
    report = initscope.inspect(mlp(4, He()), samples(), pairs=24, alternatives=False)
    pairs = report.deviating(5)
    gaps = [abs(pair.predicted - pair.measured) for pair in pairs]
    assert gaps == sorted(gaps, reverse=True)
    everything = np.abs(report.prediction.angle[-1] - report.observation.angle[-1])
    assert gaps[0] == pytest.approx(everything.max())


def test_images_show_their_deviating_pairs():
    images = torch.rand(16, 3, 12, 12, generator=torch.Generator().manual_seed(0))
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(800, 5))
    text = initscope.inspect(model, images, pairs=6, alternatives=False).to_html()
    assert "Pairs that deviate most" in text
    assert text.count("data:image/jpeg") >= 12


def test_one_row_per_epoch_of_a_training_loop():
    torch.manual_seed(0)
    model, data = mlp(2, He()), samples()
    log = initscope.integrations.Watch(data, pairs=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()
        log(model, epoch)
    assert [row["epoch"] for row in log.rows] == [0, 1, 2]
    assert log.rows[0]["rms_ratio"] > log.rows[2]["rms_ratio"]  # the loss shrinks the output


def test_fail_on_and_apply(tmp_path, capsys):
    from initscope.cli import main

    command = ["inspect", "dense32-relu*30", "--input-shape", "16", "--pairs", "8", "--initializer", "glorot"]
    with pytest.raises(SystemExit) as stopped:
        main([*command, "--fail-on", "collapse", "--apply", str(tmp_path / "better.pt"), "--format", "json"])
    assert stopped.value.code == 1
    captured = capsys.readouterr()
    assert "collapse" in {finding["name"] for finding in json.loads(captured.out)["findings"]}
    weights = torch.load(tmp_path / "better.pt", weights_only=True)
    model = load_model("dense32-relu*30", input_shape=(16,))
    model.load_state_dict(weights)
    seen = observe(model, torch.rand(96, 16, generator=torch.Generator().manual_seed(0)), pairs=16)
    assert not [finding for finding in judge(seen) if finding.level == "error"]
    with pytest.raises(SystemExit) as stopped:
        main([*command, "--fail-on", "colapse"])
    assert stopped.value.code == 2
    assert "did you mean collapse?" in capsys.readouterr().err


def test_data_of_low_rank_is_no_loss_of_a_layer():
    line = torch.rand(64, 1, generator=torch.Generator().manual_seed(0)) @ torch.rand(1, 64) + 0.001 * samples(64)
    assert "rank-loss" not in names(initscope.inspect(mlp(3, He()), line, pairs=16, alternatives=False))


def test_a_sample_of_zeros_is_left_out_of_the_pairs_and_nothing_else():
    """As if its pair were not there: prediction, measurement, table and page."""
    data = torch.rand(32, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 16), nn.ReLU(), nn.Linear(16, 10))
    whole = initscope.inspect(model, data, pairs=16, draws=2, alternatives=False)
    place = int((data == whole.observation.x[3]).flatten(1).all(dim=1).nonzero()[0])
    data[place] = 0
    report = initscope.inspect(model, data, pairs=16, draws=2, alternatives=False)
    others = [pair for pair in range(16) if pair != 3]
    for ours, theirs in ((report.prediction, whole.prediction), (report.measurement, whole.measurement)):
        assert np.isnan(ours.cosine[:, 3]).all()
        np.testing.assert_allclose(ours.cosine[:, others], theirs.cosine[:, others], rtol=1e-6)
    row = report.table()[-1]
    assert row["cosine_measured"] == pytest.approx(whole.measurement.cosine[-1, others].mean())
    assert row["cosine_predicted"] == pytest.approx(whole.prediction.cosine[-1, others].mean())
    assert len(report.deviating(16)) == 15
    assert "data:image/jpeg" in report.to_html()


def test_many_samples_of_zeros_still_make_a_page():
    data = samples(64)
    data[:40] = 0
    report = initscope.inspect(mlp(2, He(), bias=True), data, pairs=32, alternatives=False)
    assert report.prediction is not None
    assert not {"exploding", "not-finite"} & names(report)
    assert "Angles between pairs" in report.to_html()


def test_draws_are_measured_in_the_mode_asked_for():
    model = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
    sizes = []
    for training in (True, False):
        report = initscope.inspect(model.train(training), samples(), pairs=16, mode="eval", draws=2, alternatives=False)
        sizes.append(report.measurement.rms_ratio)
        assert model.training is training
    np.testing.assert_array_equal(*sizes)


def test_weights_that_are_not_finite_are_named():
    model = mlp(3, He())
    with torch.no_grad():
        model[2].weight[0, 0] = float("nan")
    with pytest.raises(InputError, match=r"2\.weight holds NaN"):
        initscope.inspect(model, samples(), pairs=8, alternatives=False)


def test_a_notebook_gets_an_element_and_a_file_a_page():
    report = initscope.inspect(
        nn.Sequential(nn.Linear(6, 8), nn.ReLU()), torch.randn(20, 6), pairs=4, alternatives=False
    )
    shown, page = report._repr_html_(), report.to_html()
    assert "<html" not in shown
    assert "<body" not in shown
    assert "<html" in page
    assert "with its given weights" in shown
    assert "seed" not in shown.split("Settings of this run")[1].split("Glossary")[0]


def test_gradients_are_predicted_beside_measured_ones():
    """In the rows, in the terminal's columns and as the predicted line of the page's panel."""
    torch.manual_seed(0)
    layers = [layer for _ in range(3) for layer in (nn.Linear(256, 256), nn.ReLU())]
    report = initscope.inspect(nn.Sequential(*layers), torch.randn(64, 256), pairs=16, alternatives=False)
    rows = [row for row in report.to_dict()["rows"] if row["gradient_ratio"] is not None]
    assert len(rows) == 3
    for row in rows:
        assert row["gradient_ratio_predicted"] == pytest.approx(row["gradient_ratio"], rel=0.15)
        for side in ("", "_predicted"):
            assert row[f"gradient_over_last{side}"] == row[f"gradient_ratio{side}"] / rows[-1][f"gradient_ratio{side}"]
    shown = {row["op"]: row for row in block_texts(report.blocks(few=True))}
    panel = next(panel for panel in layer_quantities(report, as_comparison(report)).panels if panel.name == "gradient")
    for values, column in ((panel.measured, "gradient measured"), (panel.predicted, "gradient predicted")):
        told = {report.rows[i].title: f"{values[i]:.3f}" for i in np.flatnonzero(np.isfinite(values))}
        assert told == {layer: row[column] for layer, row in shown.items() if row[column] != "–"}
        assert len(told) == 3
    assert f"| {rows[0]['gradient_over_last']:.3g} |" in report.to_markdown()
    none = initscope.inspect(
        nn.Sequential(*layers), torch.randn(64, 256), pairs=16, alternatives=False, gradients=False
    )
    assert all(row["gradient_ratio_predicted"] is None for row in none.table())


def test_a_finding_begins_where_the_page_begins_to_mark_it():
    """Two hundred layers: the first gradients are below any number of float32, and half of the units die by chance."""
    torch.manual_seed(0)
    layers = [layer for _ in range(200) for layer in (nn.Linear(64, 64), nn.ReLU())]
    report = initscope.inspect(nn.Sequential(*layers), samples(), pairs=16, alternatives=False, prediction=False)
    found = layer_quantities(report, as_comparison(report))
    marked = dict(zip((panel.name for panel in found.panels), found.marked, strict=True))
    begins = {f.name: [row.layer for row in report.rows].index(f.layer) for f in report.findings}
    assert report.observation.gradient_ratio[1].max() == 0
    assert begins["gradient-imbalance"] == min(marked["gradient"])
    assert begins["dead-units"] == min(marked["dead"])
    assert np.nanmax(report.observation.dead_fraction[: begins["dead-units"]]) > 0.5


def test_tokens_and_entropies_are_predicted_beside_measured_ones():
    """Wide heads: one draw of the weights is near the mean over them; other models have no such columns."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(256, 8, 256, dropout=0.0, batch_first=True, norm_first=True)
    report = initscope.inspect(layer, torch.randn(24, 12, 256), pairs=8, alternatives=False, gradients=False)
    (row,) = (row for row in report.table() if row["kind"] == "scaled_dot_product_attention")
    assert row["attention_entropy_predicted"] == pytest.approx(row["attention_entropy_measured"], abs=0.01)
    last = report.table()[-1]
    assert last["token_cosine_predicted"] == pytest.approx(last["token_cosine_measured"], abs=0.03)
    assert any(line["attention_entropy_measured"] for line in report.blocks())
    plain = initscope.inspect(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), torch.randn(20, 8), pairs=8)
    assert "token_cosine_measured" not in plain.table()[0]


def test_labels_that_number_pairs_are_no_targets():
    """Images 2k and 2k+1 of the Gaussian data share label k: nothing that a network has to learn."""
    data = initscope.data.load("gaussian", limit=16, shape=(16,))
    report = initscope.inspect(load_model("dense32-relu-dense32", input_shape=(16,)), data, pairs=4, prediction=False)
    assert (report.trial, report.head, report.facts.loss_name) == (None, None, "")
    assert "targets=" in {missing.give for missing in report.not_checked}


def test_a_large_network_is_predicted_and_compared_on_its_first_pairs(monkeypatch):
    """What was measured on the other pairs counts for the findings and not for the comparison."""
    from initscope.inspection import examination
    from initscope.inspection.page import as_comparison

    whole = initscope.inspect(mlp(3, He()), samples(), pairs=16, alternatives=False)
    assert whole.compared.all()
    monkeypatch.setattr(examination, "_PREDICTED", 6)
    monkeypatch.setattr(examination, "_VALUES", 1)
    report = initscope.inspect(mlp(3, He()), samples(), pairs=16, alternatives=False)
    assert report.compared.tolist() == [True] * 6 + [False] * 10
    np.testing.assert_allclose(report.prediction.cosine[:, :6], whole.prediction.cosine[:, :6], rtol=1e-6)
    assert report.findings == whole.findings
    row, angles = report.table()[-1], whole.observation.angle[-1]
    assert row["angle_measured"] == pytest.approx(angles[:6].mean()) != pytest.approx(angles.mean())
    shown = as_comparison(report).measurement.angle[-1]
    np.testing.assert_array_equal(np.isfinite(shown), report.compared)
    assert {pair.index for pair in report.deviating(16)} == set(range(6))
    assert "pairs with a prediction" in report.to_html()


class _Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.loop, self.head = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.loop(x)[0][:, -1])


def test_a_module_that_is_run_as_a_whole_has_its_numbers_in_its_last_row():
    """An LSTM is observed op by op: the other ops inside of it have no numbers of draws, and the rows after it have
    theirs. The first `getitem` of prediction and draws is that of the whole sequence, which was not observed.
    """
    torch.manual_seed(0)
    model, x = _Recurrent(), torch.randn(32, 5, 8)
    x[3] = 0.0  # a sample without a direction: its pair has no prediction and no draws
    report = initscope.inspect(model, x, pairs=16, alternatives=False, draws=2)
    seen, pairs = report.observation, report.compared
    given = seen.x[pairs], seen.y[pairs]
    assert pairs.sum() == 15
    for ours, whole in (
        (report.measurement, initscope.measure(model, *given, draws=2)),
        (report.prediction, initscope.predict(model, *given, gradients=True)),
    ):
        inside = [index for index, row in enumerate(ours.rows) if row.within == "loop"]
        assert len(inside) > 1
        theirs = [row.layer for row in whole.rows].index("loop")
        np.testing.assert_array_equal(ours.cosine[inside[-1]][pairs], whole.cosine[theirs])
        np.testing.assert_array_equal(ours.cosine[-1][pairs], whole.cosine[-1])
        assert np.isfinite(ours.cosine[-1][pairs]).all()
        hidden = [*inside[:-1], [row.layer for row in ours.rows].index("getitem")]
        assert np.isnan(ours.cosine[hidden]).all()
        assert np.isnan(ours.cosine[:, ~pairs]).all()
        assert {ours.rows[index].status for index in hidden} == {"not covered"}
    assert np.isfinite(report.measurement.cosine[inside[-1]][pairs]).all()
