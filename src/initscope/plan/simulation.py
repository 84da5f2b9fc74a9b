"""`check`: draw what was planned, many times, and count the failures.

The draws know nothing of the laws in `initscope.theory`: Gaussian weights, ReLU, norms. What makes them cheap is only
that Gaussian weights look alike from every direction: a layer needs to be drawn on the span of its inputs, not on the
whole space.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from initscope.errors import InputError, check_count, check_seed
from initscope.plan.results import (
    BitsPlan,
    Check,
    DepthPlan,
    FiltersPlan,
    Plan,
    ProjectionPlan,
    SubspacePlan,
    WidthPlan,
)

__all__ = ["check", "subspace_extremes"]

_CHUNK_VALUES = 1 << 22
_LARGEST_DRAW = 1 << 27
"""Numbers of one draw, a gigabyte of them."""


def check(
    plan: Plan, *, answer: str | None = None, trials: int = 2000, seed: int = 0, images: tuple[Any, Any] | None = None
) -> Check:
    """Simulate ``plan`` and set the observed rate of failure, with its 95 % interval, beside the promise.

    Parameters
    ----------
    answer
        Which of the plan's numbers to draw, for example ``"paper"``; by default its best.
    trials
        Independent networks, layers or codes.
    images
        The images ``(x, y)`` of a plan for filters, which does not keep them.

    The inputs are random directions; for several samples the promise is a union bound, so far fewer failures are
    normal.
    """
    check_count("trials", trials, least=10)
    check_seed("seed", seed)
    answer = plan.best if answer is None else answer
    if answer not in plan.answers:
        raise InputError(f"answer = {answer!r} is not one of this plan's: {', '.join(plan.answers)}")
    size = plan.answers[answer]
    if size < 1:
        raise InputError(f"the plan's answer {answer!r} is {size}: there is nothing to draw")
    _check_room(plan, size)
    failures = _simulate(plan, size, trials, np.random.default_rng(seed), images)
    low, high = _clopper_pearson(failures, trials)
    predicted = getattr(plan, "failure", None) if answer == "exact" else None
    aim = plan.delta if predicted is None else predicted
    return Check(
        planner=plan.planner,
        answer=answer,
        size=size,
        trials=trials,
        failures=failures,
        observed=failures / trials,
        low=low,
        high=high,
        promise=plan.delta,
        predicted=predicted,
        kept=low <= plan.delta,
        sharp=aim / 2 <= low <= aim <= high <= 2 * aim,
    )


def _check_room(plan: Plan, size: int) -> None:
    """Refuse a draw of more numbers at once than memory has room for."""
    samples = getattr(plan, "samples", 1)
    needed = size * max(samples, 1) + samples**2
    if isinstance(plan, WidthPlan) and plan.quantity == "gradients":
        needed += plan.depth * size**2
    elif isinstance(plan, DepthPlan):
        needed = plan.width * samples + samples**2
    elif isinstance(plan, SubspacePlan):
        needed = size * 4 * plan.dim
    elif isinstance(plan, BitsPlan):
        needed = 2 * size * plan.pairs
    if needed > _LARGEST_DRAW:
        raise InputError(
            f"one draw of size {size} holds {needed:.2g} numbers, more than {_LARGEST_DRAW:.2g}; "
            "check a plan for fewer samples, fewer pairs or a larger eps: the law is the same"
        )


def _clopper_pearson(failures: int, trials: int) -> tuple[float, float]:
    from scipy.special import betaincinv

    low = float(betaincinv(failures, trials - failures + 1, 0.025)) if failures else 0.0
    high = float(betaincinv(failures + 1, trials - failures, 0.975)) if failures < trials else 1.0
    return low, high


def _simulate(
    plan: Plan, size: int, trials: int, generator: np.random.Generator, images: tuple[Any, Any] | None
) -> int:
    if isinstance(plan, WidthPlan):
        lows, highs = _bands(plan.eps, plan.depth, plan.per_layer)
        last = plan.event == "last-layer"
        if plan.quantity == "gradients":
            return _count(trials, 1, lambda _: _gradients(size, plan, lows[-1], highs[-1], last, generator))
        return _count_norms(size, plan.samples, trials, lows, highs, last, generator)
    if isinstance(plan, DepthPlan):
        lows, highs = _bands(plan.eps, size, False)
        return _count_norms(plan.width, plan.samples, trials, lows, highs, plan.event == "last-layer", generator)
    if isinstance(plan, SubspacePlan):
        return _count(trials, 1, lambda _: _subspace(size, plan, generator))
    if isinstance(plan, BitsPlan):
        return _count(trials, 2 * size * plan.pairs, lambda chunk: _bits(size, plan, chunk, generator))
    if isinstance(plan, ProjectionPlan):
        return _count(trials, 1, lambda _: _projection(size, plan, generator))
    if isinstance(plan, FiltersPlan):
        if images is None:
            raise InputError("a plan for filters is checked on its images; pass images=(x, y)")
        return _filters(size, plan, trials, generator, images)
    raise InputError(f"{type(plan).__name__} has no simulation")


def _count(trials: int, values: int, failed: Callable[[int], Any]) -> int:
    """Sum of ``failed(chunk)`` over chunks of about _CHUNK_VALUES numbers; one trial at a time if values is 1."""
    chunk = 1 if values == 1 else max(1, min(trials, _CHUNK_VALUES // values))
    return sum(int(np.sum(failed(min(chunk, trials - start)))) for start in range(0, trials, chunk))


def _bands(eps: float, depth: int, per_layer: bool) -> tuple[np.ndarray, np.ndarray]:
    powers = np.arange(1, depth + 1) if per_layer else np.ones(depth)
    with np.errstate(over="ignore"):  # a band that has widened to infinity is open
        return (1 - eps) ** powers, (1 + eps) ** powers


def _count_norms(
    size: int,
    samples: int,
    trials: int,
    lows: np.ndarray,
    highs: np.ndarray,
    last: bool,
    generator: np.random.Generator,
) -> int:
    def failed(chunk: int) -> np.ndarray:
        hidden = generator.standard_normal((chunk, max(samples, 2), samples))
        start = (hidden**2).sum(axis=1)
        bad: Any = np.zeros((chunk, samples), dtype=bool)
        for low, high in zip(lows, highs):
            # W h for all samples at once: W on the orthonormal basis of their span is Gaussian again.
            basis: np.ndarray = np.linalg.qr(hidden, mode="r")  # type: ignore[assignment]
            weights = generator.standard_normal((chunk, size, basis.shape[1])) * math.sqrt(2 / size)
            hidden = np.maximum(weights @ basis, 0.0)
            ratio: np.ndarray = (hidden**2).sum(axis=1) / start
            outside = np.logical_or(ratio < low, ratio > high)
            bad = outside if last else np.logical_or(bad, outside)
        result: np.ndarray = bad.any(axis=1)
        return result

    return _count(trials, 3 * size * samples, failed)


def _gradients(size: int, plan: WidthPlan, low: float, high: float, last: bool, generator: np.random.Generator) -> bool:
    """Whether a network with a softmax head of 20 classes has a gradient norm outside the band, after backpropagation.

    ``last``: the first layer's gradient, whose error has come all the way back.
    """
    import torch

    from initscope.plan.ratios import norm_ratios

    def gaussian(rows: int, columns: int, variance: float) -> torch.Tensor:
        return torch.from_numpy(generator.standard_normal((rows, columns)) * math.sqrt(variance))

    layers = [gaussian(size, size, 2 / size) for _ in range(plan.depth)]
    labels = torch.from_numpy(generator.integers(0, 20, plan.samples))
    ratios = norm_ratios(layers, gaussian(20, size, 1 / size), gaussian(plan.samples, size, 1.0), labels)
    squares = (ratios.gradients[:1] if last else ratios.gradients) ** 2
    return bool(((squares < low) | (squares > high)).any())


def subspace_extremes(weights: np.ndarray, *, starts: int = 32, steps: int = 200, seed: int = 0) -> tuple[float, float]:
    r"""Smallest and largest :math:`\|R(Wu)\|` found over unit vectors u, by ascent from many starts.

    The squared norm is convex in u: :math:`u \leftarrow W^T R(Wu)`, normalised, never falls, and
    :math:`u \leftarrow cu - W^T R(Wu)` with c at least the largest squared singular value never rises. Local optima:
    the true extremes may lie further out.
    """
    generator = np.random.default_rng(seed)
    top = float(np.linalg.norm(weights, 2)) ** 2
    best = []
    for sign in (-1.0, 1.0):
        u = generator.standard_normal((weights.shape[1], starts))
        u /= np.linalg.norm(u, axis=0)
        value = np.zeros(starts)
        for _ in range(steps):
            hidden = np.maximum(weights @ u, 0.0)
            before, value = value, np.linalg.norm(hidden, axis=0)
            if np.abs(value - before).max() < 1e-7:
                break
            pull = weights.T @ hidden
            # Half of the largest curvature would do on average; the whole is what the proof needs.
            u = pull if sign > 0 else top * u - pull
            u /= np.linalg.norm(u, axis=0)
        best.append(float(value.min() if sign < 0 else value.max()))
    return best[0], best[1]


def _subspace(size: int, plan: SubspacePlan, generator: np.random.Generator) -> bool:
    """Whether the extremes found over the subspace leave the band, in the first layer that does.

    Deeper layers are followed on the two extreme directions and random ones: extremes of the composition are not
    searched.
    """
    power = 1.0 if plan.squared else 2.0
    weights = generator.standard_normal((size, plan.dim)) * math.sqrt(2 / size)
    low, high = subspace_extremes(weights, starts=16, steps=60, seed=int(generator.integers(2**31)))
    if not (1 - plan.eps) ** power <= low**2 <= high**2 <= (1 + plan.eps) ** power:
        return True
    if plan.depth == 1:
        return False
    directions = generator.standard_normal((plan.dim, 4 * plan.dim))
    hidden = np.maximum(weights @ (directions / np.linalg.norm(directions, axis=0)), 0.0)
    for layer in range(2, plan.depth + 1):
        basis: np.ndarray = np.linalg.qr(hidden, mode="r")  # type: ignore[assignment]
        hidden = np.maximum(generator.standard_normal((size, basis.shape[0])) * math.sqrt(2 / size) @ basis, 0.0)
        ratio = (hidden**2).sum(axis=0)
        if ratio.min() < (1 - plan.eps) ** (layer * power) or ratio.max() > (1 + plan.eps) ** (layer * power):
            return True
    return False


def _bits(size: int, plan: BitsPlan, chunk: int, generator: np.random.Generator) -> np.ndarray:
    """Signs of two directions at an angle, in their plane; the worst angle is just below a lattice point near 90°."""
    angle = math.pi * (round(size * (0.5 + plan.eps)) / size - plan.eps) - 1e-9 if plan.angle is None else plan.angle
    rows = generator.standard_normal((chunk, plan.pairs, size, 2))
    signs = rows @ np.array([[1.0, math.cos(angle)], [0.0, math.sin(angle)]]) > 0
    distance = (signs[..., 0] != signs[..., 1]).mean(axis=-1)
    result: np.ndarray = (np.abs(distance - angle / math.pi) > plan.eps + 1e-12).any(axis=1)
    return result


def _projection(size: int, plan: ProjectionPlan, generator: np.random.Generator) -> bool:
    from scipy.spatial.distance import pdist

    points = generator.standard_normal((plan.samples, max(plan.samples, 2)))
    weights = generator.standard_normal((points.shape[1], size)) / math.sqrt(size)
    ratio = (pdist(points @ weights) / pdist(points)) ** 2
    return bool(ratio.min() < 1 - plan.eps or ratio.max() > 1 + plan.eps)


def _filters(size: int, plan: FiltersPlan, trials: int, generator: np.random.Generator, images: tuple[Any, Any]) -> int:
    from initscope.plan.pairs import filter_statistics, image_pairs
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
