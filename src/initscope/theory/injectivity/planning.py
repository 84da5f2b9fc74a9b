"""Widths that make a random ReLU network injective, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from initscope.errors import InputError, check_count, check_probability
from initscope.results import Result
from initscope.theory.injectivity.bounds import deep_expansivity, union_failure_bound, union_threshold
from initscope.theory.injectivity.gordon import gordon_bound
from initscope.theory.injectivity.replica import FULL_RSB

__all__ = ["Expansivity", "InjectiveWidths", "expansivity"]

LARGEST_INPUTS = 20_000


@dataclass(frozen=True)
class InjectiveWidths(Result):
    """Widths of one layer with ``inputs`` inputs: necessary, conjectured, and guaranteed by a rigorous ``bound``."""

    layer: int
    inputs: int
    necessary: int
    conjectured: int
    guaranteed: int
    bound: str


@dataclass(frozen=True)
class Expansivity(Result):
    """Plan of `expansivity`: the layers, and the constant width that suffices for a deep net (None below depth 4)."""

    n: int
    delta: float
    depth: int
    layers: tuple[InjectiveWidths, ...]
    constant_width: int | None
    method: str

    def table(self) -> list[dict[str, Any]]:
        """Return one row per layer."""
        return [layer.to_dict() for layer in self.layers]


def expansivity(*, n: int, delta: float, depth: int = 1) -> Expansivity:
    r"""Widths for which Gaussian ReLU layers are injective with probability at least 1 - δ.

    Parameters
    ----------
    n
        Inputs of the first layer.
    delta
        Probability that the network is not injective.
    depth
        Number of layers.

    Notes
    -----
    Per layer with k inputs, each layer allowed δ/L of failure:

    - ``necessary`` = 3k - 1: fewer rows in general position are never injective [Cover1965]_;
    - ``conjectured`` = ⌈6.698 k⌉: the full-RSB threshold, exact as k → ∞ and not rigorous;
    - ``guaranteed``: the smallest m at which one of two rigorous bounds is at most δ/L, and ``bound``, which one:
      "union" (`union_failure_bound`), the better one up to about 150 inputs, or "Gordon" (`gordon_bound`).

    The inputs of a layer are the guaranteed width of the one before, so that every layer is injective on its whole
    input space; widths then grow geometrically. Injectivity of the network as a whole needs less: equal widths of
    ``constant_width`` = ⌈2 L log L · n⌉ suffice for large depth [Paleka2021]_. It is returned from depth 4 on, at which
    it exceeds the width that makes the first layer surely injective; for smaller depths it would be wrong.

    >>> plan = expansivity(n=10, delta=0.01)
    >>> plan.layers[0].necessary, plan.layers[0].conjectured
    (29, 67)
    """
    n = check_count("n", n, most=LARGEST_INPUTS, hint="the inputs of the first layer")
    delta = check_probability("delta", delta)
    depth = check_count("depth", depth)
    layers: list[InjectiveWidths] = []
    inputs = n
    for layer in range(1, depth + 1):
        if inputs > LARGEST_INPUTS:
            raise InputError(
                f"layer {layer} would have {inputs} inputs, more than {LARGEST_INPUTS}: widths grow ninefold per layer;"
                f" plan at most {layer - 1} layers this way, or use the constant width of 2 L log L times n"
            )
        guaranteed, bound = _guaranteed(inputs, delta / depth)
        conjectured = math.ceil(FULL_RSB * inputs)
        layers.append(InjectiveWidths(layer, inputs, 3 * inputs - 1, conjectured, guaranteed, bound))
        inputs = guaranteed
    enough = depth >= 3 and deep_expansivity(depth) > union_threshold().value
    constant = math.ceil(deep_expansivity(depth) * n) if enough else None
    return Expansivity(
        n,
        delta,
        depth,
        tuple(layers),
        constant,
        "union over orthants or Gordon's comparison, δ shared between the layers",
    )


def _guaranteed(inputs: int, delta: float) -> tuple[int, str]:
    """Return the smallest width at which one of the rigorous bounds is at most ``delta``, and the bound's name."""
    union = _smallest_width(union_failure_bound, inputs, delta, 3 * inputs - 2, 10 * inputs + 16)
    if gordon_bound(union - 1, inputs) > delta:
        return union, "union"
    return _smallest_width(gordon_bound, inputs, delta, 3 * inputs - 2, union - 1), "Gordon"


def _smallest_width(bound: Callable[[int, int], float], inputs: int, delta: float, low: int, high: int) -> int:
    """Return the smallest width above ``low`` whose bound is at most ``delta``.

    Up to 3·inputs - 2 failure is certain, so the bounds are 1; from there they have one peak and then fall.
    """
    while bound(high, inputs) > delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if bound(middle, inputs) > delta else (low, middle)
    return high
