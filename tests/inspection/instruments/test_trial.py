"""Does it learn: faults against healthy programs, rates, controls, budgets, and that nothing is left behind."""

import copy
import math
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from inspection.instruments.programs import (
    ADAM,
    FAULTS,
    HEALTHY,
    digits,
    mlp,
    parity,
    regression,
    run_trial,
    shuffled,
)
from torch import nn

from initscope.errors import InputError
from initscope.graph import Inputs
from initscope.inspection.instruments import budget as budget_module
from initscope.inspection.instruments.batches import draw_batch
from initscope.inspection.instruments.controls import constant_inputs, permuted_targets
from initscope.inspection.instruments.optimizers import OptimizerSpec
from initscope.inspection.instruments.rates import scan_rates
from initscope.inspection.instruments.training import Setup, train


def trial_of(program, **options):
    build, data, loss, optimizer = program
    torch.manual_seed(0)
    return run_trial(build(), *data(), loss, optimizer, **options)


@pytest.fixture(scope="module")
def healthy():
    return {name: trial_of(program) for name, program in HEALTHY.items()}


@pytest.fixture(scope="module")
def faulty():
    return {name: trial_of(program) for name, program in FAULTS.items()}


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_programs_learn(healthy, name):
    trial = healthy[name]
    assert trial.outcome == "learns", trial
    assert trial.use >= 0.5
    assert trial.rates == ()  # no other rate is tried
    assert trial.suggested_rate is None
    assert not trial.unmoved
    assert trial.passes < 1000


@pytest.mark.parametrize("name", HEALTHY)
def test_controls_of_healthy_programs(healthy, name):
    trial = healthy[name]
    assert trial.permuted < 0.8 * trial.use
    assert trial.constant_inputs < 0.1
    assert trial.shuffled_inputs < 0.3


@pytest.mark.parametrize("name", FAULTS)
def test_faulty_programs_do_not(faulty, name):
    trial = faulty[name]
    assert trial.outcome in ("flat", "diverges", "still falling"), trial
    assert trial.use is None or trial.use < 0.45


@pytest.mark.parametrize("name", [name for name in FAULTS if "rate" not in name])
def test_faults_other_than_rates_do_not_learn_at_any(faulty, name):
    assert faulty[name].learn < 0.5


@pytest.mark.parametrize(
    ("name", "larger"),
    [("rate too small", True), ("rate of gradient descent too small", True), ("rate too large", False)],
)
def test_wrong_rates_are_told_from_other_faults(faulty, name, larger):
    trial = faulty[name]
    assert trial.learn > 0.5
    factor = trial.suggested_rate / trial.rate
    assert factor > 100 if larger else factor < 0.3
    assert list(trial.rates) == sorted(trial.rates)
    assert len(trial.rates) == len(trial.losses_by_rate)
    assert trial.rate in trial.rates


def test_frozen_and_detached_networks_stay_below_a_readout(faulty):
    for name in ("frozen layers", "detached features", "dropout .99", "ten sigmoids"):
        assert faulty[name].readout > faulty[name].learn + 0.3
    assert set(faulty["frozen layers"].frozen) > {"0.weight", "8.bias"}
    unmoved = faulty["detached features"].unmoved
    assert "features.0.weight" in unmoved
    assert "last.weight" not in unmoved


def test_a_loss_that_stays_is_not_trained_at_other_rates(faulty):
    trial = faulty["softmax over one unit"]
    assert trial.not_done["rates"] == "the loss does not change with the outputs of the last weights"
    assert trial.rates == ()


@pytest.mark.parametrize("seed", [0, 1])
def test_shuffled_labels_are_no_easier_than_permuted_ones(seed):
    trial = trial_of((mlp, shuffled, F.cross_entropy, ADAM), seed=seed)
    assert trial.outcome == "learns"  # by heart
    assert trial.permuted > 0.8 * trial.use


def test_exclusive_or_is_given_time():
    x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = torch.tensor([[0.0], [1.0], [1.0], [0.0]])
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1), nn.Sigmoid())
    trial = run_trial(model, x, y, F.binary_cross_entropy, torch.optim.SGD, 0.5)
    assert trial.outcome == "learns"
    assert trial.readout == pytest.approx(0, abs=0.01)  # no line separates it
    assert trial.constant_loss == pytest.approx(math.log(2), rel=1e-3)


