"""`depth`: how deep a ReLU network of a given width may be."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from initscope.errors import check_count
from initscope.plan._base import FIXED, Plan
from initscope.plan._norms import (
    HE,
    STATEMENTS,
    Event,
    band_text,
    bands,
    check_aim,
    count_norms,
    layer_eps,
    norm_failure,
)
from initscope.theory import norms
from initscope.theory._search import log_excess, smallest

__all__ = ["DepthPlan", "depth"]

_WIDEST_DEEP = 10**6


@dataclass(frozen=True)
class DepthPlan(Plan):
    """`initscope.plan.depth`: the largest depth of a network of a given width (0: not even one layer)."""

    planner = "depth"
    unit = "depth"
    statements: ClassVar[dict[str, str]] = {
        "paper": "theorem 1 of the over-parameterization paper with its best split of eps over the layers",
        **STATEMENTS,
    }

    width: int
    samples: int
    event: str
    paper: int
    chernoff: int
    exact: int
    failure: float

    @property
    def aim(self) -> dict[str, Any]:
        """Return the band of squared norm ratios, the width and the number of inputs."""
        return {
            "squared norms within": band_text(1 - self.eps, 1 + self.eps),
            "width": self.width,
            "samples": self.samples,
        }

    def numbers(self, size: int) -> int:
        """Return the number of outputs of all samples."""
        return self.width * self.samples + self.samples**2

    def failures(self, size: int, trials: int, generator: np.random.Generator, images: Any = None) -> int:
        """Count the networks of ``size`` layers that leave 1 ± eps."""
        lows, highs = bands(self.eps, size, False)
        return count_norms(self.width, self.samples, trials, lows, highs, self.event == "last-layer", generator)


def depth(*, width: int, eps: float, delta: float, samples: int = 1, event: Event = "last-layer") -> DepthPlan:
    r"""How deep may a ReLU network of this width be, if ‖h‖²/‖x‖² is to stay within 1 ± ``eps``?

    The band is the same at every depth; a band :math:`(1\pm\varepsilon)^L` would be easier for deeper networks. 0 means
    that not even one layer satisfies it.

    Parameters
    ----------
    width
        Width of every layer.
    eps
        Distortion of a squared norm, between 0 and 1.
    delta
        Probability of failure, over the draw of the weights, for all ``samples`` together.
    samples
        Number of inputs whose norms must all be preserved.
    event
        ``"last-layer"``: the last layer's norm stays within 1 ± eps; ``"all-layers"``: every layer's.

    >>> plan = depth(width=1000, eps=0.5, delta=0.1)
    >>> plan.paper <= plan.chernoff < plan.exact
    True
    """
    check_aim(eps, delta, samples, event)
    check_count("width", width, most=_WIDEST_DEEP, hint="the exact distribution of many wider layers takes too long")

    def failure(layers: int) -> float:
        return samples * norm_failure(width, layers, eps, event, False, False)

    def deepest(bound: Callable[[int], float]) -> int:
        return smallest(lambda layers: -log_excess(bound(layers), delta * (1 + 1e-15)), scan=2, guess=guess) - 1

    # The log ratio is about normal with variance 5/width per layer.
    guess = math.ceil(width * math.log1p(eps) ** 2 / (10 * math.log(2 * samples / delta)))
    exact = deepest(failure)
    return DepthPlan(
        eps=eps,
        delta=delta,
        width=width,
        samples=samples,
        event=event,
        paper=deepest(lambda layers: layers * norms.relu_norm_bound(width, layer_eps(eps, layers), samples=samples)),
        chernoff=deepest(lambda layers: layers * norms.chernoff_bound(width, layer_eps(eps, layers), samples=samples)),
        exact=exact,
        failure=failure(exact) if exact else 0.0,
        assumptions=(HE, FIXED, "the answer for several samples adds their probabilities (union bound)"),
    )
