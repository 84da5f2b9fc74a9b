"""`bits`: how many random signs a code needs so that its Hamming distances preserve angles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from initscope.errors import check_between, check_count
from initscope.plan._base import Plan, check_delta, count_failures
from initscope.theory import concentration

__all__ = ["BitsPlan", "bits"]

_LEAST_EPS = 3e-4
"""For smaller eps, the binomial distribution has too many points to search."""


@dataclass(frozen=True)
class BitsPlan(Plan):
    """`initscope.plan.bits`: bits of a sign embedding; `failure` is the exact failure probability at `exact` bits."""

    planner = "bits"
    unit = "bits"
    statements: ClassVar[dict[str, str]] = {
        "paper": "the stable-embedding theorem of the talk with its unspecified constant set to 1",
        "hoeffding": "Hoeffding's inequality, union over pairs",
        "exact": "the exact binomial distribution, union over pairs",
    }

    pairs: int
    angle: float | None
    mean_width: float
    paper: int
    hoeffding: int
    exact: int
    failure: float

    @property
    def aim(self) -> dict[str, Any]:
        """Return the number of pairs that must all be preserved."""
        return {"pairs": self.pairs}

    def numbers(self, size: int) -> int:
        """Return the size of the projections of two directions, for all pairs."""
        return 2 * size * self.pairs

    def failures(self, size: int, trials: int, generator: np.random.Generator, images: Any = None) -> int:
        """Count codes of ``size`` bits in which the distance of a pair is off by more than eps."""
        return count_failures(trials, self.numbers(size), lambda chunk: _fails(size, self, chunk, generator))


def bits(
    eps: float, delta: float, *, pairs: int = 1, angle: float | None = None, mean_width: float | None = None
) -> BitsPlan:
    r"""How many random signs keep the Hamming distance within ``eps`` of θ/π for all pairs?

    Parameters
    ----------
    eps
        Distortion of the Hamming distance, a fraction of the bits.
    delta
        Probability of failure, for all ``pairs`` together.
    pairs
        Number of pairs that must all be preserved.
    angle
        Angle of the pairs in radians; None: the worst case.
    mean_width
        Two-sided Gaussian mean width ω of the set, for the theorem of the talk; None: the bound 2 √(2 log 2 pairs) for
        a set of ``pairs`` points.

    >>> plan = bits(eps=0.1, delta=0.05)
    >>> plan.exact < plan.hoeffding < plan.paper
    True
    """
    check_between("eps", eps, _LEAST_EPS, 1.0, hint="the distortion of a Hamming distance, a fraction of the bits")
    check_delta(delta)
    check_count("pairs", pairs, most=10**12)
    spread = 2 * math.sqrt(2 * math.log(2 * pairs)) if mean_width is None else mean_width
    exact = concentration.sign_bits(eps, delta, pairs=pairs, angle=angle)
    return BitsPlan(
        eps=eps,
        delta=delta,
        pairs=pairs,
        angle=angle,
        mean_width=spread,
        paper=math.ceil(concentration.sign_bits_theorem(eps, spread)),
        hoeffding=concentration.sign_bits_hoeffding(eps, delta, pairs=pairs),
        exact=exact,
        failure=pairs * concentration.sign_failure(exact, eps, angle=angle),
        assumptions=(
            "signs of an i.i.d. Gaussian (any isotropic) projection, inputs fixed before it is drawn",
            "the worst angle" if angle is None else f"pairs at an angle of {angle:g} radians",
            "the theorem of the talk does not give its constant: its number shows the growth, not a guarantee",
        ),
    )


def _fails(size: int, plan: BitsPlan, chunk: int, generator: np.random.Generator) -> np.ndarray:
    """Return which codes fail; the worst angle is just below a point of the distribution near 90°."""
    angle = math.pi * (round(size * (0.5 + plan.eps)) / size - plan.eps) - 1e-9 if plan.angle is None else plan.angle
    rows = generator.standard_normal((chunk, plan.pairs, size, 2))
    signs = rows @ np.array([[1.0, math.cos(angle)], [0.0, math.sin(angle)]]) > 0
    distance = (signs[..., 0] != signs[..., 1]).mean(axis=-1)
    result: np.ndarray = (np.abs(distance - angle / math.pi) > plan.eps + 1e-12).any(axis=1)
    return result
