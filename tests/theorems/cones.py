"""Convex cones, the Euler characteristic, minima and chains of layers, found another way."""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy import optimize, special
from theorems.injectivity import CIRCLE, DIRECTIONS, injective, one_step_energy_at, symmetric_energy
from theorems.witness import Witness, drawn, share


def crofton():
    """Whether a plane in five dimensions holds a positive vector: directions of a circle where all five rows agree.

    A subspace of three dimensions does exactly if the plane at right angles to it does not (Gordan).
    """
    rng, met = np.random.default_rng(0), []
    for _ in range(2):
        bases = rng.normal(size=(6000, 5, 2))
        met.append([(basis @ DIRECTIONS[:, ::10] > 0).all(axis=0).any() for basis in bases])
    found = share(np.transpose([met[0], np.logical_not(met[1])]))
    return Witness(found.value, found.error, tolerance=0.01)


def dimension_of_a_circular_cone():
    """Mean squared norm of Gaussian vectors of eight dimensions, projected on vectors within .6 of the first axis."""
    g = np.random.default_rng(0).normal(size=(100_000, 8))
    norms, angles = np.linalg.norm(g, axis=1), np.arctan2(np.linalg.norm(g[:, 1:], axis=1), g[:, 0])
    outside = np.maximum(np.cos(angles - 0.6), 0) * norms
    return drawn(np.where(angles <= 0.6, norms, outside) ** 2)


def intrinsic_volumes():
    """Share of directions whose projection lies inside a face of that dimension."""
    positive = [sum(signs) for signs in itertools.product((0, 1), repeat=3)]
    orthant = np.bincount(positive) / 8
    # The part of the sphere within an angle of an axis is (1 - cos)/2; the polar cone has the angle π/2 less it.
    polar, inside = ((1 - math.cos(angle)) / 2 for angle in (math.pi / 2 - 0.6, 0.6))
    half_plane = [0, 0.5, 0.5]
    return Witness([*orthant, 0, 0, 1, 0, polar, inside, *half_plane])


def euler_of_layers():
    counts = []
    for seed in range(8):
        layer = np.random.default_rng(seed).normal(size=(7, 2))
        inside = (layer @ DIRECTIONS > 0).sum(axis=0) < 2
        counts.append(1 + (inside & ~np.roll(inside, 1)).sum())
    return Witness(counts)


def parisi_formula(q0, q1, x, alpha, beta):
    """One step, by two nested rules of Gauss and Hermite; q0 = q1 is the symmetric formula."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()
    fields = math.sqrt(q0) * nodes[:, None] + math.sqrt(q1 - q0) * nodes
    below = special.ndtr(-fields / math.sqrt(1 - q1))
    inner = (math.exp(-beta) + (1 - math.exp(-beta)) * below) ** x
    response = 1 - q1 + x * (q1 - q0)
    entropy = math.log(1 - q1) + q0 / response + math.log(response / (1 - q1)) / x
    return entropy / 2 + alpha * weights @ np.log(inner @ weights) / x


def parisi_at_finite_temperature():
    def one_step(point):
        q0, q1, x = special.expit(point)
        return parisi_formula(q0 * q1, q1, x, 4.0, 4.0)

    symmetric = optimize.minimize_scalar(lambda t: parisi_formula(special.expit(t), special.expit(t), 0.5, 4.0, 4.0))
    broken = optimize.minimize(one_step, [1.0, 1.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-5, "fatol": 1e-9})
    return Witness([symmetric.fun, broken.fun, one_step_energy_at(6.0)], tolerance=1e-3)


def curves():
    return Witness([symmetric_energy(6.0), one_step_energy_at(6.0)], tolerance=1e-3)


def least(layer):
    return (layer @ DIRECTIONS > 0).sum(axis=0).min()


def fewest_active():
    """Of layers of two inputs; the mean per input of random ones, of which the example has 100, is of twelve rows."""
    layers = [np.random.default_rng(seed).normal(size=(12, 2)) for seed in range(5)]
    found = drawn([least(layer) / 2 for layer in np.random.default_rng(1).normal(size=(800, 12, 2))])
    return Witness([*(least(layer) for layer in layers), found.value], [0] * 5 + [found.error * 4])


def shares():
    rng = np.random.default_rng(1)
    found = [share([injective(layer) for layer in rng.normal(size=(1500, m, 2))]) for m in (7, 10)]
    return Witness([f.value for f in found], [f.error for f in found])


def chains_injective(first, second):
    """Whether two layers keep rank two in all directions of a circle, and map no two of them on one ray."""
    rays = np.maximum(second @ np.maximum(first @ DIRECTIONS[:, ::4], 0), 0)
    norms = np.linalg.norm(rays, axis=0)
    if norms.min() < 1e-12:
        return False
    unit = rays / norms
    alike = unit.T @ unit
    gap = np.abs(CIRCLE[::4, None] - CIRCLE[::4])
    apart = np.minimum(gap, 2 * math.pi - gap)
    # Neighbors on the circle turn by at least a little where the rank is two, and far points never agree.
    step = np.einsum("ij,ij->j", unit, np.roll(unit, 1, axis=1))
    return bool(step.max() < 1 - 1e-14 and alike[apart > 0.05].max() < 1 - 1e-6)


def chains():
    first = [np.random.default_rng([seed, 0]).normal(size=(8, 2)) for seed in range(12)]
    rng = np.random.default_rng(1)
    found = share([chains_injective(rng.normal(size=(20, 2)), rng.normal(size=(20, 20))) for _ in range(20)])
    return Witness(
        [*(1 + float(injective(layer)) for layer in first), found.value], [0] * 12 + [max(found.error, 0.02)]
    )
