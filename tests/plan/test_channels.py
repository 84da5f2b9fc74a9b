"""`plan.channels`: widths of networks, the promise by simulation, refusals."""

import numpy as np
import pytest
import torch
from torch import nn

from initscope import plan
from initscope.errors import InputError
from initscope.initializers import He
from initscope.plan.channel_counts import _factor


def pairs():
    x, z = torch.randn(2, 4, 20, generator=torch.Generator().manual_seed(0))
    return x, 0.7 * x + 0.7 * z


def network():
    return nn.Sequential(nn.Linear(20, 40), nn.Tanh(), nn.Linear(40, 60), nn.Tanh(), nn.Linear(60, 3))


def test_planned_widths_fail_as_often_as_promised():
    """150 draws know a rate of .1 to ± .05: spreads a third too small would fail with rate .26, too large with .03."""
    x, y = pairs()
    found = plan.channels(network(), x, y, eps=0.1, delta=0.1, initializer=He())
    assert found.widths[0] * 60 == found.widths[1] * 40
    assert found.sharp == found.widths[0]
    checked = plan.check(found, trials=150, images=(x, y))
    assert 0.04 < checked.observed < 0.18


def test_one_deviation_by_hand():
    """One Gaussian deviation of sd s and no shift: f = (1.96 s/eps)²; with a shift alone f = |b|/eps."""
    from initscope.plan.channel_counts import _factor

    sd = np.random.default_rng(0).standard_normal((20_000, 1)) * 0.05
    assert _factor(sd, np.zeros(1), 0.1, 0.05, 0) == pytest.approx((1.96 * 0.05 / 0.1) ** 2, rel=0.05)
    for shift in (0.3, -0.3):
        assert _factor(1e-9 * sd, np.array([shift]), 0.1, 0.05, 0) == pytest.approx(3, rel=1e-3)


def test_deviations_of_both_signs_by_brute_force():
    """At the factor itself delta of the samples are off by more than eps, and at all larger ones fewer."""
    from initscope.plan.channel_counts import _factor

    rng = np.random.default_rng(1)
    directions, shift = rng.standard_normal((50, 3)) * 0.1, np.array([0.1, -0.15, 0.02])
    factor = _factor(directions, shift, 0.1, 0.05, 0)
    g = rng.standard_normal((200_000, 50)) @ directions / 50**0.5
    off = [(np.abs(shift / f + g / f**0.5) > 0.1).any(axis=1).mean() for f in (factor, 1.3 * factor)]
    assert off[0] == pytest.approx(0.05, abs=0.01)
    assert off[1] < off[0]


def test_every_layer_needs_more_than_the_last():
    x, y = pairs()
    last, every = (plan.channels(network(), x, y, eps=0.1, delta=0.1, event=e) for e in ("last-layer", "all-layers"))
    assert every.sharp >= last.sharp
    assert "all layers up to 3" in every.title


def test_refusals():
    x, y = pairs()
    with pytest.raises(InputError, match="no output layer"):
        plan.channels(nn.Sequential(nn.Linear(20, 40), nn.ReLU()), x, y, eps=0.1, delta=0.1)
    pooled = nn.Sequential(nn.Conv1d(1, 8, 3), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(72, 3))
    with pytest.raises(InputError, match="no spread is predicted after"):
        plan.channels(pooled, x[:, None], y[:, None], eps=0.1, delta=0.1)
    with pytest.raises(InputError, match="must be 'last-layer'"):
        plan.channels(network(), x, y, eps=0.1, delta=0.1, event="first")


def test_filters_of_a_network_are_its_channels():
    x, y = pairs()
    model = network()
    found, same = plan.filters(model, (x, y), eps=0.1, delta=0.1), plan.channels(model, x, y, eps=0.1, delta=0.1)
    assert found.to_dict() == same.to_dict()
    assert plan.filters(model, torch.cat([x, y]), eps=0.1, delta=0.1).pairs == 32
    with pytest.raises(InputError, match="only eps, delta and seed"):
        plan.filters(model, (x, y), eps=0.1, delta=0.1, kernel_size=5)


@pytest.mark.parametrize("shift", [0.3, -0.3])
def test_a_shift_without_deviations_falls_with_the_width(shift):
    """A shift b of the widths as given is b/f of f times these: it is eps at f = |b|/eps."""
    assert _factor(np.zeros((4, 1)), np.array([shift]), 0.1, 0.05, 0) == pytest.approx(3)