def test_constant_prediction_is_the_entropy_of_the_labels(healthy):
    assert healthy["mlp"].constant_loss == pytest.approx(math.log(10), abs=0.02)


def test_samples_that_are_told_apart_by_their_place_learn_from_constant_inputs():
    class ByPlace(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.place = mlp(), nn.Parameter(torch.randn(64, 64))

        def forward(self, x):
            return self.net(x + self.place[: len(x)])

    x, labels = digits()
    trial = run_trial(ByPlace(), x, labels, F.cross_entropy, ADAM)
    assert trial.constant_inputs > 0.3


def test_inputs_that_are_not_read():
    """The place of a sample is all that is read: shuffled inputs change nothing."""

    class Blind(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.place = mlp(), nn.Parameter(torch.randn(64, 64))

        def forward(self, x):
            return self.net(0 * x + self.place[: len(x)])

    trial = run_trial(Blind(), *digits(), F.cross_entropy, ADAM)
    assert trial.shuffled_inputs == pytest.approx(trial.use, abs=0.1)


def test_updates_are_relative_to_the_parameters():
    """A step of plain gradient descent is rate times gradient."""
    model, (x, y) = nn.Linear(20, 1), regression()
    trial = run_trial(model, x[:32], y[:32], F.mse_loss, torch.optim.SGD, 1e-4, controls=False)
    gradient = torch.autograd.grad(F.mse_loss(model(x[:32]), y[:32]), model.weight)[0]
    first = float(1e-4 * gradient.norm() / model.weight.detach().norm())
    assert trial.updates["weight"] == pytest.approx(first, rel=0.05)  # five steps, along which gradients hardly change
    assert set(trial.updates) == {"weight", "bias"}


def test_the_edge_of_a_quadratic_is_two_over_its_largest_eigenvalue():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(32, 5, generator=generator) * torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    y = torch.randn(32, 1, generator=generator)
    curvature = float(torch.linalg.eigvalsh(2 * x.T @ x / 32)[-1])
    for momentum, rate in ((0.0, 1e-9), (0.9, 1e-9)):
        optimizer = partial(torch.optim.SGD, lr=rate, momentum=momentum)
        trial = run_trial(nn.Linear(5, 1, bias=False), x, y, F.mse_loss, optimizer)
        assert trial.edge == pytest.approx(2 * (1 + momentum) / curvature, rel=0.03)


def test_rates_above_the_edge_of_a_quadratic_diverge():
    x, y = torch.randn(32, 5), torch.randn(32, 1)
    model = nn.Linear(5, 1, bias=False)
    edge = run_trial(model, x, y, F.mse_loss, torch.optim.SGD, 1e-7).edge
    above = run_trial(model, x, y, F.mse_loss, torch.optim.SGD, 1.5 * edge)
    below = run_trial(model, x, y, F.mse_loss, torch.optim.SGD, 0.7 * edge)
    assert above.outcome == "diverges"
    assert below.outcome != "diverges"


def test_every_loss_of_a_scan_was_reached_at_the_rate_next_to_it():
    """A loss with a constant gradient falls in proportion to the rate; a wrong rate is off by a factor of 3."""
    model = nn.Linear(5, 1)
    batch = draw_batch(model, torch.randn(32, 5), torch.zeros(32, 1), 32, 0)
    setup = Setup(model, batch, lambda output, _: output.mean(), OptimizerSpec(torch.optim.SGD, 1e-3), 0)
    user = train(setup, 20)
    scan = scan_rates(setup, 1e-3, user, 20, 2000, None, None)
    falls = [(user.losses[0] - loss) / rate for loss, rate in zip(scan.losses, scan.rates, strict=True)]
    assert len(falls) > 3
    assert falls == pytest.approx([falls[-1]] * len(falls), rel=0.02)


class Named(nn.Module):
    """Two inputs by name and an output in a dict, with targets in a dict."""

    def __init__(self):
        super().__init__()
        self.left, self.right, self.last = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 10)

    def forward(self, first, second):
        return {"logits": self.last(torch.relu(self.left(first) + self.right(second)))}


def test_several_inputs_and_targets_in_a_dict():
    x, labels = digits()
    data = {"first": x[:, :32], "second": x[:, 32:]}
    trial = run_trial(
        Named(), data, {"label": labels}, lambda out, t: F.cross_entropy(out["logits"], t["label"]), "adam", 1e-2
    )
    assert trial.outcome == "learns"
    assert trial.samples == 64
    assert trial.permuted < trial.use


def test_hugging_face_models_train_on_their_own_loss():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=23, n_positions=16, n_embd=32, n_layer=1, n_head=2)
    first = torch.randint(0, 11, (32,))
    ids = torch.stack([first * (k % 3 + 1) % 23 for k in range(12)], dim=1)  # all follows from the first
    model = transformers.GPT2LMHeadModel(config)
    trial = run_trial(model, Inputs((), {"input_ids": ids, "labels": ids}), None, None, "adamw", 1e-2)
    assert trial.outcome == "learns"
    assert trial.constant_loss > 1
    for share in (trial.permuted, trial.constant_inputs, trial.shuffled_inputs):
        assert share < 0.8 * trial.use  # labels among the arguments stay where they are


