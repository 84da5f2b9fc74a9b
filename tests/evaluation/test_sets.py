"""Every program of every set builds, runs and has a loss; a few are inspected."""

import math
import warnings
from pathlib import Path

import pytest
import torch
from evaluation.causes import ACCEPTED, FORMER_NAMES, accepted
from evaluation.programs import call, load, rows, set_names
from evaluation.running import report_of

SETS = (
    "development_1",
    "development_2",
    "development_3",
    "development_4",
    "development_5",
    "development_6",
    "forum_bugs",
    "healthy",
    "published",
    "real_bugs",
)


def run(program, count=6):
    """The loss of a new model on a few samples."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inputs, targets = program.draw(count)
        return program.loss(call(program.model(), inputs), targets)


@pytest.mark.parametrize("name", SETS)
def test_every_program_without_a_bug_has_a_finite_loss(name):
    part = load(name)
    programs = {name: model.program for name, model in part.healthy.items()}
    programs |= {name: case.fixed for name, case in part.cases.items() if case.fixed is not None}
    wrong = [name for name, program in programs.items() if not math.isfinite(run(program).item())]
    assert not wrong


@pytest.mark.parametrize("name", SETS)
def test_every_bug_runs_or_says_that_it_is_refused(name):
    failed = []
    for case in load(name).cases.values():
        try:
            run(case.faulty)
        except (RuntimeError, IndexError, ValueError):
            if not case.refused and not {"step-fails", "loss-kind", "IS205"} & set(case.accepted):
                failed.append(case.name)
    assert not failed


def test_all_sets_are_listed_and_have_a_readme_with_their_status():
    assert set_names() == sorted(SETS)
    for name in SETS:
        text = (Path(__file__).parents[2] / "evaluation" / name / "README.md").read_text(encoding="utf-8")
        assert "Status: development" in text or "Status: **frozen**" in text
        assert ("**frozen**" in text) == name.startswith("frozen")


@pytest.mark.parametrize("name", SETS)
def test_cases_have_causes_or_accepted_names_and_small_parts_exist(name):
    part = load(name)
    for case in part.cases.values():
        assert accepted(case.causes, case.accepted)
    assert set(part.small) <= {*part.cases, *part.healthy}
    assert len(part.part(small=True).cases) < max(2, len(part.cases))


def test_new_sets_are_as_large_as_they_should_be():
    assert len(load("real_bugs").cases) == 45
    assert len(load("forum_bugs").cases) == 30
    assert len(load("published").cases) == 43
    assert [len(load(f"development_{number}").cases) for number in (1, 2, 3)] == [46, 65, 43]
    assert len(load("development_5").cases) == 40
    assert len(load("development_5").healthy) == 68
    assert len(load("development_6").cases) == 60
    assert len(load("development_6").healthy) == 76
    pytest.importorskip("transformers")
    assert len(load("healthy").healthy) >= 80


def test_every_former_name_has_codes_that_a_cause_accepts_or_that_are_codes():
    codes = {code for known in (*ACCEPTED.values(), *FORMER_NAMES.values()) for code in known}
    assert all(code.startswith("IS") and len(code) == 5 for code in codes)
    assert "IS201" in accepted(("loss",))
    assert accepted((), ("clipped-output",)) >= {"IS201", "clipped-output"}
    assert "IS403" not in accepted(("loss",))


def test_data_and_models_depend_on_the_seed_alone():
    program = load("real_bugs").cases["25_47352366"].fixed
    first, again, other = (program.draw(8, seed)[0] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(program.model(3)[0].weight, program.model(3)[0].weight)


def test_rows_of_any_structure_are_taken():
    index = torch.tensor([2, 0])
    values = (torch.arange(3), {"a": 10 * torch.arange(3)})
    taken = rows(values, index)
    assert taken[0].tolist() == [2, 0]
    assert taken[1]["a"].tolist() == [20, 0]


@pytest.mark.parametrize(("name", "case"), [("real_bugs", "06_38648195"), ("forum_bugs", "double_softmax")])
def test_a_bug_has_an_error_and_its_fixed_version_has_none(name, case):
    found = load(name).cases[case]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert report_of(found.faulty).errors
        assert not report_of(found.fixed).errors


@pytest.mark.parametrize("name", ["dqn", "lstm_classifier"])
def test_a_healthy_model_has_no_error(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not report_of(load("healthy").healthy[name].program).errors
