"""Norms whose squares do not fit into single or double precision, and networks that die or explode."""

import numpy as np
import pytest
import torch
from torch import nn

import initscope
from initscope.graph import as_slices, cosine_of, pair_norms
from initscope.initializers import He
from initscope.measurement import observe
from initscope.measurement.units import UnitSample, UnitSpread
from initscope.models import load_model


def halves(count):
    return torch.arange(count // 2), torch.arange(count // 2, count)


@pytest.mark.parametrize("width", [1, 5, 4096, 300_000])
def test_norms_are_right_to_the_stated_rounding(width):
    flat = torch.randn(6, width, generator=torch.Generator().manual_seed(0))
    x, y = flat.double()[:3], flat.double()[3:]
    exact = torch.stack([values.norm(dim=1) for values in (x, y, x - y)])
    for sides in (halves(6), as_slices(halves(6))):  # gathered, and read where they stand
        torch.testing.assert_close(pair_norms(flat, sides), exact, rtol=1e-6, atol=0)


def test_only_samples_that_stand_one_after_the_other_are_slices():
    x, y = torch.arange(2, 5), torch.arange(5)
    assert as_slices((x, y)) == (slice(2, 5), slice(0, 5))
    assert as_slices((x, y.flip(0)))[1].tolist() == [4, 3, 2, 1, 0]
    assert as_slices((torch.tensor([0, 2]), x[:2]))[0].tolist() == [0, 2]


def test_pairs_may_share_samples():
    flat = torch.randn(4, 50, generator=torch.Generator().manual_seed(0))
    x, y = torch.tensor([0, 0, 3]), torch.tensor([1, 2, 1])
    for values in (flat, flat.repeat(1, 4000)):  # several pairs at once, and one by one
        exact = torch.stack([v.double().norm(dim=1) for v in (values[x], values[y], values[x] - values[y])])
        torch.testing.assert_close(pair_norms(values, (x, y)), exact, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("scale", "dtype"),
    [
        (1e-38, torch.float32),
        (1e-20, torch.float32),
        (1e25, torch.float32),
        (1e-250, torch.float64),
        (1e250, torch.float64),
    ],
)
def test_dying_and_exploding_outputs_keep_their_angle_and_rank(scale, dtype):
    """Their squares do not fit; of 1e-38 many values are subnormal, with five digits left."""
    flat = torch.randn(40, 300, generator=torch.Generator().manual_seed(0)).to(dtype)
    for sides in (halves(40), as_slices(halves(40))):
        usual, extreme = pair_norms(flat, sides).numpy(), pair_norms(scale * flat, sides).numpy()
        np.testing.assert_allclose(cosine_of(extreme), cosine_of(usual), atol=1e-6)
        np.testing.assert_allclose(extreme / scale, usual, rtol=1e-6)
    ranks, widths = [], []
    for values in (flat, scale * flat):
        spread = UnitSpread(UnitSample(300, 0, flat.device))
        spread.add(values)
        ranks.append(spread.effective_rank())
        widths.append(np.array(spread.mean_width()))
    assert ranks[1] == pytest.approx(ranks[0], rel=1e-4)
    assert widths[1] / scale == pytest.approx(widths[0], rel=1e-4)


@pytest.mark.parametrize("factor", [40.0, 0.02])
def test_measure_and_observe_agree_on_networks_that_explode_and_die(factor):
    """Twenty layers, each of gain ``factor``: norms of 1e24 and more, and of 1e-34 and less, in single precision."""
    model = load_model("dense30-relu*16", input_shape=(10,))
    He().fill_(model, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for layer in model.modules():
            if isinstance(layer, nn.Linear):
                layer.weight.mul_(factor)
    x, y = torch.rand(2, 3, 10, generator=torch.Generator().manual_seed(1))
    seen = observe(model, torch.cat([x, y]), pairs=3, shuffle=False, gradients=False)
    measured = initscope.measure(model, x, y, draws=0)
    with torch.no_grad():
        exact = model.double()(x.double()).norm(dim=1) / x.double().norm(dim=1)
    for found in (seen, measured):
        np.testing.assert_allclose(found.norm_ratio[-1], exact.numpy(), rtol=1e-4)
        assert np.isfinite(found.cosine).all()
    drawn = initscope.measure(model.float(), x, y, draws=3)
    assert np.isfinite(drawn.cosine).all()
    assert (drawn.norm_ratio[-1] > 0).all()
    assert np.isfinite(drawn.norm_ratio_se[-1]).all()


def test_cosine_of_zero_is_not_a_number():
    assert np.isnan(cosine_of(np.array([[0.0], [1.0], [1.0]]))).all()
    assert cosine_of(np.array([[1.0], [1.0], [2**0.5]])) == pytest.approx(0)
