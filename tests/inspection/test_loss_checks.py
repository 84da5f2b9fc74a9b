"""Verdicts on what a loss makes of a model: what it takes outputs for, steps that raise, what does not learn."""

import copy
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import initscope
from initscope.errors import InputError


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).cumsum(dim=-1) / shape[-1] ** 0.5


LABELS = torch.arange(48) % 5


def faults(model, data=None, **options):
    options = {"targets": LABELS, "loss": F.cross_entropy} | options
    data = normal(48, 16) if data is None else data
    report = initscope.inspect(model, data, pairs=24, alternatives=False, prediction=False, **options)
    return {finding.name: finding for finding in report.errors}


def dense(*end):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 5), *end)


def test_a_likelihood_of_what_is_no_logarithm_of_probabilities():
    assert "outputs are probabilities" in faults(dense(nn.Softmax(1)), loss=F.nll_loss)["loss-kind"].words
    assert "not normalised" in faults(dense(), loss=F.nll_loss)["loss-kind"].words
    for healthy, loss in ((nn.LogSoftmax(1), F.nll_loss), (nn.LogSoftmax(1), F.cross_entropy)):
        assert not faults(dense(healthy), loss=loss)
    coarse = dense(nn.LogSoftmax(1)).bfloat16()
    assert "loss-kind" not in faults(coarse, normal(48, 16).bfloat16(), loss=F.nll_loss)


@pytest.mark.parametrize("loss", ["ce", 5, ""])
def test_a_loss_that_cannot_be_called_is_refused(loss):
    with pytest.raises(InputError, match=f"loss = {loss!r} must be a callable .* torch.nn.functional.cross_entropy"):
        faults(dense(), loss=loss)


def test_a_softmax_over_the_width_of_pictures():
    pictures, masks = normal(48, 3, 8, 8), torch.randint(4, (48, 8, 8), generator=torch.Generator().manual_seed(0))

    def net(axis):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1), nn.LogSoftmax(axis))

    assert "loss-kind" in faults(net(-1), pictures, targets=masks, loss=F.nll_loss)
    assert not faults(net(1), pictures, targets=masks, loss=F.nll_loss)


def test_classes_on_the_last_axis_where_the_loss_takes_the_second():
    words = (torch.rand(48, 6, generator=torch.Generator().manual_seed(0)) ** 2 * 6).long()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(6, 16), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 6))
    tags = (words + 1) % 6
    assert "second axis" in faults(model, words, targets=tags)["loss-kind"].words
    turned = {"loss": lambda out, told: F.cross_entropy(out.transpose(1, 2), told), "targets": tags}
    assert "loss-kind" not in faults(model, words, **turned)


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 5)

    def forward(self, x):
        return self.second(torch.sigmoid(self.first(x)).mul_(2))


@pytest.mark.parametrize(
    ("model", "options", "told"),
    [
        (dense(), {"targets": LABELS + 1}, "5 is out of bounds"),
        (InPlace(), {}, "inplace"),
    ],
)
def test_a_step_that_raises_is_a_fault_of_who_means_to_train(model, options, told):
    found = faults(model, **options)
    assert told in found["step-fails"].words
    assert "step-fails" not in faults(model, loss=None, targets=None)
    assert "step-fails" not in faults(dense())


def test_everything_frozen_is_a_fault_with_a_loss_and_none_without():
    frozen = dense().requires_grad_(False)
    assert faults(frozen)["no-gradient"].layer == "0"
    assert not faults(frozen, loss=None)


class Teacher(nn.Module):
    """A student, and a frozen one beside it: its copy, its running average, or a network of its own."""

    def __init__(self, share):
        super().__init__()
        self.student = dense()
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)
        self.head = nn.Linear(5, 5)
        with torch.no_grad():
            for weight in self.teacher.parameters():
                weight.mul_(share).add_((1 - share**2) ** 0.5 * weight.std() * torch.randn(weight.shape))

    def forward(self, x):
        return self.head(self.student(x) + self.teacher(x).detach())


