"""The page of a sweep: results over what varies, as phase diagrams or lines, cosines against depth, what failed."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from initscope._utils.files import write_text
from initscope.rendering.figures import GREY, MEASURED, PREDICTED, SMALL, THIRD, new_axes
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
_COLOURS = (PREDICTED, MEASURED, THIRD, "#7c3aed", "#a16207", "#be185d")
_MOST_CURVES = 6
_SAME = 6
"""Decimals to which curves are drawn."""
_MOST_PICTURES = 12
_GEOMETRIC = 10
"""Numbers of which the largest is so many times the smallest have a logarithmic axis."""
_KEPT = "angle kept"
_SIZE = "size (powers of ten)"
_DONE = {"predict": "predicted", "measure": "measured", "train": "trained"}
_VALUES = {"train": "accuracy", "mean-width": "mean_width"}


def write_summary(folder: Path, rows: Sequence[Row]) -> None:
    """Write the page of these rows into the folder; it is not taken for data there."""
    done = [row for row in rows if row["status"] == "done"]
    failed = [row for row in rows if row["status"] == "failed"]
    pictures = []
    results = _pictures(done)[:_MOST_PICTURES]
    for name, (axes, says) in enumerate([*results, *_curves(done, max(_MOST_CURVES, _MOST_PICTURES - len(results)))]):
        pictures.append({"name": f"picture{name}", "svg": inline_svg(axes, f"picture{name}"), "says": says})
    text = render_part(
        "page.html",
        body="sweep.html",
        title=f"Sweep: {counted(len({row['run'] for row in done}), 'run')} done, {len(failed) or 'none'} failed",
        pictures=pictures,
        run=_varied(rows) | {"versions": ", ".join(f"{name} {number}" for name, number in versions().items())},
        failed=failed[:50],
        more=max(0, len(failed) - 50),
    )
    write_text(folder / PAGE, text)


def _varied(rows: Sequence[Row]) -> dict[str, str]:
    """What the grid holds, axis by axis."""
    names = ("architecture", "width", "depth", "initializer", "activation", "data", "seed", "quantity")
    found = {name: list(dict.fromkeys(row[name] for row in rows if row[name] is not None)) for name in names}
    return {
        name: ", ".join(map(str, values[:20])) + (f" … ({len(values)})" if len(values) > 20 else "")
        for name, values in found.items()
        if values
    }


def _curves(rows: Sequence[Row], most: int) -> list[tuple[Axes, str]]:
    """Mean cosine after each layer by width, one picture for each architecture, activation, law, data and depth.

    Of more than ``most`` pictures as many, spread over all of them.
    """
    pictures: dict[tuple[Any, ...], dict[Any, dict[str, dict[int, list[float]]]]] = {}
    for row in rows:
        if row["quantity"] in ("predict", "measure") and row["cosine"] is not None:
            key = tuple(row[name] for name in ("architecture", "depth", "activation", "initializer", "data"))
            curves = pictures.setdefault(key, {}).setdefault(row["width"], {}).setdefault(row["quantity"], {})
            curves.setdefault(row["row"], []).append(row["cosine"])
    drawn = []
    for key in _spread(list(pictures), most):
        by_width, axes = pictures[key], new_axes(*SMALL)
        lines: dict[tuple[float, ...], tuple[str, list[str]]] = {}
        for colour, width in zip(_COLOURS, _spread(list(by_width))):
            points = {
                quantity: {row: sum(values) / len(values) for row, values in found.items()}
                for quantity, found in by_width[width].items()
            }
            of = "" if width is None else f", width {width}"
            if "measure" in points:
                dots = points["measure"]
                axes.plot(list(dots), list(dots.values()), "o", color=colour, markersize=3.5, label=f"measured{of}")
            if "predict" in points:
                line = tuple(round(value, _SAME) for value in points["predict"].values())
                lines.setdefault(line, (colour, []))[1].append(of)
        for line, (colour, widths) in lines.items():  # widths that theory does not tell apart share a line
            colour, of = (colour, widths[0]) if len(widths) == 1 else (GREY, ", any width")
            axes.plot(line, "-", color=colour, label=f"predicted{of}", zorder=1)
        axes.set(xlabel="layer", ylabel="mean cosine of pairs")
        axes.legend(frameon=False, fontsize="small")
        drawn.append((axes, f"Mean cosine of pairs after each layer: {_named(*key)}"))
    return drawn


def _named(architecture: str, depth: Any, activation: Any, initializer: str, data: str) -> str:
    """What a picture is of; parts of the architecture stand in it.

    >>> _named("dense{width}-{activation}*{depth}", 4, "relu", "he", "digits")
    'dense{width}-relu*4, he, digits'
    """
    parts = {"{depth}": depth, "{activation}": activation}
    beside = [str(part) for hole, part in parts.items() if part is not None and hole not in architecture]
    for hole, part in parts.items():
        architecture = architecture.replace(hole, str(part))
    return ", ".join([architecture, *beside, initializer, data])


def _spread(values: list[Any], most: int = _MOST_CURVES) -> list[Any]:
    """At most so many of them, evenly."""
    count = min(most, len(values))
    return [values[index * (len(values) - 1) // max(count - 1, 1)] for index in range(count)]


def _option(initializer: str) -> dict[str, float]:
    """Numbers in the name of a weight law, as axes.

    >>> _option("lecun:gain=1.2,bias_variance=0.1")
    {'gain': 1.2, 'bias_variance': 0.1}
    """
    parts = (part.partition("=") for part in initializer.partition(":")[2].split(",") if part)
    return {name: float(value) for name, _, value in parts}


def _numbers(row: Row) -> dict[str, float]:
    """All that a run's row has as numbers on axes."""
    return {name: float(row[name]) for name in ("width", "depth") if row[name] is not None} | _option(
        row["initializer"]
    )


