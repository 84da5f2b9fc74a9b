"""Plain stacks of weights and ReLUs: which one a traced model amounts to, if it is one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from initscope.layers import activation_of
from initscope.layers.whole import computes_as
from initscope.propagate.registry import Context
from initscope.propagate.rules.weights import paddings
from initscope.propagate.windows import FilterTaps
from initscope.tracing import Trace

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
    """All positions together, as a Linear layer reads them."""


Step = Sums | Rectified | Mean


@dataclass(frozen=True)
class Chain:
    """Weights and ReLUs on images ``[channels, height, width]`` up to a `Mean`, and on vectors behind it."""

    steps: tuple[Step, ...]

    @property
    def image_steps(self) -> tuple[Step, ...]:
        """Those that work on maps."""
        return self.steps[: self.steps.index(Mean())]

    @property
    def dense_steps(self) -> tuple[Step, ...]:
        """Those behind, on one number for each pair."""
        return self.steps[self.steps.index(Mean()) + 1 :]


def chain_of(traced: Trace, context: Context, shape: tuple[int, ...]) -> Chain | None:
    """The stack that the model is, or None: other layers, other activations, branches, other weight laws."""
    first, *nodes = traced.steps
    if len(shape) not in (1, 3) or traced.graph_module is None or _outputs(traced) != nodes[-1:]:
        return None
    steps: list[Step] = [Mean()] if len(shape) == 1 else []
    width, before = None, first
    for node in nodes:
        module = traced.module(node)
        if module is None or list(node.all_input_nodes) != [before]:
            return None
        before = node
        if isinstance(module, (nn.Identity, nn.Dropout)):
            continue
        flat = Mean() in steps
        if isinstance(module, nn.Flatten) and module.start_dim == 1 and module.end_dim == -1 and (flat or steps):
            steps += [] if flat else [Mean()]
            continue
        step = _step(module, context, flat, width)
        if step is None or (isinstance(step, Rectified) and not isinstance(steps[-1], Sums)):
            return None  # rectified units are not Gaussian, and those of flattened maps have laws of their own
        steps.append(step)
        width = getattr(module, "out_features" if flat else "out_channels", width)
    return Chain(tuple(steps if Mean() in steps else [*steps, Mean()])) if width is not None else None


def _outputs(traced: Trace) -> list[Any]:
    """What the model returns, if that is one step."""
    assert traced.graph_module is not None
    (returned,) = (node.args[0] for node in traced.graph_module.graph.nodes if node.op == "output")
    return [returned]


def _step(module: nn.Module, context: Context, flat: bool, width: int | None) -> Step | None:
    """``width``: channels that a mean stands for; None: the sum over the channels of the images themselves."""
    kind = nn.Linear if flat else nn.Conv2d
    if not isinstance(module, kind) or not computes_as(module, kind):
        sigma = activation_of(module) if width is not None else None
        return Rectified() if sigma is not None and sigma.name == "relu" else None
    law = context.law(module)
    if law.strength > 0 or law.centre or context.tied.intersection(map(id, module.parameters())):
        return None
    if isinstance(module, nn.Linear):
        return Sums(law.variance * (1 if width is None else module.in_features), law.bias_variance)
    if module.groups != 1:
        return None
    taps = FilterTaps(module.kernel_size, module.stride, module.dilation, paddings(module), module.padding_mode)
    return Sums(law.variance * (1 if width is None else width), law.bias_variance, taps)
