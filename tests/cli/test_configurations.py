"""``initscope predict`` of a configuration: tables, json, several starts, one line for what is wrong."""

import json
import subprocess
import sys

import pytest

from initscope.cli import app
from initscope.errors import InputError

GPT = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 2, "vocab_size": 300}


@pytest.fixture
def configuration(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(GPT))
    return str(path)


def run(*arguments):
    app(list(arguments), exit_on_error=False, result_action="return_value")


def test_blocks_of_a_configuration(configuration, capsys):
    run("predict", configuration, "--tokens", "12", "--format", "json")
    told = json.loads(capsys.readouterr().out)
    assert told["tokens"] == 12
    assert [row["kind"] for row in told["rows"]][:2] == ["embedding", "attention"]
    run("predict", configuration, "--tokens", "12", "--set", "n_embd=128", "--set", "n_layer=20")
    shown = capsys.readouterr()
    assert "feed-forward" in shown.out
    assert "loss at initialization" in shown.out.splitlines()[0]
    assert shown.out.splitlines()[-1].startswith("Next: ")


def test_initializations_side_by_side_on_text(configuration, capsys, tmp_path):
    page = tmp_path / "starts.html"
    run(
        "predict", configuration, "--tokens", "10", "--compare", "--data", "text", "--format", "csv", "--out", str(page)
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("initialization,rms")
    assert [line.split(",")[0] for line in lines[1:]] == [
        "configuration", "0.02", "depth-scaled", "mup", "deepnorm", "zero-outputs",
    ]  # fmt: skip
    assert "mup" in page.read_text()


FACTORY = """
import torch

def stack(width, deviation=None):
    layers = [torch.nn.Embedding(256, width), torch.nn.Linear(width, width), torch.nn.Linear(width, 256)]
    torch.nn.init.normal_(layers[0].weight)
    torch.nn.init.normal_(layers[1].weight, std=width**-0.5)
    torch.nn.init.normal_(layers[2].weight, std=1 / width)
    return torch.nn.Sequential(*layers)

def large(width):
    model = stack(width)
    torch.nn.init.normal_(model[2].weight, std=1.0)
    return model

def deep(width, depth=1):
    model = stack(width)
    middle = [torch.nn.Linear(width, width, bias=False) for _ in range(depth)]
    for layer in middle:
        torch.nn.init.normal_(layer.weight, std=1.5 * width**-0.5)
    return torch.nn.Sequential(model[0], *middle, model[2])

def slow(model):
    return torch.optim.SGD(model.parameters(), lr=1e-6)
"""


def test_coordinates_of_a_factory(tmp_path, capsys):
    """Text goes through at three widths; a head that is too large is named, and the exit code is 1."""
    file, picture = tmp_path / "factory.py", tmp_path / "sizes.png"
    file.write_text(FACTORY)
    options = ("--widths", "16,32,64", "--steps", "1", "--samples", "4", "--tokens", "8")
    run("coordinates", f"{file}:stack", *options, "--optimizer", f"{file}:slow", "--out", str(picture))
    shown = capsys.readouterr()
    assert "do not depend on the width" in shown.err
    assert picture.stat().st_size > 1000
    with pytest.raises(SystemExit) as left:
        run("coordinates", f"{file}:large", *options, "--optimizer", f"{file}:slow", "--format", "json")
    assert left.value.code == 1
    shown = capsys.readouterr()
    assert "output multiplier" in shown.err
    assert not json.loads(shown.out)["passes"]


def test_depths_of_a_factory(tmp_path, capsys):
    """Layers that multiply sizes by 1.5 grow with the depth, not with the width; both are told, and drawn."""
    file, picture = tmp_path / "factory.py", tmp_path / "sizes.svg"
    file.write_text(FACTORY)
    options = ("--widths", "32,64", "--depths", "2,4", "--steps", "0", "--samples", "4", "--tokens", "8")
    with pytest.raises(SystemExit) as left:
        run("coordinates", f"{file}:deep", *options, "--out", str(picture))
    shown = capsys.readouterr()
    assert left.value.code == 1
    assert "do not depend on the width" in shown.err
    assert "the output grows like depth^" in shown.err
    assert picture.stat().st_size > 1000
    with pytest.raises(InputError, match="has no parameter depth"):
        run("coordinates", f"{file}:large", *options)
    with pytest.raises(InputError, match="whole numbers"):
        run("coordinates", f"{file}:deep", "--widths", "0.5,1")


def test_a_configuration_alone_has_no_picture(configuration, tmp_path):
    with pytest.raises(InputError, match="add --measured"):
        run("coordinates", configuration, "--widths", "1,2", "--out", str(tmp_path / "sizes.png"))


def test_coordinates_of_a_configuration(configuration, capsys):
    run("coordinates", configuration, "--widths", "1,2,4", "--tokens", "8", "--format", "json")
    told = json.loads(capsys.readouterr().out)
    assert told["widths"] == [64, 128, 256]
    assert abs(told["rms"][-1] - 0.5) < 0.02


def test_depths_of_a_configuration(configuration, capsys):
    """A pre-norm stream grows like the root of its depth; GPT-2's outputs stay as they were read."""
    options = ("--widths", "1,2", "--depths", "1,2,4", "--tokens", "8")
    run("coordinates", configuration, *options, "--set", "initializer_range=0.125", "--format", "json")
    told = json.loads(capsys.readouterr().out)
    assert told["depths"] == [2, 4, 8]
    assert 0.3 < told["exponents"][told["quantities"].index("stream")] < 0.55
    run("coordinates", configuration, *options)
    shown = capsys.readouterr()
    assert "8 blocks" in shown.out
    assert "the stream grows like depth^" in shown.err


def test_copies_of_a_configuration_are_trained_for_a_few_steps(configuration, capsys):
    pytest.importorskip("transformers")
    options = ("--tokens", "8", "--samples", "4", "--steps", "1", "--measured", "--format", "json", "--tolerance", "5")
    run("coordinates", configuration, "--widths", "0.5,1", *options)
    told = json.loads(capsys.readouterr().out)
    assert told["widths"] == [32, 64]
    assert any(row["layer"] == "lm_head" for row in told["rows"])


def test_without_transformers_one_line_says_what_to_install(monkeypatch):
    from initscope.errors import MissingDependencyError

    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingDependencyError, match="transformers"):
        run("predict", "hf:LlamaConfig")


