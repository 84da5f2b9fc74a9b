"""Theorem 5 of [Nachum2022]_ on binary images: change of inner products, and its bound by the shared boundary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from initscope.data import load, random_pairs
from initscope.errors import check_count
from initscope.reproductions._figures import Rows
from initscope.reproductions.protocol import Declared, Number
from initscope.results import Result, line_color, make_axes
from initscope.theory.images import expected_inner, shared_boundary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["REPRODUCTIONS", "BinaryImages", "BodyPair", "run"]


@dataclass(frozen=True)
class BodyPair(Result):
    """One pair: ⟨A, B⟩, its expectation after the layer, and the number of pixels of the shared boundary."""

    inner: float
    expected: float
    boundary: float


@dataclass(frozen=True)
class BinaryImages(Rows):
    """Pairs of binary images."""

    r: int
    rows: tuple[BodyPair, ...]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the change of the inner product against the bound, with the lines of the theorem and of 1/π times it."""
        ax = make_axes(ax)
        bounds, changes = np.array([(row.boundary, row.expected - row.inner) for row in self.rows]).T
        ax.plot(bounds, changes, "o", color=line_color(0), markersize=4, label="pairs of images")
        top = np.array([0, bounds.max() * 1.02])
        ax.plot(top, top, color=line_color(3), label="theorem 5")
        ax.plot(top, top / np.pi, "--", color=line_color(2), label="theorem 5 times 1/π")
        ax.set(xlabel="pixels of the shared boundary", ylabel="change of the inner product")
        ax.legend()
        return ax


def run(*, r: int = 1, size: int = 64, bodies: int = 200, pairs: int = 300, seed: int = 0) -> BinaryImages:
    """Compute exact expectations for disks, rectangles, their unions, and noise, with filters of side 2r + 1."""
    check_count("bodies", bodies, least=4)
    a, b, _ = random_pairs(load("shapes", limit=bodies, size=size, seed=seed), pairs, seed)
    a, b = (np.asarray(side, dtype=np.float64) for side in (a, b))
    after = expected_inner(a, b, kernel_size=2 * r + 1)
    # As in the theorem, filters have variance 2/(2r+1)^2, so that the mean over filters preserves norms.
    return BinaryImages(
        r,
        tuple(
            BodyPair(float((u * v).sum()), float(e), float(shared_boundary(u[0], v[0], r).sum()))
            for u, v, e in zip(a, b, after)
        ),
    )


def _largest(result: BinaryImages) -> dict[str, Number]:
    shares = [abs(row.expected - row.inner) / row.boundary for row in result.rows if row.boundary]
    return {"largest change / bound": Number(max(shares)), "mean change / bound": Number(float(np.mean(shares)))}


REPRODUCTIONS = (
    Declared(
        id="cnn-theorem-5",
        source="Nachum et al. 2022, theorem 5",
        statement="A layer changes the inner product of two binary images by at "
        "most the size of their shared boundary.",
        produce=run,
        numbers=_largest,
        holds=lambda result: all(abs(row.expected - row.inner) <= row.boundary + 1e-9 for row in result.rows),
        small={"size": 32, "bodies": 40, "pairs": 60},
    ),
)
