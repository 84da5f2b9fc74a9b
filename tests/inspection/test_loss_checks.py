"""Checks of head and loss: what the loss can reach, steps that raise, what does not learn."""

import copy
import re
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


def problems(model, data=None, **options):
    options = {"targets": LABELS, "loss": F.cross_entropy, "trial": False} | options
    data = normal(48, 16) if data is None else data
    report = initscope.inspect(model, data, pairs=24, alternatives=False, prediction=False, **options)
    return {finding.name: finding for finding in (*report.errors, *report.warnings)}


def dense(*end):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 5), *end)


def test_a_likelihood_of_what_is_no_logarithm_of_probabilities():
    found = problems(dense(nn.Softmax(1)), loss=F.nll_loss)["loss-unbounded"]
    assert (found.level, found.layer) == ("warning", "3")
    assert "no lower bound" in problems(dense(), loss=F.nll_loss)["loss-unbounded"].message
    for healthy, loss in ((nn.LogSoftmax(1), F.nll_loss), (nn.LogSoftmax(1), F.cross_entropy)):
        assert not problems(dense(healthy), loss=loss)
    coarse = dense(nn.LogSoftmax(1)).bfloat16()
    assert not problems(coarse, normal(48, 16).bfloat16(), loss=F.nll_loss)


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (nn.CrossEntropyLoss, r"loss = CrossEntropyLoss is a class; give an instance, CrossEntropyLoss\(\)"),
        (5, "loss = 5 must be a callable .* torch.nn.functional.cross_entropy, or the name of a loss"),
        ("", "loss = '' is unknown; use one of cross-entropy"),
        ("msee", r"loss = 'msee' is unknown \(did you mean mse\?\)"),
    ],
)
def test_a_loss_that_is_no_function_and_no_name_is_refused(loss, said):
    with pytest.raises(InputError, match=said):
        problems(dense(), loss=loss)


@pytest.mark.parametrize(
    ("name", "function", "targets"),
    [("cross-entropy", F.cross_entropy, LABELS), ("mse", F.mse_loss, normal(48, 5) + 3)],
)
def test_a_loss_is_named_as_on_the_command_line(name, function, targets):
    options = {"targets": targets, "pairs": 24, "alternatives": False, "prediction": False, "trial": True}
    reports = [initscope.inspect(dense(nn.Tanh()), normal(48, 16), loss=loss, **options) for loss in (name, function)]
    named, called = reports
    assert named.facts.loss_name == name
    assert named.trial.losses == called.trial.losses
    assert named.head.reached == called.head.reached
    assert [finding.name for finding in named.findings] == [finding.name for finding in called.findings]


@pytest.mark.parametrize(
    ("end", "loss", "targets", "name"),
    [
        (nn.Softmax(1), F.cross_entropy, LABELS, "loss-floor"),
        (nn.ReLU(), F.cross_entropy, LABELS, "loss-floor"),
        (nn.Tanh(), F.cross_entropy, LABELS, "loss-floor"),
        (nn.Dropout(0.5), F.cross_entropy, LABELS, "loss-floor"),
        (nn.Dropout(0.0), F.cross_entropy, LABELS, None),
        (nn.LogSoftmax(1), F.cross_entropy, LABELS, None),
        (nn.Sigmoid(), F.binary_cross_entropy_with_logits, F.one_hot(LABELS, 5).float(), "loss-floor"),
        (nn.Sigmoid(), F.binary_cross_entropy, F.one_hot(LABELS, 5).float(), None),
        (nn.Softmax(1), F.mse_loss, F.one_hot(LABELS, 5).float(), None),
        (nn.Sigmoid(), F.mse_loss, 3 * normal(48, 5), "loss-floor"),
        (nn.ReLU(), F.mse_loss, normal(48, 5).abs(), "loss-stuck"),
    ],
)
def test_what_ends_a_model_and_its_loss(end, loss, targets, name):
    """The floor is found, and the suggested line of code removes it."""
    model = dense(end)
    found = problems(model, loss=loss, targets=targets)
    assert set(found) == ({name} if name else set())
    if name:
        assert (found[name].level, found[name].layer) == ("error" if name == "loss-floor" else "warning", "3")
        assert name != "loss-floor" or found[name].value > found[name].evidence["free"] + 0.05
        exec(found[name].fix.code, {"model": model, "torch": torch})
        assert not problems(model, loss=loss, targets=targets)


def test_targets_outside_of_the_range_of_the_output_are_counted():
    targets = 3 * normal(48, 5)
    message = problems(dense(nn.Sigmoid()), loss=F.mse_loss, targets=targets)["loss-floor"].message
    share = re.search(r"as (\d+) % of the targets lie outside of its range, 0 to 1", message)[1]
    by_hand = float(((targets < 0) | (targets > 1)).double().mean())
    assert abs(float(share) / 100 - by_hand) < 0.1


def test_one_unit_and_a_softmax_get_the_right_advice():
    """Drawing the weights again cannot help: a softmax over one value is 1."""
    model = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 1), nn.Softmax(1))
    targets = (LABELS % 2).float()[:, None]
    report = initscope.inspect(
        model, normal(48, 16), targets=targets, loss=F.binary_cross_entropy, pairs=24, prediction=False, trial=False
    )
    assert report.errors[0].name == "softmax-single"
    assert "sigmoid" in report.fix.advice
    assert report.fix.code is None


def test_targets_of_another_shape_are_broadcast():
    torch.manual_seed(0)
    flat = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0))
    values = normal(48, 1)
    assert "loss-broadcast" in problems(flat, targets=values, loss=F.mse_loss)
    assert "loss-broadcast" not in problems(flat, targets=values[:, 0], loss=F.mse_loss)


