"""Section 1 of [Nachum2022]_: the Jacobian of a deep network at initialization, and how the weights of a layer move."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from initscope.errors import check_count
from initscope.initializers import He, Initializer, Orthogonal
from initscope.measurement import jacobian_spectrum
from initscope.models import load_model
from initscope.reproductions._figures import Curves, Point
from initscope.reproductions._statistics import mean_and_error
from initscope.reproductions.protocol import Declared
from initscope.theory.angles import relu_cosine
from initscope.theory.jacobians import singular_value_distribution

__all__ = ["REPRODUCTIONS", "gradient_lines", "run"]

_NEAR_ZERO = 0.1
"""Singular values below this count as near 0."""
_INPUT_SCALE = 0.3
"""Standard deviation of inputs: hard tanh with orthogonal weights is an isometry for small inputs."""
_VARIANTS: dict[str, tuple[str, Initializer]] = {
    "ReLU, Gaussian": ("relu", He()),
    "ReLU, orthogonal": ("relu", Orthogonal(gain=2**0.5)),
    "hard tanh, orthogonal": ("hardtanh", Orthogonal(gain=1.0)),
}


def run(*, depths: Sequence[int] = (1, 2, 4, 8, 16), width: int = 200, draws: int = 10, seed: int = 0) -> Curves:
    """Return the share of singular values of the Jacobian near 0 by depth: networks, and free probability.

    [Nachum2022]_ section 1, [Pennington2017]_.
    """
    check_count("draws", draws, least=2)
    rows = []
    for name, (sigma, initializer) in _VARIANTS.items():
        orthogonal = isinstance(initializer, Orthogonal)
        for depth in depths:
            model = load_model(f"dense{width}-{sigma}*{depth}", input_shape=(width,), seed=seed)
            shares = []
            for draw in range(draws):
                generator = torch.Generator().manual_seed(seed + draw)
                for layer in model.modules():
                    if isinstance(layer, torch.nn.Linear):
                        initializer.fill_(layer, generator=generator)
                x = _INPUT_SCALE * torch.randn(1, width, generator=generator)
                spectrum = jacobian_spectrum(model, x, samples=1, whole=True)
                assert spectrum.values is not None
                shares.append(float(np.mean(spectrum.values < _NEAR_ZERO)))
            expected = singular_value_distribution(
                [width] * (depth + 1),
                sigma,
                weight_variance=1.0 if sigma == "hardtanh" else 2.0,
                orthogonal=orthogonal,
                input_variance=_INPUT_SCALE**2,
            )
            mean, error = map(float, mean_and_error(shares))
            rows.append(Point(name, depth, mean, error, float(expected.below([_NEAR_ZERO])[0])))
    return Curves(tuple(rows), "layers", f"share of singular values below {_NEAR_ZERO:g}", "x")


def gradient_lines(
    *, depth: int = 30, width: int = 500, inputs: int = 8, classes: int = 10, draws: int = 10, seed: int = 0
) -> Curves:
    """Return, layer by layer, the largest share of gradients along one direction of the inputs of the layer.

    Gradients are those of single samples, with unit norm: N orthogonal inputs with random labels. If the inputs of the
    layer have cosines ρ, the share is (1 + (N-1)ρ)/N. [Nachum2022]_ section 1.
    """
    model = load_model(f"dense{width}-relu*{depth}-dense{classes}", input_shape=(width,), seed=seed)
    layers = [layer for layer in model.modules() if isinstance(layer, torch.nn.Linear)]
    shares = np.empty((len(layers), check_count("draws", draws, least=2)))
    for draw in range(draws):
        generator = torch.Generator().manual_seed(seed + draw)
        for layer in layers:
            He().fill_(layer, generator=generator)
        x = torch.linalg.qr(torch.randn(width, inputs, generator=generator))[0].T * width**0.5
        labels = torch.randint(classes, (inputs,), generator=generator)
        weights = [layer.weight for layer in layers]
        single = [
            torch.autograd.grad(torch.nn.functional.cross_entropy(model(row[None]), label[None]), weights)
            for row, label in zip(x, labels)
        ]
        for index, gradients in enumerate(zip(*single)):
            squares = (
                torch.linalg.svdvals(torch.cat([gradient / gradient.norm() for gradient in gradients]).double()) ** 2
            )
            shares[index, draw] = float(squares[0] / squares.sum())
    means, errors = mean_and_error(shares)
    rows, rho = [], 0.0
    for number, (mean, error) in enumerate(zip(means, errors), 1):
        rows.append(Point("", number, float(mean), float(error), (1 + (inputs - 1) * rho) / inputs))
        rho = float(relu_cosine(rho))
    return Curves(tuple(rows), "layer", "share of gradients along one line")


def _opposite(result: Curves) -> bool:
    """Return whether shares are as predicted, and rise with depth for ReLU but not for hard tanh."""
    values = {kind: [point.measured for point in result.curve(kind)] for kind in result.kinds()}
    collapsing = [values[kind] for kind in result.kinds() if kind.startswith("ReLU")]
    rise = all(list(curve) == sorted(curve) and curve[-1] > 0.5 for curve in collapsing)
    return rise and max(values["hard tanh, orthogonal"]) < 0.1 and result.agree(errors=4, bias=0.02)


def _along_a_line(result: Curves) -> bool:
    """Return whether shares rise from layer to layer to more than .9, as predicted."""
    (curve,) = (result.curve(kind) for kind in result.kinds())
    return curve[-1].measured > 0.9 > 0.5 > curve[0].measured and result.agree(errors=4, bias=0.03)


REPRODUCTIONS = (
    Declared(
        id="cnn-dynamical-isometry",
        source="Nachum et al. 2022, section 1: the opposite of dynamical isometry",
        statement="Most singular values of the Jacobian of a deep ReLU network at initialization are near 0, with "
        "Gaussian and with orthogonal weights; dynamical isometry means that all are near 1.",
        produce=run,
        numbers=Curves.numbers,
        holds=_opposite,
        small={"depths": (1, 4), "width": 100, "draws": 6},
    ),
    Declared(
        id="cnn-weights-along-a-line",
        source="Nachum et al. 2022, section 1: the weights of a deep layer",
        statement="The gradients of a deep layer have nearly the same direction in the space of its inputs for all "
        "samples, so that its weights move roughly along a line.",
        produce=gradient_lines,
        numbers=lambda result: {
            name: number for name, number in result.numbers().items() if int(name.rpartition(" ")[2]) % 5 == 1
        },
        holds=_along_a_line,
        small={"depth": 20, "width": 200, "draws": 4},
    ),
)
