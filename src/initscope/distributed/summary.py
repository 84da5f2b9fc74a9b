"""The page of a sweep: results against the varied settings, cosines against depth, failed runs."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from initscope._utils.files import write_text
from initscope.rendering.figures import GRAY, MEASURED, PREDICTED, SMALL, THIRD, new_axes
from initscope.rendering.page import render_part, versions
from initscope.rendering.svg import inline_svg
from initscope.results import counted, label_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PAGE", "phase_diagram", "write_summary"]

Row = Mapping[str, Any]
Result = tuple[Row, float]
"""A run's row, and a number that it gave."""
PAGE = "_summary.html"
_COLORS = (PREDICTED, MEASURED, THIRD, "#7c3aed", "#a16207", "#be185d")
_MOST_CURVES = 6
_SAME = 6
"""Decimals to which curves are drawn."""
_MOST_FIGURES = 12
_GEOMETRIC = 10
"""Numbers with at least this ratio of largest to smallest have a logarithmic axis."""
_ANGLE_RATIO = "angle ratio (output / input)"
_RMS_RATIO = "log10 of the RMS ratio (output / input)"
_DONE = {"predict": "predicted", "measure": "measured", "train": "trained"}
_VALUES = {"train": "accuracy", "mean-width": "mean_width"}


def write_summary(folder: Path, rows: Sequence[Row]) -> None:
    """Write the page of these rows into the folder, under a name that Parquet readers ignore."""
    done = [row for row in rows if row["status"] == "done"]
    failed = [row for row in rows if row["status"] == "failed"]
    figures = []
    results = _figures(done)[:_MOST_FIGURES]
    for name, (axes, says) in enumerate([*results, *_curves(done, max(_MOST_CURVES, _MOST_FIGURES - len(results)))]):
        figures.append({"name": f"figure{name}", "svg": inline_svg(axes, f"figure{name}"), "says": says})
    text = render_part(
        "page.html",
        body="sweep.html",
        title=f"Sweep: {counted(len({row['run'] for row in done}), 'run')} done, {len(failed) or 'none'} failed",
        figures=figures,
        run=_varied(rows) | {"versions": ", ".join(f"{name} {number}" for name, number in versions().items())},
        failed=failed[:50],
        more=max(0, len(failed) - 50),
    )
    write_text(folder / PAGE, text)


def _varied(rows: Sequence[Row]) -> dict[str, str]:
    """Return the values of the grid, axis by axis."""
    names = ("architecture", "width", "depth", "initializer", "activation", "data", "seed", "quantity")
    results = {name: list(dict.fromkeys(row[name] for row in rows if row[name] is not None)) for name in names}
    return {
        name: ", ".join(map(str, values[:20])) + (f" … ({len(values)})" if len(values) > 20 else "")
        for name, values in results.items()
        if values
    }


def _curves(rows: Sequence[Row], most: int) -> list[tuple[Axes, str]]:
    """Plot the mean cosine after each layer by width, one figure per setting of the other axes.

    At most ``most`` figures are drawn, evenly spaced.
    """
    figures: dict[tuple[Any, ...], dict[Any, dict[str, dict[int, list[float]]]]] = {}
    for row in rows:
        if row["quantity"] in ("predict", "measure") and row["cosine"] is not None:
            key = tuple(row[name] for name in ("architecture", "depth", "activation", "initializer", "data"))
            curves = figures.setdefault(key, {}).setdefault(row["width"], {}).setdefault(row["quantity"], {})
            curves.setdefault(row["row"], []).append(row["cosine"])
    drawn = []
    for key in _spread(list(figures), most):
        by_width, axes = figures[key], new_axes(*SMALL)
        lines: dict[tuple[float, ...], tuple[str, list[str]]] = {}
        for color, width in zip(_COLORS, _spread(list(by_width))):
            points = {
                quantity: {row: sum(values) / len(values) for row, values in results.items()}
                for quantity, results in by_width[width].items()
            }
            of = "" if width is None else f", width {width}"
            if "measure" in points:
                dots = points["measure"]
                axes.plot(list(dots), list(dots.values()), "o", color=color, markersize=3.5, label=f"measured{of}")
            if "predict" in points:
                line = tuple(round(value, _SAME) for value in points["predict"].values())
                lines.setdefault(line, (color, []))[1].append(of)
        for line, (color, widths) in lines.items():  # widths with the same prediction share a line
            color, of = (color, widths[0]) if len(widths) == 1 else (GRAY, ", any width")
            axes.plot(line, "-", color=color, label=f"predicted{of}", zorder=1)
        axes.set(xlabel="layer", ylabel="mean cosine of pairs")
        axes.legend(frameon=False, fontsize="small")
        drawn.append((axes, f"Mean cosine of pairs after each layer: {_named(*key)}"))
    return drawn


