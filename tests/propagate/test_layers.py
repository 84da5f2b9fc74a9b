"""Weights and activations: the first layer against patches cut out one by one, deep stacks against wide simulations."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from testing import z_score
from torch import nn

import initscope
from initscope.initializers import Gaussian, He, ZeroSum
from initscope.theory.activations import relu


def pairs(*shape, count=3, seed=0, correlation=0.6):
    generator = torch.Generator().manual_seed(seed)
    x, noise = (torch.randn(count, *shape, generator=generator, dtype=torch.float64) for _ in range(2))
    return x, correlation * x + (1 - correlation**2) ** 0.5 * noise


def patches(module, images):
    """What each filter sees, ``[groups, pairs, features, positions]``, from the layer itself run on unit filters."""
    probe = type(module)(
        module.in_channels, 1, module.kernel_size, stride=module.stride, padding=module.padding,
        dilation=module.dilation, padding_mode=module.padding_mode, bias=False,
    ).double()  # fmt: skip
    columns = []
    with torch.no_grad():
        for tap in range(probe.weight.numel()):
            probe.weight.zero_().view(-1)[tap] = 1
            columns.append(probe(images).flatten(1))
    stacked = torch.stack(columns, dim=1).unflatten(1, (module.groups, -1))
    return stacked.transpose(0, 1)


CONVOLUTIONS = [
    (kind, mode, stride, dilation, groups)
    for kind, mode, stride, dilation, groups in itertools.product(
        (nn.Conv1d, nn.Conv2d, nn.Conv3d), ("zeros", "circular", "reflect", "replicate"), (1, 2), (1, 2), (1, 2)
    )
    if not (kind is nn.Conv3d and (stride, dilation) == (2, 2))
]


@pytest.mark.parametrize(("kind", "mode", "stride", "dilation", "groups"), CONVOLUTIONS)
def test_first_layer_is_the_dual_of_every_patch(kind, mode, stride, dilation, groups):
    axes = {nn.Conv1d: 1, nn.Conv2d: 2, nn.Conv3d: 3}[kind]
    module = kind(4, 6, 3, stride=stride, dilation=dilation, groups=groups, padding=2, padding_mode=mode).double()
    x, y = pairs(4, *(7, 6, 5)[:axes])
    variance, bias = 0.3, 0.2
    predicted = initscope.predict(
        nn.Sequential(module, nn.ReLU()), x, y, Gaussian(variance=variance, bias_variance=bias)
    )
    px, py = patches(module, x), patches(module, y)
    kxx, kyy, kxy = (variance * (a * b).sum(dim=2) + bias for a, b in ((px, px), (py, py), (px, py)))
    for row, moments in ((1, (kxx, kyy, kxy)), (2, (kxx / 2, kyy / 2, relu.dual(kxx, kyy, kxy)))):
        xx, yy, xy = (m.sum(dim=(0, 2)) for m in moments)
        np.testing.assert_allclose(predicted.cosine[row], xy / (xx * yy).sqrt(), atol=1e-10)
        ratio = (xx * 6 / groups).sqrt() / x.flatten(1).norm(dim=1)
        np.testing.assert_allclose(predicted.norm_ratio[row], ratio, rtol=1e-10)


def test_compiled_loops_change_nothing(monkeypatch):
    """Large inputs go through numba: same numbers as array expressions, to rounding."""
    pytest.importorskip("numba")
    from initscope.theory import _fused

    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 5, stride=2), nn.ReLU())
    x, y = pairs(3, 20, 20)
    fast = initscope.predict(model, x, y)
    assert _fused.relu_step is not None
    for module in ("state",):
        monkeypatch.setattr(f"initscope.propagate.{module}.fused_loops", lambda *arrays, entries: None)
    slow = initscope.predict(model, x, y)
    np.testing.assert_allclose(fast.cosine, slow.cosine, atol=1e-13)
    np.testing.assert_allclose(fast.norm_ratio, slow.norm_ratio, rtol=1e-13)


@pytest.mark.parametrize("law", [He(), ZeroSum(), ZeroSum(strength=0.5), He(bias_variance=0.3)], ids=str)
def test_deep_stacks_agree_with_wide_simulations(law):
    """z-scores of the mean cosine at every layer over 12 draws of width 400; would catch an error of 0.025."""
    width = 400
    model = nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, stride=2, groups=4), nn.ReLU(),
        nn.Conv2d(width, width, 1), nn.Tanh(), nn.Flatten(), nn.Linear(width * 9, 2000), nn.ReLU(),
    )  # fmt: skip
    x, y = (side.float() for side in pairs(3, 8, 8, count=4))
    predicted = initscope.predict(model, x, y, law)
    runs = [
        initscope.measure(model, x, y, initializer=law, draws=1, seed=seed).cosine.mean(axis=1) for seed in range(12)
    ]
    z = z_score(np.array(runs)[:, 1:], predicted.cosine.mean(axis=1)[1:])
    spread = np.array(runs)[:, 1:].std(axis=0, ddof=1) / 12**0.5
    assert spread.max() < 0.004
    # finite width shifts a cosine by about depth/width: allow for it beside the standard error
    assert np.all(np.abs(z) * spread < 4 * spread + 3 / width)
    assert {row.status for row in predicted.rows} == {"closed form", "quadrature"}
