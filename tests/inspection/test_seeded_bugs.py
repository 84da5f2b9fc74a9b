"""Seeded bugs: one line of code breaks a healthy network, and a finding names the problem and its layer."""

import pytest
from evaluation.published.registry import HEALTHY
from evaluation.published.seeded_bugs import FAULTS, FEW

from initscope.inspection.instruments import experiment
from initscope.inspection.instruments.budget import Budget

HARMLESS = ("layers that are copies", "a layer of equal weights", "no activation at all")
"""Structural facts with which a few steps on one batch learn at once."""


@pytest.fixture(autouse=True)
def short_trial(monkeypatch):
    """Trials of a third of the time: the findings must not need all of it, and CI has 15 minutes."""
    monkeypatch.setattr(experiment, "plan_budget", lambda budget: Budget(seconds=10.0))


def test_there_are_thirty_bugs_and_each_has_a_healthy_member():
    assert len(FAULTS) >= 30
    assert len(FEW) == 15
    assert all(fault.member in HEALTHY and fault.findings for fault in FAULTS.values())


def test_a_wrong_name_or_a_wrong_place_does_not_count():
    fault = FAULTS["biases that kill"]
    report = fault.inspect(0)
    assert fault.found_in(report)
    assert not FAULTS["layers that are copies"].found_in(report)
    elsewhere = HEALTHY["VGG-BN"].inspect(0)
    assert not fault.found_in(elsewhere)


@pytest.mark.parametrize("name", FEW)
def test_a_bug_is_named_at_its_layer(name):
    """As an error or a warning. Structural facts with which the trial learns are info, and warnings without a trial."""
    fault = FAULTS[name]
    report = fault.inspect(0)
    if name in HARMLESS and not fault.found_in(report):
        (finding,) = (finding for finding in report.findings if finding.name in fault.findings)
        assert (report.trial.outcome, finding.level) == ("learns", "info")
        report = fault.inspect(0, trial=False)
    assert fault.found_in(report), [f"{finding.name} at {finding.layer}" for finding in report.findings]
