"""`filters`: how many filters a convolutional layer needs for given images, for cosines or inner products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

import numpy as np

from initscope.errors import InputError, check_count, check_seed
from initscope.plan._base import Plan, check_delta, check_eps
from initscope.theory.activations import Activation

if TYPE_CHECKING:
    from torch import nn

    from initscope.plan._filter_aims import FilterAim
    from initscope.plan.channel_counts import ChannelsPlan

__all__ = ["FiltersPlan", "InnerProductPlan", "filters"]


@dataclass(frozen=True)
class FiltersPlan(Plan):
    """`initscope.plan.filters`: numbers of filters; `sharp_low` and `sharp_high` are the pilot's 95 % interval.

    The bounds are None for activations with σ(0) ≠ 0 or without a Lipschitz constant: no theorem covers them.
    """

    planner = "filters"
    unit = "filters"
    best = "sharp"
    statements: ClassVar[dict[str, str]] = {
        "paper": "corollary 1 of the JL-for-CNNs paper, constant 5 × 26.06",
        "no_union": "corollary 1 without the union over pixels",
        "sharp": "a pilot sample of filters: resampled, or the delta method for many filters",
    }
    why_more = (
        "the theorem holds for all images: it takes the largest possible deviation of each filter, with the constant "
        "of a concentration inequality, and adds the probabilities of all pixels; 'sharp' is estimated for these pairs"
    )
    quantity: ClassVar[str] = "cosine"

    kernel_size: int
    activation: str
    padding: str | int
    stride: int
    weight_variance: float
    pairs: int
    pilot: int
    expected: float
    """Of the worst pair: its mean cosine, or inner product over the expected norms."""
    sd: float
    paper: int | None
    no_union: int | None
    sharp: int
    sharp_low: int
    sharp_high: int
    function: Any = field(default=None, repr=False, compare=False)
    """The activation as it was given, for `check`."""

    def to_dict(self) -> dict[str, Any]:
        """Return all fields except the function."""
        fields = super().to_dict()
        del fields["function"]
        return fields

    @property
    def answers(self) -> dict[str, int]:
        """Return the numbers by name, without those that no theorem covers."""
        return {name: number for name, number in super().answers.items() if number is not None}

    def failures(self, size: int, trials: int, generator: np.random.Generator, images: Any = None) -> int:
        """Count layers of ``size`` filters in which the cosine (or inner product) of a pair is off by more than eps."""
        if images is None:
            raise InputError("a plan for filters is checked on its images; pass images=(x, y)")
        return _count(size, self, trials, generator, images)


@dataclass(frozen=True)
class InnerProductPlan(FiltersPlan):
    """`FiltersPlan` for inner products: theorem 2, and lemma 2 for linear layers."""

    statements: ClassVar[dict[str, str]] = {
        "paper": "theorem 2 of the JL-for-CNNs paper (lemma 2 for linear layers), constant 26.06",
        "no_union": "theorem 2 without the union over pixels",
        "sharp": "a pilot sample of filters: resampled, or the normal limit for many filters",
    }
    quantity: ClassVar[str] = "inner"


_PAIRS = 32
"""Number of random pairs of images for a network."""


@overload
def filters(x: nn.Module, y: Any, *, eps: float, delta: float, seed: int = 0) -> ChannelsPlan: ...


@overload
def filters(
    x: Any,
    y: Any,
    *,
    eps: float,
    delta: float,
    kernel_size: int = 3,
    activation: str | Activation | Callable[..., Any] = "relu",
    padding: str | int = "circular",
    stride: int = 1,
    weight_variance: float | None = None,
    quantity: Literal["cosine", "inner"] = "cosine",
    seed: int = 0,
    pilot: int = 16384,
) -> FiltersPlan: ...


def filters(
    x: Any,
    y: Any,
    *,
    eps: float,
    delta: float,
    kernel_size: int = 3,
    activation: str | Activation | Callable[..., Any] = "relu",
    padding: str | int = "circular",
    stride: int = 1,
    weight_variance: float | None = None,
    quantity: Literal["cosine", "inner"] = "cosine",
    seed: int = 0,
    pilot: int = 16384,
) -> Plan:
    r"""How many filters must a convolutional layer have, so that its output cosine (or inner product) is within ``eps``
    of the expected one?

    Parameters
    ----------
    x, y
        Two images, (channels, height, width) or (height, width), or two batches of images,
        (pairs, channels, height, width). The plan then holds for all pairs at once (union bound), and the numbers are
        those of the worst pair. The largest patch norm, the R of the theorems, is computed from the images.
        Also a network and its images, ``filters(model, images, eps=…, delta=…)``: the widths of all of its layers, by
        `channels`. Images are a tuple of two batches, or a set of images of which random pairs are planned.
    eps
        Distortion, between 0 and 1: of a cosine, or of an inner product over the expected norms of the outputs.
    delta
        Probability of failure, for all pairs together.
    kernel_size
        Side of the filters.
    activation
        Name of an activation (relu, tanh, gelu, identity for a linear layer …); in Python also a function.
    padding
        circular, zeros, reflect or replicate (all preserve the size at stride 1), valid, or a number of zeros.
    stride
        Stride of the filter.
    weight_variance
        Variance of the weights; the default preserves expected norms, for example 2/r² for ReLU. It cancels for cosines
        of homogeneous activations.
    quantity
        cosine (corollary 1), or inner: inner products (theorem 2, for linear layers lemma 2).
    seed
        Seed of the pilot's filters.
    pilot
        Number of filters drawn to measure the variance of one filter; the interval of ``sharp`` covers its error.

    The filters are i.i.d. Gaussian. The corollary is for homogeneous activations and cyclic convolution of stride 1.
    `initscope.theory.concentration.layer_cosine_filters` extends its proof to other layers. [Nachum2022]_
    """
    if callable(getattr(x, "named_modules", None)):
        layer = (kernel_size, activation, padding, stride, weight_variance, quantity, pilot)
        if layer != (3, "relu", "circular", 1, None, "cosine", 16384):
            raise InputError("a network has its own layers; with a network, filters takes only eps, delta and seed")
        return _network_channels(x, y, eps, delta, seed)
    from initscope.plan._filter_aims import FilterAim

    check_eps(eps, "the distortion of a cosine, or of an inner product over the norms")
    check_delta(delta)
    check_seed("seed", seed)
    check_count("pilot", pilot, least=100)
    if quantity not in ("cosine", "inner"):
        raise InputError(f"quantity = {quantity!r} must be 'cosine' or 'inner'")
    aim = FilterAim.read(
        (x, y),
        kernel_size=kernel_size,
        activation=activation,
        padding=padding,
        stride=stride,
        weight_variance=weight_variance,
        inner=quantity == "inner",
        eps=eps,
        delta=delta,
        seed=seed,
    )
    worst = aim.sharp(pilot)
    paper, no_union = aim.bounds()
    return (InnerProductPlan if aim.inner else FiltersPlan)(
        eps=eps,
        delta=delta,
        kernel_size=kernel_size,
        activation=aim.layer.activation.name,
        padding=padding,
        stride=stride,
        weight_variance=aim.layer.variance,
        pairs=len(aim.first),
        pilot=pilot,
        expected=worst.center,
        sd=worst.sd,
        paper=paper,
        no_union=no_union,
        sharp=worst.filters,
        sharp_low=worst.low,
        sharp_high=worst.high,
        function=activation,
        assumptions=_assumptions(aim, worst.resampled, proven=paper is not None),
    )


def _network_channels(model: nn.Module, images: Any, eps: float, delta: float, seed: int) -> ChannelsPlan:
    """Return the plan of all widths of a network, for two batches of images or random pairs of a set."""
    import torch

    from initscope.data import random_pairs
    from initscope.plan.channel_counts import channels

    if not isinstance(images, tuple):
        images = tuple(torch.as_tensor(side) for side in random_pairs(images, _PAIRS, seed)[:2])
    return channels(model, *images, eps=eps, delta=delta, seed=seed)


def _assumptions(aim: FilterAim, resampled: bool, *, proven: bool) -> tuple[str, ...]:
    windows, sigma = aim.layer.windows, aim.layer.activation
    padding = {"circular": "cyclic"}.get(windows.padding_mode, windows.padding_mode)
    border = f"{padding} padding" if any(map(any, windows.padding)) else "no padding"
    assumptions = [
        f"{border}, stride {windows.stride[0]}, {sigma.name}",
        f"i.i.d. Gaussian filters of variance {aim.layer.variance:.4g}",
        "images fixed before the filters are drawn",
        "sharp "
        + ("counts failures of layers resampled from" if resampled else "is the normal limit for")
        + " the pilot's filters; its interval covers the pilot's sampling error",
    ]
    if not proven:
        assumptions.append(f"no bound is proven for {sigma.name}: the theorems need σ(0) = 0 and a Lipschitz constant")
    return tuple(assumptions)


def _count(size: int, plan: FiltersPlan, trials: int, generator: np.random.Generator, images: tuple[Any, Any]) -> int:
    from initscope.plan._filter_aims import FilterAim

    aim = FilterAim.read(
        images,
        kernel_size=plan.kernel_size,
        activation=plan.function,
        padding=plan.padding,
        stride=plan.stride,
        weight_variance=plan.weight_variance,
        inner=plan.quantity == "inner",
        eps=plan.eps,
        delta=plan.delta,
        seed=int(generator.integers(2**31)),  # one seed: all pairs see the same layers
    )
    failed = np.zeros(trials, dtype=bool)
    for index, expected in enumerate(aim.expected):
        first, second, third = (
            values.reshape(trials, size).sum(axis=1) for values in aim.statistics(index, trials * size)
        )
        failed |= np.abs(aim.values(index, size, (first, second, third)) - expected) > plan.eps
    return int(failed.sum())
