"""Every command's help has groups and examples, and what an example says to type is understood, and run where cheap."""

import itertools
import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from initscope.cli import app, main
from initscope.cli._help import EXAMPLES
from initscope.data import load
from initscope.reproductions.registry import all_reproductions


def commands(room=app, words=()):
    """All commands that run something, as lists of words."""
    for name in room:
        if not name.startswith("-"):
            inside = room[name]
            below = [each for each in inside if not each.startswith("-")]
            if not below or inside.default_command is not None:
                yield (*words, name)
            yield from commands(inside, (*words, name))


COMMANDS = list(commands())


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_has_groups_and_examples(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    main([*words, "--help"])
    text = capsys.readouterr().out
    assert "Examples:" in text
    assert "initscope " + " ".join(words[:1]) in text.partition("Examples:")[2]
    assert max(map(len, text.splitlines())) <= 80
    if words[0] in ("inspect", "predict", "measure", "separation", "kernel"):
        assert all(f"─ {title} ─" in text for title in ("Model", "Data", "Output"))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_option_is_explained_and_in_a_group(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")  # as above: cyclopts keeps its first console
    main([*words, "--help"])
    text = capsys.readouterr().out
    assert "─ Parameters ─" not in text
    assert "--empty-" not in text
    options = [line.strip("│ *") for line in text.splitlines() if line.startswith(("│ --", "│ *", "│    --"))]
    assert options or words == ("mcp",)  # which has none
    for line in options:
        name, _, told = line.partition("  ")
        assert told.strip(), name
        assert not told.strip().startswith("["), name


@pytest.mark.parametrize("line", sorted({line for lines in EXAMPLES.values() for line in lines}))
def test_examples_are_understood(line):
    command, bound, *_ = app.parse_args(shlex.split(line), exit_on_error=False, print_error=False)
    assert callable(command)
    assert bound.signature.parameters or line == "mcp"


def test_reproductions_of_the_examples_exist():
    named = [word for line in EXAMPLES["reproduce"] for word in line.split()[1:] if "-" in word.strip("-")]
    assert named
    assert [name for name in named if name not in all_reproductions()] == []


def test_cheap_examples_run(tmp_path, monkeypatch, capsys):
    """In the order of the list, each after those before it."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(Path(__file__).parents[2] / "examples" / "mynet.py", tmp_path)
    images = load("digits").images
    np.save("digits.npy", images.reshape(len(images), -1))
    rooms = ("hash", "search", "plan width", "plan bits", "plan check", "injectivity probability", "completion")
    for name, lines in EXAMPLES.items():
        if name.startswith(rooms):
            for line in lines:
                main(shlex.split(line))
    assert capsys.readouterr().out


def test_commands_stand_in_groups(capsys):
    main(["--help"])
    text = capsys.readouterr().out
    assert "Will it train, and what to change" in text
    assert "─ More ─" not in text
    assert text.index("inspect") < text.index("reproduce")


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_version(flag, capsys):
    import initscope

    main([flag])
    assert capsys.readouterr().out.strip() == initscope.__version__


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_the_commands(shell, capsys):
    main(["completion", shell])
    text = capsys.readouterr().out
    assert "inspect" in text
    assert "initscope" in text


@pytest.mark.parametrize(
    ("line", "best"),
    [
        ("predict dense8-relu --data digits --pairs 4", False),
        ("measure dense8-relu --data digits --pairs 4 --draws 2", False),
        ("inspect dense8-relu --data digits --limit 40 --no-prediction --no-alternatives", False),
        ("mean-width --data digits --limit 30", False),
        ("flatness --data photos --limit 8", False),
        ("plan width", True),
        ("injectivity probability -m 5 -n 2", False),
        ("kernel dense8-relu --data digits --limit 20 --out k.npy", False),
        ("plan check bits --pairs 10 --trials 20 --check-seed 0", False),
        ("kernel dense8-relu --data rows.npy --rows 5 --out k.npy", False),
        ("coordinates dense.py:make --widths 8,16 --steps 1 --input-shape 4 --tolerance 99", False),
    ],
)
def test_json_says_what_was_asked(line, best, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dense.py").write_text(
        "from torch import nn\ndef make(width): return nn.Sequential(nn.Linear(4, width), nn.Linear(width, 2))\n",
        encoding="utf-8",
    )
    np.save("rows.npy", np.random.default_rng(0).normal(size=(9, 8)))
    main([*shlex.split(line), "--format", "json"])
    found = json.loads(capsys.readouterr().out)
    assert {"model", "data", "seed", "best", "versions"} <= set(found)
    assert {"initscope", "python"} <= set(found["versions"])
    assert (found["best"] is not None) == best
    if "--data" in line:
        assert found["data"] is not None
        assert found["seed"] == 0
    if "seed" in line or "coordinates" in line:
        assert found["seed"] == 0
    if "coordinates" in line:
        assert found["model"] == "dense.py:make"
    if "dense8" in line:
        assert found["model"] == "dense8-relu"


@pytest.mark.parametrize("width", [60, 80])
def test_narrow_tables_keep_names_findings_and_scores(width):
    """Rows as a 60-layer network and a transformer make them: no cell has more than two lines."""
    from rich.console import Console

    from initscope.rendering.table import rich_table

    starts = ["looks-linear", "leaky slope 0.56, orthogonal", "orthogonal zero-sum, strength 0.25"]
    told = ["none in 3", "collapse 1/1, gradient-imbalance 1/1, dead-units 1/1", "rank-loss 1/3"]
    rows = [
        {"start": start, "score": 0.25, "angle kept": 0.51, "predicted": None, "size kept": 1.1, "gradient spread": 1e6,
         "findings of samples": verdicts} for start, verdicts in zip(starts, told)]  # fmt: skip
    layers = [
        {"layer": f"model.layers.{k}.attention.output.dense", "finding": "gradient-imbalance" if k else "",
         "kind": "Linear", "angle ° predicted": "0.1", "size": "3.0", "gradient": "1e-10", "status": "closed form"}
        for k in range(3)]  # fmt: skip
    for table, keep, words in (
        (rows, ("score", "findings of samples"), ["looks-linear", "0.25", "none in 3", "collapse 1/1"]),
        (layers, ("finding",), ["model.layers.1.", "dense", "gradient-imbalance"]),
    ):
        console = Console(width=width)
        with console.capture() as captured:
            console.print(rich_table(table, width=width, keep=keep))
        text = captured.get()
        assert max(map(len, text.splitlines())) <= width
        assert all(word in text for word in words)
        lines = text.splitlines()
        rule = next(place for place, line in enumerate(lines) if "──" in line)
        body = list(itertools.takewhile(str.strip, lines[rule + 1 :]))
        assert len(body) <= 2 * len(table)
