"""The in-between case: too few outputs are known, and bounds on the others, or a prior, must make up for them.

The equations of the known rows and the bounds of the others are met in the least-squares sense, which is convex; a
prior enters as a projection after every step.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from initscope.invert.least_squares import largest_singular_value
from initscope.invert.nonlinearities import Preimage
from initscope.invert.operators import Affine
from initscope.invert.priors import Prior, Sparse, Wavelets

__all__ = ["fit", "violation"]


def violation(affine: Affine, x: Tensor, told: Preimage) -> Tensor:
    """How far each output's preactivation misses its known value or its bounds."""
    z = affine(x)
    outside = torch.clamp(z - told.upper, min=0) + torch.clamp(z - told.lower, max=0)
    return torch.where(told.known, z - told.values, outside)


def fit(
    affine: Affine, told: Preimage, start: Tensor, priors: tuple[Prior, ...] = (), *, iterations: int = 400
) -> tuple[Tensor, int]:
    """Proximal gradient steps from ``start``, accelerated unless a prior is not convex; the best point and the steps.

    [BeckTeboulle2009]_. Stops when nothing is violated or nothing moves.
    """
    largest = largest_singular_value(affine)
    if largest == 0:
        return start, 0
    step = 1 / (1.05 * largest) ** 2
    accelerate = not any(isinstance(prior, (Sparse, Wavelets)) for prior in priors)
    with torch.no_grad():
        x = ahead = _project(start, priors, step)
        momentum, scale = 1.0, max(float(start.norm()), 1e-300)
        goal = 1e-12 * max(float(told.values.norm()), 1e-300)
        for count in range(1, iterations + 1):
            wrong = violation(affine, ahead, told)
            if float(wrong.norm()) <= goal and not priors:
                return ahead, count
            moved = _project(ahead - step * affine.adjoint(wrong), priors, step)
            following = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
            change = moved - x
            ahead = moved + (momentum - 1) / following * change if accelerate else moved
            x, momentum = moved, following
            if float(change.norm()) <= 1e-9 * scale:
                break
    return x, count


def _project(x: Tensor, priors: tuple[Prior, ...], step: float) -> Tensor:
    for prior in priors:
        x = prior.project(x, step)
    return x
