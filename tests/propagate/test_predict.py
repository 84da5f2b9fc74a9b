"""`predict` against brute-force patches for one layer, and against wide simulations for deep stacks."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn

import initscope
from initscope.errors import InputError
from initscope.initializers import Gaussian, Glorot, He, LeCun, ZeroSum

SIZE = {1: (11,), 2: (7, 9), 3: (5, 4, 6)}
CONV = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


def patches(images, conv):
    """Every patch that a convolution sees, ``[images, groups, positions, values]``, by padding and slicing."""
    spatial = images.dim() - 2
    mode = {"zeros": "constant"}.get(conv.padding_mode, conv.padding_mode)
    widths = [pad for size in reversed(conv.padding) for pad in (size, size)]
    padded = nn.functional.pad(images, widths, mode=mode)
    axes = []
    for axis in range(spatial):
        span = conv.dilation[axis] * (conv.kernel_size[axis] - 1) + 1
        axes.append(range(0, padded.shape[2 + axis] - span + 1, conv.stride[axis]))
    result = []
    for start in itertools.product(*axes):
        window = padded
        for axis, first in enumerate(start):
            taps = torch.arange(conv.kernel_size[axis]) * conv.dilation[axis] + first
            window = window.index_select(2 + axis, taps)
        result.append(window.reshape(len(images), conv.groups, -1))
    return torch.stack(result, dim=2)


def relu_dual(kxx, kyy, kxy):
    """E[relu(X) relu(Y)] by its textbook formula."""
    product = (kxx * kyy).sqrt()
    rho = torch.where(product > 0, kxy / product, torch.zeros_like(product)).clamp(-1, 1)
    return product * ((1 - rho**2).sqrt() + (math.pi - torch.arccos(rho)) * rho) / (2 * math.pi)


@pytest.mark.parametrize("spatial", [1, 2, 3])
@pytest.mark.parametrize("mode", ["zeros", "circular", "reflect", "replicate"])
@pytest.mark.parametrize(
    ("stride", "dilation", "groups", "padding"), [(1, 1, 1, 1), (2, 1, 1, 1), (1, 2, 2, 2), (3, 2, 4, 0)]
)
def test_first_layer_equals_brute_force_patches(spatial, mode, stride, dilation, groups, padding):
    """To 1e-10: one wrong tap changes the fourth digit."""
    kernel = 2 if spatial == 3 else 3
    conv = CONV[spatial](
        4, 8, kernel, stride=stride, dilation=dilation, groups=groups, padding=padding, padding_mode=mode
    )
    generator = torch.Generator().manual_seed(spatial)
    x, y = torch.randn(2, 3, 4, *SIZE[spatial], generator=generator, dtype=torch.float64)
    x[0, :, :3] = 0  # a black patch
    prediction = initscope.predict(nn.Sequential(conv, nn.ReLU()), x, y, Gaussian(variance=0.3, bias_variance=0.1))
    px, py = patches(x, conv), patches(y, conv)
    kxx, kyy, kxy = (0.3 * (a * b).sum(dim=3) + 0.1 for a, b in ((px, px), (py, py), (px, py)))
    sums = [m.sum(dim=(1, 2)) * 8 / groups for m in (kxx, kyy, kxy)]
    norm = x.flatten(1).norm(dim=1)
    assert torch.allclose(torch.tensor(prediction.cosine[1]), sums[2] / (sums[0] * sums[1]).sqrt(), rtol=0, atol=1e-10)
    assert torch.allclose(torch.tensor(prediction.norm_ratio[1]), sums[0].sqrt() / norm, rtol=1e-10)
    inner = relu_dual(kxx, kyy, kxy).sum(dim=(1, 2)) * 8 / groups
    expected = inner / (sums[0] * sums[1]).sqrt() * 2
    assert torch.allclose(torch.tensor(prediction.cosine[2]), expected, rtol=0, atol=1e-10)
    assert prediction.rows[2].status == "closed form"
    units = math.prod(prediction.rows[2].shape)
    rms = prediction.norm_ratio[2] * math.sqrt(x[0].numel() / units)
    assert np.allclose(prediction.rms_ratio[2], rms, rtol=1e-12)


def stack(*layers):
    return nn.Sequential(*layers)


def conv_stack(channels, depth, *, activation=nn.ReLU, groups=1, mode="circular"):
    layers, inputs = [], 3
    for index in range(depth):
        layers += [
            nn.Conv2d(inputs, channels, 3, padding=1, padding_mode=mode, groups=groups if index else 1),
            activation(),
        ]
        inputs = channels
    return nn.Sequential(*layers)


def dense_stack(width, depth, activation=nn.ReLU, inputs=30):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(inputs, width), activation()]
        inputs = width
    return nn.Sequential(*layers)


def pairs_of(shape, count=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(count, *shape, generator=generator)
    return x, 0.6 * x + 0.5 * torch.rand(count, *shape, generator=generator)


@pytest.mark.parametrize(
    ("model", "shape", "initializer", "width"),
    [
        (dense_stack(1000, 6), (30,), He(), 1000),
        (dense_stack(1000, 5), (30,), He(mode="fan_out", bias_variance=0.05), 1000),
        (dense_stack(1000, 4, nn.Tanh), (30,), LeCun(gain=1.5, bias_variance=0.1), 1000),
        (dense_stack(1000, 4, nn.GELU), (30,), LeCun(distribution="uniform"), 1000),
        (dense_stack(1000, 6), (30,), ZeroSum(), 1000),
        (conv_stack(192, 4), (3, 8, 8), He(), 192),
        (conv_stack(192, 3, mode="zeros"), (3, 8, 8), Glorot(), 192),
        (conv_stack(256, 3, groups=8), (3, 8, 8), He(), 256),
        (conv_stack(192, 3), (3, 8, 8), ZeroSum(strength=0.7), 192),
        (stack(*conv_stack(64, 1), nn.Flatten(), nn.Linear(64 * 64, 800), nn.SiLU()), (3, 8, 8), He(), 200),
    ],
    ids=["dense", "bias", "tanh", "gelu", "zero-sum", "conv", "glorot", "groups", "partial zero-sum", "flatten"],
)
def test_deep_stacks_agree_with_wide_simulations(model, shape, initializer, width):
    """Ten draws. Finite width itself shifts a cosine by at most 2·depth/width; beyond that 4 standard errors count."""
    x, y = pairs_of(shape)
    predicted = initscope.predict(model, x, y, initializer)
    measured = initscope.measure(model, x, y, initializer=initializer, draws=10, seed=1)
    depth = np.cumsum([row.kind in ("Linear", "Conv2d") for row in predicted.rows])
    gap = np.abs(predicted.cosine.mean(axis=1) - measured.cosine.mean(axis=1))
    assert (gap <= 4 * measured.mean_cosine_se + 2 * depth / width + 1e-6).all()
    norms = np.abs(predicted.norm_ratio.mean(axis=1) - measured.norm_ratio.mean(axis=1)) / predicted.norm_ratio.mean(
        axis=1
    )
    assert (
        norms <= 4 * measured.mean_norm_ratio_se / predicted.norm_ratio.mean(axis=1) + 4 * depth / width + 1e-6
    ).all()
    assert "not covered" not in {row.status for row in predicted.rows}


def test_a_wrong_law_would_be_seen():
    """The check above bites: zero-sum weights predicted as plain ones miss by far more than it allows."""
    model = dense_stack(1000, 3)
    x, y = pairs_of((30,))
    predicted = initscope.predict(model, x, y, He())
    measured = initscope.measure(model, x, y, initializer=ZeroSum(), draws=4)
    gap = np.abs(predicted.cosine - measured.cosine).mean(axis=1)[-1]
    assert gap > 4 * measured.mean_cosine_se[-1] + 2 * 3 / 1000


def test_dense_stack_follows_the_angle_map():
    """Dense He ReLU without bias iterates R̂, exactly."""
    x, y = pairs_of((30,))
    prediction = initscope.predict(dense_stack(50, 8), x.double(), y.double(), He())
    rho = prediction.cosine[0]
    for layer in range(8):
        rho = initscope.theory.angles.relu_cosine(rho)
        assert np.allclose(prediction.cosine[2 + 2 * layer], rho, rtol=0, atol=1e-13)


def test_small_gaps_keep_their_digits_in_single_precision():
    """Gaps 1 - ρ near 1e-7, below float32's resolution of ρ: carried as kxy they would be rounding noise."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(4, 30, generator=generator)
    y = x + 4e-4 * torch.randn(4, 30, generator=generator)
    gap = 1 - initscope.predict(dense_stack(10, 3), x, y, He()).cosine
    assert gap[0].max() < 2e-6
    expected = gap[0]
    for _ in range(3):
        expected = initscope.theory.angles.relu_cosine_gap(expected)
    assert np.allclose(gap[6], expected, rtol=1e-4, atol=0)


