"""How accurate is the interpolation of activations, cell by cell, against quadrature in polar coordinates?

``python benchmarks/interpolation.py tanh softsign`` prints the worst of 150 awkward points (corners, faces, nearly
equal variances, small angles) of every cell with variances from e^-6 to e^4 (``--from``, ``--to``, in steps of e^2);
without names, all activations that are integrated, which takes an hour. The exit code is the number of points that are
off by more than is stated.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

import array_api_compat
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from polar import ACTIVATIONS, squared_distance

from initscope.theory import _interpolation
from initscope.theory.activations import activation

POINTS = 150


def awkward(rng: np.random.Generator, cell: tuple[int, int, int]) -> np.ndarray:
    """Log variances and angles of a cell."""
    inside = rng.random((3, POINTS))
    third = POINTS // 3
    inside[:, :third] = rng.choice([0, 0.01, 0.05, 0.5, 0.95, 0.99, 1], (3, third))
    inside[1, third : 2 * third] = inside[0, third : 2 * third] + rng.normal(size=third) * 10.0 ** rng.uniform(
        -6, -1, third
    )
    inside[2, third : 2 * third : 2] = 10.0 ** rng.uniform(-4, 0, inside[2, third : 2 * third : 2].size)
    inside = np.clip(inside, 1e-9, 1 - 1e-9)
    if cell[2] == 0:
        inside[2] = np.maximum(inside[2], 1e-4)  # where the reference still has its digits
    return (np.array(cell)[:, None] + inside) * np.array([2, 2, math.pi / 2])[:, None]


def errors(name: str, cell: tuple[int, int, int], rng: np.random.Generator) -> np.ndarray | None:
    """Relative errors at the points of one cell; None where it is integrated."""
    xp = array_api_compat.array_namespace(np.zeros(1))
    tolerance = _interpolation._MARGIN * _interpolation.TOLERANCE
    grid = _interpolation._grid(xp, activation(name)._distance, cell, tolerance, "cpu")
    if grid is None:
        return None
    u, v, theta = awkward(rng, cell)
    truth = [squared_distance(ACTIVATIONS[name], *pair) for pair in zip(np.exp(u), np.exp(v), theta, strict=True)]
    return np.abs(grid(u, v, theta) / np.array(truth) - 1)


def main() -> int:
    """Look at the cells."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=sorted(ACTIVATIONS))
    parser.add_argument("--from", dest="low", type=int, default=-3)
    parser.add_argument("--to", dest="high", type=int, default=2)
    arguments = parser.parse_args()
    beyond = 0
    for name in arguments.names:
        began, worst, integrated = time.perf_counter(), 0.0, 0
        rng = np.random.default_rng(5)
        span = range(arguments.low, arguments.high)
        cells = [(i, j, k) for i in span for j in (i, i + 1) for k in (0, 1) if j in span]
        for cell in cells:
            found = errors(name, cell, rng)
            if found is None:
                integrated += 1
                continue
            worst = max(worst, float(found.max()))
            beyond += int((found > _interpolation.TOLERANCE).sum())
        seconds = time.perf_counter() - began
        print(f"{name}: worst {worst:.1e}; {len(cells)} cells, {integrated} integrated ({seconds:.0f} s)", flush=True)
    return beyond


if __name__ == "__main__":
    sys.exit(main())
