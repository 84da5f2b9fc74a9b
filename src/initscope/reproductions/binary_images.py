"""Theorem 5 of [Nachum2022]_ on binary bodies: how far inner products move, and what the shared boundary allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from initscope.data import load, random_pairs
from initscope.errors import check_count
from initscope.reproductions._figures import Rows
from initscope.reproductions.protocol import Declared, Number
from initscope.results import Result, make_axes
from initscope.theory.images import expected_inner, shared_boundary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["REPRODUCTIONS", "BinaryImages", "BodyPair", "run"]


@dataclass(frozen=True)
class BodyPair(Result):
    """One pair: ⟨A, B⟩, its expectation after the layer, and the pixels of the shared boundary."""

    inner: float
    expected: float
    boundary: float


@dataclass(frozen=True)
class BinaryImages(Rows):
    """Pairs of bodies."""

    r: int
    rows: tuple[BodyPair, ...]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Change of the inner product against the bound, with the theorem's line and the sharper one of 1/π."""
        ax = make_axes(ax)
        bounds, changes = np.array([(row.boundary, row.expected - row.inner) for row in self.rows]).T
        ax.plot(bounds, changes, "o", color="C0", markersize=4, label="pairs of bodies")
        top = np.array([0, bounds.max() * 1.02])
        ax.plot(top, top, color="C3", label="theorem 5")
        ax.plot(top, top / np.pi, "--", color="C2", label="1/π of it")
        ax.set(xlabel="pixels of the shared boundary", ylabel="change of the inner product")
        ax.legend()
        return ax


def run(*, r: int = 1, size: int = 64, bodies: int = 200, pairs: int = 300, seed: int = 0) -> BinaryImages:
    """Discs, rectangles, unions of them and noise; filters of side 2r + 1, expectations are exact."""
    check_count("bodies", bodies, least=4)
    a, b, _ = random_pairs(load("shapes", limit=bodies, size=size, seed=seed), pairs, seed)
    a, b = (np.asarray(side, dtype=np.float64) for side in (a, b))
    after = expected_inner(a, b, kernel_size=2 * r + 1)
    # A mean over filters of variance 2/(2r+1)^2 keeps norms: the scale of the theorem.
    return BinaryImages(
        r,
        tuple(
            BodyPair(float((u * v).sum()), float(e), float(shared_boundary(u[0], v[0], r).sum()))
            for u, v, e in zip(a, b, after)
        ),
    )


def _largest(found: BinaryImages) -> dict[str, Number]:
    shares = [abs(row.expected - row.inner) / row.boundary for row in found.rows if row.boundary]
    return {"largest share of the bound": Number(max(shares)), "mean share": Number(float(np.mean(shares)))}


REPRODUCTIONS = (
    Declared(
        id="cnn-theorem-5",
        source="Nachum et al. 2022, theorem 5",
        statement="A layer moves the inner product of two binary images by no more than their shared boundary.",
        produce=run,
        numbers=_largest,
        holds=lambda found: all(abs(row.expected - row.inner) <= row.boundary + 1e-9 for row in found.rows),
        small={"size": 32, "bodies": 40, "pairs": 60},
    ),
)
