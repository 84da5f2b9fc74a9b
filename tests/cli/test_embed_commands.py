"""``mean-width``, ``hash`` and ``search`` from end to end: a folder or an array in, codes and neighbours out."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from PIL import Image

from initscope.cli import main
from initscope.cli._output import emit
from initscope.embed import AGH, KSH, HammingIndex, load_hasher, mean_average_precision, pack_bits
from initscope.embed.radius import Matches


@pytest.fixture
def run(capsys):
    def call(*arguments):
        code = 0
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as error:
            code = error.code or 0
        output, messages = capsys.readouterr()
        return code, output, messages

    return call


@pytest.fixture
def digits(tmp_path):
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    np.savez(tmp_path / "digits.npz", images=X[:300].reshape(-1, 1, 8, 8) / 16, labels=y[:300])
    return tmp_path / "digits.npz"


def test_mean_width_of_data_and_after_each_layer(run, digits, tmp_path):
    code, output, _ = run("mean-width", "--data", digits, "--format", "json", "--draws", 16)
    result = json.loads(output)
    assert code == 0
    assert (result["points"], result["dimension"], result["draws"]) == (300, 64, 16)
    code, output, _ = run("mean-width", "dense20-relu*2", "--data", digits, "--format", "csv", "--draws", 8)
    rows = list(csv.DictReader(io.StringIO(output)))
    assert code == 0
    assert [row["layer"] for row in rows][-2:] == ["dense2", "relu2"]
    assert float(rows[0]["value"]) > 0
    assert "mean width" in run("mean-width", "--data", digits, "--draws", 8)[1]
    network = "from torch import nn\ndef make():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8))\n"
    (tmp_path / "net.py").write_text(network, encoding="utf-8")
    assert "module 1 (Linear)" in run("mean-width", f"{tmp_path / 'net.py'}:make", "--data", digits, "--draws", 8)[1]


def test_fit_encode_build_query_evaluate(run, digits, tmp_path):
    pytest.importorskip("faiss")
    fitted, codes, index = tmp_path / "a.hash", tmp_path / "codes.npz", tmp_path / "a.index"
    assert run("hash", "fit", fitted, "--data", digits, "--method", "ksh", "--bits", 12)[0] == 0
    assert run("hash", "encode", fitted, codes, "--data", digits)[0] == 0
    assert run("search", "build", codes, index)[0] == 0
    with np.load(digits) as arrays:
        X, y = arrays["images"].reshape(300, -1).astype(np.float32), arrays["labels"]
    expected = KSH(bits=12).fit(X, y).transform(X)
    with np.load(codes) as arrays:
        np.testing.assert_array_equal(arrays["codes"], expected)
        np.testing.assert_array_equal(arrays["labels"], y)
    assert load_hasher(fitted).bits == 12
    code, output, _ = run("search", "query", index, codes, "--k", 3, "--format", "json")
    found = json.loads(output)
    distances, ids = HammingIndex.load(index).search(expected, 3)
    assert code == 0
    np.testing.assert_array_equal(found["ids"], ids)
    np.testing.assert_array_equal(found["distances"], distances)
    asked, ranked = tmp_path / "asked.npz", tmp_path / "ranked.npz"
    np.savez(asked, codes=expected[:50], bits=12, labels=y[:50])
    np.savez(ranked, codes=expected[50:], bits=12, labels=y[50:])
    code, output, messages = run("search", "evaluate", asked, ranked, "--format", "json")
    score = mean_average_precision(expected[:50], y[:50], expected[50:], y[50:])
    assert json.loads(output)["mean_average_precision"]["value"] == pytest.approx(score.value)
    assert messages == ""


def test_a_folder_of_images_described_by_gist(run, tmp_path):
    rng = np.random.default_rng(0)
    for name, stripes in (
        ("lying", (slice(None, None, 4), slice(None))),
        ("upright", (slice(None), slice(None, None, 4))),
    ):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(6):
            pixels = rng.integers(0, 60, (32, 32, 3), dtype=np.uint8)
            pixels[stripes] = 250
            Image.fromarray(pixels).save(tmp_path / "images" / name / f"{number}.png")
    options = ("--data", tmp_path / "images", "--size", 32, "--describe", "gist")
    fitted, codes = tmp_path / "b.hash", tmp_path / "b.npz"
    assert run("hash", "fit", fitted, *options, "--method", "random", "--bits", 64)[0] == 0
    assert run("hash", "encode", fitted, codes, *options)[0] == 0
    code, output, _ = run("search", "evaluate", codes, codes, "--exclude-self", "--format", "csv")
    rows = {row["at"]: row for row in csv.DictReader(io.StringIO(output))}
    assert code == 0
    assert float(rows["mAP, value"]["precision"]) > 0.95


def test_queries_do_not_find_themselves(run, tmp_path):
    """Against sorting; the codes are marks of a Golomb ruler, all of whose distances differ, so that nothing ties."""
    marks, labels = np.array([0, 1, 4, 9, 15, 22, 32, 34]), np.array([0, 1, 0, 0, 1, 2, 0, 1])
    codes = tmp_path / "codes.npz"
    np.savez(codes, codes=pack_bits(np.arange(40) < marks[:, None]), bits=40, labels=labels)
    precisions, first = [], []
    for query in (0, 1, 2, 3, 4, 6, 7):  # 5 is alone in its class
        order = np.argsort(np.abs(marks - marks[query]))[1:]
        hits = labels[order] == labels[query]
        precisions.append(np.mean(np.cumsum(hits)[hits] / np.arange(1, 8)[hits]))
        first.append(hits[0])
    code, output, messages = run("search", "evaluate", codes, codes, "--exclude-self", "--format", "json")
    score = json.loads(output)["mean_average_precision"]
    assert (code, messages) == (0, "")
    assert (score["queries"], score["items"], score["skipped"]) == (7, 7, 1)
    assert score["value"] == pytest.approx(np.mean(precisions))
    assert score["best"] == score["worst"] == pytest.approx(np.mean(precisions))
    assert score["standard_error"] == pytest.approx(np.std(precisions, ddof=1) / np.sqrt(7))
    assert json.loads(output)["curve"][0] == {
        "at": "rank 1",
        "precision": pytest.approx(np.mean(first)),
        "recall": pytest.approx(np.mean(np.array(first) / np.array([3, 2, 3, 3, 2, 3, 2]))),
    }
    assert "--exclude-self" in run("search", "evaluate", codes, codes)[2]


def test_directions_reach_the_random_hash(run, digits, tmp_path):
    for given, directions in (((), "uniform"), (("--directions", "data"), "data")):
        assert run("hash", "fit", tmp_path / "r.hash", "--data", digits, "--bits", 16, *given)[0] == 0
        assert load_hasher(tmp_path / "r.hash").directions == directions


def test_layers_reach_the_hashes_that_have_them(run, digits, tmp_path):
    options = ("--data", digits, "--bits", 8, "--limit", 40)
    for given, layers in (((), AGH().layers), (("--layers", 1), 1), (("--layers", 2), 2)):
        assert run("hash", "fit", tmp_path / "a.hash", "--method", "agh", *options, *given)[0] == 0
        assert load_hasher(tmp_path / "a.hash").layers == layers
    code, _, messages = run("hash", "fit", tmp_path / "a.hash", "--method", "learned", *options, "--layers", 17)
    assert code == 2
    assert "layers = 17" in messages


def test_bad_use_is_one_line_and_exit_2(run, digits, tmp_path):
    pytest.importorskip("faiss")
    fitted, codes = tmp_path / "c.hash", tmp_path / "c.npz"
    run("hash", "fit", fitted, "--data", digits, "--bits", 8)
    run("hash", "encode", fitted, codes, "--data", digits)
    (tmp_path / "noise").write_bytes(b"noise")
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).random((5, 7)))
    np.save(tmp_path / "zero.npy", np.uint8(3))
    content = bytearray(codes.read_bytes())
    (tmp_path / "cut.npz").write_bytes(content[: len(content) // 2])
    (tmp_path / "foreign.npz").write_bytes(b"PK\3\4" + 50 * b"x")
    content[100] ^= 255
    (tmp_path / "damaged.npz").write_bytes(content)
    np.savez(tmp_path / "vector.npz", codes=np.zeros((20, 2), dtype=np.uint8), bits=np.array([1, 2]))
    np.savez(tmp_path / "labels.npz", codes=np.zeros((20, 2), dtype=np.uint8), bits=16, labels=np.arange(5))
    np.savez(tmp_path / "negative.npz", codes=np.zeros((20, 2), dtype=np.uint8), bits=-3)
    np.savez(tmp_path / "one.npz", codes=np.zeros((1, 1), dtype=np.uint8), bits=8, labels=[0])
    (tmp_path / "folder").mkdir()
    damaged = ("cut", "foreign", "damaged", "vector", "negative", "labels")
    for arguments, reason in (
        *(
            (("search", "build", tmp_path / name, tmp_path / "x"), name)
            for name in ("zero.npy", "rows.npy", *(f"{each}.npz" for each in damaged))
        ),
        (("search", "build", codes, tmp_path / "x", "--ids", tmp_path / "cut.npz"), "cut.npz is not a .npz file"),
        (("search", "build", codes, tmp_path / "folder"), "folder: cannot be written"),
        (("search", "build", codes, tmp_path / "noise" / "below"), "below: cannot be written"),
        (("search", "evaluate", codes, tmp_path / "one.npz", "--exclude-self"), "are not the same"),
        (("hash", "fit", tmp_path / "x", "--data", digits, "--method", "itq", "--layers", 2), "has no layers"),
        (
            ("hash", "fit", tmp_path / "x", "--data", digits, "--method", "itq", "--directions", "data"),
            "has no directions",
        ),
        (("hash", "fit", tmp_path / "x", "--data", digits, "--method", "pca"), "random, itq, agh"),
        (("hash", "fit", tmp_path / "x", "--data", tmp_path / "rows.npy", "--method", "ssh"), "learns from labels"),
        (("hash", "fit", tmp_path / "x", "--data", digits, "--bits", 0), "bits = 0"),
        (("hash", "encode", fitted, tmp_path / "x", "--data", tmp_path / "rows.npy"), "was fitted to 64"),
        (("hash", "encode", tmp_path / "noise", tmp_path / "x", "--data", digits), "not a file of this kind"),
        (("search", "build", tmp_path / "noise", tmp_path / "x"), "noise is not a .npy or .npz file, or damaged"),
        (("search", "build", codes, tmp_path / "x", "--ids", tmp_path / "rows.npy"), "whole numbers"),
        (("search", "query", fitted, codes), "not a file of this kind"),
        (("search", "query", tmp_path / "missing", codes), "cannot be read"),
        (("mean-width", "--data", digits, "--draws", 1), "draws = 1"),
    ):
        code, output, messages = run(*arguments)
        assert code == 2, arguments
        assert output == ""
        assert reason in messages.splitlines()[-1]
        assert not (tmp_path / "x").exists()


def test_a_row_of_nan_is_one_line_and_bad_use(run, tmp_path):
    rows = np.random.default_rng(0).random((20, 64), dtype=np.float32)
    np.save(tmp_path / "whole.npy", rows)
    rows[3, 5] = np.nan
    np.save(tmp_path / "torn.npy", rows)
    fitted = tmp_path / "a.hash"
    assert run("hash", "fit", fitted, "--data", tmp_path / "whole.npy")[0] == 0
    for command in (("fit", tmp_path / "b.hash"), ("encode", fitted, tmp_path / "codes.npz")):
        code, _, messages = run("hash", *command, "--data", tmp_path / "torn.npy")
        assert code == 2
        assert "row 3 of X holds NaN" in messages
        assert "sklearn" not in messages


def test_thousands_of_hits_are_a_short_table(capsys):
    hits = np.arange(5000)
    emit(Matches(np.zeros_like(hits), np.zeros_like(hits), hits))
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) < 60
    assert "4999" in printed.out
    assert printed.err == "the first and the last 20 of 5000 rows; --format csv has all\n"
