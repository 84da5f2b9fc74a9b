"""Steps whose units are drawn: against wide networks, enumeration and known figures."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from torch import nn

import initscope
from initscope.initializers import Gaussian, He
from initscope.propagate import InputValues, MomentMaps
from initscope.propagate.bases import Draws
from initscope.propagate.covariance_budget import CovarianceBudget
from initscope.propagate.covariances import covariances
from initscope.propagate.draws import gaussian_draws
from initscope.propagate.windows import Sites


def images(count=3, size=8, seed=0):
    """Smooth random images, so that neighbouring positions are correlated."""
    generator = torch.Generator().manual_seed(seed)
    rough, other = torch.rand(2, count, 3, size + 2, size + 2, generator=generator)
    x, noise = (nn.functional.avg_pool2d(rough_one, 3, 1) for rough_one in (rough, other))
    return x, 0.5 * x + 0.5 * noise


def simulated_moments(model, x, y, *, draws, seed=0):
    """(E‖x‖², E‖y‖², E‖x-y‖²) of the output for each pair, mean and standard error over networks."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    with torch.no_grad():
        for _ in range(draws):
            He().fill_(model, generator=generator)
            a, b = model(torch.cat([x, y])).chunk(2)
            found.append(torch.stack([v.square().flatten(1).sum(1) for v in (a, b, a - b)]).double())
    found = torch.stack(found)
    return found.mean(0), found.std(0) / draws**0.5


def depthwise(*more):
    filters = nn.Conv2d(512, 512, 3, padding=1, groups=512)
    return nn.Sequential(nn.Conv2d(3, 512, 1), nn.ReLU(), filters, nn.ReLU(), *more)


def behind_relu(*more):
    return nn.Sequential(nn.Conv2d(3, 512, 3, padding=1), nn.ReLU(), *more)


MODELS = {
    "max pool": lambda: behind_relu(nn.MaxPool2d(3, 2, 1)),
    "max pool of sums": lambda: nn.Sequential(nn.Conv2d(3, 512, 3), nn.MaxPool2d(2)),
    "max pool, dilated": lambda: nn.Sequential(nn.Conv2d(3, 512, 3), nn.Sigmoid(), nn.MaxPool2d(2, 1, 1, dilation=2)),
    "two max pools": lambda: behind_relu(nn.MaxPool2d(2), nn.Tanh(), nn.MaxPool2d(2)),
    "max pool, then global mean": lambda: behind_relu(nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1)),
    "mean, then an activation": lambda: behind_relu(nn.AvgPool2d(2), nn.Tanh()),
    "depthwise": depthwise,
    "groups of 4": lambda: behind_relu(nn.Conv2d(512, 512, 3, 2, groups=128), nn.ReLU()),
}


@pytest.mark.parametrize("name", MODELS)
def test_one_layer_of_weights_agrees_with_simulation(name):
    """Behind one wide layer (or one and its depthwise filters) second moments are exact: z-scores of 9 numbers.

    40 networks of 512 channels and the predictions' own samples detect errors of a few percent; the Gaussian closure
    after depthwise filters, a maximum over independent positions or a forgotten offset are larger.
    """
    x, y = images(size=5)
    model = MODELS[name]()
    predicted = initscope.predict(model, x, y, He(), seed=1)
    again = initscope.predict(model, x, y, He(), seed=2)
    assert predicted.rows[-1].status == "sampled"
    assert "networks" not in predicted.rows[-1].note, predicted.rows[-1].note
    mean, error = simulated_moments(model, x, y, draws=40)
    start = torch.stack([x.square().flatten(1).sum(1), y.square().flatten(1).sum(1)]).double()
    xx = torch.from_numpy(predicted.norm_ratio[-1] ** 2) * start[0]
    own = torch.from_numpy(predicted.norm_ratio[-1] ** 2 - again.norm_ratio[-1] ** 2).abs() * start[0]
    assert ((xx - mean[0]) / (error[0].square() + own.square()).sqrt()).abs().max() < 4
    cosine = (mean[0] + mean[1] - mean[2]) / (2 * (mean[0] * mean[1]).sqrt())
    apart = predicted.cosine[-1] - again.cosine[-1]
    spread = error[2] / (2 * (mean[0] * mean[1]).sqrt())
    z = (predicted.cosine[-1] - cosine.numpy()) / np.hypot(spread.numpy(), apart)
    assert np.abs(z).max() < 4


