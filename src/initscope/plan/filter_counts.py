"""`filters`: how many filters a convolutional ReLU layer needs for given images."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from initscope.errors import InputError, check_between, check_count, check_seed
from initscope.plan._base import Plan, check_delta
from initscope.theory import concentration

__all__ = ["FiltersPlan", "filters"]

_SCREEN = 128


@dataclass(frozen=True)
class FiltersPlan(Plan):
    """`initscope.plan.filters`: numbers of filters; `sharp_low` and `sharp_high` are the pilot's 95 % interval."""

    planner = "filters"
    unit = "filters"
    best = "sharp"
    statements: ClassVar[dict[str, str]] = {
        "paper": "corollary 1 of the JL-for-CNNs paper, constant 5 × 26.06",
        "no_union": "corollary 1 without the union over pixels",
        "sharp": "a pilot sample of filters: resampled, or the delta method for many filters",
    }

    kernel_size: int
    pairs: int
    pilot: int
    cosine: float
    sd: float
    paper: int
    no_union: int
    sharp: int
    sharp_low: int
    sharp_high: int

    def failures(self, size: int, trials: int, generator: np.random.Generator, images: Any = None) -> int:
        """Layers of ``size`` filters in which the cosine of a pair strays by more than eps."""
        if images is None:
            raise InputError("a plan for filters is checked on its images; pass images=(x, y)")
        return _count(size, self, trials, generator, images)


def filters(
    x: Any, y: Any, *, eps: float, delta: float, kernel_size: int = 3, seed: int = 0, pilot: int = 16384
) -> FiltersPlan:
    r"""How many filters must a convolutional ReLU layer have, so that its output cosine is within ``eps`` of the
    expected one?

    Parameters
    ----------
    x, y
        Two images, (channels, height, width) or (height, width), or as many pairs, (pairs, channels, height, width):
        the plan then holds for all pairs at once (union bound), the numbers are those of the worst pair.
    eps
        Distortion of a cosine, between 0 and 1.
    delta
        Probability of failure, for all pairs together.
    kernel_size
        Side of the filters.
    seed
        Seed of the pilot's filters.
    pilot
        Filters drawn to measure the variance of one filter's share; the interval of ``sharp`` says what that is worth.

    Cyclic convolution, stride 1, i.i.d. Gaussian filters, as in corollary 1.
    """
    from initscope.plan._filter_draws import filter_statistics, image_pairs, patch_ratio

    check_between("eps", eps, 0.0, 1.0, hint="the distortion of a cosine")
    check_delta(delta)
    check_seed("seed", seed)
    check_count("pilot", pilot, least=100)
    first, second = image_pairs(x, y, kernel_size)
    pairs, height, breadth = first.shape[0], first.shape[-2], first.shape[-1]
    each = delta / pairs

    def draw(index: int, size: int) -> tuple[Any, Any, Any]:
        return filter_statistics(first[index], second[index], kernel_size, size, seed=seed)

    # A small pilot finds the pair that varies most; only that one gets the whole pilot. Outputs may vanish on another.
    screens = [draw(index, _SCREEN) for index in range(pairs)] if pairs > 1 else []
    spread = [concentration.filter_share_sd(*screen) for screen in screens] or [0.0]
    worst = concentration.sharp_filters(*draw(spread.index(max(spread)), pilot), eps=eps, delta=each, seed=seed)
    living = max((concentration.living_filters(*screen[1:], delta=each) for screen in screens), default=1)
    worst = replace(worst, **{name: max(getattr(worst, name), living) for name in ("filters", "low", "high")})
    ratio = max(patch_ratio(first, kernel_size), patch_ratio(second, kernel_size))
    return FiltersPlan(
        eps=eps,
        delta=delta,
        kernel_size=kernel_size,
        pairs=pairs,
        pilot=pilot,
        cosine=worst.cosine,
        sd=worst.sd,
        paper=concentration.cosine_filters(
            positions=height * breadth, patch_ratio=ratio, kernel_size=kernel_size, eps=eps, delta=each
        ),
        no_union=concentration.cosine_filters_without_union(eps=eps, delta=each),
        sharp=worst.filters,
        sharp_low=worst.low,
        sharp_high=worst.high,
        assumptions=(
            "cyclic convolution with stride 1, ReLU, i.i.d. Gaussian filters",
            "images fixed before the filters are drawn",
            "sharp "
            + ("counts failures of layers resampled from" if worst.resampled else "is the normal limit for")
            + " the pilot's filters; its interval covers the pilot's sampling error",
        ),
    )


def _count(size: int, plan: FiltersPlan, trials: int, generator: np.random.Generator, images: tuple[Any, Any]) -> int:
    from initscope.plan._filter_draws import filter_statistics, image_pairs
    from initscope.theory.concentration import layer_cosines
    from initscope.theory.images import expected_cosine

    first, second = image_pairs(*images, plan.kernel_size)
    expected = expected_cosine(first.double(), second.double(), kernel_size=plan.kernel_size).tolist()
    failed = np.zeros(trials, dtype=bool)
    seed = int(generator.integers(2**31))
    for x, y, cosine in zip(first, second, expected):
        # One seed: all pairs see the same layers.
        statistics = filter_statistics(x, y, plan.kernel_size, trials * size, seed=seed)
        sums = (values.reshape(trials, size).sum(axis=1) for values in statistics)
        failed |= np.abs(layer_cosines(*sums) - cosine) > plan.eps
    return int(failed.sum())
