"""`depth_coordinates`: models of several depths, and what grows in them, predicted and after a few steps."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import nn

from initscope.errors import InputError, check_count
from initscope.scaling.coordinate_check import (
    AtSize,
    OptimizerFactory,
    checked_data,
    fitted,
    predicted_exponent,
    predicted_sizes,
)
from initscope.scaling.coordinate_results import DEPTH, CoordinateRow, DepthCheck, Floats, two_errors

__all__ = ["depth_coordinates"]

STREAM, SHARE, OUTPUT = "stream", "last branch's share", "output"


def depth_coordinates(
    factory: Callable[..., nn.Module],
    x: Any,
    *,
    width: int,
    depths: Sequence[int],
    targets: Any = None,
    optimizer: OptimizerFactory | None = None,
    steps: int = 5,
    draws: int = 2,
    tolerance: float = 0.2,
    seed: int = 0,
) -> DepthCheck:
    """Check how the stream, the last branch's share of it, and the output grow with the number of blocks.

    The stream is the last sum of branches; models without sums have their output alone. Where sizes do
    not depend on the depth, what suits a shallow model suits a deep one.

    Parameters
    ----------
    factory : callable
        ``factory(width, depth=depth)`` builds the model, with its weights drawn.
    x : tensor ``[samples, ...]``
        One batch; the first half of it is predicted against the second.
    width : int
        Of all models.
    depths : sequence of int
        At least two.
    targets, optimizer, steps, draws, tolerance, seed
        As of `coordinates`.

    Returns
    -------
    DepthCheck

    Examples
    --------
    >>> import torch
    >>> def stack(width, depth):
    ...     return torch.nn.Sequential(*(torch.nn.Linear(width, width, bias=False) for _ in range(depth)))
    >>> found = depth_coordinates(stack, torch.randn(8, 16), width=16, depths=(2, 4), steps=0)
    >>> found.findings[0].split(":")[0][:32]      # torch draws variances of a third
    'the output shrinks like depth^-1'
    """
    depths, width = tuple(check_count("depths", depth) for depth in depths), check_count("width", width)
    if len(set(depths)) < 2:
        raise InputError(f"depths = {depths}: an exponent needs at least two different depths")
    if "depth" not in _names(factory):
        raise InputError(f"{getattr(factory, '__name__', factory)} takes no depth; give factory(width, depth)")
    steps, draws = check_count("steps", steps, least=0), check_count("draws", draws)
    data, found = checked_data(x), []
    for depth in depths:
        one = AtSize(functools.partial(factory, depth=depth), width, data, targets, optimizer, width, depth)
        found.append(_quantities(one, steps, draws, seed))
    names = [name for name in found[0] if all(name in each for each in found)]
    squares = np.stack([np.stack([each[name][0] for name in names], axis=-1) for each in found])
    rows = []
    for place, name in enumerate(names):
        predicted = predicted_exponent(depths, np.stack([each[name][1] for each in found], axis=1))
        rows.append(CoordinateRow(name, DEPTH, DEPTH, *predicted, *fitted(depths, squares[..., place])))
    sizes = np.sqrt(squares.mean(axis=1))
    return DepthCheck(depths, steps, tolerance, tuple(rows), sizes, _depth_findings(rows, tolerance))


def _names(factory: Any) -> Sequence[str]:
    try:
        return list(inspect.signature(factory).parameters)
    except (TypeError, ValueError):
        return ["depth"]


def _quantities(one: AtSize, steps: int, draws: int, seed: int) -> dict[str, tuple[Floats, Floats]]:
    """By name: squared sizes ``[draws, steps + 1]``, and the sizes predicted at initialization, ``[draws]``."""
    runs = [one.run(steps, seed + draw) for draw in range(draws)]
    names = runs[0][1]
    squares = np.stack([size**2 for size, _ in runs])
    predicted = predicted_sizes([one], names, draws, seed)[:, 0]
    result = {OUTPUT: (squares[..., -1], predicted[:, -1])}
    sums = [index for index, name in enumerate(names) if name.role == "merge" and len(name.reads) > 1]
    if sums:
        last = sums[-1]
        branch = max(names[last].reads)  # it runs behind what it is added to
        result[STREAM] = squares[..., last], predicted[:, last]
        result[SHARE] = squares[..., branch] / squares[..., last], predicted[:, branch] / predicted[:, last]
    return {name: result[name] for name in (STREAM, SHARE, OUTPUT) if name in result}


def _depth_findings(rows: Sequence[CoordinateRow], tolerance: float) -> tuple[str, ...]:
    """In words, what depends on the depth; what a branch has of the stream may fall."""
    advice = {
        STREAM: "draw the outputs of branches over the root of their number, or multiply branches by it",
        OUTPUT: "norm what the head reads, or scale the weights so that layers keep sizes",
    }
    found = []
    for row in rows:
        end = row.measured[-1]
        if row.layer in advice and math.isfinite(end) and abs(end) > tolerance + two_errors(row, -1):
            verb = "grows" if end > 0 else "shrinks"
            found.append(f"the {row.layer} {verb} like depth^{end:.2g}: {advice[row.layer]}")
    return tuple(found)
