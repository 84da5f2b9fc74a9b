r"""`mean_width`: Gaussian mean width of data, or of a set with a support function, with its standard error.

One matrix product per batch of points, read once, or twice if they are all there. The norm of a Gaussian is independent
of its direction, so only directions are drawn, and the result is multiplied by the exact :math:`E\|g\|`: this removes
the variance of the norm.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import array_api_compat
import numpy as np

from initscope._utils.randomness import generator
from initscope.errors import InputError, check_count
from initscope.measurement.endless import with_an_end
from initscope.results import Result
from initscope.theory._arrays import Array, namespace
from initscope.theory.mean_width import WidthSet, gaussian_norm_mean

__all__ = ["MeanWidth", "RunningWidth", "mean_width", "random_directions"]

_HELD = 1 << 24  # numbers of points of an iterator that are kept until their mean, the center, is known
_BLOCK_ELEMENTS = 1_000_000  # of a block of points, and of its inner products: 4 MB each in float32


@dataclass(frozen=True)
class MeanWidth(Result):
    """Two-sided Gaussian mean width ω of a set, as estimated by `mean_width`.

    Attributes
    ----------
    value, standard_error : float
        ω and the Monte-Carlo error over the random directions.
    one_sided : float
        ω/2, the mean of the supremum of one inner product (the w of Gordon's theorem).
    intrinsic_dimension, intrinsic_dimension_error : float or None
        (ω / 2r)² with r the ``radius``: (E‖g‖)², nearly d - ½, for a d-dimensional ball of any size. None if no radius
        is known.
    radius : float or None
        For data: the largest distance of a point from their mean (at most twice the smallest enclosing radius); for an
        iterator that can be read only once, from the mean of its first 16 million numbers, independent of its batches.
        For a set: its ``enclosing_radius``.
    doubling_gain, doubling_gain_error : float or None
        ω minus the mean width of two halves of the data: the increase by the last doubling of the sample. A sample
        always has a smaller width than the set it comes from; the next doubling will add about as much again.
    points, dimension, draws : int
        Number of points (None for a set), dimension of the space, number of directions drawn (0: no sampling needed).
    method : str
        ``closed form``, ``quadrature``, ``sampled`` or, for data, ``sampled (these points only)``.
    """

    value: float
    standard_error: float
    one_sided: float
    intrinsic_dimension: float | None
    intrinsic_dimension_error: float | None
    radius: float | None
    doubling_gain: float | None
    doubling_gain_error: float | None
    points: int | None
    dimension: int
    draws: int
    method: str

    def table(self) -> list[dict[str, Any]]:
        """Return one row per quantity; quantities derived from the width have its standard error and its method."""
        estimates = [
            ("mean width", self.value, self.standard_error),
            ("one-sided width", self.one_sided, self.standard_error / 2),
            ("intrinsic dimension", self.intrinsic_dimension, self.intrinsic_dimension_error),
            ("gain of the last doubling", self.doubling_gain, self.doubling_gain_error),
        ]
        facts = [
            ("radius", self.radius),
            ("points", self.points),
            ("dimension of the space", self.dimension),
            ("directions drawn", self.draws),
        ]
        rows = [(*estimate, None if estimate[1] is None else self.method) for estimate in estimates]
        rows += [(*fact, None, None) for fact in facts]
        return [dict(zip(("quantity", "value", "standard_error", "method"), row)) for row in rows]


def mean_width(points: Any, *, draws: int = 128, seed: int = 0) -> MeanWidth:
    r"""Return the Gaussian mean width of points, or of a set with a support function.

    .. math:: \omega(K) = E\sup_{u,v\in K}\langle u-v, g\rangle,\qquad g\sim N(0, I)

    [Bronstein2016]_; two-sided, translation invariant, in the units of the data: scale is part of the value.

    Parameters
    ----------
    points : array, tensor, iterable of batches, or set
        ``[N, ...]`` (each point is flattened): NumPy (memory maps are read in blocks), torch (on its device), a data
        frame, an iterable of such batches (read once; the first member of a tuple, as data loaders yield), or a
        `initscope.theory.mean_width` set.
    draws : int
        Number of random directions. The relative error is about 0.5/√(draws · intrinsic dimension)
        for a roundish cloud: the default gives 1 % for most data.
    seed : int
        Seed of the directions; the same seed gives the same directions for any library and batches.

    Returns
    -------
    MeanWidth

    Examples
    --------
    >>> import initscope, numpy as np
    >>> segment = initscope.mean_width(np.array([[0.0, 0.0], [3.0, 4.0]]), draws=4000)
    >>> abs(segment.value - 5 * np.sqrt(2 / np.pi)) < 3 * segment.standard_error
    np.True_
    """
    draws = check_count("draws", draws, least=2, hint="two are the least that give a standard error")
    if isinstance(points, WidthSet) and not array_api_compat.is_array_api_obj(points):
        return _width_of_set(points, draws, seed)
    if _is_there(points):
        running = RunningWidth(draws, seed, center=_mean(_batches(points)))
        for batch in _batches(points):
            running.add(batch)
        return running.result()
    stream = _batches(points)
    first, most = _first_numbers(stream)
    running = RunningWidth(draws, seed, center=_mean(iter(first), most))
    for batch in chain(first, stream):
        running.add(batch)
    return running.result()


class RunningWidth:
    """Running extremes of inner products with random directions, for the even and the odd points apart.

    The directions depend on the seed and the dimension: `forget` frees them between batches, and they are generated
    again identically. The radius is measured from ``center``, by default the mean of the first batch.
    """

    def __init__(self, draws: int, seed: int, center: Array = None) -> None:
        self.draws, self.seed = draws, seed
        self._given = center
        self.highest: list[Array] = [None, None]
        self.lowest: list[Array] = [None, None]
        self.count = 0
        self.center: Array = None
        self.reach: Array = None
        self.directions: Array = None

    def forget(self) -> None:
        """Free the directions until the next batch."""
        self.directions = None

    def add(self, batch: Array) -> None:
        """Take in points ``[rows, ...]``."""
        dimension = _point_size(batch)
        if batch.shape[0] == 0:
            return
        if self.count == 0:
            self._start(batch, dimension)
        if dimension != self.dimension:
            raise InputError(f"a batch has points of dimension {dimension}, the first had {self.dimension}")
        xp = namespace(self.center)[0]
        if self.directions is None:
            chosen = random_directions(self.dimension, self.draws, self.seed).T
            self.directions = xp.asarray(chosen, dtype=self.center.dtype, device=array_api_compat.device(self.center))
        for block in _blocks(batch, max(dimension, self.draws)):
            block = xp.astype(block, self.directions.dtype, copy=False)
            products = block @ self.directions
            for half in (0, 1):
                part = products[(half + self.count) % 2 :: 2]
                if part.shape[0] == 0:
                    continue
                high, low = xp.max(part, axis=0), xp.min(part, axis=0)
                self.highest[half] = high if self.highest[half] is None else xp.maximum(self.highest[half], high)
                self.lowest[half] = low if self.lowest[half] is None else xp.minimum(self.lowest[half], low)
            offsets = block - self.center
            self.reach = xp.maximum(self.reach, xp.max(xp.sum(offsets * offsets, axis=1)))
            self.count += block.shape[0]

    def merge(self, later: RunningWidth) -> None:
        """Take in the points of another running width of the same directions and center, which come after these."""
        if later.count == 0:
            return
        xp = namespace(self.reach)[0]
        for half in (0, 1):
            theirs = (half + self.count) % 2
            for mine, others, larger in (
                (self.highest, later.highest, xp.maximum),
                (self.lowest, later.lowest, xp.minimum),
            ):
                sides = [side for side in (mine[half], others[theirs]) if side is not None]
                mine[half] = larger(*sides) if len(sides) == 2 else next(iter(sides), None)
        self.reach = xp.maximum(self.reach, later.reach)
        self.count += later.count

    def _start(self, batch: Array, dimension: int) -> None:
        """Bring the center to the library, type and device of the points."""
        self.dimension = dimension
        block = next(_blocks(batch, dimension))
        xp = namespace(block)[0]
        center = _mean(iter([batch])) if self._given is None else self._given
        self.center = xp.asarray(center, dtype=block.dtype, device=array_api_compat.device(block))
        self.reach = xp.zeros_like(self.center[:1])

    def result(self) -> MeanWidth:
        """Return the width of all points so far."""
        if self.count == 0:
            raise InputError("there are no points; give an array [N, n] or an iterable of such batches")
        if self.count == 1:
            raise InputError("one point has width 0; give at least two points")
        scale = gaussian_norm_mean(self.dimension)
        xp = namespace(self.reach)[0]
        widths = _float64(xp.maximum(*self.highest) - xp.minimum(*self.lowest))
        if not np.isfinite(widths).all():
            raise InputError("the points hold NaN or infinite values; remove or replace them first")
        radius = float(self.reach[0]) ** 0.5
        if not np.isfinite(radius):
            raise InputError("the squares of the points overflow; divide them by a large number first")
        halves = _float64((self.highest[0] - self.lowest[0] + self.highest[1] - self.lowest[1]) / 2)
        if radius == 0 or not widths.any():  # the mean of equal points may be off by rounding
            raise InputError(f"all {self.count} points are equal: their width is 0 and their dimension undefined")
        return _estimate(
            float(scale * widths.mean()),
            scale * _mean_error(widths),
            radius,
            doubling_gain=float(scale * (widths - halves).mean()),
            doubling_gain_error=scale * _mean_error(widths - halves),
            points=self.count,
            dimension=self.dimension,
            draws=len(widths),
            method="sampled (these points only)",
        )


def _width_of_set(members: WidthSet, draws: int, seed: int) -> MeanWidth:
    exact = members.width()
    if exact is not None:
        value, error, draws, method = exact, 0.0, 0, getattr(members, "width_method", "closed form")
    else:
        g = random_directions(members.ambient, draws, seed)
        widths = _float64(members.support(g)) + _float64(members.support(-g))
        if not np.isfinite(widths).all():
            raise InputError(
                "the support function is not finite: an unbounded set has no mean width; intersect it with a ball"
            )
        scale = gaussian_norm_mean(members.ambient)
        value, error, method = scale * float(widths.mean()), scale * _mean_error(widths), "sampled"
    return _estimate(
        value,
        error,
        getattr(members, "enclosing_radius", None),
        doubling_gain=None,
        doubling_gain_error=None,
        points=None,
        dimension=members.ambient,
        draws=draws,
        method=method,
    )


def _estimate(value: float, error: float, radius: float | None, **facts: Any) -> MeanWidth:
    """Return a `MeanWidth` with the numbers that follow from the width and the radius."""
    if radius is not None and not (radius > 0 and value > 0):
        raise InputError("the set is one point: its width is 0 and its dimension undefined")
    intrinsic = None if radius is None else (value / (2 * radius)) ** 2
    return MeanWidth(
        value=value,
        standard_error=error,
        one_sided=value / 2,
        intrinsic_dimension=intrinsic,
        intrinsic_dimension_error=None if intrinsic is None else 2 * intrinsic * error / value,
        radius=radius,
        **facts,
    )


def random_directions(dimension: int, draws: int, seed: int) -> np.ndarray:
    """Return unit vectors ``[draws, dimension]``, uniform on the sphere."""
    g = generator(seed, "mean width").standard_normal((draws, dimension))
    return np.asarray(g / np.linalg.norm(g, axis=1, keepdims=True))


def _is_there(points: Any) -> bool:
    """Return whether all points are in memory (or in a mapped file), so that two passes are possible."""
    return array_api_compat.is_array_api_obj(points) or hasattr(points, "to_numpy") or isinstance(points, (list, tuple))


def _first_numbers(stream: Iterator[Array]) -> tuple[list[Array], int]:
    """Return the first batches of a stream, and how many of their points make the center, however the stream is cut."""
    held: list[Array] = []
    wanted, count = 2, 0
    while count < wanted and (batch := next(stream, None)) is not None:
        wanted = max(_HELD // _point_size(batch), 2)
        held.append(batch)
        count += batch.shape[0]
    return held, wanted


def _mean(batches: Iterator[Array], most: float = math.inf) -> np.ndarray | None:
    """Return the mean of all points, or of the first ``most``, in double precision; None if there are none."""
    total: Any = None
    count = 0
    for batch in batches:
        dimension = _point_size(batch)
        if total is not None and len(total) != dimension:
            raise InputError(f"a batch has points of dimension {dimension}, the first had {len(total)}")
        for block in _blocks(batch, dimension):
            xp = namespace(block)[0]
            block = block[: int(min(most - count, block.shape[0]))]
            part = _float64(xp.sum(xp.astype(block, xp.float64), axis=0))
            total = part if total is None else total + part
            count += block.shape[0]
    return None if total is None else total / count


def _batches(points: Any) -> Iterator[Array]:
    """Yield arrays ``[rows, ...]`` from the user's points."""
    if array_api_compat.is_array_api_obj(points):
        yield points
        return
    if hasattr(points, "toarray"):
        raise InputError("the points are a sparse matrix; give dense batches, for example of X[i : i + 1000].toarray()")
    if not isinstance(points, Iterable) or isinstance(points, (str, bytes, dict)):
        raise InputError(
            f"{type(points).__name__} is not data; give an array [N, n], a tensor or an iterable of batches"
        )
    if hasattr(points, "to_numpy"):
        points = (points,)
    elif isinstance(points, (list, tuple)) and points and not any(map(_is_batch, points)):
        points = ([*points],)
    for batch in with_an_end(points):
        if isinstance(batch, (list, tuple)) and batch and _is_batch(batch[0]):
            batch = batch[0]
        yield batch if array_api_compat.is_array_api_obj(batch) else _numbers(batch)


def _is_batch(value: Any) -> bool:
    return array_api_compat.is_array_api_obj(value) or hasattr(value, "to_numpy")


def _numbers(values: Any) -> np.ndarray:
    """Return a data frame or nested lists as an array."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the {type(values).__name__} is neither a matrix of numbers nor a list of arrays; leave out text columns"
        ) from error


def _point_size(batch: Array) -> int:
    """Return the number of values in one point of a batch."""
    if batch.ndim < 2 or 0 in batch.shape[1:]:
        raise InputError(f"points of shape {tuple(batch.shape)} must be [N, n] or [N, ...]: one row per point")
    return math.prod(batch.shape[1:])


def _blocks(batch: Array, columns: int) -> Iterator[Array]:
    """Yield rows of real numbers, few at a time: arrays computed from a block, ``columns`` wide, limit the memory."""
    rows = max(_BLOCK_ELEMENTS // columns, 1)
    for start in range(0, batch.shape[0], rows):
        block = batch[start : start + rows]
        if array_api_compat.is_torch_array(block):
            block = block.detach()
        yield _real(block.reshape(block.shape[0], -1))


def _real(batch: Array) -> Array:
    """Return single precision for whole numbers and half precision (images), otherwise the batch's own dtype."""
    xp = array_api_compat.array_namespace(batch)
    if xp.isdtype(batch.dtype, "complex floating"):
        raise InputError("complex points have no Gaussian mean width here; stack real and imaginary parts")
    if not xp.isdtype(batch.dtype, ("bool", "integral", "real floating")):
        raise InputError(f"points of type {batch.dtype} are not numbers; convert them, or leave out text columns")
    return batch if batch.dtype in (xp.float32, xp.float64) else xp.astype(batch, xp.float32)


def _float64(values: Array) -> np.ndarray:
    return np.asarray(values.cpu() if array_api_compat.is_torch_array(values) else values, dtype=np.float64)


def _mean_error(samples: np.ndarray) -> float:
    return float(samples.std(ddof=1) / np.sqrt(len(samples)))
