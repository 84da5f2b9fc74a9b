"""Slips of one argument, axis or target that leave a network running: each is named, and what was meant is not."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import initscope

LABELS = torch.arange(48) % 4


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def findings(model, data, targets=LABELS, loss=F.cross_entropy, **options):
    options = {"pairs": 16, "alternatives": False, "prediction": False, "trial": False} | options
    options |= {"targets": targets, "loss": loss}
    return {finding.name: finding for finding in initscope.inspect(model, data, **options).findings}


def problem(model, data, name, **given):
    found = findings(model, data, **given).get(name)
    return found.message if found is not None and found.level != "info" else None


def dense(*end, act=nn.ReLU):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), act(), nn.Linear(32, 32), act(), nn.Linear(32, 4), *end)


@pytest.mark.parametrize(
    ("act", "said"), [(lambda: nn.LeakyReLU(True), True), (lambda: nn.LeakyReLU(inplace=True), False)]
)
def test_a_leaky_slope_of_one(act, said):
    assert bool(problem(dense(act=act), normal(48, 8), "linear-slope")) is said


def test_logits_that_are_capped_far_away_are_fine():
    class Capped(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = dense()

        def forward(self, x):
            return 30 * torch.tanh(self.body(x) / 30)

    assert problem(Capped(), normal(48, 8), "loss-floor") is None


@pytest.mark.parametrize("axis", [1, 2])
def test_a_softmax_of_one_unit(axis):
    class Pooled(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.first, self.score, self.head = nn.Linear(6, 16), nn.Linear(16, 1), nn.Linear(16, 4)

        def forward(self, x):
            h = torch.tanh(self.first(x))
            return self.head((self.score(h).softmax(axis) * h).sum(1))

    found = problem(Pooled(), normal(48, 9, 6), "softmax-single")
    assert found is None if axis == 1 else "The softmax over the one unit of layer 2 of 3 (score, Linear)" in found


@pytest.mark.parametrize("kept", [False, True])
def test_a_state_that_keeps_its_graph_between_steps(kept):
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.cell, self.head, self.state = nn.GRU(6, 16, batch_first=True), nn.Linear(16, 4), None

        def forward(self, x):
            fits = self.state is not None and self.state.shape[1] == len(x)
            out, state = self.cell(x, self.state if fits else None)
            self.state = state if kept else state.detach()
            return self.head(out[:, -1])

    found = problem(Recurrent(), normal(48, 5, 6), "step-fails")
    assert bool(found) is kept


def test_a_divergence_takes_logarithms():
    shares = F.softmax(normal(48, 4, seed=1), dim=-1)

    def divergence(output, targets):
        return F.kl_div(output, targets, reduction="batchmean")

    given = {"targets": shares, "loss": divergence}
    assert {"loss-floor", "loss-unbounded"} & set(findings(dense(nn.Softmax(-1)), normal(48, 8), **given))
    assert not {"loss-floor", "loss-unbounded"} & set(findings(dense(nn.LogSoftmax(-1)), normal(48, 8), **given))


@pytest.mark.parametrize("past", [False, True])
def test_a_weight_that_is_read_past_its_gradient(past):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.first, self.head = nn.Parameter(torch.randn(8, 16) / 8**0.5), nn.Linear(16, 4)

        def forward(self, x):
            return self.head(torch.relu(x @ (self.first.data if past else self.first)))

    found = findings(Net(), normal(48, 8)).get("detached")
    assert (found is not None and found.layer == "first") is past


@pytest.mark.parametrize(
    ("norm", "said"),
    [
        (nn.BatchNorm1d(32, 0.8), "norm-eps"),
        (nn.BatchNorm1d(32, momentum=0.99), "norm-momentum"),
        (nn.BatchNorm1d(32, eps=1e-3, momentum=0.01), None),
    ],
)
def test_settings_of_norms_are_warnings(norm, said):
    found = findings(nn.Sequential(nn.Linear(8, 32), norm, nn.ReLU(), nn.Linear(32, 4)), normal(48, 8))
    assert [name for name in found if name.startswith("norm-")] == ([] if said is None else [said])


class Attention(nn.Module):
    """Heads by a view and a transpose, or by a view alone."""

    def __init__(self, turned):
        super().__init__()
        torch.manual_seed(0)
        self.turned, self.qkv, self.out = turned, nn.Linear(16, 48), nn.Linear(16, 4)

    def split(self, x):
        samples, tokens, _ = x.shape
        return x.view(samples, tokens, 2, 8).transpose(1, 2) if self.turned else x.view(samples, 2, tokens, 8)

    def forward(self, x):
        q, k, v = (self.split(part.contiguous()) for part in self.qkv(x).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v)
        mixed = mixed.transpose(1, 2).reshape(x.shape) if self.turned else mixed.reshape(x.shape)
        return self.out(torch.relu(mixed)).mean(1)


@pytest.mark.parametrize("turned", [False, True])
def test_heads_that_a_view_makes_of_tokens(turned):
    found = findings(Attention(turned), normal(48, 5, 16)).get("axis-order")
    assert (found is None) is turned


class Language(nn.Module):
    """Words that see those before them; the loop runs forwards."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.loop, self.head = nn.Embedding(12, 16), nn.GRU(16, 16, batch_first=True), nn.Linear(16, 12)

    def forward(self, words):
        return self.head(self.loop(self.embed(words))[0])


def per_word(output, targets):
    return F.cross_entropy(output.flatten(0, 1), targets.flatten())


def moved(output, targets):
    return per_word(output[:, :-1], targets[:, 1:])


@pytest.mark.parametrize("loss", [per_word, moved])
def test_targets_that_are_not_moved_unless_the_loss_moves_them(loss):
    words = torch.randint(12, (48, 9), generator=torch.Generator().manual_seed(1))
    found = problem(Language(), words, "unshifted-targets", targets=words, loss=loss)
    assert found is None if loss is moved else "not shifted by one" in found


def test_predictions_beside_trained_weights_say_that_they_are_of_others():
    data, labels = normal(48, 8), (normal(48, 8)[:, 0] > 0).long()
    model = dense()
    fresh = initscope.inspect(model, data, pairs=16, alternatives=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(300):
        optimizer.zero_grad()
        F.cross_entropy(model(data), labels).backward()
        optimizer.step()
    trained = initscope.inspect(model, data, pairs=16, alternatives=False)
    unasked = initscope.inspect(model, data, pairs=16, alternatives=False, prediction=False)
    told = [[line for line in report.cautions if "Gaussian weights" in line] for report in (fresh, trained, unasked)]
    assert [len(lines) for lines in told] == [0, 1, 0]
    assert "as after training" in told[1][0]
