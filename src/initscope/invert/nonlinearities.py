"""Inputs of activations from their outputs: a value if the activation is invertible there, else bounds.

`preimage` works for every activation that is invertible on a part of its range: ReLU for positive values, with an upper
bound for the rest, tanh for all but saturated values, GELU for the positive branch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from initscope.errors import InputError

__all__ = ["INVERTIBLE", "Preimage", "preimage"]

NOISE_MARGIN = 6.5
"""Outputs within this many noise standard deviations of a flat part of the activation give only a bound."""


@dataclass(frozen=True)
class Preimage:
    """Preactivations: ``values`` where ``known``, else only ``lower`` ≤ z ≤ ``upper``.

    ``slope`` is the activation's derivative at the known values: noise on the output is divided by it.
    """

    values: Tensor
    known: Tensor
    lower: Tensor
    upper: Tensor
    slope: Tensor


def preimage(module: nn.Module | None, outputs: Tensor, noise: float = 0.0) -> Preimage:
    """Return the known inputs of an activation and bounds on the others; ``noise`` is the standard deviation.

    None means no activation. With noise, an output counts as active only if it is well above the noise: a unit that is
    0 and measured as 1e-9 is not active.
    """
    margin = NOISE_MARGIN * noise
    everything = torch.full_like(outputs, math.inf)
    if module is None:
        return Preimage(outputs, torch.ones_like(outputs, dtype=torch.bool), -everything, everything, 1 + 0 * outputs)
    inverse = INVERTIBLE.get(type(module))
    if inverse is None:
        raise InputError(
            f"{type(module).__name__} has no known inverse, not even on a part of its range; use method='gradient'"
        )
    values, low, high = inverse(module, outputs)
    # Between the ends the activation is strictly increasing; at an end, or beyond it, only a bound is known.
    known = (outputs > low[0] + margin) & (outputs < high[0] - margin)
    lower = torch.where(~known & (outputs >= high[0] - margin), high[1] - margin, -everything)
    upper = torch.where(~known & (outputs <= low[0] + margin), low[1] + margin, everything)
    values = torch.where(known, values, torch.zeros_like(values))
    finite = torch.isfinite(values)
    known, values = known & finite, torch.where(finite, values, torch.zeros_like(values))
    if isinstance(module, (nn.Softshrink, nn.Hardshrink)):
        known = outputs.abs() > margin
        values = torch.where(known, inverse(module, outputs)[0], torch.zeros_like(values))
        reach = module.lambd + margin
        lower, upper = (
            torch.where(known, sign * everything, sign * reach * torch.ones_like(outputs)) for sign in (-1, 1)
        )
    return Preimage(values, known, lower, upper, _slope(module, values, known))


def _slope(module: nn.Module, values: Tensor, known: Tensor) -> Tensor:
    with torch.enable_grad():
        inputs = values.detach().clone().requires_grad_(True)
        (slope,) = torch.autograd.grad(module(inputs[None])[0].sum(), inputs)
    return torch.where(known, slope, torch.ones_like(slope))


End = tuple[float, float]
"""An end of the invertible part of the range: the output there, and the input from which on it has this value."""
Inverse = Callable[[Any, Tensor], tuple[Tensor, End, End]]
_NO_LOW, _NO_HIGH = (-math.inf, -math.inf), (math.inf, math.inf)


def _relu(_: nn.ReLU, y: Tensor) -> tuple[Tensor, End, End]:
    return y, (0.0, 0.0), _NO_HIGH


def _identity(_: nn.Module, y: Tensor) -> tuple[Tensor, End, End]:
    return y, _NO_LOW, _NO_HIGH


def _leaky(module: nn.LeakyReLU, y: Tensor) -> tuple[Tensor, End, End]:
    return _two_slopes(y, torch.tensor(module.negative_slope, dtype=y.dtype))


def _prelu(module: nn.PReLU, y: Tensor) -> tuple[Tensor, End, End]:
    slopes = module.weight.detach().to(y.dtype)
    return _two_slopes(y, slopes.reshape(-1, *[1] * (y.dim() - 1)) if len(slopes) > 1 else slopes)


def _two_slopes(y: Tensor, slopes: Tensor) -> tuple[Tensor, End, End]:
    if bool((slopes < 0).any()):
        raise InputError(f"a leaky slope of {float(slopes.min()):.3g} maps two inputs to one output; it must be ≥ 0")
    if bool((slopes == 0).any()):
        return y, (0.0, 0.0), _NO_HIGH
    return torch.where(y > 0, y, y / slopes), _NO_LOW, _NO_HIGH


def _clamp(module: nn.Hardtanh, y: Tensor) -> tuple[Tensor, End, End]:
    return y, (module.min_val, module.min_val), (module.max_val, module.max_val)


def _elu(module: nn.ELU | nn.CELU, y: Tensor) -> tuple[Tensor, End, End]:
    stretch = module.alpha if isinstance(module, nn.CELU) else 1.0
    negative = stretch * torch.log1p(torch.clamp(y / module.alpha, min=-1))
    return torch.where(y > 0, y, negative), (-module.alpha, _saturated(y)), _NO_HIGH


def _selu(_: nn.SELU, y: Tensor) -> tuple[Tensor, End, End]:
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    negative = torch.log1p(torch.clamp(y / (scale * alpha), min=-1))
    return torch.where(y > 0, y / scale, negative), (-scale * alpha, _saturated(y)), _NO_HIGH


def _saturated(y: Tensor) -> float:
    """Return the value of z below which 1 + exp(z) is 1 in the outputs' precision."""
    return math.log(torch.finfo(y.dtype).eps)


