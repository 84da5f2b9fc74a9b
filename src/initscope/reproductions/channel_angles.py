"""Section 4.1 of [Nachum2022]_: how similar the color channels of photographs are, and images of two pure colors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from initscope.data import load
from initscope.reproductions._figures import Curves, Point
from initscope.reproductions._statistics import mean_and_error
from initscope.reproductions.cosine_scatter import layer_cosines
from initscope.reproductions.protocol import Declared, Number, published
from initscope.results import Result, line_color, make_axes
from initscope.theory.angles import relu_cosine
from initscope.theory.images import ChannelStatistics, channel_statistics, expected_cosine, red_green_pair

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["REPRODUCTIONS", "ChannelAngles", "pure_colors", "run"]


@dataclass(frozen=True)
class ChannelAngles(Result):
    """Statistics of the color channels of a data set; the source does not define its difference of norms."""

    name: str
    statistics: ChannelStatistics

    def table(self) -> list[dict[str, Any]]:
        """Return one row per quantity and definition."""
        return self.statistics.table()

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the relative difference of channel norms in percent, for each possible definition."""
        ax = make_axes(ax, figsize=(6.4, 3.8))
        readings = self.statistics.norm_difference
        errors = [200 * self.statistics.norm_difference_standard_error[name] for name in readings]
        ax.barh(
            list(readings), [100 * value for value in readings.values()], xerr=errors, color=line_color(0), capsize=2
        )
        ax.invert_yaxis()
        ax.set(xlabel="relative difference of channel norms (%)")
        ax.set_title(f"{self.name}: angle between channels {self.statistics.angle:.1f}°", fontsize="medium")
        return ax

    def numbers(self) -> dict[str, Number]:
        """Return the angle, and the difference of norms in percent for each possible definition."""
        result = {"angle": Number(self.statistics.angle, self.statistics.angle_standard_error)}
        for name, value in self.statistics.norm_difference.items():
            error = self.statistics.norm_difference_standard_error[name]
            result[f"norm difference, {name} (%)"] = Number(100 * value, 100 * error)
        return result | nearest_definition(result)


_NEAREST = "norm difference, nearest definition (%)"


def nearest_definition(numbers: Mapping[str, Number]) -> dict[str, Number]:
    """Return the difference of norms that is nearest to the published one, in standard errors, under its own name."""
    source = (published("cnn-rgb-statistics") or {})[_NEAREST]
    readings = (number for name, number in numbers.items() if name.startswith("norm difference, "))
    return {_NEAREST: min(readings, key=lambda number: abs(number.value - source) / (number.error or 1.0))}


def run(images: Any = None, *, spec: str = "imagenet-sample", limit: int | None = None) -> ChannelAngles:
    """Compute the angle between color channels, and the relative difference of their norms by several definitions."""
    loaded = load(spec, limit=limit) if images is None else images
    pixels = getattr(loaded, "images", loaded)
    return ChannelAngles(getattr(loaded, "name", "your images"), channel_statistics(pixels))


def pure_colors(*, filters: int = 1000, layers: int = 20, sizes: tuple[int, ...] = (1, 3, 5), seed: int = 0) -> Curves:
    """Compute the cosine of a red and a green image: 0 at the input, 1/π after a layer with any filter size."""
    red, green = red_green_pair(8)
    rows = []
    for size in sizes:
        drawn = [
            layer_cosines(red, green, kernel_size=size, filters=filters, seed=seed + layer)[1][0]
            for layer in range(layers)
        ]
        mean, error = mean_and_error(drawn)
        rows.append(Point("", size, float(mean), float(error), float(expected_cosine(red, green, kernel_size=size)[0])))
    return Curves(tuple(rows), "side of the filter", "cosine of red and green after")


REPRODUCTIONS = (
    Declared(
        id="cnn-rgb-statistics",
        source="Nachum et al. 2022, section 4.1",
        statement="On ImageNet the angle between two color channels is about 12.5° "
        "and their norms differ by about 9.2 %. "
        "The source does not define this difference: the nearest of eight definitions is compared.",
        produce=run,
        numbers=ChannelAngles.numbers,
        small={"spec": "photos:crop=64", "limit": 60},
        data="images",
        small_incomparable="crops of two photographs instead of 10,000 images of ImageNet",
    ),
    Declared(
        id="cnn-red-green",
        source="Nachum et al. 2022, section 4.1",
        statement="A red and a green image are orthogonal, and after one layer they have the dense cosine R̂(0) = 1/π.",
        produce=pure_colors,
        numbers=Curves.numbers,
        holds=lambda result: (
            result.agree() and all(abs(row.predicted - float(relu_cosine(0.0))) < 1e-9 for row in result.rows)
        ),
        small={"filters": 200, "layers": 8, "sizes": (1, 3)},
    ),
)
