"""The commands as a user types them: demo, predict, measure; their output, their files, their refusals."""

import csv
import gc
import importlib
import inspect
import io
import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from cyclopts import App
from PIL import Image

import initscope
from initscope.cli import COMMANDS, app, main
from initscope.initializers import ZeroSum
from initscope.reproductions.photographs import _finding, _remedy

SMALL = ["--data", "photos:crop=16", "--pairs", "5"]


def test_importing_the_entry_point_runs_nothing(monkeypatch, capsys):
    """Tools that import every module of a package, such as pkgutil.walk_packages, ran the command and ended."""
    monkeypatch.setattr(sys, "argv", ["initscope", "--version"])
    importlib.reload(importlib.import_module("initscope.__main__"))
    assert capsys.readouterr().out == ""


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Run a command line in an empty folder; returns (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def run(line, *tokens):
        try:
            main([*line.split(), *tokens])
            code = 0
        except SystemExit as leaving:
            code = leaving.code
        return (code, *capsys.readouterr())

    return run


def test_demo(run, tmp_path):
    small = "--depth 2 --width 6 --crop 16 --crops 5 --pairs 6 --draws 2"
    code, output, messages = run(f"demo {small} --figure picture.png")
    assert code == 0
    assert "relu2" in output
    assert "Angles between pairs" in output
    assert "theory predicts that they change the mean angle" in " ".join(output.split())
    assert "page: report.html" in messages
    assert output.startswith("Angles between pairs")
    assert output.splitlines()[-1].startswith("Next: open report.html, then run initscope inspect MODEL")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 3
    assert page.count("<img") == 12
    with Image.open("picture.png") as picture:
        assert picture.width > 600


def test_deep_networks_are_few_lines_and_files_have_all(run):
    """One mechanism and the same words as `inspect`: 62 layers in about a dozen lines, unless every step is wanted."""
    deep = "dense8-relu*30-dense4 --data digits --pairs 4"
    rows = {}
    for line in (f"predict {deep} --no-gradients", f"measure {deep} --draws 2"):
        for format in ("", " --depth 0", " --format csv"):
            code, output, _ = run(line + format)
            assert code == 0
            rows[format] = [row for row in output.splitlines() if "dense" in row or "relu" in row]
        assert len(rows[" --depth 0"]) - 3 <= len(rows[" --format csv"]) == 61 <= len(rows[" --depth 0"])
        code, output, _ = run(line)
        assert 8 <= len([row for row in output.splitlines() if " to " in row or "dense31" in row]) <= 14
        assert "63 ops in " in output
        assert "--depth 0 prints them all" in output


def test_demo_names_the_depth_where_theory_halves_the_angles(run):
    """The number is that of a prediction made here by other means: layer by layer, until the median has halved."""
    _, output, _ = run("demo --depth 1 --width 4 --crop 16 --crops 5 --pairs 4 --draws 1 --seed 3")
    photos = initscope.data.load("photos", crop=16, limit=5)
    x, y, _ = initscope.data.random_pairs(photos, 4, 3)
    for depth in range(1, 97):
        model = initscope.models.load_model(f"conv3x3x4-relu*{depth}", input_shape=(3, 16, 16))
        angles = np.median(initscope.predict(model, x, y, initscope.initializers.He()).angle, axis=1)
        if angles[-1] <= angles[0] / 2:
            break
    assert f"has halved at relu{depth}." in " ".join(output.split())


@pytest.mark.parametrize(
    ("before", "theory", "measured", "finding"),
    [
        (40, 30, 31, "already makes different"),
        (40, 38, 42, "random fluctuations are larger"),
        (40, 41, 42, "does not make"),
    ],
)
def test_the_demo_says_what_it_found(before, theory, measured, finding):
    assert finding in _finding(before, theory, measured)


def test_the_demo_recommends_only_what_theory_does():
    assert "Suggested fix: filters that sum to zero" in _remedy(40.0, 60.0, 25.0)
    assert "Suggested fix" not in _remedy(40.0, 20.0, 25.0)


def test_one_is_not_plural(run):
    code, output, messages = run("demo --depth 1 --width 4 --crop 16 --crops 2 --pairs 1 --draws 1")
    assert code == 0
    assert not any(f" 1 {noun}s" in output + messages for noun in ("layer", "image", "draw"))
    assert "1 pair, 1 draw of" in messages


def test_json_of_measure(run):
    code, output, messages = run("measure", "conv3x3x6-relu*2", *SMALL, "--draws", "2", "--format", "json")
    answer = json.loads(output)
    assert code == 0
    assert (answer["pairs"], answer["draws"]) == (5, 2)
    promised = ("layer", "kind", "status", "cosine_predicted", "cosine_measured", "cosine_se")
    promised += ("norm_ratio_predicted", "norm_ratio_measured")
    assert all(set(promised) <= set(row) for row in answer["rows"])
    assert [row["layer"] for row in answer["rows"]] == ["input", "conv1", "relu1", "conv2", "relu2"]
    assert "data: photos" in messages


def test_predict_is_the_function(run):
    _, output, _ = run("predict", "conv3x3x6-relu", *SMALL, "--initializer", "zero-sum", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(output)))
    x, y, _ = initscope.data.random_pairs(initscope.data.load("photos", crop=16), 5, 0)
    model = initscope.models.load_model("conv3x3x6-relu", input_shape=(3, 16, 16))
    expected = initscope.predict(model, x, y, ZeroSum())
    assert float(rows[-1]["cosine_predicted"]) == pytest.approx(expected.cosine[-1].mean(), rel=1e-6)
    assert rows[-1]["cosine_measured"] == ""


