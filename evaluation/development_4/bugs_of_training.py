"""Bugs around models: losses, heads, targets, inputs, optimizers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evaluation.development_4.bugs_of_models import cnn, mlp, program
from evaluation.development_4.data import byte_images, house_prices, shapes
from evaluation.programs import Case, Data
from evaluation.samples import changed, class_table, digits, smooth_table
from evaluation.scores import above, accuracy, r2

TABLE, FLAT, CURVE = class_table(16, 4), digits(flat=True), smooth_table(16)
CLASSES = program(lambda: mlp(16, 64, 4), TABLE, lr=3e-3)
DIGITS = program(lambda: mlp(64, 64, 10), FLAT, lr=3e-3)
VALUES = program(lambda: mlp(16, 64, 1), CURVE, F.mse_loss, lr=3e-3, steps=300)
BINARY = changed(class_table(16, 2), targets=lambda labels: labels.float()[:, None])
SIGNS = program(lambda: mlp(16, 64, 1), BINARY, F.binary_cross_entropy_with_logits, lr=3e-3, predict=torch.sigmoid)
MASKS = program(lambda: nn.Sequential(nn.Conv2d(1, 16, 3, 1, 1), nn.ReLU(), nn.Conv2d(16, 1, 3, 1, 1)), shapes,
                F.binary_cross_entropy_with_logits, lr=3e-3, predict=torch.sigmoid, samples=128, steps=100)  # fmt: skip


def columns_sorted(data: Data) -> Data:
    """Return data whose columns are each sorted over the samples."""
    return changed(data, inputs=lambda values: values.sort(0).values)


def unrelated(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return a table with a column of random classes in the place of the targets."""
    values, _ = TABLE(count, generator)
    return values, torch.randint(4, (count,), generator=generator)