def _sigmoid(_: nn.Sigmoid, y: Tensor) -> tuple[Tensor, End, End]:
    return torch.logit(y), (0.0, -80.0), (1.0, -_saturated(y))


def _tanh(_: nn.Tanh, y: Tensor) -> tuple[Tensor, End, End]:
    return torch.atanh(y), (-1.0, _saturated(y) / 2), (1.0, -_saturated(y) / 2)


def _softplus(module: nn.Softplus, y: Tensor) -> tuple[Tensor, End, End]:
    scaled = module.beta * y
    values = torch.where(scaled > module.threshold, y, y + torch.log(-torch.expm1(-scaled)) / module.beta)
    return values, (0.0, -80.0 / module.beta), _NO_HIGH


def _softsign(_: nn.Softsign, y: Tensor) -> tuple[Tensor, End, End]:
    return y / (1 - y.abs()), (-1.0, -1e6), (1.0, 1e6)


def _logsigmoid(_: nn.LogSigmoid, y: Tensor) -> tuple[Tensor, End, End]:
    return -torch.log(torch.expm1(-y)), _NO_LOW, (0.0, -_saturated(y))


def _hardsigmoid(_: nn.Hardsigmoid, y: Tensor) -> tuple[Tensor, End, End]:
    return 6 * y - 3, (0.0, -3.0), (1.0, 3.0)


def _softshrink(module: nn.Softshrink, y: Tensor) -> tuple[Tensor, End, End]:
    return y + module.lambd * y.sign(), _NO_LOW, _NO_HIGH


def _threshold(module: nn.Threshold, y: Tensor) -> tuple[Tensor, End, End]:
    if module.value > module.threshold:
        raise InputError(
            f"Threshold({module.threshold}, {module.value}) maps two inputs to one output; use method='gradient'"
        )
    return y, (module.threshold, module.threshold), _NO_HIGH


def _positive_branch(module: nn.Module, y: Tensor) -> tuple[Tensor, End, End]:
    """GELU, SiLU, Mish, Hardswish: positive exactly for positive inputs, increasing there, between z/2 and z."""
    positive = torch.clamp(y, min=0)
    return _bisected(module, positive, positive, 2 * positive), (0.0, 0.0), _NO_HIGH


def _tanhshrink(module: nn.Tanhshrink, y: Tensor) -> tuple[Tensor, End, End]:
    size = y.abs()
    return y.sign() * _bisected(module, size, size, size + 1), _NO_LOW, _NO_HIGH


def _bisected(module: nn.Module, y: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Return the z in [low, high] with module(z) = y, for an increasing module."""
    for _ in range(80):
        middle = (low + high) / 2
        below = module(middle) < y
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return (low + high) / 2


INVERTIBLE: dict[type[nn.Module], Inverse] = {
    nn.Identity: _identity,
    nn.ReLU: _relu,
    nn.LeakyReLU: _leaky,
    nn.PReLU: _prelu,
    nn.ReLU6: _clamp,
    nn.Hardtanh: _clamp,
    nn.ELU: _elu,
    nn.CELU: _elu,
    nn.SELU: _selu,
    nn.Sigmoid: _sigmoid,
    nn.Tanh: _tanh,
    nn.Softplus: _softplus,
    nn.Softsign: _softsign,
    nn.LogSigmoid: _logsigmoid,
    nn.Hardsigmoid: _hardsigmoid,
    nn.Softshrink: _softshrink,
    nn.Hardshrink: _identity,
    nn.Threshold: _threshold,
    nn.GELU: _positive_branch,
    nn.SiLU: _positive_branch,
    nn.Mish: _positive_branch,
    nn.Hardswish: _positive_branch,
    nn.Tanhshrink: _tanhshrink,
}
"""Inverse of each activation's module on the part of its range where there is one."""