@pytest.mark.parametrize("suffix", ["json", "csv"])
def test_pairs_out(run, tmp_path, suffix):
    code, *_ = run("predict", "dense5-relu", *SMALL, "--pairs-out", f"pairs.{suffix}")
    text = (tmp_path / f"pairs.{suffix}").read_text(encoding="utf-8")
    rows = json.loads(text)["rows"] if suffix == "json" else list(csv.DictReader(io.StringIO(text)))
    assert code == 0
    assert len(rows) == 4 * 5
    assert {int(row["pair"]) for row in rows} == set(range(5))


def test_a_model_of_the_users_own_with_weights_and_a_folder(run, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from torch import nn\ndef make():\n    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten())\n"
    )
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(4):
        pixels = np.random.default_rng(number).integers(0, 255, (20, 24, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    weights = {"0.weight": torch.ones(4, 3, 3, 3), "0.bias": torch.zeros(4)}
    torch.save(weights, tmp_path / "w.pt")
    line = "measure mine.py:make --weights w.pt --data images --size 12 --normalize 0.5,0.5 --pairs 3 --draws 0"
    code, output, _ = run(line, "--format", "json", "--out", "page.html")
    assert code == 0
    assert json.loads(output)["draws"] == 0
    # All filters are equal and ones: every channel is the same box sum, so ReLU's output is parallel across channels.
    assert "none: the given weights" in (tmp_path / "page.html").read_text(encoding="utf-8")


PRINTING = """
from torch import nn

print("hello from the import")


class Talkative(nn.Linear):
    def forward(self, x):
        print("hello from forward")
        return super().forward(x)


def make():
    print("hello from the factory")
    return nn.Sequential(nn.Flatten(), Talkative(64, 5), nn.ReLU())
"""


@pytest.mark.parametrize("command", ["predict", "measure"])
def test_what_a_model_prints_is_no_data(run, tmp_path, command):
    (tmp_path / "mine.py").write_text(PRINTING)
    code, output, messages = run(f"{command} mine.py:make --data digits --pairs 3 --format json")
    assert code == 0
    assert json.loads(output)["pairs"] == 3
    assert "hello from the import" in messages
    assert "hello from the factory" in messages


@pytest.mark.parametrize("command", ["predict", "measure", "inspect"])
def test_a_model_that_fails_on_the_data_is_bad_use(run, tmp_path, command):
    """Theory alone would show the layer as one without a rule, and exit with 0."""
    (tmp_path / "mine.py").write_text("from torch import nn\ndef make(): return nn.Sequential(nn.Linear(192, 5))\n")
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((6, 20), dtype=np.float32))
    code, output, messages = run(f"{command} mine.py:make --data x.npy --pairs 3")
    assert (code, output) == (2, "")
    assert "the model fails on inputs of shape" in messages


def test_arrays_and_shapes(run, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((6, 2, 8, 8), dtype=np.float32))
    assert run("predict", "conv3x3x4-relu", "--data", "x.npy", "--pairs", "3")[0] == 0
    code, output, _ = run("predict", "dense1000-relu*10", "--input-shape", "50", "--pairs", "3", "--format", "json")
    assert code == 0
    assert json.loads(output)["rows"][0]["cosine_predicted"] == pytest.approx(0, abs=0.5)


@pytest.mark.parametrize("law", ["he", "glorot", "lecun", "zero-sum", "looks-linear", "present"])
def test_every_law_has_its_name(run, law):
    assert run("measure", "conv3x3x4-relu", *SMALL, "--draws", "1", "--initializer", law)[0] == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nothing", "no command is named 'nothing'. Available commands: demo, inspect"),
        ("hsh", "no command is named 'hsh'. Did you mean hash? Available commands:"),
        ("predict dense3 --normalise 3", "Did you mean --normalize? See: initscope predict --help"),
        ("predict dense3 --data digts", "shapes, text) nor a folder or file (did you mean digits?)"),
        ("predict dense3 --data mnist", "(did you mean fashion-mnist?)"),
        ("predict dense3-rleu --data digits", "did you mean relu?). Known"),
        ("predict", "MODEL is missing. See: initscope predict --help"),
        ("predict dense3 --nope 3", "--nope"),
        ("predict dense3 --format xml", "Invalid value"),
        ("measure dense3-relu --pairs 3 --draws -1", "draws = -1 must be a whole number of at least 0"),
        ("predict dense3-rleu", "unknown layer 'rleu'"),
        ("predict dense3-relu --initializer looks-linear", "LooksLinear has mirrored units, which are not independent"),
        ("predict dense3 --data nowhere", "nowhere"),
        ("predict dense3 --pairs-out x.txt", "--pairs-out x.txt: the name must end in .json or .csv"),
        ("predict dense3 --out x.pdf", "--out x.pdf: the name must end in .html"),
        ("predict dense3 --seed -1", "Invalid value for --seed: seed = -1 must be a whole number from 0 to 2^63 - 1"),
        ("measure dense3 --seed 9223372036854775808", "seed = 9223372036854775808 must be"),
        ("demo --seed -1", "seed = -1 must be"),
        ("predict dense3 --data shapes:seed=-1", "seed = -1 must be"),
        ("predict dense3 --data gaussian:seed=abc", "seed = abc must be"),
        ("predict dense3 --data gaussian:rho=nan", "rho = nan must be between -1 and 1"),
        ("predict dense3 --data gaussian:rho=abc", "rho = abc must be between -1 and 1"),
        ("predict dense3 --pairs 1.5", "Invalid value for --pairs: 1.5 must be a whole number; for example 3. See:"),
        ("predict dense3 --limit 2.0", "Invalid value for --limit: 2.0 must be a whole number"),
        ("measure dense3 --draws 2.9", "Invalid value for --draws: 2.9 must be a whole number"),
        ("predict dense3 --pairs 0", "pairs = 0 must be a whole number of at least 1"),
        ("predict dense3 --data . --size abc", "joined by x, such as 64 or 48x64"),
        ("predict dense3 --out folder.html", "--out folder.html is a folder; give a file name"),
        ("demo --out file/report.html", "file is a file, so it cannot hold others"),
        ("demo --crops 0", "crops = 0 must be a whole number of at least 2"),
        ("demo --width 100000000", "width = 100000000 must be a whole number of at least 1 and at most 4096"),
        ("demo --depth 0", "depth = 0 must be a whole number of at least 1"),
        ("demo --figure x.gif", "--figure x.gif: the name must end in .png"),
    ],
)
def test_bad_use_is_one_line_and_exit_2(run, tmp_path, line, message):
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "file").touch()
    code, output, messages = run(line)
    assert code == 2
    assert output == ""
    error = messages.splitlines()[-1]
    assert error.startswith("initscope: ")
    assert message in error.replace('"', "")  # about what was meant, where cyclopts has them
    assert sum(text.startswith("initscope:") for text in messages.splitlines()) == 1
    assert "Traceback" not in messages


