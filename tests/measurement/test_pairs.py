"""The compiled sums against array expressions, and when they are used."""

import sys

import numpy as np
import pytest
import torch

from initscope.measurement.fast import compiled_loops
from initscope.measurement.pairs import cosine_of, pair_sums
from initscope.measurement.units import SpreadTally, UnitSample


@pytest.mark.parametrize("width", [1, 5, 4096, 10_000])
def test_compiled_sums_are_the_sums(width):
    pytest.importorskip("numba")
    from initscope.measurement import _loops

    flat = torch.randn(6, width, generator=torch.Generator().manual_seed(0))
    x, y = flat.double()[:3], flat.double()[3:]
    exact = torch.stack([v.square().sum(dim=1) for v in (x, y, x - y)])
    for loops in (None, _loops):
        torch.testing.assert_close(pair_sums(flat, loops), exact, rtol=1e-5, atol=0)


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e25])
def test_dying_and_exploding_outputs_keep_their_angle_and_rank(scale):
    """Their squares do not fit into single precision."""
    flat = torch.randn(40, 300, generator=torch.Generator().manual_seed(0))
    usual = pair_sums(flat).numpy()
    np.testing.assert_allclose(cosine_of(pair_sums(scale * flat).numpy()), cosine_of(usual), atol=1e-6)
    ranks, widths = [], []
    for values in (flat, scale * flat):
        tally = SpreadTally(UnitSample(300, 0, flat.device))
        tally.add(values)
        ranks.append(tally.effective_rank())
        widths.append(tally.mean_width())
    assert ranks[1] == pytest.approx(ranks[0], rel=1e-4)
    assert widths[1] == pytest.approx(scale * widths[0], rel=1e-4)


def test_loops_are_for_large_work_on_the_cpu(monkeypatch):
    flat = torch.ones(2, 8)
    for module in ("numba", "initscope.measurement._loops"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    assert compiled_loops(flat, 100) is None
    monkeypatch.undo()
    assert compiled_loops(flat.double(), 1 << 40) is None
    assert compiled_loops(torch.ones(8, 2).T, 1 << 40) is None


def test_cosine_of_zero_is_not_a_number():
    assert np.isnan(cosine_of(np.array([[0.0], [1.0], [1.0]]))).all()
    assert cosine_of(np.array([[1.0], [1.0], [2.0]])) == 0
