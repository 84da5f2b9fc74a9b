"""He (fan-in and fan-out), Glorot and LeCun on one network: norms and gradients, predicted and measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from initscope.initializers import Glorot, He, LeCun
from initscope.reproductions._figures import Rows
from initscope.reproductions._networks import LayerRatios, input_rows, many_ratios, rows_of_ratios
from initscope.reproductions.protocol import Declared, Number
from initscope.results import line_color, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["REPRODUCTIONS", "Initializations", "run"]


@dataclass(frozen=True)
class Initializations(Rows):
    """One row per initialization and layer; measured and predicted standard deviations are over networks."""

    draws: int
    rows: tuple[LayerRatios, ...]

    def plot(self, ax: Axes | None = None, *, quantity: Literal["activation", "gradient"] = "activation") -> Axes:
        """Plot measured mean ± sd over networks (points), and the predicted mean and band, on a logarithmic axis."""
        ax = make_axes(ax)
        for index, network in enumerate(dict.fromkeys(row.network for row in self.rows)):
            rows = [row for row in self.rows if row.network == network]
            layers = [row.layer for row in rows]
            mean, sd, predicted, band = (
                np.array([getattr(row, f"{quantity}{end}") for row in rows])
                for end in ("", "_sd", "_predicted", "_predicted_sd")
            )
            color = line_color(index)
            ax.errorbar(layers, mean, yerr=sd, fmt="o", color=color, markersize=3, capsize=2, label=network)
            ax.plot(layers, predicted, color=color, linewidth=0.8)
            ax.fill_between(layers, np.maximum(predicted - band, 1e-12), predicted + band, color=color, alpha=0.15)
        ax.set_yscale("log")
        ax.set_xlabel("layer")
        ax.locator_params(axis="x", integer=True)
        ax.set_ylabel(r"$\|h\|/\|x\|$" if quantity == "activation" else r"$\|\partial W\|/(\|\delta\|\|x\|)$")
        ax.legend()
        return ax


def run(
    data: Any = None,
    *,
    widths: Sequence[int] = (500, 800, 400, 700, 300, 600, 500, 900, 400, 500),
    inputs: int = 500,
    classes: int = 20,
    draws: int = 100,
    seed: int = 0,
) -> Initializations:
    """Compare ``draws`` networks per initialization, each on another row, with the exact mean and standard deviation.

    Source: [ArpitBengio2019]_ sections 3.1 and 3.2; LeCun's initialization is an addition. ``data`` are the rows, by
    default Gaussian.

    For equal widths both modes of He agree, and so do Glorot and LeCun. Unequal widths distinguish them: fan-in
    multiplies ‖h‖² by n_l/n_{l-1}.
    """
    samples = input_rows(data, draws, inputs, torch.Generator().manual_seed(seed))
    inputs = samples.shape[1]
    rows: list[LayerRatios] = []
    for name, initializer in (
        ("He fan-in", He(mode="fan_in")),
        ("He fan-out", He(mode="fan_out")),
        ("Glorot", Glorot()),
        ("LeCun", LeCun()),
    ):
        drawn = many_ratios(initializer, samples, widths, classes=classes, draws=draws, seed=seed + draws)
        rows += rows_of_ratios(name, initializer, inputs, widths, drawn)
    return Initializations(draws, tuple(rows))


def _last_layers(result: Initializations) -> dict[str, Number]:
    deepest = max(row.layer for row in result.rows)
    return {
        row.network: Number(row.activation, row.activation_sd / result.draws**0.5)
        for row in result.rows
        if row.layer == deepest
    }


REPRODUCTIONS = (
    Declared(
        id="norms-initializations",
        source="Arpit, Bengio 2019, section 3",
        statement="Fan-out preserves norms for any widths; fan-in, Glorot and LeCun multiply them by known factors.",
        produce=run,
        numbers=_last_layers,
        holds=lambda result: all(
            abs(row.activation - row.activation_predicted) < 4.5 * row.activation_predicted_sd / result.draws**0.5
            for row in result.rows
        ),
        small={"widths": (60, 120, 40), "inputs": 50, "draws": 100},
        data="data",
    ),
)
