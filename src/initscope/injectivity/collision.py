"""A colliding pair of inputs from a point with too few active rows, and the cheap points to try first."""

from __future__ import annotations

import numpy as np

from initscope.injectivity import exact
from initscope.injectivity._layer import Floats

__all__ = ["active_rows", "colliding_pair", "far_point", "vertex_point"]


def active_rows(weight: Floats, bias: Floats | None, z: Floats) -> np.ndarray:
    """Return rows with w_i·z + b_i ≥ 0, decided exactly; rows of zeros never help and are left out."""
    return np.asarray((exact.signs(weight, z, bias) >= 0) & weight.any(axis=1))


def colliding_pair(weight: Floats, bias: Floats | None, z: Floats) -> tuple[Floats, Floats] | None:
    """Return two inputs around ``z`` with equal outputs, or None if the rows active at ``z`` span the input space.

    The difference d is orthogonal to the active rows; the step keeps every other row negative.
    """
    n = weight.shape[1]
    mask = active_rows(weight, bias, z)
    active = weight[mask]
    if exact.spans(active):
        return None
    direction = _orthogonal(active, n)
    value = weight @ z if bias is None else weight @ z + bias
    inactive = ~mask & weight.any(axis=1)
    change = np.abs(weight[inactive] @ direction)
    margin = np.abs(value[inactive]) / np.maximum(change, 1e-300)
    step = min(0.5 * float(margin.min(initial=np.inf)), max(1.0, float(np.linalg.norm(z))))
    return z + step * direction, z - step * direction


def _orthogonal(rows: Floats, n: int) -> Floats:
    """Return a unit vector orthogonal to rows that are known not to span R^n."""
    if not len(rows):
        return np.asarray(np.eye(n)[0])
    scaled = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    basis = np.linalg.svd(scaled, full_matrices=True)[2]
    return np.asarray(basis[-1])


def far_point(weight: Floats, bias: Floats | None, direction: Floats) -> Floats:
    """Return a multiple of ``direction`` so large that the bias changes no sign of ``weight @ direction``."""
    if bias is None:
        return direction
    products = weight @ direction
    used = np.abs(products) > 1e-12 * np.linalg.norm(weight, axis=1) * np.linalg.norm(direction)
    ratio = np.abs(bias[used]) / np.abs(products[used])
    return np.asarray(direction * max(1.0, 2.0 * float(ratio.max(initial=0.0))))


def vertex_point(weight: Floats, chosen: np.ndarray) -> Floats:
    """Return a point near the ray orthogonal to the n - 1 ``chosen`` rows, on the side with fewer active rows.

    The chosen rows are negative there. In general position at most (m - n + 1)/2 rows stay active.
    """
    rows = weight[chosen]
    ray = _orthogonal(rows, weight.shape[1])
    products = weight @ ray
    products[chosen] = 0.0
    if np.sum(products > 0) > np.sum(products < 0):
        ray, products = -ray, -products
    push = np.linalg.lstsq(rows, -np.ones(len(rows)), rcond=None)[0] if len(rows) else np.zeros_like(ray)
    change = np.abs(weight @ push)
    free = np.abs(products) > 1e-12 * np.linalg.norm(weight, axis=1)
    margin = np.abs(products[free]) / np.maximum(change[free], 1e-300)
    return np.asarray(ray + 0.5 * min(1.0, float(margin.min(initial=1.0))) * push)
