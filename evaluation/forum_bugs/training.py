"""Bugs around the model: heads and losses, labels, inputs, learning rate and optimizer."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evaluation.forum_bugs.networks import FLAT, IMAGES, cnn, perceptron
from evaluation.programs import Case, Data, Program
from evaluation.samples import changed, class_table, smooth_table
from evaluation.scores import above, accuracy, r2

SGD = torch.optim.SGD


def shuffled(data: Data) -> Data:
    """Return the data with its targets in a random order."""

    def shuffled_data(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        inputs, targets = data(count, generator)
        return inputs, targets[torch.randperm(count, generator=generator)]

    return shuffled_data


def digit_network(*head: nn.Module) -> nn.Module:
    """Return a perceptron of one seed; ReLU switches logits off for good in some initializations only."""
    torch.manual_seed(2)
    return nn.Sequential(perceptron(64, 64), *head)


def with_head(head: nn.Module, data: Data = FLAT, **options: object) -> Program:
    """Return a perceptron on digits that ends in ``head``."""
    return Program(lambda: nn.Sequential(perceptron(64, 64), head), data, **options)


def binary(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return a table and a rare class, as a column: 1 in 20."""
    values, score = smooth_table(16)(count, generator)
    return values, (score > 0.6).float()


LOGITS = Program(lambda: perceptron(64, 64), FLAT)
TABLE = Program(lambda: perceptron(64, 64, inputs=16, outputs=1), smooth_table(16), F.mse_loss, steps=300)
COLUMN = changed(class_table(16, 2), targets=lambda labels: labels.float()[:, None])
FLAT_TARGETS = changed(smooth_table(16), targets=lambda values: values[:, 0])

CASES = (
    Case("double_softmax", ("output activation", "loss"),
         replace(with_head(nn.Softmax(1)), steps=60), replace(LOGITS, steps=60), accuracy,
         note="softmax before cross-entropy"),
    Case("softmax_over_the_batch", ("axis", "output activation"),
         with_head(nn.LogSoftmax(0), loss=F.nll_loss), with_head(nn.LogSoftmax(1), loss=F.nll_loss), accuracy,
         hurts=False, note="log_softmax over the samples"),
    Case("relu_on_logits", ("output activation",),
         Program(lambda: digit_network(nn.ReLU()), FLAT), Program(digit_network, FLAT), accuracy,
         note="ReLU on the logits"),
    Case("raw_logits_in_nll_loss", ("loss",),
         replace(LOGITS, loss=F.nll_loss), LOGITS, accuracy, note="nll_loss of logits has no lower bound"),
    Case("sigmoid_before_bce_with_logits", ("output activation", "loss"),
         Program(lambda: nn.Sequential(perceptron(32, inputs=16, outputs=1), nn.Sigmoid()), binary,
                 F.binary_cross_entropy_with_logits, predict=torch.sigmoid),
         Program(lambda: perceptron(32, inputs=16, outputs=1), binary, F.binary_cross_entropy_with_logits,
                 predict=torch.sigmoid),
         above(0.5),
         note="a sigmoid before a loss that has its own"),
    Case("targets_broadcast", ("loss", "labels"),
         replace(TABLE, data=FLAT_TARGETS, truth=smooth_table(16)), TABLE, r2,
         note="outputs [N, 1] against targets [N]: the loss compares all with all"),
    Case("shuffled_labels", ("labels",),
         replace(LOGITS, data=shuffled(FLAT), truth=FLAT, lr=3e-3, steps=300), replace(LOGITS, lr=3e-3, steps=300),
         accuracy, note="images and labels are shuffled separately"),
    Case("bytes_into_tanh", ("input scale",),
         Program(lambda: perceptron(64, 64, inputs=16, outputs=4, act=nn.Tanh),
                 changed(class_table(), lambda values: (128 + 50 * values).clamp(0, 255))),
         Program(lambda: perceptron(64, 64, inputs=16, outputs=4, act=nn.Tanh), class_table()),
         accuracy, note="inputs of 0 to 255 saturate tanh"),
    Case("tanh_for_large_targets", ("output activation", "target scale"),
         Program(lambda: nn.Sequential(perceptron(64, inputs=16, outputs=1), nn.Tanh()), smooth_table(16, scale=30),
                 F.mse_loss, lr=0.01, steps=300),
         Program(lambda: perceptron(64, inputs=16, outputs=1), smooth_table(16, scale=30), F.mse_loss, lr=0.01,
                 steps=300),
         r2, note="tanh output for targets of ±30"),
    Case("learning_rate_ten", ("learning rate",),
         replace(LOGITS, optimizer=SGD, lr=10.0), replace(LOGITS, optimizer=SGD, lr=0.3), accuracy,
         note="SGD with a rate of 10"),
    Case("learning_rate_millionth", ("learning rate",),
         replace(LOGITS, lr=1e-6), LOGITS, accuracy, note="Adam with a rate of 1e-6"),
    Case("weight_decay_of_hundred", ("optimizer",),
         replace(LOGITS, optimizer=lambda parameters, lr: torch.optim.AdamW(parameters, lr=lr, weight_decay=100.0)),
         replace(LOGITS, optimizer=lambda parameters, lr: torch.optim.AdamW(parameters, lr=lr, weight_decay=0.01)),
         accuracy, note="AdamW with a weight decay of 100"),
    Case("ascent", ("optimizer", "loss"),
         Program(cnn, IMAGES, lambda logits, labels: -F.cross_entropy(logits, labels), steps=60),
         Program(cnn, IMAGES, steps=60), accuracy, note="the sign of the loss is wrong"),
)  # fmt: skip