def test_present_weights_are_the_default_and_a_mean_is_reported():
    model = dense_stack(200, 2)
    with torch.no_grad():
        model[2].weight.add_(0.05)
    x, y = pairs_of((30,))
    prediction = initscope.predict(model, x, y)
    assert prediction.rows[1].note == ""
    assert "standard errors from 0" in prediction.rows[3].note
    variance = model[2].weight.detach().double().var().item()
    bias = model[2].bias.detach().double().square().mean().item()
    ratio = prediction.norm_ratio[3] ** 2 / (
        200 * (200 * variance * prediction.rms_ratio[2] ** 2 * _mean_square(x) + bias)
    )
    assert np.allclose(ratio * (x.flatten(1) ** 2).sum(1).numpy(), 1, rtol=1e-5)


def _mean_square(x):
    return (x.flatten(1).double() ** 2).mean(dim=1).numpy()


def test_activation_of_an_activation_is_composed():
    x, y = pairs_of((30,))
    twice = initscope.predict(stack(nn.Linear(30, 9), nn.ReLU(), nn.ReLU(), nn.Tanh()), x, y, He())
    once = initscope.predict(stack(nn.Linear(30, 9), nn.ReLU()), x, y, He())
    assert np.allclose(twice.cosine[3], once.cosine[2], atol=1e-12)
    measured = initscope.measure(stack(nn.Linear(30, 4000), nn.ReLU(), nn.Tanh()), x, y, initializer=He(), draws=4)
    assert np.abs(twice.cosine[4] - measured.cosine[3]).max() < 5 * measured.cosine_se[3].max()


