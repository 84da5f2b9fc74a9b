"""One small rule per kind of module: the state before a layer in, the state after it out.

A rule is a function of ``(module, state, context)`` registered with `rule`; whatever has none is not covered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from initscope.errors import InputError
from initscope.initializers import Initializer, WeightLaw
from initscope.propagate.elementwise import ACTIVATION_MODULES, activation_of
from initscope.propagate.state import Given, Maps, State, from_tensors, regroup
from initscope.report.geometry import weakest
from initscope.theory._boxes import box_sum
from initscope.theory.activations import Activation, activation

__all__ = ["Context", "NotCovered", "find_rule", "rule"]

NARROW_GROUP = 8
"""Fewer random channels than this in a group are far from Gaussian sums: the row becomes approximate."""


class NotCovered(Exception):
    """Raised by a rule that cannot predict; the message becomes the row's reason."""


@dataclass(frozen=True)
class Context:
    """What a rule may ask for beside the state."""

    initializer: Initializer


Rule = Callable[[Any, State, Context], State]
AnyRule = TypeVar("AnyRule", bound=Rule)
_RULES: dict[type[nn.Module], Rule] = {}


def rule(*kinds: type[nn.Module]) -> Callable[[AnyRule], AnyRule]:
    """Register the decorated function as the rule of these module classes (and their subclasses)."""

    def register(function: AnyRule) -> AnyRule:
        for kind in kinds:
            _RULES[kind] = function
        return function

    return register


def find_rule(module: nn.Module) -> Rule | None:
    """The rule of the module's class or of its nearest registered base class."""
    return next((_RULES[kind] for kind in type(module).__mro__ if kind in _RULES), None)


@rule(*ACTIVATION_MODULES)
def elementwise(module: nn.Module, state: State, context: Context) -> State:
    """σ on every unit (theory §3.1): the dual of the Gaussian before it."""
    if isinstance(state, Given):
        return Given(_run(module, state.x), _run(module, state.y), state.status)
    sigma = activation_of(module)
    if sigma is None:
        raise NotCovered("its slopes differ from channel to channel")
    return apply_activation(sigma, state)


def apply_activation(sigma: Activation, state: Maps) -> Maps:
    """The dual, allowed on a Gaussian state only; an activation on an activation is one composed activation."""
    if sigma.name == "identity":
        return state
    if not state.gaussian:
        if state.before is None or state.sigma is None:
            raise NotCovered("its input is neither Gaussian nor an activation of a Gaussian")
        return apply_activation(_composed(sigma, state.sigma), state.before)
    kxx, kyy, d = sigma.transform(state.kxx, state.kyy, state.d)
    return replace(
        state,
        kxx=kxx,
        kyy=kyy,
        d=d,
        mx=sigma.mean(state.kxx),
        my=sigma.mean(state.kyy),
        gaussian=False,
        before=state,
        sigma=sigma,
        status=weakest(state.status, sigma.method),
    )


def _composed(outer: Activation, inner: Activation) -> Activation:
    if outer.name == inner.name == "relu":
        return outer
    return replace(activation(lambda x: outer(inner(x))), name=f"{outer.name}({inner.name})")


def _run(module: nn.Module, values: Tensor) -> Tensor:
    """Run a fixed function on given values, which an in-place module must not overwrite."""
    return module(values.clone())  # type: ignore[no-any-return]


@rule(nn.Flatten)
def flatten(module: nn.Flatten, state: State, context: Context) -> State:
    """Positions become units; the order of units does not matter to a Linear layer."""
    if isinstance(state, Given):
        return Given(_run(module, state.x), _run(module, state.y), state.status)
    if module.start_dim != 1 or module.end_dim not in (-1, len(state.shape)):
        raise NotCovered("only Flatten of everything but the batch is covered")
    return _on_maps(state, lambda maps: maps.flatten(1))


def _on_maps(state: Maps, change: Callable[[Tensor], Tensor]) -> Maps:
    """Apply a rearrangement of positions to every map of the state, and of the Gaussian state it came from."""
    return replace(
        state,
        kxx=change(state.kxx),
        kyy=change(state.kyy),
        d=change(state.d),
        mx=None if state.mx is None else change(state.mx),
        my=None if state.my is None else change(state.my),
        before=None if state.before is None else _on_maps(state.before, change),
    )


