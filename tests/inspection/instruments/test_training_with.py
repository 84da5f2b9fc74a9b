"""What is trained with: losses that are inferred or named, optimizers as users give them, batches, and comparisons."""

import copy
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from inspection.instruments.programs import ADAM, compare_trials, digits, mlp, run_trial
from torch import nn

from initscope.errors import InputError
from initscope.inspection.instruments import (
    Candidate,
    infer_loss,
    loss_named,
    optimizer_named,
)
from initscope.inspection.instruments.batches import draw_batch
from initscope.inspection.instruments.curves import diverges, fall_share, still_falls
from initscope.inspection.instruments.optimizers import OptimizerSpec

N = 16
SCORES = torch.randn(N, 5, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(N) % 5
BINARY = (LABELS % 2).float()
REAL = torch.randn(N, 5, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("output", "targets", "name", "expected"),
    [
        (SCORES, LABELS, "cross-entropy", lambda o, t: F.cross_entropy(o, t)),
        (SCORES.log_softmax(1), LABELS, "nll", lambda o, t: F.nll_loss(o, t)),
        (SCORES.softmax(1), LABELS, "nll of log(output)", lambda o, t: F.nll_loss(o.log(), t)),
        (SCORES, REAL, "mse", F.mse_loss),
        (SCORES[:, :1], REAL[:, 0], "mse", lambda o, t: F.mse_loss(o[:, 0], t)),
        (SCORES[:, :1], BINARY, "bce-with-logits", lambda o, t: F.binary_cross_entropy_with_logits(o[:, 0], t)),
        (SCORES[:, 0], LABELS % 2, "bce-with-logits", lambda o, t: F.binary_cross_entropy_with_logits(o, t.float())),
        (SCORES[:, :1].sigmoid(), BINARY, "bce", lambda o, t: F.binary_cross_entropy(o[:, 0], t)),
        (SCORES, (REAL > 0).float(), "bce-with-logits", F.binary_cross_entropy_with_logits),
        (SCORES, F.one_hot(LABELS).float(), "cross-entropy", F.cross_entropy),
        (SCORES.reshape(4, 4, 5), LABELS.reshape(4, 4), "cross-entropy", lambda o, t: F.cross_entropy(o.mT, t)),
        (torch.randn(2, 3, 4, 4), torch.randint(0, 3, (2, 4, 4)), "cross-entropy", F.cross_entropy),
        (torch.randn(2, 3, 4, 4), torch.randn(2, 3, 4, 4), "mse", F.mse_loss),
        ((SCORES, REAL), LABELS, "cross-entropy", lambda o, t: F.cross_entropy(o[0], t)),
        ({"logits": SCORES}, {"labels": LABELS}, "cross-entropy", lambda o, t: F.cross_entropy(SCORES, LABELS)),
        ({"loss": SCORES.sum(), "logits": SCORES}, None, "the model's own loss", lambda o, t: o["loss"]),
        (SCORES, torch.where(LABELS == 0, -100, LABELS), "cross-entropy", F.cross_entropy),
    ],
)
def test_losses_are_inferred_and_computed(output, targets, name, expected):
    inferred = infer_loss(output, targets)
    assert inferred.name == name
    assert inferred.reason
    assert float(inferred.function(output, targets)) == pytest.approx(float(expected(output, targets)), rel=1e-5)


@pytest.mark.parametrize(
    ("output", "targets"),
    [
        (SCORES, None),
        (SCORES[:, :3], LABELS),  # fewer outputs than classes
        (SCORES, LABELS - 1),  # a negative class
        (SCORES, torch.randn(N, 7)),
        (torch.randn(N, 9, 4), LABELS[:, None].expand(N, 3)),  # speech: two lengths
        (LABELS, LABELS),
        (None, LABELS),
    ],
)
def test_nothing_is_inferred_where_nothing_fits(output, targets):
    assert infer_loss(output, targets) is None


def test_probabilities_are_pointed_out():
    assert "pass loss= to be sure" in infer_loss(SCORES.softmax(1), LABELS).reason
    assert infer_loss(SCORES[:, :1], BINARY, kind="unit interval").name == "bce"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cross-entropy", F.cross_entropy),
        ("cross_entropy", F.cross_entropy),
        ("CrossEntropy", F.cross_entropy),
        ("multi-margin", F.multi_margin_loss),
        ("torch.nn.functional:cross_entropy", F.cross_entropy),
        ("torch.nn:CrossEntropyLoss", F.cross_entropy),
    ],
)
def test_losses_of_classes_by_name(name, expected):
    assert float(loss_named(name)(SCORES, LABELS)) == pytest.approx(float(expected(SCORES, LABELS)))