class Raises(nn.Module):
    """Works ``times`` times."""

    def __init__(self, times):
        super().__init__()
        self.last, self.left = nn.Linear(64, 10), times

    def forward(self, x):
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("no more")
        return self.last(x)


class Remembers(nn.Module):
    """Keeps its state with the graph that made it."""

    def __init__(self):
        super().__init__()
        self.cell, self.last, self.state = nn.RNNCell(64, 32), nn.Linear(32, 10), None

    def forward(self, x):
        self.state = self.cell(x, self.state)
        return self.last(self.state)


@pytest.mark.parametrize(
    ("model", "loss", "reason"),
    [
        (Raises(1), F.cross_entropy, "step 2: RuntimeError: no more"),
        (Remembers(), F.cross_entropy, "step 2: RuntimeError: Trying to backward"),
        (mlp(), nn.CrossEntropyLoss(reduction="none"), "step 1: InputError: the loss returns a tensor of shape"),
        (mlp(outputs=3), F.cross_entropy, "step 1: IndexError: Target"),
        (mlp(), lambda output, targets: output.detach().mean(), "step 1: RuntimeError: element 0 of tensors"),
        (mlp().requires_grad_(False), F.cross_entropy, "step 1: "),
    ],
    ids=["raises", "state", "several values", "too few outputs", "detached loss", "all frozen"],
)
def test_failures_are_results(model, loss, reason):
    trial = run_trial(model, *digits(), loss, ADAM)
    assert trial.outcome == "failed"
    assert trial.reason.startswith(reason)


def test_a_loss_that_becomes_infinite_diverges():
    trial = run_trial(nn.Linear(64, 1), 1e4 * digits()[0], parity()[1], F.mse_loss, torch.optim.SGD, 10.0)
    assert trial.outcome == "diverges"
    assert trial.suggested_rate is None or trial.suggested_rate < 1e-3


@pytest.mark.parametrize(
    ("targets", "loss", "reason"),
    [
        (torch.zeros(1797).long(), F.cross_entropy, "the targets do not vary"),
        (None, F.nll_loss, "no lower bound"),
    ],
    ids=["one class", "no bound"],
)
def test_what_has_no_level_is_not_judged(targets, loss, reason):
    x, labels = digits()
    trial = run_trial(mlp(), x, labels if targets is None else targets, loss, ADAM)
    assert trial.outcome == "not judged"
    assert reason in trial.reason


def test_nothing_is_left_behind():
    model, (x, labels) = nn.Sequential(nn.BatchNorm1d(64), mlp(), nn.Dropout(0.1)).eval(), digits()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-3)
    F.cross_entropy(model(x), labels).backward()
    optimizer.step()
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    gradients = [p.grad.clone() for p in model.parameters()]
    state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002

    def loss(output, targets):  # which reads the user's own model
        return F.cross_entropy(output, targets) + 1e-3 * model[1][0].weight.square().sum()

    trial = run_trial(model, x, labels, loss, optimizer)
    assert trial.rate == 1e-2
    after = model.state_dict(), optimizer.state_dict()
    assert all(torch.equal(value, before[0][name]) for name, value in after[0].items())
    assert str(after[1]) == str(before[1])
    assert all(torch.equal(p.grad, gradient) for p, gradient in zip(model.parameters(), gradients))
    assert torch.equal(torch.get_rng_state(), state)
    assert (np.random.get_state()[1] == numpy_state).all()  # noqa: NPY002
    assert not model.training


