"""Statements about convolutional layers on images, found another way."""

from __future__ import annotations

import itertools
import math

import numpy as np
from theorems.witness import Witness, drawn

from initscope.data import load, random_pairs

ANGLES = (np.arange(40_000) + 0.5) / 40_000 * 2 * np.pi
TAPS = list(itertools.product(range(-1, 2), repeat=2))


def relu_mean(xx, yy, xy):
    """E[R(X) R(Y)] of Gaussians: in polar coordinates the radius has mean square 2, the angle is uniform."""
    theta = math.acos(max(-1.0, min(1.0, xy / math.sqrt(xx * yy))))
    return 2 * math.sqrt(xx * yy) * np.mean(np.maximum(np.cos(ANGLES), 0) * np.maximum(np.cos(ANGLES - theta), 0))


def patches(image):
    """What a 3×3 filter sees of ``[channels, height, width]`` at every pixel, cyclic: ``[pixels, 9 · channels]``."""
    shifted = [np.roll(image, (-i, -j), axis=(1, 2)) for i, j in TAPS]
    return np.stack(shifted).reshape(len(TAPS) * image.shape[0], -1).T


def summed(x, y):
    """Expected inner product of two images after a 3×3 ReLU layer that keeps norms, patch by patch."""
    pairs = zip(patches(x), patches(y))
    return sum(relu_mean(p @ p, q @ q, p @ q) for p, q in pairs if p.any() and q.any()) * 2 / 9


def cosine_after(x, y):
    return summed(x, y) / math.sqrt(summed(x, x) * summed(y, y))


def definition_1():
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    g, h = np.meshgrid(nodes, nodes)
    spread = math.sqrt(2.0 - 0.8**2)
    product = np.tanh(g) * np.tanh(0.8 * g + spread * h)
    tanh = np.sum(np.outer(weights, weights) * product) / (2 * np.pi)
    return Witness([relu_mean(1.0, 2.0, 0.8), tanh], tolerance=1e-7)


def equation_2():
    return Witness([2 * relu_mean(1, 1, rho) for rho in (-0.5, 0.0, 0.5, 0.9)], tolerance=1e-7)


def jacobian_of_a_deep_network():
    """Share of singular values below .1 of D W ⋯ D W, of twelve layers of 40 units."""
    rng, shares = np.random.default_rng(1), []
    for _ in range(300):
        h, jacobian = rng.normal(size=40), np.eye(40)
        for _ in range(12):
            weight = rng.normal(scale=math.sqrt(2 / 40), size=(40, 40))
            active = weight @ h > 0
            h, jacobian = active * (weight @ h), active[:, None] * (weight @ jacobian)
        shares.append(np.mean(np.linalg.svd(jacobian, compute_uv=False) < 0.1))
    found = drawn(shares)
    # The example draws 60 networks, this 300.
    return Witness(found.value, found.error * math.sqrt(1 + 300 / 60))


def movement_along_a_line():
    """Eight vectors of equal norm with equal cosines ρ have a largest squared singular value of (1 + 7ρ)/8 of the sum.

    The cosines of 20 layers of 400 units deviate from their limit; ten networks leave less than 1 % of that.
    """
    rho = 0.0
    for _ in range(20):
        rho = 2 * relu_mean(1.0, 1.0, rho)
    return Witness((1 + 7 * rho) / 8, tolerance=0.02)


def theorem_1():
    x, y = np.random.default_rng(0).normal(size=(2, 1, 1, 5, 5))
    filters = np.random.default_rng(1).normal(scale=0.5, size=(9, 200_000))
    products = sum(np.tanh(p @ filters) * np.tanh(q @ filters) for p, q in zip(patches(x[0]), patches(y[0])))
    return drawn(products[:, None])


def equation_12():
    x, y = np.random.default_rng(0).random((2, 1, 1, 6, 6))
    return Witness([cosine_after(x[0], y[0])], tolerance=1e-7)


def root(increasing):
    """Where an increasing function is 0, between 0 and 100."""
    low, high = 0.0, 100.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if increasing(middle) < 0 else (low, middle)
    return low


def constant():
    """Squared ψ₂ norm of a Gaussian by quadrature, times 1 + the ψ₁ norm of 1, times 4: Bernstein's t²/4κ²."""
    z = np.linspace(-40, 40, 80_001)
    weight = 0.001 * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    psi_2_squared = root(lambda t: 2 - weight @ np.exp(z**2 / t) if t > 2.2 else -1)
    psi_1_of_one = root(lambda t: 2 - math.exp(1 / max(t, 0.1)))
    return psi_2_squared * (1 + psi_1_of_one) * 4