def test_largest_of_two_independent_normals_is_known():
    """E max(g₁, g₂)² = 1: a 1×1 convolution of two pixels that excite different input channels, so that the two
    positions are independent standard normal; and E max = 1/√π enters through the mean of a later zero-sum layer.
    """
    x = torch.zeros(1, 2, 1, 2)
    x[0, 0, 0, 0] = x[0, 1, 0, 1] = 1.0
    model = nn.Sequential(nn.Conv2d(2, 64, 1, bias=False), nn.MaxPool2d((1, 2)))
    predicted = initscope.predict(model, x, 2 * x, Gaussian(variance=1.0))
    # ‖x‖² = 2, 64 channels of one position with second moment 1; 2x has the same direction
    samples = int(predicted.rows[-1].note.split()[0])
    assert predicted.norm_ratio[-1, 0] ** 2 == pytest.approx(32, abs=4 * 32 * 2**0.5 / samples**0.5)
    assert predicted.cosine[-1, 0] == pytest.approx(1, abs=1e-6)


def test_the_printed_error_of_the_cosine_is_that_of_repeated_predictions():
    """Over 24 seeds the mean cosine strays as the notes say in the mean: within a factor of 1.6.

    A note rests on four replicates, and their mean square over 24 notes is known to 8 %; a standard deviation of 24 to
    15 %: an error that is wrong by 2 is seen. Cosines near 1 vary far less than norms: taking those for it gives much
    more.
    """
    generator = torch.Generator().manual_seed(0)
    x, other = torch.rand(2, 2, 3, 4, 4, generator=generator) - 0.3
    y = 0.5 * x + 0.5 * other
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2))
    found = [initscope.predict(model, x, y, He(), seed=seed) for seed in range(24)]
    strays = np.std([prediction.cosine[-1].mean() for prediction in found], ddof=1)
    stated = [float(re.search(r"cosine ± ([\d.e-]+)", one.rows[-1].note)[1]) / 1.197 for one in found]
    assert 1 / 1.6 < np.sqrt(np.mean(np.square(stated))) / strays < 1.6


def test_joint_draws_have_the_covariance_they_should():
    """Four sites of two images: 8×8 sample covariance of 200,000 draws against the products of the filters' patches."""
    x, y = (side.double() for side in images(count=1, size=5))
    state = initscope.propagate.rules.weights.convolution(
        nn.Conv2d(3, 16, 3, bias=False), InputValues(x, y), initscope.propagate.Context(Gaussian(variance=1.0))
    )
    assert isinstance(state, MomentMaps)
    sites = Sites((2, 2), (1, 1), ((0, 0), (0, 1), (1, 0), (-1, 1)))
    lookup = covariances([(state, offset) for _, _, offset in sites.couples()], CovarianceBudget())
    count = 200_000
    a, b = gaussian_draws(state, sites, Draws(count, torch.Generator().manual_seed(0), lookup))
    drawn = torch.cat([a, b], dim=3)[:, 0, 0]  # count, 8, 2, 2
    patches = [nn.functional.unfold(side, 3).reshape(27, 3, 3) for side in (x, y)]
    for p in range(2):
        for q in range(2):
            places = [(p + i, q + j) for i, j in sites.shifts]
            rows = [
                patch[:, i, j] if 0 <= i < 3 and 0 <= j < 3 else torch.zeros(27, dtype=torch.float64)
                for patch in patches
                for i, j in places
            ]
            exact = torch.stack(rows) @ torch.stack(rows).T
            values = drawn[:, :, p, q]
            sample = values.T @ values / count
            # Var of a product of normals with covariance c: (v w + c²)/count
            error = ((exact.diag()[:, None] * exact.diag() + exact.square()) / count).sqrt() + 1e-9
            assert ((sample - exact) / error).abs().max() < 5
