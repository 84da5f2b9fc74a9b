"""Rates, intervals, processes and the command line of the evaluation."""

import json
import math
import multiprocessing
from types import SimpleNamespace

import pytest
import torch
from evaluation import rotation, running
from evaluation.__main__ import main
from evaluation.programs import Case, EvaluationSet, Healthy, Program
from evaluation.running import Outcome, labels_of, named, run
from evaluation.samples import class_table
from evaluation.scores import above, accuracy, negative, r2
from evaluation.table import Rate, line, rates, table
from evaluation.train import hurts
from torch import nn


def linear():
    return nn.Linear(16, 4)


def forever():
    while True:
        pass


def raises():
    raise RuntimeError("no model")


GOOD = Program(linear, class_table())
CASE = Case("bug", ("loss",), GOOD, GOOD, layers=("head",))
SMALL_SET = EvaluationSet("demo", {"bug": CASE}, {"good": Healthy("good", GOOD)}, ())


def outcome(name, version, errors=(), failure="", refused=False):
    return Outcome(name, version, [list(error) for error in errors], failure, refused, 1.0)


def tail(count, total, rate):
    """The probability of at least ``count`` successes."""
    return sum(math.comb(total, k) * rate**k * (1 - rate) ** (total - k) for k in range(count, total + 1))


@pytest.mark.parametrize(("count", "total"), [(0, 20), (3, 10), (27, 44), (12, 12)])
def test_ends_of_the_interval_have_tails_of_one_in_forty(count, total):
    low, high = Rate("x", count, total).interval
    if count:
        assert tail(count, total, low) == pytest.approx(0.025, rel=1e-6)
    else:
        assert low == 0
    if count < total:
        assert 1 - tail(count + 1, total, high) == pytest.approx(0.025, rel=1e-6)
    else:
        assert high == 1


def test_an_error_counts_as_named_by_its_code_at_the_right_layer():
    assert named(SMALL_SET, outcome("bug", "faulty", [("IS201", "loss-floor", "head.0")]))
    assert not named(SMALL_SET, outcome("bug", "faulty", [("IS201", "loss-floor", "stem")]))
    assert not named(SMALL_SET, outcome("bug", "faulty", [("IS403", "learning-rate-high", "head")]))


def test_rates_count_detected_named_fixed_and_false_errors():
    outcomes = [
        outcome("bug", "faulty", [("IS403", "learning-rate-high", "")]),
        outcome("bug", "fixed", failure="stopped after 1 s"),
        outcome("good", "healthy", [("IS103", "collapse", "0")]),
    ]
    counts = {rate.label: (rate.count, rate.total) for rate in rates(SMALL_SET, outcomes)}
    assert counts["bugs that hurt: detected"] == (1, 1)
    assert counts["bugs that hurt: named"] == (0, 1)
    assert counts["fixed versions without error"] == (0, 1)
    assert counts["healthy models with a false error"] == (1, 1)
    assert counts["inspections that failed"] == (1, 3)
    assert "FALSE ERROR" in line(SMALL_SET, outcomes[2])
    assert "95 % interval" in table(SMALL_SET, outcomes)


def test_errors_have_code_name_and_layer():
    finding = SimpleNamespace(code="IS201", name="loss-floor", layer=None)
    assert labels_of([finding]) == [["IS201", "loss-floor", ""]]


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="the set exists in this process only")
@pytest.mark.parametrize(("build", "failure"), [(forever, "stopped after"), (raises, "no model"), (linear, "")])
def test_every_program_runs_in_a_process_with_a_limit(monkeypatch, build, failure):
    program = Program(build, class_table())
    part = EvaluationSet("demo", {}, {"model": Healthy("model", program)}, ())
    monkeypatch.setattr(running, "load", lambda name: part)
    clean = SimpleNamespace(errors=[], warnings=[], fixes=[])
    monkeypatch.setattr(running, "report_of", lambda program, **options: program.model() and clean)
    (result,) = run(part, limit=1 if build is forever else 60)
    assert failure in result.failure
    assert bool(result.failure) == bool(failure)
    assert not result.detected


def test_a_frozen_set_shows_its_table_only(capsys):
    for option in (["--list"], ["--small"], ["--only", "a"]):
        with pytest.raises(SystemExit):
            main(["frozen_2026_12", *option])
    assert "only its table" in capsys.readouterr().err


def test_an_unknown_set_is_refused():
    with pytest.raises(SystemExit, match=r"available: .*real_bugs"):
        main(["no_such_set"])


def test_the_command_prints_a_table_and_writes_json(tmp_path, capsys):
    file = tmp_path / "rates.json"
    assert main(["real_bugs", "--only", "13_48934338", "--list", "--json", str(file)]) == 0
    assert "fixed versions without error" in capsys.readouterr().out
    written = json.loads(file.read_text(encoding="utf-8"))
    assert [entry["version"] for entry in written["outcomes"]] == ["faulty", "fixed"]
    assert written["rates"][0]["total"] == 1


def test_scores():
    labels = torch.tensor([0, 1, 1])
    assert accuracy(torch.tensor([[2.0, 1], [0, 1], [float("nan"), 3]]), labels) == 1
    assert above(0.5)(torch.tensor([[0.1], [0.9], [0.2]]), labels.float()[:, None]) == pytest.approx(2 / 3)
    assert r2(labels.float(), labels.float()) == 1
    assert r2(torch.full((3,), float("nan")), labels.float()) == -1
    assert negative(nn.functional.mse_loss)(torch.tensor([1.0]), torch.tensor([3.0])) == -4


def test_a_fault_hurts_if_its_gap_is_clear():
    assert hurts([0.1, 0.12], [0.9, 0.92], [0.1, 0.1])
    assert not hurts([0.89, 0.9], [0.9, 0.92], [0.1, 0.1])
    assert not hurts([0.1, 0.9], [0.9, 0.92], [0.1, 0.1])


def test_each_commit_inspects_another_part_until_the_time_is_used(monkeypatch, capsys):
    parts = [EvaluationSet(name, {"bug": CASE}, {"good": Healthy("good", GOOD)}, ()) for name in ("demo", "second")]
    orders = [[entry[1:] for entry in rotation.order(parts, commit)] for commit in ("a", "a", "b")]
    assert orders[0] == orders[1] != orders[2]
    assert len(orders[0]) == 6

    def run_one(set_name, name, version, limit, **options):
        errors = [["IS201", "loss-floor", ""]] if (name, version) in wrong else []
        return Outcome(name, version, errors, "no model" if failing else "", False, 1.0)

    monkeypatch.setattr(rotation, "run_one", run_one)
    monkeypatch.setattr(rotation, "set_names", lambda: ["demo", "frozen_of_nobody", "second"])
    monkeypatch.setattr(rotation, "load", lambda name: next(part for part in parts if part.name == name))
    wrong, failing = {("bug", "faulty"), ("good", "healthy")}, False
    assert rotation.main(["a", "--seconds", "9"]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "6 of 6 programs inspected, 0 without a report, 2 false errors"
    wrong = {("bug", "faulty")}
    assert rotation.main(["a", "--seconds", "9"]) == 0
    failing = True
    assert rotation.main(["a", "--seconds", "2.5"]) == 1
    assert "3 of 6 programs inspected, 3 without" in capsys.readouterr().out.splitlines()[-1]
