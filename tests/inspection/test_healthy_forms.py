"""Forms of healthy networks that had a false error once, each next to the problem that it looks like."""

import pytest
import torch
from called import Called
from torch import nn
from torch.nn import functional as F

import initscope
from initscope.errors import InputError


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def faults(model, data, **options):
    options = {"pairs": 16, "alternatives": False, "prediction": False, "trial": False} | options
    report = initscope.inspect(model, data, **options)
    return {finding.name for finding in (*report.errors, *report.warnings)}


def test_an_input_of_one_direction_is_no_loss_of_rank_and_layers_behind_it_may_lose_theirs():
    torch.manual_seed(0)
    one, line = normal(32, 24), normal(32, 1, seed=1) @ normal(1, 8, seed=2) + 1e-3 * normal(32, 8, seed=3)

    def both(model, a, b):
        return model.head(torch.relu(torch.cat([model.a(a), model.b(b)], 1)))

    model = Called(both, a=nn.Linear(24, 16), b=nn.Linear(8, 16), head=nn.Linear(32, 4))
    given = {"targets": normal(32, 4, seed=5), "loss": F.mse_loss}
    assert not faults(model, (one, line), **given)
    narrowed = nn.Linear(8, 16)
    narrowed.weight.data = normal(16, 1, seed=6) @ normal(1, 8, seed=7)
    model = Called(both, a=nn.Linear(24, 16), b=narrowed, head=nn.Linear(32, 4))
    assert "rank-loss" in faults(model, (one, normal(32, 8, seed=4)), **given)


def test_equal_units_learn_apart_where_they_make_the_outputs():
    head = nn.Linear(16, 4)
    nn.init.constant_(head.weight, 1 / 16)
    loss = {"targets": normal(32, 4, seed=1), "loss": F.mse_loss}
    assert "equal-units" not in faults(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), head), normal(32, 8), **loss)
    hidden = nn.Linear(8, 16)
    nn.init.constant_(hidden.weight, 1 / 8)
    assert "equal-units" in faults(nn.Sequential(hidden, nn.ReLU(), nn.Linear(16, 4)), normal(32, 8), **loss)


@pytest.mark.parametrize("always", [False, True])
def test_what_is_detached_where_nothing_is_trained(always):
    torch.manual_seed(0)

    def cached(model, x):
        h = model.key(x)
        return model.head(torch.relu(h if model.training and not always else h.detach()))

    model = Called(cached, key=nn.Linear(8, 16), head=nn.Linear(16, 4)).eval()
    found = faults(model, normal(32, 8), targets=normal(32, 4, seed=1), loss=F.mse_loss)
    assert ("detached" in found) is always
    assert not model.training


def test_a_prompt_alone_may_learn():
    torch.manual_seed(0)

    def prompted(model, x):
        return model.body(x + model.prompt)

    body = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).requires_grad_(False)
    given = {"targets": normal(32, 4, seed=1), "loss": F.mse_loss}
    model = Called(prompted, body=body, prompt=nn.Parameter(torch.zeros(8)))
    assert faults(model, normal(32, 8), **given) <= {"frozen-layers"}
    assert "all-frozen" in faults(model.requires_grad_(False), normal(32, 8), **given)


class Graph(nn.Module):
    """Attention of nodes to their neighbours, ``[nodes, neighbours, heads]``, with a softmax over ``axis``."""

    def __init__(self, axis):
        super().__init__()
        self.axis, self.left, self.right, self.out = axis, nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(8, 1)

    def forward(self, x, links):
        left, right = (layer(x).view(*x.shape[:2], 2, 4) for layer in (self.left, self.right))
        scores = (left[:, None] * right[:, :, None]).sum(-1).masked_fill(links[..., None] == 0, -torch.inf)
        mixed = torch.einsum("bijh,bjhd->bihd", scores.softmax(self.axis), left)
        return self.out(F.elu(mixed.flatten(2))).mean(1)


def test_an_einsum_says_which_axis_the_keys_are_on():
    torch.manual_seed(0)
    links = ((normal(32, 7, 7, seed=1) > 0) | torch.eye(7, dtype=torch.bool)).float()
    assert not faults(Graph(2), (normal(32, 7, 6), links))
    assert "softmax-axis" in faults(Graph(1), (normal(32, 7, 6), links))


class Biased(nn.Module):
    """Attention with a bias of scores that starts at zero, and values from a factor that does so too if asked."""

    def __init__(self, zero_factor):
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v, self.out = nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(8, 2)
        self.bias, self.factor = nn.Parameter(torch.zeros(9, 9)), nn.Parameter(torch.zeros(8, 8))
        if not zero_factor:
            nn.init.eye_(self.factor)

    def forward(self, x):
        tokens = x.shape[1]
        scores = self.q(x) @ self.k(x).mT / 8**0.5 + self.bias[:tokens, :tokens] * self.factor.sum()
        return self.out(torch.relu(scores.softmax(-1) @ self.v(x))).mean(1)


class OwnLoss(nn.Module):
    """A model that computes its loss if it is given targets."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, x, targets=None):
        scores = self.body(x)
        return scores, None if targets is None else F.cross_entropy(scores, targets)


def test_a_bias_of_scores_of_one_key_is_not_stuck_and_two_factors_of_zero_are():
    given = {"targets": normal(32, 2, seed=1), "loss": F.mse_loss}
    assert "stuck-zeros" not in faults(Biased(zero_factor=False), normal(32, 1, 6), **given)
    assert "stuck-zeros" in faults(Biased(zero_factor=True), normal(32, 5, 6), **given)


def test_targets_are_an_input_too_where_the_call_takes_them():
    torch.manual_seed(0)
    labels = torch.arange(32) % 4
    data = {"x": normal(32, 8), "targets": labels}
    assert not faults(OwnLoss(), data, targets=labels, loss=lambda output, _: output[1])
    assert "step-fails" in faults(OwnLoss(), {"x": normal(32, 8)}, targets=labels, loss=lambda output, _: output[1])


def test_weights_that_are_computed_and_not_finite_are_named():
    torch.manual_seed(0)
    zero = nn.Linear(8, 8)
    nn.init.zeros_(zero.weight)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.utils.parametrizations.weight_norm(zero), nn.ReLU())
    report = initscope.inspect(model, normal(32, 8), pairs=16, alternatives=False)
    assert [finding.layer for finding in report.errors if finding.name == "not-finite"] == ["2"]


def test_steps_inside_of_vmap_are_refused_in_one_line():
    layer = nn.Linear(8, 4)
    model = Called(lambda model, x: torch.vmap(model.layer)(x).relu(), layer=layer)
    with pytest.raises(InputError, match=r"calls torch\.vmap"):
        faults(model, normal(32, 8))
