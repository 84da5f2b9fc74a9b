"""Norms of activations and of weight gradients of a dense ReLU network, layer by layer and sample by sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from initscope.errors import InputError

__all__ = ["NormRatios", "norm_ratios"]


class NormRatios(NamedTuple):
    """Ratios of norms (not squared), one row per layer, one column per sample."""

    activations: torch.Tensor
    gradients: torch.Tensor
    errors: torch.Tensor


@torch.no_grad()
def norm_ratios(
    layers: Sequence[torch.Tensor], head: torch.Tensor, inputs: torch.Tensor, labels: torch.Tensor
) -> NormRatios:
    r"""Run the forward and backward pass of a ReLU network with a softmax head and return ratios of norms.

    Parameters
    ----------
    layers
        Weight matrices :math:`W^1, \dots, W^L`, (out, in) as in ``torch.nn.Linear``.
    head
        Weights of the linear layer before the softmax, (classes, width of the last layer).
    inputs, labels
        Samples as rows, and the class of each, for the cross-entropy.

    Returns
    -------
    NormRatios
        :math:`\|h^l\|/\|x\|`, :math:`\|\partial\ell/\partial W^l\|_F/(\|\delta\|\|x\|)` and
        :math:`\|\partial\ell/\partial a^l\|/\|\delta\|` with :math:`\delta = \partial\ell/\partial a^L`. The
        gradient of one sample is an outer product, so its norm is :math:`\|\partial\ell/\partial a^l\|\,\|h^{l-1}\|`
        ([ArpitBengio2019]_ eq. 19): no gradient is formed.

    >>> identity = torch.eye(2)
    >>> norm_ratios([identity, identity], identity, torch.tensor([[3.0, 4.0]]), torch.tensor([0])).activations
    tensor([[1.],
            [1.]])
    """
    if inputs.ndim != 2 or not layers or layers[0].shape[1] != inputs.shape[1]:
        raise InputError(
            f"inputs of shape {tuple(inputs.shape)} must be (samples, features), as the first layer expects"
        )
    hidden, masks, norms = inputs, [], [inputs.norm(dim=1)]
    for weight in layers:
        hidden = (hidden @ weight.T).relu_()
        masks.append(hidden > 0)
        norms.append(hidden.norm(dim=1))
    error = torch.softmax(hidden @ head.T, dim=1)
    error[torch.arange(len(labels)), labels] -= 1
    error = (error @ head).mul_(masks[-1])
    delta = error.norm(dim=1)
    errors = []
    for layer in reversed(range(len(layers))):
        errors.append(error.norm(dim=1) / delta)
        if layer:
            error = (error @ layers[layer]).mul_(masks[layer - 1])
    forward, backward = torch.stack(norms), torch.stack(errors[::-1])
    return NormRatios(forward[1:] / forward[0], backward * forward[:-1] / forward[0], backward)
