"""Recovery with too few known outputs: bounds on the other outputs, or a prior, add the missing information.

The equations of the known rows and the bounds of the others are solved in the least-squares sense, which is convex. A
prior is applied as a projection after every step.
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


def violation(affine: Affine, x: Tensor, known: Preimage) -> Tensor:
    """Return the distance of each preactivation from its known value or from its bounds."""
    z = affine(x)
    outside = torch.clamp(z - known.upper, min=0) + torch.clamp(z - known.lower, max=0)
    return torch.where(known.known, z - known.values, outside)


def fit(
    affine: Affine, known: Preimage, start: Tensor, priors: tuple[Prior, ...] = (), *, iterations: int = 400
) -> tuple[Tensor, int]:
    """Proximal gradient steps from ``start``, accelerated unless a prior is not convex; the best point and the steps.

    [BeckTeboulle2009]_. Stops when no constraint is violated or the point no longer moves.
    """
    largest = largest_singular_value(affine)
    if largest == 0:
        return start, 0
    step = 1 / (1.05 * largest) ** 2
    accelerate = not any(isinstance(prior, (Sparse, Wavelets)) for prior in priors)
    with torch.no_grad():
        x = ahead = _project(start, priors, step)
        momentum, scale = 1.0, max(float(start.norm()), 1e-300)
        goal = 1e-12 * max(float(known.values.norm()), 1e-300)
        for count in range(1, iterations + 1):
            wrong = violation(affine, ahead, known)
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