@pytest.mark.parametrize(("share", "fault"), [(1.0, False), (0.9, False), (0.0, True)])
def test_frozen_copies_of_what_learns_are_meant(share, fault):
    torch.manual_seed(0)
    assert ("no-gradient" in faults(Teacher(share))) == fault


def test_targets_of_another_shape_are_tried_without_a_warning():
    pictures = normal(48, 1, 4, 4)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 16))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert not faults(model, pictures, targets=pictures, loss=lambda out, told: F.mse_loss(out, told.flatten(1)))
    assert not said


class Sparse(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(16, 64), nn.Linear(64, 16)

    def forward(self, x):
        before = F.relu(self.encoder(x))
        values, places = before.topk(8, dim=-1)
        return self.decoder(torch.zeros_like(before).scatter(-1, places, values))


def test_the_largest_values_in_order_have_no_rank_to_lose():
    torch.manual_seed(0)
    data = torch.relu(torch.randn(48, 64) - 1.5) @ torch.randn(64, 16)
    assert not faults(Sparse(), data, targets=data, loss=F.mse_loss)


class LowRank(nn.Module):
    """A frozen layer with an adapter whose second factor starts at zero, the first one at zero too if ``both``."""

    def __init__(self, both):
        super().__init__()
        self.base, self.head = nn.Linear(16, 32).requires_grad_(False), nn.Linear(32, 5)
        self.down, self.up = nn.Parameter(torch.zeros(4, 16)), nn.Parameter(torch.zeros(32, 4))
        if not both:
            nn.init.normal_(self.down)

    def forward(self, x):
        return self.head(F.relu(self.base(x) + x @ self.down.t() @ self.up.t()))


def test_two_zero_factors_never_move_and_one_does():
    torch.manual_seed(0)
    found = faults(LowRank(both=True))["zero-gradient"]
    assert found.layer == "down"
    assert "down, up and what multiplies it are zero" in found.words
    assert "zero-gradient" not in faults(LowRank(both=False))


class Gated(nn.Module):
    """Gates and a head that start at zero, as of diffusion transformers: the gates move once the head has moved."""

    def __init__(self, drawn):
        super().__init__()
        self.first, self.gate, self.head = nn.Linear(16, 32), nn.Linear(16, 32), nn.Linear(32, 5)
        for layer in (self.gate, self.head):
            nn.init.zeros_(layer.weight)
        self.shift = 1.0 if drawn else 0.0
        nn.init.zeros_(self.gate.bias)

    def forward(self, x):
        return self.head((self.shift + self.gate(x)) * F.relu(self.first(x)))


def test_zeros_before_a_head_of_zeros_move_when_the_head_has_moved():
    torch.manual_seed(0)
    assert "zero-gradient" not in faults(Gated(drawn=True))
    assert "gate.weight" in faults(Gated(drawn=False))["zero-gradient"].words


class Clamped(nn.Module):
    def __init__(self, low, high):
        super().__init__()
        self.net, self.low, self.high = dense(), low, high

    def forward(self, x):
        return self.net(x).clamp(self.low, self.high)


def test_a_clamp_that_cuts_logits_off_and_one_that_is_wide():
    assert "cuts off" in faults(Clamped(0.0, 1.0))["clipped-output"].words
    assert not faults(Clamped(-50.0, 50.0))


class Rounded(nn.Module):
    def __init__(self, through):
        super().__init__()
        self.first, self.second, self.through = nn.Linear(16, 32), nn.Linear(32, 5), through

    def forward(self, x):
        h = self.first(x)
        rounded = torch.round(4 * h) / 4
        return self.second(F.relu(h + (rounded - h).detach() if self.through else rounded))


def test_what_stands_before_a_rounding_does_not_learn_unless_the_gradient_goes_through():
    torch.manual_seed(0)
    found = faults(Rounded(through=False))["zero-gradient"]
    assert (found.layer, "round behind it" in found.words) == ("first", True)
    assert not faults(Rounded(through=True))


class TwoNorms(nn.Module):
    def __init__(self, copied):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(16, 32), nn.Linear(32, 32), nn.Linear(32, 5)
        self.norm1, self.norm2, self.copied = nn.LayerNorm(32), nn.LayerNorm(32), copied

    def forward(self, x):
        x = F.relu(self.norm1(self.first(x)))
        x = self.second(x)
        return self.head(F.relu(self.norm1(x) if self.copied else self.norm2(x)))


def test_a_norm_that_another_one_runs_for():
    torch.manual_seed(0)
    found = faults(TwoNorms(copied=True))["no-gradient"]
    assert (found.layer, "runs norm1 more than once" in found.words) == ("norm2", True)
    assert not faults(TwoNorms(copied=False))


class MadeInCall(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(16, 32), nn.Linear(32, 5)

    def forward(self, x):
        return self.head(F.relu(nn.Linear(32, 32)(F.relu(self.first(x)))))


def test_layers_that_are_made_in_the_call():
    torch.manual_seed(0)
    assert "anew in every call" in faults(MadeInCall())["no-gradient"].words


class Dropping(nn.Module):
    def __init__(self, always, noise=0.0):
        super().__init__()
        self.net, self.always, self.noise = dense(), always, noise

    def forward(self, x):
        x = F.dropout(x, 0.5, training=self.always or self.training)
        return self.net(x + self.noise * torch.randn_like(x))


@pytest.mark.parametrize(("always", "noise", "told"), [(True, 0.0, True), (False, 0.0, False), (False, 1.0, False)])
def test_dropout_in_evaluation_is_told_and_other_noise_is_not(always, noise, told):
    report = initscope.inspect(
        Dropping(always, noise), normal(48, 16), pairs=24, alternatives=False, prediction=False, targets=LABELS
    )
    found = {verdict.name: verdict.fault for verdict in report.findings}
    assert found.get("dropout-in-eval") == (False if told else None)


class Timed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.time, self.head = nn.Linear(16, 32), nn.Linear(1, 32), nn.Linear(32, 5)

    def forward(self, x, t):
        return self.head(F.relu(self.first(x)) + torch.tanh(self.time(t)))


@pytest.mark.parametrize(("scale", "fault"), [(1000.0, True), (1.0, False)])
def test_a_small_input_may_be_out_of_scale_too(scale, fault):
    torch.manual_seed(0)
    found = faults(Timed(), (normal(48, 16), scale * torch.linspace(0, 1, 48)[:, None]))
    assert ("input-scale" in found) == fault
    assert not fault or found["input-scale"].layer == "input (t)"


class Scaled(nn.Module):
    """A series over its own size, and the forecast times it: the size goes past all weights."""

    def __init__(self, scaled):
        super().__init__()
        self.rnn, self.head, self.scaled = nn.GRU(1, 16, batch_first=True), nn.Linear(16, 1), scaled

    def forward(self, x):
        size = x.abs().mean(1, keepdim=True) if self.scaled else torch.ones(len(x), 1)
        return self.head(self.rnn((x / size)[..., None])[0][:, -1]) * size


@pytest.mark.parametrize("scaled", [True, False])
def test_what_is_scaled_before_its_weights_may_be_large(scaled):
    torch.manual_seed(0)
    data = 100 + 20 * normal(48, 12)
    found = faults(Scaled(scaled), data, targets=data[:, -1:], loss=F.mse_loss)
    assert ("input-scale" in found) != scaled


class SkipGrams(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.words, self.around, self.factor = nn.Embedding(30, 16), nn.Embedding(30, 16), factor
        nn.init.zeros_(self.around.weight)

    def forward(self, word, other):
        return (self.factor * self.words(word) * self.around(other)).sum(1)


def test_a_second_table_of_zeros_is_no_vanishing_signal():
    torch.manual_seed(0)
    words = (30 * torch.rand(2, 48) ** 2).long()
    pairs, told = (words[0], words[1]), (words.sum(0) % 2).float()
    options = {"targets": told, "loss": F.binary_cross_entropy_with_logits}
    assert not faults(SkipGrams(1.0), pairs, **options)
    model = SkipGrams(1e-9)
    nn.init.normal_(model.around.weight)
    assert "vanishing" in faults(model, pairs, **options)