def _results(rows: Sequence[Row]) -> list[tuple[Row, str, float]]:
    """Numbers of every run: accuracy; or the share of the input's angle that is left at the end, and the size there."""
    runs: dict[str, list[Row]] = {}
    for row in rows:
        runs.setdefault(row["run"], []).append(row)
    found: list[tuple[Row, str, float]] = []
    for layers in runs.values():
        last = layers[-1]
        if last["quantity"] in ("predict", "measure"):
            angles = [row["angle"] for row in layers if row["angle"] is not None]
            if len(angles) > 1 and angles[0]:
                found.append((last, _KEPT, angles[-1] / angles[0]))
            sizes = [row["rms_ratio"] for row in layers if row["rms_ratio"]]
            if len(sizes) > 1:
                found.append((last, _SIZE, math.log10(sizes[-1])))
        elif last["quantity"] in _VALUES and last[_VALUES[last["quantity"]]] is not None:
            found.append((last, _VALUES[last["quantity"]], float(last[_VALUES[last["quantity"]]])))
    return found


def _pictures(rows: Sequence[Row]) -> list[tuple[Axes, str]]:
    """What runs gave over what varies, each result by activation and data.

    Phase diagrams over every two numbers with three values or more, for each architecture, quantity and law; where
    fewer numbers vary, all of these as lines over the one with most values.
    """
    groups: dict[tuple[Any, ...], list[Result]] = {}
    for row, name, value in _results(rows):
        key = (row["activation"], row["data"], name, row["architecture"], row["quantity"], _law(row))
        groups.setdefault(key, []).append((row, value))
    several = len({key[3] for key in groups}) > 1
    diagrams, others = [], dict[tuple[Any, ...], list[Result]]()
    for (activation, data, value, architecture, quantity, law), found in groups.items():
        values = _varying(found)
        wide = sorted((name for name in values if len(values[name]) > 2), key=lambda name: name in ("depth", "width"))
        if len(wide) < 2:
            others.setdefault((activation, data, value), []).extend(found)
        told = [architecture if several else None, _DONE.get(quantity, quantity), activation, law, data]
        for x, y in itertools.combinations(wide, 2):
            says = f"{label_text(value)} over {x} and {y} ({_joined(told)}); means over all else"
            diagrams.append((phase_diagram(found, x, y, value), says[0].upper() + says[1:]))
    return diagrams + [
        drawn
        for (activation, data, value), found in others.items()
        if (drawn := _line(found, value, [activation, data]))
    ]


