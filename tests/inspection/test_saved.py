"""Saved results: the same page after loading, no samples in the file, one line for every file that is wrong."""

import json
import zipfile

import numpy as np
import pytest
import torch
from torch import nn

import initscope
from initscope.cli import main
from initscope.errors import InputError


class Own(initscope.initializers.Initializer):
    """An initializer of the user's."""


@pytest.fixture(scope="module")
def reports():
    """Images with a fix among alternatives; tokens of a small transformer with a trial."""
    torch.manual_seed(0)
    layers = [layer for _ in range(20) for layer in (nn.Linear(64, 64, bias=False), nn.ReLU())]
    deep = nn.Sequential(nn.Flatten(), *layers, nn.Linear(64, 10))
    digits = initscope.data.load("digits").take(64)
    coder = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    tokens = torch.randn(32, 6, 16, generator=torch.Generator().manual_seed(1))
    return [
        initscope.inspect(deep, digits, pairs=8, trial=False),
        initscope.inspect(coder, tokens, targets=tokens[..., :16], pairs=8, lr=1e-3),
    ]


@pytest.fixture(scope="module")
def saved(reports, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    return [report.save(folder / f"{number}.initscope") for number, report in enumerate(reports)]


@pytest.mark.parametrize("number", [0, 1], ids=["images", "tokens"])
def test_a_loaded_report_is_the_same(reports, saved, number, tmp_path):
    from initscope.inspection.terminal import report_lines

    before, after = reports[number], initscope.load(saved[number])
    assert before.healthy == (number == 1)
    assert type(after) is type(before)
    assert after.to_html() == before.to_html()
    assert after.to_json() == before.to_json()
    assert after.to_markdown() == before.to_markdown()
    assert report_lines(after, 100, verbose=True) == report_lines(before, 100, verbose=True)
    assert after.fix == before.fix
    assert after.fix is None or after.fix.initializer == before.fix.initializer
    assert after.facts.loss is None
    again = after.save(tmp_path / "again.initscope")
    assert again.read_bytes() == saved[number].read_bytes()


def test_a_file_holds_no_samples(reports, saved):
    """Only the few images that the page shows are in it, as the page has them."""
    assert reports[0].observation.x is not None
    loaded = initscope.load(saved[0])
    assert loaded.observation.x is None
    assert loaded.observation.targets is None
    assert len(loaded.pictures.sample) == 6
    with zipfile.ZipFile(saved[0]) as file:
        shapes = [np.load(file.open(name)).shape for name in file.namelist() if name.endswith(".npy")]
    assert shapes
    assert not any(shape[1:] == (1, 8, 8) for shape in shapes)


def test_the_provenance_of_a_report(reports):
    """Counted by hand: 20 layers of 64 × 64 and one of 64 × 10 with a bias."""
    provenance = reports[0].provenance
    assert provenance.parameters == 20 * 64 * 64 + 64 * 10 + 10
    assert provenance.multiply_adds == 20 * 64 * 64 + 64 * 10
    assert provenance.weights_bytes == 4 * provenance.parameters
    assert provenance.outputs_bytes == 4 * (64 + 20 * 2 * 64 + 10)  # the input, the layers with their ReLU, the last
    assert (provenance.model, provenance.seed, provenance.command) == ("Sequential", 0, "")
    assert {"initscope", "torch", "numpy", "Python"} == set(provenance.versions)


def test_other_results(tmp_path):
    model, data = nn.Sequential(nn.Linear(8, 8), nn.ReLU()), torch.rand(12, 8)
    x, y = data[:6], data[6:]
    both = initscope.geometry.Comparison(initscope.predict(model, x, y), initscope.measure(model, x, y, draws=2))
    for result in (both, both.measurement, initscope.plan.width(eps=0.2, delta=0.1)):
        loaded = initscope.load(result.save(tmp_path / "x.initscope"))
        assert loaded.to_dict() == result.to_dict()
        assert loaded.to_html() == result.to_html()


def test_what_is_not_of_initscope_is_left_out(reports, tmp_path):
    from dataclasses import replace

    fix = replace(reports[0].fix, initializer=Own())
    path = replace(reports[0], fixes=(fix,)).save(tmp_path / "own.initscope")
    loaded = initscope.load(path)
    assert loaded.fix == fix
    assert loaded.fix.initializer is None


def edited(path, target, meta=None, value=None):
    """A copy of a file with other JSON."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "meta.json" and meta is not None:
                content = json.dumps(json.loads(content) | meta).encode()
            if name == "value.json" and value is not None:
                content = json.dumps(value(json.loads(content))).encode()
            new.writestr(name, content)
    return target


def test_damaged_files_are_refused(saved, tmp_path):
    """Cut off anywhere or with a changed byte, a file is refused, or the byte does not matter."""
    content, target = saved[1].read_bytes(), tmp_path / "damaged.initscope"
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(content), 12):
        for damaged in (content[:place], content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :]):
            target.write_bytes(damaged)
            refused = ""
            try:
                initscope.load(target)
            except InputError as error:
                refused = str(error)
            assert (str(target) in refused) if refused else len(damaged) == len(content)
            assert "\n" not in refused


@pytest.mark.parametrize(
    ("meta", "value", "said"),
    [
        ({"format": 99}, None, "has format 99.*update initscope"),
        (None, lambda old: old | {"$class": "os:system"}, "holds 'os:system'"),
        (None, lambda old: old | {"$class": "initscope.cli:main"}, "holds 'initscope.cli:main'"),
        (None, lambda old: old | {"$class": "initscope.nothing:Report"}, "holds 'initscope.nothing:Report'"),
        (None, lambda old: old | {"fields": {"title": ""}}, "has no 'observation' of Report"),
        (None, lambda old: 3, "is not a result saved by initscope, or damaged"),
        (None, lambda old: {"$array": 10**6}, "is not a result saved by initscope, or damaged"),
        (None, lambda old: {"$array": [1], "dtype": "O"}, "is not a result saved by initscope, or damaged"),
    ],
)
def test_foreign_files_are_refused(saved, tmp_path, meta, value, said):
    target = edited(saved[1], tmp_path / "x.initscope", meta, value)
    with pytest.raises(InputError, match=said):
        initscope.load(target)


def test_fields_that_are_newer_than_the_file_get_their_default(saved, tmp_path):
    def older(old):
        del old["fields"]["provenance"]
        return old

    loaded = initscope.load(edited(saved[1], tmp_path / "x.initscope", value=older))
    assert loaded.provenance == initscope.inspection.report.Provenance()


def test_a_large_file_is_refused_before_it_is_unpacked(saved, monkeypatch):
    monkeypatch.setenv("INITSCOPE_MEMORY", "0.00001")
    with pytest.raises(InputError, match="more than the limit"):
        initscope.load(saved[1])


def test_open_shows_what_inspect_showed(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = "inspect dense16-relu --input-shape 8 --pairs 4 --no-alternatives"
    main([*command.split(), "--save", "x.initscope", "--out", "x.html"])
    first = capsys.readouterr().out
    main(["open", "x.initscope", "--out", "y.html"])
    assert capsys.readouterr().out == first
    assert (tmp_path / "x.html").read_bytes() == (tmp_path / "y.html").read_bytes()
    report = initscope.load("x.initscope")
    assert report.provenance.model == "dense16-relu"
    assert report.provenance.command == f"initscope {command} --save x.initscope --out x.html"
    for format in ("json", "csv", "md"):
        main(["open", "x.initscope", "--format", format])
        assert capsys.readouterr().out


def test_open_shows_other_results(tmp_path, capsys):
    path = initscope.plan.width(eps=0.2, delta=0.1).save(tmp_path / "plan.initscope")
    main(["open", str(path), "--out", str(tmp_path / "plan.html")])
    assert (tmp_path / "plan.html").exists()
    with pytest.raises(SystemExit):
        main(["open", str(path), "--format", "md"])
    assert "--format md is for reports" in capsys.readouterr().err
