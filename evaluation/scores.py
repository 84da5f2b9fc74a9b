"""Scores of predictions, higher is better; each treats values that are not finite as a wrong prediction."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Score = Callable[[Tensor, Tensor], float]


def accuracy(scores: Tensor, labels: Tensor) -> float:
    """Return the share of samples (or positions) whose largest score in the last axis is at the label."""
    return (scores.nan_to_num(-1e30).argmax(-1) == labels).double().mean().item()


def channel_accuracy(scores: Tensor, labels: Tensor) -> float:
    """Return the share of positions whose largest score over axis 1 is at the label."""
    return (scores.nan_to_num(-1e30).argmax(1) == labels).double().mean().item()


def above(threshold: float) -> Score:
    """Return the accuracy of ``prediction > threshold`` against targets of 0 and 1."""

    def score(prediction: Tensor, labels: Tensor) -> float:
        guess = prediction.reshape(labels.shape) > threshold
        return (guess == (labels > 0.5)).double().mean().item()

    return score


def r2(prediction: Tensor, targets: Tensor) -> float:
    """Return the share of the variance of the targets that is explained, at least -1."""
    targets = targets.double()
    prediction = prediction.double().reshape(targets.shape)
    spread = (targets - targets.mean(0)).square().mean()
    share = 1 - (prediction - targets).square().mean() / spread
    return max(-1.0, torch.nan_to_num(share, nan=-1.0, neginf=-1.0).item())


def negative(loss: Callable[..., Tensor]) -> Callable[..., float]:
    """Return minus a loss, at least -100."""

    def score(prediction: Tensor, targets: Tensor) -> float:
        return max(-100.0, torch.nan_to_num(-loss(prediction, targets), nan=-100.0, neginf=-100.0).item())

    return score
