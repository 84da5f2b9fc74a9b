"""The talk's δ-isometry: Hamming distances of signs against angles, for codes of growing length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope.embed import HammingDistortion, SignHash
from initscope.exhibits._figures import Rows, panels
from initscope.exhibits.protocol import Declared, Number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXHIBITS", "SignIsometry", "run"]


@dataclass(frozen=True)
class SignIsometry(Rows):
    """A report for each length of the codes."""

    rows: tuple[HammingDistortion, ...]

    def table(self) -> list[dict[str, Any]]:
        """One row per length."""
        return [row.table()[0] for row in self.rows]

    def figure(self) -> Figure:
        """A scatter for each length."""
        return panels(*(row.plot for row in self.rows))


def run(
    points: Any = None, *, bits: Sequence[int] = (48, 256, 2048), rows: int = 300, dimension: int = 10, seed: int = 0
) -> SignIsometry:
    """Random unit vectors of a ``dimension``-dimensional space, or your rows, under a layer of each length."""
    cloud = np.random.default_rng(seed).standard_normal((rows, dimension)) if points is None else np.asarray(points)
    pairs = min(10_000, len(cloud) * (len(cloud) - 1) // 2)
    return SignIsometry(
        tuple(SignHash(m, random_state=seed).fit(cloud).distortion_report(cloud, pairs=pairs) for m in bits)
    )


EXHIBITS = (
    Declared(
        id="talk-isometry",
        source="Bronstein 2016, 'Stable embedding': δ-isometry",
        statement="Hamming distances of the signs differ from angles by at most δ for all pairs.",
        produce=run,
        numbers=lambda found: {f"largest deviation, {row.bits} bits": Number(row.largest) for row in found.rows},
        holds=lambda found: (
            all(row.bound is None or row.largest <= row.bound for row in found.rows)
            and found.rows[-1].largest < found.rows[0].largest
        ),
        small={"bits": (48, 512), "rows": 40},
        data="points",
    ),
)