@pytest.mark.parametrize(
    ("name", "expected"), [("mse", F.mse_loss), ("l1", F.l1_loss), ("mae", F.l1_loss), ("huber", F.huber_loss)]
)
def test_losses_of_values_by_name(name, expected):
    assert float(loss_named(name)(SCORES, REAL)) == pytest.approx(float(expected(SCORES, REAL)))


def test_unknown_names_are_refused_with_a_guess():
    with pytest.raises(InputError, match="did you mean cross-entropy"):
        loss_named("cross-entrpy")
    with pytest.raises(InputError, match="did you mean adamw"):
        optimizer_named("adamww")
    with pytest.raises(InputError, match="lr = -1"):
        run_trial(mlp(), *digits(), F.cross_entropy, "adam", -1)
    with pytest.raises(InputError, match="optimizer is a int"):
        run_trial(mlp(), *digits(), F.cross_entropy, 3)


@pytest.mark.parametrize("name", ["adam", "AdamW", "sgd", "rmsprop", "adagrad", "NAdam", "lbfgs"])
def test_optimizers_by_name_train(name):
    trial = run_trial(mlp(), *digits(), F.cross_entropy, name, 1e-2, controls=False)
    assert trial.optimizer.lower() == name.lower()
    assert trial.rate == 1e-2
    assert trial.losses[-1] < trial.losses[0]
    assert not trial.unmoved


def groups(model):
    return [{"params": model[0].parameters(), "lr": 1e-3}, {"params": model[2:].parameters()}]


@pytest.mark.parametrize(
    "make",
    [
        lambda model: torch.optim.SGD(groups(model), lr=0.1, momentum=0.9, nesterov=True),
        lambda model: torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3),
        lambda model: torch.optim.AdamW(model.parameters(), lr=0.1, amsgrad=True),
    ],
    ids=["groups", "lbfgs", "amsgrad"],
)
def test_instances_are_made_again_with_all_their_options(make):
    model = mlp()
    optimizer = make(model)
    optimizer.step(lambda: F.cross_entropy(model(digits()[0]), digits()[1]))
    before = copy.deepcopy(model.state_dict())
    copied, _, again = OptimizerSpec(optimizer, None).copies(model, None)
    assert type(again) is type(optimizer)
    assert not again.state
    for group, other in zip(optimizer.param_groups, again.param_groups, strict=True):
        assert {k: v for k, v in group.items() if k != "params"} == {k: v for k, v in other.items() if k != "params"}
        assert all(any(p is q for q in copied.parameters()) for p in other["params"])
    again.zero_grad()
    again.step(lambda: _passed(copied, again))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not all(torch.equal(value, before[name]) for name, value in copied.state_dict().items())


def _passed(model, optimizer):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(digits()[0]), digits()[1])
    loss.backward()
    return loss


def test_rates_of_groups_keep_their_ratios():
    model = mlp()
    _, _, again = OptimizerSpec(torch.optim.SGD(groups(model), lr=0.1), 0.02).copies(model, None, factor=10.0)
    assert [group["lr"] for group in again.param_groups] == pytest.approx([0.002, 0.2])


def test_schedules_do_not_hide_the_rate_nor_step_the_user_s_optimizer():
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 100)  # warm-up: the rate is 0 now
    trial = run_trial(model, *digits(), F.cross_entropy, optimizer)
    assert trial.rate == 1e-2
    assert trial.outcome == "learns"
    assert optimizer.param_groups[0]["lr"] == 0


