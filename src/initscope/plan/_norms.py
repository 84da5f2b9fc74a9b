"""Norms of ReLU networks: failure probabilities and simulation for `initscope.plan.width` and `depth`."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from initscope.errors import InputError, check_count
from initscope.plan._base import check_delta, check_eps, count_failures
from initscope.theory import norms

__all__ = ["HE", "STATEMENTS", "Event", "band_text", "bands", "check_aim", "count_norms", "layer_eps", "norm_failure"]

Event = Literal["last-layer", "all-layers"]

HE = "dense ReLU layers of equal width, i.i.d. Gaussian weights of variance 2/width (He fan-out), no biases"
STATEMENTS = {
    "chernoff": "the best two-sided Chernoff bound of a layer, summed over layers and samples",
    "exact": "the exact distribution for one input, summed over samples",
}
_FAR = 690.0
"""Log ratio beyond which a band counts as unbounded."""


def check_aim(eps: float, delta: float, samples: int, event: str) -> None:
    """Raise `InputError` for arguments that no plan for norms supports."""
    check_eps(eps, "the relative distortion of a squared norm")
    check_delta(delta)
    check_count("samples", samples, most=10**9)
    if event not in ("last-layer", "all-layers"):
        raise InputError(f"event = {event!r} must be 'last-layer' or 'all-layers'")


def layer_eps(eps: float, layers: int) -> float:
    """Return the distortion allowed per layer so that all layers together stay within 1 ± eps."""
    return math.expm1(math.log1p(eps) / layers)


def norm_failure(size: int, layers: int, eps: float, event: str, per_layer: bool, gradients: bool) -> float:
    """Return the exact probability of failure for one input in a network of constant width."""
    powers = range(1, layers + 1) if per_layer else [1] * layers
    lows = [math.exp(max(power * math.log1p(-eps), -_FAR)) for power in powers]
    highs = [math.exp(min(power * math.log1p(eps), _FAR)) for power in powers]
    widths = [size] * layers
    if gradients:
        failure = norms.gradient_norm_failure(widths, layers, lows[-1], highs[-1])
        return (layers if event == "all-layers" else 1) * (failure.value + failure.error)
    if layers == 1:
        return norms.relu_norm_failure(size, eps)
    if event == "all-layers":
        failure = norms.path_norm_failure(widths, lows, highs)
    else:
        failure = norms.deep_norm_failure(widths, lows[-1], highs[-1])
    return failure.value + failure.error


def bands(eps: float, depth: int, per_layer: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower and upper ends of the bands of squared norms of all layers."""
    powers = np.arange(1, depth + 1) if per_layer else np.ones(depth)
    with np.errstate(over="ignore"):  # an infinite end means no bound
        return (1 - eps) ** powers, (1 + eps) ** powers


def band_text(low: float, high: float) -> str:
    """Return a band of squared norms as text.

    >>> band_text(0.9**10, 1.1**10)
    '0.35…2.59'
    """
    return f"{low:.2f}…{high:.2f}" if low >= 0.01 and high < 1000 else f"{low:.2g}…{high:.2g}"


def count_norms(
    size: int,
    samples: int,
    trials: int,
    lows: np.ndarray,
    highs: np.ndarray,
    last: bool,
    generator: np.random.Generator,
) -> int:
    """Count the networks, of ``trials``, in which the squared norm of a sample leaves its band."""

    def failed(chunk: int) -> np.ndarray:
        hidden = generator.standard_normal((chunk, max(samples, 2), samples))
        start = (hidden**2).sum(axis=1)
        bad: Any = np.zeros((chunk, samples), dtype=bool)
        for low, high in zip(lows, highs):
            # W h for all samples at once: W on an orthonormal basis of their span is again Gaussian.
            basis: np.ndarray = np.linalg.qr(hidden, mode="r")  # type: ignore[assignment]
            weights = generator.standard_normal((chunk, size, basis.shape[1])) * math.sqrt(2 / size)
            hidden = np.maximum(weights @ basis, 0.0)
            ratio: np.ndarray = (hidden**2).sum(axis=1) / start
            outside = np.logical_or(ratio < low, ratio > high)
            bad = outside if last else np.logical_or(bad, outside)
        result: np.ndarray = bad.any(axis=1)
        return result

    return count_failures(trials, 3 * size * samples, failed)
