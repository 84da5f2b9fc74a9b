"""Seeded bugs: one line of code breaks a healthy network, and a finding names the problem and its layer."""

import pytest
from evaluation.published.registry import HEALTHY
from evaluation.published.seeded_bugs import FAULTS, FEW


def test_there_are_thirty_bugs_and_each_has_a_healthy_member():
    assert len(FAULTS) >= 30
    assert len(FEW) == 15
    assert all(fault.member in HEALTHY and fault.findings for fault in FAULTS.values())


def test_a_wrong_name_or_a_wrong_place_does_not_count():
    fault = FAULTS["biases that kill"]
    report = fault.inspect(0, trial=False)
    assert fault.found_in(report)
    assert not FAULTS["layers that are copies"].found_in(report)
    elsewhere = HEALTHY["VGG-BN"].inspect(0, trial=False)
    assert not fault.found_in(elsewhere)


@pytest.mark.parametrize("name", FEW)
def test_a_bug_is_named_at_its_layer(name):
    """As an error or a warning. With a trial only if it takes one: trials are long, and `evaluation` runs them all."""
    fault = FAULTS[name]
    report = fault.inspect(0, trial=False)
    if not fault.found_in(report):
        report = fault.inspect(0)
    assert fault.found_in(report), [f"{finding.name} at {finding.layer}" for finding in report.findings]
