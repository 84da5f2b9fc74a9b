"""Figure 1 of [Nachum2022]_: cosines of pairs before and after one random convolutional layer, for four data sets.

Dots are pairs, the curve is that of a dense layer, the line is a least-squares fit. The small scale uses bundled
photographs instead of Fashion-MNIST, CIFAR-10 and ImageNet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope.data import gaussian_pairs, load, random_pairs
from initscope.errors import check_count
from initscope.initializers import He
from initscope.measurement import measure
from initscope.models import load_model
from initscope.reproductions._figures import Rows, data_title
from initscope.reproductions._statistics import Line, fit_line, mean_and_error
from initscope.reproductions.protocol import Declared, Number
from initscope.results import Result, line_color, make_axes, make_grid
from initscope.theory.angles import relu_cosine
from initscope.theory.images import cosine, expected_cosine

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["REPRODUCTIONS", "CosineScatter", "ScatterPanel", "layer_cosines", "run"]

PUBLISHED = (("gaussian", 11), ("fashion-mnist", 3), ("cifar10", 3), ("imagenet-sample:resolution=224", 11))
"""Data and filter sizes. The source gives 11×11 for Gaussian images and ImageNet, and no size for the other two."""


@dataclass(frozen=True)
class ScatterPanel(Result):
    """Pairs of one data set: the least-squares slope, measured and predicted, and the pairs after the first layer.

    The slope is the mean over layers. Its error combines the error over layers and the error of the fit. All pairs
    share the filters of a layer, so the slope of one layer is less certain than the residuals of its fit suggest.
    """

    name: str
    kernel_size: int
    pairs: int
    slope: float
    slope_error: float
    intercept: float
    predicted_slope: float
    dense_distance: float
    """Root mean square distance of the measured cosines from the dense curve."""
    before: np.ndarray = field(repr=False)
    after: np.ndarray = field(repr=False)
    expected: np.ndarray = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields except the pairs."""
        return {name: value for name, value in super().to_dict().items() if not isinstance(value, list)}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the pairs, the dense curve and the fitted line."""
        ax = make_axes(ax)
        rho = np.linspace(min(0.0, self.before.min()), 1.0, 200)
        ax.plot(self.before, self.after, "o", color=line_color(3), markersize=3, fillstyle="none", label="pairs")
        ax.plot(rho, relu_cosine(rho), color=line_color(1), label="dense layer")
        ax.plot(rho, self.intercept + self.slope * rho, color=line_color(0), label=f"slope {self.slope:.3f}")
        ax.plot(rho, rho, ":", color="0.5", linewidth=1)
        ax.set(
            xlabel="cosine before",
            ylabel="cosine after",
            title=f"{data_title(self.name)}, {self.kernel_size}×{self.kernel_size} filters",
        )
        ax.legend(fontsize="small")
        return ax


@dataclass(frozen=True)
class CosineScatter(Rows):
    """The panels of the figure."""

    filters: int
    rows: tuple[ScatterPanel, ...]

    def figure(self) -> Figure:
        """Return a figure with two panels per row, as published."""
        lines = -(-len(self.rows) // 2)
        axes = make_grid(lines, 2, (8, 3.6 * lines)).ravel()
        for panel, ax in zip(self.rows, axes):
            panel.plot(ax)
        for ax in axes[len(self.rows) :]:
            ax.remove()
        return axes.flat[0].figure  # type: ignore[no-any-return]


def layer_cosines(x: Any, y: Any, *, kernel_size: int, filters: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return cosines of pairs ``[pairs, channels, height, width]`` before and after one layer with circular padding."""
    model = load_model(f"conv{kernel_size}x{kernel_size}x{filters}-relu", input_shape=x.shape[1:], seed=seed)
    result = measure(model, x, y, initializer=He(), draws=1, seed=seed)
    return np.asarray(result.cosine[0]), np.asarray(result.cosine[-1])


