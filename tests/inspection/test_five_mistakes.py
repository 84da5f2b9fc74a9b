"""Mistakes that practitioners make: each is shown with its level and a fix that a trial saw to help."""

import re
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import initscope


@pytest.fixture(scope="module")
def digits():
    data = initscope.data.load("digits").take(160)
    images = torch.as_tensor(data.images)
    return (images - images.mean()) / images.std(), torch.as_tensor(data.labels).long()


def cnn(*end):
    torch.manual_seed(0)
    convolutions = [
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
    ]
    return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 10), *end)


def mlp(*sizes):
    torch.manual_seed(0)
    layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), *layers[:-1])


def inspect(model, digits, **options):
    images, labels = digits
    return initscope.inspect(model, images, **({"targets": labels, "pairs": 64, "prediction": False} | options))


def names(findings):
    return {finding.name for finding in findings}


def test_small_weights_relu_logits_and_a_softmax_before_cross_entropy(digits):
    model = cnn(nn.ReLU(), nn.Softmax(1))
    for module in model:
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            nn.init.normal_(module.weight, std=0.01)
    report = inspect(model, digits, loss=F.cross_entropy)
    assert report.errors[0].name == "loss-floor"
    assert {"collapse", "vanishing"} & names((*report.errors, *report.warnings))
    assert report.fix is not None
    alone = inspect(model, digits, targets=None)
    assert alone.healthy is (not alone.errors)
    assert "probability-output" in names(alone.warnings)
    assert "No problems found" not in alone.headline


def test_targets_in_another_order_and_a_rate_that_is_off(digits):
    labels = digits[1]
    shuffled = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))]
    options = {"optimizer": "adam", "lr": 3e-3}
    assert "shuffled-targets" in names(inspect(mlp(64, 128, 128, 10), digits, targets=shuffled, **options).errors)
    assert not inspect(mlp(64, 128, 128, 10), digits, **options).errors
    high = inspect(mlp(64, 32, 10), digits, optimizer=torch.optim.SGD, lr=300.0)
    assert high.errors[0].name == "learning-rate-high"
    assert 0 < high.trial.suggested_rate < 300
    assert high.fix.code.startswith("lr = ")


def test_xor_is_judged_by_head_and_trial_where_angles_mean_nothing():
    corners = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]).repeat(16, 1)
    wanted = (corners.sum(1) == 1).float()[:, None]
    options = {"targets": wanted, "loss": F.binary_cross_entropy, "pairs": 32, "prediction": False, "lr": 0.03}
    torch.manual_seed(0)
    wrong = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1), nn.Softmax(1))
    right = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1), nn.Sigmoid())
    report = initscope.inspect(wrong, corners, **options)
    assert report.errors[0].name == "softmax-single"
    assert "sigmoid" in report.fix.advice
    assert not initscope.inspect(right, corners, **options).errors


class Lit(nn.Module):
    """Stands for a LightningModule: forward, and a training_step with its own loss."""

    def __init__(self, net, loss):
        super().__init__()
        self.net, self.loss = net, loss

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, index):
        inputs, labels = batch
        return {"loss": self.loss(self(inputs), labels)}


@pytest.mark.parametrize(("end", "found"), [((nn.Softmax(1),), True), ((), False)])
def test_the_training_step_of_a_lightning_module_is_its_loss(digits, end, found):
    report = inspect(Lit(nn.Sequential(mlp(64, 32, 10), *end), F.cross_entropy), digits)
    assert report.facts.loss_name == "the training_step of the module"
    assert ("loss-floor" in names(report.errors)) is found
    assert report.trial.losses


NETWORKS = """
import torch
from torch import nn


def mlp(*sizes):
    torch.manual_seed(0)
    layers = [part for a, b in zip(sizes, sizes[1:]) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), *layers[:-1])


def small_weights():
    model = mlp(64, 64, 64, 64, 64, 10)
    for module in model[1::2]:
        nn.init.normal_(module.weight, std=0.01)
    return model


def softmax():
    return mlp(64, 32, 10).append(nn.Softmax(1))


def parallel():
    return nn.DataParallel(mlp(64, *[64] * 24, 10))


def dropout():
    model = mlp(64, 64, 10)
    model.insert(3, nn.Dropout(0.99))
    return model


def frozen():
    model = mlp(64, 32, 32, 32, 10)
    model[:6].requires_grad_(False)
    return model
"""
MISTAKES = {
    "small_weights": ("", "error", "IS103", "Inputs become indistinguishable at", "initscope.initializers."),
    "softmax": ("cross-entropy", "error", "IS201", "probabilities", 'model.set_submodule("4", torch.nn.Identity())'),
    "softmax, no loss": ("", "warning", "IS208", "probabilities", "loss="),
    "parallel": ("", "error", "IS103", "of 25 (Linear", "initscope.initializers."),
    "dropout": ("", "error", "IS810", "drops 99 % of the values", 'model.get_submodule("3").p = 0.01'),
    "frozen": ("", "error", "IS309", "requires no gradient", "model.requires_grad_(True)"),
}
"""By name of the network: the loss that is given, and the level, code, message and fix of the finding."""