@rule(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
def dropout(module: nn.Module, state: State, context: Context) -> State:
    """Off, as in evaluation."""
    return state


@rule(nn.Linear)
def linear(module: nn.Linear, state: State, context: Context) -> State:
    """Every unit reads every other: the average of the maps over all units (theory §3.1)."""
    shape = state.shape
    if len(shape) != 1 or shape[0] != module.in_features:
        raise NotCovered(f"it expects {module.in_features} features and gets an input of shape {shape}; flatten first")
    return _weights(context.initializer.law(module), state, module.out_features, groups=1, average=lambda maps: maps)


@rule(_ConvNd)
def convolution(module: _ConvNd, state: State, context: Context) -> State:
    """Average of the maps over each filter's taps (theory §2.1, §3.1): box sums, never patches."""
    if isinstance(module, _ConvTransposeNd):
        raise NotCovered("transposed convolutions have no rule yet")
    spatial = len(module.kernel_size)
    if len(state.shape) != spatial + 1 or state.shape[0] != module.in_channels:
        raise NotCovered(
            f"it expects {module.in_channels} channels and {spatial} spatial axes, not an input of shape {state.shape}"
        )
    taps = 1
    for size in module.kernel_size:
        taps *= size

    def average(maps: Tensor) -> Tensor:
        sums = box_sum(
            maps,
            kernel_size=module.kernel_size,
            stride=module.stride,
            dilation=module.dilation,
            padding=paddings(module),
            padding_mode=module.padding_mode,
        )
        return sums / taps  # type: ignore[no-any-return]

    narrow = module.in_channels // module.groups < NARROW_GROUP and module.groups > 1 and isinstance(state, Maps)
    after = _weights(
        context.initializer.law(module), state, module.out_channels, groups=module.groups, average=average, taps=taps
    )
    return replace(after, status=weakest(after.status, "approximate")) if narrow else after


def paddings(module: _ConvNd) -> tuple[tuple[int, int], ...]:
    """(before, after) for each spatial axis, "same" and "valid" included."""
    if module.padding == "valid":
        return ((0, 0),) * len(module.kernel_size)
    if module.padding == "same":
        totals = [dilation * (size - 1) for dilation, size in zip(module.dilation, module.kernel_size, strict=True)]
        return tuple((total // 2, total - total // 2) for total in totals)
    return tuple((int(pad), int(pad)) for pad in module.padding)


def _weights(
    law: WeightLaw, state: State, channels: int, *, groups: int, average: Callable[[Tensor], Tensor], taps: int = 1
) -> Maps:
    """Second moments after weights of law ``law``: n v (⟨k⟩ - λ⟨m⟩²) + v_b, n the fan-in."""
    if isinstance(state, Given):
        kxx, kyy, d, mx, my = from_tensors(state, groups, means=law.strength > 0)
        inputs = state.shape[0]
    else:
        kxx, kyy, d = (regroup(maps, groups) for maps in (state.kxx, state.kyy, state.d))
        mx, my = (None if maps is None else regroup(maps, groups) for maps in (state.mx, state.my))
        inputs = state.channels
    kxx, kyy, d = average(kxx), average(kyy), average(d)
    if law.strength > 0 and mx is not None and my is not None:
        mx, my = average(mx), average(my)
        kxx = kxx - law.strength * mx.square()
        kyy = kyy - law.strength * my.square()
        d = d - law.strength * (mx - my).square()
        # Where a patch is constant nothing is left, and rounding must not make it negative.
        kxx, kyy, d = (torch.clamp_min(maps, 0) for maps in (kxx, kyy, d))
    scale = law.variance * taps * (inputs // groups)
    blocks = kxx.shape[1]
    if channels % blocks:
        raise InputError(f"{channels} output channels cannot be split into {blocks} blocks")
    return Maps(
        kxx=scale * kxx + law.bias_variance,
        kyy=scale * kyy + law.bias_variance,
        d=scale * d,
        multiplicity=channels // blocks,
        status=state.status,
    )
