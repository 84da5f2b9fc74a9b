"""The compiled loops inside prediction."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import initscope
from initscope.propagate.values.moment_maps import MapSums, MomentMaps


def test_compiled_loops_change_nothing(monkeypatch):
    """Large inputs go through numba: same numbers as array expressions, to rounding."""
    pytest.importorskip("numba")
    from initscope.theory import _fused

    assert _fused.totals is not None  # loaded, so that prediction uses it
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 5, stride=2), nn.ReLU())
    x, y = torch.randn(2, 3, 3, 120, 120, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    fast = initscope.predict(model, x, y)
    monkeypatch.setattr("initscope.propagate.loops.large_loops", lambda *maps: None)
    slow = initscope.predict(model, x, y)
    np.testing.assert_allclose(fast.cosine, slow.cosine, atol=1e-13)
    np.testing.assert_allclose(fast.norm_ratio, slow.norm_ratio, rtol=1e-13)


def test_sums_of_other_maps_are_not_believed():
    """Sums that come with maps count for these alone: not for maps that a later step made of them."""
    maps = torch.rand(3, 5, 2, 4, 4, generator=torch.Generator().manual_seed(0))
    found = MapSums.of_arrays(maps.numpy(), np.full((3, 5, 2), 7.0))
    state = MomentMaps(found.kxx, found.kyy, found.d, sizes=(3, 1), status="closed form", summed=found)
    assert torch.all(state.totals().xx == 7.0 * 4)
    doubled = state.scaled(2.0).totals()
    sizes = torch.tensor([3.0, 1.0])
    torch.testing.assert_close(doubled.xx, (4 * maps[0].sum(dim=(2, 3)) * sizes).sum(dim=1).double())
    assert state.scaled(2.0).totals().units == state.totals().units == 4 * 16
