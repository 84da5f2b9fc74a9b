r"""Free multiplicative convolution of weights and slopes: solves χ(m) = 1/λ for `initscope.theory.jacobians`.

On the negative axis of λ, m is real and the equation monotonic. From there the solution is followed along a half circle
to the positive axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Layer", "Slopes", "atom", "edges", "moments", "solved"]

Floats = NDArray[np.float64]

_ARGUMENTS = np.concatenate([np.linspace(np.pi, 0.1, 40)[1:], np.geomspace(0.1, 1e-7, 60)[1:]])
"""Arguments of λ between the negative and the positive axis."""
_BITS = 50
"""Binary digits of the distance from a pole of ψ."""
_CONVERGED = 1e-6
"""Largest difference of log χ(m) and -log λ of a solution."""
_ATOM = 1e-4
"""Relative distance from an atom within which the rest of the density is not computed."""
_NEWTON, _MOST_STEPS = 2, 12
"""Newton steps for z, and the largest number for m, at each argument."""
_FAR, _NEAR = 30.0, 15.0
"""Largest logarithm of m in the search for an edge, and of the distance from -rank at which a pole is read."""
_SMALL = 1e-6
"""Ratio of the smallest and the largest slope below which slopes count as continuous down to 0."""
_MOST_ODDS = 27.0
"""Largest log-odds of m/rank. The share of the spectrum below such λ is less than 1e-11."""


@dataclass(frozen=True, eq=False)
class Slopes:
    """Distribution of the squared slopes of a layer: ``values`` > 0 and their ``shares``; all others are 0."""

    values: Floats
    shares: Floats

    @property
    def share(self) -> float:
        """Share of the slopes that are not 0."""
        return float(self.shares.sum())

    def psi(self, z: Any) -> tuple[Any, Any]:
        """Return ψ(z) = E[d z/(1 - d z)] of the squared slopes d, and its derivative."""
        rest = 1 / (1 - z[..., None] * self.values)
        terms = rest * self.values
        return z * (terms @ self.shares), (terms * rest) @ self.shares

    def inverse(self, m: Floats) -> Floats:
        """Return z < 0 with ψ(z) = m for -share < m < 0, by Newton steps in log-odds, which are nearly linear."""
        aim = np.log(-m) - np.log(self.share + m)
        t = aim - self.shares @ np.log(self.values) / self.share
        for _ in range(60):
            odds = t[:, None] + np.log(self.values)
            yes, no = 1 / (1 + np.exp(-odds)), 1 / (1 + np.exp(odds))
            active, rest = yes @ self.shares, no @ self.shares
            slope = (yes * no) @ self.shares * self.share / (active * rest)
            step = (np.log(active) - np.log(rest) - aim) / slope
            t = t - np.clip(step, -3, 3)
            if np.abs(step).max(initial=0) < 1e-13:
                break
        return np.asarray(-np.exp(t))

    def outside(self, m: Floats) -> Floats:
        """Return the real z with ψ(z) = m, for m of any size other than 0 and -share, by bisection."""
        # ψ increases on (0, 1/largest) from 0 to ∞, and on (1/smallest, ∞) from -∞ to -share.
        end = np.where(m > 0, 1 / self.values.max(), 1 / self.values.min())
        low, high = np.full_like(m, -_BITS), np.full_like(m, _BITS)
        for _ in range(70):
            middle = (low + high) / 2
            below = self.psi(np.where(m > 0, end / (1 + 2.0**-middle), end * (1 + 2.0**middle)))[0] < m
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        z = np.where(m > 0, end / (1 + 2.0**-low), end * (1 + 2.0**low))
        between = (m < 0) & (m > -self.share)
        z[between] = self.inverse(m[between])
        return np.asarray(z)

    def moved(self, z: Any, m: Any) -> tuple[Any, Any]:
        """Return the solution of ψ(z) = m near z, and dz/dm there."""
        slope: Any = 1.0
        for _ in range(_NEWTON):
            value, slope = self.psi(z)
            step = (value - m) / (slope * z)
            # In the logarithm, because z varies over many orders of magnitude.
            z = z * np.exp(-step / np.maximum(1, np.abs(step)))
        return z, 1 / slope


@dataclass(frozen=True)
class Layer:
    """A layer: units of input and output relative to the input of the network, its weights, and its slopes."""

    inputs: float
    outputs: float
    weight_variance: float
    orthogonal: bool
    slopes: Slopes | None

    @property
    def rank(self) -> float:
        """Largest rank, relative to the input of the network."""
        return min(self.inputs, self.outputs * (1.0 if self.slopes is None else self.slopes.share))

    def kept(self, dimension: float) -> tuple[float, float]:
        """Return the dimension of a subspace on which the layer is a multiple of an isometry, and the squared factor.

        The subspace is part of a given one of this ``dimension``, and generic apart from that.
        """
        if not self.orthogonal:
            return 0.0, 0.0
        dimension -= self.inputs - min(self.inputs, self.outputs)
        if self.slopes is None:
            return dimension, self.weight_variance
        most = int(np.argmax(self.slopes.shares))
        lost = self.outputs * (1 - float(self.slopes.shares[most]))
        return dimension - lost, self.weight_variance * float(self.slopes.values[most])

    def weights(self, m: Any) -> tuple[Any, Any]:
        """Return the S-transform of the weights, and the derivative of its logarithm."""
        if not self.orthogonal:
            return self.inputs / (self.weight_variance * (self.outputs + m)), -1 / (self.outputs + m)
        rank = min(self.inputs, self.outputs)
        if rank == self.inputs:
            return 1 / self.weight_variance + 0 * m, 0 * m
        return (self.inputs + m) / (self.weight_variance * (rank + m)), 1 / (self.inputs + m) - 1 / (rank + m)

    def activation(self, m: Any, z: Any, z_slope: Any) -> tuple[Any, Any]:
        """Return the S-transform of the squared slopes, and the derivative of its logarithm; ψ(z) = m/outputs."""
        if self.slopes is None:
            return 1 + 0 * m, 0 * m
        if self.closed:
            rank = self.slopes.share * self.outputs
            s_transform = (self.outputs + m) / (self.slopes.values[0] * (rank + m))
            return s_transform, 1 / (self.outputs + m) - 1 / (rank + m)
        return (self.outputs + m) / m * z, 1 / (self.outputs + m) - 1 / m + z_slope / (z * self.outputs)

    @property
    def closed(self) -> bool:
        """Whether the S-transform has a closed form: slopes of one size, or none."""
        return self.slopes is None or len(self.slopes.values) == 1


class _Product:
    """Logarithm of ±χ(m) of all layers; remembers for each the solution z of ψ(z) = m, from which it starts again."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.layers = [(layer, len(list(group))) for layer, group in groupby(layers)]
        self.rank = min(1.0, *(layer.rank for layer in layers))
        self.z: list[Any] = [None] * len(self.layers)

    def start(self, m: Floats, *, real: bool = False) -> None:
        """Set z at m between -rank and 0, or at any ``real`` m."""
        for index, (layer, _) in enumerate(self.layers):
            if layer.slopes is not None and not layer.closed:
                slopes = layer.slopes
                self.z[index] = (slopes.outside if real else slopes.inverse)(m / layer.outputs)

    def __call__(self, m: Any) -> tuple[Any, Any]:
        """Return log χ(m) with any branch of the logarithm, and its derivative."""
        m = np.asarray(m)
        total = np.log(m + 0j) - np.log(1 + m + 0j)
        slope = 1 / m - 1 / (1 + m)
        for index, (layer, count) in enumerate(self.layers):
            z_slope: Any = 0.0
            if layer.slopes is not None and not layer.closed:
                self.z[index], z_slope = layer.slopes.moved(self.z[index], m / layer.outputs)
            for s_transform, change in (layer.weights(m), layer.activation(m, self.z[index], z_slope)):
                total = total + count * np.log(s_transform + 0j)
                slope = slope + count * change
        return total, slope


