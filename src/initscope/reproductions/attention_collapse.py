r"""Collapse of tokens in fifty post-norm blocks below a critical scale of the attention scores, and not above it.

Scores of a query have the standard deviation :math:`\beta\sqrt{\ln T}`. In the limit of many tokens their softmax is a
random energy model: for tokens of cosine ρ it spreads over all tokens below :math:`\beta_c = \sqrt{2/(1-\rho)}` and
concentrates on a few above. T = 512 is far from the limit; `initscope.theory.attention.participation` is exact for
every T.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from initscope.errors import check_count
from initscope.reproductions._figures import Curves, Point, panels
from initscope.reproductions.protocol import Declared, Number
from initscope.results import Result, line_color
from initscope.theory.activations import relu
from initscope.theory.attention import participation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["REPRODUCTIONS", "AttentionCollapse", "block", "run"]

VARIANCE, BIAS = 0.2, 4e-4  # variances of weights (times the fan-in) and of biases, as in the source
_ROWS = 48  # number of sampled pairs of queries for the overlap of their weights
_NODES = 25  # number of standard deviations at which the participation is computed


@dataclass(frozen=True)
class AttentionCollapse(Result):
    """Mean cosine of tokens after every block, for attention ``alone`` and with ReLU layers (``blocks``).

    Curves have measured and predicted values; those named "limit" are predictions for infinitely many tokens.
    """

    alone: Curves
    blocks: Curves

    def table(self) -> list[dict[str, Any]]:
        """Return the points of both stacks."""
        return [
            {"stack": stack} | row
            for stack, curves in (("attention alone", self.alone), ("with ReLU layers", self.blocks))
            for row in curves.table()
        ]

    def figure(self) -> Figure:
        """Plot cosines against depth for both stacks: dots are measured, lines predicted, dashed lines the limit."""
        return panels(
            lambda ax: _draw(self.alone, ax, "attention alone"),
            lambda ax: _draw(self.blocks, ax, "attention and ReLU layers"),
        )


def _draw(curves: Curves, ax: Axes, title: str) -> None:
    """Plot the curves with one color per β."""
    for index, kind in enumerate(kind for kind in curves.kinds() if not kind.endswith("limit")):
        color, points, far = line_color(index), curves.curve(kind), curves.curve(f"{kind}, limit")
        positions = [point.x for point in points]
        ax.plot(positions, [point.predicted for point in points], color=color, linewidth=1.4)
        ax.plot(positions, [point.predicted for point in far], "--", color=color, linewidth=1.1)
        seen = points[::2]
        bars = [2 * point.standard_error for point in seen]
        heights = [point.measured for point in seen]
        ax.errorbar([p.x for p in seen], heights, bars, fmt="o", color=color, markersize=4, capsize=2, label=kind)
    ax.plot([], [], color="0.3", label="predicted")
    ax.plot([], [], "--", color="0.3", label="limit of many tokens")
    ax.set(xlabel=curves.xlabel, ylabel=curves.ylabel, title=title)
    ax.legend(fontsize="small")


def block(cosine: float, share: float, common: float, *, layers: bool = True) -> float:
    r"""Return the cosine of tokens after a post-norm block of attention and, with ``layers``, a ReLU layer and biases.

    Tokens have mean square 1. ``share`` is :math:`Y = \sum_s p_s^2` for the weights of a query and ``common``
    :math:`Y' = \sum_s p_s p'_s` for two queries: outputs of attention have mean squares :math:`\rho + (1-\rho)Y` and
    products :math:`\rho + (1-\rho)Y'`.

    >>> block(0.0, 1.0, 0.0, layers=False), block(1.0, 0.3, 0.1)
    (0.0, 1.0)
    """
    bias = BIAS if layers else 0.0
    same, other = (cosine + (1 - cosine) * overlap for overlap in (share, common))
    rho = (VARIANCE * other + bias + cosine) / (VARIANCE * same + bias + 1)
    if not layers:
        return rho
    square, product = VARIANCE + bias, VARIANCE * rho + bias
    dual = [float(relu.dual(np.array(square), np.array(square), np.array(kxy))) for kxy in (square, product)]
    return (VARIANCE * dual[1] + bias + rho) / (VARIANCE * dual[0] + bias + 1)


def _predicted(beta: float, tokens: int, depth: int, seed: int, *, layers: bool) -> list[float]:
    """Return predicted cosines after every block for this number of tokens; the overlap of two queries is sampled."""
    generator, cosines = torch.Generator().manual_seed(seed), [0.0]
    largest = beta * math.sqrt(math.log(tokens))
    nodes = np.linspace(0, largest, _NODES)
    shares = [participation(tokens, float(node)) for node in nodes]
    for _ in range(depth):
        rho = cosines[-1]
        deviation = largest * math.sqrt(1 - rho)
        first, fresh = torch.randn((2, _ROWS, tokens), generator=generator, dtype=torch.float64)
        second = rho * first + math.sqrt(1 - rho**2) * fresh  # queries have the cosine of their tokens
        common = float(((deviation * first).softmax(-1) * (deviation * second).softmax(-1)).sum(dim=-1).mean())
        cosines.append(block(rho, float(np.interp(deviation, nodes, shares)), common, layers=layers))
    return cosines


def _limit(beta: float, depth: int, first: float, *, layers: bool) -> list[float]:
    """Return the cosines for infinitely many tokens (random energy model), from the cosine after the first block."""
    cosines = [0.0, first]
    for _ in range(depth - 1):
        critical = math.sqrt(2 / (1 - cosines[-1])) if cosines[-1] < 1 else math.inf
        cosines.append(block(cosines[-1], max(0.0, 1 - critical / beta), 0.0, layers=layers))
    return cosines


def _measured(beta: float, width: int, tokens: int, depth: int, *, layers: bool, generator: Any) -> list[float]:
    """Return the mean cosines of the tokens in one random network; all tokens are different."""

    def normal(*shape: int, variance: float = 1.0) -> Tensor:
        return math.sqrt(variance) * torch.randn(shape, generator=generator)

    def normed(x: Tensor) -> Tensor:
        return torch.nn.functional.layer_norm(x, (width,))

    x = normed(normal(tokens, width))
    cosines = [_mean_cosine(x)]
    scores = beta * math.sqrt(math.log(tokens)) / width  # variance of the weights of queries and keys
    bias = BIAS if layers else 0.0
    for _ in range(depth):
        query, key = (x @ normal(width, width, variance=scores) for _ in range(2))
        weights = (query @ key.mT / math.sqrt(width)).softmax(dim=-1)
        value = x @ normal(width, width, variance=VARIANCE / width) + normal(width, variance=bias)
        x = normed(x + weights @ value)
        if layers:
            inner, outer = (normal(width, width, variance=VARIANCE / width) for _ in range(2))
            x = normed(x + (x @ inner + normal(width, variance=bias)).relu() @ outer + normal(width, variance=bias))
        cosines.append(_mean_cosine(x))
    return cosines


def _mean_cosine(x: Tensor) -> float:
    units = torch.nn.functional.normalize(x.double(), dim=-1)
    count = len(x)
    return float((units.sum(dim=0).square().sum() - count) / (count * (count - 1)))


def run(
    betas: Sequence[float] = (0.5, 1.0, 2.0, 3.0),
    *,
    width: int = 720,
    tokens: int = 512,
    depth: int = 50,
    networks: int = 2,
    seed: int = 0,
) -> AttentionCollapse:
    """Return the cosine of tokens after every block, for several scales of the scores.

    The settings are those of [GiorlandinoGoldt2026]_: one head, width 720, 512 tokens, 50 post-norm blocks of attention
    (without an output matrix) and ReLU layers, weights of variance 0.2/fan-in, biases of variance 0.0004. We also run
    attention without ReLU layers and biases. Their tokens come from text; ours are all different.
    """
    networks = check_count("networks", networks, least=2)
    stacks = []
    for layers in (False, True):
        rows: list[Point] = []
        for beta in betas:
            drawn = [
                _measured(
                    beta, width, tokens, depth, layers=layers, generator=torch.Generator().manual_seed(1 + seed + index)
                )
                for index in range(networks)
            ]
            mean, error = np.mean(drawn, axis=0), np.std(drawn, axis=0, ddof=1) / math.sqrt(networks)
            ours = _predicted(beta, tokens, depth, seed, layers=layers)
            far = _limit(beta, depth, ours[1], layers=layers)
            for position in range(depth + 1):
                seen = float(mean[position]), float(error[position])
                rows.append(Point(f"β = {beta:g}", float(position), *seen, ours[position]))
                rows.append(Point(f"β = {beta:g}, limit", float(position), predicted=far[position]))
        stacks.append(Curves(tuple(rows), "block", "mean cosine of tokens"))
    return AttentionCollapse(*stacks)


def _numbers(result: AttentionCollapse) -> dict[str, Number]:
    numbers = {}
    for stack, curves in (("attention alone", result.alone), ("with ReLU layers", result.blocks)):
        for name, number in curves.numbers(ends=True).items():
            numbers[f"{stack}, {name}"] = number
        for kind in curves.kinds():
            if not kind.endswith("limit"):
                numbers[f"{stack}, {kind}, predicted"] = Number(curves.curve(kind)[-1].predicted)
    return numbers


def _holds(result: AttentionCollapse) -> bool:
    """Return whether tokens collapse below the critical scale and stay distinct above, in agreement with predictions.

    The tolerance includes 0.06, because cosines are correlated from block to block and the error over two networks is
    uncertain.
    """
    for kind in result.alone.kinds():
        end = result.alone.curve(kind)[-1]
        if not kind.endswith("limit"):
            beta = float(kind.removeprefix("β = "))
            if not (end.measured > 0.8 if beta < math.sqrt(2) else end.measured < 0.6):
                return False
    return all(curves.agree(errors=4, bias=0.06) for curves in (result.alone, result.blocks))


REPRODUCTIONS = (
    Declared(
        id="attention-collapse",
        source="Giorlandino, Goldt 2026, figure 1 (theory and networks of 50 blocks, β = 0.5 and 3)",
        statement="Below a critical scale of attention scores tokens collapse with depth; above it they stay distinct.",
        produce=run,
        numbers=_numbers,
        holds=_holds,
        small={"betas": (0.5, 3.0), "width": 192, "tokens": 128},
    ),
)
