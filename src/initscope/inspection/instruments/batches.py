"""The few samples that instruments train on: at most 64, at random, with all classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from initscope._utils.randomness import generator
from initscope.errors import check_count
from initscope.graph import Batch, Inputs, bind

__all__ = ["SAMPLES", "class_labels", "draw_batch"]

SAMPLES = 64
"""Largest number of samples in the training batch."""
_FEW_VALUES = 32
"""Number of distinct real targets up to which they count as classes when samples are chosen."""


def draw_batch(model: nn.Module, inputs: Any, targets: Any, samples: int = SAMPLES, seed: int = 0) -> Batch:
    """Choose samples at random; if the targets are classes, the same number of each as far as possible.

    Parameters
    ----------
    model : nn.Module
        The model that takes the inputs.
    inputs : Inputs or one batch of data
        See `initscope.graph.bind`. NumPy arrays become tensors of the model's type.
    targets : Tensor, array, or nested
        Tensors whose first axis has one entry per sample are chosen together with the inputs.
    samples : int
        Largest number of samples.
    seed : int
        Seed of the choice.
    """
    check_count("samples", samples)
    bound = bind(model, _tensors(inputs, model), unlabeled=targets is not None)
    batch = Batch(bound.map(lambda tensor: tensor.detach()), _tensors(targets, None))
    if not any(bound.batched) or len(batch) <= samples:
        return batch
    labels = class_labels(batch.targets, len(batch))
    return batch.pick(torch.as_tensor(_choose(len(batch), labels, samples, generator(seed, "samples of the trial"))))


def class_labels(targets: Any, samples: int) -> np.ndarray[Any, Any] | None:
    """Return the class of each sample if the targets are integers or have few distinct values, else None."""
    if not isinstance(targets, Tensor) or targets.numel() != samples or targets.dim() == 0:
        return None
    labels = targets.detach().reshape(-1).cpu()
    if labels.is_floating_point() and len(torch.unique(labels)) > min(_FEW_VALUES, samples // 2):
        return None
    return labels.float().numpy() if labels.dtype == torch.bfloat16 else labels.numpy()


def _choose(
    count: int, labels: np.ndarray[Any, Any] | None, samples: int, rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    """Return ``samples`` of ``count`` indices: one of each class in turn, in random order."""
    order = rng.permutation(count)
    if labels is None:
        return np.sort(order[:samples])
    ranks = np.empty(count, dtype=int)  # rank of a sample within its class
    for label in np.unique(labels):
        members = order[labels[order] == label]
        ranks[members] = np.arange(len(members))
    return np.sort(order[np.argsort(ranks[order], kind="stable")[:samples]])


def _tensors(value: Any, model: nn.Module | None) -> Any:
    """Return tensors for NumPy arrays; real ones have the dtype of the model's parameters."""
    if isinstance(value, np.ndarray):
        tensor = torch.as_tensor(value)
        parameter = next((p for p in model.parameters() if p.is_floating_point()), None) if model is not None else None
        if not tensor.is_floating_point():
            return tensor
        return tensor.to(torch.get_default_dtype() if parameter is None else parameter.dtype)
    if isinstance(value, Inputs) or hasattr(value, "_fields"):
        return value
    if isinstance(value, dict):
        return {key: _tensors(item, model) for key, item in value.items()}
    return type(value)(_tensors(item, model) for item in value) if type(value) in (tuple, list) else value