@pytest.mark.parametrize(
    ("text", "told"),
    [("[1, 2]", "is not a configuration"), ("hello", "is not a configuration in JSON"),
     ('{"model_type": "resnet"}', "unsupported model_type")],
)  # fmt: skip
def test_files_that_hold_no_configuration_are_told(tmp_path, text, told):
    from initscope.errors import InputError

    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(InputError, match=told):
        run("predict", str(path))


def test_a_file_that_is_no_model_exits_with_2_and_one_line(tmp_path):
    """As a user sees it: the program itself."""
    path = tmp_path / "config.json"
    path.write_text('{"a": 1}')
    done = subprocess.run(
        [sys.executable, "-m", "initscope", "predict", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if not line.startswith("working")]
    assert len(lines) == 1
    assert "no model_type" in lines[0]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--tokens", "0"), "tokens = 0 must be a whole number of at least 2"),
        (("--tokens", "200000"), "at most"),
        (("--set", "n_embd=abc"), "has an invalid entry"),
        (("--set", "n_layer=0"), "must be a whole number"),
        (("--set", "activation_function=foo"), "foo"),
        (("--set", "n_embd"), "NAME=VALUE"),
        (("--set", "n_embed=3"), "no entry"),
        (("--data", "photos"), "takes --data text"),
        (("--set", "vocab_size=50", "--data", "text"), "exceed the vocabulary"),
    ],
)
def test_bad_use_is_one_line(configuration, arguments, told):
    from initscope.errors import InputError

    with pytest.raises(InputError, match=told):
        run("predict", configuration, *arguments)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--widths", "1"), "at least two different"),
        (("--widths", "1,x"), "give numbers joined by commas"),
        (("--widths", "1,2", "--depths", "0,1"), "at least two different positive factors"),
        (("--widths", "1,2", "--depths", "1,1.01"), "blocks"),
        (("--widths", "1,200", "--measured"), "million weights"),
        (("--widths", "0.01,1"), "cannot be multiplied"),
    ],
)
def test_bad_sizes_of_coordinates_are_one_line(configuration, arguments, told):
    from initscope.errors import InputError

    with pytest.raises(InputError, match=told):
        run("coordinates", configuration, "--tokens", "4", *arguments)
