"""Figure 3 of [ArpitBengio2019]_: gradient norms in networks whose layers differ in width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from initscope.errors import InputError
from initscope.initializers import He
from initscope.reproductions._figures import Rows
from initscope.reproductions._networks import LayerRatios, input_rows, layer_ratios
from initscope.reproductions.protocol import Declared, Number
from initscope.results import line_color, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["REPRODUCTIONS", "WidthVariation", "run"]


@dataclass(frozen=True)
class WidthVariation(Rows):
    """One row per variation and layer; `spread` is the root mean square distance of the gradient ratio from 1."""

    variations: tuple[int, ...]
    spread: tuple[float, ...]
    predicted_spread: tuple[float, ...]
    rows: tuple[LayerRatios, ...]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the gradient ratio of every layer, mean ± sd over samples, with the predicted mean as a thin line."""
        ax = make_axes(ax)
        for index, variation in enumerate(self.variations):
            rows = [row for row in self.rows if row.network == _name(variation)]
            layers = [row.layer for row in rows]
            ax.errorbar(
                layers,
                [row.gradient for row in rows],
                yerr=[row.gradient_sd for row in rows],
                color=line_color(index),
                capsize=2,
                label=f"v = {variation}",
            )
            ax.plot(
                layers, [row.gradient_predicted for row in rows], color=line_color(index), linewidth=0.8, linestyle=":"
            )
        ax.set_xlabel("layer")
        ax.set_ylabel(r"$\|\partial W\|/(\|\delta\|\|x\|)$")
        ax.legend()
        return ax


def _name(variation: int) -> str:
    return f"±{variation}"


def run(
    data: Any = None,
    *,
    variations: Sequence[int] = (1, 200, 500),
    width: int = 1000,
    depth: int = 20,
    samples: int = 1000,
    inputs: int = 500,
    classes: int = 20,
    seed: int = 0,
) -> WidthVariation:
    """Measure networks with widths from U(width - v, width + v) and He fan-out; larger v gives ratios farther from 1.

    Source: [ArpitBengio2019]_ figure 3 and section 4.3.

    The prediction multiplies the gradient of layer l for equal widths by √(n_l/n_L), since fan-out preserves only the
    forward pass.
    """
    if max(variations) >= width:
        raise InputError(
            f"variations up to {max(variations)} must stay below width = {width}, so that every layer has units"
        )
    data = input_rows(data, samples, inputs, torch.Generator().manual_seed(seed))
    rows: list[LayerRatios] = []
    spread, predicted = [], []
    for variation in variations:
        widths = np.random.default_rng(seed).integers(width - variation, width + variation, depth, endpoint=True)
        fresh = layer_ratios(
            _name(variation), He(mode="fan_out"), data, widths.tolist(), classes=classes, seed=seed + 1
        )
        rows += fresh
        spread.append(float(np.sqrt(np.mean([(row.gradient - 1) ** 2 + row.gradient_sd**2 for row in fresh]))))
        predicted.append(
            float(np.sqrt(np.mean([(row.gradient_predicted - 1) ** 2 + row.gradient_predicted_sd**2 for row in fresh])))
        )
    return WidthVariation(tuple(variations), tuple(spread), tuple(predicted), tuple(rows))


REPRODUCTIONS = (
    Declared(
        id="norms-figure-3",
        source="Arpit, Bengio 2019, figure 3",
        statement="Gradient norms are farther from 1 if the widths of the layers differ more.",
        produce=run,
        numbers=lambda result: {f"spread at ±{v}": Number(s) for v, s in zip(result.variations, result.spread)},
        holds=lambda result: all(a < b for a, b in zip(result.spread, result.spread[1:])),
        small={"variations": (1, 120, 180), "width": 200, "depth": 8, "samples": 50, "inputs": 50},
        data="data",
    ),
)
