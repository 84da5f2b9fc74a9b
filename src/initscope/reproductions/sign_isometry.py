"""The δ-isometry of the talk: Hamming distances of signs against angles, for codes of increasing length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope.embed import HammingDistortion, SignHash, hamming_distance
from initscope.reproductions._figures import Curves, Point, Rows, panels
from initscope.reproductions.protocol import Declared, Number
from initscope.theory.metric_spaces import gromov_hausdorff_bounds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["REPRODUCTIONS", "SignIsometry", "nearness", "run"]


@dataclass(frozen=True)
class SignIsometry(Rows):
    """A report for each code length."""

    rows: tuple[HammingDistortion, ...]

    def table(self) -> list[dict[str, Any]]:
        """Return one row per length."""
        return [row.table()[0] for row in self.rows]

    def figure(self) -> Figure:
        """Return a scatter plot for each length."""
        return panels(*(row.plot for row in self.rows))


def run(
    points: Any = None, *, bits: Sequence[int] = (48, 256, 2048), rows: int = 300, dimension: int = 10, seed: int = 0
) -> SignIsometry:
    """Hash random unit vectors of a ``dimension``-dimensional space, or your rows, with a layer of each length."""
    cloud = np.random.default_rng(seed).standard_normal((rows, dimension)) if points is None else np.asarray(points)
    pairs = min(10_000, len(cloud) * (len(cloud) - 1) // 2)
    return SignIsometry(
        tuple(SignHash(m, random_state=seed).fit(cloud).distortion_report(cloud, pairs=pairs) for m in bits)
    )


def nearness(
    points: Any = None,
    *,
    bits: Sequence[int] = (16, 64, 256, 1024, 4096),
    rows: int = 150,
    dimension: int = 10,
    seed: int = 0,
) -> Curves:
    """Return bounds on the Gromov–Hausdorff distance between the data and the codes.

    The metrics are angle / π and Hamming distance / bits. Source: [Bronstein2016]_.
    """
    cloud = np.random.default_rng(seed).standard_normal((rows, dimension)) if points is None else np.asarray(points)
    unit = cloud / np.linalg.norm(cloud, axis=1, keepdims=True)
    angles = np.arccos(np.clip(unit @ unit.T, -1, 1)) / np.pi
    np.fill_diagonal(angles, 0.0)
    left, right = np.divmod(np.arange(len(cloud) ** 2), len(cloud))
    points_of_curve = []
    for length in bits:
        codes = SignHash(length, random_state=seed).fit_transform(cloud)
        distances = hamming_distance(codes[left], codes[right]).reshape(angles.shape) / length
        bounds = gromov_hausdorff_bounds(angles, distances)
        points_of_curve.append(Point("at most", length, bounds.upper))
        points_of_curve.append(Point("at least", length, bounds.lower))
    return Curves(tuple(points_of_curve), "bits", "Gromov–Hausdorff distance to the codes", "xy")


REPRODUCTIONS = (
    Declared(
        id="talk-gromov-hausdorff",
        source="Bronstein 2016, 'Stable embedding': in the Gromov–Hausdorff sense",
        statement="As metric spaces, codes and data differ by at most half the distortion, which decreases with bits.",
        produce=nearness,
        numbers=Curves.numbers,
        holds=lambda result: (
            result.curve("at most")[-1].measured < result.curve("at most")[0].measured / 4
            and all(
                low.measured <= high.measured for low, high in zip(result.curve("at least"), result.curve("at most"))
            )
        ),
        small={"bits": (16, 128, 1024), "rows": 50},
        data="points",
    ),
    Declared(
        id="talk-isometry",
        source="Bronstein 2016, 'Stable embedding': δ-isometry",
        statement="Hamming distances of the signs differ from angles by at most δ for all pairs.",
        produce=run,
        numbers=lambda result: {f"largest deviation, {row.bits} bits": Number(row.largest) for row in result.rows},
        holds=lambda result: (
            all(row.bound is None or row.largest <= row.bound for row in result.rows)
            and result.rows[-1].largest < result.rows[0].largest
        ),
        small={"bits": (48, 512), "rows": 40},
        data="points",
    ),
)
