"""`width`: how wide a ReLU network must be to preserve the norms of its inputs, or of its gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from initscope.errors import InputError, check_count
from initscope.plan._base import FIXED, Plan, check_width, count_failures
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

__all__ = ["Quantity", "WidthPlan", "width"]

Quantity = Literal["activations", "gradients"]

_DEEPEST = {"last-layer": 10_000, "all-layers": 50}
"""Larger depths are refused: the band of each layer needs an integration over all layers before it."""


@dataclass(frozen=True)
class WidthPlan(Plan):
    """`initscope.plan.width`: widths, and the exact probability of failure at the exact width."""

    planner = "width"
    unit = "width"
    statements: ClassVar[dict[str, str]] = {
        "paper": "lemma 2 (depth 1), theorem 1 or (gradients) theorem 3 of the over-parameterization paper, as printed",
        **STATEMENTS,
    }

    depth: int
    samples: int
    event: str
    quantity: str
    per_layer: bool
    paper: int
    chernoff: int
    exact: int
    failure: float

    @property
    def aim(self) -> dict[str, Any]:
        """Return the band of squared norm ratios at the last layer, the depth and the number of inputs."""
        lows, highs = bands(self.eps, self.depth, self.per_layer)
        return {"squared norms within": band_text(lows[-1], highs[-1]), "depth": self.depth, "samples": self.samples}

    def numbers(self, size: int) -> int:
        """Return the number of outputs of all samples, and of weights for gradients."""
        gradients = self.depth * size**2 if self.quantity == "gradients" else 0
        return size * self.samples + self.samples**2 + gradients

    def failures(self, size: int, trials: int, generator: np.random.Generator, images: Any = None) -> int:
        """Count the networks that leave their band."""
        lows, highs = bands(self.eps, self.depth, self.per_layer)
        last = self.event == "last-layer"
        if self.quantity == "gradients":
            return count_failures(trials, 1, lambda _: _gradients(size, self, lows[-1], highs[-1], last, generator))
        return count_norms(size, self.samples, trials, lows, highs, last, generator)


def width(
    *,
    eps: float,
    delta: float,
    depth: int = 1,
    samples: int = 1,
    event: Event = "last-layer",
    quantity: Quantity = "activations",
    per_layer: bool = False,
) -> WidthPlan:
    r"""How wide must a ReLU network be, so that no squared norm is distorted beyond ``eps``?

    Parameters
    ----------
    eps
        Distortion: ‖h‖²/‖x‖² of the whole network stays within 1 ± eps.
    delta
        Probability of failure, over the draw of the weights, for all ``samples`` together.
    depth
        Number of layers.
    samples
        Number of inputs whose norms must all be preserved.
    event
        ``"last-layer"``: the last layer's norm; ``"all-layers"``: every layer's (gradients: the union over layers).
    quantity
        ``"activations"``, or ``"gradients"``: ‖∂ℓ/∂W‖²/(‖δ‖²‖x‖²) of a layer (theorem 3).
    per_layer
        Let the band widen with depth instead: (1 - eps)^l … (1 + eps)^l at layer l, the band of theorem 1 of the paper.
        With eps 0.1 that is 0.35…2.59 after ten layers.

    >>> plan = width(eps=0.1, delta=0.05)
    >>> plan.paper, plan.chernoff, plan.exact
    (4152, 3698, 1919)
    """
    check_aim(eps, delta, samples, event)
    check_count("depth", depth, most=_DEEPEST[event], hint=f"the limit for the event {event}")
    if quantity not in ("activations", "gradients"):
        raise InputError(f"quantity = {quantity!r} must be 'activations' or 'gradients'")
    gradients = quantity == "gradients"
    step = eps if per_layer else layer_eps(eps, depth)
    # Theorem 3 has a union over both passes, forward and backward.
    parts = 2 * depth if gradients else depth

    def failure(size: int) -> float:
        return samples * norm_failure(size, depth, eps, event, per_layer, gradients)

    guess = _guess(eps, delta / samples, depth, event, per_layer)
    check_width(guess, f"eps = {eps:g} and delta = {delta:g}")
    exact = smallest(lambda size: log_excess(failure(size), delta), guess=guess)
    assumptions: tuple[str, ...] = (
        HE,
        FIXED,
        "the answer for several samples adds their probabilities (union bound)",
    )
    if gradients:
        assumptions += (
            "the error at a layer is independent of the masks and weights before it (footnote 1 of the paper)",
        )
    return WidthPlan(
        eps=eps,
        delta=delta,
        depth=depth,
        samples=samples,
        event=event,
        quantity=quantity,
        per_layer=per_layer,
        paper=norms.relu_norm_width(step, delta, depth=parts, samples=samples),
        chernoff=norms.chernoff_width(step, delta, depth=parts, samples=samples),
        exact=exact,
        failure=failure(exact),
        assumptions=assumptions,
    )


def _guess(eps: float, delta: float, layers: int, event: str, per_layer: bool) -> int:
    """Return a first guess of the width: the log ratio is about normal with variance 5/width per layer."""
    steps = 1 if event == "all-layers" and per_layer else layers
    band = eps * (steps if per_layer else 1)
    return math.ceil(steps * 5 * math.log(2 / delta) / band**2)


def _gradients(size: int, plan: WidthPlan, low: float, high: float, last: bool, generator: np.random.Generator) -> bool:
    """Return whether a network with a softmax head of 20 classes has a gradient norm outside the band.

    ``last``: check only the gradient of the first layer, the last one in the backward pass.
    """
    import torch

    from initscope.plan.gradient_norms import norm_ratios

    def gaussian(rows: int, columns: int, variance: float) -> torch.Tensor:
        return torch.from_numpy(generator.standard_normal((rows, columns)) * math.sqrt(variance))

    layers = [gaussian(size, size, 2 / size) for _ in range(plan.depth)]
    labels = torch.from_numpy(generator.integers(0, 20, plan.samples))
    ratios = norm_ratios(layers, gaussian(20, size, 1 / size), gaussian(plan.samples, size, 1.0), labels)
    squares = (ratios.gradients[:1] if last else ratios.gradients) ** 2
    return bool(((squares < low) | (squares > high)).any())