@np.errstate(all="ignore")  # NaN where the solution is lost
def solved(layers: Sequence[Layer], logs: Floats) -> NDArray[np.complex128]:
    """Return m with χ(m) = 1/λ just above the positive axis, less the part of the atom, for the logarithms of λ."""
    product = _Product(layers)
    odds = _negative(product, logs)
    m = -product.rank / (1 + np.exp(-odds)) + 0j
    gap = np.zeros_like(m)
    product.z = [None if z is None else z + 0j for z in product.z]
    for argument in _ARGUMENTS:
        for _ in range(_MOST_STEPS):
            total, slope = product(m)
            gap = total + logs + 1j * argument
            gap = gap.real + 1j * ((gap.imag + np.pi) % (2 * np.pi) - np.pi)
            m = m - gap / slope
            if not (np.abs(gap) > _CONVERGED).any():
                break
    value, share = atom(layers)
    # Above the positive axis of λ, m has a negative imaginary part.
    m = np.where((np.abs(gap) < _CONVERGED) & (m.imag < _CONVERGED), m, np.nan)
    if share:
        apart = np.exp(logs - np.log(value) + 1j * _ARGUMENTS[-1]) - 1
        m = np.where(np.abs(apart) < _ATOM, 0, m - share / apart)
    return np.where(np.abs(odds) < _MOST_ODDS, m, 0)


