"""Standard errors of what is sampled: rows after it carry them, and every batch of pairs counts."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from torch import nn

import initscope
from initscope.initializers import He
from initscope.propagate import prediction
from initscope.propagate.spread import standard_error


class Attending(nn.Module):
    """Constants added, attention, a layer norm with parameters of its own, a mean taken away."""

    def __init__(self, width=24):
        super().__init__()
        self.first, self.values, self.last = nn.Linear(6, width), nn.Linear(width, width), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        generator = torch.Generator().manual_seed(0)
        self.place = nn.Parameter(torch.randn(4, width, generator=generator))
        nn.init.normal_(self.norm.weight, 1, 0.5, generator=generator)
        nn.init.normal_(self.norm.bias, 0, 0.5, generator=generator)

    def forward(self, x):
        h = self.first(x) + self.place
        h = self.norm(h + torch.softmax(h @ h.transpose(1, 2) / 5, dim=-1) @ self.values(h))
        h = torch.relu(self.last(h))
        return h - h.mean(dim=-1, keepdim=True)


def pairs(*shape, count=2, seed=0):
    x, noise = torch.randn(2, count, *shape, generator=torch.Generator().manual_seed(seed))
    return x, 0.6 * x + 0.8 * noise


def stated(prediction):
    found = [re.search(r"cosine ± ([\d.e+-]+)", row.note) for row in prediction.rows]
    return np.array([np.nan if one is None else float(one[1]) for one in found])


def test_errors_of_single_pairs_are_given_too():
    model, (x, y) = Attending(), pairs(4, 6)
    predicted = initscope.predict(model, x, y, He())
    sampled = np.array(["sampl" in row.status for row in predicted.rows])
    assert (predicted.cosine_se[~sampled] == 0).all()
    assert (predicted.cosine_se[sampled] > 0).all()
    alone = initscope.predict(model, x, y, He(), draws=1)
    assert np.isnan(alone.cosine_se[-1]).all()
    assert "±" not in alone.rows[-1].note


def test_every_batch_of_pairs_counts(monkeypatch):
    """Pairs of which the first half hardly vary: the stated error is that of all of them, not of the first batch."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 12), nn.Softmax(dim=-1), nn.Linear(12, 5))
    x, y = pairs(6, count=8)
    y[:4] = x[:4] * 1.001
    whole = initscope.predict(model, x, y, He())
    monkeypatch.setattr(prediction, "_CHUNK", 4 * 6)
    parts = initscope.predict(model, x, y, He())
    np.testing.assert_allclose(parts.cosine, whole.cosine, atol=1e-6)
    np.testing.assert_allclose(stated(parts)[2:], stated(whole)[2:], rtol=0.2)
    first = initscope.predict(model, x[:4], y[:4], He())
    assert (stated(first)[2:] < 0.1 * stated(whole)[2:]).all()


class Scaled(nn.Module):
    """Channels that constants tell apart, then factors that know which is which."""

    def __init__(self, width=24):
        super().__init__()
        self.first, self.norm = nn.Linear(6, width), nn.RMSNorm(width)
        self.place = nn.Parameter(2 * torch.randn(width, generator=torch.Generator().manual_seed(0)))
        self.norm.weight.data = self.place.detach().abs()

    def forward(self, x):
        return torch.relu(self.norm(self.first(x) + self.place))


def test_factors_of_channels_that_differ_are_sampled():
    """Against 200 networks, z-scores below 4; as if the channels had one law the norm would be 40 % less."""
    model, (x, y) = Scaled(), pairs(6)
    predicted = initscope.predict(model, x, y, He(), draws=200, seed=1)
    measured = initscope.measure(model, x, y, initializer=He(), draws=200, seed=2)
    error = np.hypot(measured.mean_cosine_se, np.nan_to_num(stated(predicted)))
    score = (predicted.cosine - measured.cosine).mean(axis=1)[3:] / error[3:]
    assert np.abs(score).max() < 4
    ratio = measured.norm_ratio[3:] / predicted.norm_ratio[3:]
    spread = np.hypot(measured.mean_norm_ratio_se[3:], measured.mean_norm_ratio_se[3:])
    assert np.abs((ratio.mean(axis=1) - 1) / spread).max() < 4


@pytest.mark.parametrize("draws", [2, 3, 5])
def test_any_number_of_networks_is_shared_out(draws):
    predicted = initscope.predict(Attending(), *pairs(4, 6), He(), draws=draws)
    assert np.isfinite(stated(predicted)[-1])


def test_scores_behind_a_mask_state_no_error():
    """A mask of -∞ leaves scores without a cosine: NaN in the numbers, and no “cosine ± nan” in the note."""

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.both = nn.Linear(8, 16)

        def forward(self, x):
            queries, keys = self.both(x).chunk(2, -1)
            scores = queries @ keys.transpose(-2, -1)
            return scores.masked_fill(torch.ones(4, 4, dtype=torch.bool).triu(1), -torch.inf).softmax(-1) @ x

    torch.manual_seed(0)
    found = initscope.predict(Attention(), torch.randn(3, 4, 8), torch.randn(3, 4, 8))
    masked = next(index for index, row in enumerate(found.rows) if row.layer == "masked_fill")
    assert np.isnan(found.cosine[masked]).all()
    assert np.isnan(found.cosine_se[masked]).all()
    assert not any("nan" in row.note for row in found.rows)
    assert "cosine ± " in found.rows[-1].note


@pytest.mark.parametrize("count", [2, 3, 4])
def test_squared_errors_are_the_variance_on_average(count):
    """10⁵ means of Gaussians: squared errors average to 1/count, known to .5 %; a factor of 1.02 of errors is seen."""
    values = np.random.default_rng(0).standard_normal((count, 100_000))
    assert np.mean(standard_error(values) ** 2) * count == pytest.approx(1, abs=0.03)
