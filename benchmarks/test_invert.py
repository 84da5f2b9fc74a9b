"""What is promised to be fast, timed: a photograph back from one layer, and the cost of an iteration."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from sklearn.datasets import load_sample_images
from torch import nn

from initscope.invert import recover, sparse_transition
from initscope.invert.least_squares import normal_operator
from initscope.invert.operators import Affine


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def photograph(side=224):
    picture = np.asarray(load_sample_images().images[0])[:side, :side]
    return torch.from_numpy(picture.transpose(2, 0, 1).copy()).float() / 255


def layer(padding):
    torch.manual_seed(0)
    conv = nn.Conv2d(3, 64, 11, padding=padding, bias=False).requires_grad_(False)
    nn.init.kaiming_normal_(conv.weight)
    return conv


@pytest.mark.parametrize("padding", [5, 0])
def test_photograph_back_from_a_layer(benchmark, padding):
    """Promised: 224×224×3 from 64 filters of 11×11, relative error below 1e-3 in float32, under 60 s on 2 cores."""
    image, model = photograph(), nn.Sequential(layer(padding), nn.ReLU())
    outputs = model(image[None])[0]
    found = benchmark.pedantic(lambda: recover(model, outputs), rounds=1, iterations=1)
    error = float((found.inputs - image).norm() / image.norm())
    assert error < 1e-3
    benchmark.extra_info |= {"relative error": error, "condition": found.condition, "iterations": found.iterations}


def test_iteration_against_a_forward_pass(benchmark):
    """Promised: at most 3 forward passes; the two are timed in turn, the fastest of each counts."""
    image, conv = photograph(), layer(5)
    affine = Affine([conv], (3, 224, 224), torch.float32)
    operator = normal_operator(affine, (conv(image[None])[0] > 0).float())
    vector = np.random.default_rng(0).standard_normal(affine.size)
    forward = []
    for _ in range(15):
        start = time.perf_counter()
        conv(image[None])
        forward.append(time.perf_counter() - start)
        operator @ vector
    benchmark.pedantic(lambda: operator @ vector, rounds=15, iterations=1)
    benchmark.extra_info["forward passes per iteration"] = benchmark.stats.stats.min / min(forward)


def test_float64_recovery(benchmark):
    """To 1e-8 where the condition allows."""
    image, model = photograph(64).double(), nn.Sequential(layer(5).double(), nn.ReLU())
    outputs = model(image[None])[0]
    found = benchmark.pedantic(lambda: recover(model, outputs), rounds=1, iterations=1)
    assert float((found.inputs - image).norm() / image.norm()) < 1e-8


def test_sparse_transition(benchmark):
    """Three ratios, seven sparsities, n = 400."""
    found = benchmark.pedantic(lambda: sparse_transition(trials=10), rounds=1, iterations=1)
    assert all(abs(row["ratio"] - 1) < 0.1 for row in found.thresholds())