@pytest.mark.parametrize("name", MISTAKES)
def test_each_mistake_has_one_level_code_message_and_fix_in_python_and_on_the_command_line(name, tmp_path, capsys):
    from initscope.cli import main

    loss, level, code, message, fix = MISTAKES[name]
    (tmp_path / "nets.py").write_text(NETWORKS, encoding="utf-8")
    scope = {}
    exec(NETWORKS, scope)
    model, data = scope[name.partition(",")[0]](), initscope.data.load("digits", limit=160)
    options = {"loss": F.cross_entropy, "targets": torch.as_tensor(data.labels).long()} if loss else {}
    report = initscope.inspect(model, data.images if loss else data, pairs=64, prediction=False, **options)
    finding = next(item for item in report.findings if item.code == code)
    assert (finding.level, finding.caused_by) == (level, None)
    assert {item.caused_by for item in report.errors} <= {None, code}
    assert level == "warning" or (report.fix.helped and report.fix.after > report.fix.before)
    assert message in finding.message
    assert fix in f"{finding.fix.code} {finding.fix.advice}"
    assert re.match(r"\d+ (error|warning)", report.headline)
    command = ["inspect", f"{tmp_path / 'nets.py'}:{name.partition(',')[0]}", "--data", "digits", "--limit", "160",
               "--pairs", "64", "--no-prediction"]  # fmt: skip
    if loss:
        import numpy as np

        np.save(tmp_path / "labels.npy", data.labels)
        command += ["--loss", loss, "--targets", str(tmp_path / "labels.npy")]
    main(command)
    shown = capsys.readouterr().out
    assert shown.startswith(report.headline)
    assert f"{level}: {code} {finding.name}" in shown
    assert finding.message in shown
    assert f"fix: {finding.fix.code or finding.fix.advice}" in shown


def test_equal_filters_are_an_error_although_the_batch_is_learned(digits):
    model = cnn()
    for layer in (model[0], model[2]):
        nn.init.constant_(layer.weight, 0.02)
    report = inspect(model, digits, loss=F.cross_entropy, optimizer="adam", lr=1e-3)
    found = {finding.name: finding for finding in report.findings}["equal-units"]
    assert found.level == "error"
    assert found.fix.helped
    assert "['0', '2']" in found.fix.code


class LowRank(nn.Module):
    def __init__(self, units):
        super().__init__()
        self.frozen = nn.Linear(units, units).requires_grad_(False)
        self.down, self.up = nn.Linear(units, 4, bias=False), nn.Linear(4, units, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, values):
        return self.frozen(values) + self.up(self.down(values))


def test_frozen_layers_next_to_adapters_are_no_error_although_unfrozen_ones_learn_faster(digits):
    torch.manual_seed(0)
    layers = [LowRank(64), nn.ReLU(), LowRank(64), nn.ReLU(), nn.Linear(64, 10)]
    report = inspect(nn.Sequential(nn.Flatten(), *layers), digits, loss=F.cross_entropy, optimizer="adam", lr=3e-3)
    assert not report.errors


def test_a_layer_that_is_skipped_at_random_is_not_detached(digits):
    torch.manual_seed(0)

    class Skipping(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.middle, self.head = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10)

        def forward(self, images):
            values = self.first(images.flatten(1)).relu()
            kept = not self.training or float(torch.rand(())) < 0.5
            return self.head(self.middle(values).relu() if kept else values)

    for seed in range(6):
        torch.manual_seed(seed)
        report = inspect(Skipping(), digits, loss=F.cross_entropy, trial=False, alternatives=False)
        assert not report.errors


@pytest.mark.parametrize("seed", range(3))
def test_noisy_targets_are_not_taken_for_shuffled_ones(seed):
    draws = torch.Generator().manual_seed(seed)
    values = torch.randn(128, 8, generator=draws)
    targets = values[:, :1] + 1.4 * torch.randn(128, 1, generator=draws)
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    options = {"loss": F.mse_loss, "optimizer": "adam", "lr": 3e-3, "pairs": 64, "prediction": False}
    assert not initscope.inspect(model, values, targets=targets, **options).errors
