"""Search for the least stable cell of a ReLU layer: few active rows, and these nearly orthogonal to a direction.

A² is the minimum over points z and unit directions u of Σ (w_i·u)² over the rows with w_i·z + b_i > 0. For a fixed u
this is a weighted count of active rows, which is smoothed and annealed like in `initscope.injectivity.search`. For a
fixed z the best u is a singular vector. The search alternates.
"""

from __future__ import annotations

import numpy as np

from initscope.injectivity._layer import Floats

__all__ = ["least_frame"]

_EVERY = 8
"""Descent steps for z between two updates of u."""


def least_frame(
    weight: Floats, bias: Floats | None, rng: np.random.Generator, *, restarts: int = 8, steps: int = 240
) -> tuple[float, Floats]:
    """Return the least singular value of active rows that the search finds, an upper bound on A, and the point.

    >>> square = np.array([[1.0, 0], [0, 1], [-1, 0], [0, -1]])
    >>> round(least_frame(square, None, np.random.default_rng(0))[0], 6)
    1.0
    """
    n = weight.shape[1]
    lifted = weight if bias is None else np.column_stack([weight, bias])
    norms = np.linalg.norm(lifted, axis=1, keepdims=True)
    rows = lifted / np.where(norms > 0, norms, 1.0) * np.sqrt(lifted.shape[1])
    points = _unit(rng.standard_normal((lifted.shape[1], restarts)), bias is not None)
    velocity = np.zeros_like(points)
    best, location = np.inf, points[:, 0]
    for step in range(steps):
        products = rows @ points
        if step % _EVERY == 0 or step == steps - 1:
            grams = np.einsum("mr,mi,mj->rij", products > 0, weight, weight, optimize=True)
            values, vectors = np.linalg.eigh(grams)
            lowest = int(values[:, 0].argmin())
            if values[lowest, 0] < best:
                best, location = float(values[lowest, 0]), points[:, lowest].copy()
            directions = vectors[:, :, 0].T
            costs = (weight @ directions) ** 2
            costs /= costs.mean(axis=0)
        scale = 2.0 * 0.005 ** (step / steps)
        exponent = np.where(products > 0, -products / scale, -0.5 * (10 * products / scale) ** 2)
        gradient = rows.T @ (costs * np.exp(np.maximum(exponent, -30.0)))
        gradient -= points * (points * gradient).sum(axis=0)
        gradient /= np.linalg.norm(gradient, axis=0) + 1e-12
        velocity = 0.9 * velocity - 0.1 * gradient
        points = _unit(points + 0.3 * scale * velocity, bias is not None)
    z = location if bias is None else location[:-1] / location[-1]
    active = weight[weight @ z + (0.0 if bias is None else bias) > 0]
    value = float(np.linalg.svd(active, compute_uv=False)[-1]) if len(active) >= n else 0.0
    return value, np.asarray(z)


def _unit(points: Floats, with_bias: bool) -> Floats:
    points = points / np.linalg.norm(points, axis=0)
    if with_bias:
        points[-1] = np.maximum(points[-1], 1e-3)
    return points
