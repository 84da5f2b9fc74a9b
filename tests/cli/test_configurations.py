"""``initscope predict`` of a configuration: tables, json, several starts, one line for what is wrong."""

import json

import pytest

from initscope.cli import app

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
    assert "loss at the start" in shown.err


def test_starts_side_by_side_on_text(configuration, capsys, tmp_path):
    page = tmp_path / "starts.html"
    run(
        "predict", configuration, "--tokens", "10", "--compare", "--data", "text", "--format", "csv", "--out", str(page)
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("start,rms")
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


def test_coordinates_of_a_configuration(configuration, capsys):
    run("coordinates", configuration, "--widths", "1,2,4", "--tokens", "8", "--format", "json")
    told = json.loads(capsys.readouterr().out)
    assert told["widths"] == [64, 128, 256]
    assert abs(told["rms"][-1] - 0.5) < 0.02


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--set", "n_embd"), "NAME=VALUE"),
        (("--set", "n_embed=3"), "no entry"),
        (("--data", "photos"), "takes --data text"),
        (("--set", "vocab_size=50", "--data", "text"), "beyond the vocabulary"),
    ],
)
def test_bad_use_is_one_line(configuration, arguments, told):
    from initscope.errors import InputError

    with pytest.raises(InputError, match=told):
        run("predict", configuration, *arguments)