def bernstein():
    return Witness(constant(), tolerance=1e-6)


def filters(variance, eps, delta, positions=64, patch_norm=0.5):
    k = constant() * variance * patch_norm**2 * positions / eps
    return Witness(max(k, k * k) * math.log(2 * positions / delta), tolerance=1e-5)


def theorem_2():
    return filters(2 / 9, 0.5, 0.05)


def lemma_2():
    return filters(1 / 9, 0.5, 0.05)


def corollary_1():
    return filters(2 / 9, 0.1 / 5, 0.05 / 3)


def corollary_1_without_union():
    """One position whose patch is the whole image: n² R²/r² becomes 1."""
    k = 5 * constant() * 2 / 0.1
    return Witness(k * k * math.log(6 / 0.05), tolerance=1e-5)


def sharp_number():
    """The delta method with moments by quadrature; the pilot of 400,000 knows s² to about half a per cent."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    g, h = np.meshgrid(9 * nodes, 9 * nodes)
    weight = 81 * np.outer(weights, weights) * np.exp(-(g**2 + h**2) / 2) / (2 * np.pi)
    u, v = np.maximum(g, 0), np.maximum(0.5 * g + math.sqrt(0.75) * h, 0)
    rho = np.sum(weight * u * v) / 0.5
    influence = 2 * u * v - rho * (u**2 + v**2)
    variance = np.sum(weight * influence**2) - np.sum(weight * influence) ** 2
    return Witness((1.959964 / 0.01) ** 2 * variance, tolerance=0.02)


def lemma_1():
    x, y = np.random.default_rng(0).random((2, 1, 3, 6, 6))
    return Witness([np.vdot(x, y)])


def theorem_3():
    """Remark 2's signals for 1×1 filters, entry by entry."""
    signals = {
        "lower": ((math.sqrt(0.6), math.sqrt(0.4), 0), (0, math.sqrt(0.4), math.sqrt(0.6))),
        "upper": ((math.sqrt(0.7), math.sqrt(0.3)), (math.sqrt(0.7), -math.sqrt(0.3))),
    }
    cosines = [
        2 * sum(relu_mean(a * a, b * b, a * b) for a, b in zip(x, y) if a and b)
        for x, y in (signals["lower"], signals["upper"])
    ]
    return Witness(cosines, tolerance=1e-7)


def remark_2():
    return Witness([[0.4, 0.4], [0.4, (1 + 0.4) / 2]])


def remark_3():
    x, y = np.zeros((2, 1, 8, 8))
    x[..., 1:5, 1:5], y[..., 3:7, 2:6] = 1, 2
    return Witness(sum(np.linalg.matrix_rank(np.stack(pair)) == 2 for pair in zip(patches(x), patches(y))))


def theorem_4():
    """Images of 16×16 pixels and one 3×3 filter each: a ratio of means, its error by groups of draws."""
    rng, cosines = np.random.default_rng(0), []
    for rho in (-0.3, 0.5):
        sums = np.zeros((60, 3))
        for group in range(60):
            for _ in range(40):
                x, noise = rng.normal(size=(2, 1, 16, 16))
                y = rho * x + math.sqrt(1 - rho**2) * noise
                weight = rng.normal(size=9)
                u, v = (np.maximum(patches(image) @ weight, 0) for image in (x, y))
                sums[group] += u @ v, u @ u, v @ v
        whole = sums.sum(axis=0)
        jackknife = whole - sums
        ratios = jackknife[:, 0] / np.sqrt(jackknife[:, 1] * jackknife[:, 2])
        cosines.append((whole[0] / math.sqrt(whole[1] * whole[2]), math.sqrt(59 * ratios.var())))
    values, errors = zip(*cosines)
    return Witness(values, errors)


def boundary(a, b, r):
    """Pixels whose square of side 2r + 1 meets both bodies and is not inside both."""
    n, m = a.shape
    count = 0
    for i, j in itertools.product(range(n), range(m)):
        square = np.ix_(np.arange(i - r, i + r + 1) % n, np.arange(j - r, j + r + 1) % m)
        count += bool(a[square].any() and b[square].any() and not (a[square].all() and b[square].all()))
    return count


def definition_2():
    a, b = np.zeros((2, 32, 32), dtype=bool)
    a[3:20, 4:18], b[8:26, 6:24] = True, True
    return Witness([boundary(a, b, 2)] * 2)


