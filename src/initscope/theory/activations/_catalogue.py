"""Every activation by name, and `activation`, which turns a name or any callable into an `Activation`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from initscope.errors import InputError, check_count
from initscope.theory._arrays import Array
from initscope.theory._asymptotes import HalfLines
from initscope.theory._quadrature import find_kinks
from initscope.theory.activations import _closed
from initscope.theory.activations._base import Activation
from initscope.theory.activations._elu import Elu
from initscope.theory.activations._piecewise import Piecewise
from initscope.theory.activations._polynomials import Polynomial, horner

identity = _closed.TwoSlopes("identity", homogeneous=True, method="closed form", a=1.0, b=0.0, at_zero=1.0)
relu = _closed.TwoSlopes("relu", homogeneous=True, method="closed form", kinks=(0.0,))
abs = _closed.TwoSlopes("abs", homogeneous=True, method="closed form", kinks=(0.0,), a=0.0, b=1.0)
sign = _closed.Sign("sign", method="closed form", kinks=(0.0,))
step = _closed.Sign("step", method="closed form", kinks=(0.0,), shift=0.5, scale=0.5)
erf = _closed.Erf("erf", method="closed form")
gelu = _closed.Gelu("gelu", method="closed form")
sin = _closed.Wave("sin", method="closed form")
cos = _closed.Wave("cos", method="closed form", even=True)
exp = _closed.Exponential("exp", method="closed form")
gaussian = _closed.GaussianBump("gaussian", method="closed form")


def leaky_relu(slope: float = 0.01) -> Activation:
    """Return max(x, slope·x), for any finite slope: -1 gives the absolute value and 1 the identity."""
    slope = float(slope)
    if not math.isfinite(slope):
        raise InputError(f"slope = {slope} must be finite; PyTorch's default is 0.01")
    return replace(two_slopes(slope, 1.0), name=f"leaky_relu({slope:g})")


def two_slopes(below: float, above: float) -> Activation:
    """below·x for x < 0, above·x for x > 0."""
    below, above = below + 0.0, above + 0.0  # no -0
    a, b = (above + below) / 2, (above - below) / 2
    kinks = (0.0,) if b else ()
    name = f"two_slopes({below:g},{above:g})"
    return _closed.TwoSlopes(name, homogeneous=True, method="closed form", kinks=kinks, a=a, b=b, at_zero=below)


def random_leaky_relu(lower: float = 1 / 8, upper: float = 1 / 3) -> Activation:
    """Leaky ReLU with a slope drawn uniformly between both for every value, as ``nn.RReLU`` does while training."""
    if not -math.inf < lower <= upper < math.inf:
        raise InputError(f"random_leaky_relu({lower}, {upper}): both must be finite, the lower one first")
    mean = (lower + upper) / 2
    return _closed.RandomSlopes(
        f"random_leaky_relu({lower:g},{upper:g})",
        homogeneous=True,
        method="closed form",
        kinks=(0.0,),
        a=(1 + mean) / 2,
        b=(1 - mean) / 2,
        at_zero=mean,
        slope_variance=(upper - lower) ** 2 / 12,
    )


def polynomial(*coefficients: float) -> Activation:
    """c0 + c1 x + c2 x² + …"""
    if not coefficients or not all(math.isfinite(c) for c in coefficients):
        raise InputError(f"coefficients {coefficients} must be one or more finite numbers, lowest power first")
    name = f"polynomial{coefficients}"
    return Polynomial(name, method="closed form", coefficients=tuple(float(c) for c in coefficients))


def monomial(power: int) -> Activation:
    """x^power."""
    power = check_count("power", power, least=0, most=40)
    return Polynomial(f"monomial({power})", method="closed form", coefficients=(*[0.0] * power, 1.0))


def hermite(degree: int) -> Activation:
    """Probabilists' Hermite polynomial of unit norm: its dual at unit variance is ρ^degree.

    The relative error is 1e-9 at ρ = ½ up to degree 12, where its powers begin to cancel.
    """
    degree = check_count("degree", degree, least=0, most=12, hint="beyond, the polynomial's powers cancel each other")
    coefficients = np.polynomial.hermite_e.herme2poly([0.0] * degree + [1.0]) / math.sqrt(math.factorial(degree))
    return Polynomial(f"hermite({degree})", method="closed form", coefficients=tuple(coefficients.tolist()))


def _piecewise(name: str, kinks: tuple[float, ...], *pieces: tuple[float, ...]) -> Piecewise:
    return Piecewise(name, kinks=kinks, pieces=pieces)


def truncation(low: float, high: float) -> Activation:
    """Linear on [low, high], constant outside: the activation of [Giryes2016]_; hard tanh is truncation(-1, 1)."""
    if not -math.inf < low < high < math.inf:
        raise InputError(f"truncation({low}, {high}): both ends must be finite, the lower one below the upper one")
    return _piecewise(f"truncation({low:g},{high:g})", (low, high), (low,), (0.0, 1.0), (high,))


hardtanh = replace(truncation(-1.0, 1.0), name="hardtanh")
relu6 = replace(truncation(0.0, 6.0), name="relu6")
hardsigmoid = _piecewise("hardsigmoid", (-3.0, 3.0), (0.0,), (1 / 2, 1 / 6), (1.0,))
hardswish = _piecewise("hardswish", (-3.0, 3.0), (0.0,), (0.0, 1 / 2, 1 / 6), (0.0, 1.0))
squared_relu = _piecewise("squared_relu", (0.0,), (0.0,), (0.0, 0.0, 1.0))


def softshrink(threshold: float = 0.5) -> Activation:
    """Soft thresholding: sign(x)·max(|x| - threshold, 0)."""
    if not 0 < threshold < math.inf:
        raise InputError(f"threshold = {threshold} must be positive and finite; PyTorch's default is 0.5")
    kinks = (-threshold, threshold)
    return _piecewise(f"softshrink({threshold:g})", kinks, (threshold, 1.0), (0.0,), (-threshold, 1.0))


def hardshrink(threshold: float = 0.5) -> Activation:
    """Hard thresholding: x where |x| > threshold, else 0."""
    if not 0 < threshold < math.inf:
        raise InputError(f"threshold = {threshold} must be positive and finite; PyTorch's default is 0.5")
    return _piecewise(f"hardshrink({threshold:g})", (-threshold, threshold), (0.0, 1.0), (0.0,), (0.0, 1.0))


def threshold(threshold: float, value: float) -> Activation:
    """x above the threshold, value below."""
    if not (math.isfinite(threshold) and math.isfinite(value)):
        raise InputError(f"threshold({threshold}, {value}): both must be finite numbers")
    return _piecewise(f"threshold({threshold:g},{value:g})", (threshold,), (value,), (0.0, 1.0))


@dataclass(frozen=True, eq=False)
class Elementwise(Activation):
    """Any function of ``(xp, x)``, integrated numerically, and its ``slope``, if known."""

    function: Callable[[Any, Array], Array] | None = None
    slope: Callable[[Any, Array], Array] | None = None

    def _value(self, xp: Any, x: Array) -> Array:
        assert self.function is not None
        return self.function(xp, x)

    def _derivative(self, xp: Any, x: Array) -> Array:
        return super()._derivative(xp, x) if self.slope is None else self.slope(xp, x)


def _sigmoid(xp: Any, x: Array) -> Array:
    return (1 + xp.tanh(x / 2)) / 2


def _silu_slope(xp: Any, x: Array) -> Array:
    share = _sigmoid(xp, x)
    return share * (1 + x * (1 - share))


def _softplus(xp: Any, x: Array) -> Array:
    return xp.logaddexp(x, xp.zeros_like(x))


def _expm1_below(xp: Any, x: Array) -> Array:
    return xp.expm1(xp.where(x < 0, x, xp.zeros_like(x)))


_TANHSHRINK_SERIES = (
    1 / 3, -2 / 15, 17 / 315, -62 / 2835, 1382 / 155925, -21844 / 6081075, 929569 / 638512875,
)  # fmt: skip
"""Of x - tanh x from x³ on, in steps of x²."""


def _tanhshrink(xp: Any, x: Array) -> Array:
    small = xp.abs(x) < 0.2
    t = xp.where(small, x, xp.zeros_like(x))
    return xp.where(small, t**3 * horner(xp, _TANHSHRINK_SERIES, t * t), x - xp.tanh(x))


_RAMP = HalfLines(right_slope=1)

tanh = Elementwise(
    "tanh",
    lines=HalfLines(left=-1, right=1),
    function=lambda xp, x: xp.tanh(x),
    slope=lambda xp, x: 1 - xp.tanh(x) ** 2,
)
sigmoid = Elementwise(
    "sigmoid", lines=HalfLines(right=1), function=_sigmoid, slope=lambda xp, x: (1 - xp.tanh(x / 2) ** 2) / 4
)
softplus = Elementwise("softplus", lines=_RAMP, function=_softplus, slope=_sigmoid)
silu = Elementwise("silu", lines=_RAMP, function=lambda xp, x: x * _sigmoid(xp, x), slope=_silu_slope)
mish = Elementwise("mish", lines=_RAMP, function=lambda xp, x: x * xp.tanh(_softplus(xp, x)))
gelu_tanh = Elementwise(
    "gelu_tanh",
    lines=_RAMP,
    function=lambda xp, x: x * (1 + xp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
)
logsigmoid = Elementwise("logsigmoid", lines=HalfLines(left_slope=1), function=lambda xp, x: -_softplus(xp, -x))
softsign = Elementwise("softsign", kinks=(0.0,), function=lambda xp, x: x / (1 + xp.abs(x)))
tanhshrink = Elementwise("tanhshrink", lines=HalfLines(1, 1, 1, -1), function=_tanhshrink)
_SELU, _SELU_LEFT = 1.0507009873554805, 1.6732632423543772
selu = Elu("selu", kinks=(0.0,), scale=_SELU, left=_SELU_LEFT)


@lru_cache(maxsize=32)
def elu(alpha: float = 1.0) -> Activation:
    """x above 0, alpha·(exp(x) - 1) below."""
    return Elu(f"elu({alpha:g})", kinks=(0.0,), left=float(alpha))


@lru_cache(maxsize=32)
def celu(alpha: float = 1.0) -> Activation:
    """x above 0, alpha·(exp(x/alpha) - 1) below."""
    alpha = float(alpha)
    if alpha == 0:
        raise InputError("celu: alpha = 0 divides by zero; PyTorch's default is 1")
    if alpha > 0:
        return Elu(f"celu({alpha:g})", kinks=(0.0,), scale=alpha, unit=alpha)
    return Elementwise(
        f"celu({alpha:g})", kinks=(0.0,), function=lambda xp, x: xp.where(x > 0, x, alpha * _expm1_below(xp, x / alpha))
    )


_NAMED: dict[str, Activation] = {
    item.name: item
    for item in (
        identity, relu, abs, sign, step, erf, gelu, gelu_tanh, sin, cos, exp, gaussian, relu6, hardtanh, hardsigmoid,
        hardswish, squared_relu, tanh, sigmoid, softplus, silu, mish, logsigmoid, softsign, tanhshrink, selu,
    )
}  # fmt: skip
_NAMED |= {
    "linear": identity,
    "swish": silu,
    "leaky_relu": leaky_relu(),
    "elu": elu(),
    "celu": celu(),
    "softshrink": softshrink(),
    "hardshrink": hardshrink(),
}


def names() -> list[str]:
    """Return names that `activation` knows."""
    return sorted(_NAMED)


def activation(
    source: str | Activation | Callable[[Array], Array], *, kinks: tuple[float, ...] | None = None
) -> Activation:
    """Turn a name, an `Activation` or any elementwise callable into an `Activation`.

    Parameters
    ----------
    source
        A name from `names()`, an `Activation` (returned as it is), or a callable on NumPy arrays (or on torch tensors,
        if torch tensors are what the expectations are then asked for).
    kinks
        Where a callable or its slope jumps. Left out, they are looked for in [-8, 8].

    >>> activation("relu").dual(1.0, 1.0, 0.0)      # 1/(2 pi)
    np.float64(0.15915494309189535)
    >>> activation(lambda x: x**3).dual(1.0, 1.0, 0.5).round(10)      # 9 rho + 6 rho^3
    np.float64(5.25)
    """
    if isinstance(source, Activation):
        return source
    if isinstance(source, str):
        if source.lower() not in _NAMED:
            raise InputError(f"no activation is called {source!r}; known: {', '.join(names())}, or pass any callable")
        return _NAMED[source.lower()]
    if not callable(source):
        raise InputError(f"an activation is a name or a callable, not {type(source).__name__}")
    function = source
    if kinks is None:
        try:
            kinks = find_kinks(function)
        except (TypeError, AttributeError):
            # A function of torch tensors only: its kinks cannot be looked for with NumPy.
            kinks = ()
    name = getattr(function, "__name__", type(function).__name__)
    return Elementwise(name, kinks=tuple(float(k) for k in kinks), function=lambda xp, x: function(x))
