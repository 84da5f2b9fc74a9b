"""What Python users meet: laws by name, pairs drawn from data, results that export alike, code apart from prose."""

import inspect as signatures
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import initscope
from initscope.errors import InputError
from initscope.inspection import Finding, _checks
from initscope.inspection.variants import architecture_variants, initializer_variants, size_variants


def network(depth=2):
    layers = [layer for _ in range(depth) for layer in (nn.Linear(16, 16, bias=False), nn.ReLU())]
    return initscope.initializers.he_(nn.Sequential(*layers), generator=torch.Generator().manual_seed(0))


DATA = torch.rand(12, 16, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("law", ["glorot", initscope.initializers.Glorot, initscope.initializers.Glorot()])
def test_a_law_by_name_class_or_instance(law):
    x, y = DATA[:6], DATA[6:]
    expected = initscope.predict(network(), x, y, initscope.initializers.Glorot()).rms_ratio
    np.testing.assert_array_equal(initscope.predict(network(), x, y, law).rms_ratio, expected)
    drawn = initscope.measure(network(), x, y, initializer=initscope.initializers.Glorot(), draws=2).cosine
    np.testing.assert_array_equal(initscope.measure(network(), x, y, initializer=law, draws=2).cosine, drawn)
    report = initscope.inspect(network(), DATA, pairs=4, initializer=law, alternatives=False)
    assert report.prediction is not None
    matrix = initscope.kernel(network(), DATA, initializer=initscope.initializers.Glorot(), normalize=False)
    np.testing.assert_array_equal(initscope.kernel(network(), DATA, initializer=law, normalize=False), matrix)


def test_a_law_that_is_none():
    with pytest.raises(InputError, match="did you mean glorot"):
        initscope.predict(network(), DATA, initializer="gloro")
    with pytest.raises(InputError, match="no initializer"):
        initscope.measure(network(), DATA, initializer=3)


@pytest.mark.parametrize("data", [DATA, DATA.numpy()], ids=["tensor", "array"])
def test_pairs_are_drawn_from_data(data):
    x, y, _ = initscope.data.random_pairs(data, 10, 3)
    expected = initscope.predict(network(), x, y).cosine
    np.testing.assert_array_equal(initscope.predict(network(), data, pairs=10, seed=3).cosine, expected)
    assert initscope.predict(network(), data).cosine.shape[1] == 64
    assert initscope.measure(network(), data, draws=1, pairs=5).cosine.shape[1] == 5
    assert initscope.predict(network(), data[:3]).cosine.shape[1] == 3  # all there are


def test_pairs_are_drawn_from_an_image_set():
    digits = initscope.data.load("digits", limit=20)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU())
    assert initscope.predict(model, digits, pairs=7).cosine.shape[1] == 7
    assert initscope.measure(model, digits, pairs=7, draws=2).cosine.shape[1] == 7
    with pytest.raises(InputError, match="holds no samples"):
        initscope.predict(model, "digits")


def test_defaults_are_those_of_the_command_line():
    from initscope.cli._sources import DataSource, InspectSource
    from initscope.cli.predict_measure import measure as command

    python = signatures.signature(initscope.measure).parameters
    assert python["draws"].default == signatures.signature(command).parameters["draws"].default
    assert python["pairs"].default == DataSource().pairs
    assert signatures.signature(initscope.inspect).parameters["pairs"].default == InspectSource().pairs


