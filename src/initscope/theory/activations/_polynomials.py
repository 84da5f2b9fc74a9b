"""Polynomial activations, by Isserlis' theorem; `horner` evaluates a polynomial."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from initscope.theory._arrays import Array
from initscope.theory.activations._closed import ClosedForm

__all__ = ["Polynomial", "horner"]


@dataclass(frozen=True, eq=False)
class Polynomial(ClosedForm):
    r"""A polynomial, ``coefficients`` by rising power (monomials, Hermite polynomials), by Isserlis' theorem:

    .. math:: E[X^iY^j] = \sum_t \tbinom it\tbinom jt\, t!\,(i-t-1)!!\,(j-t-1)!!\;
              k_{xy}^t\, k_{xx}^{(i-t)/2}\, k_{yy}^{(j-t)/2}.
    """

    coefficients: tuple[float, ...] = (0.0, 1.0)

    def _value(self, xp: Any, x: Array) -> Array:
        return horner(xp, self.coefficients, x)

    @property
    def _prime(self) -> Polynomial:
        slopes = tuple(power * c for power, c in enumerate(self.coefficients) if power) or (0.0,)
        return Polynomial(f"{self.name}'", method="closed form", coefficients=slopes)

    def _derivative(self, xp: Any, x: Array) -> Array:
        return self._prime._value(xp, x)

    def _dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        total = xp.zeros_like(kxx + kyy + kxy)
        for i, a in enumerate(self.coefficients):
            for j, b in enumerate(self.coefficients):
                if a * b == 0 or (i - j) % 2:
                    continue
                for t in range(i % 2, min(i, j) + 1, 2):
                    ways = math.comb(i, t) * math.comb(j, t) * math.factorial(t) * _pairings(i - t) * _pairings(j - t)
                    total = total + a * b * ways * kxy**t * kxx ** ((i - t) // 2) * kyy ** ((j - t) // 2)
        return total

    def _derivative_dual(self, xp: Any, kxx: Array, kyy: Array, kxy: Array) -> Array:
        return self._prime._dual(xp, kxx, kyy, kxy)

    @property
    def even(self) -> bool:
        """Whether only even powers are there."""
        return not any(self.coefficients[1::2])

    def _stretch(self, xp: Any, a: Array, b: Array) -> Array:
        # g σ'(ag) = Σ n c_n a^(n-1) g^n
        powers = [(n, n * c) for n, c in enumerate(self.coefficients) if n * c]
        total = xp.zeros_like(a + b)
        for i, first in powers:
            for j, second in powers:
                if (i + j) % 2 == 0:
                    total = total + first * second * _pairings(i + j) * a ** (i - 1) * b ** (j - 1)
        return total

    def _mean(self, xp: Any, kxx: Array) -> Array:
        total = xp.zeros_like(kxx)
        for power, coefficient in enumerate(self.coefficients[::2]):
            total = total + coefficient * _pairings(2 * power) * kxx**power
        return total


def horner(xp: Any, coefficients: Sequence[float], x: Array) -> Array:
    """Return the polynomial with these coefficients, by rising power, at x."""
    result = xp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = result * x + coefficient
    return result


def _pairings(count: int) -> int:
    """(count - 1)!!: the number of ways to pair an even number of things."""
    return math.prod(range(1, count, 2))
