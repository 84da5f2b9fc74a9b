"""Several models on the same data: what changed, findings and curves side by side, on a page and in a terminal."""

import re

import numpy as np
import pytest
import torch
from torch import nn

import initscope
from initscope.cli import main
from initscope.errors import InputError
from initscope.geometry import median_over_pairs

DATA = torch.rand(40, 32, generator=torch.Generator().manual_seed(0))
QUICK = {"pairs": 8, "alternatives": False}


def stack(depth=20, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(*(layer for _ in range(depth) for layer in (nn.Linear(32, 32), nn.ReLU())))


@pytest.fixture(scope="module")
def compared():
    models = {"default": stack(), "he": initscope.initializers.He(), "other": stack(seed=1).state_dict()}
    return initscope.compare(models, DATA, **QUICK)


def test_every_model_is_inspected_on_the_same_pairs(compared):
    first, *others = compared.reports.values()
    for report in others:
        np.testing.assert_array_equal(report.observation.cosine[0], first.observation.cosine[0])
    alone = initscope.inspect(stack(seed=1), DATA, **QUICK)
    np.testing.assert_array_equal(compared.reports["other"].observation.cosine, alone.observation.cosine)
    with_he = initscope.initializers.he_(stack())
    assert compared.table()[1]["parameters"] == sum(map(torch.Tensor.numel, with_he.parameters()))


def test_what_changed(compared):
    """PyTorch's default for Linear makes 20 ReLU layers collapse; He's initialization does not."""
    gone = compared.changes["he"][0]
    assert gone.startswith("no longer found: ")
    assert "collapse" in gone
    errors = {name: {finding.name for finding in report.errors} for name, report in compared.reports.items()}
    assert "collapse" in errors["default"] - errors["he"]
    (row,) = (row for row in compared.findings() if row["finding"] == "IS103 collapse")
    assert (row["default"], row["he"], row["other"]) == ("error", "", "error")
    ratios = {row["model"]: row["angle ratio"] for row in compared.table()}
    for name, report in compared.reports.items():
        angle = median_over_pairs(report.observation.angle)
        assert ratios[name] == pytest.approx(angle[-1] / angle[0], abs=1e-6)


def test_equal_models_do_not_differ():
    same = initscope.compare({"a": stack(3), "b": stack(3)}, DATA, **QUICK)
    assert same.changes == {"b": ["no difference"]}


def test_layers_of_all_models(compared):
    rows = compared.layers()
    assert len(rows) == 41
    for name, report in compared.reports.items():
        assert rows[-1][f"rms_ratio {name}"] == report.table()[-1]["rms_ratio_measured"]
    assert len(compared.plot().get_lines()) == 3


def test_models_of_different_depth(tmp_path):
    compared = initscope.compare({"deep": stack(6), "short": stack(2)}, DATA, **QUICK)
    assert not compared.same_rows
    assert compared.to_dict()["layers"] == []
    with pytest.raises(InputError, match="different ops"):
        compared.layers()
    assert "6 layers → 2" in compared.changes["short"]
    page = compared.to_html()
    assert "share of the depth" in page
    assert "Layer by layer" not in page
    assert compared.plot().get_xlabel() == "share of the depth (%)"


def test_the_page_has_a_curve_of_every_model_in_every_panel(compared):
    page = compared.to_html()
    for panel in page.split('<div class="panel"')[1:]:
        numbers = [int(number) for number in re.findall(r'class="curve model-(\d)"', panel.split("</svg>")[0])]
        assert numbers == [0, 1, 2]
    assert "What changed" in page
    assert "<script src" not in page


def test_saved_reports_and_comparisons(compared, tmp_path):
    path = compared.reports["default"].save(tmp_path / "default.initscope")
    again = initscope.compare({"default": path, "he": compared.reports["he"]})
    assert again.changes == {"he": compared.changes["he"]}
    loaded = initscope.load(compared.save(tmp_path / "all.initscope"))
    assert loaded.to_html() == compared.to_html()
    assert loaded.to_dict() == compared.to_dict()


def test_other_data_is_a_caution(compared):
    other = initscope.inspect(stack(), DATA[:30], **QUICK)
    mixed = initscope.compare({"a": compared.reports["default"], "b": other})
    assert mixed.cautions == ("The reports differ in samples: 40, 30.",)
    assert mixed.cautions[0] in mixed.to_html()


@pytest.mark.parametrize(
    ("models", "data", "said"),
    [
        ({"a": stack(1)}, DATA, "at least two models by name"),
        ([stack(1), stack(1)], DATA, "at least two models by name"),
        ({"a": stack(1), "b": stack(1)}, None, "'a' is not a report: give data"),
        ({"a": stack(1), "b": stack(1)}, iter([DATA]), "an iterator can be read only once"),
        ({"a": initscope.initializers.He(), "b": {}}, DATA, "applied to a copy of a model, and none is given"),
        ({"a": stack(1), "b": stack(2).state_dict()}, DATA, "does not fit the first model"),
        ({"a": stack(1), "b": "missing.initscope"}, DATA, "cannot be read"),
    ],
)
def test_refusals(models, data, said):
    with pytest.raises(InputError, match=said):
        initscope.compare(models, data, **QUICK)


def test_markdown(compared):
    """What changed, a column for each model, a row for each quantity and finding, and the fix of every model."""
    text = compared.to_markdown()
    assert f"- he compared with default: {'; '.join(compared.changes['he'])}." in text
    assert text.count("| default | he | other |") == 2
    cells = {line.split(" | ")[0].removeprefix("| "): line.strip("| ").split(" | ")[1:] for line in text.splitlines()}
    assert cells["IS103 collapse"] == ["error", "–", "error"]
    assert cells["layers"] == ["20"] * 3
    assert "- Suggested fix for default: " in text


def test_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    options = ["--input-shape", "16", "--pairs", "4", "--no-alternatives"]
    torch.save(initscope.models.load_model("dense16-relu", input_shape=(16,), seed=5).state_dict(), "one.pt")
    main(["compare", "dense16-relu", "dense16-tanh", "one.pt", "--initializers", "he", *options,
          "--save", "all.initscope", "--out", "all.html"])  # fmt: skip
    out = capsys.readouterr().out
    for name in ("dense16-relu", "dense16-tanh", "one", "he"):
        assert name in out
    assert "dense16-tanh compared with dense16-relu: " in out
    assert (tmp_path / "all.html").read_text(encoding="utf-8") == initscope.load("all.initscope").to_html()
    for model in ("relu", "tanh"):
        main(["inspect", f"dense16-{model}", *options, "--save", f"{model}.initscope"])
    capsys.readouterr()
    main(["compare", "relu.initscope", "tanh.initscope", "--format", "json"])
    assert '"changes"' in capsys.readouterr().out
    for command in (["compare", "relu.initscope", "tanh.initscope"], ["open", "all.initscope"]):
        main([*command, "--format", "md"])
        assert "## initscope: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [("dense4", "at least two models"), ("a.initscope b.pt", "give the model before its weights"),
     ("dense4 dense5 --initializers nothing", "nothing")],
)  # fmt: skip
def test_refusals_on_the_command_line(words, said, capsys):
    with pytest.raises(SystemExit) as left:
        main(["compare", *words.split(), "--input-shape", "4", "--pairs", "4"])
    assert left.value.code == 2
    assert said in capsys.readouterr().err
