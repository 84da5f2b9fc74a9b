"""The audit names the law that weights were drawn from, and says so when there is none."""

import math

import pytest
import torch
from torch import nn

from initscope.inspection.parameter_audit import DEFAULT, OTHER, audit

LAWS = {
    "torch": (lambda w: None, "uniform", "torch's default (He, slope √5)", DEFAULT),
    "He": (lambda w: nn.init.kaiming_normal_(w), "Gaussian", "He", OTHER),
    "He, uniform": (lambda w: nn.init.kaiming_uniform_(w, nonlinearity="relu"), "uniform", "He", OTHER),
    "He, fan-out": (lambda w: nn.init.kaiming_normal_(w, mode="fan_out"), "Gaussian", "He, fan-out", OTHER),
    "Glorot": (lambda w: nn.init.xavier_uniform_(w), "uniform", "Glorot", OTHER),
    "BERT": (lambda w: nn.init.normal_(w, std=0.02), "Gaussian", "deviation 0.02", OTHER),
    "cut": (
        lambda w: nn.init.trunc_normal_(w, std=0.02, a=-0.04, b=0.04), "Gaussian cut at 2", "deviation 0.02, cut", OTHER
    ),
    "orthogonal": (lambda w: nn.init.orthogonal_(w), "orthogonal", "", OTHER),
    "zeros": (lambda w: nn.init.zeros_(w), "zeros", "", OTHER),
    "constant": (lambda w: nn.init.constant_(w, 0.3), "constant", "", OTHER),
    "skewed": (lambda w: w.exponential_(), "other", "", OTHER),
    "odd scale": (lambda w: nn.init.normal_(w, std=0.37), "Gaussian", "", OTHER),
}  # fmt: skip


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("layer", [lambda: nn.Linear(300, 170), lambda: nn.Conv2d(24, 40, 3)])
def test_laws_are_named(name, layer):
    fill, distribution, law, set_by = LAWS[name]
    torch.manual_seed(0)
    module = layer()
    with torch.no_grad():
        fill(module.weight)
    row = audit(module).parameters[0]
    assert (row.distribution, row.law, row.set_by) == (distribution, law, set_by)
    assert row.fan_in == module.weight[0].numel()
    assert row.gain == pytest.approx(float(module.weight.detach().std(correction=0)) * math.sqrt(row.fan_in), rel=1e-5)


def test_defaults_left_untouched_are_listed():
    torch.manual_seed(0)
    model = nn.ModuleDict({
        "words": nn.Embedding(100, 32),
        "attention": nn.MultiheadAttention(32, 4),
        "lstm": nn.LSTM(32, 32),
        "norm": nn.LayerNorm(32),
        "convolution": nn.ConvTranspose2d(8, 16, 3),
        "head": nn.Linear(32, 10),
    })  # fmt: skip
    found = audit(model)
    assert {row.parameter for row in found.parameters} == {name for name, _ in model.named_parameters()}
    matrices = {name for name, value in model.named_parameters() if value.dim() > 1}
    assert set(found.untouched) == matrices
    nn.init.xavier_normal_(model["head"].weight)
    model["head"].requires_grad_(False)
    assert set(audit(model).untouched) == matrices - {"head.weight"}
    assert [row.frozen for row in audit(model).parameters][-1]
    assert sum(row["count"] for row in found.summary()) == len(found.parameters)


def test_draws_are_rarely_taken_for_another_law():
    """200 draws of each law: one in a thousand strays by the test's level, so that 3 of 200 would be unlikely."""
    for fill, name in ((nn.init.xavier_normal_, "Gaussian"), (nn.init.xavier_uniform_, "uniform")):
        wrong = 0
        for seed in range(200):
            torch.manual_seed(seed)
            layer = nn.Linear(60, 50)
            fill(layer.weight)
            wrong += audit(layer).parameters[0].distribution != name
        assert wrong <= 2
