"""Search for the smallest sufficient whole number, shared by widths, depths, dimensions and bits."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["log_excess", "smallest"]


def log_excess(failure: float, aim: float) -> float:
    """Return by how much a probability of failure exceeds its target, in logarithms: nearly linear in size."""
    return math.log(failure / aim) if failure > 0 else -math.inf


def smallest(excess: Callable[[int], float], *, guess: int = 1, scan: int = 8, most: int = 2**48) -> int:
    """Return the smallest whole number whose ``excess`` is at most 0, for an excess that decreases with size.

    The first ``scan`` numbers are tried one by one (atoms make the smallest sizes irregular). Then a bracket around
    ``guess`` is closed by interpolation, or by bisection if that does not halve it.

    >>> smallest(lambda size: 1000.5 - size)
    1001
    """
    at_low = math.inf
    for low in range(1, scan + 1):
        at_low = excess(low)
        if at_low <= 0:
            return low
    low, high = scan, max(guess, scan + 1)
    while (at_high := excess(high)) > 0:
        low, at_low, high = high, at_high, 2 * high
        if high > most:
            raise OverflowError(f"no answer below {most}")
    bisect = False
    while high - low > 1:
        middle = (low + high) // 2
        slope = at_low - at_high
        if not bisect and 0 < slope < math.inf:
            middle = min(max(math.ceil(low + (high - low) * at_low / slope), low + 1), high - 1)
        before = high - low
        at_middle = excess(middle)
        if at_middle <= 0:
            high, at_high = middle, at_middle
        else:
            low, at_low = middle, at_middle
        bisect = not bisect and 2 * (high - low) > before
    return high