def whole_share(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return byte images divided by 255 as whole numbers, which leaves zeros."""
    images, labels = byte_images(count, generator)
    return (images // 256).float(), labels


def hinge(output: Tensor, labels: Tensor) -> Tensor:
    return (1 - output * (2 * labels - 1)).clamp_min(0).mean()


def wrong_hinge(output: Tensor, labels: Tensor) -> Tensor:
    return (1 - output * labels).clamp_min(0).mean()


def weighted(weights: list[float]) -> Any:
    def weighted_cross_entropy(output: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(output, labels, weight=torch.tensor(weights))

    return weighted_cross_entropy


def summed(output: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(output, labels, reduction="sum")


def only_head(parameters: Any, lr: float) -> torch.optim.Optimizer:
    return torch.optim.Adam(list(parameters)[-2:], lr=lr)


def sgd(**options: Any) -> Any:
    return lambda parameters, lr: torch.optim.SGD(parameters, lr=lr, **options)


def ending(*end: nn.Module) -> Any:
    return lambda: mlp(16, 64, 1, end=end)


def deep_tanh() -> nn.Module:
    model = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.Tanh())], nn.Linear(64, 10))
    for layer in model[::2][:-1]:
        nn.init.normal_(layer.weight, std=0.6)
    return model


CASES = (
    Case(
        "labels_from_one",
        ("labels",),
        replace(CLASSES, data=changed(TABLE, targets=lambda y: y + 1), truth=TABLE),
        CLASSES,
        accuracy,
        accepted=("IS205",),
        refused="",
        note="classes are counted from 1, and there is no output for the last",
    ),
    Case(
        "two_outputs_for_four_classes",
        ("labels", "loss"),
        replace(CLASSES, build=lambda: mlp(16, 64, 2)),
        CLASSES,
        accuracy,
        accepted=("IS205",),
        note="fewer outputs than classes",
    ),
    Case(
        "one_output_for_four_classes",
        ("output activation", "loss", "labels"),
        program(
            lambda: mlp(16, 64, 1, end=(nn.Sigmoid(),)),
            changed(TABLE, targets=lambda y: y.float()[:, None]),
            F.binary_cross_entropy,
            lr=3e-3,
            truth=TABLE,
            predict=lambda y: F.one_hot(y.round().long()[:, 0], 4).float(),
        ),
        CLASSES,
        accuracy,
        accepted=("IS205",),
        note="one sigmoid and binary cross-entropy for four classes",
    ),
    Case(
        "sigmoid_for_standardized_targets",
        ("output activation",),
        replace(VALUES, build=ending(nn.Sigmoid())),
        VALUES,
        r2,
        note="a sigmoid output for targets of both signs",
    ),
    Case(
        "relu_for_negative_targets",
        ("output activation",),
        replace(VALUES, build=ending(nn.ReLU()), data=changed(CURVE, targets=lambda y: y - 2)),
        replace(VALUES, data=changed(CURVE, targets=lambda y: y - 2)),
        r2,
        note="a ReLU output for negative targets",
    ),
    Case(
        "masks_of_255",
        ("loss", "target scale", "output activation"),
        replace(MASKS, data=changed(shapes, targets=lambda y: 255 * y), truth=shapes),
        MASKS,
        above(0.5),
        note="masks of 0 and 255 for binary cross-entropy",
    ),
    Case(
        "hinge_of_zeros",
        ("loss", "labels"),
        replace(SIGNS, loss=wrong_hinge),
        replace(SIGNS, loss=hinge),
        above(0.5),
        accepted=("IS211",),
        note="a hinge loss with labels 0 and 1 instead of -1 and 1",
    ),
    Case(
        "weights_of_zero",
        ("loss", "labels"),
        replace(CLASSES, loss=weighted([1.0, 0.0, 0.0, 0.0])),
        CLASSES,
        accuracy,
        accepted=("IS211", "IS605"),
        note="three of four classes have weight 0",
    ),
    Case(
        "all_ignored",
        ("labels", "not finite", "loss"),
        replace(CLASSES, data=changed(TABLE, targets=lambda y: 0 * y - 100), truth=TABLE),
        CLASSES,
        accuracy,
        accepted=("IS205", "IS211"),
        note="all labels have the ignored index",
    ),
    Case(
        "kl_of_probabilities",
        ("loss",),
        program(
            lambda: mlp(16, 64, 4, end=(nn.Softmax(1),)),
            TABLE,
            lambda p, y: F.kl_div(p, F.one_hot(y, 4).float()),
            lr=3e-3,
        ),
        program(
            lambda: mlp(16, 64, 4, end=(nn.LogSoftmax(1),)),
            TABLE,
            lambda p, y: F.kl_div(p, F.one_hot(y, 4).float()),
            lr=3e-3,
        ),
        accuracy,
        note="kl_div takes log-probabilities and gets probabilities",
        hurts=False,
    ),
    Case(
        "columns_of_many_units",
        ("input scale",),
        replace(VALUES, build=lambda: mlp(5, 64, 64, 1), data=house_prices),
        replace(
            VALUES, build=lambda: mlp(5, 64, 64, 1), data=changed(house_prices, lambda x: (x - x.mean(0)) / x.std(0))
        ),
        r2,
        note="a column of about 1e5 next to columns of about 1",
    ),
    Case(
        "divided_twice",
        ("input scale",),
        program(cnn, changed(byte_images, lambda x: x / 255**2), lr=1e-3, steps=60),
        program(cnn, changed(byte_images, lambda x: (x - 128) / 50), steps=60),
        accuracy,
        hurts=False,
        note="images are divided by 255 twice, and a batch norm makes up for it",
    ),
    Case(
        "divided_twice_without_norm",
        ("input scale",),
        replace(DIGITS, data=digits(flat=True, scale=1 / 65025)),
        DIGITS,
        accuracy,
        note="inputs are divided by 255 twice",
    ),
    Case(
        "whole_division",
        ("ignored input", "input scale"),
        program(cnn, whole_share, steps=60),
        program(cnn, changed(byte_images, lambda x: (x - 128) / 50), steps=60),
        accuracy,
        note="// instead of / leaves only zeros",
    ),
    Case(
        "sorted_columns",
        ("labels",),
        replace(CLASSES, data=columns_sorted(TABLE), truth=TABLE),
        CLASSES,
        accuracy,
        note="each column is sorted, so that rows and targets do not belong together",
    ),
    Case(
        "unrelated_column",
        ("labels",),
        replace(CLASSES, data=unrelated, truth=TABLE),
        CLASSES,
        accuracy,
        note="the targets are a column that has nothing to do with the inputs",
    ),
    Case(
        "shuffled_values",
        ("labels",),
        replace(VALUES, data=changed(CURVE, targets=lambda y: y.roll(7, 0)), truth=CURVE),
        VALUES,
        r2,
        note="inputs and real-valued targets are in different orders",
    ),
    Case(
        "adam_at_one",
        ("learning rate",),
        replace(DIGITS, lr=1.0),
        DIGITS,
        accuracy,
        note="Adam with a learning rate of 1",
    ),
    Case(
        "sgd_at_1e_5",
        ("learning rate",),
        replace(DIGITS, optimizer=sgd(), lr=1e-5),
        replace(DIGITS, optimizer=sgd(), lr=0.3),
        accuracy,
        note="SGD with a learning rate of 1e-5",
    ),
    Case(
        "summed_loss",
        ("learning rate", "loss"),
        replace(DIGITS, optimizer=sgd(momentum=0.9), loss=summed, lr=0.3, steps=60),
        replace(DIGITS, optimizer=sgd(momentum=0.9), lr=0.1, steps=60),
        accuracy,
        note="a loss summed over the batch at a rate for its mean",
    ),
    Case(
        "momentum_of_one",
        ("optimizer", "learning rate"),
        replace(DIGITS, optimizer=sgd(momentum=1.05), lr=0.1, steps=100),
        replace(DIGITS, optimizer=sgd(momentum=0.9), lr=0.1, steps=100),
        accuracy,
        note="momentum of 1.05",
    ),
    Case(
        "optimizer_holds_the_head",
        ("frozen", "optimizer"),
        program(deep_tanh, FLAT, lr=3e-3, optimizer=only_head),
        program(deep_tanh, FLAT, lr=3e-3),
        accuracy,
        accepted=("IS409",),
        note="the optimizer gets only the last layer of a random network",
    ),
    Case(
        "clamped_output",
        ("output activation",),
        replace(VALUES, build=ending(nn.Hardtanh(0.0, 0.1))),
        VALUES,
        r2,
        note="outputs are clamped to [0, 0.1]",
    ),
    Case(
        "dropout_on_the_output",
        ("dropout", "output activation"),
        replace(VALUES, build=ending(nn.Dropout(0.5))),
        VALUES,
        r2,
        accepted=("IS201",),
        note="dropout after the last layer of a regression",
    ),
    Case(
        "targets_in_millions",
        ("target scale", "learning rate"),
        replace(
            VALUES,
            data=changed(CURVE, targets=lambda y: 3e6 + 1e6 * y),
            truth=changed(CURVE, targets=lambda y: 3e6 + 1e6 * y),
        ),
        VALUES,
        r2,
        note="targets of millions",
    ),
    Case(
        "softmax_for_values",
        ("output activation", "loss"),
        replace(VALUES, build=ending(nn.Softmax(1))),
        VALUES,
        r2,
        note="a softmax over one real-valued output",
    ),
)