def _negative(product: _Product, logs: Floats) -> Floats:
    """Return the log-odds of -m/rank with χ(m) = -1/λ, by Newton steps; χ is monotonic there."""
    odds = np.zeros_like(logs)
    for _ in range(200):
        share = 1 / (1 + np.exp(-odds))
        m = -product.rank * share
        product.start(m)
        total, slope = product(m)
        step = (total.real + logs) / (slope * m * (1 - share))
        odds = np.clip(odds - np.clip(step, -2, 2), -_MOST_ODDS, _MOST_ODDS)
        if np.abs(step).max(initial=0) < 1e-12:
            break
    return odds


@np.errstate(all="ignore")  # m may be at a pole
def edges(layers: Sequence[Layer]) -> tuple[float, float]:
    """Return the smallest (other than an atom at 0) and the largest λ of the spectrum.

    χ(m) increases from m = 0 up to 1/λ of the largest, and decreases below m = -rank down to 1/λ of the smallest.
    """
    product = _Product(layers)

    def at(m: Any) -> tuple[Any, Any]:
        product.start(np.asarray(m), real=True)
        total, slope = product(m)
        return total.real, slope.real

    def turn(position: Callable[[Any], Any]) -> float:
        """Return λ at the first sign change of the slope."""
        logs = np.linspace(-_FAR, _FAR, 481)
        falling = np.flatnonzero(at(position(logs))[1] <= 0)
        high = logs[falling[0]] if len(falling) else _FAR
        low = high - (logs[1] - logs[0])
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if at(position(np.array([middle])))[1][0] > 0 else (low, middle)
        return float(np.exp(-at(position(np.array([low])))[0][0]))

    def below(log: Any) -> Any:
        return -product.rank * (1 + np.exp(log))

    # Only with a gap below the smallest λ the pole of χ at m = -rank is simple. Slopes down to 0 leave no gap.
    small = any(
        slopes is not None and slopes.values.min() < _SMALL * slopes.values.max()
        for slopes in (layer.slopes for layer in layers)
    )
    near = below(np.array([-_NEAR]))
    order = -float(at(near)[1][0] * (near[0] + product.rank))
    return turn(below) if abs(order - 1) < 0.1 and not small else 0.0, turn(np.exp)


def atom(layers: Sequence[Layer]) -> tuple[float, float]:
    """Return the λ > 0 that a share of all singular values has exactly, and this share; (0, 0) if there is none."""
    dimension, value = 1.0, 1.0
    for layer in layers:
        dimension, factor = layer.kept(dimension)
        value *= factor
    return (value, dimension) if dimension > 1e-9 else (0.0, 0.0)


def moments(layers: Sequence[Layer], count: int) -> Floats:
    """Return the first moments of λ from the power series of χ."""
    chi = _series([1.0, 0.0], [1.0, 1.0], count)
    for layer in layers:
        rank = min(layer.inputs, layer.outputs)
        weights = [layer.inputs, 1.0] if layer.orthogonal else [layer.inputs, 0.0]
        chi = _times(chi, _series(weights, [rank if layer.orthogonal else layer.outputs, 1.0], count))
        chi = chi / layer.weight_variance
        if layer.slopes is not None:
            powers = layer.slopes.values[:, None] ** np.arange(1, count + 1)
            inverse = _inverted(layer.slopes.shares @ powers) / layer.outputs ** np.arange(count)
            chi = _times(chi, _times(inverse, np.array([1.0, 1 / layer.outputs] + [0.0] * count)[:count]))
    return _inverted(chi)


def _series(above: Sequence[float], below: Sequence[float], count: int) -> Floats:
    """Return the power series of (a + b m)/(c + d m)."""
    (a, b), (c, d) = above, below
    powers = (-d / c) ** np.arange(count) / c
    return a * powers + b * np.concatenate([[0.0], powers[:-1]])


def _times(first: Floats, second: Floats) -> Floats:
    return np.asarray(np.convolve(first, second)[: len(first)])


def _inverted(coefficients: Floats) -> Floats:
    """Return the series of the inverse function of Σ c_k z^k, k ≥ 1, by Lagrange's formula; both without their z⁰."""
    count = len(coefficients)
    reciprocal = np.zeros(count)  # of Σ c_{k+1} z^k
    for k in range(count):
        reciprocal[k] = ((k == 0) - reciprocal[:k] @ coefficients[k:0:-1]) / coefficients[0]
    power, result = np.eye(1, count)[0], np.zeros(count)
    for n in range(1, count + 1):
        power = _times(power, reciprocal)
        result[n - 1] = power[n - 1] / n
    return result
