r"""Singular values of the input-output Jacobian of a wide random network, by free probability [Pennington2017]_.

The Jacobian of a dense network is :math:`J = D_L W_L\cdots D_1 W_1`. The diagonal matrix :math:`D_l` has the slopes
of the activations. In the limit of large widths these factors are free, so their S-transforms multiply. Let
:math:`\psi(z) = \sum_k m_k z^k` for the moments of the eigenvalues of :math:`J^TJ`, and χ its inverse function. Then

.. math::

   \chi(m) = \frac{m}{1+m}\prod_l S_{W_l}\!\Bigl(\frac{n_0}{n_{l-1}}m\Bigr)\,S_{D_l^2}\!\Bigl(\frac{n_0}{n_l}m\Bigr)

and the density at λ follows from the solution of :math:`\chi(m) = 1/\lambda` (`_jacobian_solver`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from initscope.errors import InputError, check_between, check_count
from initscope.results import Result
from initscope.theory._jacobian_solver import Layer, Slopes, atom, edges, moments, solved
from initscope.theory._quadrature import normal_rule
from initscope.theory.activations import Activation, activation

__all__ = ["SingularValueDistribution", "singular_value_distribution"]

_GRID = 400
_SAME, _ZERO = 1e-9, 1e-24
"""Relative difference below which slopes are one value, and size below which they are 0."""


@dataclass(frozen=True)
class SingularValueDistribution(Result):
    """Distribution of the singular values of a Jacobian in the limit of large widths.

    Attributes
    ----------
    zeros : float
        Share of singular values that are exactly 0, of all n_0 (the width of the input).
    edges : tuple of float
        Smallest and largest of the others.
    atom : tuple of float
        A singular value that a share of all n_0 has exactly, and this share; (0, 0) if there is none.
    mean_square : float
        Mean of the squared singular values over all n_0.
    """

    zeros: float
    edges: tuple[float, float]
    atom: tuple[float, float]
    mean_square: float
    _layers: tuple[Layer, ...] = field(repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the zeros, edges, atom and mean square."""
        return {name: value for name, value in super().to_dict().items() if not name.startswith("_")}

    def density(self, values: Any) -> NDArray[np.float64]:
        """Return the density at these singular values > 0; its integral is 1 - `zeros` less the atom."""
        values = np.asarray(values, dtype=float)
        return np.asarray(self._per_log(values) / values)

    def moments(self, count: int) -> NDArray[np.float64]:
        """Return the means of the squared singular values to the powers 1 to ``count``."""
        return moments(self._layers, check_count("count", count))

    def below(self, values: Any) -> NDArray[np.float64]:
        """Return the share of singular values at most these, to about 1e-4."""
        values = np.asarray(values, dtype=float)
        low, high = self.edges
        bottom = min(max(low, float(values.min(initial=high))), high * (1 - 1e-9))
        # Points close to both ends, where the density is a square root.
        steps = (1 - np.cos(np.linspace(0, np.pi, _GRID))) / 2
        logs = math.log(high) + (math.log(bottom) - math.log(high)) * steps
        heights = self._per_log(np.exp(logs))
        above = np.concatenate([[0.0], np.cumsum(-np.diff(logs) * (heights[1:] + heights[:-1]) / 2)])
        share = 1 - np.interp(np.log(values), logs[::-1], above[::-1])
        share = share - np.where(values < self.atom[0] * (1 - 1e-9), self.atom[1], 0.0)
        return np.where(values < low * (1 - 1e-9), self.zeros, np.where(values >= high * (1 - 1e-9), 1.0, share))

    def _per_log(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the density of the logarithm of the singular value."""
        flat = values.ravel()
        if not (flat > 0).all():
            raise InputError("singular values must be positive; the share of zeros is `zeros`")
        inside = (flat >= self.edges[0]) & (flat <= self.edges[1])
        heights = np.zeros_like(flat)
        # λ G(λ) = 1 + m, and dλ/λ = 2 ds/s.
        heights[inside] = np.maximum(-2 / np.pi * solved(self._layers, 2 * np.log(flat[inside])).imag, 0)
        return heights.reshape(values.shape)


def singular_value_distribution(
    widths: Sequence[int],
    sigma: str | Activation = "relu",
    *,
    weight_variance: float | None = None,
    bias_variance: float = 0.0,
    orthogonal: bool = False,
    input_variance: float = 1.0,
    linear_output: bool = False,
) -> SingularValueDistribution:
    r"""Return the distribution of singular values of the Jacobian of a dense network at initialization.

    Parameters
    ----------
    widths
        Units n_0 to n_L from input to output; only their ratios matter.
    sigma
        Activation after each layer; ``"identity"`` for a linear network.
    weight_variance, bias_variance
        Variance of a weight times the fan-in (by default the square of the activation's gain, 2 for ReLU), and of a
        bias. With ``orthogonal`` all singular values of a weight matrix are the square root of ``weight_variance``.
    orthogonal
        Weights that are Haar orthogonal instead of i.i.d. Gaussian.
    input_variance
        Mean square of the entries of the input.
    linear_output
        Whether the last layer has no activation.

    Notes
    -----
    Exact as the widths grow at a fixed depth. Slopes of one size (ReLU, hard tanh) have a closed S-transform.
    Continuous slopes (tanh, GELU) are represented by some 200 values, so a single orthogonal layer has no density.
    The density is NaN where the solver does not converge.
    [Pennington2017]_ [Pennington2018]_ treat equal widths.

    >>> found = singular_value_distribution([1, 1], "identity")           # Marchenko–Pastur
    >>> round(found.edges[1], 9), found.moments(3).round(9).tolist()
    (2.0, [1.0, 2.0, 5.0])
    """
    sigma = activation(sigma)
    if len(widths) < 2:
        raise InputError(f"widths = {list(widths)} must name the input and at least one layer")
    units = [check_count("width", width) for width in widths]
    known: dict[float, Slopes] = {}
    scale = sigma.gain**2 if weight_variance is None else check_between("weight_variance", weight_variance, 0, math.inf)
    second = check_between("input_variance", input_variance, 0, math.inf)
    layers: list[Layer] = []
    for inputs, outputs in pairwise(units):
        last = len(layers) == len(units) - 2
        # Orthogonal weights of more outputs than inputs have smaller entries.
        entries = scale * (min(1.0, inputs / outputs) if orthogonal else 1.0)
        variance = entries * second + bias_variance
        # Equal slopes are one object, so that the solver treats equal layers at once.
        key = 1.0 if sigma.homogeneous else float(f"{variance:.9g}")
        slopes = None if last and linear_output else known.setdefault(key, _slopes(sigma, variance))
        layers.append(Layer(inputs / units[0], outputs / units[0], scale, orthogonal, slopes))
        second = float(sigma.second_moment(variance))
    rank = min(1.0, *(layer.rank for layer in layers))
    low, high = edges(layers)
    value, share = atom(layers)
    mean_square = float(moments(layers, 1)[0])
    return SingularValueDistribution(
        1 - rank, (math.sqrt(low), math.sqrt(high)), (math.sqrt(value), share), mean_square, tuple(layers)
    )


def _slopes(sigma: Activation, variance: float) -> Slopes:
    """Return the distribution of σ'(X)² for X ~ N(0, variance); equal values are joined."""
    spread = math.sqrt(variance)
    nodes, weights = normal_rule([kink / spread for kink in sigma.kinks] if spread else [])
    values = np.asarray(sigma.derivative(spread * nodes), dtype=float) ** 2
    order = np.argsort(values)
    values, weights = values[order], weights[order]
    first = np.flatnonzero(np.diff(values, prepend=-1) > _SAME * values[-1])
    shares = np.add.reduceat(weights, first)
    kept = (values[first] > _ZERO * values[-1]) & (shares > 1e-15)
    if not kept.any():
        raise InputError(f"{sigma.name} has slope 0 almost everywhere, so the Jacobian is 0")
    return Slopes(values[first][kept], shares[kept] / weights.sum())