def test_fixed_functions_of_the_input_are_simply_run():
    x, y = pairs_of((3, 8, 8))
    prediction = initscope.predict(
        stack(nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(192, 5)), x - 0.5, y - 0.5, He()
    )
    assert [row.status for row in prediction.rows] == ["closed form"] * 4
    a, b = (x - 0.5).clamp_min(0).flatten(1), (y - 0.5).clamp_min(0).flatten(1)
    assert np.allclose(prediction.cosine[1], torch.cosine_similarity(a, b).numpy(), atol=1e-6)


def test_depthwise_layers_after_the_first_are_approximate():
    model = stack(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3, groups=16), nn.ReLU())
    prediction = initscope.predict(model, *pairs_of((3, 8, 8)), He())
    assert prediction.rows[2].status == "closed form"
    assert prediction.rows[4].status != "closed form"


def test_numpy_arrays_and_chunks_give_the_same(monkeypatch):
    from initscope.propagate import prediction

    x, y = pairs_of((3, 8, 8), count=9)
    whole = initscope.predict(conv_stack(8, 2), x, y, He())
    monkeypatch.setattr(prediction, "_CHUNK", 2 * 192)
    parts = initscope.predict(conv_stack(8, 2), x.numpy(), y.numpy(), He())
    assert np.allclose(whole.cosine, parts.cosine, atol=1e-7)
    assert parts.cosine.shape == (5, 9)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (torch.zeros(2, 30), torch.ones(2, 30), r"x\[0\] is all zero"),
        (torch.ones(2, 30), torch.tensor([[1.0] * 30, [math.nan] * 30]), r"y\[1\] holds NaN"),
        (torch.ones(2, 30), torch.ones(3, 30), "equal shapes"),
        (torch.ones(30), torch.ones(30), "at least one pair"),
        (torch.ones(0, 30), torch.ones(0, 30), "at least one pair"),
    ],
)
def test_bad_pairs_are_refused(x, y, message):
    for function in (initscope.predict, initscope.measure):
        with pytest.raises(InputError, match=message):
            function(dense_stack(5, 1), x, y)


@pytest.mark.parametrize("verb", [initscope.predict, initscope.measure])
def test_wrong_shapes_are_refused(verb):
    """What cannot be run is refused, and not told as a layer without a rule."""
    x, y = pairs_of((31,))
    with pytest.raises(InputError, match=r"fails on inputs of shape \(\d+, 31\): Linear\(in_features=30"):
        verb(dense_stack(5, 1), x, y)


def test_not_a_module():
    with pytest.raises(InputError, match=r"give a torch\.nn\.Module"):
        initscope.predict(lambda x: x, *pairs_of((30,)))
