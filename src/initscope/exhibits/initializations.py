"""He (fan-in and fan-out), Glorot and LeCun on one network: norms and gradients, predicted and measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch

from initscope.exhibits._figures import Rows
from initscope.exhibits._networks import LayerRatios, draw_ratios, make_layers, predict_ratios
from initscope.exhibits.protocol import Declared, Number
from initscope.initializers import Glorot, He, LeCun
from initscope.results import make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["EXHIBITS", "Initializations", "run"]


@dataclass(frozen=True)
class Initializations(Rows):
    """One row per initialisation and layer; here the measured spread is over networks, as the predicted one is."""

    draws: int
    rows: tuple[LayerRatios, ...]

    def plot(self, ax: Axes | None = None, *, quantity: Literal["activation", "gradient"] = "activation") -> Axes:
        """Measured mean ± sd over networks (points) on the predicted mean and band, logarithmic."""
        ax = make_axes(ax)
        for index, network in enumerate(dict.fromkeys(row.network for row in self.rows)):
            rows = [row for row in self.rows if row.network == network]
            layers = [row.layer for row in rows]
            mean, sd, predicted, band = (
                np.array([getattr(row, f"{quantity}{end}") for row in rows])
                for end in ("", "_sd", "_predicted", "_predicted_sd")
            )
            color = f"C{index}"
            ax.errorbar(layers, mean, yerr=sd, fmt="o", color=color, markersize=3, capsize=2, label=network)
            ax.plot(layers, predicted, color=color, linewidth=0.8)
            ax.fill_between(layers, np.maximum(predicted - band, 1e-12), predicted + band, color=color, alpha=0.15)
        ax.set_yscale("log")
        ax.set_xlabel("layer")
        ax.set_ylabel(r"$\|h\|/\|x\|$" if quantity == "activation" else r"$\|\partial W\|/(\|\delta\|\|x\|)$")
        ax.legend()
        return ax


def run(
    *,
    widths: Sequence[int] = (500, 800, 400, 700, 300, 600, 500, 900, 400, 500),
    inputs: int = 500,
    classes: int = 20,
    draws: int = 100,
    seed: int = 0,
) -> Initializations:
    """Draw ``draws`` networks per initialisation, each on a fresh input, and compare with the exact mean and spread.

    Source: [ArpitBengio2019]_ sections 3.1 and 3.2; LeCun's law and unequal widths go beyond it.

    Equal widths make the two modes of He agree, and Glorot and LeCun; unequal ones tell them apart (fan-in multiplies
    ‖h‖² by n_l/n_{l-1}).
    """
    rows = []
    layers = make_layers([inputs, *widths, classes])
    for name, initializer in (
        ("He fan-in", He(mode="fan_in")),
        ("He fan-out", He(mode="fan_out")),
        ("Glorot", Glorot()),
        ("LeCun", LeCun()),
    ):
        drawn = []
        for draw in range(draws):
            generator = torch.Generator().manual_seed(seed + draw)
            data = torch.randn(1, inputs, generator=generator)
            drawn.append(draw_ratios(initializer, layers, data, seed=seed + draws + draw))
        activations, gradients = (torch.cat(parts, dim=1).double().numpy() for parts in zip(*drawn))
        for index, (activation, gradient) in enumerate(predict_ratios(initializer, inputs, widths)):
            rows.append(
                LayerRatios(
                    network=name,
                    width=widths[index],
                    layer=index + 1,
                    activation=float(activations[index].mean()),
                    activation_sd=float(activations[index].std(ddof=1)),
                    activation_predicted=activation[0],
                    activation_predicted_sd=activation[1],
                    gradient=float(gradients[index].mean()),
                    gradient_sd=float(gradients[index].std(ddof=1)),
                    gradient_predicted=gradient[0],
                    gradient_predicted_sd=gradient[1],
                )
            )
    return Initializations(draws, tuple(rows))


def _last_layers(found: Initializations) -> dict[str, Number]:
    deepest = max(row.layer for row in found.rows)
    return {
        row.network: Number(row.activation, row.activation_sd / found.draws**0.5)
        for row in found.rows
        if row.layer == deepest
    }


EXHIBITS = (
    Declared(
        id="norms-initializations",
        source="Arpit, Bengio 2019, section 3",
        statement="Fan-out keeps norms whatever the widths; fan-in, Glorot and LeCun multiply them by known factors.",
        produce=run,
        numbers=_last_layers,
        holds=lambda found: all(
            abs(row.activation - row.activation_predicted) < 4.5 * row.activation_predicted_sd / found.draws**0.5
            for row in found.rows
        ),
        small={"widths": (60, 120, 40), "inputs": 50, "draws": 100},
    ),
)