def _named(architecture: str, depth: Any, activation: Any, initializer: str, data: str) -> str:
    """Return the title of a figure; values that are part of the architecture are filled in.

    >>> _named("dense{width}-{activation}*{depth}", 4, "relu", "he", "digits")
    'dense{width}-relu*4, he, digits'
    """
    parts = {"{depth}": depth, "{activation}": activation}
    others = [str(part) for hole, part in parts.items() if part is not None and hole not in architecture]
    for hole, part in parts.items():
        architecture = architecture.replace(hole, str(part))
    return ", ".join([architecture, *others, initializer, data])


def _spread(values: list[Any], most: int = _MOST_CURVES) -> list[Any]:
    """Return at most this many, evenly spaced."""
    count = min(most, len(values))
    return [values[index * (len(values) - 1) // max(count - 1, 1)] for index in range(count)]


def _option(initializer: str) -> dict[str, float]:
    """Return numbers in the name of an initializer, as axes.

    >>> _option("lecun:gain=1.2,bias_variance=0.1")
    {'gain': 1.2, 'bias_variance': 0.1}
    """
    parts = (part.partition("=") for part in initializer.partition(":")[2].split(",") if part)
    return {name: float(value) for name, _, value in parts}


def _numbers(row: Row) -> dict[str, float]:
    """Return all numbers of a run's row that can be on axes."""
    return {name: float(row[name]) for name in ("width", "depth") if row[name] is not None} | _option(
        row["initializer"]
    )


def _results(rows: Sequence[Row]) -> list[tuple[Row, str, float]]:
    """Return numbers of every run: accuracy; or the ratios of angle and RMS, output over input."""
    runs: dict[str, list[Row]] = {}
    for row in rows:
        runs.setdefault(row["run"], []).append(row)
    results: list[tuple[Row, str, float]] = []
    for layers in runs.values():
        last = layers[-1]
        if last["quantity"] in ("predict", "measure"):
            angles = [row["angle"] for row in layers if row["angle"] is not None]
            if len(angles) > 1 and angles[0]:
                results.append((last, _ANGLE_RATIO, angles[-1] / angles[0]))
            sizes = [row["rms_ratio"] for row in layers if row["rms_ratio"]]
            if len(sizes) > 1:
                results.append((last, _RMS_RATIO, math.log10(sizes[-1])))
        elif last["quantity"] in _VALUES and last[_VALUES[last["quantity"]]] is not None:
            results.append((last, _VALUES[last["quantity"]], float(last[_VALUES[last["quantity"]]])))
    return results


def _figures(rows: Sequence[Row]) -> list[tuple[Axes, str]]:
    """Return figures of the results over the axes that vary, by activation and data.

    Two axes with three values or more each give a phase diagram, for each architecture, quantity and initializer. If
    fewer axes vary, the results are lines over the axis with most values.
    """
    groups: dict[tuple[Any, ...], list[Result]] = {}
    for row, name, value in _results(rows):
        key = (row["activation"], row["data"], name, row["architecture"], row["quantity"], _initializer_name(row))
        groups.setdefault(key, []).append((row, value))
    several = len({key[3] for key in groups}) > 1
    diagrams, others = [], dict[tuple[Any, ...], list[Result]]()
    for (activation, data, value, architecture, quantity, initializer), results in groups.items():
        values = _varying(results)
        wide = sorted((name for name in values if len(values[name]) > 2), key=lambda name: name in ("depth", "width"))
        if len(wide) < 2:
            others.setdefault((activation, data, value), []).extend(results)
        parts = [architecture if several else None, _DONE.get(quantity, quantity), activation, initializer, data]
        for x, y in itertools.combinations(wide, 2):
            says = f"{label_text(value)} over {x} and {y} ({_joined(parts)}); means over all else"
            diagrams.append((phase_diagram(results, x, y, value), says[0].upper() + says[1:]))
    return diagrams + [
        drawn
        for (activation, data, value), results in others.items()
        if (drawn := _line(results, value, [activation, data]))
    ]


def _initializer_name(row: Row) -> str:
    return str(row["initializer"].partition(":")[0])


def _joined(parts: Iterable[str | None]) -> str:
    return ", ".join(part for part in parts if part)


def _varying(results: Iterable[Result]) -> dict[str, set[float]]:
    """Return numbers of these runs with two values or more, and their values."""
    values: dict[str, set[float]] = {}
    for row, _ in results:
        for name, number in _numbers(row).items():
            values.setdefault(name, set()).add(number)
    return {name: numbers for name, numbers in values.items() if len(numbers) > 1}


def _line(results: Sequence[Result], value: str, of: Sequence[str | None]) -> tuple[Axes, str] | None:
    """Return means over the axis with most values, with a line per value of the next axis, architecture, initializer.

    If no axis varies, the initializers are compared side by side; None if there is nothing to compare.
    """
    values = _varying(results)
    x, second, *_ = [*sorted(values, key=lambda name: -len(values[name])), None, None]
    initializers = list(dict.fromkeys(row["initializer"] for row, _ in results))
    if x is None and len(initializers) < 2:
        return None
    several = len({row["architecture"] for row, _ in results}) > 1
    lines: dict[str, dict[str, dict[float, list[float]]]] = {}
    for row, number in results:
        at = _numbers(row)
        position = initializers.index(row["initializer"]) if x is None else at.get(x)
        if position is None or not math.isfinite(number):
            continue
        split = f"{second} {at[second]:g}" if second is not None and second in at else None
        name = _joined([row["architecture"] if several else None, None if x is None else _initializer_name(row), split])
        quantities = lines.setdefault(name, {}).setdefault(row["quantity"], {})
        quantities.setdefault(position, []).append(number)
    axes = new_axes(*SMALL)
    for color, name in zip(_COLORS, _spread(list(lines))):
        for quantity, points in lines[name].items():
            _draw_line(axes, quantity, points, _joined([_DONE.get(quantity, quantity), name]), color)
    if x is None:
        axes.set_xticks(range(len(initializers)), initializers)
    elif min(values[x]) > 0 and max(values[x]) >= _GEOMETRIC * min(values[x]):
        axes.set_xscale("log")
        axes.set_xticks(sorted(values[x]), [f"{number:g}" for number in sorted(values[x])], minor=False)
        axes.minorticks_off()
    axes.set(xlabel="initializer" if x is None else label_text(x), ylabel=label_text(value))
    if value == "accuracy":
        axes.set_ylim(0, 1)
    axes.legend(frameon=False, fontsize="small")
    bars = ", bars: two standard errors" if axes.containers else ""
    says = f"{label_text(value)} over {axes.get_xlabel()} ({_joined(of)}); means over all else{bars}"
    return axes, says[0].upper() + says[1:]


def _draw_line(axes: Axes, quantity: str, points: Mapping[float, Sequence[float]], label: str, color: str) -> None:
    """Plot means over the runs of each point, as a line if they are predicted, otherwise with two standard errors."""
    positions, runs = zip(*sorted(points.items()), strict=True)
    means = [statistics.fmean(numbers) for numbers in runs]
    if quantity == "predict":
        axes.plot(positions, means, color=color, label=label)
        return
    errors = [2 * statistics.stdev(numbers) / len(numbers) ** 0.5 if len(numbers) > 1 else 0.0 for numbers in runs]
    style = "o" if quantity == "measure" else "o-"  # there is no prediction to compare the others with
    axes.errorbar(positions, means, yerr=errors, fmt=style, color=color, markersize=4, elinewidth=1.2, label=label)


def phase_diagram(results: Sequence[Result], x: str, y: str, value: str) -> Axes:
    """Return means of numbers of runs over two of their axes, as colored cells."""
    cells: dict[tuple[float, float], list[float]] = {}
    for row, number in results:
        at = _numbers(row)
        if x in at and y in at and math.isfinite(number):
            cells.setdefault((at[x], at[y]), []).append(number)
    across, up = (sorted({key[side] for key in cells}) for side in (0, 1))
    means = [[math.nan] * len(across) for _ in up]
    for (at_x, at_y), numbers in cells.items():
        means[up.index(at_y)][across.index(at_x)] = sum(numbers) / len(numbers)
    axes = new_axes(*SMALL)
    axes.grid(False)
    # Cells of equal size, named by their values: grids are seldom even, and often geometric.
    known = [number for row in means for number in row if math.isfinite(number)]
    limits = {"accuracy": (0.0, 1.0), _ANGLE_RATIO: (0.0, max([1.0, *known]))}.get(value, (None, None))
    image = axes.pcolormesh(means, vmin=limits[0], vmax=limits[1], cmap="viridis")
    for set_ticks, numbers in ((axes.set_xticks, across), (axes.set_yticks, up)):
        step = -(-len(numbers) // 10)
        set_ticks([index + 0.5 for index in range(0, len(numbers), step)], [f"{n:g}" for n in numbers[::step]])
    axes.set(xlabel=label_text(x), ylabel=label_text(y))
    axes.figure.colorbar(image, ax=axes, label=label_text(value))
    return axes
