"""Barron's rate [Bronstein2016]_ for a function with a known constant C_f: C_f/K for K units, nK/T·log T for T samples.

The function is a mean of cosines cos(ω·x + b), whose constant is the mean norm of ω. The units are step functions,
sampled as in Barron's proof, so that the mean of K units has an error of at most (2 C_f)²/K on the unit ball.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from initscope.errors import check_count
from initscope.reproductions._figures import Curves, Point
from initscope.reproductions._statistics import fit_line, mean_and_error
from initscope.reproductions.protocol import Declared, Number

__all__ = ["REPRODUCTIONS", "estimation", "run"]


class _Function:
    """A mean of cosines on the unit ball of R^n; ``constant`` is Barron's C_f."""

    def __init__(self, inputs: int, terms: int, rng: np.random.Generator) -> None:
        self.frequencies = rng.standard_normal((terms, inputs)) * 2 / np.sqrt(inputs)
        self.phases = rng.uniform(0, 2 * np.pi, terms)
        self.lengths = np.linalg.norm(self.frequencies, axis=1)
        self.constant = float(self.lengths.mean())

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return f(x) - f(0)."""
        return np.asarray((np.cos(x @ self.frequencies.T + self.phases) - np.cos(self.phases)).mean(axis=1))

    def units(self, x: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
        """Return ``count`` random step functions whose expectation is the function.

        cos(z + b) - cos b is minus the integral of sin(t + b) from 0 to z, a step in z for each t. We sample t
        uniformly from [-|ω|, |ω|], and ω with probability proportional to its norm.
        """
        chosen = rng.choice(len(self.lengths), count, p=self.lengths / self.lengths.sum())
        t = rng.uniform(-1, 1, count) * self.lengths[chosen]
        z = x @ self.frequencies[chosen].T
        steps = np.where(t > 0, -1.0 * (z > t), 1.0 * (z < t))
        return np.asarray(2 * self.constant * np.sin(t + self.phases[chosen]) * steps)


def _ball(count: int, inputs: int, rng: np.random.Generator) -> np.ndarray:
    x = rng.standard_normal((count, inputs))
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True) * rng.random((count, 1)) ** (1 / inputs))


def run(
    *, inputs: int = 10, terms: int = 20, units: Sequence[int] = (4, 16, 64, 256, 1024), draws: int = 40, seed: int = 0
) -> Curves:
    """Return the mean squared error of K random units, and Barron's bound (2 C_f)²/K."""
    check_count("draws", draws, least=2)
    rng = np.random.default_rng(seed)
    function = _Function(inputs, terms, rng)
    x = _ball(1000, inputs, rng)
    values = function(x)
    rows = []
    for count in units:
        errors = [((function.units(x, count, rng).mean(axis=1) - values) ** 2).mean() for _ in range(draws)]
        mean, error = mean_and_error(errors)
        rows.append(Point("mean of K units", count, float(mean), float(error)))
    rows += [Point("Barron: (2 C_f)²/K", count, predicted=(2 * function.constant) ** 2 / count) for count in units]
    return Curves(tuple(rows), "units K", "mean squared error", "xy")


def estimation(
    *,
    inputs: int = 5,
    terms: int = 5,
    units: Sequence[int] = (2, 4, 8, 16, 32, 64, 128),
    samples: Sequence[int] = (200, 800, 3200),
    noise: float = 0.3,
    draws: int = 20,
    seed: int = 0,
) -> Curves:
    """Return the error of least squares with K random units on T noisy samples: small K underfits, large K overfits."""
    check_count("draws", draws, least=2)
    rng = np.random.default_rng(seed)
    function = _Function(inputs, terms, rng)
    test = _ball(1000, inputs, rng)
    rows = []
    for count in samples:
        for number in [number for number in units if 2 * number < count]:
            errors = []
            for draw in range(draws):
                x = _ball(count, inputs, rng)
                state = np.random.SeedSequence([seed, number, draw])
                features, tests = (function.units(points, number, np.random.default_rng(state)) for points in (x, test))
                target = function(x) + noise * rng.standard_normal(count)
                weights = np.linalg.lstsq(features, target, rcond=1e-10)[0]
                errors.append(((tests @ weights - function(test)) ** 2).mean())
            mean, error = mean_and_error(errors)
            rows.append(Point(f"T = {count}", number, float(mean), float(error)))
    return Curves(tuple(rows), "units K", "mean squared error", "xy")


def _exponent(result: Curves) -> Number:
    points = result.curve("mean of K units")
    values = np.array([(row.x, row.measured, row.standard_error) for row in points], dtype=float)
    line = fit_line(np.log(values[:, 0]), np.log(values[:, 1]), values[:, 2] / values[:, 1])
    return Number(line.slope, line.slope_error)


def _below_bound(result: Curves) -> bool:
    bound = {row.x: row.predicted for row in result.curve("Barron: (2 C_f)²/K")}
    below = all(row.measured < bound[row.x] for row in result.curve("mean of K units"))
    exponent = _exponent(result)
    return below and abs(exponent.value + 1) < 4 * (exponent.error or 0.0) + 0.05


def _best_units(result: Curves) -> dict[str, Number]:
    best = {kind: min(result.curve(kind), key=lambda row: row.measured) for kind in result.kinds()}
    return {f"best K at {kind}": Number(row.x) for kind, row in best.items()}


def _rising(values: list[float]) -> bool:
    return values == sorted(values) and values[-1] > values[0]


REPRODUCTIONS = (
    Declared(
        id="talk-barron",
        source="Bronstein 2016, 'Representation power': Barron's rate, approximation",
        statement="K units approximate a function of constant C_f with an error of order C_f/K, in any dimension.",
        produce=run,
        numbers=lambda result: {"exponent of K": _exponent(result)},
        holds=_below_bound,
        small={"units": (4, 32, 256), "draws": 20},
    ),
    Declared(
        id="talk-barron-samples",
        source="Bronstein 2016, 'Representation power': Barron's rate, estimation",
        statement="With T samples the error has a second term of order nK/T log T, so the best K grows with T.",
        produce=estimation,
        numbers=_best_units,
        holds=lambda result: _rising([number.value for number in _best_units(result).values()]),
        small={"units": (2, 8, 32, 128), "samples": (300, 3000), "draws": 8},
    ),
)
