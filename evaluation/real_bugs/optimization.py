"""Learning rate and optimizer alone: model, data and loss are the same in both versions."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evaluation.programs import Case, Program
from evaluation.real_bugs.classification import CANCER, PIXELS, half
from evaluation.real_bugs.keras_style import LastState, bce, dense, initialized, mse, sgd, small_cnn, sparse_cce
from evaluation.real_bugs.regression import curve
from evaluation.samples import digits
from evaluation.scores import accuracy, r2

SGD, ADAM, RMSPROP = torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop


def life(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return boards of 8×8 of Conway's game of life and their next state."""
    board = (torch.rand(count, 1, 8, 8, generator=generator) < 0.4).float()
    around = F.conv2d(board, torch.ones(1, 1, 3, 3), padding=1) - board
    return board, ((around == 3) | ((around == 2) & (board > 0))).float()


def life_network() -> nn.Module:
    """Return a convolutional network with a sigmoid for every cell."""
    return initialized(
        nn.Sequential(
            *(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 1), nn.ReLU()),
            *(nn.Conv2d(32, 1, 1), nn.Sigmoid()),
        )
    )


def keypoints(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return images with two bright spots and the coordinates of both in [-1, 1]."""
    place = 2 * torch.rand(count, 4, generator=generator) - 1
    grid = torch.linspace(-1, 1, 12)
    spots = [
        torch.exp(-8 * ((grid - place[:, i, None])[:, None] ** 2 + (grid - place[:, i + 1, None])[:, :, None] ** 2))
        for i in (0, 2)
    ]
    return (spots[0] + 0.5 * spots[1])[:, None], place


def keypoint_network() -> nn.Module:
    """Return two convolutions and two dense layers."""
    return initialized(
        nn.Sequential(
            *(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 2), nn.ReLU(), nn.Flatten()),
            *(nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 4)),
        )
    )


def series(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return twelve values of a sine and the next one."""
    phase = 6.3 * torch.rand(count, 1, generator=generator)
    values = torch.sin(0.4 * torch.arange(13) + phase)
    return values[:, :12, None], values[:, 12:]


def forecaster() -> nn.Module:
    """Return an LSTM and a dense layer."""
    return initialized(nn.Sequential(LastState(1, 16), nn.Linear(16, 1)))


SLOW_TABLE = Program(dense(30, 32, 16, 1, output="sigmoid"), CANCER, bce, SGD, 1e-3)
GREY = digits(1.0, flat=True)
DIGITS = Program(dense(64, 64, 10, output="softmax"), PIXELS, sparse_cce, SGD, 0.1)
SINE = Program(dense(1, 32, 32, 1, activation="tanh"), curve(lambda x: torch.sin(3 * x), -1.5, 1.5), mse, SGD, 0.01)
LIFE = Program(life_network, life, mse, SGD, 1e-3, steps=400)
KEYPOINTS = Program(keypoint_network, keypoints, mse, ADAM, 0.1, steps=400)
SERIES = Program(forecaster, series, mse, RMSPROP, 1e-5, steps=300)

CASES = (
    Case("31_56380303", ("optimizer", "learning rate"),
         replace(DIGITS, build=small_cnn(10), data=digits(), lr=1e-3),
         replace(DIGITS, build=small_cnn(10), data=digits(), optimizer=ADAM, lr=1e-3, steps=300),
         accuracy, note="SGD with a small rate instead of Adam"),
    Case("34_37624102", ("learning rate",),
         replace(DIGITS, data=GREY, lr=0.1), replace(DIGITS, data=GREY, lr=0.01), accuracy,
         note="learning rate 0.1 instead of 0.01"),
    Case("39_41977498", ("optimizer", "learning rate"),
         SERIES, replace(SERIES, optimizer=ADAM, lr=0.01), r2, note="RMSprop with a tiny rate instead of Adam at 0.01"),
    Case("42_44998910", ("learning rate",),
         replace(SINE, lr=0.01, optimizer=sgd(0.9), steps=100),
         replace(SINE, lr=0.03, optimizer=sgd(0.9), steps=100), r2, note="learning rate 0.01 instead of 0.03"),
    Case("45_51181393", ("learning rate",),
         SLOW_TABLE, replace(SLOW_TABLE, lr=0.1), half, note="learning rate 0.001 instead of 0.1"),
    Case("48_gol_nn", ("loss", "learning rate"),
         LIFE, replace(LIFE, loss=bce, optimizer=ADAM, lr=0.01), half,
         note="game of life: squared error and a small rate"),
    Case("49_facial_keypoints", ("optimizer", "learning rate"),
         KEYPOINTS, replace(KEYPOINTS, optimizer=sgd(0.9), lr=0.05), r2, note="Adam with a rate of 0.1"),
)  # fmt: skip
