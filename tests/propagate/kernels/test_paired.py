"""Kernels of pairs: compiled and by rules, against a recursion written out and against the matrix of all pairs."""

import numpy as np
import pytest
import torch
from kernels_by_hand import by_hand, windows
from torch import nn

import initscope
from initscope.errors import InputError
from initscope.initializers import He
from initscope.propagate.kernels import PairKernel, kernel, paired

LAW = He(bias_variance=0.1)
CONVOLUTIONS = nn.Sequential(
    *(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, (3, 3), stride=2), nn.ReLU()),
    *(nn.Flatten(), nn.Linear(16, 5), nn.ReLU(), nn.Linear(5, 2)),
)


@pytest.fixture
def images():
    return torch.randn(8, 3, 6, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.fixture(params=["loops", "rules"])
def way(request, monkeypatch):
    if request.param == "rules":
        monkeypatch.setattr(paired, "stack_of", lambda *arguments: None)
    else:
        pytest.importorskip("numba")
    return request.param


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_against_a_recursion_written_out(way, images, dtype):
    """To rounding; a gain that is off by 1e-5 fails in float32, by 1e-11 in float64."""
    k, _ = by_hand(
        images.flatten(2).numpy(),
        [
            (2 / (3 * 9), 0.1, windows(6, 3, padding=1), True),
            (8 * 2 / (8 * 9), 0.1, windows(6, 3, stride=2), True),
            (2 / 4, 0.1, np.eye(4)[None], True),
            (2, 0.1, np.ones((1, 1, 1)), False),
        ],
    )
    expected = k[np.arange(4), np.arange(4, 8), 0, 0]
    images = images.to(dtype)
    found = PairKernel(CONVOLUTIONS, images, initializer=LAW, normalize=False)
    assert (found._compiled is not None) == (way == "loops")
    tolerance = 1e-11 if dtype == torch.float64 else 3e-6
    assert np.abs(found(images[:4], images[4:]) / expected - 1).max() < tolerance


@pytest.mark.parametrize("side", [3, 5, 11])
@pytest.mark.parametrize("padding_mode", ["zeros", "circular", "reflect"])
def test_loops_and_rules_agree_on_every_border(images, side, padding_mode):
    """Maps of 12×12: 3×3 filters have a loop of their own."""
    pytest.importorskip("numba")
    big = images.repeat(1, 1, 2, 2)
    model = nn.Sequential(
        *(nn.Conv2d(3, 4, side, padding=side // 2, padding_mode=padding_mode), nn.ReLU()),
        *(nn.Conv2d(4, 4, side, padding=side // 2, padding_mode=padding_mode), nn.ReLU()),
    )
    found = PairKernel(model, big, initializer=LAW)(big[:4], big[4:])
    assert np.abs(found - initscope.predict(model, big[:4], big[4:], LAW).cosine[-1]).max() < 1e-12


def test_vectors(way):
    x, y = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    model = nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 3), nn.ReLU())
    found = PairKernel(model, x, initializer=LAW)(x, y)
    assert np.abs(found - initscope.predict(model, x, y, LAW).cosine[-1]).max() < 1e-13


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
def test_other_models_go_through_the_rules(images, kind):
    """The diagonal of the matrix between both sides; GELU and pooling are no plain stack."""
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.GELU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(16, 1))
    for normalize in (True, False):
        pairs = PairKernel(model, images, initializer=LAW, kind=kind, normalize=normalize)
        matrix = kernel(model, images[:4], images[4:], initializer=LAW, kind=kind, normalize=normalize)
        assert np.abs(pairs(images[:4], images[4:]) - matrix.diagonal()).max() < 1e-12


def test_nearly_equal_images_keep_their_distance(images):
    """1 - cosine of 1e-7 in float32, whose cosines are 6e-8 apart: distances are carried, not products."""
    pytest.importorskip("numba")
    x = images.float()
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
    y = (images + 1e-3 * images.flip(0)).float()
    gap = 1 - PairKernel(model, x)(x, y)
    exact = initscope.predict(model, x.double(), y.double()).gap[-1]
    assert np.abs(gap / exact - 1).max() < 1e-3


def test_bad_input(images):
    pairs = PairKernel(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), images)
    zero, wrong = images.clone(), images.clone()
    zero[2], wrong[1, 0, 0, 0] = 0, np.nan
    for x, y, message in (
        (images, images[:, :, :5], r"y has shape \(8, 3, 5, 6\)"),
        (images, images[:3], "x has 8 inputs and y 3"),
        (zero, images, r"x\[2\] is all zero"),
        (images, wrong, r"y\[1\] holds NaN"),
    ):
        with pytest.raises(InputError, match=message):
            pairs(x, y)
