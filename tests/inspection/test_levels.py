"""Levels: an error must hurt. One test for each rule of `initscope.inspection.levels`."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import initscope
from initscope.inspection import checks
from initscope.inspection.finding import LEVELS, Finding, Fix
from initscope.inspection.instruments import Trial
from initscope.inspection.levels import level_after_fix, levels_of_causes

LEARNS, STUCK = Trial("learns", use=0.9, learn=0.9), Trial("flat", use=0.1, learn=0.1)


@pytest.fixture(scope="module")
def digits():
    data = initscope.data.load("digits").take(128)
    images = torch.as_tensor(data.images).flatten(1)
    return (images - images.mean()) / images.std(), torch.as_tensor(data.labels).long()


def mlp(*sizes, between=nn.ReLU):
    torch.manual_seed(0)
    layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), between())]
    return nn.Sequential(*layers[:-1])


def level_of(name, model, digits, **options):
    inputs, labels = digits
    quick = {"pairs": 32, "prediction": False, "alternatives": False, "targets": labels}
    report = initscope.inspect(model, inputs, **(quick | options))
    return report, {finding.name: finding.level for finding in report.findings}.get(name)


def test_without_a_trial_structural_facts_are_warnings_and_broken_signals_errors(digits):
    linear = mlp(64, 32, 32, 10, between=nn.Identity)
    assert level_of("no-activation", linear, digits, targets=None)[1] == "warning"
    assert level_of("no-activation", linear, digits, trial=False)[1] == "warning"
    assert level_of("collapse", mlp(64, *[64] * 40, 10), digits, trial=False)[1] == "error"


def test_with_a_trial_that_learns_structural_facts_are_info_and_broken_signals_warnings(digits):
    linear = mlp(64, 32, 32, 10, between=nn.Identity)
    report, level = level_of("no-activation", linear, digits, optimizer="adam", lr=1e-2)
    assert (report.trial.outcome, level) == ("learns", "info")
    large = mlp(64, 32, 32, 10)
    with torch.no_grad():
        large[0].weight.mul_(1e5)
    assert level_of("exploding", large, digits, trial=False)[1] == "error"
    report, level = level_of("exploding", large, digits, optimizer="adam", lr=1e-2)
    assert level == ("warning" if report.trial.outcome == "learns" else "error")


def test_a_structural_fact_becomes_an_error_where_the_trial_shows_harm(digits):
    """The last of four layers learns slowly from the others as they are: unfreezing them is seen to help."""
    model = mlp(64, 32, 32, 32, 10)
    model[:6].requires_grad_(False)
    assert level_of("frozen-layers", model, digits, trial=False)[1] == "warning"
    report, level = level_of("frozen-layers", model, digits)
    assert report.trial.outcome != "learns"
    assert (report.errors[0].name, report.fix.code, report.fix.helped, level) == (
        "frozen-layers",
        "model.requires_grad_(True)",
        True,
        "error",
    )


def test_the_head_shows_harm_without_a_trial(digits):
    """The lowest loss behind a softmax is 1.46 where logits reach 0."""
    report, level = level_of(
        "loss-floor", mlp(64, 32, 10).append(nn.Softmax(1)), digits, loss=F.cross_entropy, trial=False
    )
    assert (report.trial, report.head.outcome, level) == (None, "floor", "error")


STRUCTURAL = [c.name for c in checks() if (c.level, c.learning, c.stuck) == ("warning", "info", "error")]


@pytest.mark.parametrize("name", STRUCTURAL)
@pytest.mark.parametrize(("trial", "after", "level"), [
    (LEARNS, 0.21, "info"), (LEARNS, 0.305, "info"), (LEARNS, 0.9, "error"),
    (STUCK, 0.21, "warning"), (STUCK, 0.9, "error"),
])  # fmt: skip
def test_the_trial_of_a_fix_decides_the_level_of_a_structural_fact(name, trial, after, level):
    """A fix helps from .1 more on; a model that learns is far behind below .65 of what it learns with the fix.

    A model that learns learns faster with more trainable weights: unfreezing does not show that frozen layers hurt.
    """
    (declared,) = checks(name)
    if name == "frozen-layers" and trial is LEARNS:
        level = "info"
    assert (declared.level, declared.learning, declared.stuck) == ("warning", "info", "error")
    fix = Fix("any", "model.change()", "", before=0.2, after=after, measure="share")
    finding = Finding(declared.code, declared.name, "warning", "0", None, None, "", fix)
    assert level_after_fix(finding, declared, fix, trial).level == level
    for other in ("error", "info"):
        assert level_after_fix(replace(finding, level=other), declared, fix, trial).level == other


def test_a_cause_is_as_bad_as_what_follows_from_it():
    a, b, c = (Finding(code, code, "warning", "0", None, None, "") for code in ("IS804", "IS103", "IS402"))
    b, c = replace(b, caused_by="IS804"), replace(c, caused_by="IS103", level="error")
    assert [finding.level for finding in levels_of_causes((a, b, c))] == ["error"] * 3
    assert [finding.level for finding in levels_of_causes((a, replace(b, level="info")))] == ["warning", "info"]


def test_every_declared_level_is_milder_where_the_trial_learns_and_worse_where_it_does_not():
    for declared in checks():
        assert LEVELS.index(declared.learning or declared.level) >= LEVELS.index(declared.level)
        assert LEVELS.index(declared.stuck or declared.level) <= LEVELS.index(declared.level)


def versions():
    """Mistakes with an optimizer that holds the parameters of the faulty model, and the line that is suggested."""
    frozen = mlp(64, 32, 32, 32, 10)
    frozen[:6].requires_grad_(False)
    yield "rate", mlp(64, 32, 10), {"lr": 1e-5}, "lr = "
    yield "softmax", mlp(64, 32, 10).append(nn.Softmax(1)), {"lr": 0.5}, 'model.set_submodule("3"'
    yield "frozen", frozen, {"lr": 0.3}, "model.requires_grad_(True)"


@pytest.mark.parametrize(("model", "options", "line"), [pytest.param(*case, id=name) for name, *case in versions()])
def test_a_fix_is_tried_with_the_users_optimizer_on_the_parameters_of_the_changed_model(digits, model, options, line):
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], **options)
    report, _ = level_of("", model, digits, loss=F.cross_entropy, optimizer=optimizer)
    assert report.fix.code.startswith(line)
    assert report.fix.helped