@pytest.mark.parametrize(
    "factory",
    [
        torch.optim.Adam,
        partial(torch.optim.Adam, betas=(0.8, 0.99)),
        lambda parameters: torch.optim.Adam(parameters),
        lambda model: torch.optim.Adam(model.parameters()),
    ],
    ids=["class", "partial", "of parameters", "of the model"],
)
def test_classes_and_factories(factory):
    trial = run_trial(mlp(), *digits(), F.cross_entropy, factory, controls=False)
    assert (trial.outcome, trial.optimizer, trial.assumed) == ("learns", "Adam", False)


def test_without_an_optimizer_adam_is_assumed():
    trial = run_trial(mlp(), *digits(), F.cross_entropy, controls=False)
    assert (trial.optimizer, trial.rate, trial.assumed) == ("Adam", 1e-3, True)


def test_an_optimizer_of_other_parameters_is_seen():
    """Made before the model was: nothing of the model is in it."""
    model, other = mlp(), mlp()
    trial = run_trial(model, *digits(), F.cross_entropy, torch.optim.Adam(other.parameters()))
    names = {name for name, _ in model.named_parameters()}
    assert set(trial.left_out) == set(trial.unmoved) == names
    assert trial.outcome == "flat"
    part = run_trial(model, *digits(), F.cross_entropy, torch.optim.Adam(model[4].parameters()), controls=False)
    assert set(part.left_out) == names - {"4.weight", "4.bias"}


