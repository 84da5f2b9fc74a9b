"""Random dense ReLU networks for the exhibits: drawn with an initializer, their norms run and predicted."""

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

__all__ = ["LayerRatios", "draw_ratios", "input_rows", "layer_ratios", "make_layers", "predict_ratios"]


@dataclass(frozen=True)
class LayerRatios(Result):
    """One layer of one network: mean and standard deviation over samples, measured, and over networks, predicted.

    Ratios of norms: ‖h‖/‖x‖ for activations, ‖∂ℓ/∂W‖/(‖δ‖‖x‖) for gradients.
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


def make_layers(sizes: Sequence[int]) -> list[torch.nn.Linear]:
    """Linear layers from each size to the next, without biases, their weights still to be drawn."""
    # Made on the meta device nothing is drawn, neither here nor from the user's random state.
    return [
        torch.nn.Linear(before, after, bias=False, device="meta").to_empty(device="cpu")
        for before, after in pairwise(sizes)
    ]


def input_rows(data: Any, samples: int, inputs: int, generator: torch.Generator) -> torch.Tensor:
    """The user's rows, images flattened, at most ``samples``; without any, Gaussian ones.

    Zero rows have no ratio of norms and are left out.
    """
    if data is None:
        return torch.randn(samples, inputs, generator=generator)
    rows = torch.as_tensor(np.asarray(getattr(data, "images", data)), dtype=torch.float32).flatten(1)[:samples]
    return rows[rows.norm(dim=1) > 0]


def draw_ratios(
    initializer: Initializer, layers: Sequence[torch.nn.Linear], inputs: torch.Tensor, *, seed: int
) -> NormRatios:
    """Draw the weights anew, run the samples forwards and backwards with random labels; the last layer is the head."""
    generator = torch.Generator().manual_seed(seed)
    weights = [initializer.fill_(layer, generator=generator).weight.detach() for layer in layers]
    labels = torch.randint(layers[-1].out_features, (len(inputs),), generator=generator)
    return norm_ratios(weights[:-1], weights[-1], inputs, labels)


def predict_ratios(
    initializer: Initializer, inputs: int, widths: Sequence[int]
) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """Mean and standard deviation, over networks, of the activation and the gradient ratio of every layer.

    The exact law of He fan-out, rescaled by each layer's variance; gradients under the independence assumption of
    theorem 3.
    """
    variances = [initializer.law(layer).variance for layer in make_layers([inputs, *widths])]
    forward = [variance * width / 2 for variance, width in zip(variances, widths)]
    # Back from layer l+1 to l the same weights meet the mask of layer l.
    backward = [variance * width / 2 for variance, width in zip(variances[1:], widths)]
    rows = []
    for layer in range(len(widths)):
        scales = math.prod(forward[: layer + 1]), math.prod(forward[:layer]) * math.prod(backward[layer:])
        gradient = norm_ratio_mean_sd(widths[:-1]) if len(widths) > 1 else (1.0, 0.0)
        activation = norm_ratio_mean_sd(widths[: layer + 1])
        rows.append(
            (
                (math.sqrt(scales[0]) * activation[0], math.sqrt(scales[0]) * activation[1]),
                (math.sqrt(scales[1]) * gradient[0], math.sqrt(scales[1]) * gradient[1]),
            )
        )
    return rows


def layer_ratios(
    network: str, initializer: Initializer, inputs: torch.Tensor, widths: Sequence[int], *, classes: int, seed: int
) -> list[LayerRatios]:
    """Draw, run and predict one network: a row per layer."""
    drawn = draw_ratios(initializer, make_layers([inputs.shape[1], *widths, classes]), inputs, seed=seed)
    predicted = predict_ratios(initializer, inputs.shape[1], widths)
    rows = []
    for index, (width, (activation, gradient)) in enumerate(zip(widths, predicted)):
        values: dict[str, Any] = {}
        for name, measured, (mean, sd) in (
            ("activation", drawn.activations[index], activation),
            ("gradient", drawn.gradients[index], gradient),
        ):
            values |= {
                name: float(measured.mean()),
                f"{name}_sd": float(measured.std()),
                f"{name}_predicted": mean,
                f"{name}_predicted_sd": sd,
            }
        rows.append(LayerRatios(network=network, width=width, layer=index + 1, **values))
    return rows
