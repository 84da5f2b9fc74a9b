"""Pages of deep networks: work that grows with the number of layers, not with its square, and a size that opens."""

import base64
import cProfile
import gzip
import json
import pstats
import re

import pytest
import torch
from torch import nn

import initscope
from initscope.inspection import page
from initscope.inspection.page import MOST_EXPORTED


def report_of(layers):
    """The report of a network of Linear and ReLU, as many of each."""
    torch.manual_seed(0)
    parts = [part for _ in range(layers) for part in (nn.Linear(8, 8), nn.ReLU())]
    return initscope.inspect(nn.Sequential(*parts), torch.randn(32, 8), pairs=8, alternatives=False)


@pytest.mark.filterwarnings("ignore")
def test_calls_grow_with_the_layers():
    """Counted, not timed: twice the layers add twice the calls; with a part that grows as the square, four times.

    Findings differ a little between depths, hence the slack.
    """
    report_of(2)._html()  # libraries are loaded
    calls, sizes, exported = [], [], []
    for layers in (50, 100, 200):
        report = report_of(layers)
        profile = cProfile.Profile()
        text = profile.runcall(report._html)
        calls.append(pstats.Stats(profile).total_calls)
        exported.append(len(re.search(r'class="whole">([^<]*)<', text)[1]))
        sizes.append(len(text.encode()) - exported[-1])
    assert calls[2] - calls[1] < 2.5 * (calls[1] - calls[0])
    row = (sizes[2] - sizes[0]) / 300
    assert sizes[2] + 3600 * row + MOST_EXPORTED < 3e6  # 2,000 Linear and 2,000 ReLU
    assert exported[0] < exported[1] < exported[2] <= MOST_EXPORTED


def exported(text):
    packed = re.search(r'class="whole">([^<]*)<', text)[1]
    return json.loads(gzip.decompress(base64.b64decode(packed)))


@pytest.mark.parametrize(("share", "rows"), [(1.0, 41), (0.9, 41), (0.5, 0)])
def test_the_json_of_a_long_report_is_made_smaller(monkeypatch, share, rows):
    """First numbers lose digits, then rows and parameters are left out; findings and the rest are those of the report.

    Numbers have the digits that were asked for, so that they differ from the report's by half a unit of the fourth.
    """
    report = report_of(20)
    whole = len(re.search(r'class="whole">([^<]*)<', report._html())[1])
    monkeypatch.setattr(page, "MOST_EXPORTED", int(share * whole))
    made, given = exported(report._html()), json.loads(json.dumps(report.to_dict()))
    assert len(made["rows"]) == rows
    assert ("shortened" in made) is (share < 1)
    assert made["headline"] == given["headline"]
    assert [finding["code"] for finding in made["findings"]] == [finding["code"] for finding in given["findings"]]
    for ours, theirs in zip(made["rows"], given["rows"], strict=False):
        for name, value in theirs.items():
            assert ours[name] == (pytest.approx(value, rel=5.1e-4) if isinstance(value, float) else value)
    assert made["thresholds"] == pytest.approx(given["thresholds"])


def test_a_report_that_is_too_long_in_any_form_is_not_part_of_its_page(monkeypatch):
    monkeypatch.setattr(page, "MOST_EXPORTED", 100)
    text = report_of(2)._html()
    assert 'class="whole"' not in text
    assert 'data-export="json"' not in text
    assert 'data-export="markdown"' in text
