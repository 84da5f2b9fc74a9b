"""Widths that are not offered because units are tied to others whose number is fixed."""

import pytest
import torch
from torch import nn

from initscope.errors import InputError
from initscope.models.sizes import scale_widths


class Loop(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.loop, self.last = nn.Linear(6, 8), nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, x):
        return self.last(self.loop(self.first(x))[0])


def encoder():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return nn.Sequential(nn.Linear(6, 8), nn.TransformerEncoder(layer, 2), nn.Linear(8, 3))


@pytest.mark.parametrize(("build", "named"), [(encoder, "TransformerEncoder"), (Loop, "LSTM")])
def test_modules_with_a_width_of_their_own_are_named(build, named):
    with pytest.raises(InputError, match=f"the units of nn.{named} are tied to others"):
        scale_widths(build(), 2.0, torch.zeros(2, 5, 6), torch.Generator().manual_seed(0))


def test_widths_behind_such_a_module_change():
    model = nn.Sequential(encoder()[1], nn.Linear(8, 10), nn.ReLU(), nn.Linear(10, 4))
    scale_widths(model, 2.0, torch.zeros(2, 5, 8), torch.Generator().manual_seed(0))
    assert model[1].in_features == 8
    assert model[1].out_features == model[3].in_features == 20
    assert model(torch.zeros(2, 5, 8)).shape == (2, 5, 4)
