"""Signal checks on networks that fail in one way, and none on networks that people train every day."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import initscope
from initscope.inspection import judge
from initscope.inspection.layer_quantities import layer_quantities
from initscope.inspection.page import as_comparison
from initscope.measurement import observe


def stack(depth, *, inputs=32, width=64, outputs=10, activation=nn.ReLU, head=()):
    sizes = [inputs] + [width] * depth
    layers = [part for fan, size in pairwise(sizes) for part in (nn.Linear(fan, size), activation())]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], outputs), *head)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def findings(model, data, **options):
    found = judge(observe(model, data, pairs=min(32, len(data) // 2), **options))
    return {finding.name: finding for finding in found}


class Functional(nn.Module):
    """A first and a last Linear, and a function between them."""

    def __init__(self, between):
        super().__init__()
        self.first, self.between, self.last = nn.Linear(32, 64), between, nn.Linear(64, 10)

    def forward(self, x):
        return self.last(self.between(self.first(x)))


def test_nan_is_named_where_it_begins():
    report = initscope.inspect(Functional(torch.log), normal(64, 32), pairs=16, alternatives=False, prediction=False)
    assert {finding.name: finding.layer for finding in report.findings}["not-finite"] == "log"
    with pytest.raises(AssertionError, match=r"IS101 not-finite \(error\): Values become NaN or infinite at log"):
        report.assert_healthy()
    assert "not-finite" in report.to_html()
    # Infinities that a softmax takes back do no harm.
    masked = Functional(lambda h: F.softmax(h.masked_fill(h < 0, -math.inf), dim=-1))
    assert "not-finite" not in findings(masked, normal(64, 32))


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.one, self.two = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(2))

    def forward(self, x):
        return F.relu(x + self.norms[1](self.two(F.relu(self.norms[0](self.one(x))))))


def residual():
    pooled = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), Block(16), Block(16), *pooled).eval()


TRAINED_DAILY = {
    "one output": (lambda: stack(1, outputs=1), (32,)),
    "softmax": (lambda: stack(1, head=(nn.Softmax(dim=1),)), (32,)),
    "log-softmax": (lambda: stack(1, head=(nn.LogSoftmax(dim=1),)), (32,)),
    "sigmoid": (lambda: stack(1, head=(nn.Sigmoid(),)), (32,)),
    "three hidden layers": (lambda: stack(3), (32,)),
    "four hidden layers": (lambda: stack(4), (32,)),
    "one input": (lambda: stack(2, inputs=1, outputs=1), (1,)),
    "two inputs": (lambda: stack(2, inputs=2, outputs=2), (2,)),
    "bottleneck": (lambda: nn.Sequential(nn.Linear(32, 2), nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 32)), (32,)),
    "pooled residual": (residual, (3, 8, 8)),
}


@pytest.mark.parametrize("kind", TRAINED_DAILY)
def test_no_fault_is_found_in_torchs_own_start(kind):
    make, shape = TRAINED_DAILY[kind]
    for seed in range(6):
        torch.manual_seed(seed)
        found = findings(make(), normal(96, *shape, seed=seed), gradients=False)
        assert not [name for name, finding in found.items() if finding.level == "error"]


@pytest.mark.parametrize("law", ["he_", "glorot_"])
def test_a_hundred_layers_collapse_in_draw_after_draw(law):
    """Either the angles close, or what is left of them lies on a line."""
    for seed in range(2):
        data = normal(96, 32, seed=seed)
        model = getattr(initscope.initializers, law)(stack(100), generator=torch.Generator().manual_seed(seed))
        assert {"collapse", "rank-loss"} & findings(model, data, gradients=False).keys()
        assert {"collapse", "rank-loss"} & findings(model, data.abs(), gradients=False).keys()


def test_biases_collapse_angles_when_they_drown_the_differences():
    """Layers under torch's default, where differences keep their rank: eight are a warning, as Adam trains them and
    plain gradient descent does not; sixteen are an error."""
    for seed in range(4):
        torch.manual_seed(seed)
        assert findings(stack(8), normal(96, 32, seed=seed), gradients=False)["collapse"].level == "warning"
        assert findings(stack(16), normal(96, 32, seed=seed), gradients=False)["collapse"].level == "error"


def test_a_gate_that_closes_angles_in_a_branch_is_no_collapse():
    torch.manual_seed(0)
    gated = Functional(lambda h: h * torch.sigmoid(0.001 * h))
    seen = observe(gated, normal(96, 32), pairs=32)
    gate = [row.kind for row in seen.rows].index("sigmoid")
    assert np.median(seen.angle[gate]) < 0.05 * np.median(seen.angle[0])
    assert "collapse" not in {finding.name for finding in judge(seen)}


class Embedded(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.layers = nn.Embedding(50, 32), stack(30, activation=nn.Sigmoid)

    def forward(self, indices):
        return self.layers(self.table(indices).mean(dim=1))


def test_angles_count_from_the_first_values_that_indices_lead_to():
    torch.manual_seed(0)
    indices = torch.randint(0, 50, (64, 6), generator=torch.Generator().manual_seed(0))
    report = initscope.inspect(Embedded(), indices, pairs=16, alternatives=False, prediction=False)
    assert "collapse" in {finding.name for finding in report.findings}
    assert "shrink from" in report.to_html()
    panels = layer_quantities(report, as_comparison(report)).panels
    angles = next(panel.measured for panel in panels if panel.name == "angle")
    assert np.isnan(angles[0])
    assert np.isfinite(angles[1:]).all()


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh])
def test_data_that_does_not_vary_is_told_so_and_no_unit_is_blamed(activation):
    torch.manual_seed(0)
    assert [*findings(stack(3, activation=activation), torch.ones(64, 32))] == ["constant-data"]
    assert [*findings(stack(3, activation=activation), torch.zeros(64, 32))] == ["constant-data"]


@pytest.mark.parametrize("deviation", [3.0, 10.0])
def test_saturated_units_are_counted(deviation):
    """Against the share of |tanh| > 0.99 taken by hand."""
    model = stack(4, activation=nn.Tanh)
    for layer in model[::2]:
        nn.init.normal_(layer.weight, 0, deviation, generator=torch.Generator().manual_seed(0))
    data = normal(96, 32)
    seen = observe(model, data, pairs=32)
    by_hand = float((model[:2](data).abs() > 0.99).double().mean())
    assert seen.saturated_fraction[2] == pytest.approx(by_hand)
    assert np.isnan(seen.saturated_fraction[[0, 1, -1]]).all()
    assert {finding.name: finding.layer for finding in judge(seen)}["saturated"] == "1"
    assert "saturated" not in findings(stack(4, activation=nn.Tanh), data)


def test_ranges_of_bounded_activations():
    data = torch.tensor([[-5.0, 0.0, 2.0, 30.0]] * 2)
    bounded = (nn.Hardtanh(-3.0, 3.0), 0.5), (nn.Sigmoid(), 0.25), (nn.Hardsigmoid(), 0.5), (nn.Tanh(), 0.5)
    for activation, share in (*bounded, (nn.ReLU6(), None)):
        found = observe(activation, data, pairs=1, gradients=False).saturated_fraction[-1]
        assert np.isnan(found) if share is None else found == share


def test_zero_gradients_are_named_and_not_divided_by():
    torch.manual_seed(0)
    model = stack(2)
    nn.init.zeros_(model[-1].weight)
    found = findings(model, normal(64, 32))
    zero = found["zero-gradient"]
    assert (zero.value, zero.layer, zero.level) == (2, "0", "info")
    assert "gradient-imbalance" not in found
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    assert findings(model, normal(64, 32))["zero-gradient"].level == "error"
