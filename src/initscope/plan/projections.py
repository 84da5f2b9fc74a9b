"""`projection`: how many dimensions a random linear layer needs to keep all distances of a data set."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from initscope.errors import check_between, check_count
from initscope.plan._base import Plan, check_delta, count_failures
from initscope.theory import concentration

__all__ = ["ProjectionPlan", "projection"]

_LEAST_EPS = 1e-5


@dataclass(frozen=True)
class ProjectionPlan(Plan):
    """`initscope.plan.projection`: dimensions of a random linear layer that preserves all distances of a data set."""

    planner = "projection"
    unit = "width"
    statements: ClassVar[dict[str, str]] = {
        "textbook": "Dasgupta–Gupta, as in scikit-learn's johnson_lindenstrauss_min_dim (success only 1 in samples)",
        "exact": "the exact chi-square distribution, union over all pairs",
    }

    samples: int
    textbook: int
    exact: int
    failure: float

    @property
    def aim(self) -> dict[str, Any]:
        """Return the number of samples whose distances are all preserved."""
        return {"samples": self.samples}

    def numbers(self, size: int) -> int:
        """Return the size of the projections of all samples."""
        return size * self.samples + self.samples**2

    def failures(self, size: int, trials: int, generator: np.random.Generator, images: Any = None) -> int:
        """Count the projections in which a distance leaves its band."""
        return count_failures(trials, 1, lambda _: _fails(size, self, generator))


def projection(*, eps: float, delta: float, samples: int) -> ProjectionPlan:
    """How many dimensions must a random *linear* layer have, so that all squared distances stay within 1 ± ``eps``?

    Parameters
    ----------
    eps
        Distortion of a squared distance, between 0 and 1.
    delta
        Probability of failure, for all distances together.
    samples
        Number of samples whose pairwise distances are all preserved.

    >>> plan = projection(eps=0.1, delta=0.05, samples=1000)
    >>> plan.textbook, plan.exact < plan.textbook
    (5920, True)
    """
    check_between("eps", eps, _LEAST_EPS, 1.0, hint="the relative distortion of a squared distance")
    check_delta(delta)
    check_count("samples", samples, least=2, most=10**9, hint="distances need two samples")
    pairs = samples * (samples - 1) // 2
    exact = concentration.projection_width(eps, delta, pairs=pairs)
    return ProjectionPlan(
        eps=eps,
        delta=delta,
        samples=samples,
        textbook=concentration.johnson_lindenstrauss_width(samples, eps),
        exact=exact,
        failure=pairs * concentration.projection_failure(exact, eps),
        assumptions=(
            "i.i.d. Gaussian weights of variance 1/width, no activation",
            "samples fixed before the weights are drawn",
        ),
    )


def _fails(size: int, plan: ProjectionPlan, generator: np.random.Generator) -> bool:
    from scipy.spatial.distance import pdist

    points = generator.standard_normal((plan.samples, max(plan.samples, 2)))
    weights = generator.standard_normal((points.shape[1], size)) / math.sqrt(size)
    ratio = (pdist(points @ weights) / pdist(points)) ** 2
    return bool(ratio.min() < 1 - plan.eps or ratio.max() > 1 + plan.eps)
