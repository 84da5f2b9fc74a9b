"""Checks of how ops follow each other, each with what looks like the problem and is none."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn

import initscope


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).cumsum(dim=-1) / shape[-1] ** 0.5


LABELS = torch.arange(48) % 5


def faults(model, data=None, **options):
    torch.manual_seed(0)
    data = normal(48, 16) if data is None else data
    options = {"targets": LABELS, "trial": False} | options
    report = initscope.inspect(model, data, pairs=16, alternatives=False, prediction=False, **options)
    return {finding.name: finding for finding in (*report.errors, *report.warnings)}


def chain(*sizes, between=nn.ReLU):
    layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), between())]
    return nn.Sequential(*layers[:-1])


def test_one_missing_activation_and_none_at_all():
    model = chain(16, 32, 32, 32, 5)
    assert not {"no-activation", "adjacent-linear"} & set(faults(model))
    model[3] = nn.Identity()
    found = faults(model)["adjacent-linear"]
    assert found.layer == "4"
    assert "between layer 2 of 4 (Linear, module 2) and layer 3 of 4 (Linear, module 4)" in found.message
    assert faults(chain(16, 32, 32, 5, between=nn.Identity))["no-activation"].value == 3


def test_factors_of_low_rank_and_depthwise_layers_need_no_activation():
    low = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 6), nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 5))
    assert "adjacent-linear" not in faults(low)
    separable = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Conv2d(16, 16, 1),
        nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5),
    )  # fmt: skip
    assert "adjacent-linear" not in faults(separable, normal(48, 3, 8, 8))
    assert "adjacent-linear" not in faults(nn.Linear(16, 5))


def test_a_bottleneck_of_one_and_a_single_output():
    assert faults(chain(16, 32, 1, 32, 5))["bottleneck"].layer == "2"
    assert "bottleneck" not in faults(chain(16, 32, 1), targets=None)
    assert "bottleneck" not in faults(chain(16, 32, 2, 32, 5))


def test_batch_norm_twice():
    assert (
        faults(nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 5)))[
            "norm-twice"
        ].layer
        == "2"
    )
    assert "norm-twice" not in faults(nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 5)))


class Tokens(nn.Module):
    def __init__(self, turned):
        super().__init__()
        self.first, self.norms = nn.Linear(4, 8), nn.ModuleList(nn.LayerNorm(8) for _ in range(3))
        self.turned, self.head = nn.LayerNorm(6) if turned else None, nn.Linear(48, 5)

    def forward(self, x):
        x = self.first(x)
        for norm in self.norms:
            x = x + F.gelu(norm(x))
        x = x if self.turned is None else self.turned(x.transpose(1, 2)).transpose(1, 2)
        return self.head(x.flatten(1))


def test_a_norm_over_the_tokens():
    assert faults(Tokens(True), normal(48, 6, 4))["norm-axis"].layer == "turned"
    assert "norm-axis" not in faults(Tokens(False), normal(48, 6, 4))


def test_no_alternative_is_tried_where_none_is_needed():
    torch.manual_seed(0)
    model = chain(16, 32, 32, 32, 5)
    model[3] = nn.Identity()
    report = initscope.inspect(model, normal(48, 16), pairs=16, prediction=False)
    assert [finding.name for finding in report.warnings] == ["adjacent-linear"]
    assert report.what_if.untried == "no alternative was tried: other weights or sizes do not fix adjacent-linear"


def test_information_asks_for_nothing():
    torch.manual_seed(0)
    model = chain(16, 32, 32, 5)
    initscope.initializers.zero_sum_(model)
    report = initscope.inspect(model, normal(48, 16).abs() + 3, pairs=16, prediction=False)
    (known,) = (finding for finding in report.findings if finding.name == "expansion")
    assert (known.level, known.fix) == ("info", None)
    assert report.headline.startswith("No problems found")
    assert "<strong>Fix:" not in report.to_html()


def squared(output, targets):
    return (output - targets).square().mean()


def test_targets_far_beyond_the_outputs():
    values = normal(48, 1)
    assert faults(chain(16, 32, 1), targets=1e5 * values, loss=squared)["target-scale"].value > 1e3
    assert "target-scale" not in faults(chain(16, 32, 1), targets=50 * values, loss=squared)


class Places(nn.Module):
    def __init__(self, turned):
        super().__init__()
        self.first, self.norm, self.head = nn.Linear(4, 8), nn.BatchNorm1d(8 if turned else 6), nn.Linear(48, 5)
        self.turned = turned

    def forward(self, x):
        x = self.first(x)
        x = self.norm(x.transpose(1, 2)).transpose(1, 2) if self.turned else self.norm(x)
        return self.head(F.relu(x).flatten(1))


def test_a_batch_norm_of_positions_is_a_warning_and_one_of_units_is_not():
    for turned in (False, True):
        torch.manual_seed(0)
        options = {"targets": LABELS, "pairs": 16, "alternatives": False, "prediction": False, "trial": False}
        report = initscope.inspect(Places(turned), normal(48, 6, 4), **options)
        assert ("norm-axis" in {finding.name for finding in report.warnings}) is not turned
