"""One cure for one network: the best start that was tried, or without trials a law that suits its activations."""

import pytest
import torch
from evaluation.published.seeded_bugs import FAULTS
from torch import nn

import initscope
from initscope.inspection.layer_quantities import layer_quantities
from initscope.inspection.page import as_comparison


def stack(activation, depth=40, bias=True):
    torch.manual_seed(0)
    layers = [part for _ in range(depth) for part in (nn.Linear(32, 32, bias=bias), activation())]
    return nn.Sequential(*layers, nn.Linear(32, 10))


def data():
    return torch.randn(64, 32, generator=torch.Generator().manual_seed(1))


def inspected(activation, **options):
    return initscope.inspect(stack(activation), data(), pairs=16, prediction=False, **options)


def cures(report):
    """Of the faults that another start mends."""
    return {v.name: v for v in report.verdicts if v.fault and v.code and "initializers" in v.code}


def test_every_verdict_names_the_best_start_that_was_tried():
    report = inspected(nn.Tanh)
    best, found = report.what_if.best, cures(report)
    assert {"collapse", "gradient-imbalance"} <= set(found)
    assert not best.crossed
    assert {verdict.code for verdict in found.values()} == {best.code}
    for verdict in found.values():
        assert best.name in verdict.advice
        assert "looks_linear" not in verdict.advice
        assert "initializers" not in verdict.advice


@pytest.mark.parametrize(
    ("activation", "law"), [(nn.Tanh, "glorot_"), (nn.GELU, "he_"), (nn.ReLU, "looks_linear_")]
)  # fmt: skip
def test_without_trials_one_law_suits_the_activation(activation, law):
    """Where angles close too, the law that keeps them is the cure of all: two laws would undo each other."""
    found = cures(inspected(activation, alternatives=False))
    assert {"collapse", "gradient-imbalance"} <= set(found)
    for verdict in found.values():
        assert verdict.code == f"initscope.initializers.{law}(model)"
        assert "{" not in verdict.advice
        assert verdict.code.removesuffix("(model)") in verdict.advice


def test_attention_gets_no_mirrored_weights():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), num_layers=3)
    report = initscope.inspect(encoder, data().unflatten(1, (2, 16)), pairs=16, alternatives=False, prediction=False)
    assert cures(report)["clones"].code == "initscope.initializers.glorot_(model)"


def test_the_page_marks_angles_by_the_rule_of_the_verdict():
    """Biases close the angles of all samples alike: below a tenth at once, a fault only below a thousandth."""
    report = inspected(nn.Tanh, alternatives=False)
    collapse = next(v for v in report.verdicts if v.name == "collapse")
    assert "(threshold 0.001)" in collapse.finding  # what was crossed, not the tenth
    found = layer_quantities(report, as_comparison(report))
    marked = next(rows for panel, rows in zip(found.panels, found.marked, strict=True) if panel.name == "angle")
    assert report.rows[min(marked)].layer == collapse.layer


def fault_of(model, name):
    """A fault by its name, without trials of other starts."""
    report = initscope.inspect(model, data(), pairs=16, alternatives=False, prediction=False)
    return next(verdict for verdict in report.verdicts if verdict.name == name and verdict.fault)


def test_no_law_is_typed_for_a_stack_of_sigmoids():
    found = fault_of(stack(nn.Sigmoid, depth=12), "gradient-imbalance")
    assert found.advice.startswith("no weight law helps a stack of sigmoids")
    assert found.code is None


def test_no_law_is_typed_against_norms_without_skips():
    torch.manual_seed(0)
    layers = [layer for _ in range(60) for layer in (nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU())]
    found = fault_of(nn.Sequential(*layers).train(), "gradient-imbalance")
    assert found.advice.startswith("put skips around every block")
    assert found.code is None


def test_what_follows_from_a_bottleneck_has_nothing_to_type():
    report = FAULTS["a bottleneck of 1"].inspect(0)
    following = [verdict for verdict in report.verdicts if verdict.follows]
    assert following
    assert all(verdict.advice == "follows from bottleneck: mend that first" for verdict in following)
    assert all(verdict.code is None for verdict in following)
