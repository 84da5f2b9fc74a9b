"""Spread and shift of one draw of any network, against many draws and against closed forms."""

import numpy as np
import pytest
import torch
from torch import nn

import initscope
from initscope.initializers import He, Orthogonal


def vectors(pairs=4, size=20):
    x, z = torch.randn(2, pairs, size, generator=torch.Generator().manual_seed(0))
    share = torch.linspace(0.3, 0.9, pairs)[:, None]
    return x, share * x + (1 - share**2).sqrt() * z


def images(pairs=4, size=8):
    noise = torch.randn(2 * pairs, 3, size, size, generator=torch.Generator().manual_seed(0))
    x, z = nn.functional.avg_pool2d(noise, 3, 1, 1).split(pairs)
    return x, 0.7 * x + 0.7 * z


def conv(inputs, outputs, **options):
    return nn.Conv2d(inputs, outputs, 3, padding=1, bias=False, **options)


class Residual(nn.Module):
    def __init__(self, *branch):
        super().__init__()
        self.branch = nn.Sequential(*branch)

    def forward(self, x):
        return x + self.branch(x)


class WrittenNorm(nn.Module):
    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


NETWORKS = {
    "tanh": (lambda: nn.Sequential(nn.Linear(20, 80), nn.Tanh(), nn.Linear(80, 120), nn.Tanh()), vectors),
    "convolutions": (
        lambda: nn.Sequential(
            conv(3, 48, stride=2), nn.ReLU(), conv(48, 64), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 16, 60)
        ),
        images,
    ),
    "pooling": (
        lambda: nn.Sequential(conv(3, 48, stride=2), nn.ReLU(), nn.AvgPool2d(2), conv(48, 48), nn.ReLU()),
        images,
    ),
    "layer norm": (
        lambda: nn.Sequential(nn.Linear(20, 80), nn.LayerNorm(80), nn.ReLU(), nn.Linear(80, 80)),
        vectors,
    ),
    "residual": (
        lambda: nn.Sequential(
            nn.Linear(20, 80),
            *[Residual(nn.RMSNorm(80), nn.Linear(80, 80), nn.GELU(), nn.Linear(80, 80))] * 1,
            WrittenNorm(),
            nn.Linear(80, 80),
        ),
        vectors,
    ),
    "depthwise": (lambda: nn.Sequential(conv(3, 64), conv(64, 64, groups=64), nn.Conv2d(64, 64, 1)), images),
    "concatenation": (
        lambda: nn.Sequential(conv(3, 32), Joined(conv(32, 64)), nn.ReLU(), conv(96, 64)),
        images,
    ),
}


class Joined(Residual):
    def forward(self, x):
        return torch.cat([x, self.branch(x)], dim=1)


@pytest.mark.parametrize("name", NETWORKS)
def test_spread_is_that_of_the_draws(name):
    """50 draws know a standard deviation to 10 % and the prediction is sampled to 5 %: 35 % off is seen.

    A part that is not counted, or counted twice, is 41 % off where two layers stray.
    """
    build, pairs = NETWORKS[name]
    model, (x, y) = build(), pairs()
    predicted = initscope.predict(model, x, y, He(), finite_width=True)
    runs = [initscope.measure(model, x, y, initializer=He(), draws=1, seed=seed) for seed in range(50)]
    for attribute, sd in (("cosine", predicted.cosine_sd), ("rms_ratio", predicted.rms_sd)):
        observed = np.std([getattr(run, attribute) for run in runs], axis=0, ddof=1)
        strays = (observed > 1e-3).all(axis=1)
        ratio = np.sqrt((sd**2).mean(axis=1)[strays] / (observed**2).mean(axis=1)[strays])
        assert strays.any()
        assert np.abs(np.log(ratio)).max() < 0.3, attribute
    mean = np.mean([run.cosine for run in runs], axis=0)
    error = np.maximum(predicted.cosine_sd / 50**0.5, 1e-4)
    z = (mean - predicted.cosine - predicted.cosine_shift)[1:] / np.hypot(error, predicted.cosine_shift_se)[1:]
    assert np.sqrt((z**2).mean()) < 2


@pytest.mark.parametrize("layers", [1, 2])
def test_linear_layers_are_the_sample_correlation(layers):
    """Of m Gaussian pairs: spread (1 - ρ²)/√m and mean ρ - ρ(1 - ρ²)/(2m), and as much again in every layer [Fisher].

    192 directions know a spread to 5 %; the error of a shift is stated.
    """
    x, y = vectors()
    model = nn.Sequential(*[nn.Linear(20 if k == 0 else 200, 200, bias=False) for k in range(layers)], nn.Identity())
    predicted = initscope.predict(model, x, y, He(), finite_width=True)
    rho = predicted.cosine[0]
    assert np.allclose(predicted.cosine_sd[layers] / ((1 - rho**2) * (layers / 200) ** 0.5), 1, atol=0.17)
    expected = -layers * rho * (1 - rho**2) / 400
    z = (predicted.cosine_shift[layers] - expected) / predicted.cosine_shift_se[layers]
    assert 0.1 < np.sqrt((z**2).mean()) < 2
    assert (predicted.cosine_shift_se[layers] < 0.15 * predicted.cosine_sd[layers] * (layers / 200) ** 0.5).all()
    assert np.allclose(predicted.rms_sd[layers] / (predicted.rms_ratio[layers] * (layers / 400) ** 0.5), 1, atol=0.17)


def test_rows_that_are_not_covered_say_why():
    x, y = images()
    model = nn.Sequential(conv(3, 32), nn.ReLU(), nn.MaxPool2d(2), conv(32, 32))
    predicted = initscope.predict(model, x, y, He(), finite_width=True)
    assert np.isfinite(predicted.cosine_sd[:3]).all()
    assert np.isnan(predicted.cosine_sd[3:]).all()
    assert "no spread predicted: 2 is sampled" in predicted.rows[4].note
    orthogonal = initscope.predict(model, x, y, Orthogonal(), finite_width=True)
    assert "the weights of 0 are not independent" in orthogonal.rows[1].note
    twice = nn.Linear(20, 20)
    tied = initscope.predict(nn.Sequential(twice, nn.Tanh(), twice), *vectors(), He(), finite_width=True)
    assert "has the weights of an earlier layer" in tied.rows[3].note


def test_it_is_an_option_and_in_the_table():
    x, y = vectors()
    model = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 64))
    plain = initscope.predict(model, x, y, He())
    assert plain.rms_sd is None
    assert plain.angle_shift is None
    assert "rms_sd_predicted" not in plain.table()[0]
    predicted = initscope.predict(model, x, y, He(), finite_width=True)
    np.testing.assert_array_equal(plain.cosine, predicted.cosine)
    row = predicted.table()[2]
    assert row["rms_sd_predicted"] > 0
    assert row["cosine_shift_predicted"] != 0
    labels = [text.get_text() for text in predicted.plot().get_legend().get_texts()]
    assert "predicted at these widths" in labels


def test_batches_of_pairs_are_of_the_same_draws(monkeypatch):
    from initscope.propagate import finite_width

    x, y = vectors()
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64))
    whole = initscope.predict(model, x, y, He(), finite_width=True)
    monkeypatch.setattr(finite_width, "_ENTRIES", 40)
    parts = initscope.predict(model, x, y, He(), finite_width=True)
    np.testing.assert_allclose(whole.cosine_deviations, parts.cosine_deviations, rtol=1e-6, atol=1e-9)
