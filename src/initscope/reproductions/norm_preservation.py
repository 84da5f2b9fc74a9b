"""Figure 1 of [ArpitBengio2019]_: norms of activations and gradients under He and Glorot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch

from initscope.initializers import Glorot, He
from initscope.reproductions._figures import Rows, panels
from initscope.reproductions._networks import LayerRatios, input_rows, layer_ratios
from initscope.reproductions.protocol import Declared, Number
from initscope.results import line_color, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["REPRODUCTIONS", "NormPreservation", "run"]


@dataclass(frozen=True)
class NormPreservation(Rows):
    """One row per initialization, width and layer."""

    rows: tuple[LayerRatios, ...]

    def plot(self, ax: Axes | None = None, *, quantity: Literal["activation", "gradient"] = "activation") -> Axes:
        """Plot the measured mean ± sd over samples against the layer, one line per network, with predicted bands."""
        ax = make_axes(ax)
        networks = list(dict.fromkeys((row.network, row.width) for row in self.rows))
        widths = sorted({width for _, width in networks})
        for network, width in networks:
            rows = [row for row in self.rows if (row.network, row.width) == (network, width)]
            layers = [row.layer for row in rows]
            mean, sd, predicted, band = (
                [getattr(row, f"{quantity}{end}") for row in rows] for end in ("", "_sd", "_predicted", "_predicted_sd")
            )
            color = line_color(widths.index(width))
            style = "-" if network == "He" else "--"
            ax.errorbar(layers, mean, yerr=sd, color=color, linestyle=style, capsize=2, label=f"{network} {width}")
            low, high = ([p + sign * b for p, b in zip(predicted, band)] for sign in (-1, 1))
            ax.fill_between(layers, low, high, color=color, alpha=0.1, linewidth=0)
        ax.set_xlabel("layer")
        ax.set_ylabel(r"$\|h\|/\|x\|$" if quantity == "activation" else r"$\|\partial W\|/(\|\delta\|\|x\|)$")
        ax.legend(ncols=2, fontsize="small", loc="upper center", bbox_to_anchor=(0.62, 0.5))
        return ax

    def figure(self) -> Figure:
        """Return both panels of the published figure."""
        return panels(lambda ax: self.plot(ax, quantity="activation"), lambda ax: self.plot(ax, quantity="gradient"))


def run(
    data: Any = None,
    *,
    widths: Sequence[int] = (100, 500, 2000, 4060),
    depth: int = 10,
    samples: int = 2000,
    inputs: int = 500,
    classes: int = 20,
    seed: int = 0,
) -> NormPreservation:
    """Measure one random network per width and initialization.

    Source: [ArpitBengio2019]_ figure 1 and section 4.1.

    He has mode ``fan_out`` (variance 2/width of the layer), which preserves norms. Glorot loses a factor 2^(-1/2) per
    layer.
    """
    data = input_rows(data, samples, inputs, torch.Generator().manual_seed(seed))
    rows = []
    for name, initializer in (("He", He(mode="fan_out")), ("Glorot", Glorot())):
        for width in widths:
            rows += layer_ratios(name, initializer, data, [width] * depth, classes=classes, seed=seed + 1)
    return NormPreservation(tuple(rows))


def _last_layers(result: NormPreservation) -> dict[str, Number]:
    """Return the mean norm ratio of the last layer of the widest networks, with its standard deviation over samples."""
    widest = max(row.width for row in result.rows)
    last = [row for row in result.rows if row.width == widest and row.layer == max(r.layer for r in result.rows)]
    return {f"{row.network}, {row.width} wide": Number(row.activation, row.activation_sd) for row in last}


def _holds(result: NormPreservation) -> bool:
    """Return whether He is within four predicted standard deviations of 1, and Glorot below ½ at the last layer."""
    deepest = max(row.layer for row in result.rows)
    he = all(abs(row.activation - 1) < 4 * row.activation_predicted_sd for row in result.rows if row.network == "He")
    glorot = all(row.activation < 0.5 for row in result.rows if row.network == "Glorot" and row.layer == deepest)
    return he and glorot


REPRODUCTIONS = (
    Declared(
        id="norms-figure-1",
        source="Arpit, Bengio 2019, figure 1",
        statement="With He's initialization norms of activations and gradients "
        "are near 1, nearer for wider layers; with "
        "Glorot's they decrease.",
        produce=run,
        numbers=_last_layers,
        holds=_holds,
        small={"widths": (100, 400), "depth": 6, "samples": 100, "inputs": 80},
        data="data",
    ),
)