def _law(row: Row) -> str:
    return str(row["initializer"].partition(":")[0])


def _joined(parts: Iterable[str | None]) -> str:
    return ", ".join(part for part in parts if part)


def _varying(found: Iterable[Result]) -> dict[str, set[float]]:
    """Numbers of these runs with two values or more, and their values."""
    values: dict[str, set[float]] = {}
    for row, _ in found:
        for name, number in _numbers(row).items():
            values.setdefault(name, set()).add(number)
    return {name: numbers for name, numbers in values.items() if len(numbers) > 1}


def _line(found: Sequence[Result], value: str, of: Sequence[str | None]) -> tuple[Axes, str] | None:
    """Means over the number with most values, a line for each value of the next one, for architectures and laws.

    Where no number varies the laws stand side by side; None where there is nothing to compare.
    """
    values = _varying(found)
    x, second, *_ = [*sorted(values, key=lambda name: -len(values[name])), None, None]
    laws = list(dict.fromkeys(row["initializer"] for row, _ in found))
    if x is None and len(laws) < 2:
        return None
    several = len({row["architecture"] for row, _ in found}) > 1
    lines: dict[str, dict[str, dict[float, list[float]]]] = {}
    for row, number in found:
        at = _numbers(row)
        place = laws.index(row["initializer"]) if x is None else at.get(x)
        if place is None or not math.isfinite(number):
            continue
        split = f"{second} {at[second]:g}" if second is not None and second in at else None
        name = _joined([row["architecture"] if several else None, None if x is None else _law(row), split])
        quantities = lines.setdefault(name, {}).setdefault(row["quantity"], {})
        quantities.setdefault(place, []).append(number)
    axes = new_axes(*SMALL)
    for colour, name in zip(_COLOURS, _spread(list(lines))):
        for quantity, points in lines[name].items():
            _draw_line(axes, quantity, points, _joined([_DONE.get(quantity, quantity), name]), colour)
    if x is None:
        axes.set_xticks(range(len(laws)), laws)
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


def _draw_line(axes: Axes, quantity: str, points: Mapping[float, Sequence[float]], label: str, colour: str) -> None:
    """Means over the runs of each point, as a line where they are predicted; others have two standard errors."""
    places, runs = zip(*sorted(points.items()), strict=True)
    means = [statistics.fmean(numbers) for numbers in runs]
    if quantity == "predict":
        axes.plot(places, means, color=colour, label=label)
        return
    errors = [2 * statistics.stdev(numbers) / len(numbers) ** 0.5 if len(numbers) > 1 else 0.0 for numbers in runs]
    style = "o" if quantity == "measure" else "o-"  # no prediction stands beside the others
    axes.errorbar(places, means, yerr=errors, fmt=style, color=colour, markersize=4, elinewidth=1.2, label=label)


def phase_diagram(found: Sequence[Result], x: str, y: str, value: str) -> Axes:
    """Means of numbers of runs over two of their axes, as coloured cells."""
    cells: dict[tuple[float, float], list[float]] = {}
    for row, number in found:
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
    limits = {"accuracy": (0.0, 1.0), _KEPT: (0.0, max([1.0, *known]))}.get(value, (None, None))
    image = axes.pcolormesh(means, vmin=limits[0], vmax=limits[1], cmap="viridis")
    for set_ticks, numbers in ((axes.set_xticks, across), (axes.set_yticks, up)):
        step = -(-len(numbers) // 10)
        set_ticks([index + 0.5 for index in range(0, len(numbers), step)], [f"{n:g}" for n in numbers[::step]])
    axes.set(xlabel=label_text(x), ylabel=label_text(y))
    axes.figure.colorbar(image, ax=axes, label=label_text(value))
    return axes
