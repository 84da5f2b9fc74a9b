"""Every rule against wide simulations through the real torch modules, and against exact sums where there are some."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from evaluation.published.by_width import Function
from torch import nn

import initscope
from initscope.initializers import DeltaOrthogonal, Gaussian, He, ZeroSum
from initscope.propagate import InputValues
from initscope.propagate.rules.batch_norm import normalized_moments
from initscope.theory.activations import identity, relu

WIDTH, DRAWS = 256, 12


class Standardised(nn.Conv2d):
    """Divides each filter by its own deviation, in a ``forward`` of its own."""

    def forward(self, x):
        mean, sd = (self.weight.mean((1, 2, 3), keepdim=True), self.weight.std((1, 2, 3), keepdim=True))
        return F.conv2d(x, (self.weight - mean) / sd, self.bias, padding=1)


class Doubled(nn.Conv2d):
    """Changes the part of ``forward`` that convolutions share."""

    def _conv_forward(self, x, weight, bias):
        return super()._conv_forward(x, 2 * weight, bias)


class Renamed(nn.Conv2d):
    """Computes what its base class does."""


def conv(inputs=WIDTH, outputs=WIDTH, size=3, **options):
    return nn.Conv2d(inputs, outputs, size, padding=options.pop("padding", size // 2), **options)


def skip(inner):
    return Function(lambda self, x: x + self.inner(x), inner=inner)


def tied():
    """Two layers that hold the same weights."""
    model = Function(lambda self, x: self.a(x) + self.b(x), a=conv(size=1), b=conv(size=1))
    model.b.weight, model.b.bias = model.a.weight, model.a.bias
    return model


def half_quiet(self, x):
    x[:, : WIDTH // 2].mul_(0.2)
    return x


def added_in_place(self, x):
    skip = x
    x += self.inner(x)
    return x + skip


def start(*layers):
    return nn.Sequential(conv(3), *layers)


def tokens():
    return nn.Sequential(nn.Conv2d(3, WIDTH, 2, 2), nn.Flatten(2), Function(lambda self, x: x.transpose(1, 2)))


CASES = {
    "average pool": (start(nn.ReLU(), nn.AvgPool2d(2), conv(), nn.ReLU()), "closed form"),
    "overlapping padded pool": (start(nn.ReLU(), nn.AvgPool2d(3, 2, 1), conv(), nn.ReLU()), "closed form"),
    "two pools": (start(nn.ReLU(), nn.AvgPool2d(2), conv(), nn.ReLU(), nn.AvgPool2d(2)), "closed form"),
    "pool a Gaussian": (start(nn.AvgPool2d(2), nn.ReLU(), conv()), "closed form"),
    "global pool after strides": (
        start(nn.ReLU(), conv(stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTH, 200)),
        "closed form",
    ),
    "mean over positions": (
        start(nn.ReLU(), conv(stride=2), Function(lambda self, x: torch.relu(x).mean([2, 3])), nn.Linear(WIDTH, 200)),
        "closed form",
    ),
    "circular and reflect before a pool": (
        nn.Sequential(
            conv(3, padding_mode="circular"), nn.ReLU(), conv(padding_mode="reflect"), nn.ReLU(), nn.AvgPool2d(4)
        ),
        "closed form",
    ),
    "nearest upsampling, then pool": (
        start(nn.ReLU(), nn.Upsample(scale_factor=2), conv(size=1), nn.ReLU(), nn.AvgPool2d(3)),
        "closed form",
    ),
    "padding": (start(nn.ReLU(), nn.ZeroPad2d((1, 2, 0, 1)), nn.ReflectionPad2d(1), conv(), nn.ReLU()), "closed form"),
    "transposed": (start(nn.ReLU(), nn.ConvTranspose2d(WIDTH, WIDTH, 3, 2, 1, 1), nn.ReLU()), "closed form"),
    "grouped transposed": (start(nn.ReLU(), nn.ConvTranspose2d(WIDTH, WIDTH, 2, 2, groups=4), nn.ReLU()),
                           "closed form"),
    "layer norm of tokens": (
        nn.Sequential(tokens(), nn.ReLU(), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU()),
        "closed form",
    ),
    "layer norm of everything": (start(nn.ReLU(), nn.LayerNorm([WIDTH, 8, 8]), conv(), nn.ReLU()), "closed form"),
    "group norm": (start(nn.ReLU(), nn.GroupNorm(4, WIDTH), conv(), nn.GroupNorm(1, WIDTH), nn.ReLU()), "closed form"),
    "rms norm": (nn.Sequential(tokens(), nn.RMSNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.ReLU()), "closed form"),
    "activation after the norm of an activation": (start(nn.ReLU(), nn.GroupNorm(1, WIDTH), nn.ReLU()), "sampled"),
    "batch norm in evaluation": (start(nn.BatchNorm2d(WIDTH), nn.ReLU(), conv()).eval(), "closed form"),
    "instance norm": (start(nn.InstanceNorm2d(WIDTH), nn.ReLU(), conv()), "closed form after sampling"),
    "pre-activation residual": (start(skip(nn.Sequential(nn.ReLU(), conv()))), "closed form"),
    "post-activation residual": (start(nn.ReLU(), skip(conv()), nn.ReLU(), skip(conv()), nn.ReLU()), "sampled"),
    "skip of the same source": (start(skip(nn.ReLU()), conv()), "closed form"),
    "concatenation": (
        start(Function(lambda self, x: torch.cat([x, F.relu(x), self.inner(x)], 1), inner=conv(outputs=64)),
              nn.ReLU(), conv(2 * WIDTH + 64)),
        "closed form",
    ),
    "constants": (start(Function(lambda self, x: 0.5 * (x / 2 - 0.1).tanh() + 0.3), conv(), nn.ReLU()),
                  "quadrature"),
    "per-channel scale": (
        start(Function(lambda self, x: x * torch.linspace(0, 2, WIDTH)[:, None, None]), conv(), nn.ReLU()),
        "closed form",
    ),
    "slices and chunks": (
        start(Function(lambda self, x: torch.cat(x[:, :, 1:, ::2].chunk(2, dim=1)[::-1], dim=1)), conv(), nn.ReLU()),
        "closed form",
    ),
    "pixel shuffle": (start(nn.ReLU(), nn.PixelShuffle(2), conv(WIDTH // 4)), "closed form"),
    "pixel shuffle, then average pool": (start(nn.ReLU(), nn.PixelShuffle(2), nn.AvgPool2d(2)), "sampled"),
    "pixel shuffle, then max pool": (start(nn.PixelShuffle(2), nn.MaxPool2d(2)), "sampled"),
    "channels folded into rows, then pool": (
        start(Function(lambda self, x: x.reshape(len(x), WIDTH // 2, 16, 8)), nn.AvgPool2d((16, 1))), "sampled"
    ),
    "channel shuffle, then pool": (start(nn.ReLU(), nn.ChannelShuffle(4), nn.AvgPool2d(2)), "closed form"),
    "max pool": (start(nn.ReLU(), nn.MaxPool2d(2), conv(), nn.ReLU()), "closed form after sampling"),
    "depthwise, then pointwise": (start(nn.ReLU(), conv(groups=WIDTH), conv(size=1), nn.ReLU()), "closed form"),
    "depthwise, then activation": (start(conv(groups=WIDTH), nn.ReLU(), conv()), "closed form after sampling"),
    "gate": (
        start(Function(lambda self, x: x * torch.sigmoid(self.gate(x)), gate=conv()), conv(size=1)),
        "closed form after sampling",
    ),
    "standardised weights": (nn.Sequential(Standardised(3, WIDTH, 3), conv(size=1)), "closed form after sampling"),
    "doubled weights": (start(nn.ReLU(), Doubled(WIDTH, WIDTH, 1)), "sampled"),
    "subclass that computes the same": (start(nn.ReLU(), Renamed(WIDTH, WIDTH, 1), nn.ReLU()), "closed form"),
    "written through a view": (start(Function(half_quiet), conv(size=1)), "closed form after sampling"),
    "added in place": (start(Function(added_in_place, inner=conv(size=1))), "closed form"),
    "sum of tied layers": (start(nn.ReLU(), tied()), "sampled"),
    "shared layer": (
        start(Function(lambda self, x: self.c(F.relu(self.c(F.relu(x)))), c=conv()), nn.ReLU()), "closed form"
    ),
}  # fmt: skip


def images(seed=0):
    generator = torch.Generator().manual_seed(seed)
    x, noise = (torch.randn(3, 3, 8, 8, generator=generator) for _ in range(2))
    return x, 0.6 * x + 0.8 * noise


def deviations(model, law, predicted):
    """Rows of (prediction minus simulation, its standard error) of the mean cosine and of the log norm ratio."""
    x, y = images()
    runs = [initscope.measure(model, x, y, initializer=law, draws=1, seed=seed) for seed in range(DRAWS)]
    out = []
    for of in (lambda g: g.cosine.mean(axis=1), lambda g: np.log(g.norm_ratio).mean(axis=1)):
        samples = np.array([of(run) for run in runs])[:, 1:]
        out.append((samples.mean(axis=0) - of(predicted)[1:], samples.std(axis=0, ddof=1) / DRAWS**0.5))
    return out


@pytest.mark.parametrize("name", CASES)
def test_rule_agrees_with_simulations(name):
    """Mean cosine and norm of every row over 12 draws of width 256, 4 standard errors of both sides.

    Would catch an error of 0.05 in a cosine and of 15 % in a norm. Finite width is allowed 2/width a layer.
    """
    model, status = CASES[name]
    predicted = initscope.predict(model, *images(), He(), draws=DRAWS, seed=3)
    assert predicted.rows[-1].status == status
    sampled = 2**0.5 if "sampl" in status else 1.0
    for (gap, error), most in zip(deviations(model, He(), predicted), (0.01, 0.03)):
        assert np.nanmax(error) < most
        assert np.array_equal(np.isnan(gap), [row.status == "not covered" for row in predicted.rows[1:]])
        excess = np.abs(gap) - 4 * sampled * error - 2 * np.arange(1, len(gap) + 1) / WIDTH
        assert np.nanmax(excess) < 0, np.abs(gap) / error


def test_a_wrong_closure_would_be_seen():
    """The dual of summed covariances after an identity skip (what the particles replace) fails the same check."""
    model, _ = CASES["post-activation residual"]
    predicted = initscope.predict(model, *images(), He())
    assert "add" in predicted.rows[-2].kind
    # for relu the Gaussian closure keeps half of the second moment
    wrong = np.log(predicted.norm_ratio[-2] / 2**0.5).mean()
    gap, error = deviations(model, He(), predicted)[1]
    truth = np.log(predicted.norm_ratio[-1]).mean() + gap[-1]
    assert abs(wrong - truth) > 4 * error[-1] + 2 * len(gap) / WIDTH


@pytest.mark.parametrize(
    "law", [ZeroSum(), ZeroSum(strength=0.4), He(bias_variance=0.3)], ids=["zero-sum", "part", "bias"]
)
@pytest.mark.parametrize("name", ["two pools", "group norm", "pre-activation residual"])
def test_other_laws(name, law):
    model, _ = CASES[name]
    gap, error = deviations(model, law, initscope.predict(model, *images(), law))[0]
    assert np.all(np.abs(gap) < 4 * error + 3 * np.arange(1, len(gap) + 1) / WIDTH), np.abs(gap) / error


def test_delta_orthogonal_filters_read_their_center():
    """Strided, dilated and padded: 12 draws at every row; the box average would be off by 0.03."""
    model = nn.Sequential(
        conv(3), nn.ReLU(), conv(stride=2), nn.ReLU(), conv(dilation=2, padding=2, padding_mode="circular"), nn.ReLU(),
        nn.AvgPool2d(2),
    )  # fmt: skip
    law = DeltaOrthogonal(gain=2**0.5)
    predicted = initscope.predict(model, *images(), law)
    assert predicted.rows[-1].status == "closed form"
    for gap, error in deviations(model, law, predicted):
        assert np.all(np.abs(gap) < 4 * error + 2 * np.arange(1, len(gap) + 1) / WIDTH), np.abs(gap) / error
    boxes = initscope.predict(model, *images(), He())
    assert abs(boxes.cosine.mean(axis=1)[3:] - predicted.cosine.mean(axis=1)[3:]).max() > 0.03


def unit_filter_outputs(module, image):
    """Output of the layer for every filter that is 1 at one tap: ``[taps, pairs, …]``."""
    probe = type(module)(
        module.in_channels, 1, module.kernel_size, stride=module.stride, padding=module.padding,
        dilation=module.dilation, padding_mode=module.padding_mode, bias=False,
    ).double()  # fmt: skip
    with torch.no_grad():
        outputs = []
        for tap in range(probe.weight.numel()):
            probe.weight.zero_().view(-1)[tap] = 1
            outputs.append(probe(image))
    return torch.stack(outputs)


@pytest.mark.parametrize("mode", ["zeros", "circular", "reflect", "replicate"])
@pytest.mark.parametrize(
    ("stride", "dilation", "kernel", "step"), [(1, 1, 2, 2), (2, 1, 3, 1), (1, 2, 3, 2), (1, 1, 5, 3)]
)
def test_pooled_linear_layers_are_exact(mode, stride, dilation, kernel, step):
    """A linear layer's pooled second moments are sums over its taps of pooled unit filters, to 1e-10."""
    module = nn.Conv2d(2, 5, 3, stride=stride, dilation=dilation, padding=2, padding_mode=mode, bias=False)
    x, y = torch.randn(2, 3, 2, 9, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    pools = [nn.AvgPool2d(kernel, step), nn.AvgPool2d(2, 1)]
    predicted = initscope.predict(nn.Sequential(module, *pools), x, y, Gaussian(variance=0.7))
    ux, uy = unit_filter_outputs(module, x), unit_filter_outputs(module, y)
    for row in (2, 3):
        pool = pools[row - 2]
        ux, uy = (pool(u.flatten(0, 1)).unflatten(0, (len(u), -1)) for u in (ux, uy))
        xx, yy, xy = ((a * b).sum(dim=(0, 2, 3, 4)) for a, b in ((ux, ux), (uy, uy), (ux, uy)))
        np.testing.assert_allclose(predicted.cosine[row], xy / (xx * yy).sqrt(), atol=1e-10)
        ratio = (5 * 0.7 * xx).sqrt() / x.flatten(1).norm(dim=1)
        np.testing.assert_allclose(predicted.norm_ratio[row], ratio, rtol=1e-10)


def test_post_activation_residuals_grow_by_particles():
    """h ← relu(h + W₂ relu(W₁ h)): E h² after 1 … 8 blocks against a million particles of our own.

    The first is 2 + 1/π exactly (polar coordinates: half of the units give 1/2, the others 3/2 + 1/π), the last
    1,049 (the density carried on a grid). Adding covariances and taking the dual would give 1.5 and 25.6.
    """
    block = Function(lambda self, x: F.relu(x + self.b(F.relu(self.a(x)))), a=nn.Linear(50, 50), b=nn.Linear(50, 50))
    blocks = [Function(block.function, a=nn.Linear(50, 50), b=nn.Linear(50, 50)) for _ in range(8)]
    model = nn.Sequential(nn.Linear(20, 50), nn.ReLU(), *blocks)
    x, y = torch.randn(2, 16, 20, generator=torch.Generator().manual_seed(0))
    predicted = initscope.predict(model, x, y, He())
    square = (predicted.norm_ratio**2).mean(axis=1)
    ends = [k for k, row in enumerate(predicted.rows) if row.status == "sampled" and row.kind == "relu"]
    assert len(ends) == 8
    rng = np.random.default_rng(0)
    particles = 2**0.5 * np.maximum(rng.standard_normal(1_000_000), 0)
    for end in ends:
        noise = np.sqrt(2 * np.mean(particles**2)) * rng.standard_normal(len(particles))
        particles = np.maximum(particles + noise, 0)
        # each side's error is fed into all later noise: a few times the first block's sd/mean/√count
        assert square[end] / square[2] == pytest.approx(np.mean(particles**2), rel=0.02)
    assert square[ends[0]] / square[2] == pytest.approx(2 + 1 / np.pi, rel=0.005)


@pytest.mark.parametrize("sigma", [identity, relu], ids=["identity", "relu"])
def test_batch_norm_integral_against_normalised_gaussians(sigma):
    """E σσᵀ of z/|z|·√n as z-scores of 200,000 samples; would catch 2 % of an entry. eps counts too."""
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(8, 3, generator=generator, dtype=torch.float64)
    centered = (root - root.mean(0)) @ (root - root.mean(0)).T
    for eps in (1e-5, 0.5):
        z = torch.randn(200_000, 3, generator=generator, dtype=torch.float64) @ (root - root.mean(0)).T
        z = sigma(z / (z.square().mean(dim=1, keepdim=True) + eps).sqrt())
        products = z[:, :, None] * z[:, None, :]
        error = products.std(dim=0) / len(z) ** 0.5
        gap = normalized_moments(centered, eps, sigma) - products.mean(dim=0)
        assert float((gap.abs() / error).max()) < 4.5
        assert float((error / products.mean(dim=0).diagonal().max()).max()) < 0.004


def test_dense_batch_norm_in_training_is_exact_and_not_its_large_rank_limit():
    """Two clusters of 32, five layers: simulation at width 2000, six times eight draws; would catch 0.02."""
    generator = torch.Generator().manual_seed(0)
    centers = torch.randn(2, 30, generator=generator)
    x, y = (centers.repeat_interleave(16, 0) + 0.3 * torch.randn(32, 30, generator=generator) for _ in "xy")
    layers = [nn.Linear(30, 2000, bias=False), nn.BatchNorm1d(2000), nn.ReLU()]
    for _ in range(3):
        layers += [nn.Linear(2000, 2000, bias=False), nn.BatchNorm1d(2000), nn.ReLU()]
    model = nn.Sequential(*layers).train()
    predicted = initscope.predict(model, x, y, He())
    assert {row.status for row in predicted.rows} == {"closed form"}
    runs = np.array([initscope.measure(model, x, y, initializer=He(), seed=s).cosine.mean(axis=1) for s in range(6)])
    error = runs.std(axis=0, ddof=1) / 6**0.5
    gap = np.abs(runs.mean(axis=0) - predicted.cosine.mean(axis=1))
    assert error.max() < 0.004
    assert np.all(gap[1:] < 4 * error[1:] + 0.002), gap / error


@pytest.mark.parametrize(
    "call",
    [
        F.relu, torch.relu, lambda x: x.relu(), lambda x: x.clone().relu_(), lambda x: F.relu(x, inplace=False),
        lambda x: F.leaky_relu(x, 0.0), lambda x: F.threshold(x, 0.0, 0.0),
    ],
)  # fmt: skip
def test_relu_in_every_spelling(call):
    x, y = torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    layer = nn.Linear(6, 30, dtype=torch.float64)
    expected = initscope.predict(nn.Sequential(layer, nn.ReLU()), x, y)
    got = initscope.predict(nn.Sequential(layer, Function(lambda self, x: call(x))), x, y)
    np.testing.assert_allclose(got.cosine[-1], expected.cosine[-1], rtol=1e-9)
    assert got.rows[-1].status in ("closed form", "quadrature")


def test_users_can_add_a_rule():
    class Halve(nn.Module):
        def forward(self, x):
            return x / 2

    model = nn.Sequential(nn.Linear(3, 40), Halve())
    x, y = torch.eye(3)[:1], torch.eye(3)[1:2]
    assert initscope.predict(model, x, y).rows[-1].kind == "truediv"  # looked into

    @initscope.rule(Halve)
    def halve(module, state, context):
        return state.run(module) if isinstance(state, InputValues) else state.scaled(0.5)

    predicted = initscope.predict(model, x, y)
    assert (predicted.rows[-1].kind, predicted.rows[-1].status) == ("Halve", "closed form")
    np.testing.assert_allclose(predicted.norm_ratio[-1], predicted.norm_ratio[-2] / 2)


def test_too_many_offsets_are_refused_and_sampled_instead(monkeypatch):
    monkeypatch.setattr("initscope.propagate.covariance_budget._FORMULAS", 1000)
    predicted = initscope.predict(start(nn.ReLU(), nn.AvgPool2d(2)), *images())
    assert predicted.rows[-1].status == "sampled"
    assert "map entries" in predicted.rows[-1].note


def test_layers_without_bias_have_none_whatever_the_law_says():
    """E‖Wx‖² = 2‖x‖²·outputs/inputs, without the bias that the law would draw for others."""
    model = nn.Sequential(nn.Linear(4, 8, bias=False), nn.ReLU(), nn.Linear(8, 8, bias=True))
    x, y = torch.eye(4)[:2], torch.eye(4)[2:]
    predicted = initscope.predict(model, x, y, He(bias_variance=0.5))
    assert np.allclose(predicted.norm_ratio[1] ** 2, 2 * 8 / 4)
    assert np.allclose(predicted.norm_ratio[3] ** 2, 2 * 8 / 4 + 0.5 * 8)
