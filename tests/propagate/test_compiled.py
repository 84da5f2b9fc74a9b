"""The compiled loops inside prediction."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import initscope


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
