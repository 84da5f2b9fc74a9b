"""What rules declare, and what becomes of rules that fail."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import initscope
from initscope.errors import InputError
from initscope.graph import ActivationRow, activations, ops
from initscope.propagate import InputValues, NotCovered, covariances, registry
from initscope.propagate.rules.pooling import average


class Blur(nn.AvgPool2d):
    def forward(self, x):
        return nn.functional.avg_pool2d(x, self.kernel_size, self.stride, self.padding)


@pytest.fixture
def own_rules(monkeypatch):
    """Rules and roles that a test registers are gone after it."""
    monkeypatch.setattr(registry, "_RULES", dict(registry._RULES))
    monkeypatch.setattr(ops, "_DECLARED", dict(ops._DECLARED))
    monkeypatch.setattr(ops, "_BY_CLASS", {})


def pairs(*shape, seed=0):
    return torch.randn(2, 2, *shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("reads", [("positions",), ("distribution", "positions"), None])
def test_a_users_rule_that_averages_positions_has_their_covariances(own_rules, reads):
    """The rule of AvgPool2d on a class of another name: the same numbers, and the same status."""
    initscope.rule(Blur, role="pooling", **({} if reads is None else {"reads": reads}))(average)
    x, y = pairs(3, 8, 8)

    def through(pool):
        return initscope.predict(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), pool, nn.ReLU()), x, y, He())

    He = initscope.initializers.He
    blurred, pooled = through(Blur(2)), through(nn.AvgPool2d(2))
    assert [row.status for row in blurred.rows[:4]] == ["closed form"] * 4
    assert blurred.rows[3].role == "pooling"
    np.testing.assert_array_equal(blurred.cosine, pooled.cosine)


def test_a_rule_that_does_not_declare_what_it_reads_is_left_to_sampling(own_rules):
    initscope.rule(Blur, reads=())(average)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), Blur(2))
    row = initscope.predict(model, *pairs(3, 8, 8)).rows[-1]
    assert (row.status, "covariances are not known" in row.note) == ("sampled", True)


def test_what_may_be_read_is_a_short_list():
    with pytest.raises(InputError, match="must be chosen from means, positions, distribution"):
        initscope.rule(Blur, reads=("everything",))


@pytest.fixture
def failing(own_rules):
    @initscope.rule(Blur)
    def broken(module, state, context):
        return state if isinstance(state, InputValues) else {}["nothing"]

    return nn.Sequential(nn.Conv2d(3, 8, 3), Blur(2))


def test_a_rule_with_a_bug_is_an_error_in_development(failing):
    with pytest.raises(KeyError, match="nothing"):
        initscope.predict(failing, *pairs(3, 8, 8))


def test_a_rule_with_a_bug_is_a_row_for_users_that_names_it(failing, monkeypatch):
    monkeypatch.delenv("INITSCOPE_STRICT_RULES")
    row = initscope.predict(failing, *pairs(3, 8, 8)).rows[-1]
    assert row.status == "sampled"
    assert "test_registry.failing.<locals>.broken failed (KeyError: 'nothing')" in row.note


class Bent(nn.Module):
    """An activation that torch does not have."""

    def forward(self, x):
        return torch.where(x > 0, x, 0.25 * x)


def test_an_activation_is_one_row(monkeypatch):
    """Added to the table of layers and nowhere else; the dual of leaky ReLU is known independently."""
    row = ActivationRow("bent", Bent, lambda module: initscope.theory.activations.leaky_relu(0.25))
    monkeypatch.setattr(activations, "ACTIVATIONS", (*activations.ACTIVATIONS, row))
    x, y = pairs(6)
    mine, torchs = (
        initscope.predict(nn.Sequential(nn.Linear(6, 9), sigma), x, y, initscope.initializers.He())
        for sigma in (Bent(), nn.LeakyReLU(0.25))
    )
    assert (mine.rows[-1].status, mine.rows[-1].role) == ("closed form", "activation")
    np.testing.assert_array_equal(mine.cosine, torchs.cosine)


MODELS = {
    "dense": lambda: nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8), nn.LayerNorm(8)),
    "pooled": lambda: nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 2, groups=8), nn.GELU(), nn.AdaptiveAvgPool2d(1)
    ),
    "normed": lambda: nn.Sequential(nn.Conv2d(3, 16, 3), nn.GroupNorm(1, 16), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten()),
}


@pytest.mark.parametrize("name", MODELS)
def test_rules_read_positions_only_if_they_declare_it(name, monkeypatch):
    """Every rule that runs `covariances` or `crosses` says so."""
    running, undeclared = [], []
    call = registry.Rule.__call__

    def watched(self, *args, **kwargs):
        running.append((self, args[0] if isinstance(args[0], nn.Module) else None))
        try:
            return call(self, *args, **kwargs)
        finally:
            running.pop()

    affordable = covariances._affordable

    def reading(wanted, budget):
        rule, module = running[-1]
        if "positions" not in rule.reads(module):
            undeclared.append(rule.function.__qualname__)
        return affordable(wanted, budget)

    monkeypatch.setattr(registry.Rule, "__call__", watched)
    monkeypatch.setattr(covariances, "_affordable", reading)
    shape = (8,) if name == "dense" else (3, 12, 12)
    initscope.predict(MODELS[name](), *pairs(*shape), initscope.initializers.ZeroSum())
    # The activation behind grouped filters draws their windows: the filters declared it, and kept what it needs.
    assert set(undeclared) <= {"elementwise"}


def test_not_covered_is_what_a_rule_says_about_itself(own_rules):
    @initscope.rule(Blur, reads=())
    def no_formula(module, state, context):
        raise NotCovered("blurs have no formula")

    row = initscope.predict(nn.Sequential(nn.Conv2d(3, 8, 3), Blur(2)), *pairs(3, 8, 8)).rows[-1]
    assert row.note.startswith("blurs have no formula: 4 networks sampled")
