"""``initscope plan``: the same numbers as from Python, JSON keys, exit codes, one-line errors."""

import csv
import io
import json

import pytest

from initscope import plan
from initscope.cli import main


@pytest.fixture
def run(capsys):
    """Run a command line; return its exit code, stdout and stderr."""

    def call(line):
        code = 0
        try:
            main(line.split())
        except SystemExit as error:
            code = error.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("width --eps 0.1 --delta 0.05", lambda: plan.width(eps=0.1, delta=0.05)),
        (
            "width --eps 0.3 --depth 3 --samples 7 --event all-layers --no-per-layer",
            lambda: plan.width(eps=0.3, delta=0.05, depth=3, samples=7, event="all-layers", per_layer=False),
        ),
        ("subspace --dim 10", lambda: plan.subspace(dim=10, eps=0.1, delta=0.05)),
        ("subspace --dim 3 --eps 0.2 --no-squared", lambda: plan.subspace(dim=3, eps=0.2, delta=0.05, squared=False)),
        ("bits --pairs 10", lambda: plan.bits(eps=0.1, delta=0.05, pairs=10)),
        ("depth --width 500 --eps 0.5", lambda: plan.depth(width=500, eps=0.5, delta=0.05)),
        ("projection --samples 100", lambda: plan.projection(eps=0.1, delta=0.05, samples=100)),
    ],
)
def test_json_is_the_plan(run, line, expected):
    code, out, _ = run(f"plan {line} --format json")
    assert code == 0
    assert json.loads(json.dumps(expected().to_dict())).items() <= json.loads(out).items()


def test_table_and_csv(run):
    code, out, err = run("plan width --eps 0.1 --delta 0.05")
    assert code == 0
    assert all(number in out for number in ("4152", "3698", "1919"))
    assert "assumes: dense ReLU" in err
    _, out, _ = run("plan width --eps 0.1 --format csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["answer"], row["width"]) for row in rows] == [
        ("paper", "4152"),
        ("chernoff", "3698"),
        ("exact", "1919"),
    ]


def test_filters_on_images(run):
    code, out, err = run("plan filters --data photos --pairs 2 --limit 4 --eps 0.3 --format json")
    assert code == 0
    found = json.loads(out)
    assert found["sharp"] < found["no_union"] < found["paper"]
    assert found["pairs"] == 2
    assert "data: photos" in err


def test_check(run):
    code, out, _ = run("plan check width --eps 0.4 --depth 2 --trials 300 --format json")
    assert code == 0
    found = json.loads(out)
    assert found["planner"] == "width"
    assert found["low"] <= found["observed"] <= found["high"]
    assert found["promise"] == 0.05
    for line in ("bits --eps 0.2", "depth --width 100 --eps 0.8", "projection --samples 3 --eps 0.5"):
        code, out, _ = run(f"plan check {line} --trials 50")
        assert code == 0
        assert "/50" in out
    code, out, _ = run("plan check subspace --dim 2 --eps 0.6 --trials 10")
    assert code == 0
    code, out, _ = run("plan check filters --pairs 1 --limit 2 --eps 0.3 --trials 20")
    assert code == 0
    assert "/20" in out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("width --eps 1.5", "eps = 1.5"),
        ("width --eps 0.1 --delta 0", "delta = 0"),
        ("depth --width 0", "width = 0"),
        ("subspace --dim 10 --ambient 5", "dim = 10 must be at most ambient = 5"),
        ("bits --pairs 0", "pairs = 0"),
        ("width --depth 10.7", "10.7 must be a whole number"),
        ("width --eps 1e-12", "eps = 1e-12 and delta = 0.05 need a width of about 2e+25, more than 1e+09"),
        ("width --delta 5e-324", "delta = 5e-324 must be strictly between 1e-290 and 1"),
        ("width --depth 1000000", "depth = 1000000 must be a whole number of at least 1 and at most 10000"),
        ("depth --width 100000000000", "width = 100000000000 must be a whole number of at least 1 and at most 1e+06"),
        ("subspace --dim 1000000000", "dim = 1000000000 and eps = 0.1 need a width of about 8e+11"),
        ("subspace --dim 3 --eps 0.9 --depth 1000", "depth = 1000: no width below 1e+08"),
        ("bits --eps 1e-9", "eps = 1e-09 must be strictly between 0.0003 and 1"),
        ("projection --samples 9 --eps 1e-12", "eps = 1e-12 must be strictly between 1e-05 and 1"),
        ("check width --eps 0.3 --check-seed -1", "seed = -1 must be a whole number from 0 to"),
        ("check width --eps 0.3 --samples 1000000", "holds 1e+12 numbers, more than 1.3e+08"),
        ("check width --eps 0.3 --answer best", "answer = 'best'"),
    ],
)
def test_errors_are_one_line(run, line, message):
    code, out, err = run(f"plan {line}")
    assert code == 2
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_filters_of_other_layers(run):
    line = "plan filters --data photos:crop=16 --pairs 1 --limit 2 --eps 0.3"
    code, out, _ = run(f"{line} --activation identity --quantity inner --padding zeros --format json")
    assert code == 0
    found = json.loads(out)
    assert (found["activation"], found["padding"]) == ("identity", "zeros")
    assert "lemma 2" in found["statements"]["paper"]
    code, out, err = run(f"{line} --activation sigmoid")
    assert code == 0
    assert "paper" not in out
    assert "no bound is proven" in err
    code, _, err = run(f"{line} --activation unheard")
    assert code == 2


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("bits --pairs 1000", "pairs 1000"),
        ("projection --samples 70", "samples 70"),
        ("subspace --dim 7 --depth 2", "dim 7, depth 2"),
    ],
)
def test_the_title_says_what_was_asked(run, line, asked):
    """Answers for one pair and for a thousand looked alike."""
    assert run(f"plan {line}")[1].splitlines()[1].endswith(f", delta = 0.05, {asked}")


def test_the_conclusion_comes_first_and_explains_numbers_far_apart(capsys):
    main(["plan", "filters", "--data", "photos:crop=8", "--pairs", "2", "--eps", "0.3"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Answer (sharp): filters = ")
    assert "times as large, because the theorem holds for all images" in " ".join(lines[:6])
    assert lines[-1].startswith("Next: initscope plan check filters")
    main(["plan", "width", "--eps", "0.1", "--delta", "0.05"])
    assert "because" not in capsys.readouterr().out.splitlines()[0]  # within a factor of 100


def test_channels_of_a_network(run):
    line = "plan channels dense40-tanh-dense40-tanh-dense3 --input-shape 20 --pairs 4 --eps 0.2 --initializer he"
    code, out, err = run(f"{line} --format json")
    assert code == 0, err
    found = json.loads(out)
    assert found["widths"] == [found["sharp"]] * 2
    code, _, err = run("plan channels dense40-relu --input-shape 20 --eps 0.2")
    assert code == 2
    assert "no output layer" in err
