"""The page of `separations` and the command ``initscope separation``."""

import csv
import io
import json
import re

import pytest
import torch

from initscope.class_geometry import collapse, separations
from initscope.class_geometry.page import _changed
from initscope.cli import main
from initscope.data import load
from initscope.models import load_model

pytest.importorskip("faiss")

CNN = "conv3x3x4:zeros-relu-maxpool2-flatten-dense10"


@pytest.fixture(scope="module")
def found():
    networks = {f"seed {seed}": load_model(CNN, input_shape=(1, 8, 8), seed=seed) for seed in range(5)}
    return separations(networks, load("digits", limit=300), anchors=60)


@pytest.fixture
def run(capsys):
    def call(*arguments):
        code = 0
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as error:
            code = error.code or 0
        return code, *capsys.readouterr()

    return call


def test_page_holds_pictures_tests_and_pairs(found, tmp_path):
    text = found.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == text
    assert text.count("<svg") == 2 * (6 + 1) + 3 + 1
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert "Tests against the first network" in text
    assert 6 <= text.count('alt="the anchor"') <= 12
    assert not re.search(r"(src|href)=\"(http|//)", text)
    assert found.to_html() == text


def test_pairs_that_changed_are_shown_once(found):
    pairs = _changed(found)
    assert list(pairs) == ["Grew most", "Shrank most"]
    assert all(pair["after"] > pair["before"] for pair in pairs["Grew most"])
    assert all(pair["after"] < pair["before"] for pair in pairs["Shrank most"])
    pictures = [frozenset([pair["images"].x, pair["images"].y]) for part in pairs.values() for pair in part]
    assert len(pictures) == len(set(pictures)) > 3


def test_page_of_one_network_without_boundary():
    model = load_model(CNN, input_shape=(1, 8, 8))
    text = separations({"only": model}, load("digits", limit=200), anchors=40, boundary=False).to_html()
    assert text.count("<svg") == 2 * (2 + 1) + 1 + 1
    assert "Tests against" not in text


def test_page_of_a_network_that_keeps_distances():
    text = separations(
        {"a": torch.nn.Flatten(), "b": torch.nn.Flatten()}, load("digits", limit=200), anchors=30
    ).to_html()
    assert "1.00 → 1.00" in text


def test_exports_agree(found):
    rows = found.table()
    assert len(rows) == 5 * 2
    assert found.to_dict()["networks"]["seed 1"]["rows"] == [
        {name: value for name, value in row.items() if name != "network"} for row in rows if row["network"] == "seed 1"
    ]
    assert "<table>" in found._repr_html_()
    assert found.plot(column="intra_boundary").get_legend() is not None
    assert next(iter(found.networks.values())).plot().get_ylabel().startswith("distance")


def test_command_prints_and_writes(run, tmp_path):
    for seed in (1, 2):
        torch.save(load_model(CNN, input_shape=(1, 8, 8), seed=seed).state_dict(), tmp_path / f"{seed}.pt")
    arguments = ("separation", CNN, "--data", "digits", "--limit", 300, "--anchors", 50, "--weights", tmp_path / "1.pt")
    code, output, messages = run(*arguments, "--checkpoints", tmp_path / "2.pt", "--out", tmp_path / "page.html")
    assert code == 0, messages
    assert "intra boundary" in output
    assert "superiority" in output
    assert "page:" in messages
    assert (tmp_path / "page.html").exists()
    code, output, _ = run(*arguments, "--format", "json", "--layers", "relu1", "--no-rechosen")
    networks = json.loads(output)["networks"]
    assert list(networks) == ["random weights", "1"]
    assert [row["layer"] for row in networks["random weights"]["rows"]] == ["relu1"]
    assert networks["random weights"]["rows"][0]["inter_rechosen"] is None
    assert {test["layer"] for test in json.loads(output)["tests"]} == {"relu1"}
    code, output, _ = run(*arguments, "--format", "csv", "--no-boundary")
    assert len(list(csv.DictReader(io.StringIO(output)))) == 4


def test_probes_stand_beside_the_ratios(run, tmp_path):
    data = load("digits", limit=300)
    model = load_model(CNN, input_shape=(1, 8, 8))
    found = separations({"only": model}, data, anchors=40, boundary=False, probes=True)
    assert found.collapses["only"] == collapse(model, data)
    assert [row["layer"] for row in found.to_dict()["collapses"]["only"]] == ["input", "relu1", "dense1"]
    text = found.to_html()
    assert "Neural collapse" in text
    assert "linear probe" in text
    code, output, _ = run("separation", CNN, "--data", "digits", "--limit", 200, "--probes", "--no-boundary")
    assert code == 0
    assert "probe accuracy" in output


def test_checkpoints_of_one_name_keep_their_folders(run, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        torch.save(load_model(CNN, input_shape=(1, 8, 8)).state_dict(), tmp_path / folder / "last.pt")
    files = [str(tmp_path / folder / "last.pt") for folder in ("a", "b")]
    options = ("--data", "digits", "--limit", 100, "--anchors", 20, "--no-boundary", "--format", "json")
    _, output, _ = run("separation", CNN, *options, "--weights", files[0], "--checkpoints", files[1])
    assert list(json.loads(output)["networks"]) == ["random weights", *files]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--data", "digits", "--limit", "1"), "at least two"),
        (("--data", "digits", "--anchors", "0"), "anchors = 0"),
        (("--data", "digits", "--out", "page.pdf"), "must end in .html"),
        (("--data", "digits", "--weights", "nowhere.pt"), "nowhere.pt"),
        (("--data", "digits", "--layers", "nowhere"), "layers nowhere"),
    ],
)
def test_bad_use_is_one_line_and_exit_2(run, arguments, says):
    code, output, messages = run("separation", CNN, *arguments)
    assert (code, output) == (2, "")
    line = messages.strip().splitlines()[-1]
    assert line.startswith("initscope: ")
    assert re.search(says, line)
