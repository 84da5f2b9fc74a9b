"""Statements about depth and activations, found another way."""

from __future__ import annotations

import math

import numpy as np
from scipy import optimize
from theorems.witness import Witness, drawn

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(120)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def tanh_product(rho, variance=1.0):
    """E[tanh X tanh Y] of Gaussians of one variance and this correlation."""
    x = math.sqrt(variance) * NODES[:, None]
    y = math.sqrt(variance) * (rho * NODES[:, None] + math.sqrt(1 - rho * rho) * NODES)
    return WEIGHTS @ (np.tanh(x) * np.tanh(y)) @ WEIGHTS


def cosine_after(rho):
    """A layer of weight variance 4 and bias variance .1 on pre-activations of variance 1."""
    return (4 * tanh_product(rho) + 0.1) / (4 * tanh_product(1.0) + 0.1)


def slope():
    """Difference quotient at 1, extrapolated from steps of .02 and .01."""
    far, near = ((1 - cosine_after(1 - step)) / step for step in (0.02, 0.01))
    return 2 * near - far


def fixed_points():
    rho = 0.5
    for _ in range(200):
        rho = cosine_after(rho)
    return Witness([rho, slope()], tolerance=2e-3)


def edge_of_chaos():
    """The gain at which the slope at 1 is 1 where the variance is at its fixed point."""

    def chi(gain):
        variance = 1.0
        for _ in range(400):
            variance = gain**2 * (WEIGHTS @ np.tanh(math.sqrt(variance) * NODES) ** 2) + 0.05
        return gain**2 * (WEIGHTS @ np.cosh(math.sqrt(variance) * NODES) ** -4.0) - 1

    return Witness([1 / abs(math.log(slope())), optimize.brentq(chi, 0.9, 2.5)], tolerance=6e-3)


def halving():
    phi = (np.arange(4000) + 0.5) / 4000 * 2 * math.pi
    depths = []
    for start in (math.pi / 2, 1.0, 0.2):
        theta, depth = start, 0
        while theta > start / 2:
            theta = math.acos(4 * np.mean(np.maximum(np.cos(phi), 0) * np.maximum(np.cos(phi - theta), 0)))
            depth += 1
        depths.append(depth)
    return Witness(depths)


def jacobian_spectrum():
    """Shares of singular values of three drawn ReLU layers of 150 units; the finite width costs less than 1 %."""
    rng, shares = np.random.default_rng(3), []
    for _ in range(30):
        h, jacobian = rng.normal(size=150), np.eye(150)
        for _ in range(3):
            weight = rng.normal(scale=math.sqrt(2 / 150), size=(150, 150))
            active = weight @ h > 0
            h, jacobian = active * (weight @ h), active[:, None] * (weight @ jacobian)
        values = np.linalg.svd(jacobian, compute_uv=False)
        shares.append([np.mean(values <= bound) for bound in (0.3, 1.0, 2.0)])
    return drawn(shares, tolerance=0.01)