def figure_2():
    """The two rectangles of the figure at 48 pixels: rows 6 to 26 and columns 6 to 29, 15 to 38 and 12 to 38."""
    a, b = np.zeros((2, 48, 48), dtype=bool)
    a[6:27, 6:30], b[15:39, 12:39] = True, True
    return Witness([boundary(a, b, r) for r in (1, 2)])


def theorem_5():
    a, b = np.zeros((2, 24, 24), dtype=bool)
    a[3:13, 4:14], b[8:18, 6:16] = True, True
    edge = boundary(a, b, 1)
    return Witness([edge, (a & b).sum(), (a ^ b).sum(), edge / math.sqrt(a.sum() * b.sum())])


def resolution_law():
    """Bodies of 6×6 pixels that overlap in 4×4: 4r(e + f) = 32k over 36k²."""
    return Witness([32 * k / (36 * k * k) for k in (1, 2, 4)])


def excess():
    x, y = np.random.default_rng(0).random((2, 1, 1, 6, 6)) * (np.arange(6) < 4)
    pairs = zip(patches(x[0]), patches(y[0]))
    slanted = [np.linalg.norm(p) * np.linalg.norm(q) for p, q in pairs if np.linalg.matrix_rank(np.stack([p, q])) == 2]
    return Witness([sum(slanted) / (9 * np.pi)])


def red_green():
    """Filters see red and green through different weights: responses are independent, 2 E[R]² over E[R²]."""
    u, v = np.maximum(np.random.default_rng(0).normal(size=(2, 400_000)), 0)
    return drawn((2 * u * v)[:, None])


def channels():
    images = np.random.default_rng(0).random((50, 3, 8, 8)) * np.array([1.0, 0.9, 0.8])[:, None, None]
    angles, differences = [], []
    for image in images.reshape(50, 3, 64):
        for p, q in itertools.combinations(image, 2):
            a, b = np.linalg.norm(p), np.linalg.norm(q)
            angles.append(math.degrees(math.acos(p @ q / (a * b))))
            differences.append(abs(a - b) / ((a + b) / 2))
    return Witness([np.mean(angles), np.mean(differences)])


def saturation():
    x, y = np.random.default_rng(0).random((2, 3, 3, 6, 6))
    deviations = []
    for strength in (0.0, 0.5, 1.0):
        red, green = (np.full((3, 1, 1), 1 - strength) for _ in range(2))
        red[0], green[1] = 1, 1
        pairs = [(red * p, green * q) for p, q in zip(x, y)]
        before = [np.vdot(p, q) / (np.linalg.norm(p) * np.linalg.norm(q)) for p, q in pairs]
        deviations.append(np.mean([cosine_after(p, q) for p, q in pairs] - np.array(before)))
    return Witness(deviations, tolerance=1e-5)


def section_4_2():
    """ReLU units of two inputs of cosine .6, weighted by filters less their mean: the cosine of what comes out."""
    rng, units, filters = np.random.default_rng(0), 4000, 4000
    g, h = rng.normal(size=(2, units))
    u, v = np.maximum(g, 0), np.maximum(0.6 * g + 0.8 * h, 0)
    weights = rng.normal(size=(filters, units))
    weights -= weights.mean(axis=1, keepdims=True)
    a, b = weights @ u, weights @ v
    # Each of the two averages, over units and over filters, has a relative error of about 1/√4000 or below.
    return Witness([1.0, a @ b / np.sqrt((a @ a) * (b @ b))], [0.0, 0.015], tolerance=1e-5)


def figure_1():
    """Lines through the cosines of the same pairs, each layer with 256 filters of its own."""
    x, y, _ = random_pairs(load("digits", limit=1000), 50, 0)
    before = [np.vdot(p, q) / (np.linalg.norm(p) * np.linalg.norm(q)) for p, q in zip(x, y)]
    seen = [np.stack([patches(image) for image in side]) for side in (x, y)]
    slopes = []
    for layer in range(20):
        weight = np.random.default_rng(layer).normal(size=(9, 256)).astype(np.float32)
        u, v = (np.maximum(side.astype(np.float32) @ weight, 0) for side in seen)
        after = [np.vdot(p, q) / np.sqrt(np.vdot(p, p) * np.vdot(q, q)) for p, q in zip(u, v)]
        slopes.append(np.polyfit(before, after, 1)[0])
    found = drawn(slopes)
    # The example draws four layers, this twenty.
    return Witness([found.value] * 2, [found.error * math.sqrt(6), found.error])