@pytest.mark.parametrize(("end", "warned"), [(nn.Softmax(1), True), (nn.Sigmoid(), True), (nn.LogSoftmax(1), False)])
def test_probabilities_without_a_known_loss_are_a_warning(end, warned):
    report = initscope.inspect(dense(end), normal(48, 16), pairs=24, alternatives=False, prediction=False)
    assert [finding.name for finding in report.warnings] == ["probability-output"] * warned
    assert report.healthy


def test_a_softmax_over_the_width_of_pictures():
    pictures, masks = normal(48, 3, 8, 8), torch.randint(4, (48, 8, 8), generator=torch.Generator().manual_seed(0))

    def net(axis):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1), nn.LogSoftmax(axis))

    assert "loss-floor" in problems(net(-1), pictures, targets=masks, loss=F.nll_loss)
    assert not problems(net(1), pictures, targets=masks, loss=F.nll_loss)


def test_classes_on_the_last_axis_where_the_loss_takes_the_second():
    words = (torch.rand(48, 6, generator=torch.Generator().manual_seed(0)) ** 2 * 6).long()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(6, 16), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 6))
    tags = (words + 1) % 6
    assert "second axis" in problems(model, words, targets=tags)["class-axis"].message
    turned = {"loss": lambda out, told: F.cross_entropy(out.transpose(1, 2), told), "targets": tags}
    assert "class-axis" not in problems(model, words, **turned)


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
    found = problems(model, **options)
    assert told in found["step-fails"].message
    assert "step-fails" not in problems(model, loss=None, targets=None)
    assert "step-fails" not in problems(dense())


def test_everything_frozen_is_an_error_with_targets_and_a_warning_without():
    frozen = dense().requires_grad_(False)
    assert problems(frozen)["all-frozen"].layer == "0"
    assert problems(frozen)["all-frozen"].level == "error"
    alone = problems(frozen, loss=None, targets=None)
    assert {name: finding.level for name, finding in alone.items()} == {"all-frozen": "warning"}


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
    assert ("frozen-layers" in problems(Teacher(share))) == fault


def test_targets_of_another_shape_are_tried_without_a_warning():
    pictures = normal(48, 1, 4, 4)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 16))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert not problems(model, pictures, targets=pictures, loss=lambda out, told: F.mse_loss(out, told.flatten(1)))
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
    assert not problems(Sparse(), data, targets=data, loss=F.mse_loss)


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
    found = problems(LowRank(both=True))["stuck-zeros"]
    assert found.layer == "down"
    assert "down and the factor that multiplies it are both zero" in found.message
    assert found.evidence["all"] == ["down", "up"]
    assert "stuck-zeros" not in problems(LowRank(both=False))


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
    assert "stuck-zeros" not in problems(Gated(drawn=True))
    assert problems(Gated(drawn=False))["stuck-zeros"].layer == "gate.weight"


class Clamped(nn.Module):
    def __init__(self, low, high):
        super().__init__()
        self.net, self.low, self.high = dense(), low, high

    def forward(self, x):
        return self.net(x).clamp(self.low, self.high)


def test_a_clamp_that_cuts_logits_off_and_one_that_is_wide():
    assert problems(Clamped(0.0, 1.0))["loss-floor"].layer == "clamp"
    assert not problems(Clamped(-50.0, 50.0))


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
    found = problems(Rounded(through=False))["rounding"]
    assert (found.layer, "round has no gradient" in found.message.lower()) == ("first", True)
    assert not problems(Rounded(through=True))


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
    found = problems(TwoNorms(copied=True))["repeated-norm"]
    assert found.message == "norm2 is never called while norm1 is called twice: probably a copy-paste slip."
    assert not problems(TwoNorms(copied=False))


class MadeInCall(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(16, 32), nn.Linear(32, 5)

    def forward(self, x):
        return self.head(F.relu(nn.Linear(32, 32)(F.relu(self.first(x)))))


def test_layers_that_are_made_in_the_call():
    torch.manual_seed(0)
    assert "in every call" in problems(MadeInCall())["layers-made-in-forward"].message


class Dropping(nn.Module):
    def __init__(self, always, noise=0.0):
        super().__init__()
        self.net, self.always, self.noise = dense(), always, noise

    def forward(self, x):
        x = F.dropout(x, 0.5, training=self.always or self.training)
        return self.net(x + self.noise * torch.randn_like(x))


@pytest.mark.parametrize(("always", "noise", "told"), [(True, 0.0, True), (False, 0.0, False), (False, 1.0, False)])
def test_dropout_in_evaluation_is_told_and_other_noise_is_not(always, noise, told):
    """Without a trial: on these random labels no dropout learns, and a cause is as bad as what follows from it."""
    options = {"pairs": 24, "alternatives": False, "prediction": False, "trial": False}
    report = initscope.inspect(Dropping(always, noise), normal(48, 16), targets=LABELS, **options)
    assert ("random-evaluation" in {finding.name for finding in report.warnings}) is told


class Timed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.time, self.head = nn.Linear(16, 32), nn.Linear(1, 32), nn.Linear(32, 5)

    def forward(self, x, t):
        return self.head(F.relu(self.first(x)) + torch.tanh(self.time(t)))


@pytest.mark.parametrize(("scale", "fault"), [(1000.0, True), (1.0, False)])
def test_a_small_input_may_be_out_of_scale_too(scale, fault):
    torch.manual_seed(0)
    found = problems(Timed(), (normal(48, 16), scale * torch.linspace(0, 1, 48)[:, None]))
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
    found = problems(Scaled(scaled), data, targets=data[:, -1:], loss=F.mse_loss)
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
    assert not problems(SkipGrams(1.0), pairs, **options)
    model = SkipGrams(1e-9)
    nn.init.normal_(model.around.weight)
    assert "vanishing" in problems(model, pairs, **options)
