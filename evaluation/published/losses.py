"""Losses ``loss(output, targets)`` of the published architectures: means over samples and positions."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

cross_entropy = F.cross_entropy
squares = F.mse_loss


def next_word(logits: Tensor, words: Tensor) -> Tensor:
    """Cross-entropy at every place of a sequence, ``[n, places, words]``."""
    return F.cross_entropy(logits.flatten(0, 1), words.flatten())


def both_heads(outputs: tuple[Tensor, Tensor], targets: Tensor) -> Tensor:
    """Mean cross-entropy of two heads, the teacher of the second being right (Touvron et al. 2021, eq. 3)."""
    return (F.cross_entropy(outputs[0], targets) + F.cross_entropy(outputs[1], targets)) / 2


def contrastive(outputs: tuple[Tensor, Tensor], same: Tensor) -> Tensor:
    """Distances of equal pairs, and what others are nearer than 1 (Hadsell et al. 2006)."""
    distance = (outputs[0] - outputs[1]).square().sum(1).add(1e-12).sqrt()
    return (same * distance.square() + (1 - same) * F.relu(1 - distance).square()).mean()


def likelihood(outputs: tuple[Tensor, Tensor], _: Tensor) -> Tensor:
    """Negative log-likelihood of a flow to a standard normal, per dimension."""
    code, log_determinant = outputs
    return (code.square().sum(1) / 2 - log_determinant).mean() / code.shape[1]


def evidence_bound(outputs: tuple[Tensor, Tensor, Tensor], targets: Tensor) -> Tensor:
    """Squares of the reconstruction and the divergence of the code from a standard normal (Kingma, Welling 2014)."""
    image, mean, log_variance = outputs
    divergence = (mean.square() + log_variance.exp() - 1 - log_variance).sum(1) / 2
    return F.mse_loss(image, targets.view_as(image)) + divergence.mean() / targets[0].numel()


def is_real(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of one logit with the first class for true."""
    return F.binary_cross_entropy_with_logits(logits.flatten(), (targets == 0).float())
