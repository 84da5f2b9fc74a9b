"""Runs that compute only some units of large layers: the steps and places they tell are those of whole runs."""

import torch
from torch import nn

from initscope.graph import trace
from initscope.graph.few_units import FewUnits


def test_units_are_repeated_and_shapes_kept():
    layer = nn.Linear(8, 100)
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    with FewUnits() as light:
        few = layer(x)
    whole = layer(x)
    assert few.shape == whole.shape
    assert torch.allclose(few[:, :16], whole[:, :16])
    assert torch.equal(few[:, 16:32], few[:, :16])
    assert not light.doubtful
    small = nn.Linear(8, 20)
    with FewUnits():
        assert torch.equal(small(x), small(x))


class Branches(nn.Module):
    """Looks at its values: which of two layers runs depends on the last units, which a light run repeats."""

    def __init__(self):
        super().__init__()
        self.wide, self.one, self.other = nn.Linear(4, 80, bias=False), nn.Linear(80, 3), nn.Linear(80, 5)
        with torch.no_grad():
            self.wide.weight.fill_(-1.0)[-1] = 50.0

    def forward(self, x):
        x = self.wide(x)
        return self.one(x) if bool(x[:, -1].sum() > 0) else self.other(x)


def test_a_model_that_looks_at_its_values_is_run_as_a_whole():
    traced = trace(Branches(), torch.ones(2, 4))
    assert traced.fallback
    assert [step.name for step in traced.nodes][-1] == "one"
