"""`initscope data`, and the options of tables for all commands."""

import json
import shlex
import subprocess
import sys

import numpy as np
import pytest

from initscope.cli import main


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Run a command in a folder with a table; returns (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    draws = np.random.default_rng(0)
    rows = [f"{a:.3f};{b:.3f};{'yes' if a > b else 'no'};{2 * a - b:.3f}" for a, b in draws.normal(size=(60, 2))]
    text = "a;b;answer;price\n" + "\n".join(rows).replace(".", ",")
    (tmp_path / "t.csv").write_text(text, encoding="utf-8-sig")

    def run(line):
        try:
            main(shlex.split(line))
            code = 0
        except SystemExit as leaving:
            code = leaving.code
        return (code, *capsys.readouterr())

    return run


def test_the_forms_of_an_overview(run, tmp_path):
    code, output, _ = run("data t.csv --target-column answer --out page.html")
    lines = output.splitlines()
    assert (code, lines[0]) == (0, "No problems found in 60 samples of shape 3.")
    assert lines[-1] == "Next: initscope inspect MODEL --data t.csv --target-column answer"
    assert len(lines) <= 25
    assert "from column" in (tmp_path / "page.html").read_text(encoding="utf-8")
    answer = json.loads(run("data t.csv --target-column answer --format json")[1])
    assert (answer["columns"][1]["name"], sum(answer["classes"].values())) == ("b", 60)
    assert run("data t.csv --columns a --format csv")[1].startswith("column,minimum")
    assert run("data t.csv --columns a --format md")[1].startswith("## No problems")


def test_missing_values_are_shown_by_data_and_refused_by_others(run, tmp_path):
    (tmp_path / "holes.csv").write_text("a,b\n1,2\n,3\n4,\n5,6\n", encoding="utf-8")
    assert run("data holes.csv")[1].startswith("2 samples of 4 have missing or infinite values, in 'a' (1)")
    code, output, messages = run("mean-width --data holes.csv")
    assert (code, output) == (2, "")
    assert "column 'a' has 1 missing or infinite values, first in row 1" in messages


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("data t.csv --columns c", "has no column 'c'; it has a, b, answer, price"),
        ("data t.xlsx", "neither a name"),
        ("data nowhere.csv", "nowhere.csv is not a file"),
        ("data digits --columns a", "digits is no table"),
        ("data t.csv --out page.txt", "page.txt"),
        ("data t.csv --columns answer --tokenizer nowhere", "tokenizer 'nowhere' is not a folder"),
    ],
)
def test_refusals(run, line, message):
    if "--tokenizer" in line:
        pytest.importorskip("transformers")
    code, output, messages = run(line)
    assert (code, output) == (2, "")
    assert message in messages
    assert len(messages.splitlines()) == 1


def test_inspect_with_a_target_column(run):
    quick = "--no-alternatives --no-prediction --no-trial --pairs 10 --format json"
    code, output, messages = run(f"inspect dense8-relu-dense1 --data t.csv --target-column price --columns a,b {quick}")
    assert code == 0
    assert json.loads(output)["data"]["shape"] == [2]
    assert "targets from column 'price'" in messages
    warned = run(f"inspect dense8-relu-dense2 --data t.csv --target-column price {quick}")[2]
    assert "warning: t.csv: the categories of column 'answer' are replaced by codes" in warned


def test_a_wrong_file_is_refused_before_torch_is_imported(tmp_path):
    (tmp_path / "a.xlsx").write_bytes(b"x")
    code = (
        "import sys; from initscope.cli import main\n"
        "try: main(['inspect', 'dense8', '--data', 'a.xlsx'])\n"
        "except SystemExit as leaving: print(leaving.code, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "False"]
    assert "save the sheet as CSV" in done.stderr
