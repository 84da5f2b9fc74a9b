"""Facts about the data: its scale, its relation to the targets, and whether there is enough of it and it is real."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from initscope._utils.randomness import torch_generator
from initscope.graph import Inputs
from initscope.measurement.observation import Observation

__all__ = ["InputFacts", "all_targets", "input_facts", "target_relation"]

_FEW_SAMPLES = 16
_PERMUTATIONS = 100
_COLUMNS = 1024
"""Number of input features up to which each is compared with the targets."""
_NOISE = 0.05
"""Correlation of neighboring pixels below which images look like noise; photographs have about 0.9."""
_LIKELY = 4.0
"""Standard errors within which correlations of features count as zero."""


@dataclass(frozen=True)
class InputFacts:
    """RMS of the largest real-valued input, its channels, the number of constant ones, and cautions about the data."""

    size: float
    channels: int
    constant_channels: int
    cautions: tuple[str, ...]
    column: int = 0
    largest_column: float = 1.0
    """Index of the largest column of a table, and its RMS over the median of all columns; 1 if there are few."""
    sizes: tuple[float, ...] = ()
    """Root mean square of every real-valued input."""
    variation: float = 1.0
    """Root mean square of the largest input around the mean of each column over the samples, over ``size``."""
    relation: float | None = None
    """How strongly the targets depend on the inputs, see `target_relation`; None: unknown."""


def input_facts(seen: Observation) -> InputFacts:
    """Return the facts about the samples of the pairs of an observation."""
    tensors = _samples(seen)
    real = [tensor for tensor in tensors if tensor.is_floating_point()]
    whole = [tensor for tensor in tensors if not tensor.is_floating_point() and tensor.dtype != torch.bool]
    largest = max(real, key=lambda tensor: tensor[0].numel(), default=None)
    size = float(largest.double().square().mean().sqrt()) if largest is not None else math.nan
    channels = constant = 0
    if largest is not None and largest.dim() == 4:
        flat = largest.transpose(0, 1).flatten(1)
        channels, constant = len(flat), int((flat.amax(dim=1) == flat.amin(dim=1)).sum())
    sizes = tuple(float(tensor.double().square().mean().sqrt()) for tensor in real)
    cautions = tuple(_cautions(seen, largest, whole))
    values = torch.cat([seen.x, seen.y]) if isinstance(seen.x, Tensor) else None
    relation = target_relation(values, all_targets(seen))
    column, share = _largest_column(largest)
    return InputFacts(size, channels, constant, cautions, column, share, sizes, _variation(largest, size), relation)


def all_targets(seen: Observation) -> Any:
    """Return the targets of x and y joined if they are tensors, else those of x."""
    both = isinstance(seen.targets, Tensor) and isinstance(seen.targets_y, Tensor)
    return torch.cat([seen.targets, seen.targets_y]) if both else seen.targets


def target_relation(values: Tensor | None, targets: Any) -> float | None:
    """Return the largest of three permutation statistics, in standard deviations, of how targets depend on inputs.

    The statistics: nearest neighbors have similar targets; all inputs together are correlated with the targets (Gretton
    et al. 2005, linear kernels); one input is. None if inputs are not real or a sample has several targets.
    """
    if values is None or not values.is_floating_point() or not isinstance(targets, Tensor):
        return None
    count = len(values)
    if count < _FEW_SAMPLES or len(targets) != count or targets.numel() != count:
        return None
    flat, wanted = values.detach().flatten(1).double().cpu(), targets.detach().flatten().cpu()
    flat = (flat - flat.mean(dim=0)) / flat.std(dim=0).clamp_min(1e-12)
    draws = torch_generator(0, "relation of inputs and targets")
    permuted = [torch.randperm(count, generator=draws) for _ in range(_PERMUTATIONS)]
    order = torch.stack([torch.arange(count), *permuted])  # [permutations, samples], the first is the true order
    columns = _columns(wanted)[order]  # [permutations, samples, columns]
    statistics = [_agreement(flat, columns), torch.einsum("psk,st,ptk->p", columns, flat @ flat.T, columns)]
    if flat.shape[1] <= _COLUMNS:
        statistics.append(torch.einsum("sf,psk->pfk", flat, columns).abs().amax(dim=(1, 2)))
    return max((_deviations(statistic) for statistic in statistics), default=None)


def _columns(targets: Tensor) -> Tensor:
    """Return the targets as columns of mean 0: one column per class, or one of real numbers."""
    if targets.is_floating_point():
        columns = targets.double()[:, None]
    else:
        columns = torch.nn.functional.one_hot(torch.unique(targets, return_inverse=True)[1]).double()
    return columns - columns.mean(dim=0)


def _agreement(flat: Tensor, columns: Tensor) -> Tensor:
    """Return minus the mean distance between the targets of nearest neighbors."""
    nearest = torch.cdist(flat, flat).fill_diagonal_(math.inf).argmin(dim=1)
    distances: Tensor = torch.linalg.vector_norm(columns - columns[:, nearest], dim=2)
    return -distances.mean(dim=1)


def _deviations(statistic: Tensor) -> float:
    """Return the first value minus the mean of the others, in their standard deviations; 0 if they do not vary."""
    deviation = float(statistic[1:].std())
    return float(statistic[0] - statistic[1:].mean()) / deviation if deviation > 0 else 0.0


def _largest_column(values: Tensor | None) -> tuple[int, float]:
    """Return the index of the largest column and its RMS over the median; only for tables of at least four columns."""
    if values is None or values.dim() != 2 or values.shape[1] < 4:
        return 0, 1.0
    sizes = values.double().square().mean(dim=0).sqrt()
    median = float(sizes.median())
    return int(sizes.argmax()), float(sizes.max()) / median if median > 0 else 1.0


def _variation(values: Tensor | None, size: float) -> float:
    """Return the RMS of the deviations from the column means, relative to ``size``."""
    if values is None or not size > 0:
        return 1.0
    return float((values.double() - values.double().mean(dim=0)).square().mean().sqrt()) / size


def _samples(seen: Observation) -> list[Tensor]:
    """Return the inputs of all pairs, joined."""

    def tensors(side: Any) -> list[Tensor]:
        return side.sample_tensors() if isinstance(side, Inputs) else [side]

    return [torch.cat([x, y]) for x, y in zip(tensors(seen.x), tensors(seen.y), strict=True)]


def _cautions(seen: Observation, real: Tensor | None, whole: list[Tensor]) -> list[str]:
    said = []
    if seen.samples < _FEW_SAMPLES:
        said.append(
            f"only {seen.samples} samples: units, ranks and angles vary by chance; pass at least {_FEW_SAMPLES}"
        )
    if real is not None and _looks_random(real):
        said.append("the data looks like random numbers: findings hold for it, not for real data; pass your own")
    if real is None and whole and _looks_uniform(whole[0]):
        said.append("the indices look random: findings hold for them, not for real text")
    targets = seen.targets
    classes = isinstance(targets, Tensor) and not targets.is_floating_point() and targets.numel() > 1
    if classes and bool((targets == targets.flatten()[0]).all()):
        said.append("all samples are of one class, so that nothing can be said about separating classes")
    return said


def _looks_random(values: Tensor) -> bool:
    """Return whether neighboring pixels, or features, are uncorrelated; in real data they are not."""
    values = values.double()
    if values.dim() >= 3 and values.shape[-1] > 3:
        left, right = values[..., :-1].flatten(), values[..., 1:].flatten()
    elif values.dim() == 2 and values.shape[1] > 3 and len(values) >= _FEW_SAMPLES:
        spread = values.std(dim=0)
        values = ((values - values.mean(dim=0)) / spread)[:, spread > 0]
        correlation = values.T @ values / (len(values) - 1)
        off = correlation - torch.diag(correlation.diagonal())
        features = len(off)
        if features < 4 or float(spread.max()) > 1.5 * float(spread.min()):
            return False
        mean = float(off.square().sum() / (features * (features - 1))) * len(values)
        return abs(mean - 1) < _LIKELY * math.sqrt(2 / (features * (features - 1) / 2)) + 0.1
    else:
        return False
    if not bool(left.std() > 0) or len(left) < 1000:
        return False
    return abs(float(torch.corrcoef(torch.stack([left, right]))[0, 1])) < _NOISE


def _looks_uniform(indices: Tensor) -> bool:
    """Return whether all indices are about equally frequent, which is never so in text."""
    counts = torch.bincount(indices.flatten().long().clamp_min(0)).double()
    counts = counts[counts.nonzero()[:, 0][0] :] if len(counts) else counts
    total, kinds = float(counts.sum()), len(counts)
    if kinds < 8 or total < 10 * kinds:
        return False
    statistic = float(((counts - total / kinds).square() / (total / kinds)).sum())
    return statistic < kinds + _LIKELY * math.sqrt(2 * kinds)
