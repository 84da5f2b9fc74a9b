"""Statements about low-dimensional data and random layers, found another way."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from theorems.witness import Witness, drawn, share

from initscope.data import load


def relu_units(theta, draws, seed=0):
    """Products of drawn Gaussian weights with two unit vectors at this angle, rectified."""
    g, h = np.random.default_rng(seed).normal(size=(2, *np.atleast_1d(draws)))
    return np.maximum(g, 0), np.maximum(math.cos(theta) * g + math.sin(theta) * h, 0)


def mean_width_of_data():
    points = np.random.default_rng(0).normal(size=(50, 8))
    products = np.random.default_rng(1).normal(size=(40_000, 8)) @ points.T
    ranges = [max(np.subtract.outer(row, row).ravel()) for row in products[:2000]]
    found = drawn(ranges)
    # The example draws 4,000 directions, this 2,000.
    return Witness(found.value, found.error * math.sqrt(1.5))


def mean_widths_of_sets():
    """ω = 2 E sup over the set, which is symmetric: over pairs of coordinates where its pieces lie in such pairs."""
    g = np.random.default_rng(1).normal(size=(50_000, 6))
    pairs = [list(pair) for pair in itertools.combinations(range(6), 2)]
    suprema = [
        np.linalg.norm(g, axis=1),
        np.linalg.norm(g[:, :2], axis=1),
        np.max([np.linalg.norm(g[:, pair], axis=1) for pair in pairs], axis=0),
        np.max([np.linalg.norm(g[:, pair], axis=1) for pair in ([0, 1], [2, 3], [4, 5])], axis=0),
    ]
    found = drawn(2 * np.transpose(suprema))
    return Witness(found.value, found.error * 2)


def growth_of_sparse_sets():
    """Squared widths of k-sparse unit vectors of 200 coordinates: one- or two-sided by the first, k = 1."""
    g = np.sort(np.random.default_rng(1).normal(size=(4000, 200)) ** 2, axis=1)
    widths = [drawn(np.sqrt(g[:, -k:].sum(axis=1))) for k in (1, 5)]
    return Witness([w.value**2 for w in widths], [2 * w.value * w.error * 4 for w in widths])


def layer_theorem():
    """16 orthonormal points behind 2,000 ReLU units that keep norms: ω² after over before."""
    points = np.linalg.qr(np.random.default_rng(0).normal(size=(16, 16)))[0]
    rng, before, after = np.random.default_rng(1), [], []
    for _ in range(40):
        layer = np.maximum(points @ rng.normal(scale=math.sqrt(2 / 2000), size=(16, 2000)), 0)
        before += np.ptp(rng.normal(size=(60, 16)) @ points.T, axis=1).tolist()
        after += np.ptp(rng.normal(size=(60, 2000)) @ layer.T, axis=1).tolist()
    first, second = drawn(before), drawn(after)
    ratio = (second.value / first.value) ** 2
    relative = 2 * math.hypot(first.error / first.value, second.error / second.value)
    return Witness([first.value, ratio], [first.error * 2.5, ratio * relative])


def widths_by_layer():
    ranges = drawn(np.ptp(np.random.default_rng(1).normal(size=(40_000, 3)), axis=1))
    return Witness([ranges.value, 2 * ranges.value], np.array([1, 2]) * ranges.error * 3.5)


def sign_theorem():
    low, high = 1.0, 1e12
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if middle ** (-1 / 6) * 3 ** (1 / 3) > 0.1 else (low, middle)
    return Witness(low)


def sign_law():
    g, h = np.random.default_rng(0).normal(size=(2, 60_000, 64)).astype(np.float32)
    differ = ((g > 0) != (math.cos(1) * g + math.sin(1) * h > 0)).mean(axis=1)
    return share(np.abs(differ - 1 / math.pi) > 0.1)


def hamming_distance():
    p = 1 / math.pi
    return Witness(p, math.sqrt(p * (1 - p) / (64 * 200)))


def sphere(rng, points, dimension):
    x = rng.normal(size=(points, dimension))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def sign_exponent():
    """Largest |Hamming distance - angle/π| over the pairs of 50 points; all but the first pair of errors is chance."""
    rng, rows = np.random.default_rng(1), []
    for _ in range(150):
        x = sphere(rng, 50, 5)
        angles = np.arccos(np.clip(x @ x.T, -1, 1)) / math.pi
        largest = []
        for bits in (64, 1024):
            codes = x @ rng.normal(size=(5, bits)) > 0
            hamming = (codes[:, None] != codes[None]).mean(axis=2)
            largest.append(np.abs(hamming - angles).max())
        rows.append(largest)
    found = drawn(rows)
    # The example has 60 layers on one set of points, this a set for each of 150 layers.
    return Witness(found.value, found.error * math.sqrt(3.5))


def cell_diameter():
    rng, rows = np.random.default_rng(1), []
    for _ in range(400):
        x = sphere(rng, 150, 2)
        angles = np.arccos(np.clip(x @ x.T, -1, 1)) / math.pi
        largest = []
        for bits in (8, 16):
            codes = x @ rng.normal(size=(2, bits)) > 0
            same = (codes[:, None] == codes[None]).all(axis=2)
            largest.append(angles[same].max())
        rows.append(largest)
    found = drawn(rows)
    # The example has 200 layers, this 400.
    return Witness(found.value, found.error * math.sqrt(3))


def gromov_hausdorff():
    """Half the least distortion over correspondences of triangles 3, 4, 5 and 3, 3, 4 is ½; so is the bound from below.

    Every point has a partner: relations of three and three points that leave none out, 265 of them.
    """
    a, b = (np.zeros((3, 3)) for _ in range(2))
    for matrix, sides in ((a, (3, 4, 5)), (b, (3, 3, 4))):
        matrix[np.triu_indices(3, 1)] = sides
        matrix += matrix.T
    least = math.inf
    for bits in itertools.product((False, True), repeat=9):
        relation = np.reshape(bits, (3, 3))
        if relation.any(axis=0).all() and relation.any(axis=1).all():
            pairs = np.argwhere(relation)
            distortion = max(abs(a[i, k] - b[j, m]) for i, j in pairs for k, m in pairs)
            least = min(least, distortion / 2)
    return Witness([least, least, 2])


def same_signs():
    z = np.random.default_rng(0).normal(size=1000)
    return Witness(1 + np.mean((np.clip(z, -1, 1) > 0) == (z > 0)))


def toeplitz():
    kernel = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 1, 3, 3)))
    x = torch.arange(16.0).double().reshape(1, 1, 4, 4)
    padded = torch.nn.functional.pad(x, (1, 1, 1, 1), mode="circular")
    return Witness(torch.nn.functional.conv2d(padded, kernel).ravel().numpy())


def region_counts():
    """Four lines that cut each other inside the window; layers before fold each axis ⌊4/2⌋ times."""
    grid = np.stack(np.meshgrid(*[np.linspace(-60, 60, 1500)] * 2), axis=-1).reshape(-1, 2)
    angles, offsets = np.array([0.1, 0.9, 1.7, 2.5]), np.array([1.0, -2.0, 0.5, 3.0])
    signs = grid @ np.stack([np.cos(angles), np.sin(angles)]) > offsets
    cells = len(np.unique(signs @ (1 << np.arange(4))))
    return Witness([2 * 2 * cells, cells])


def boltzmann_modes():
    """Strong modes of four bits no two of which are neighbours: the even words, eight; blocks multiply."""
    even = [word for word in itertools.product((0, 1), repeat=4) if sum(word) % 2 == 0]
    return Witness([len(even), len(even) ** 2])


def folding_cells():
    """Linear pieces of the tent map after so many rounds: one more than the changes of its slope's sign."""
    x = (np.arange(5000) + 1 / math.pi) / 5000  # never symmetric about a fold
    counts = {}
    for rounds in range(1, 7):
        x = 2 * np.minimum(x, 1 - x)
        counts[rounds] = 1 + int((np.diff(np.sign(np.diff(x))) != 0).sum())
    return Witness([counts[rounds] for rounds in (1, 3, 6)])


