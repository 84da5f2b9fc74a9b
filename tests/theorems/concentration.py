"""The lemmas behind theorem 2, and linear layers, found another way."""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy import stats
from theorems.images import constant, root
from theorems.witness import Witness, drawn, share


def johnson_lindenstrauss():
    """2a ≤ ε with singular values within a of 1, a = (√2 + √(2 log(2/δ)))/√N."""
    spread = math.sqrt(2) + math.sqrt(2 * math.log(2 / 0.05))
    return Witness(next(n for n in itertools.count(1) if 2 * spread / math.sqrt(n) <= 0.1), tolerance=2e-4)


def linear_cosine_law():
    """For orthogonal inputs the cosine squared of N products is Beta(½, (N-1)/2)."""
    g, h = np.random.default_rng(0).normal(size=(2, 200_000, 10))
    v = 0.5 * g + math.sqrt(0.75) * h
    cosines = (g * v).sum(axis=1) / np.sqrt((g**2).sum(axis=1) * (v**2).sum(axis=1))
    moved = share(np.abs(cosines - 0.5) >= 0.3)
    width = next(n for n in itertools.count(2) if stats.beta.sf(0.09, 0.5, (n - 1) / 2) <= 0.05)
    return Witness([moved.value, width], [moved.error, 0])


def lemma_3():
    g, noise = np.random.default_rng(0).normal(scale=math.sqrt(2), size=(2, 400_000, 2))
    h = 0.5 * g + math.sqrt(0.75) * noise
    a, b = g @ [3.0, 4.0], h @ [1.0, 1.0]
    return drawn(np.stack([[a * a, a * b], [a * b, b * b]]).transpose(2, 0, 1))


def definition_3():
    """E exp(|X|^p/t^p) = 2, solved for t; beyond a bound the integral is infinite, and t too small."""
    z = np.linspace(0, 60, 600_001)
    step = z[1] - z[0]

    def norm(density, power, least):
        log_density = np.log(density(z))
        return root(lambda t: 2 - step * np.sum(np.exp(log_density + (z / t) ** power)) + step if t > least else -1.0)

    with np.errstate(divide="ignore"):
        gaussian = norm(lambda x: np.exp(-(np.minimum(x, 37) ** 2) / 2) * math.sqrt(2 / math.pi) * (x < 37), 2, 1.45)
        exponential = norm(lambda x: np.exp(-x), 1, 1.5)
    return Witness([gaussian, exponential, root(lambda t: 2 - math.exp(1 / max(t, 0.05) ** 2))], tolerance=1e-4)


def lemma_4():
    """Norms of a Gaussian, of the sum and the product of two (X + Y and X·X), and of a coin with and without its mean.

    By the definition: E exp(|X|^p/t^p) = 2, solved for t by bisection.
    """
    z = np.linspace(-60, 60, 240_001)
    density = np.exp(-z * z / 2)
    density /= density.sum()

    def norm(values, chances, power):
        def left(t):
            with np.errstate(over="ignore"):
                return 2 - float(chances @ np.exp(np.minimum(np.abs(values / t) ** power, 700)))

        return root(left)

    fair = np.full(2, 0.5)
    gaussian, total = norm(z, density, 2), norm(math.sqrt(2) * z, density, 2)
    coin, centered = norm(np.array([0.0, 2.0]), fair, 2), norm(np.array([-1.0, 1.0]), fair, 2)
    return Witness(
        [total**2 / (2 * gaussian**2), centered / coin, norm(z * z, density, 1) / gaussian**2], tolerance=1e-6
    )


def theorem_6():
    """E e^(λX) ≤ e^(λ²K²) for |λ|K ≤ 1: the least of N(λ²K² - λt), and the constant ¼ that holds on both sides."""
    t, count, norm = 0.5, 400, 2.0
    rates = np.linspace(0, 1 / norm, 100_001)
    best = np.min(count * (rates**2 * norm**2 - rates * t))
    return Witness(2 * math.exp(best), tolerance=1e-6)


def largest_patch():
    image = np.random.default_rng(0).random((1, 2, 5, 5))[0]
    windows = [
        image[:, np.ix_(np.arange(i, i + 3) % 5, np.arange(j, j + 3) % 5)[0], np.arange(j, j + 3) % 5]
        for i, j in itertools.product(range(5), repeat=2)
    ]
    return Witness(max(np.linalg.norm(window) for window in windows))


def corollary_1_for_any_layer():
    k = constant() * 2 / 9 * 0.25 * 64 / (0.1 / 5)
    return Witness(max(k, k * k) * math.log(2 * 64 / (0.05 / 3)), tolerance=1e-5)


def sharp_inner_number():
    """The mean of N exponentials is Gamma(N, 1/N)."""

    def failure(n):
        return stats.gamma.cdf(0.97, n, scale=1 / n) + stats.gamma.sf(1.03, n, scale=1 / n)

    low, high = 100, 100_000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if failure(middle) > 0.05 else (low, middle)
    return Witness(high, tolerance=0.02)
