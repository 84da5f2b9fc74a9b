"""Theorem 2, corollary 1 and lemma 2 of [Nachum2022]_: concentration of the cosine with the number of filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from initscope.data import load, random_pairs
from initscope.errors import check_count
from initscope.initializers import LeCun
from initscope.measurement import measure
from initscope.models import load_model
from initscope.plan import filters as plan_filters
from initscope.reproductions._figures import Curves, Point
from initscope.reproductions.protocol import Declared
from initscope.theory.images import cosine, expected_cosine

__all__ = ["REPRODUCTIONS", "linear", "run"]


def _pair(seed: int) -> tuple[np.ndarray, np.ndarray]:
    x, y, _ = random_pairs(load("photos", crop=32, limit=8), 1, seed)
    return np.asarray(x), np.asarray(y)


def _spread(text: str, x: Any, y: Any, filters: int, layers: int, aim: float, seed: int) -> tuple[float, float]:
    """Return the RMS distance of the cosine of a layer from ``aim``, with its standard error, over ``layers`` draws.

    A layer whose filters all give zero on one of the images has no cosine and is left out.
    """
    model = load_model(text.format(filters=filters), input_shape=x.shape[1:], seed=seed)
    drawn = [
        measure(model, x, y, initializer=LeCun(), draws=1, seed=seed + layer).cosine[-1, 0]
        for layer in range(check_count("layers", layers, least=2))
    ]
    squares = (np.array(drawn) - aim) ** 2
    squares = squares[np.isfinite(squares)]
    root = float(np.sqrt(squares.mean()))
    return root, float(squares.std(ddof=1) / np.sqrt(len(squares)) / (2 * root))


def run(
    *,
    filters: Sequence[int] = (4, 16, 64, 256),
    layers: int = 200,
    eps: float = 0.05,
    delta: float = 0.05,
    seed: int = 0,
) -> Curves:
    """Return the distance of ρ_out from its expectation against the number of filters, for a pair of photographs.

    The line is the asymptotic s/√N, with s from a pilot sample of filters. The mark is the number of filters that
    ``eps`` and ``delta`` need. The number of the corollary is larger by many orders of magnitude.
    """
    x, y = _pair(seed)
    needed = plan_filters(x[0], y[0], eps=eps, delta=delta, seed=seed, pilot=4096)
    from scipy.stats import norm

    sharp = int(needed.sharp)
    deviation = eps / float(norm.isf(delta / 2)) * np.sqrt(sharp)
    aim = float(expected_cosine(x, y, kernel_size=3)[0])
    rows = [
        Point("", n, *_spread("conv3x3x{filters}-relu", x, y, n, layers, aim, seed), float(deviation / np.sqrt(n)))
        for n in filters
    ]
    marks = {f"{sharp} filters: {eps:g} with {1 - delta:.0%}": float(sharp)}
    return Curves(tuple(rows), "filters", "distance of the cosine from its mean (rms)", "xy", marks)


def linear(*, filters: Sequence[int] = (4, 16, 64, 256), layers: int = 200, seed: int = 0) -> Curves:
    """Return the distance of the cosine from that of the images without activation; it decreases with more filters."""
    x, y = _pair(seed)
    aim = float(cosine(x, y)[0])
    rows = [Point("linear layer", n, *_spread("conv3x3x{filters}", x, y, n, layers, aim, seed)) for n in filters]
    return Curves(tuple(rows), "filters", "distance of the cosine from that of the images (rms)", "xy")


_MANY = 16
"""Number of filters from which the asymptotic formula applies: with fewer, the cosine has heavy tails."""


def _falls_like_root(result: Curves) -> bool:
    """Return whether the distance falls like 1/√N from 16 filters on, within a factor of 1.5."""
    first, last = next(row for row in result.rows if row.x >= _MANY), result.rows[-1]
    fall = first.measured / last.measured / np.sqrt(last.x / first.x)
    return bool(2 / 3 < fall < 3 / 2)


def _concentrates(result: Curves) -> bool:
    """Return whether the distance falls like 1/√N and agrees with the asymptotic formula from 16 filters on."""
    many = replace(result, rows=tuple(row for row in result.rows if row.x >= _MANY))
    return _falls_like_root(many) and many.agree(errors=4, bias=0.15 * many.rows[0].measured)


REPRODUCTIONS = (
    Declared(
        id="cnn-theorem-2",
        source="Nachum et al. 2022, theorem 2 and corollary 1",
        statement="The cosine after N random filters concentrates around its expectation as N grows.",
        produce=run,
        numbers=Curves.numbers,
        holds=_concentrates,
        small={"filters": (16, 64, 256), "layers": 30},
    ),
    Declared(
        id="cnn-lemma-2",
        source="Nachum et al. 2022, lemmas 1 and 2",
        statement="Linear convolutional layers preserve cosines, like dense layers by the Johnson–Lindenstrauss lemma.",
        produce=linear,
        numbers=Curves.numbers,
        holds=_falls_like_root,
        small={"filters": (16, 64, 256), "layers": 30},
    ),
)