def montufar_count():
    return Witness([3 ** (depth - 1) * (3 + 1) for depth in (1, 2, 3)])


def barron_approximation():
    """C_f is the mean length of frequencies 2g/√3; a step of size (2 C_f) sin is there with half of E|x·ω|/|ω|.

    For x uniform in the ball of three dimensions E|x| = 3/4, and |cos| of an angle on the sphere has mean 1/2. The
    function itself, a mean of 4,000 cosines, is next to nothing.
    """
    constant = 2 / math.sqrt(3) * math.sqrt(2) * math.gamma(2) / math.gamma(1.5)
    bound = (2 * constant) ** 2 / 4
    return Witness([bound, bound / 2 * (3 / 4 * 1 / 2) / 2], [0.015 * bound, bound * 0.094 * 0.025])


def barron_estimation():
    """Forty draws of a χ² with 128 degrees of freedom: 2 % of error; the columns' own scatter adds less than 5 %."""
    return Witness(9 * 128 / (3200 - 128), 9 * 128 / 3200 * math.sqrt(2 / 128 / 40), tolerance=0.02)


def angle_and_distance():
    u, v = relu_units(1.0, 400_000)
    cosine = drawn(2 * u * v)
    apart = drawn((u - 2 * v) ** 2)
    return Witness([cosine.value, cosine.value - math.cos(1), apart.value], [cosine.error, cosine.error, apart.error])


