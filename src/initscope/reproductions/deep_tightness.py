"""Expansivity at which half of the deep random ReLU networks are injective, compared with the sufficient 2 L log L."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from initscope.errors import check_count
from initscope.injectivity import deep_collision
from initscope.reproductions._figures import Curves, Point
from initscope.reproductions._statistics import fit_line
from initscope.reproductions.protocol import Declared, Number
from initscope.theory.injectivity import deep_expansivity
from initscope.theory.injectivity.branching import branch

__all__ = ["REPRODUCTIONS", "half_injective", "median_width", "run"]

_SUFFICIENT = "2 L log L"
_FEWEST = 4
"""Fewest layers at which 2 L log L exceeds the expansivity that one layer needs."""
_SLOW = 1.6
"""Growth over four times the depth up to which the expansivity counts as logarithmic: that of the power 1/3."""


def run(
    depths: Mapping[int, Sequence[int]] | None = None, *, draws: Mapping[int, int] | int = 120, seed: int = 0
) -> Curves:
    """Return the expansivity at which half of the networks are injective, by inputs and depth, with fits a + b log L.

    Parameters
    ----------
    depths : mapping
        Numbers of layers by number of inputs; the default is the range that can be decided in minutes.
    draws : int or mapping
        Networks for each point, or by number of inputs.
    seed : int
        Seed of the weights.

    Returns
    -------
    Curves
        One curve for each number of inputs. [Maillard2022]_ asks whether the sufficient 2 L log L is tight.
    """
    if depths is None:
        depths = {2: (1, 2, 4, 8, 16, 32), 3: (1, 2, 4, 8), 4: (1, 2), 6: (1,)}
    rows = []
    for n, layers in depths.items():
        count = draws if isinstance(draws, int) else draws[n]
        halves = [half_injective(n, depth, draws=count, seed=seed) for depth in layers]
        logs, values = np.log(layers), np.array([half.value for half in halves])
        fits = np.full(len(layers), math.nan)
        if len(layers) > 2:
            line = fit_line(logs, values, [half.error or 0.0 for half in halves])
            fits = line.intercept + line.slope * logs
        rows += [
            Point(f"n = {n}", depth, half.value, half.error or 0.0, float(fit))
            for depth, half, fit in zip(layers, halves, fits, strict=True)
        ]
    deep = sorted({depth for layers in depths.values() for depth in layers if depth >= _FEWEST})
    rows += [Point(_SUFFICIENT, depth, predicted=deep_expansivity(depth)) for depth in deep]
    return Curves(tuple(rows), "layers L", "width of each layer / inputs", "xy")


def half_injective(inputs: int, depth: int, *, draws: int = 120, seed: int = 0) -> Number:
    """Return the expansivity at which half of the chains of Gaussian ReLU layers of equal width are injective.

    Each chain is decided exactly (`initscope.injectivity.deep_collision`), for the outlook of [Maillard2022]_.
    Widths go up and down: one more unit after a chain that is not injective, one less after one that is. So most
    draws are near the wanted width.

    Parameters
    ----------
    inputs, depth : int
        Inputs of the first layer and number of layers.
    draws : int
        Number of chains.
    seed : int
        Seed of the weights.

    Returns
    -------
    Number
        The expansivity and its standard error.
    """
    check_count("inputs", inputs), check_count("depth", depth), check_count("draws", draws, least=8)

    def injective(width: int, draw: int) -> bool:
        rng = np.random.default_rng([seed, inputs, depth, draw])
        layers = [rng.standard_normal((width, before)) for before in (inputs, *[width] * (depth - 1))]
        if depth == 1:  # branching decides one layer without a list of all cones
            return branch(layers[0]).injective is True
        return deep_collision(layers, limit=1_000_000) is None

    median = median_width(injective, round(inputs * (3.7 + 1.3 * math.log(depth))), draws)
    return Number(median.value / inputs, (median.error or 0.0) / inputs)


def median_width(outcome: Callable[[int, int], bool], width: int, draws: int) -> Number:
    """Return the width at which the outcome is true with probability 1/2, from an up-and-down sequence of trials.

    The trials are those of Dixon and Mood (1948). The estimate is the mean of the posterior of a logistic curve with a
    uniform prior of its median and of the logarithm of its scale; the error is the standard deviation.
    """
    widths, outcomes = [], []
    for draw in range(draws):
        widths.append(width)
        outcomes.append(outcome(width, draw))
        width += -1 if outcomes[-1] else 1
    center = np.linspace(min(widths) - 3.0, max(widths) + 3.0, 1201)
    scale = np.geomspace(0.2, 8.0, 60)[:, None]
    log_posterior = np.zeros((len(scale), len(center)))
    for trial, success in zip(widths, outcomes, strict=True):
        log_posterior -= np.logaddexp(0.0, (center - trial) / scale * (1 if success else -1))
    posterior = np.exp(log_posterior - log_posterior.max()).sum(axis=0)
    posterior /= posterior.sum()
    mean = float(posterior @ center)
    return Number(mean, math.sqrt(float(posterior @ (center - mean) ** 2)))


def _contrary(ours: Mapping[str, Number]) -> str:
    """Say where four times the depth needs much more expansivity: 2 L log L would need more than four times."""
    steep = []
    for name, number in ours.items():
        curve, _, depth = name.rpartition(" ")
        deeper = ours.get(f"{curve} {4 * int(depth)}")
        if deeper is not None and deeper.exceeds(Number(_SLOW * number.value)):
            steep.append(f"{name}: {number}, with four times the layers {deeper}")
    return f"the expansivity does not grow slowly ({'; '.join(steep)})" if steep else ""


REPRODUCTIONS = (
    Declared(
        id="injectivity-deep-tightness",
        source="Maillard et al. 2022, outlook: 'α ≥ 2 L log L is enough for depth L ≫ 1. Is this tight?'",
        statement="With few inputs, 2 L log L is not tight: the expansivity at which half of the networks are "
        "injective grows like log L.",
        produce=run,
        numbers=lambda result: {
            name: number for name, number in result.numbers().items() if not name.startswith(_SUFFICIENT)
        },
        contrary=_contrary,
        small={"depths": {2: (1, 2, 4)}, "draws": 16},
        full={"draws": {2: 150, 3: 60, 4: 16, 6: 150}},
    ),
)
