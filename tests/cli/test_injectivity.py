"""``initscope injectivity``: output formats, a bare state dict, refusals."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

from initscope.cli import main
from initscope.injectivity import read_proof


def run(capsys, *arguments):
    """Standard output and exit code of the command."""
    code = 0
    try:
        main(["injectivity", *arguments])
    except SystemExit as stop:
        code = stop.code or 0
    captured = capsys.readouterr()
    return captured.out, captured.err, code


def test_thresholds_as_json(capsys):
    out, _, code = run(capsys, "thresholds", "--format", "json")
    values = json.loads(out)
    assert code == 0
    assert {"cover", "union", "euler", "rs", "one_rsb", "full_rsb"} <= set(values)
    for name in ("cover", "union", "euler", "rs", "one_rsb", "full_rsb"):
        assert set(values[name]) == {"value", "error", "method"}
    assert values["cover"]["value"] < values["full_rsb"]["value"] < values["one_rsb"]["value"] < values["rs"]["value"]


def test_probability_says_its_method(capsys):
    out, _, _ = run(capsys, "probability", "-m", "5", "-n", "2", "--format", "json")
    assert {"value": 0.0625, "error": 0.0, "method": "exact"}.items() <= json.loads(out).items()
    out, _, _ = run(capsys, "probability", "-m", "12", "-n", "3", "--samples", "200", "--format", "csv")
    row = next(csv.DictReader(io.StringIO(out)))
    assert row["method"] == "simulated (200 layers)"


@pytest.mark.parametrize("suffix", ["pt", "npz"])
def test_decide_a_bare_state_dict(tmp_path, capsys, suffix):
    import torch

    weight = np.vstack([np.eye(3), -np.eye(3)])
    path = tmp_path / f"weights.{suffix}"
    if suffix == "pt":
        torch.save(
            {"fc1.weight": torch.tensor(weight), "fc1.bias": torch.zeros(6), "fc2.weight": torch.ones(2, 6)}, path
        )
    else:
        np.savez(path, **{"fc1.weight": weight, "fc1.bias": np.zeros(6), "fc2.weight": np.ones((2, 6))})
    out, err, code = run(capsys, "decide", "--weights", str(path), "--layer", "fc1", "--format", "json")
    assert code == 0
    assert "proof verified: yes" in err
    assert json.loads(out)["injective"] is True
    out, _, _ = run(capsys, "decide", "--weights", str(path), "--layer", "fc2", "--format", "csv")
    assert next(csv.DictReader(io.StringIO(out)))["decision"] == "not injective"
    out, _, _ = run(capsys, "decide", "--weights", str(path), "--layer", "fc1", "--stability", "--format", "json")
    assert json.loads(out)["stability"]["frame"] == pytest.approx(1.0)


def test_decide_a_convolution_with_the_shape_that_the_messages_advise(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(
        "from torch import nn\nprint('hello')\n"
        "def make():\n    return nn.Sequential(nn.Conv2d(1, 1, 1), nn.Conv2d(1, 9, 2), nn.ReLU())\n"
    )
    model = f"{tmp_path}/mine.py:make"
    _, err, code = run(capsys, "decide", model)
    assert (code, "the model has 2 layers; choose one with --layer: 0, 1" in err) == (2, True)
    _, err, code = run(capsys, "decide", model, "--layer", "1")
    assert code == 2
    advised = err.strip().rsplit("--input-shape ", 1)[1].split("x")
    out, _, code = run(
        capsys,
        "decide",
        model,
        "--layer",
        "1",
        "--input-shape",
        "x".join(["1", *["2"] * (len(advised) - 1)]),
        "--format",
        "json",
    )
    assert code == 0
    assert json.loads(out)["injective"] is False  # 9 rows, 4 inputs: fewer than 3·4 - 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("decide",), "nothing to decide"),
        (("decide", "--weights", "missing.pt"), "missing.pt is not a file"),
        (("decide", "--seed", "-1"), "seed = -1 must be a whole number from 0 to 2^63 - 1"),
        (("probability", "-m", "9", "-n", "2.5"), "2.5 must be a whole number"),
        (("probability", "-m", "0", "-n", "2"), "outputs = 0 must be a whole number of at least 1"),
        (("probability", "-m", "1000000000", "-n", "100000000"), "inputs = 100000000 must be"),
    ],
)
def test_bad_use_is_one_line_and_exit_two(capsys, arguments, message):
    out, err, code = run(capsys, *arguments)
    assert (out, code) == ("", 2)
    assert message in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(20), "weights.npy holds no weight matrix (outputs × inputs), only W of shape (20,)"),
        (np.ones((4, 2)) * 1j, "W is complex"),
        (np.full((4, 2), 1e300), "W holds entries up to 1e+300; beyond 1e+150 their squares overflow"),
    ],
)
def test_weights_that_are_no_layer(tmp_path, capsys, weights, message):
    """One line each: no warning of a cast or an overflow beside it (warnings are errors here)."""
    np.save(tmp_path / "weights.npy", weights)
    out, err, code = run(capsys, "decide", "--weights", str(tmp_path / "weights.npy"))
    assert (out, code) == ("", 2)
    assert message in err


TREE = np.random.default_rng(3).standard_normal((30, 2))
PAIRS = np.vstack([np.eye(3), -np.eye(3)]) * 0.1
FLAT = np.eye(3)


@pytest.mark.parametrize(("weight", "kind"), [(TREE, "tree"), (PAIRS, "opposite rows"), (FLAT, None)])
def test_a_proof_is_read_back_and_checked(tmp_path, capsys, weight, kind):
    """Bit by bit: the layer of the file, the same from elsewhere; another layer, or an altered proof, is refused."""
    np.save(tmp_path / "weights.npy", weight)
    np.save(tmp_path / "other.npy", weight[:2])
    proof = tmp_path / "proof.json"
    weights = ("--weights", str(tmp_path / "weights.npy"))
    printed, _, code = run(capsys, "decide", *weights, "--proof", str(proof), "--format", "json")
    assert code == 0
    certificate = json.loads(printed)["certificate"]
    assert (certificate and certificate["kind"]) == kind
    read = read_proof(proof)
    np.testing.assert_array_equal(read.weight, weight)
    (tmp_path / "printed.json").write_text(printed)
    for arguments in ((proof,), (proof, *weights), (tmp_path / "printed.json", *weights)):
        out, _, code = run(capsys, "verify", *map(str, arguments), "--format", "json")
        assert (code, json.loads(out)["holds"]) == (0, True)
    _, err, code = run(capsys, "verify", str(tmp_path / "printed.json"))
    assert (code, "holds no layer" in err) == (2, True)
    other = ("--weights", str(tmp_path / "other.npy"))
    content = json.loads(proof.read_text())
    if kind is not None:
        assert run(capsys, "verify", str(proof), *other)[2] == 1
        row = content["certificate"]["rows"]
        row[0] = [0, 1] if kind == "opposite rows" else row[0] + 1
    else:
        content["witness"] = [[0.0, 0, 0], [1.0, 2, 3]]
    proof.write_text(json.dumps(content))
    _, err, code = run(capsys, "verify", str(proof))
    assert (code, "does NOT hold" in err) == (1, True)


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", "[" * 100_000, "null", '{"injective": true}', "\x00", '{"injective": 7, "method": 0'],
)
def test_files_that_hold_no_decision(tmp_path, capsys, content):
    (tmp_path / "x.json").write_text(content)
    out, err, code = run(capsys, "verify", str(tmp_path / "x.json"))
    assert (out, code, len(err.strip().splitlines())) == ("", 2, 1)
    assert "x.json" in err