def cosine_spread():
    u, v = relu_units(1.0, (4000, 400))
    cosines = (u * v).sum(axis=1) / np.sqrt((u**2).sum(axis=1) * (v**2).sum(axis=1))
    value, error = cosines.std(ddof=1), cosines.std() / math.sqrt(2 * 4000) * 1.2
    return Witness([value, value], [error, error], tolerance=0.01)


def ratios():
    phi = (np.arange(40_000) + 0.5) / 40_000 * 2 * math.pi
    theta = 1.0
    for _ in range(2):
        theta = math.acos(4 * np.mean(np.maximum(np.cos(phi), 0) * np.maximum(np.cos(phi - theta), 0)))
    u, v = relu_units(1.0, 400_000)
    apart = drawn(2 * (u - v) ** 2)
    before = 2 - 2 * math.cos(1)
    distance = math.sqrt(apart.value / before)
    return Witness([theta, distance], [0, distance / 2 * apart.error / apart.value], tolerance=1e-6)


def shifts():
    images = load("digits", limit=60).images.reshape(60, 8, 8)
    images = images - images.mean(axis=(1, 2), keepdims=True)
    moved = np.mean([np.linalg.norm(np.roll(image, 1, axis=1) - image) for image in images])
    apart = np.mean([np.linalg.norm(a - b) for a, b in itertools.combinations(images, 2)])
    return Witness([moved / apart], tolerance=1e-5)


def invariance_of_pixels():
    """Relative distance of pictures, less their means, from themselves shifted, over that from the next picture."""
    images = load("photos", crop=32, limit=6).images.astype(float)
    images -= images.mean(axis=(2, 3), keepdims=True)

    def apart(others):
        pairs = [(a.ravel(), b.ravel()) for a, b in zip(images, others)]
        cosines = [a @ b / (np.linalg.norm(a) * np.linalg.norm(b)) for a, b in pairs]
        return np.mean(np.sqrt(2 - 2 * np.array(cosines)))

    return Witness([apart(np.roll(images, 2, axis=3)) / apart(np.roll(images, 1, axis=0))], tolerance=1e-4)


def retrieval():
    digits = load("digits")
    x = digits.images.reshape(len(digits.images), -1).astype(float)
    x -= x.mean(axis=0)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    scores = []
    for query in np.random.default_rng(1).choice(len(x), 600, replace=False):
        order = np.argsort(-np.delete(x @ x[query], query))
        right = np.delete(digits.labels, query)[order] == digits.labels[query]
        scores.append(100 * (np.cumsum(right) / np.arange(1, len(right) + 1))[right].mean())
    found = drawn(scores)
    return Witness(found.value, found.error * math.sqrt(2))


def sudakov():
    """1/√(π log 2) is the mean maximum of two normals over √(log 2): the smallest of its kind.

    On the 4×4 grid all points are at least .9 apart; of points at least 2.9 apart there are the four corners.
    """
    z = np.linspace(-9, 9, 20_001)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    cumulated = np.cumsum(density) * (z[1] - z[0])
    mean_maximum = {n: np.sum(z * n * cumulated ** (n - 1) * density) * (z[1] - z[0]) for n in range(2, 60)}
    smallest = min(mean / math.sqrt(math.log(n)) for n, mean in mean_maximum.items())
    # ω/2 ≥ ε/√2 · smallest · √(log N), solved for log N.
    return Witness([(2.0 / 2 / (1.5 / math.sqrt(2) * smallest)) ** 2, 16, 4], tolerance=1e-4)
