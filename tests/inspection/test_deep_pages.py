"""Pages of deep networks: work that grows with the number of layers, not with its square, and a size that opens."""

import cProfile
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


def test_a_long_report_is_not_part_of_its_page(monkeypatch):
    monkeypatch.setattr(page, "MOST_EXPORTED", 100)
    text = report_of(2)._html()
    assert 'class="whole"' not in text
    assert 'data-export="json"' not in text
    assert 'data-export="markdown"' in text