def test_results_show_and_export_alike(tmp_path):
    predicted = initscope.predict(network(), DATA)
    report = initscope.inspect(network(), DATA, pairs=4, alternatives=False)
    plan = initscope.plan.width(eps=0.2, delta=0.1)
    log = initscope.integrations.Watch(DATA, pairs=4)
    log(network(), 0)
    near = initscope.embed.Searcher(bits=16, rerank=8).fit(DATA.numpy()).search(DATA.numpy()[:3], k=2)
    for number, result in enumerate((predicted, report, plan, report.audit, log, near)):
        assert len(repr(result)) < 1000
        assert "\n" not in repr(result)
        assert result.to_arrow().num_rows == len(result.to_pandas()) == len(result.table())
        page = result.to_html(tmp_path / f"{number}.html")
        assert page == tmp_path / f"{number}.html"
        assert isinstance(page, Path)
        text = page.read_text(encoding="utf-8")
        assert text == result.to_html()
        assert text.startswith('<!DOCTYPE html>\n<html lang="en">')
        assert re.search(r'<meta charset="utf-8">.*<title>\w.* · initscope</title>', text, re.DOTALL)
        assert result.plot().has_data()
    found = initscope.embed.Neighbors(np.zeros((50, 4)), np.zeros((50, 4), dtype=int))
    assert repr(found) == "Neighbors(distances=<ndarray 50 × 4>, ids=<ndarray 50 × 4>)"
    np.testing.assert_array_equal(near.plot().lines[-1].get_ydata(), np.median(near.distances, axis=0))


def test_only_words_have_no_picture():
    with pytest.raises(InputError, match="holds no numbers to plot"):
        initscope.inspection.Audit(()).plot()


def test_code_is_code_or_none():
    """What is to be typed compiles; what is to be done by hand stands in the advice."""
    model = network(30)
    for variant in (*initializer_variants(model), *architecture_variants(model), *size_variants()):
        assert (variant.code is None) == bool(variant.advice)
        if variant.code is not None:
            compile(variant.code, variant.name, "exec")
    report = initscope.inspect(nn.Sequential(*[nn.Linear(16, 16), nn.ReLU()] * 30), DATA, pairs=4)
    for fix in (*(finding.fix for finding in report.findings if finding.fix), *report.fixes):
        assert fix.code is None or compile(fix.code, fix.name, "exec")


def test_levels_codes_prefixes_and_names_select_findings():
    def finding(code, name, level):
        return Finding(code, name, level, "3", 0.5, 0.1, "Something is wrong.")

    given = [finding("IS103", "collapse", "error"), finding("IS104", "expansion", "info"),
             finding("IS802", "adjacent-linear", "warning")]  # fmt: skip
    expected = {
        "": [], "error": ["IS103"], "warning": ["IS103", "IS802"], "IS1": ["IS103", "IS104"], "is802": ["IS802"],
        "expansion, IS103": ["IS103", "IS104"],
    }  # fmt: skip
    assert {wanted: [f.code for f in _checks.failing(given, wanted)] for wanted in expected} == expected
    with pytest.raises(InputError, match=r"fail-on colapse: there is no such check \(did you mean collapse\?\)"):
        _checks.failing(given, "error, colapse")
    with pytest.raises(InputError, match="select IS9: there is no such check"):
        initscope.inspect(nn.Linear(2, 2), DATA, select="IS9")


def test_a_layer_that_refuses_is_named_without_torchs_words():
    model = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(9, 2))
    with pytest.raises(InputError) as refused:
        initscope.inspect(model, DATA)
    assert "Linear(in_features=9, out_features=2, bias=True) got a tensor of shape" in str(refused.value)
    assert "mat1" not in str(refused.value)


@pytest.mark.parametrize(
    ("layer", "shape", "advice"),
    [
        (nn.Linear(64, 8), (4, 1, 8, 8), "put torch.nn.Flatten() before it"),
        (nn.Linear(63, 8), (4, 1, 8, 8), "change the layer, or the shape of the data"),
        (nn.Conv2d(3, 4, 3), (4, 8, 8, 3), "give x.permute(0, 3, 1, 2)"),
        (nn.Conv1d(3, 4, 3), (4, 8, 3), "give x.permute(0, 2, 1)"),
        (nn.Conv2d(3, 4, 3), (4, 1, 8, 8), "change the layer, or the shape of the data"),
        (
            nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 4)),
            (4, 8),
            "an embedding of 5 words (0 … 4) looks up whole numbers; give tokens",
        ),
    ],
)
def test_a_layer_that_refuses_says_what_would_fit(layer, shape, advice):
    for verb in (initscope.measure, initscope.predict):
        with pytest.raises(InputError, match=re.escape(advice)):
            verb(layer, torch.rand(shape), torch.rand(shape))
