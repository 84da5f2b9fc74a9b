"""Thresholds of the expansivity above which a random ReLU layer is injective."""

from __future__ import annotations

from itertools import pairwise

from initscope.injectivity import ThresholdLine, thresholds
from initscope.reproductions.protocol import Declared, Number

__all__ = ["REPRODUCTIONS"]


def _numbers(line: ThresholdLine) -> dict[str, Number]:
    named = ("cover", "union", "euler", "rs", "one_rsb", "full_rsb")
    return {name: Number(getattr(line, name).value, getattr(line, name).error) for name in named}


def _ordered(line: ThresholdLine) -> bool:
    """Return whether lower bound, replica values from the finest to the coarsest, and upper bound are increasing."""
    chain = [line.cover, line.full_rsb, line.one_rsb, line.rs, line.union]
    return all(below.value < above.value for below, above in pairwise(chain))


REPRODUCTIONS = (
    Declared(
        id="injectivity-thresholds",
        source="Maillard et al. 2022, summary",
        statement="Cover's bound 3, the union bound 9.09, Euler's surrogate 8.34, and the replica values between them.",
        produce=thresholds,
        numbers=_numbers,
        holds=_ordered,
    ),
)
