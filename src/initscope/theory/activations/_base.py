"""The `Activation` type: a scalar function together with its Gaussian expectations.

Subclasses give closed forms by overriding the underscored methods; whatever they leave out is computed by quadrature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal

from initscope.errors import InputError
from initscope.theory import _quadrature
from initscope.theory._arrays import Array, namespace, safe_sqrt
from initscope.theory._asymptotes import HalfLines, distance_in_parts
from initscope.theory._interpolation import LARGE, interpolated_transform

__all__ = ["Activation"]

Method = Literal["closed form", "quadrature"]


@dataclass(frozen=True, eq=False)
class Activation:
    r"""An activation σ with the expectations that determine the effect of a wide random layer on a pair of inputs.

    Everything is an expectation over :math:`(X, Y) \sim N(0, K)`, K given by ``kxx, kyy, kxy``. NumPy arrays, torch
    tensors (any device, gradients flow) and Python numbers are accepted; shapes broadcast.

    Attributes
    ----------
    name : str
        Short name, as in architecture strings.
    homogeneous : bool
        σ(cx) = cσ(x) for c ≥ 0: the cosine after a layer then depends only on the cosine before it.
    method : {"closed form", "quadrature"}
        How the expectations are computed.
    kinks : tuple of float
        Points at which σ or a derivative jumps; quadrature splits there.
    lines : HalfLines, optional
        Asymptotes of σ on both sides, if known: large variances then need no quadrature.
    """

    name: str
    homogeneous: bool = False
    method: Method = "quadrature"
    kinks: tuple[float, ...] = field(default=(), repr=False)
    lines: HalfLines | None = field(default=None, repr=False, kw_only=True)

    def __call__(self, x: Array) -> Array:
        """σ(x), elementwise."""
        xp, x = namespace(x)
        return self._value(xp, x)

    def derivative(self, x: Array) -> Array:
        """σ'(x), with PyTorch's convention at a kink (the value from the left: 0 for ReLU at 0)."""
        xp, x = namespace(x)
        return self._derivative(xp, x)

    def dual(self, kxx: Array, kyy: Array, kxy: Array) -> Array:
        r"""Dual activation :math:`\hat\sigma = E[\sigma(X)\sigma(Y)]` ([Nachum2022]_ definition 1, [Daniely2016]_)."""
        xp, kxx, kyy, kxy = self._covariance(kxx, kyy, kxy)
        return self._dual(xp, kxx, kyy, kxy)

    def derivative_dual(self, kxx: Array, kyy: Array, kxy: Array) -> Array:
        r""":math:`E[\sigma'(X)\sigma'(Y)]`, which carries gradients backwards: σ' as automatic differentiation has it.

        If σ itself does not jump, this is the derivative of `dual` by kxy (Price's theorem). A jump does not
        contribute, because backpropagation ignores it: sign and step give 0, hardshrink less than the dual's own slope,
        which is `dual_slope`.
        """
        xp, kxx, kyy, kxy = self._covariance(kxx, kyy, kxy)
        return self._derivative_dual(xp, kxx, kyy, kxy)

    def dual_slope(self, kxx: Array, kyy: Array, kxy: Array) -> Array:
        r"""Derivative of `dual` by kxy, :math:`\partial\hat\sigma/\partial k_{xy}`, with the share of jumps of σ.

        It determines how fast angles decrease or increase; `derivative_dual` determines the gradients of a network. The
        two agree unless σ jumps. With a jump, forms without their own slope are differentiated numerically, to about
        1e-6; at cosine ±1 the slope is infinite there.
        """
        xp, kxx, kyy, kxy = self._covariance(kxx, kyy, kxy)
        return self._dual_slope(xp, kxx, kyy, kxy)

    @cached_property
    def jumps(self) -> bool:
        """Whether σ itself, not only its derivative, jumps at one of its kinks."""
        return any(_jump(self, kink) > 1e-6 * (1 + abs(kink)) for kink in self.kinks)

    def mean(self, kxx: Array) -> Array:
        r""":math:`E[\sigma(X)]` for X of variance ``kxx``."""
        xp, kxx = namespace(kxx)
        return self._mean(xp, kxx)

    def second_moment(self, kxx: Array) -> Array:
        r""":math:`E[\sigma(X)^2]` for X of variance ``kxx``."""
        xp, kxx = namespace(kxx)
        return self._second_moment(xp, kxx)

    def distance(self, kxx: Array, kyy: Array, d: Array) -> Array:
        r""":math:`E[(\sigma(X)-\sigma(Y))^2]` from the squared distance ``d = kxx + kyy - 2 kxy`` before.

        Deep networks have cosines near 1, where ``kxy`` has lost the digits that ``d`` still has.
        """
        xp, kxx, kyy, d = namespace(kxx, kyy, d)
        return self._distance(xp, kxx, kyy, d)

    def transform(self, kxx: Array, kyy: Array, d: Array) -> tuple[Array, Array, Array]:
        """Return second moments and squared distance after σ: ``(E σ(X)², E σ(Y)², E (σ(X) - σ(Y))²)``.

        Many elements at once (20,000 or more, without gradients) are interpolated if there is no closed form, with a
        relative error of 1e-7.
        """
        xp, kxx, kyy, d = namespace(kxx, kyy, d)
        many = kxx.shape == kyy.shape == d.shape and math.prod(kxx.shape) >= LARGE
        if many and self.integrated and not any(getattr(array, "requires_grad", False) for array in (kxx, kyy, d)):
            return interpolated_transform(xp, self._second_moment, self._distance, kxx, kyy, d)
        return self._second_moment(xp, kxx), self._second_moment(xp, kyy), self._distance(xp, kxx, kyy, d)

    @cached_property
    def gain(self) -> float:
        r"""Factor :math:`1/\sqrt{E[\sigma(g)^2]}` that keeps unit variance through a layer; √2 for ReLU."""
        second = float(self.second_moment(1.0))
        if not 0 < second < math.inf:
            raise InputError(f"{self.name}: E σ(g)² = {second:g}, so no gain keeps the variance")
        return 1 / math.sqrt(second)

    @cached_property
    def lipschitz(self) -> float:
        """Largest slope |σ'|, infinite if σ jumps or its slope grows without bound; found on a grid of [-30, 30].

        The L of [Nachum2022]_ theorem 2. ReLU: 1, GELU: 1.1289; a user's function with a peak narrower than a
        thousandth may exceed it.
        """
        if self.jumps:
            return math.inf
        import numpy as np

        sides = [kink + side for kink in self.kinks for side in (-1e-6, 1e-6)]
        with np.errstate(all="ignore"):
            inside = np.abs(self.derivative(np.concatenate([np.linspace(-30, 30, 60_001), sides])))
            outside = np.abs(self.derivative(np.array([-1e4, -100.0, 100.0, 1e4])))
        largest = float(inside.max())
        return largest if bool((outside <= largest * (1 + 1e-9)).all()) else math.inf

    @property
    def planar(self) -> bool:
        """Whether squared distances are integrated in two dimensions."""
        return type(self)._distance is Activation._distance

    @property
    def integrated(self) -> bool:
        """Whether squared distances cost so much that many of them are interpolated."""
        return self.planar

    def _covariance(self, kxx: Array, kyy: Array, kxy: Array) -> tuple[Any, Array, Array, Array]:
        xp, kxx, kyy, kxy = namespace(kxx, kyy, kxy)
        limit = safe_sqrt(xp, kxx) * safe_sqrt(xp, kyy)
        slack = 1e-4 if xp.finfo(kxy.dtype).eps > 1e-10 else 1e-9
        if not bool(xp.all((kxx >= 0) & (kyy >= 0) & (xp.abs(kxy) <= limit * (1 + slack) + slack * slack))):
            raise InputError(
                f"{self.name}: kxx, kyy, kxy must form a covariance (finite, kxx, kyy ≥ 0, |kxy| ≤ √(kxx kyy)); "
                "check for NaN and for a kxy computed from other data than kxx and kyy"
            )
        return xp, kxx, kyy, kxy

    def _value(self, xp: Any, x: Array) -> Array:
        raise InputError(f"{type(self).__name__} defines no value; override _value(xp, x)")

    def _derivative(self, xp: Any, x: Array) -> Array:
        double = xp.astype(x, xp.float64)  # differences of float32 would keep three digits
        slope = _quadrature.numerical_derivative(xp, lambda t: self._value(xp, t), double, self.kinks)
        return xp.astype(slope, x.dtype)

    def _dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        # Through the distance, whose gradient needs no cancellation at cosine 1.
        apart = Activation._distance(self, xp, kxx, kyy, (kxx - kxy) + (kyy - kxy))
        like = (Activation._second_moment(self, xp, kxx) + Activation._second_moment(self, xp, kyy) - apart) / 2
        unlike = (kxx > 16 * kyy) | (kyy > 16 * kxx)
        if not bool(xp.any(unlike)):
            return like
        # Of unequal variances the distance is the larger one's, and knows nothing of the product.
        product = _quadrature.expect_pair(xp, self._value, _product, kxx, kyy, kxy, self.kinks, covariance=True)
        return xp.where(unlike, product, like)

    def _dual_slope(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        if not self.jumps:
            return self._derivative_dual(xp, kxx, kyy, kxy)
        product = safe_sqrt(xp, kxx) * safe_sqrt(xp, kyy)
        step = 1e-3 * (product - xp.abs(kxy))
        values = [self._dual(xp, kxx, kyy, kxy + offset * step) for offset in (-2, -1, 1, 2)]
        rise = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / 12
        inside = step > 1e-12 * product
        return xp.where(inside, rise / xp.where(inside, step, xp.ones_like(step)), xp.full_like(step, math.inf))

    def _derivative_dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        return _quadrature.expect_pair(xp, self._derivative, _product, kxx, kyy, kxy, self.kinks, covariance=True)

    def _distance(self, xp: Any, kxx: Array, kyy: Array, d: Array) -> Array:
        if any(getattr(array, "requires_grad", False) for array in (kxx, kyy, d)):
            return self._integrate(xp, kxx, kyy, d)
        return distance_in_parts(xp, self._value, self.lines, partial(self._integrate, xp), kxx, kyy, d)

    def _integrate(self, xp: Any, kxx: Array, kyy: Array, d: Array) -> Array:
        return _quadrature.expect_pair(xp, self._value, _squared_difference, kxx, kyy, d, self.kinks)

    def _mean(self, xp: Any, kxx: Array) -> Array:
        return _quadrature.expect(xp, lambda x: self._value(xp, x), kxx, self.kinks)

    def _second_moment(self, xp: Any, kxx: Array) -> Array:
        return _quadrature.expect(xp, lambda x: self._value(xp, x) ** 2, kxx, self.kinks)


def _product(a: Array, b: Array) -> Array:
    return a * b


def _jump(sigma: Activation, kink: float) -> float:
    """Return the difference of σ on the two sides of a kink."""
    reach = 1e-9 * (1 + abs(kink))
    return abs(float(sigma(kink + reach)) - float(sigma(kink - reach)))


def _squared_difference(a: Array, b: Array) -> Array:
    return (a - b) ** 2
