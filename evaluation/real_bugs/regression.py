"""Regression: ranges of outputs and targets, unscaled data, autoencoders. A name is the number and the post."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from evaluation.programs import Case, Data, Program
from evaluation.real_bugs.keras_style import bce, dense, initialized, mae, mse
from evaluation.samples import changed
from evaluation.scores import r2

SGD, ADAM, RMSPROP = torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop


def curve(function, low: float, high: float) -> Data:
    """Return points of an interval and the values of a function, both as columns."""

    def data(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x = low + (high - low) * torch.rand(count, 1, generator=generator)
        return x, function(x)

    return data


def houses(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return area, rooms, year, distance (raw units) and a price in thousands."""
    noise = torch.randn(count, 4, generator=generator)
    table = torch.stack([90 + 30 * noise[:, 0], 3 + noise[:, 1], 1980 + 15 * noise[:, 2], 1e4 + 4e3 * noise[:, 3]], 1)
    price = 300 + 80 * noise[:, 0] + 30 * noise[:, 1] + 20 * noise[:, 2] * noise[:, 3] - 40 * noise[:, 3]
    return table, price[:, None]


def scaled_houses(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return the same table, standardized, and the price standardized."""
    table, price = houses(count, generator)
    centre, spread = torch.tensor([90.0, 3, 1980, 1e4]), torch.tensor([30.0, 1, 15, 4e3])
    return (table - centre) / spread, (price - 300) / 100


def waves(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return curves of 32 values within [-1, 1] as inputs and targets."""
    phase, rate = torch.rand(2, count, 1, generator=generator)
    values = torch.sin(torch.arange(32) * (0.1 + 0.3 * rate) + 2 * math.pi * phase)
    return values, values


def low_and_high(count: int, generator: torch.Generator) -> tuple[tuple[Tensor, ...] | Tensor, Tensor]:
    """Return smooth images of 6×6 and the same at 12×12, values in [0, 1]."""
    coarse = torch.randn(count, 1, 4, 4, generator=generator)
    large = torch.sigmoid(2 * nn.functional.interpolate(coarse, 12, mode="bicubic"))
    return nn.functional.avg_pool2d(large, 2), large


def super_resolution() -> nn.Module:
    """Return a small network that doubles the side of an image."""
    return initialized(
        nn.Sequential(
            *(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU()),
            *(nn.Conv2d(32, 4, 3, padding=1), nn.PixelShuffle(2)),
        )
    )


SQUARE = curve(lambda x: x.square(), -1, 1)
POWER = curve(lambda x: x**4, 0, 100)
SCALED_POWER = curve(lambda x: x**4, 0, 1)
BOTH_SIGNS = curve(lambda x: torch.sin(3 * x), -1.5, 1.5)
LINE = curve(lambda x: 3 * x + 2, 0, 100)
SCALED_LINE = curve(lambda x: (3 * x + 2) / 5, 0, 1)
DEEP_TANH_RELU = ("tanh", *("relu",) * 9)

CASES = (
    Case("05_48251943", ("output activation",),
         Program(dense(1, 32, 32, 1, output="relu"), BOTH_SIGNS, mse, ADAM, 0.01),
         Program(dense(1, 32, 32, 1, output="tanh"), BOTH_SIGNS, mse, ADAM, 0.01, steps=300),
         r2, note="ReLU output for targets of both signs"),
    Case("07_33969059", ("output activation",),
         Program(dense(4, 32, 1, output="softmax"), scaled_houses, mse, ADAM, 0.01),
         Program(dense(4, 32, 1), scaled_houses, mse, ADAM, 0.01),
         r2, note="softmax of one unit in a regression"),
    Case("13_48934338", ("learning rate", "input scale"),
         Program(dense(1, 1), LINE, mse, SGD, 0.1),
         Program(dense(1, 1), LINE, mse, SGD, 1e-4),
         r2, note="learning rate 0.1 with raw x up to 100: diverges"),
    Case("17_52800582", ("input scale", "target scale"),
         Program(dense(1, 32, 32, 1, activation="tanh"), POWER, mse, ADAM, steps=600),
         Program(dense(1, 32, 32, 1, activation="tanh"), SCALED_POWER, mse, ADAM, 0.01, steps=600),
         r2, note="x up to 100 and y = x⁴ up to 1e8 are not scaled"),
    Case("20_48221692", ("output activation", "target scale"),
         Program(dense(4, 32, 1, output="sigmoid"), changed(scaled_houses, targets=lambda y: 100 * y + 300), mse,
                 ADAM, 0.01),
         Program(dense(4, 32, 32, 1), changed(scaled_houses, targets=lambda y: 100 * y + 300), mse, ADAM, 0.03,
                 steps=600),
         r2, note="sigmoid output for targets of hundreds"),
    Case("26_45442843", ("loss", "optimizer", "input scale"),
         Program(dense(4, 16, 16, 1), houses, mae, RMSPROP),
         Program(dense(4, 16, 16, 1), scaled_houses, mse, ADAM, 0.01),
         r2, note="raw inputs; absolute error and RMSprop"),
    Case("33_58237726", ("learning rate", "architecture"),
         Program(dense(4, 1, 32, 1), scaled_houses, mse, SGD, 1e-4),
         Program(dense(4, 32, 32, 1), scaled_houses, mse, SGD, 0.05, steps=400),
         r2, note="a bottleneck of one ReLU unit, and a small learning rate"),
    Case("40_42514960", ("output activation", "activation"),
         Program(dense(32, 16, 4, 16, 32, output="sigmoid"), waves, mse, ADAM, steps=600),
         Program(dense(32, 16, 4, 16, 32, activation="tanh", output="tanh"), waves, mse, ADAM, 0.01, steps=600),
         r2, note="an autoencoder with a sigmoid output for data in [-1, 1]"),
    Case("43_46642627", ("input scale", "target scale", "loss"),
         Program(dense(4, 16, 1, output="sigmoid"), houses, bce, SGD, 0.01),
         Program(dense(4, 16, 1), scaled_houses, mse, SGD, 0.05, steps=400),
         r2, note="binary cross-entropy for a regression; x and y not scaled"),
    Case("44_46995209", ("input scale", "activation", "architecture"),
         Program(dense(4, *(10,) * 10, 1, activation=DEEP_TANH_RELU), houses, mse, ADAM),
         Program(dense(4, 32, 32, 1), scaled_houses, mse, ADAM, 0.01),
         r2, note="raw inputs; one tanh and nine ReLU layers of ten units"),
    Case("46_47932589", ("input scale", "target scale", "output activation"),
         Program(dense(1, 16, 1, activation="sigmoid", output="sigmoid"), curve(lambda x: x.square(), 0, 20), mse,
                 ADAM, 0.01, steps=600),
         Program(dense(1, 16, 1, activation="sigmoid", output="sigmoid"), curve(lambda x: x.square(), 0, 1), mse,
                 ADAM, 0.05, steps=600),
         r2, note="x and y are not scaled to [0, 1] in front of a sigmoid head"),
    Case("53_super_resolution", ("learning rate", "loss"),
         Program(super_resolution, low_and_high, mae, ADAM, 0.3),
         Program(super_resolution, low_and_high, mse, ADAM, 1e-3, steps=300),
         r2, note="learning rate and loss of a super-resolution network"),
)  # fmt: skip
