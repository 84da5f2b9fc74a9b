r"""Expectations of a pair by polar coordinates, and activations written down anew: nothing here is the library's.

With X = s_x r sin φ and Y = s_y r sin(φ + θ), a pair of standard normal variables has density r exp(-r²/2)/2π, and what
bends at 0 bends at four angles only, whatever the variances are.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

_BELOW = np.minimum


def _tanhshrink_series(square):
    return square * (1 / 3 - square * (2 / 15 - square * (17 / 315 - square * 62 / 2835)))


ACTIVATIONS = {
    "tanh": np.tanh,
    "sigmoid": special.expit,
    "softplus": lambda x: np.logaddexp(0, x),
    "silu": lambda x: x * special.expit(x),
    "mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "gelu_tanh": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))),
    "logsigmoid": special.log_expit,
    "softsign": lambda x: x / (1 + np.abs(x)),
    "tanhshrink": lambda x: np.where(np.abs(x) < 0.05, x * _tanhshrink_series(x * x), x - np.tanh(x)),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(_BELOW(x, 0))),
    "elu": lambda x: np.where(x > 0, x, np.expm1(_BELOW(x, 0))),
    "celu": lambda x: np.where(x > 0, x, np.expm1(_BELOW(x, 0))),
}
"""Every named activation without a closed form."""


def panels(edges, nodes):
    """Gauss-Legendre nodes and weights between neighbouring edges."""
    t, weight = np.polynomial.legendre.leggauss(nodes)
    half, middle = np.diff(edges) / 2, (edges[1:] + edges[:-1]) / 2
    return (middle[:, None] + half[:, None] * t).ravel(), (half[:, None] * weight).ravel()


_RADII, _MASS = panels(np.array([0, 0.02, 0.1, 0.3, 0.7, 1.5, 2.5, 3.5, 4.5, 5.5, 7, 9.3]), 14)
_MASS = _MASS * _RADII * np.exp(-(_RADII**2) / 2) / (2 * math.pi)
_GRADES = np.array([0, 0.003, 0.02, 0.1, 0.3, 0.8])


def squared_distance(function, kxx, kyy, theta):
    """E(σ(X) - σ(Y))² of one pair at an angle; to about 1e-11, divided by the angle where that is small."""
    bends = np.array([0, math.pi, -theta, math.pi - theta])
    edges = np.unique(np.mod(bends[:, None] + np.concatenate([_GRADES, -_GRADES]), 2 * math.pi))
    phi, weight = panels(np.append(edges, edges[0] + 2 * math.pi), 12)
    x, y = (math.sqrt(k) * np.sin(p)[:, None] * _RADII for k, p in ((kxx, phi), (kyy, phi + theta)))
    return weight @ (function(x) - function(y)) ** 2 @ _MASS


def second_moment(function, variance):
    """E σ(X)²."""
    half, weight = panels(np.array([0, 0.02, 0.1, 0.3, 0.7, 1.5, 2.5, 3.5, 4.5, 5.5, 7, 9.3]), 14)
    weight = weight * np.exp(-(half**2) / 2) / math.sqrt(2 * math.pi)
    return weight @ (function(math.sqrt(variance) * half) ** 2 + function(-math.sqrt(variance) * half) ** 2)