def test_the_same_seed_gives_the_same_losses():
    torch.manual_seed(0)
    model = nn.Sequential(mlp(), nn.Dropout(0.2))
    first, second = (run_trial(model, *digits(), F.cross_entropy, ADAM, controls=False) for _ in range(2))
    shared = min(len(first.losses), len(second.losses))  # how long they are may depend on the time that a pass takes
    assert first.losses[:shared] == second.losses[:shared]


class Slow(nn.Module):
    """Takes the clock of its trial forward by the time that a pass is to take."""

    def __init__(self, clock, seconds):
        super().__init__()
        self.net, self.clock, self.seconds = mlp(), clock, seconds

    def forward(self, x):
        self.clock.now += self.seconds * len(x)
        return self.net(x)

    def __deepcopy__(self, memo):
        return Slow(self.clock, self.seconds)


class FakeTime:
    """Processor time that only the model moves, and wall time that runs ``busy`` times as fast."""

    def __init__(self, busy=1.0, counted=True):
        self.now, self.busy, self.counted = 0.0, busy, counted

    def perf_counter(self):
        return self.now * self.busy

    def thread_time(self):
        return self.now if self.counted else 0.0


@pytest.mark.parametrize("busy", [1.0, 3.9])
@pytest.mark.parametrize(
    ("seconds", "samples", "passes"), [(0.001, 64, 40), (0.01, 64, 40), (0.1, 8, 37), (0.2, 8, 18)]
)
def test_batch_and_steps_fit_the_budget(monkeypatch, seconds, samples, passes, busy):
    """Passes take as long as the test says, and the budget of 30 s is kept; other programs change nothing."""
    clock = FakeTime(busy)
    monkeypatch.setattr(budget_module, "time", clock)
    trial = run_trial(Slow(clock, seconds), *digits(), F.cross_entropy, torch.optim.SGD, 1e-6, budget=None)
    assert (trial.samples, trial.cost.samples, trial.cost.passes) == (samples, samples, passes)
    assert trial.cost.pass_seconds == pytest.approx(seconds * samples)
    assert trial.outcome in ("flat", "undecided")
    assert clock.now <= 30 + 2 * seconds * samples  # the current pass, and the readout


@pytest.mark.parametrize(("clock", "seconds"), [(FakeTime(), 1.0), (FakeTime(counted=False), 4.0)])
def test_models_that_are_too_slow_are_not_judged(monkeypatch, clock, seconds):
    """A model that waits without computing counts a quarter of its time."""
    monkeypatch.setattr(budget_module, "time", clock)
    trial = run_trial(Slow(clock, seconds), *digits(), F.cross_entropy, ADAM, budget=None)
    assert trial.outcome == "not judged"
    assert "one pass of 8 samples takes 8 s: the budget of 30 s allows 3" in trial.reason
    assert clock.now < 60 * seconds


def test_models_on_other_devices_are_timed_by_the_wall_clock(monkeypatch):
    time = FakeTime(busy=3.0)
    monkeypatch.setattr(budget_module, "time", time)
    on_cpu, elsewhere = budget_module.Clock(mlp()), budget_module.Clock(mlp().to("meta"))
    time.now = 1.0
    assert (on_cpu(), elsewhere()) == (1.0, 3.0)


@pytest.mark.parametrize("budget", [0, -1.0, "short", True])
def test_budgets_that_mean_nothing_are_refused(budget):
    with pytest.raises(InputError, match="budget"):
        run_trial(mlp(), *digits(), F.cross_entropy, budget=budget)


def test_permuted_targets_keep_no_sample_in_its_place():
    x, _ = digits()
    batch = draw_batch(mlp(), x, torch.arange(len(x)), 64, 0)
    permuted = permuted_targets(batch, 0)
    assert sorted(permuted.targets.tolist()) == sorted(batch.targets.tolist())
    assert not bool((permuted.targets == batch.targets).any())
    assert len(torch.unique(constant_inputs(batch).inputs.args[0], dim=0)) == 1


def test_the_plot_marks_rates(faulty, healthy):
    axes = faulty["rate too small"].plot()
    labels = " ".join(text.get_text() for text in axes.get_legend().get_texts())
    for name in ("given rate", "edge of stability", "suggested rate", "best constant prediction"):
        assert name in labels
    assert axes.get_xscale() == "log"
    assert healthy["mlp"].plot().get_xlabel() == "step"
    assert len(healthy["mlp"].table()) == len(healthy["mlp"].losses)
    assert healthy["mlp"].to_dict()["cost"]["samples"] == 64
