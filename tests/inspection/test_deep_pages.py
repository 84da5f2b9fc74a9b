"""Pages of deep networks: work that grows with the number of layers, not with its square, and a size that opens."""

import cProfile
import pstats

import pytest
import torch
from torch import nn

import initscope


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
    calls, sizes = [], []
    for layers in (50, 100, 200):
        report = report_of(layers)
        profile = cProfile.Profile()
        text = profile.runcall(report._html)
        calls.append(pstats.Stats(profile).total_calls)
        sizes.append(len(text.encode()))
    assert calls[2] - calls[1] < 2.5 * (calls[1] - calls[0])
    row = (sizes[2] - sizes[0]) / 300
    assert sizes[2] + 3600 * row < 3e6  # 2,000 Linear and 2,000 ReLU