def run(
    images: Any = None,
    *,
    panels: Sequence[tuple[str, int]] = PUBLISHED,
    pairs: int = 200,
    filters: int = 100,
    layers: int = 5,
    limit: int | None = 1000,
    seed: int = 0,
) -> CosineScatter:
    """Run pairs through one layer of ``filters`` random filters.

    Parameters
    ----------
    images
        An `initscope.data.ImageSet` or an array of images, instead of the panels.
    panels
        Data (as in `initscope.data.load`; ``gaussian`` with correlations from -1 to 1) and side of the filters.
    pairs, filters, layers, limit
        Numbers of pairs, of filters, of random layers, and of images from which pairs are sampled.
    """
    check_count("pairs", pairs, least=3, hint="a line with an error needs three points")
    rows = []
    for name, kernel_size in panels if images is None else (("your images", 3),):
        if images is not None:
            x, y, _ = random_pairs(images, pairs, seed)
        elif name == "gaussian":
            drawn = [gaussian_pairs(1, rho, seed=seed + k) for k, rho in enumerate(np.linspace(-1, 1, pairs).tolist())]
            x, y = (np.concatenate(side) for side in zip(*drawn))
        else:
            x, y, _ = random_pairs(load(name, limit=limit), pairs, seed)
        rows.append(_panel(name, x, y, kernel_size, filters, layers, seed))
    return CosineScatter(filters, tuple(rows))


def _panel(name: str, x: Any, y: Any, kernel_size: int, filters: int, layers: int, seed: int) -> ScatterPanel:
    drawn = [
        layer_cosines(x, y, kernel_size=kernel_size, filters=filters, seed=seed + layer)
        for layer in range(check_count("layers", layers, least=2, hint="a standard error needs at least two"))
    ]
    lines = [_line(*cosines) for cosines in drawn]
    slope, between = map(float, mean_and_error([line.slope for line in lines]))
    before, after = drawn[0]
    expected = np.asarray(expected_cosine(x, y, kernel_size=kernel_size))
    return ScatterPanel(
        name=name,
        kernel_size=kernel_size,
        pairs=len(x),
        slope=slope,
        slope_error=float(np.hypot(between, lines[0].slope_error)),
        intercept=float(np.mean([line.intercept for line in lines])),
        predicted_slope=_line(cosine(x, y), expected).slope,
        dense_distance=float(np.sqrt(np.mean((after - relu_cosine(before)) ** 2))),
        before=before,
        after=np.mean([cosines for _, cosines in drawn], axis=0),  # so that the mean line is the line of these points
        expected=expected,
    )


def _line(before: Any, after: Any) -> Line:
    return fit_line(before, after, np.zeros(len(before)))


def _numbers(result: CosineScatter) -> dict[str, Number]:
    named = {"gaussian": "Gaussian: distance from the dense curve"}
    return {
        named.get(row.name, f"{row.name}, {row.kernel_size}×{row.kernel_size}: slope"): Number(row.dense_distance)
        if row.name in named
        else Number(row.slope, row.slope_error)
        for row in result.rows
    }


def _holds(result: CosineScatter) -> bool:
    """Return whether Gaussian images follow the dense curve, others contract less, and slopes are as predicted."""
    gaussian = all(row.dense_distance < 0.05 for row in result.rows if row.name == "gaussian")
    others = [row for row in result.rows if row.name != "gaussian"]
    nearer = all((row.expected - row.before).mean() < (relu_cosine(row.before) - row.before).mean() for row in others)
    return gaussian and nearer and all(abs(row.slope - row.predicted_slope) < 4 * row.slope_error for row in others)


REPRODUCTIONS = (
    Declared(
        id="cnn-figure-1",
        source="Nachum et al. 2022, figure 1 and remark 3",
        statement="One random convolutional layer contracts Gaussian images like "
        "a dense layer, and nearly preserves the "
        "cosines of natural images: their least-squares line has slope 0.97.",
        produce=run,
        numbers=_numbers,
        holds=_holds,
        small={
            "panels": (("gaussian", 11), ("photos:crop=32", 3), ("photos:crop=48", 3), ("photos:crop=48", 7)),
            "pairs": 100,
            "filters": 64,
            "layers": 3,
            "limit": 80,
        },
        data="images",
        small_incomparable="bundled photographs instead of the published data sets",
    ),
)
