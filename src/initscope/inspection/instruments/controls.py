"""Controls of a trial: permuted targets, constant inputs, and a linear readout of the inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from initscope._utils.randomness import generator
from initscope.graph import Batch, map_tensors, named_tensors
from initscope.inspection.instruments.free_output import FreeOutput
from initscope.inspection.instruments.outputs import Loss

__all__ = ["constant_inputs", "permuted_targets", "readout_loss", "shuffled_inputs"]

_LABELS = frozenset({"labels", "label", "targets", "target", "start_positions", "end_positions", "class_labels"})
"""Arguments that are targets, not inputs, of models that compute their own loss."""
_LARGEST_READOUT = 1 << 24
"""Number of input values up to which a readout is fitted."""
_RANK = 1e-6
"""Singular values of the inputs below this share of the largest count as zero."""


def permuted_targets(batch: Batch, seed: int) -> Batch | None:
    """Return the batch with the targets permuted; None if it is unknown which tensors are targets."""
    index, count = _permutation(batch, seed), len(batch)

    def permute(tensor: Tensor) -> Tensor:
        return tensor[index.to(tensor.device)] if tensor.dim() and len(tensor) == count else tensor

    if batch.targets is not None:
        return replace(batch, targets=map_tensors(batch.targets, permute))
    return _changed(batch, permute, of_labels=True)


def shuffled_inputs(batch: Batch, seed: int) -> Batch | None:
    """Return the batch with the inputs permuted; None if it is unknown which tensors are targets."""
    index = _permutation(batch, seed)
    return _changed(batch, lambda tensor: tensor[index.to(tensor.device)], of_labels=False)


def constant_inputs(batch: Batch) -> Batch | None:
    """Return the batch with all inputs equal to the first sample; None if it is unknown which tensors are targets."""
    return _changed(batch, lambda tensor: tensor[:1].expand_as(tensor).clone(), of_labels=False)


def _changed(batch: Batch, function: Callable[[Tensor], Tensor], *, of_labels: bool) -> Batch | None:
    """Return the batch with ``function`` applied either to the labels among the arguments or to all other tensors."""
    labels = {
        id(tensor)
        for name, value in batch.inputs.kwargs.items()
        if name in _LABELS
        for _, tensor in named_tensors(value, name)
    }
    if batch.targets is None and not labels:
        return None
    inputs = batch.inputs.map_samples(
        lambda tensor: function(tensor) if (id(tensor) in labels) == of_labels else tensor
    )
    return replace(batch, inputs=inputs)


def _permutation(batch: Batch, seed: int) -> Tensor:
    """Return a permutation that moves every sample."""
    order = generator(seed, "permuted targets").permutation(len(batch))
    index = np.empty(len(batch), dtype=np.int64)
    index[order] = np.roll(order, 1)
    return torch.as_tensor(index)


def readout_loss(batch: Batch, output: Any, loss: Loss | None, enough: float = 0.0) -> float | None:
    """Return the lowest loss of a linear function of the real-valued inputs, used instead of the model.

    With n samples it is fitted in the n - 1 directions that the samples span. None if inputs are not real numbers, if
    the output has several positions or no entry per sample, or if the model computes its own loss.
    """
    inputs = [tensor for tensor in batch.inputs.sample_tensors() if tensor.is_floating_point()]
    values = sum(tensor.numel() for tensor in inputs)
    if loss is None or not 0 < values < _LARGEST_READOUT:
        return None
    features = torch.cat([tensor.detach().flatten(1).double() for tensor in inputs], dim=1)
    features = features - features.mean(dim=0)
    scale = features.std(dim=0)
    features = features[:, scale > 0] / scale[scale > 0]
    if not features.shape[1] or not bool(torch.isfinite(features).all()):
        return None
    left, sizes, _ = torch.linalg.svd(features, full_matrices=False)
    basis = left[:, sizes > _RANK * sizes[0]] * len(batch) ** 0.5
    return FreeOutput(output, batch.targets, loss, len(batch)).linear(basis, enough)
