"""Footnote 1 of [ArpitBengio2019]_: the error of the independence assumption of theorem 3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from initscope.initializers import He
from initscope.reproductions._figures import Rows
from initscope.reproductions._networks import input_rows, many_ratios
from initscope.reproductions.protocol import Declared, Number
from initscope.results import Result, make_axes
from initscope.theory.norms import gradient_norm_failure, log_norm_moment

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["REPRODUCTIONS", "Independence", "IndependenceRow", "run"]


@dataclass(frozen=True)
class IndependenceRow(Result):
    """Squared gradient ratio of the first layer in networks of one width, and its prediction under independence."""

    width: int
    mean: float
    mean_error: float
    predicted_mean: float
    variance: float
    predicted_variance: float
    failure: float
    failure_error: float
    predicted_failure: float


@dataclass(frozen=True)
class Independence(Rows):
    """One row per width."""

    depth: int
    eps: float
    draws: int
    rows: tuple[IndependenceRow, ...]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot observed and predicted failure probabilities against width."""
        ax = make_axes(ax)
        widths = [row.width for row in self.rows]
        ax.plot(widths, [row.predicted_failure for row in self.rows], label="predicted for independence (exact)")
        ax.errorbar(
            widths,
            [row.failure for row in self.rows],
            yerr=[2 * row.failure_error for row in self.rows],
            fmt="o",
            capsize=2,
            label="networks, ± 2 standard errors",
        )
        ax.set_xscale("log")
        ax.set_xlabel("width")
        ax.set_ylabel(f"probability outside (1 ± {self.eps:g})^{self.depth}, gradient of layer 1")
        ax.legend()
        return ax


def run(
    data: Any = None,
    *,
    widths: Sequence[int] = (10, 20, 50, 100, 200),
    depth: int = 5,
    eps: float = 0.1,
    draws: int = 1000,
    classes: int = 20,
    seed: int = 0,
) -> Independence:
    """Compare the distribution of gradient norms in networks with a softmax head with that under independence.

    Source: [ArpitBengio2019]_ footnote 1.

    The backpropagated error at layer l depends on the weights through one direction of the forward pass,
    :math:`h^{l-1}`. The error of the assumption is therefore of order 1/width per layer, as the rows show. ``data`` are
    input rows, by default Gaussian.
    """
    rows = []
    low, high = (1 - eps) ** depth, (1 + eps) ** depth
    for width in widths:
        samples = input_rows(data, draws, width, torch.Generator().manual_seed(seed))
        options = {"classes": classes, "draws": draws, "seed": seed + draws}
        drawn = many_ratios(He(mode="fan_out"), samples, [width] * depth, **options)
        squares = drawn.gradients[0].double().numpy() ** 2
        squares = squares[np.isfinite(squares)]
        failed = float(np.mean((squares < low) | (squares > high)))
        rows.append(
            IndependenceRow(
                width=width,
                mean=float(squares.mean()),
                mean_error=float(squares.std(ddof=1) / np.sqrt(squares.size)),
                predicted_mean=1.0,
                variance=float(squares.var(ddof=1)),
                predicted_variance=float(np.expm1(log_norm_moment([width] * (depth - 1), 2.0))),
                failure=failed,
                failure_error=float(np.sqrt(failed * (1 - failed) / squares.size)),
                predicted_failure=gradient_norm_failure([width] * depth, 1, low, high).value,
            )
        )
    return Independence(depth, eps, draws, tuple(rows))


REPRODUCTIONS = (
    Declared(
        id="norms-footnote-1",
        source="Arpit, Bengio 2019, footnote 1",
        statement="Backpropagated errors are independent of the weights up to order 1/width.",
        produce=run,
        numbers=lambda result: {
            f"mean squared gradient ratio at width {row.width}": Number(row.mean, row.mean_error) for row in result.rows
        },
        holds=lambda result: all(
            abs(row.failure - row.predicted_failure) < 4 * row.failure_error + 3 / row.width for row in result.rows
        ),
        small={"widths": (20, 100), "depth": 3, "draws": 200},
        data="data",
    ),
)
