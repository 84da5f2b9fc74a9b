"""`depth_coordinates`: RMS values of a model at several depths, predicted, and measured over a few optimizer steps."""

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
    """Check how the residual stream, the share of the last branch, and the output grow with the number of blocks.

    The stream is the last sum of branches; in models without sums only the output is checked. If scales do not depend
    on the depth, hyperparameters of a shallow model transfer to a deep one.

    Parameters
    ----------
    factory : callable
        ``factory(width, depth=depth)`` returns the initialized model.
    x : tensor ``[samples, ...]``
        One batch. The prediction uses pairs of a sample of the first half and a sample of the second half.
    width : int
        Width of all models.
    depths : sequence of int
        At least two.
    targets, optimizer, steps, draws, tolerance, seed
        See `coordinates`.

    Returns
    -------
    DepthCheck

    Examples
    --------
    >>> import torch
    >>> def stack(width, depth):
    ...     return torch.nn.Sequential(*(torch.nn.Linear(width, width, bias=False) for _ in range(depth)))
    >>> check = depth_coordinates(stack, torch.randn(8, 16), width=16, depths=(2, 4), steps=0)
    >>> check.findings[0].split(":")[0][:32]      # the default of torch has variance 1/(3·fan-in)
    'the output shrinks like depth^-1'
    """
    depths, width = tuple(check_count("depths", depth) for depth in depths), check_count("width", width)
    if len(set(depths)) < 2:
        raise InputError(f"depths = {depths}: an exponent needs at least two different depths")
    if "depth" not in _names(factory):
        raise InputError(
            f"{getattr(factory, '__name__', factory)} has no parameter depth; "
            "depth_coordinates needs factory(width, depth)"
        )
    steps, draws = check_count("steps", steps, least=0), check_count("draws", draws)
    data, by_depth = checked_data(x), []
    for depth in depths:
        model = AtSize(functools.partial(factory, depth=depth), width, data, targets, optimizer, width, depth)
        by_depth.append(_quantities(model, steps, draws, seed))
    names = [name for name in by_depth[0] if all(name in quantities for quantities in by_depth)]
    squares = np.stack([np.stack([quantities[name][0] for name in names], axis=-1) for quantities in by_depth])
    rows = []
    for index, name in enumerate(names):
        predicted = predicted_exponent(depths, np.stack([quantities[name][1] for quantities in by_depth], axis=1))
        rows.append(CoordinateRow(name, DEPTH, DEPTH, *predicted, *fitted(depths, squares[..., index])))
    sizes = np.sqrt(squares.mean(axis=1))
    return DepthCheck(depths, steps, tolerance, tuple(rows), sizes, _depth_findings(rows, tolerance))


def _names(factory: Any) -> Sequence[str]:
    try:
        return list(inspect.signature(factory).parameters)
    except (TypeError, ValueError):
        return ["depth"]


def _quantities(model: AtSize, steps: int, draws: int, seed: int) -> dict[str, tuple[Floats, Floats]]:
    """Return by name the squared RMS ``[draws, steps + 1]``, and the RMS predicted at initialization, ``[draws]``."""
    runs = [model.run(steps, seed + draw) for draw in range(draws)]
    names = runs[0][1]
    squares = np.stack([size**2 for size, _ in runs])
    predicted = predicted_sizes([model], names, draws, seed)[:, 0]
    result = {OUTPUT: (squares[..., -1], predicted[:, -1])}
    sums = [index for index, name in enumerate(names) if name.role == "merge" and len(name.reads) > 1]
    if sums:
        last = sums[-1]
        branch = max(names[last].reads)  # the branch is computed after the stream that it is added to
        result[STREAM] = squares[..., last], predicted[:, last]
        result[SHARE] = squares[..., branch] / squares[..., last], predicted[:, branch] / predicted[:, last]
    return {name: result[name] for name in (STREAM, SHARE, OUTPUT) if name in result}


def _depth_findings(rows: Sequence[CoordinateRow], tolerance: float) -> tuple[str, ...]:
    """Return messages about quantities that depend on the depth; the share of a branch may shrink."""
    advice = {
        STREAM: "divide the output weights of branches, or the branches, by the square root of their number",
        OUTPUT: "normalize the input of the head, or scale the weights so that layers preserve the RMS",
    }
    messages = []
    for row in rows:
        final = row.measured[-1]
        if row.layer in advice and math.isfinite(final) and abs(final) > tolerance + two_errors(row, -1):
            verb = "grows" if final > 0 else "shrinks"
            messages.append(f"the {row.layer} {verb} like depth^{final:.2g}: {advice[row.layer]}")
    return tuple(messages)
