"""Products of two random states: gates of independent projections.

And functions of one Gaussian state that are written as formulas.

``silu(g)·u`` of two projections multiplies covariances. ``0.5·x·(1 + tanh(…x…))`` is a function of one Gaussian x: its
parts are composed, and the whole is treated as an activation.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from initscope.geometry import weakest
from initscope.propagate.context import Context
from initscope.propagate.distributions import WRITTEN_OUT, ZeroMeanUnits
from initscope.propagate.origins.elementwise import Multiplied
from initscope.propagate.totals import NotCovered
from initscope.propagate.values.moment_maps import MomentMaps
from initscope.theory.activations import Activation, activation, gelu, gelu_tanh, silu, squared_relu, two_slopes

__all__ = ["combined", "gated", "independent", "known"]

Function = Callable[[Any], Any]
_KNOWN = (gelu, gelu_tanh, silu, squared_relu)
_REMEMBERED_GATES: OrderedDict[bytes, Activation] = OrderedDict()
_REMEMBERED = 64


def independent(a: MomentMaps, b: MomentMaps) -> bool:
    """Return whether one state is linear in zero-mean weights that the other does not read, or in other channels."""
    if (a.fresh and not a.fresh & b.weights) or (b.fresh and not b.fresh & a.weights):
        return True
    if a.distribution.joined_parts and (not b.weights or b.fresh):
        return all(independent(part, b) for part in a.distribution.joined_parts if part.weights)
    if a.part is None or b.part is None or a.part[0] != b.part[0]:
        return False
    apart = a.part[2] <= b.part[1] or b.part[2] <= a.part[1]
    return apart and bool(a.fresh or b.fresh)


def gated(a: MomentMaps, b: MomentMaps) -> MomentMaps:
    """Return the product of two states, one of zero mean and independent of the other: second moments multiply.

    With m the mean of both sides' squares, s half their difference and d the squared distance, the product has
    d = 2 s s' + m d' + m' d - d d'/2, in which nothing cancels.
    """
    if a.shape != b.shape or a.axis != b.axis or a.mixed or b.mixed or len(a.sizes) + len(b.sizes) > 2:
        raise NotCovered("it multiplies states of different shapes or blocks")
    if not independent(a, b):
        raise NotCovered("a product of two values that share their randomness has no closed form")
    m, n = (a.kxx + a.kyy) / 2, (b.kxx + b.kyy) / 2
    s, t = (a.kxx - a.kyy) / 2, (b.kxx - b.kyy) / 2
    d = (2 * s * t + m * b.d + n * a.d - a.d * b.d / 2).clamp_min(0)
    return a.after(
        (a.kxx * b.kxx, a.kyy * b.kyy, d),
        distribution=ZeroMeanUnits(),
        weights=a.weights | b.weights,
        fresh=a.fresh | b.fresh if a.fresh and b.fresh else a.fresh or b.fresh,
        origin=Multiplied((a, b)),
        alike=a.alike and b.alike,
        status=weakest(a.status, b.status),
        part=None,
    )


def combined(a: MomentMaps, b: MomentMaps, operation: Callable[[Any, Any], Any], context: Context) -> MomentMaps | None:
    """Return ``operation`` of two functions of one Gaussian state; None if they are not."""
    from initscope.propagate.rules.elementwise import apply_activation

    first, second = a.expression(), b.expression()
    if first is None or second is None or first[0].order != second[0].order:
        return None
    f, g = first[1], second[1]
    return apply_activation(known(lambda x: operation(f(x), g(x))), first[0], context)


def known(function: Function) -> Activation:
    """Return an activation of the catalogue that computes the same, or the function as one.

    Layers often repeat. A function with the same values as an earlier one is replaced by that one, because its kinks
    are known.
    """
    points = torch.cat([torch.linspace(-6, 6, 97, dtype=torch.float64), torch.logspace(1, 3, 7, dtype=torch.float64)])
    values = function(points)
    if not isinstance(values, Tensor):
        return _as_activation(function)
    key = values.numpy().tobytes()
    if key not in _REMEMBERED_GATES or not _same_kinks(_REMEMBERED_GATES[key], function):
        same = (other for other in _KNOWN if bool(torch.allclose(other(points), values, rtol=1e-9, atol=1e-9)))
        two_lines = _two_lines(function, points, values)
        _REMEMBERED_GATES[key] = next(same, None) or two_lines or _as_activation(function)
        while len(_REMEMBERED_GATES) > _REMEMBERED:
            _REMEMBERED_GATES.popitem(last=False)
    return _REMEMBERED_GATES[key]


def _two_lines(function: Function, points: Tensor, values: Tensor) -> Activation | None:
    """Return the activation that is linear on both sides of 0, if a function has this form, also close to 0."""
    below, above = float(values[0] / points[0]), float(values[-1] / points[-1])
    near = torch.logspace(-8, 0, 33, dtype=torch.float64)
    points = torch.cat([points, near, -near])
    lines = torch.where(points > 0, above * points, below * points)
    return two_slopes(below, above) if bool(torch.allclose(lines, function(points), rtol=1e-12, atol=0.0)) else None


def _same_kinks(earlier: Activation, function: Function) -> bool:
    """Return whether a function has the values of an earlier one close to that one's kinks.

    Without this, thresholds of .06 and .1 would look equal on a grid without points between them.
    """
    kinks = torch.tensor(earlier.kinks, dtype=torch.float64)
    points = torch.cat([kinks, kinks - 1e-7 * (1 + kinks.abs()), kinks + 1e-7 * (1 + kinks.abs())])
    return torch.equal(torch.as_tensor(earlier(points)), function(points))


def _as_activation(function: Function) -> Activation:
    return replace(activation(function), name=WRITTEN_OUT)
