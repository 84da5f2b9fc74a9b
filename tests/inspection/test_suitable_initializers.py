"""One fix for one network: the best alternative that was tried, or else an initializer that suits its activations."""

import pytest
import torch
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


def reinitialized(report):
    """The findings whose fix is an initializer."""
    serious = (*report.errors, *report.warnings)
    return {finding.name: finding for finding in serious if finding.fix and "initializers" in (finding.fix.code or "")}


def test_every_finding_names_the_best_alternative_that_was_tried():
    report = inspected(nn.Tanh)
    best, found = report.what_if.best, reinitialized(report)
    assert {"collapse", "gradient-imbalance"} <= set(found)
    assert not best.crossed
    assert {finding.fix for finding in found.values()} == {report.fix}
    assert (report.fix.name, report.fix.code, report.fix.initializer) == (best.name, best.code, best.initializer)
    assert report.fix.before < report.fix.after == best.score


@pytest.mark.parametrize(
    ("activation", "law"), [(nn.Tanh, "glorot_"), (nn.GELU, "he_"), (nn.ReLU, "looks_linear_")]
)  # fmt: skip
def test_without_trials_one_initializer_suits_the_activation(activation, law):
    """Where angles close too, the initializer that preserves them fixes all: two would undo each other."""
    found = reinitialized(inspected(activation, alternatives=False))
    assert {"collapse", "gradient-imbalance"} <= set(found)
    for finding in found.values():
        assert finding.fix.code == f"initscope.initializers.{law}(model)"
        assert not finding.fix.tried
        assert finding.caused_by or "not tried" in str(finding)
        assert "{" not in finding.fix.advice
        assert finding.fix.code.removesuffix("(model)") in finding.fix.advice


def test_attention_gets_no_mirrored_weights():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), num_layers=3)
    report = initscope.inspect(encoder, data().unflatten(1, (2, 16)), pairs=16, alternatives=False, prediction=False)
    assert reinitialized(report)["equal-layers"].fix.code == "initscope.initializers.glorot_(model)"


def test_the_page_marks_angles_by_the_rule_of_the_check():
    """Biases close the angles of all samples alike: below a tenth at once, an error only below a thousandth."""
    report = inspected(nn.Tanh, alternatives=False)
    collapse = next(finding for finding in report.errors if finding.name == "collapse")
    assert collapse.threshold == pytest.approx(0.001)  # what was crossed, not the tenth
    found = layer_quantities(report, as_comparison(report))
    marked = next(rows for panel, rows in zip(found.panels, found.marked, strict=True) if panel.name == "angle")
    assert report.rows[min(marked)].layer == collapse.layer


def error_of(model, name):
    """An error by its name, without alternatives."""
    report = initscope.inspect(model, data(), pairs=16, alternatives=False, prediction=False)
    return next(finding for finding in report.errors if finding.name == name)


def test_no_initializer_is_suggested_for_a_stack_of_sigmoids():
    fix = error_of(stack(nn.Sigmoid, depth=12), "gradient-imbalance").fix
    assert (fix.code, fix.advice.startswith("no initializer helps a stack of sigmoids")) == (None, True)


def test_no_initializer_is_suggested_for_norms_without_skips():
    torch.manual_seed(0)
    layers = [layer for _ in range(60) for layer in (nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU())]
    fix = error_of(nn.Sequential(*layers).train(), "gradient-imbalance").fix
    assert (fix.code, fix.advice.startswith("put skip connections around every block")) == (None, True)


def test_ties_are_ties_and_what_is_applied_is_what_is_suggested():
    """Scores that differ by less than their errors must not decide: the README's network over several seeds."""
    names = set()
    for seed in range(4):
        torch.manual_seed(seed)
        layers = [part for _ in range(40) for part in (nn.Linear(32, 32), nn.ReLU())]
        report = initscope.inspect(nn.Sequential(*layers), data(), pairs=16, prediction=False, seed=seed)
        names.add(report.fix.name)
        tied = {fix.name for fix in report.fixes if fix.tie}
        assert len(tied) != 1
        assert not tied or report.fix.name in tied
        assert all(fix.after is not None for fix in report.fixes)
    assert len(names) == 1
