"""Assumptions of theorem 3 of [ArpitBengio2019]_: the error ‖∂ℓ/∂a‖/‖δ‖ in every layer, and fan-out or fan-in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from initscope.initializers import He
from initscope.reproductions._figures import Curves, Point
from initscope.reproductions._networks import input_rows, many_ratios
from initscope.reproductions._statistics import mean_and_error
from initscope.reproductions.protocol import Declared
from initscope.theory.norms import norm_ratio_mean_sd

__all__ = ["REPRODUCTIONS", "fan_modes", "run"]


def run(
    data: Any = None,
    *,
    width: int = 500,
    depth: int = 10,
    inputs: int = 500,
    classes: int = 20,
    draws: int = 200,
    seed: int = 0,
) -> Curves:
    """Return the mean over networks of ‖∂ℓ/∂a‖/‖δ‖ (δ: error at the last hidden layer), and its value for i.i.d. masks.

    ``data`` are input rows, by default Gaussian; the statement holds for any input. [ArpitBengio2019]_ eq. 20.
    """
    rows = input_rows(data, draws, inputs, torch.Generator().manual_seed(seed))
    drawn = many_ratios(He(mode="fan_out"), rows, [width] * depth, classes=classes, draws=draws, seed=seed + draws)
    forward, backward = drawn.activations.double().numpy(), drawn.errors.double().numpy()
    points = []
    for layer in range(depth):
        for kind, values, steps in (
            ("error ‖∂ℓ/∂a‖/‖δ‖", backward, depth - 1 - layer),
            ("activation ‖h‖/‖x‖", forward, layer + 1),
        ):
            mean, error = mean_and_error(values[layer])
            expected = norm_ratio_mean_sd([width] * steps)[0] if steps else 1.0
            points.append(Point(kind, layer + 1, float(mean), float(error), expected))
    return Curves(tuple(points), "layer", "ratio of norms, mean over networks")


def fan_modes(
    data: Any = None,
    *,
    widths: Sequence[int] = (400, 100, 300, 50, 200, 150),
    inputs: int = 100,
    classes: int = 10,
    draws: int = 300,
    seed: int = 0,
) -> Curves:
    """Return squared norms in layers of unequal widths: fan-out preserves them forward, fan-in backward.

    [ArpitBengio2019]_ after lemma 5.
    """
    rows = input_rows(data, draws, inputs, torch.Generator().manual_seed(seed))
    points = []
    for mode in ("fan_out", "fan_in"):
        drawn = many_ratios(He(mode=mode), rows, widths, classes=classes, draws=draws, seed=seed + draws)
        forward, backward = drawn.activations.double().numpy(), drawn.errors.double().numpy()
        for layer, width in enumerate(widths):
            ratios = {
                "forward": (forward, 1.0 if mode == "fan_out" else width / rows.shape[1]),
                # Backward from the last hidden layer: matrices have variance 2/n_out (or 2/n_in) and n_in units.
                "backward": (backward, width / widths[-1] if mode == "fan_out" else 1.0),
            }
            for direction, (values, expected) in ratios.items():
                mean, error = mean_and_error(values[layer] ** 2)
                name = f"{mode.replace('_', '-')}, {direction}"
                points.append(Point(name, layer + 1, float(mean), float(error), expected))
    return Curves(tuple(points), "layer", "squared ratio of norms, mean over networks", "y")


REPRODUCTIONS = (
    Declared(
        id="norms-equation-20",
        source="Arpit, Bengio 2019, eqs. 17 to 20",
        statement="The backward pass also preserves norms: ‖∂ℓ/∂a‖ ≈ ‖δ‖ in every "
        "layer, so gradients have norm ‖δ‖‖x‖.",
        produce=run,
        numbers=lambda result: {name: n for name, n in result.numbers().items() if name.startswith("error")},
        holds=lambda result: result.agree(errors=4.5, bias=0.02),
        small={"width": 100, "depth": 5, "inputs": 50, "classes": 10, "draws": 100},
        data="data",
    ),
    Declared(
        id="norms-fan-out",
        source="Arpit, Bengio 2019, section 3: fan-out or fan-in",
        statement="With unequal widths fan-out preserves norms forward and changes "
        "them backward; fan-in does the opposite.",
        produce=fan_modes,
        numbers=Curves.numbers,
        holds=lambda result: result.agree(errors=4.5, bias=0.1),
        small={"widths": (200, 50, 120, 80), "inputs": 60, "draws": 150},
        data="data",
    ),
)
