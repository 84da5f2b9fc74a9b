"""Random dense ReLU networks for reproductions: measured and predicted norms of activations and gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from initscope.initializers import Initializer
from initscope.plan import NormRatios, norm_ratios
from initscope.results import Result
from initscope.theory.norms import norm_ratio_mean_sd

__all__ = [
    "LayerRatios",
    "draw_ratios",
    "input_rows",
    "layer_ratios",
    "make_layers",
    "many_ratios",
    "rows_of_ratios",
]


@dataclass(frozen=True)
class LayerRatios(Result):
    """One layer of one network: measured mean and standard deviation over samples, predicted ones over networks.

    The ratios of norms are ‖h‖/‖x‖ for activations, ‖∂ℓ/∂W‖/(‖δ‖‖x‖) for gradients and ‖∂ℓ/∂a‖/‖δ‖ for errors, where δ
    is the error at the last hidden layer.
    """

    network: str
    width: int
    layer: int
    activation: float
    activation_sd: float
    activation_predicted: float
    activation_predicted_sd: float
    gradient: float
    gradient_sd: float
    gradient_predicted: float
    gradient_predicted_sd: float
    error: float
    error_sd: float
    error_predicted: float
    error_predicted_sd: float


def make_layers(sizes: Sequence[int]) -> list[torch.nn.Linear]:
    """Return Linear layers without biases between consecutive sizes; their weights are uninitialized."""
    # On the meta device no random numbers are drawn, so the random state of the user does not change.
    return [
        torch.nn.Linear(before, after, bias=False, device="meta").to_empty(device="cpu")
        for before, after in pairwise(sizes)
    ]


def input_rows(data: Any, samples: int, inputs: int, generator: torch.Generator) -> torch.Tensor:
    """Return at most ``samples`` rows of the data, with images flattened; Gaussian rows without data.

    Zero rows have no ratio of norms and are left out.
    """
    if data is None:
        return torch.randn(samples, inputs, generator=generator)
    rows = torch.as_tensor(np.asarray(getattr(data, "images", data)), dtype=torch.float32).flatten(1)[:samples]
    return rows[rows.norm(dim=1) > 0]


def draw_ratios(
    initializer: Initializer, layers: Sequence[torch.nn.Linear], inputs: torch.Tensor, *, seed: int
) -> NormRatios:
    """Re-initialize the weights, run forward and backward with random labels, and return the ratios of norms."""
    generator = torch.Generator().manual_seed(seed)
    weights = [initializer.fill_(layer, generator=generator).weight.detach() for layer in layers]
    labels = torch.randint(layers[-1].out_features, (len(inputs),), generator=generator)
    return norm_ratios(weights[:-1], weights[-1], inputs, labels)


def _predict_ratios(
    initializer: Initializer, inputs: int, widths: Sequence[int]
) -> list[dict[str, tuple[float, float]]]:
    """Return mean and standard deviation over networks of the three ratios of every layer, by name.

    They are those of the exact distribution for He fan-out, rescaled by the variance of each layer; gradients and
    errors use the independence assumption of theorem 3.
    """
    variances = [initializer.weight_distribution(layer).variance for layer in make_layers([inputs, *widths])]
    forward = [variance * width / 2 for variance, width in zip(variances, widths)]
    # In the backward pass from layer l+1 to l, the same weights are multiplied by the mask of layer l.
    backward = [variance * width / 2 for variance, width in zip(variances[1:], widths)]
    rows = []
    for layer in range(len(widths)):
        # The squared scale of each ratio, and the widths that determine its exact distribution.
        factors: dict[str, tuple[float, Sequence[int]]] = {
            "activation": (math.prod(forward[: layer + 1]), widths[: layer + 1]),
            "gradient": (math.prod(forward[:layer]) * math.prod(backward[layer:]), widths[:-1]),
            "error": (math.prod(backward[layer:]), widths[layer:-1]),
        }
        row = {}
        for name, (square, met) in factors.items():
            mean, sd = norm_ratio_mean_sd(met) if len(met) else (1.0, 0.0)
            row[name] = math.sqrt(square) * mean, math.sqrt(square) * sd
        rows.append(row)
    return rows


def rows_of_ratios(
    network: str, initializer: Initializer, inputs: int, widths: Sequence[int], drawn: NormRatios
) -> list[LayerRatios]:
    """Return a row per layer: mean and standard deviation of ``drawn`` along its last axis, and the predictions."""
    measured = {"activation": drawn.activations, "gradient": drawn.gradients, "error": drawn.errors}
    rows = []
    for index, predicted in enumerate(_predict_ratios(initializer, inputs, widths)):
        values: dict[str, Any] = {}
        for name, (mean, sd) in predicted.items():
            ratios = measured[name][index].double()
            values |= {name: float(ratios.mean()), f"{name}_sd": float(ratios.std())}
            values |= {f"{name}_predicted": mean, f"{name}_predicted_sd": sd}
        rows.append(LayerRatios(network=network, width=widths[index], layer=index + 1, **values))
    return rows


def layer_ratios(
    network: str, initializer: Initializer, inputs: torch.Tensor, widths: Sequence[int], *, classes: int, seed: int
) -> list[LayerRatios]:
    """Return a row per layer of one random network: measured statistics over samples, and predictions."""
    drawn = draw_ratios(initializer, make_layers([inputs.shape[1], *widths, classes]), inputs, seed=seed)
    return rows_of_ratios(network, initializer, inputs.shape[1], widths, drawn)


def many_ratios(
    initializer: Initializer, data: torch.Tensor, widths: Sequence[int], *, classes: int, draws: int, seed: int
) -> NormRatios:
    """Return the ratios ``[layers, draws]`` of ``draws`` networks, each with another row of the data."""
    layers = make_layers([data.shape[1], *widths, classes])
    drawn = [draw_ratios(initializer, layers, data[[draw % len(data)]], seed=seed + draw) for draw in range(draws)]
    return NormRatios(*(torch.cat(parts, dim=1) for parts in zip(*drawn, strict=True)))
