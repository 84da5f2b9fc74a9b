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
