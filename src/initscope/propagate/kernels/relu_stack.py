"""Plain stacks of weights and ReLUs: conversion of a traced model to such a stack, if it is one."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import nn

from initscope.graph import Graph, activation_of
from initscope.graph.single_ops import computes_as
from initscope.propagate.context import Context
from initscope.propagate.rules.weights import paddings
from initscope.propagate.windows import FilterTaps
from initscope.theory.activations import Activation

__all__ = ["PositionMean", "Rectified", "ReluStack", "Step", "Sums", "stack_of"]


@dataclass(frozen=True)
class Sums:
    """Weights: gain · (sums over the taps) + bias; no taps: every unit reads all channels at its position."""

    gain: float
    bias: float
    taps: FilterTaps | None = None


@dataclass(frozen=True)
class Rectified:
    """A ReLU."""


@dataclass(frozen=True)
class PositionMean:
    """All positions together, as a Linear layer reads them; ``pooled`` is the number of positions averaged before it.

    ``wraps``: whether all filters before it wrap around the edges, and so do positions at an offset.
    """

    pooled: int = 0
    wraps: bool = False


Step = Sums | Rectified


@dataclass(frozen=True)
class ReluStack:
    """Weights and ReLUs on images ``[channels, height, width]`` up to a `PositionMean`, and on vectors after it."""

    image_steps: tuple[Step, ...]
    mean: PositionMean
    dense_steps: tuple[Step, ...]


def stack_of(graph: Graph, context: Context, shape: tuple[int, ...]) -> ReluStack | None:
    """Return the stack for the model on inputs of ``shape``; None for other layers, branches or distributions."""
    first, *nodes = graph.nodes
    if len(shape) not in (1, 3) or graph.symbolic is None or not nodes or graph.output is not nodes[-1]:
        return None
    reader = _StackReader(context, shape)
    before = first
    for node in nodes:
        if node.module is None or node.inputs != (before,) or not reader.read(node.module):
            return None
        before = node
    return reader.stack()


class _StackReader:
    """A stack as far as its modules were read."""

    def __init__(self, context: Context, shape: tuple[int, ...]) -> None:
        self._context = context
        self._image_steps: list[Step] = []
        self._dense_steps: list[Step] = []
        self._channels, self._size = shape[0], shape[1:]
        self._width: int | None = None
        """Channels that a mean stands for; None: the sum over the channels of the images themselves."""
        self._wraps: list[bool] = []
        self._ends: list[bool] = []
        self._mean = PositionMean() if len(shape) == 1 else None
        self._flat = len(shape) == 1

    def stack(self) -> ReluStack | None:
        """Return the stack; None if there were no weights."""
        if self._width is None:
            return None
        return ReluStack(tuple(self._image_steps), self._mean or PositionMean(), tuple(self._dense_steps))

    @property
    def _steps(self) -> list[Step]:
        """Those that the next module adds to."""
        return self._image_steps if self._mean is None else self._dense_steps

    def read(self, module: nn.Module) -> bool:
        """Read one more module; return whether the modules are still a stack."""
        if isinstance(module, (nn.Identity, nn.Dropout)):
            return True
        if isinstance(module, nn.Flatten):
            self._mean, self._flat = self._mean or PositionMean(), True
            return module.start_dim == 1 and module.end_dim == -1
        if isinstance(module, (nn.AdaptiveAvgPool2d, nn.AvgPool2d)):
            return self._read_average(module)
        sigma = activation_of(module)
        return self._read_weights(module) if sigma is None else self._read_activation(sigma)

    def _read_average(self, module: nn.AdaptiveAvgPool2d | nn.AvgPool2d) -> bool:
        averages = self._mean is None and self._width is not None and self._averages_all(module)
        self._mean = PositionMean(pooled=math.prod(self._size), wraps=all(self._wraps))
        return averages and (all(self._wraps) or all(self._ends))

    def _read_activation(self, sigma: Activation) -> bool:
        # Rectified units are not Gaussian, and those of flattened or pooled maps have distributions of their own.
        after_weights = bool(self._steps) and isinstance(self._steps[-1], Sums)
        self._steps.append(Rectified())
        return sigma.name == "relu" and after_weights

    def _read_weights(self, module: nn.Module) -> bool:
        kind = nn.Linear if self._flat else nn.Conv2d
        if not isinstance(module, kind) or not computes_as(module, kind) or (self._mean is not None) != self._flat:
            return False
        sums = self._sums(module)
        if sums is not None:
            self._steps.append(sums)
        return sums is not None

    @property
    def _inputs(self) -> int:
        """Channels, or features, that the next weights read."""
        every = self._flat and not (self._mean is not None and self._mean.pooled)
        return self._channels * (math.prod(self._size) if every else 1)

    def _averages_all(self, module: nn.AdaptiveAvgPool2d | nn.AvgPool2d) -> bool:
        if isinstance(module, nn.AdaptiveAvgPool2d):
            return module.output_size in (1, (1, 1))
        window, pad = _both(module.kernel_size), _both(module.padding)
        return window == self._size and pad == (0, 0) and module.divisor_override is None

    def _sums(self, module: nn.Linear | nn.Conv2d) -> Sums | None:
        if self._inputs != (module.in_features if isinstance(module, nn.Linear) else module.in_channels):
            return None  # the model does not take these images: the rules give the reason
        stated = self._context.weight_distribution(module)
        if stated.strength > 0 or stated.center or self._context.tied.intersection(map(id, module.parameters())):
            return None
        if isinstance(module, nn.Linear):
            inputs, self._width = 1 if self._width is None else module.in_features, module.out_features
            self._channels, self._size = module.out_features, ()
            return Sums(stated.variance * inputs, stated.bias_variance)
        if module.groups != 1:
            return None
        inputs, self._width = self._width or 1, module.out_channels
        self._channels = module.out_channels
        taps = FilterTaps(module.kernel_size, module.stride, module.dilation, paddings(module), module.padding_mode)
        size, self._size = self._size, taps.out_size(self._size)
        self._wraps.append(_wraps(taps, size, self._size))
        self._ends.append(_ends(taps))
        return Sums(stated.variance * inputs, stated.bias_variance, taps)


def _both(value: int | tuple[int, ...]) -> tuple[int, ...]:
    return (value, value) if isinstance(value, int) else tuple(value)


def _reaches(taps: FilterTaps) -> list[int]:
    return [d * (k - 1) + 1 for d, k in zip(taps.dilation, taps.kernel_size, strict=True)]


def _wraps(taps: FilterTaps, size: tuple[int, ...], out: tuple[int, ...]) -> bool:
    """Return whether two outputs at an offset, around the edges, read two inputs at that offset times the stride."""
    whole = all(o * by == n for o, by, n in zip(out, taps.stride, size, strict=True))
    return whole and (taps.padding_mode == "circular" or max(_reaches(taps)) == 1)


def _ends(taps: FilterTaps) -> bool:
    """Return the same for maps with zero padding that is narrower than a filter."""
    padded = [sum(pad) for pad in taps.padding]
    few = all(zeros < reach for zeros, reach in zip(padded, _reaches(taps), strict=True))
    return max(padded) == 0 or (taps.padding_mode == "zeros" and few)
