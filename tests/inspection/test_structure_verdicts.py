"""Verdicts on how steps follow each other, each with what looks like the fault and is none."""

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
    options = {"targets": LABELS} | options
    report = initscope.inspect(model, data, pairs=16, alternatives=False, prediction=False, **options)
    return {verdict.name: verdict for verdict in report.verdicts if verdict.fault}


def chain(*sizes, between=nn.ReLU):
    layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), between())]
    return nn.Sequential(*layers[:-1])


def test_one_missing_activation_and_none_at_all():
    model = chain(16, 32, 32, 32, 5)
    assert "linear" not in faults(model)
    model[3] = nn.Identity()
    found = faults(model)["linear"]
    assert found.layer == "4"
    assert "between 2 and it" in found.words
    assert faults(chain(16, 32, 32, 5, between=nn.Identity))["linear"].value == 3


def test_factors_of_low_rank_and_depthwise_layers_need_no_activation():
    low = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 6), nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 5))
    assert "linear" not in faults(low)
    separable = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Conv2d(16, 16, 1),
        nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5),
    )  # fmt: skip
    assert "linear" not in faults(separable, normal(48, 3, 8, 8))
    assert "linear" not in faults(nn.Linear(16, 5))


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


def test_what_ends_a_classifier():
    body = chain(16, 32, 5)
    assert faults(nn.Sequential(body, nn.ReLU()))["clipped-output"].layer == "1"
    assert "clipped-output" not in faults(nn.Sequential(body, nn.ReLU()), targets=normal(48, 5))
    ended = nn.Sequential(body, nn.Softmax(dim=1))
    assert faults(ended, loss=F.cross_entropy)["double-softmax"].layer == "1"
    assert "double-softmax" not in faults(ended, loss=lambda p, labels: F.nll_loss(p.log(), labels))
    assert "double-softmax" not in faults(ended)
    assert "double-softmax" in faults(nn.Sequential(ended, nn.Softmax(dim=1)))


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


def test_no_other_start_is_tried_where_none_is_needed():
    torch.manual_seed(0)
    model = nn.Sequential(chain(16, 32, 5), nn.ReLU())
    report = initscope.inspect(model, normal(48, 16), pairs=16, targets=LABELS, prediction=False)
    assert [verdict.name for verdict in report.verdicts if verdict.fault] == ["clipped-output"]
    assert report.what_if.untried == "no other start was tried: clipped-output is mended without one"


def test_what_is_worth_knowing_asks_for_nothing():
    torch.manual_seed(0)
    model = chain(16, 32, 32, 5)
    initscope.initializers.zero_sum_(model)
    report = initscope.inspect(model, normal(48, 16).abs() + 3, pairs=16, targets=LABELS, prediction=False)
    known = [verdict for verdict in report.verdicts if verdict.name == "expansion"]
    assert len(known) == 1
    assert not known[0].fault
    assert known[0].advice == ""
    assert known[0].code is None
    assert str(known[0]) == known[0].finding
    assert report.conclusion == "healthy: nothing to change"
    assert "What to do" not in report.to_html()


def squared(output, targets):
    return (output - targets).square().mean()


def test_an_activation_that_does_not_reach_the_targets_is_named():
    values = 3 * normal(48, 3)
    bounded = nn.Sequential(chain(16, 32, 3), nn.Sigmoid())
    found = faults(bounded, targets=values, loss=squared)["clipped-output"]
    assert "of the targets lie outside of 0 to 1" in found.words
    assert "clipped-output" not in faults(bounded, targets=torch.sigmoid(values), loss=squared)
    assert "clipped-output" not in faults(
        nn.Sequential(chain(16, 32, 3), nn.ReLU()), targets=values.abs(), loss=squared
    )
    assert "clipped-output" not in faults(
        bounded, targets=values, loss=lambda output, rewards: (output * rewards).mean()
    )


def test_a_sigmoid_before_a_loss_of_logits():
    of_two, model = (normal(48, 1) > 0).float(), nn.Sequential(chain(16, 32, 1), nn.Sigmoid())
    assert faults(model, targets=of_two, loss=F.binary_cross_entropy_with_logits)["double-softmax"].layer == "1"
    assert "double-softmax" not in faults(model, targets=of_two, loss=F.binary_cross_entropy)
    assert "double-softmax" not in faults(model[0], targets=of_two, loss=F.binary_cross_entropy_with_logits)


def test_targets_of_another_shape_are_broadcast():
    flat = nn.Sequential(chain(16, 32, 1), nn.Flatten(0))
    values = normal(48, 1)
    assert "broadcast" in faults(flat, targets=values, loss=squared)
    assert "broadcast" not in faults(flat, targets=values[:, 0], loss=squared)
    by_hand = faults(chain(16, 32, 1), targets=values[:, 0], loss=lambda output, t: squared(output.squeeze(1), t))
    assert "broadcast" not in by_hand


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


def test_a_batch_norm_of_places_is_told_and_one_of_units_is_not():
    for turned in (False, True):
        torch.manual_seed(0)
        options = {"targets": LABELS, "pairs": 16, "alternatives": False, "prediction": False}
        report = initscope.inspect(Places(turned), normal(48, 6, 4), **options)
        assert {v.name: v.fault for v in report.verdicts}.get("norm-axis") == (None if turned else False)
