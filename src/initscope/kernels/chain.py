"""Plain stacks of weights and ReLUs: which one a traced model amounts to, if it is one."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import nn

from initscope.graph import Graph, activation_of
from initscope.graph.single_ops import computes_as
from initscope.propagate.registry import Context
from initscope.propagate.rules.weights import paddings
from initscope.propagate.windows import FilterTaps

__all__ = ["Chain", "Mean", "Rectified", "Step", "Sums", "chain_of"]


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
class Mean:
    """All positions together, as a Linear layer reads them; ``pooled``: so many averaged first, so that it reads one.

    ``wraps``: all filters before it wrap around the edges, so that positions at an offset do.
    """

    pooled: int = 0
    wraps: bool = False


Step = Sums | Rectified


@dataclass(frozen=True)
class Chain:
    """Weights and ReLUs on images ``[channels, height, width]`` up to a `Mean`, and on vectors behind it."""

    image_steps: tuple[Step, ...]
    mean: Mean
    dense_steps: tuple[Step, ...]


def chain_of(graph: Graph, context: Context, shape: tuple[int, ...]) -> Chain | None:
    """The stack that the model is, or None: other layers, other activations, branches, other weight laws."""
    first, *nodes = graph.nodes
    if len(shape) not in (1, 3) or graph.symbolic is None or not nodes or graph.output is not nodes[-1]:
        return None
    reading = _Reading(context, shape)
    before = first
    for node in nodes:
        if node.module is None or node.inputs != (before,) or not reading.takes(node.module):
            return None
        before = node
    return reading.chain()


class _Reading:
    """A stack as far as its modules were read."""

    def __init__(self, context: Context, shape: tuple[int, ...]) -> None:
        self._context = context
        self._maps: list[Step] = []
        self._dense: list[Step] = []
        self._channels, self._size = shape[0], shape[1:]
        self._width: int | None = None
        """Channels that a mean stands for; None: the sum over the channels of the images themselves."""
        self._wraps: list[bool] = []
        self._ends: list[bool] = []
        self._mean = Mean() if len(shape) == 1 else None
        self._flat = len(shape) == 1

    def chain(self) -> Chain | None:
        """None if no weights were read."""
        return Chain(tuple(self._maps), self._mean or Mean(), tuple(self._dense)) if self._width is not None else None

    def takes(self, module: nn.Module) -> bool:
        """Read one more; whether what is read is still a stack."""
        steps = self._maps if self._mean is None else self._dense
        if isinstance(module, (nn.Identity, nn.Dropout)):
            return True
        if isinstance(module, nn.Flatten):
            self._mean, self._flat = self._mean or Mean(), True
            return module.start_dim == 1 and module.end_dim == -1
        if isinstance(module, (nn.AdaptiveAvgPool2d, nn.AvgPool2d)):
            averages = self._mean is None and self._width is not None and self._averages_all(module)
            self._mean = Mean(pooled=math.prod(self._size), wraps=all(self._wraps))
            return averages and (all(self._wraps) or all(self._ends))
        if self._width is not None and (sigma := activation_of(module)) is not None:
            # Rectified units are not Gaussian, and those of flattened or pooled maps have laws of their own.
            behind_weights = bool(steps) and isinstance(steps[-1], Sums)
            steps.append(Rectified())
            return sigma.name == "relu" and behind_weights
        kind = nn.Linear if self._flat else nn.Conv2d
        if not isinstance(module, kind) or not computes_as(module, kind) or (self._mean is not None) != self._flat:
            return False
        sums = self._sums(module)
        if sums is None:
            return False
        steps.append(sums)
        return True

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
            return None  # the model does not take these images: the rules tell why
        law = self._context.law(module)
        if law.strength > 0 or law.centre or self._context.tied.intersection(map(id, module.parameters())):
            return None
        if isinstance(module, nn.Linear):
            inputs, self._width = 1 if self._width is None else module.in_features, module.out_features
            self._channels, self._size = module.out_features, ()
            return Sums(law.variance * inputs, law.bias_variance)
        if module.groups != 1:
            return None
        inputs, self._width = self._width or 1, module.out_channels
        self._channels = module.out_channels
        taps = FilterTaps(module.kernel_size, module.stride, module.dilation, paddings(module), module.padding_mode)
        size, self._size = self._size, taps.out_size(self._size)
        self._wraps.append(_wraps(taps, size, self._size))
        self._ends.append(_ends(taps))
        return Sums(law.variance * inputs, law.bias_variance, taps)


def _both(value: int | tuple[int, ...]) -> tuple[int, ...]:
    return (value, value) if isinstance(value, int) else tuple(value)


def _reaches(taps: FilterTaps) -> list[int]:
    return [d * (k - 1) + 1 for d, k in zip(taps.dilation, taps.kernel_size, strict=True)]


def _wraps(taps: FilterTaps, size: tuple[int, ...], out: tuple[int, ...]) -> bool:
    """Whether two outputs at an offset, around the edges, read two inputs at that offset times the stride."""
    whole = all(o * by == n for o, by, n in zip(out, taps.stride, size, strict=True))
    return whole and (taps.padding_mode == "circular" or max(_reaches(taps)) == 1)


def _ends(taps: FilterTaps) -> bool:
    """The same for maps that end at their edges, where there are zeros, and fewer of them than a filter is wide."""
    padded = [sum(pad) for pad in taps.padding]
    few = all(zeros < reach for zeros, reach in zip(padded, _reaches(taps), strict=True))
    return max(padded) == 0 or (taps.padding_mode == "zeros" and few)
