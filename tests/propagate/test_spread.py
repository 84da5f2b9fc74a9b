"""The finite-width band of dense predictions against the spread of many draws."""

import numpy as np
import torch
from torch import nn

import initscope
from initscope.initializers import He, ZeroSum


def stack(width, depth, bias=False):
    layers, inputs = [], 20
    for _ in range(depth):
        layers += [nn.Linear(inputs, width, bias=bias), nn.ReLU()]
        inputs = width
    return nn.Sequential(*layers)


def test_band_is_the_spread_of_the_draws():
    """300 draws of three layers of width 300: a standard deviation has a relative error of 4 %, so 16 % off is seen."""
    generator = torch.Generator().manual_seed(0)
    x, z = torch.randn(2, 1, 20, generator=generator)
    y = 0.5 * x + z
    model = stack(300, 3)
    predicted = initscope.predict(model, x, y, He())
    runs = [initscope.measure(model, x, y, initializer=He(), draws=1, seed=seed).cosine[:, 0] for seed in range(300)]
    observed = np.std(runs, axis=0, ddof=1)
    ratio = observed[1:] / predicted.cosine_sd[1:, 0]
    assert np.abs(ratio - 1).max() < 0.16
    assert predicted.cosine_sd[0, 0] == 0
    # Without the part that passes on from the layers before, the last would be too small to agree.
    alone = initscope.theory.norms.relu_cosine_sd(predicted.cosine[4, 0], 300)
    assert observed[6] / alone > 1.16


def test_band_is_unknown_where_the_law_is_not_the_simple_one():
    x, y = torch.rand(2, 3, 20)
    assert np.isnan(initscope.predict(stack(50, 2), x, y, ZeroSum()).cosine_sd[1:]).all()
    assert np.isnan(initscope.predict(stack(50, 2, bias=True), x, y, He(bias_variance=0.1)).cosine_sd[1:]).all()
    without = (initscope.predict(stack(50, 2), x, y, He(bias_variance=v)).cosine_sd for v in (0.1, 0.0))
    np.testing.assert_array_equal(*without)  # a layer that has no bias gets none
    tanh = nn.Sequential(nn.Linear(20, 50, bias=False), nn.Tanh(), nn.Linear(50, 50, bias=False))
    assert np.isnan(initscope.predict(tanh, x, y, He()).cosine_sd[2:]).all()


def test_band_stands_in_table_and_picture():
    x, y = torch.rand(2, 4, 20)
    predicted = initscope.predict(stack(50, 2), x, y, He())
    assert predicted.table()[2]["cosine_sd_predicted"] > 0
    labels = [text.get_text() for text in predicted.plot().get_legend().get_texts()]
    assert "± 2 sd of one draw" in labels


def test_band_is_unknown_where_it_may_be_off_by_more_than_a_tenth():
    """Narrow layers, deep stacks, opposite inputs; `tests/theory/norms/test_fluctuation.py` simulates the rest."""
    x = torch.zeros(2, 20)
    x[:, 0] = 1
    y = torch.tensor([[0.999], [-0.9]]) * x
    y[:, 1] = (1 - y[:, 0] ** 2).sqrt()

    def known(width, depth):
        return np.isfinite(initscope.predict(stack(width, depth), x, y, He()).cosine_sd)

    assert not known(30, 1)[1:].any()
    assert known(50, 6)[:11, 0].all()
    assert not known(50, 6)[11:].any()
    assert [*known(50, 1)[:, 1]] == [True, True, False]
    assert known(100, 10).all()
