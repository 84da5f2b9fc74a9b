"""Theorem 1 and proposition 1 of [ArpitBengio2019]_: norms that leave their interval, and active units."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any

import numpy as np
import torch

from initscope.errors import check_count
from initscope.initializers import He
from initscope.reproductions._figures import Curves, Point
from initscope.reproductions._networks import input_rows, many_ratios
from initscope.reproductions.protocol import Declared
from initscope.theory.norms import activation_bound, active_units, path_norm_failure

__all__ = ["REPRODUCTIONS", "active", "run"]


def run(
    data: Any = None,
    *,
    depths: Sequence[int] = (1, 2, 5, 10, 20),
    width: int = 300,
    eps: float = 0.2,
    draws: int = 4000,
    seed: int = 0,
) -> Curves:
    """Compute the fraction of networks in which a squared norm leaves [(1-ε)^l, (1+ε)^l]: bound, exact, measured.

    Each network has another row of ``data``, by default Gaussian: the distribution is the same for every input.
    """
    check_count("draws", draws, least=2)
    rows_in = input_rows(data, draws, width, torch.Generator().manual_seed(seed))
    widths = [width] * max(depths)
    drawn = many_ratios(He(mode="fan_out"), rows_in, widths, classes=2, draws=draws, seed=seed + draws)
    logs = 2 * np.log(drawn.activations.double().numpy().T)
    layers = np.arange(1, max(depths) + 1)
    out = (logs > layers * np.log1p(eps)) | (logs < layers * np.log1p(-eps))
    rows = []
    for depth in depths:
        share = float(out[:, :depth].any(axis=1).mean())
        error = float(np.sqrt(max(share * (1 - share), 1 / draws) / draws))
        bands = [(1 - eps) ** layer for layer in layers[:depth]], [(1 + eps) ** layer for layer in layers[:depth]]
        exact = path_norm_failure([width] * depth, *bands).value
        rows.append(Point("networks drawn, and exact", depth, share, error, exact))
        rows.append(Point("theorem 1", depth, predicted=activation_bound([width] * depth, eps)))
    return Curves(tuple(rows), "layers", "probability of leaving the interval", "xy")


def active(data: Any = None, *, width: int = 100, inputs: int = 30, draws: int = 20_000, seed: int = 0) -> Curves:
    """Compute the fraction of layers by number of active units, and Binomial(width, ½); each layer has another row."""
    rng = np.random.default_rng(seed)
    rows_in = input_rows(data, draws, inputs, torch.Generator().manual_seed(seed)).double().numpy()
    counts = np.array(
        [
            np.count_nonzero(rng.standard_normal((width, rows_in.shape[1])) @ x > 0)
            for x in islice(cycle(rows_in), draws)
        ]
    )
    numbers, expected = active_units(width)
    seen = np.bincount(counts, minlength=width + 1) / len(counts)
    rows = [
        Point("", int(k), float(seen[k]), float(np.sqrt(max(p * (1 - p), 1e-12) / len(counts))), float(p))
        for k, p in zip(numbers, expected)
        if p > 1e-4
    ]
    return Curves(tuple(rows), "active units", "fraction of layers")


def _between(result: Curves) -> bool:
    """Return whether measured and exact probabilities agree and are below the bound of the theorem."""
    bound = {row.x: row.predicted for row in result.curve("theorem 1")}
    exact = result.curve("networks drawn, and exact")
    return result.agree(errors=4.5) and all(row.predicted <= bound[row.x] for row in exact)


REPRODUCTIONS = (
    Declared(
        id="norms-theorem-1",
        source="Arpit, Bengio 2019, theorem 1",
        statement="The probability that the norm of a layer leaves (1 ± ε)^l is below the bound of the theorem.",
        produce=run,
        numbers=lambda result: {name: n for name, n in result.numbers().items() if "drawn" in name},
        holds=_between,
        small={"depths": (1, 3, 6), "width": 60, "draws": 500},
        full={"draws": 2000},
        data="data",
    ),
    Declared(
        id="norms-proposition-1",
        source="Arpit, Bengio 2019, proposition 1",
        statement="The number of active units of a random ReLU layer is Binomial(width, ½) for every input.",
        produce=active,
        numbers=lambda result: {
            name: n for name, n in result.numbers().items() if name.endswith((" 40", " 50", " 60"))
        },
        holds=lambda result: result.agree(errors=4.5),
        small={"draws": 2000, "inputs": 10},
        data="data",
    ),
)
