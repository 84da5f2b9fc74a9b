"""Statements about injectivity, found another way: layers of two inputs in every direction of a circle."""

from __future__ import annotations

import functools
import math

import numpy as np
from scipy import optimize, special, stats
from theorems.witness import Witness, drawn, share

CIRCLE = (np.arange(4000) + 0.5) / 4000 * 2 * math.pi
DIRECTIONS = np.stack([np.cos(CIRCLE), np.sin(CIRCLE)])


def patterns(layer):
    """The different sets of active rows of a layer of two inputs, one row for each."""
    active = layer @ DIRECTIONS > 0
    numbers = (1 << np.arange(len(layer))) @ active
    return active[:, np.unique(numbers, return_index=True)[1]].T


def injective(layer):
    """Whether in every direction the active rows span the plane: in general position, whether there are two."""
    return bool(((layer @ DIRECTIONS > 0).sum(axis=0) >= 2).all())


def criterion():
    layers = [np.random.default_rng(seed).normal(size=(9, 2)) for seed in range(12)]
    return Witness([1 + float(injective(layer)) for layer in layers])


def probability_of_injectivity():
    layers = np.random.default_rng(1).normal(size=(3000, 7, 2))
    bases = np.random.default_rng(0).normal(size=(40, 7, 2))
    found = share([injective(layer) for layer in layers])
    met = 1 + np.mean([not injective(basis) for basis in bases])
    return Witness([found.value, met], [found.error, 0])


def general_weights():
    """Of x the rows V give the positive part of Vx and -V the negative one; with one row missing some x is lost.

    Along the direction that the first two rows do not see, and the third sees as negative, nothing is positive.
    """
    v = np.random.default_rng(0).normal(size=(3, 3))
    x = np.array([0.3, -1.0, 2.0])
    back = np.linalg.solve(v, np.maximum(v @ x, 0) - np.maximum(-v @ x, 0))
    rows = np.vstack([v, -v[:2]])
    blind = np.linalg.solve(v, [0.0, 0.0, -1.0])
    confused = np.allclose(np.maximum(rows @ blind, 0), np.maximum(rows @ (2 * blind), 0))
    return Witness([1 + float(np.allclose(back, x)), 2 - float(confused)])


def cover():
    """Of 12 rows ten see a vertex of two others at random; n ≤ B ≤ m - 2n + 1, drawn; at n = 4000 half of them do."""
    signs = np.random.default_rng(1).random((200_000, 12 - 3 + 1)) < 0.5
    positive = signs.sum(axis=1)
    bound = share((positive >= 3) & (positive <= 12 - 6 + 1))
    rows = optimize.brentq(lambda m: stats.norm.sf(4000, (m - 3999) / 2, math.sqrt(m - 3999) / 2) - 0.5, 4100, 40_000)
    return Witness([rows / 4000, bound.value], [0, bound.error], tolerance=1e-3)


def log_binomial(m, k):
    return special.gammaln(m + 1) - special.gammaln(k + 1) - special.gammaln(m - k + 1)


def union():
    n = 4000

    def rate(alpha):
        m = alpha * n
        met = special.logsumexp(log_binomial(m - 1, np.arange(n)))
        return log_binomial(m, n - 1) + (1 - m) * math.log(2) + met

    # 780 orthants with two positive signs of 40, each met as often as there are cells among the 2^40.
    orthants = math.comb(40, 2) * 2 * sum(math.comb(39, j) for j in range(3)) / 2**40
    return Witness([optimize.brentq(rate, 5, 15), 1e6 * orthants], tolerance=2e-3)


def euler_characteristic():
    """Runs of the circle where fewer than two of seven rows are positive."""
    counts = []
    for layer in np.random.default_rng(1).normal(size=(6000, 7, 2)):
        inside = (layer @ DIRECTIONS[:, ::4] > 0).sum(axis=0) < 2
        counts.append((inside & ~np.roll(inside, 1)).sum())
    found = drawn(counts)
    return Witness([found.value] * 2, found.error)


def euler_threshold():
    """The last m with q ≥ 1 at n = 30 and 60, without its leading correction, of order log(n)/n."""
    sizes = (30, 60)
    crossings = [next(m for m in range(12 * n, 4 * n, -1) if faces_log(m, n) >= 0) / n for n in sizes]
    weights = [math.log(n) / n for n in sizes]
    slope = (crossings[1] - crossings[0]) / (weights[1] - weights[0])
    return Witness(crossings[1] - slope * weights[1], tolerance=0.02)


