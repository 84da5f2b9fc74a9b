"""Angles far below 1e-6 degrees keep their digits, predicted and measured: no arccosine of a cosine near 1."""

import numpy as np
import torch
from torch import nn

import initscope
from initscope.initializers import He


def test_tiny_angles_are_told_apart():
    """At the input θ = ε to a relative 1e-6; after a linear layer angles of all pairs shrink or grow by one factor."""
    generator = torch.Generator().manual_seed(0)
    x, along = torch.linalg.qr(torch.randn(12, 2, dtype=torch.float64, generator=generator))[0].T
    sizes = torch.tensor([1e-5, 1e-8, 1e-11], dtype=torch.float64)
    first, second = x.expand(3, -1), x * torch.cos(sizes)[:, None] + along * torch.sin(sizes)[:, None]
    model = nn.Sequential(nn.Linear(12, 40, bias=False), nn.Linear(40, 30, bias=False)).double()
    predicted = initscope.predict(model, first, second, He())
    measured = initscope.measure(model, first, second, draws=0)
    seen = initscope.measurement.observe(model, torch.cat([first, second]), pairs=3, shuffle=False)
    expected = np.degrees(sizes.numpy())
    for found in (predicted, measured, seen):
        np.testing.assert_allclose(found.angle[0], expected, rtol=1e-5)
    np.testing.assert_allclose(predicted.angle[2], expected, rtol=1e-5)
    grown = measured.angle[2] / expected
    np.testing.assert_allclose(grown, grown[0], rtol=1e-4)
    np.testing.assert_allclose(seen.angle, measured.angle, rtol=1e-5)