def test_batches_have_all_classes_and_the_same_samples_for_a_seed():
    x, labels = torch.arange(1000.0)[:, None], torch.arange(1000) // 100
    batch = draw_batch(nn.Linear(1, 1), x, labels, 64, 0)
    counts = torch.bincount(batch.targets)
    assert (int(counts.min()), int(counts.max())) == (6, 7)
    assert torch.equal(batch.inputs.args[0][:, 0].long() // 100, batch.targets)
    again, other = (draw_batch(nn.Linear(1, 1), x, labels, 64, seed).inputs.args[0] for seed in (0, 1))
    assert torch.equal(again, batch.inputs.args[0])
    assert not torch.equal(other, again)


def test_rare_classes_are_in_the_batch():
    labels = torch.zeros(5000).long()
    labels[4321] = 1
    assert int(draw_batch(nn.Linear(1, 1), torch.zeros(5000, 1), labels, 64, 0).targets.sum()) == 1


def test_arrays_become_tensors_of_the_model_s_type():
    batch = draw_batch(nn.Linear(3, 1), np.zeros((4, 3)), np.zeros((4, 1)))
    assert batch.inputs.args[0].dtype == torch.float32
    assert isinstance(batch.targets, torch.Tensor)


def test_shares_are_one_at_the_lowest_loss():
    assert fall_share(2.0, 2.0, 0.5) == 0
    assert fall_share(0.5, 2.0, 0.5) == 1
    assert fall_share(3.0, 2.0, None) == -0.5
    assert fall_share(0.0, 0.0, 0.0) is None


def test_falling_flat_and_diverging_curves():
    noise = 0.02 * np.random.default_rng(0).normal(size=60)
    time = np.arange(60)
    assert still_falls(list(2 - 0.02 * time + noise), 0.5)
    assert not still_falls(list(2 + noise), 0.5)
    assert not still_falls(list(2 - 1e-5 * time), 0.5)  # in a hundred thousand steps
    assert still_falls(list(2 * np.exp(-time / 100)), 1.0)
    assert diverges([2.0, float("nan")], 2.0)
    assert diverges(list(2 * np.exp(time / 10)), 2.0)
    assert not diverges(list(2 + noise), 2.0)


def with_softmax():
    return mlp(nn.Softmax(1))


def test_candidates_are_ranked_and_ties_are_ties():
    torch.manual_seed(0)
    twin = mlp()
    candidates = {
        "before": Candidate(with_softmax(), loss=F.cross_entropy, optimizer=ADAM, lr=None),
        "no softmax": Candidate(twin),
        "the same": Candidate(copy.deepcopy(twin)),
        "two outputs": Candidate(mlp(outputs=2)),
        "larger rate": Candidate(twin, optimizer=torch.optim.Adam, lr=1e-2),
        "sampled": Candidate(lambda seed: torch.manual_seed(seed) and mlp()),
    }
    compared = compare_trials(candidates, *digits(), steps=40)
    assert compared.ranking[0] == "larger rate"
    assert compared.ranking[-1] == "two outputs"
    assert compared["no softmax"].shares == compared["the same"].shares
    assert compared.helps["no softmax"] is True
    assert compared.helps["two outputs"] is False
    assert "Target" in compared["two outputs"].reason
    assert compared.ties == ("larger rate",)
    assert compared["larger rate"].accuracy > 0.8
    assert [row["candidate"] for row in compared.table()] == list(compared.ranking)
    equal = compare_trials({"a": Candidate(twin, loss=F.cross_entropy), "b": Candidate(twin)}, *digits(), steps=20)
    assert equal.helps == {"b": None}
    assert equal.ties == ("a", "b")


def test_comparisons_need_a_model():
    with pytest.raises(InputError, match="the first needs a model"):
        compare_trials({"a": Candidate()}, *digits())


def test_candidates_may_bring_other_inputs_of_the_same_samples():
    x, labels = digits()
    deep_tanh = mlp(activation=nn.Tanh)
    compared = compare_trials(
        {"pixels of 255": Candidate(deep_tanh, loss=F.cross_entropy), "scaled": Candidate(inputs=x)},
        1e4 * x,
        labels,
        steps=40,
    )
    assert set(compared.helps) == {"scaled"}
    assert compared.samples == 64


def test_a_rate_without_an_optimizer_is_that_of_adam_and_judged():
    trial = run_trial(mlp(), *digits(), F.cross_entropy, None, 1e-7, controls=False)
    assert (trial.optimizer, trial.rate, trial.assumed) == ("Adam", 1e-7, False)
    assert trial.suggested_rate > 1e-5


def test_an_optimizer_is_named_by_a_function(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("import torch\ndef small(p):\n    return torch.optim.SGD(p, lr=0.25)\n", encoding="utf-8")
    model, _, optimizer = OptimizerSpec(f"{path}:small", None).copies(mlp(), None)
    assert optimizer.param_groups[0]["lr"] == 0.25
    assert len(optimizer.param_groups[0]["params"]) == len(list(model.parameters()))
    with pytest.raises(InputError, match=r"unknown.*module:function"):
        optimizer_named("adma")


def test_an_optimizer_of_a_factory_that_leaves_out_parameters_is_seen():
    model = mlp()
    trial = run_trial(model, *digits(), F.cross_entropy, lambda m: torch.optim.Adam(m[4].parameters()), controls=False)
    assert set(trial.left_out) == {name for name, _ in model.named_parameters()} - {"4.weight", "4.bias"}


@pytest.mark.parametrize(
    "optimizer", [partial(torch.optim.AdamW, weight_decay=100.0, lr=1e-2), partial(torch.optim.SGD, momentum=1.2)]
)
def test_adam_without_options_learns_where_the_options_keep_a_model_from_it(optimizer):
    trial = run_trial(mlp(), *digits(), F.cross_entropy, optimizer, 1e-2, controls=False)
    assert trial.outcome in ("flat", "diverges")
    assert trial.learn is None or trial.learn < 0.5
    assert trial.plain >= 0.5


def test_without_options_is_not_tried_where_the_optimizer_learns():
    assert run_trial(mlp(), *digits(), F.cross_entropy, ADAM, controls=False).plain is None


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_steps_are_those_of_torchs_own_up_to_rounding(kind):
    """They are taken by one fused kernel, which is faster; complex weights, which it refuses, tensor by tensor.

    Thirty steps of .01 move each weight by .1 and more, so that another rate or weight decay would show.
    """
    model = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))
    x = torch.randn(N, 5, generator=torch.Generator().manual_seed(2))
    copied, _, optimizer = OptimizerSpec(kind, 0.01).copies(model, None)
    assert optimizer.param_groups[0]["fused"] is True
    expected = kind(model.parameters(), lr=0.01, foreach=False)
    for _ in range(30):
        for network, steps in ((model, expected), (copied, optimizer)):
            steps.zero_grad()
            network(x).square().sum().backward()
            steps.step()
    for ours, theirs in zip(copied.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    waves = OptimizerSpec(kind, 0.01).copies(nn.Linear(2, 2, dtype=torch.complex64), None)[2]
    assert waves.param_groups[0]["fused"] is None