def test_data_of_no_name_is_not_the_default(run):
    code, _, messages = run("predict", "dense3", "--data", "")
    assert code == 2
    assert "data is empty; give a name" in messages


def test_what_does_not_fit_into_memory_is_bad_use(run):
    code, _, messages = run("predict dense99999999999-relu --input-shape 8 --pairs 2")
    assert code == 2
    assert "out of memory" in messages
    assert "unexpected" not in messages


def test_debug_shows_where(run):
    from initscope.errors import InputError

    with pytest.raises(InputError, match="unknown layer"):
        run("predict", "dense3-rleu", "--debug")


def test_the_unexpected_is_one_line_and_exit_1(run, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("out of\nluck")

    monkeypatch.setattr("initscope.cli.predict_measure.load_sources", fail)
    code, _, messages = run("predict", "dense3")
    assert code == 1
    assert messages == "initscope: RuntimeError: out of luck (unexpected; --debug shows where)\n"
    with pytest.raises(RuntimeError, match="out of"):
        run("predict", "dense3", "--debug")


def test_the_garbage_collector_is_left_as_it_was(run):
    """A program that calls `main` keeps its own settings, also after bad use."""
    before = gc.get_threshold()
    for name in ("3", "3-rleu"):
        run("predict --data gaussian --pairs 2", f"dense{name}")
        assert gc.get_threshold() == before


def test_interruption(run, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("initscope.cli.predict_measure.load_sources", interrupt)
    code, _, messages = run("predict", "dense3")
    assert (code, messages) == (130, "initscope: interrupted before anything was found\n")


def test_an_interrupted_sweep_tells_what_is_kept(run, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("initscope.distributed.run_sweep", interrupt)
    code, _, messages = run("sweep", "grid.toml", "--out", "results")
    assert code == 130
    assert messages == "initscope: interrupted; finished runs are in results, start the same again, and it goes on\n"


def test_help_lists_every_command(run):
    code, output, _ = run("--help")
    assert code == 0
    for command, (_, text) in COMMANDS.items():
        assert command in output
        assert text.partition("\n\n")[0] in " ".join(output.replace("│", " ").split())
    assert "--debug" in output
    for command in ("demo", "predict", "measure"):
        code, output, _ = run(command, "--help")
        assert code == 0
        assert "--seed" in output
        assert "--debug" in output
        assert "json or csv for programs" in output
    assert run("--version")[1].strip() == initscope.__version__


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_is_its_own(command):
    where, text = COMMANDS[command]
    module, _, name = where.partition(":")
    found = getattr(importlib.import_module(f"initscope.cli.{module}"), name)
    own = found.help if isinstance(found, App) else inspect.getdoc(found)
    assert text.split("\n\n") == [" ".join(part.split()) for part in own.split("\n\n")]


@pytest.mark.parametrize("command", ["width", "bits", "check", "check width", "check filters"])
def test_help_of_planners_is_plain_text(run, command):
    code, output, _ = run(f"plan {command} --help")
    assert code == 0
    assert "`" not in output


def test_as_a_process_in_a_pipe_without_colour():
    line = "from initscope.cli import main; main()"
    arguments = ["predict", "dense4-relu", "--data", "digits", "--pairs", "3"]
    ran = subprocess.run([sys.executable, "-c", line, *arguments], capture_output=True, encoding="utf-8", check=True)
    assert "\x1b" not in ran.stdout + ran.stderr
    assert "relu1" in ran.stdout
    assert "data: digits" in ran.stderr


def test_a_pipe_gets_every_name_and_number_whole(run, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from torch import nn\ndef make():\n    block = nn.Sequential(nn.Linear(64, 9), nn.BatchNorm1d(9))\n"
        "    return nn.Sequential(nn.Flatten(), nn.Sequential(nn.Sequential(block)))\n"
    )
    for line in ("measure mine.py:make --draws 2 --depth 0", "inspect mine.py:make --no-gradients --depth 0"):
        code, output, _ = run(f"{line} --data digits --pairs 4")
        assert code == 0
        for layer, kind in (("1.0.0.0", "Linear"), ("1.0.0.1", "BatchNorm1d")):
            told = [row for row in output.splitlines() if layer in row.split()[:2]]
            assert len(told) == 1
            assert kind in told[0], line


def test_no_color_is_honoured(run, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes the pipe for a terminal
    code, output, _ = run("predict", "dense4-relu", "--data", "digits", "--pairs", "3")
    assert code == 0
    assert not any(f"\x1b[{code}m" in output for code in (*range(30, 38), *range(90, 98)))


def test_commands_load_when_called():
    """Help and bad use need none of the heavy libraries."""
    heavy = "{'torch', 'scipy', 'sklearn', 'matplotlib', 'numba', 'pandas', 'faiss', 'jinja2', 'PIL'}"
    code = f"import sys, initscope, initscope.cli; print(sorted({heavy} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert ran.stdout == "[]\n"
    assert {"demo", "predict", "measure"} <= set(app)


def test_what_was_not_asked_for_is_not_spoken_of(run):
    code, output, _ = run("inspect", "dense8-relu", "--data", "digits", "--limit", "40", "--no-prediction")
    assert code == 0
    assert "No problems found" in output
    assert "not asked for" not in output
    assert "not covered" not in output