def faces_log(m, n):
    """Logarithm of the alternating count of faces, from whole numbers of any size; minus infinity below zero."""
    total = 0
    for k in range(n):
        cells = 2 * sum(math.comb(m - k - 1, j) for j in range(n - k))
        few = sum(math.comb(m - k, j) for j in range(n))
        total += (-1) ** (n - 1 - k) * math.comb(m, k) * cells * few * 2**k
    # A face on k hyperplanes has the signs of the other m - k rows at random: 2^(k - m).
    return math.log(total) - m * math.log(2) if total > 0 else -math.inf


def replica_symmetric():
    """Least over q of the functional with 200 Hermite nodes; at zero temperature the energy is a maximum over χ."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    weights = weights / weights.sum()

    def functional(q):
        inside = math.exp(-2) + (1 - math.exp(-2)) * special.ndtr(-math.sqrt(q / (1 - q)) * nodes)
        return 0.5 * math.log(1 - q) + q / (2 * (1 - q)) + 3 * (weights @ np.log(inside))

    entropy = min(functional(q) for q in np.linspace(0.001, 0.99, 2000))
    return Witness([entropy, optimize.brentq(lambda alpha: symmetric_energy(alpha) - 1, 4, 12)], tolerance=1e-4)


FIELD = np.linspace(-9, 9, 901)


def symmetric_energy(alpha):
    """Largest over χ of α E min(1, h₊²/2χ) - 1/2χ."""
    density = np.exp(-(FIELD**2) / 2) / math.sqrt(2 * math.pi) * (FIELD[1] - FIELD[0])

    def value(log_chi):
        chi = math.exp(log_chi)
        return alpha * (density @ np.minimum(1, np.maximum(FIELD, 0) ** 2 / (2 * chi))) - 0.5 / chi

    return -optimize.minimize_scalar(lambda x: -value(x), bounds=(-4, 3), method="bounded").fun


def one_step_functional(point, alpha):
    chi, q, c = math.exp(point[0]), special.expit(point[1]), math.exp(point[2])
    penalty = np.exp(-c * np.minimum(1, np.maximum(FIELD, 0) ** 2 / (2 * chi)))
    # Inner average over fields of variance 1 - q around each outer field, on the fine grid: the kernel is normalised.
    outer = math.sqrt(q) * np.linspace(-6, 6, 121)
    kernel = np.exp(-((FIELD - outer[:, None]) ** 2) / (2 * (1 - q)))
    inner = np.log(kernel @ penalty / kernel.sum(axis=1)) / c
    density = np.exp(-(np.linspace(-6, 6, 121) ** 2) / 2)
    spread = chi + c * (1 - q)
    return -alpha * (density @ inner) / density.sum() - 0.5 * (q / spread + math.log(spread / chi) / c)


@functools.cache
def one_step_energy_at(alpha):
    found = optimize.minimize(
        lambda point: -one_step_functional(point, alpha),
        [-1.2, 1.5, 1.1],
        method="Nelder-Mead",
        options={"xatol": 1e-4, "fatol": 1e-9},
    )
    return -found.fun


@functools.cache
def one_step_alpha():
    return optimize.brentq(lambda alpha: one_step_energy_at(alpha) - 1, 6.4, 7.0, xtol=1e-3)


def one_step():
    return Witness(one_step_alpha(), tolerance=2e-3)


def full_breaking():
    return Witness([one_step_alpha()] * 3, tolerance=5e-3)


def energies():
    return Witness([symmetric_energy(6.0), one_step_energy_at(6.0)], tolerance=1e-3)


def one_step_energy():
    return Witness(one_step_energy_at(6.0), tolerance=1e-3)


def threshold_line():
    return Witness([cover().value[0], union().value[0], one_step_alpha()], tolerance=2e-3)


def smallest_singular_value(layer):
    """Of the active rows over all cells."""
    return min(np.linalg.svd(layer[active], compute_uv=False)[-1] for active in patterns(layer) if active.sum() > 1)


def frame():
    layer = np.random.default_rng(3).normal(size=(14, 2))
    return Witness([smallest_singular_value(layer)] * 2, tolerance=1e-6)


def frame_of_random_layers():
    """Medians of A/√2 of 400 layers of 40 rows, 0 for those that are not injective."""
    layers = np.random.default_rng(1).normal(size=(400, 40, 2))
    found = [smallest_singular_value(layer) / math.sqrt(2) if injective(layer) else 0.0 for layer in layers]
    rng = np.random.default_rng(0)
    error = np.std([np.median(rng.choice(found, 400)) for _ in range(200)])
    return Witness(np.median(found), error * math.sqrt(2))


def depth():
    def failure(m, n):
        return math.comb(m, n - 1) * 2.0 ** (1 - m) * sum(math.comb(m - 1, j) for j in range(n))

    guaranteed = next(m for m in range(14, 500) if all(failure(k, 5) <= 0.01 for k in (m, m + 1)))
    return Witness([2 * 8 * math.log(8), 3 * 5 - 1, guaranteed])


def gordon():
    """Drawn vectors for the bound; for the threshold the crossing of two sums over a fine grid of normal quantiles."""
    rng = np.random.default_rng(0)
    positive = np.sort(np.maximum(rng.normal(size=(200_000, 24)), 0), axis=1)[:, : 24 - 3 + 1]
    small = (positive**2).sum(axis=1) <= (rng.normal(size=(200_000, 3)) ** 2).sum(axis=1)
    quantiles = special.ndtri((np.arange(400_000) + 0.5) / 400_000)
    squares = np.cumsum(np.where(quantiles > 0, quantiles, 0) ** 2)  # the sum over all entries up to a cutoff
    beyond = len(quantiles) - 1 - np.arange(len(quantiles))  # entries above it: n of them
    crossing = int(np.argmax(squares > beyond))
    bound, error = 2 * small.mean(), 2 * small.std() / math.sqrt(len(small))
    return Witness(
        [bound, len(quantiles) / beyond[crossing]], error=[error, 4e-5]
    )  # one step of the grid is α²/400,000 = 1.5e-4


def unstable_cells():
    """With one input the two cells have the positive and the negative weights; how many of them are short."""
    weights = np.random.default_rng(1).normal(size=(200_000, 12))
    norms = [np.linalg.norm(np.maximum(sign * weights, 0), axis=1) for sign in (1, -1)]
    expected = drawn((norms[0] < 0.8).astype(float) + (norms[1] < 0.8))
    return Witness(expected.value, expected.error)


def half_of_one_layer():
    """Shares at 7 and 8 units; the example is a fit with an error of .08."""
    rng = np.random.default_rng(1)
    low, high = (np.mean([injective(layer) for layer in rng.normal(size=(1500, m, 2))]) for m in (7, 8))
    return Witness((7 + (0.5 - low) / (high - low)) / 2, 0.08)


def image_geometry():
    """Of one layer: tangents at right angles to the input, whose products are independent of the signs."""
    rng = np.random.default_rng(2)

    def layer(width, inputs=2):
        return rng.normal(size=(200_000, width, inputs))

    weights = layer(6)
    length = np.linalg.norm((weights[:, :, 0] > 0) * weights[:, :, 1], axis=1) * math.sqrt(2 / 6)
    weights = layer(4)
    hidden, tangent = np.maximum(weights[:, :, 0], 0), (weights[:, :, 0] > 0) * weights[:, :, 1]
    sizes = np.maximum(np.linalg.norm(hidden, axis=1), 1e-9)
    along = np.einsum("ij,ij->i", hidden, tangent) / sizes
    angular = np.sqrt(np.maximum((tangent**2).sum(axis=1) - along**2, 0)) / sizes
    ends = layer(5) @ np.array([[1.0, math.cos(1.0)], [0.0, math.sin(1.0)]])
    breaks = (ends[:, :, 0] * ends[:, :, 1] < 0).sum(axis=1)
    weights = layer(6)
    turn = np.arctan2(np.linalg.norm(weights[:, 0], axis=1), np.linalg.norm(np.maximum(weights[:, 1:, 0], 0), axis=1))
    weights = layer(8)
    grams = np.einsum("ijk,ij,ijl->ikl", weights, weights[:, :, 0] > 0, weights)
    volume = np.sqrt(np.maximum(np.linalg.det(grams), 0)) * 2 / 8
    values = [drawn(samples) for samples in (length, angular, breaks, turn > 0.5, volume)]
    return Witness([value.value for value in values], [value.error for value in values])
