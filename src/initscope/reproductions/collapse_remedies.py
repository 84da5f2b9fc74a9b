"""Section 4.2 of [Nachum2022]_: what makes the collapse of a deep network worse, and what prevents it.

Each variant has a prediction, a measurement and an explanation. The collapse of dense networks is also here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope.data import gaussian_pairs, load, random_pairs
from initscope.errors import check_count
from initscope.initializers import He, Initializer, Orthogonal, ZeroSum
from initscope.measurement import measure
from initscope.models import load_model
from initscope.propagate import predict
from initscope.reproductions._figures import Curves, Point
from initscope.reproductions._statistics import mean_and_error
from initscope.reproductions.protocol import Declared, Number
from initscope.results import Result
from initscope.theory.angles import relu_cosine

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["REPRODUCTIONS", "WHY", "Remedies", "dense_collapse", "run"]

WHY = {
    "i.i.d. Gaussian": "every layer adds ψ(θ) ≥ 0 to the cosine of each pair of patches",
    "mean removed": "patches of centered images are not nearly parallel, so ψ is larger",
    "orthogonal": "the dual of ReLU is the same in the limit of large layers",
    "zero-sum filters": "they remove the mean, which all patches share",
    "batch norm": "it subtracts what all samples share, like zero-sum filters",
}
"""Explanation of each variant."""


@dataclass(frozen=True)
class Remedies(Result):
    """Mean cosine of pre-activations of pairs after each convolution, by variant."""

    curves: Curves
    why: dict[str, str]

    def table(self) -> list[dict[str, Any]]:
        """Return one row per variant and layer."""
        return [row | {"why": self.why[row["kind"]]} for row in self.curves.table()]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot measured values as dots and predictions as lines."""
        return self.curves.plot(ax)


def run(
    images: Any = None,
    *,
    spec: str = "fashion-mnist",
    depth: int = 8,
    filters: int = 128,
    pairs: int = 40,
    draws: int = 6,
    limit: int = 1000,
    seed: int = 0,
) -> Remedies:
    """Run pairs through ``depth`` layers of 3×3 convolutions: i.i.d., centered data, orthogonal, zero-sum, batch norm.

    Cosines are those of pre-activations, which become orthogonal according to the source.
    """
    x, y, _ = random_pairs(load(spec, limit=limit) if images is None else images, pairs, seed)
    x, y = np.asarray(x), np.asarray(y)
    mean = (x.mean(axis=(0, 2, 3), keepdims=True) + y.mean(axis=(0, 2, 3), keepdims=True)) / 2
    plain, normed = f"conv3x3x{filters}-relu*{depth}", f"conv3x3x{filters}-bn-relu*{depth}"
    cases: list[tuple[str, Any, Any, str, Initializer]] = [
        ("i.i.d. Gaussian", x, y, plain, He()),
        ("mean removed", x - mean, y - mean, plain, He()),
        ("orthogonal", x, y, plain, Orthogonal()),
        ("zero-sum filters", x, y, plain, ZeroSum(compensate=True)),
        ("batch norm", x, y, normed, He()),
    ]
    rows = []
    for name, left, right, text, initializer in cases:
        model = load_model(text, input_shape=x.shape[1:], seed=seed)
        mode: Any = "train" if "bn" in text else None
        expected = predict(model, left, right, initializer, mode=mode).cosine
        step = 3 if "bn" in text else 2  # layers of a block; pre-activations are the inputs of ReLU
        positions = [0] + [step * layer - 1 for layer in range(1, depth + 1)]
        drawn = [
            measure(model, left, right, initializer=initializer, draws=1, mode=mode, seed=seed + draw).cosine
            for draw in range(check_count("draws", draws, least=2))
        ]
        means, errors = mean_and_error(np.array([cosine[positions].mean(axis=1) for cosine in drawn]).T)
        rows += [
            Point(name, layer, float(m), float(e), float(expected[position].mean()))
            for layer, (m, e, position) in enumerate(zip(means, errors, positions))
        ]
    return Remedies(Curves(tuple(rows), "layer", "mean cosine of pre-activations"), WHY)


def dense_collapse(
    *, cosines: Sequence[float] = (-0.9, 0.0, 0.5), depth: int = 30, width: int = 500, draws: int = 10, seed: int = 0
) -> Curves:
    """Run pairs of vectors through a dense ReLU network; predictions iterate the dual activation (eq. 2)."""
    rows = []
    model = load_model(f"dense{width}-relu*{depth}", input_shape=(width,), seed=seed)
    for rho in cosines:
        x, y = gaussian_pairs(draws, rho, shape=(width,), seed=seed)
        first = float(np.mean([a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(x, y)]))
        drawn = [
            measure(model, x[k : k + 1], y[k : k + 1], initializer=He(), draws=1, seed=seed + k).cosine[::2, 0]
            for k in range(draws)
        ]
        means, errors = mean_and_error(np.array(drawn).T)
        expected = first
        for layer, (mean, error) in enumerate(zip(means, errors)):
            rows.append(Point(f"cosine {rho:g}", layer, float(mean), float(error), expected))
            expected = float(relu_cosine(expected))
    return Curves(tuple(rows), "layer", "cosine")


def _ends(result: Remedies) -> dict[str, Number]:
    return result.curves.numbers(ends=True)


def _holds(result: Remedies) -> bool:
    """Return whether cosines grow for the first three variants, and are halved by zero-sum filters and batch norm."""
    last = {kind: result.curves.curve(kind)[-1].measured for kind in result.curves.kinds()}
    first = {kind: result.curves.curve(kind)[0].measured for kind in result.curves.kinds()}
    grow = all(last[kind] > first[kind] for kind in ("i.i.d. Gaussian", "mean removed", "orthogonal"))
    return grow and all(abs(last[kind]) < 0.5 * last["i.i.d. Gaussian"] for kind in ("zero-sum filters", "batch norm"))


REPRODUCTIONS = (
    Declared(
        id="cnn-section-4.2",
        source="Nachum et al. 2022, section 4.2",
        statement="Removing the mean of the data makes the collapse worse, and orthogonal filters do not prevent it; "
        "filters that sum to zero and batch norm turn it into an expansion.",
        produce=run,
        numbers=_ends,
        holds=_holds,
        small={"spec": "digits", "depth": 4, "filters": 32, "pairs": 16, "draws": 3},
        data="images",
    ),
    Declared(
        id="cnn-dense-collapse",
        source="Nachum et al. 2022, introduction and eq. 2",
        statement="A deep dense ReLU network collapses all inputs to a single direction, along the dual activation.",
        produce=dense_collapse,
        numbers=lambda result: result.numbers(ends=True),
        holds=lambda result: (
            all(result.curve(kind)[-1].measured > 0.8 for kind in result.kinds()) and result.agree(errors=5, bias=0.03)
        ),
        small={"depth": 12, "width": 200, "draws": 6},
    ),
)
