"""Bad input is refused with what is wrong; hard input gets an honest partial result."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from initscope.errors import InputError
from initscope.invert import discriminate, invert_layers, linear_estimate, recover, sparse_transition
from initscope.invert.priors import SubspacePrior

torch.manual_seed(0)
LAYER = nn.Sequential(nn.Linear(4, 12), nn.ReLU()).double()
CONV = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU()).double()


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: recover(LAYER, np.zeros((0, 12))), "are empty"),
        (lambda: recover(LAYER, np.full((1, 12), np.nan)), "12 NaN or infinite entries of 12"),
        (lambda: recover(LAYER, np.full((1, 12), np.inf)), "NaN or infinite"),
        (lambda: recover(LAYER, np.ones((1, 11))), "but the model makes"),
        (lambda: recover(CONV, np.ones((1, 4, 6, 6)), input_shape=(1, 9, 9)), "another input_shape"),
        (lambda: recover(LAYER, np.ones((1, 12)), layer="2"), "the model has no layer"),
        (lambda: recover(LAYER, np.ones((1, 12)), method="magic"), "must be one of auto"),
        (lambda: recover(np.ones((3, 2)), np.ones(3)), "give a torch.nn.Module"),
        (lambda: recover(LAYER, np.ones((1, 12)), noise=-1.0), "noise"),
        (lambda: recover(LAYER, np.ones((1, 12)), prior="smooth"), "has no method project"),
        (lambda: recover(nn.Conv2d(1, 4, 3, stride=2), np.ones((1, 4, 5, 5))), "inputs of sides 11 to 12"),
        (lambda: recover(nn.Sequential(nn.MaxPool2d(2)), np.ones((1, 1, 5, 5))), "give input_shape"),
        (lambda: recover(nn.Linear(4, 12), np.maximum(np.arange(-5, 7.0), 0)[None]), "as after a ReLU"),
        (lambda: recover(nn.Sequential(nn.MaxPool2d(2)), np.ones((1, 1, 5, 5)), method="lsmr"), "layer by layer"),
        (lambda: recover(LAYER, np.ones((1, 12)) * 1j), "complex"),
        (lambda: recover(CONV, np.ones((1, 4, 6, 6)), input_shape=(2, 8, 8)), "does not take inputs of shape"),
        (lambda: linear_estimate(np.ones((3, 2)), np.full(3, np.nan)), "NaN"),
        (lambda: recover(LAYER, np.zeros((1, 12)), prior=SubspacePrior(np.ones((2, 5)))), "4 entries per row"),
        (lambda: invert_layers(CONV, np.ones((1, 8, 8)), ["0"]), r"must be \[N, C, H, W\]"),
        (lambda: invert_layers(CONV, 2 * np.ones((1, 1, 8, 8)), ["0"]), r"give values in \[0, 1\]"),
        (lambda: invert_layers(CONV, np.ones((1, 1, 8, 8)), []), "no layers"),
        (lambda: discriminate(np.ones((30, 8, 9)), np.zeros(30, int)), "square"),
        (lambda: discriminate(np.ones((30, 8, 8)), np.zeros(30, int)), "two classes"),
        (lambda: discriminate(np.ones((30, 8, 8)), np.zeros(29, int)), "one whole number for each of 30"),
        (lambda: sparse_transition(method="guessing"), "lasso path"),
    ],
)
def test_refused(call, match):
    with pytest.raises(InputError, match=match):
        call()


def test_wrong_name_suggests_the_right_one():
    model = nn.Sequential()
    model.add_module("conv1", nn.Conv2d(1, 2, 3))
    model.add_module("relu1", nn.ReLU())
    with pytest.raises(InputError, match="did you mean conv1"):
        recover(model, np.ones((1, 2, 4, 4)), layer="cnov1")


def test_nothing_active():
    """A layer whose outputs are all 0 tells bounds only: the input of least norm within them, and it says so."""
    layer = nn.Sequential(nn.Linear(3, 20), nn.ReLU()).double()
    with torch.no_grad():
        layer[0].bias.fill_(-50.0)
    found = recover(layer, np.zeros(20))
    assert not found.exact
    assert math.isinf(found.condition)
    assert "no output is active" in found.message
    assert found.inputs.shape == (3,)
    assert found.relative_residual == 0


def test_singular_layer():
    """Twelve copies of two rows cannot determine four inputs, however many are active."""
    layer = nn.Linear(4, 12, bias=False).double()
    with torch.no_grad():
        layer.weight.copy_(layer.weight[:2].repeat(6, 1))
    x = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    found = recover(layer, layer(x).detach())
    assert not found.exact
    assert math.isinf(found.condition)
    assert found.relative_residual < 1e-9


def test_stride_larger_than_the_kernel():
    """Pixels between the windows reach no output: their number is said, the others come back."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(1, 16, 2, stride=3, bias=False), nn.ReLU()).double()
    x = torch.randn(1, 8, 8, dtype=torch.float64)
    with torch.no_grad():
        outputs = model(x[None])[0]
    found = recover(model, outputs, input_shape=(1, 8, 8))
    assert not found.exact
    assert found.layers[0].unseen == 64 - 36
    assert "28 inputs reach no known output" in found.message
    seen = torch.zeros(8, dtype=torch.bool)
    seen[[0, 1, 3, 4, 6, 7]] = True
    window = seen[:, None] & seen[None]
    torch.testing.assert_close(found.inputs[0][window], x[0][window], rtol=1e-5, atol=1e-5)
    assert float(found.inputs[0][~window].abs().max()) == 0.0
