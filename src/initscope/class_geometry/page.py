"""The self-contained page of `Separations`: histograms of the ratios, curves by layer, tests, changed pairs."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope._utils.palette import PALETTE
from initscope.class_geometry.checkpoints import outline, shared_bins
from initscope.class_geometry.ratios import COLUMNS, READINGS
from initscope.rendering.figures import GRAY, MEASURED, PREDICTED, SMALL, THIRD, new_axes
from initscope.rendering.page import render_part, versions
from initscope.rendering.rows import shown_rows
from initscope.rendering.svg import inline_svg
from initscope.rendering.thumbnails import thumbnails

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from initscope.class_geometry.checkpoints import Separations, Shift
    from initscope.theory.separation import Interval

__all__ = ["headline", "render"]

_READING_TEXTS = {"random": "at random points", "boundary": "at the boundary", "rechosen": "re-chosen there"}
_COLORS = (GRAY, THIRD, PREDICTED, MEASURED)
_MORE = PALETTE[3:]
_PAIRS = 6
"""Number of pairs shown whose ratio grew most, and of those whose ratio shrank most."""


def headline(separations: Separations) -> str:
    """Return how far the last network moved the medians from the first, at random points and at the boundary."""
    layer = separations.shown_layers[0]
    tests = [test for test in separations.tests(layer) if test.after == list(separations.networks)[-1]]
    if not tests:
        row = next(iter(separations.networks.values())).rows[-1]
        return (
            f"After {row.layer}, distances within classes are {row.intra_random.median:.3g} and between classes "
            f"{row.inter_random.median:.3g} times those of the inputs (medians of random triplets, scale removed)."
        )
    moved = {test.column: f"{test.median_before:.2f} → {test.median_after:.2f}" for test in tests}
    parts = [
        f"{says} {moved[f'intra_{reading}']} within classes, {moved[f'inter_{reading}']} between"
        for reading, says in _READING_TEXTS.items()
        if f"intra_{reading}" in moved
    ]
    return f"Medians after {layer}, {tests[0].before} → {tests[0].after}: {'; '.join(parts)}."


def render(separations: Separations, *, title: str = "Distances within and between classes") -> str:
    """Return the page as text."""
    first_network = next(iter(separations.networks.values()))
    tests = [_test_row(test) for layer in separations.shown_layers for test in separations.tests(layer)]
    tables = {
        "Tests against the first network": (_TESTS, tests),
        "Medians": ("With 95 % bootstrap intervals.", _layer_rows(separations)),
        "Neural collapse": (_ENDS, _collapse_rows(separations)),
    }
    return render_part(
        "page.html",
        body="separation.html",
        title=title,
        headline=headline(separations),
        groups=[{"title": title, "figures": _drawn(figures)} for title, figures in _groups(separations)],
        several=len(separations.networks) > 1,
        boundary="inter_boundary" in first_network.ratios,
        tables={name: (note, shown_rows(rows)) for name, (note, rows) in tables.items() if rows},
        pairs=_changed(separations),
        pairs_layer=separations.shown_layers[0],
        run={
            "networks": ", ".join(separations.networks),
            "samples": first_network.samples,
            "classes": ", ".join(first_network.classes[:20]),
            "anchors": len(first_network.points),
            "seed": first_network.seed,
            "versions": ", ".join(f"{name} {number}" for name, number in versions().items()),
        },
    )


_TESTS = (
    "Superiority is the probability that a ratio of the later network exceeds one of the first: .5 means no change. "
    "With many anchors small p-values come with small effects: read both."
)
_ENDS = (
    "Variance within classes over that between; the same along the directions in which class means differ; cosines of "
    "the centered class means, and those of a simplex; accuracy of the nearest class mean and of a linear probe."
)

Figures = list[tuple[str, "Axes", str]]


def _groups(separations: Separations) -> list[tuple[str, Figures]]:
    """Return titles and figures: histograms at the layers shown, curves over all layers, angles."""
    first_network = next(iter(separations.networks.values()))
    columns = [name for name in COLUMNS if name in first_network.ratios]
    groups: list[tuple[str, Figures]] = [
        (
            f"After {layer}",
            [(f"hist{position}-{name}", _histogram(separations, name, layer), _says(name)) for name in columns],
        )
        for position, layer in enumerate(separations.shown_layers)
    ]
    curves: Figures = []
    for reading in READINGS:
        if f"intra_{reading}" in columns:
            says = f"Medians, {reading} points: within classes solid, between classes dashed; bands are 95 %"
            curves.append((f"layers-{reading}", _by_layer(separations, reading), says))
    if separations.collapses:
        says = "Accuracy of a linear probe on held-out samples: solid; of the nearest class mean: dashed"
        curves.append(("layers-probes", _probes_by_layer(separations), says))
    says = (
        "Medians of angle after over angle before, random pairs; dotted: prediction for wide random dense ReLU layers"
    )
    angles: Figures = [("layers-angles", _angles_by_layer(separations), says)]
    for position, layer in enumerate(separations.shown_layers):
        angles.append((f"angles{position}", _angles(separations, layer), f"The same pairs after {layer}"))
    return [*groups, ("Layer by layer", curves), ("Angles", angles)]


def _drawn(figures: Figures) -> list[dict[str, str]]:
    return [{"name": name, "svg": inline_svg(ax, name), "says": says} for name, ax, says in figures]


def _says(column: str) -> str:
    side, _, reading = column.partition("_")
    point = "point of the class" if side == "intra" else "point of another class"
    extreme = "farthest" if side == "intra" else "nearest"
    where = {
        "random": f"a random {point}",
        "boundary": f"the {extreme} {point} among the inputs, mapped by the network",
        "rechosen": f"the {extreme} {point}, chosen again among the outputs of the layer",
    }
    return f"Distance to {where[reading]}"


def _colors(separations: Separations) -> list[str]:
    names = list(separations.networks)
    if len(names) <= len(_COLORS):
        return [*_COLORS[: len(names) - 1], MEASURED] if len(names) > 1 else [MEASURED]
    return [GRAY, *itertools.islice(itertools.cycle(_MORE), len(names) - 2), MEASURED]


def _histogram(separations: Separations, column: str, layer: str) -> Axes:
    ax = new_axes(*SMALL)
    ax.set_prop_cycle(color=_colors(separations))
    return separations.plot(ax, column=column, layer=layer)


def _by_layer(separations: Separations, reading: str) -> Axes:
    ax = new_axes(*SMALL)
    for (name, network), color in zip(separations.networks.items(), _colors(separations)):
        for side, line in (("intra", "-"), ("inter", "--")):
            intervals = [getattr(row, f"{side}_{reading}") for row in network.rows]
            _curve(ax, intervals, line, color, name if side == "intra" else None)
    return _finish(ax, list(separations.layers), "median ratio")


def _angles_by_layer(separations: Separations) -> Axes:
    ax = new_axes(*SMALL)
    for (name, network), color in zip(separations.networks.items(), _colors(separations)):
        _curve(ax, [row.angle_random for row in network.rows], "-", color, name)
    rows = next(iter(separations.networks.values())).rows
    ax.plot([row.angle_predicted.median for row in rows], ":", color="#000000", label="predicted")
    return _finish(ax, list(separations.layers), "median ratio of angles")


def _probes_by_layer(separations: Separations) -> Axes:
    ax = new_axes(*SMALL)
    for (name, network), color in zip(separations.collapses.items(), _colors(separations)):
        errors = [2 * row.probe_accuracy_se for row in network.rows]
        positions = range(len(network.rows))
        ax.errorbar(positions, [row.probe_accuracy for row in network.rows], errors, fmt=".-", color=color, label=name)
        ax.plot([row.class_mean_accuracy for row in network.rows], "--", color=color)
    return _finish(ax, ["input", *separations.layers], "accuracy")


def _curve(ax: Axes, intervals: list[Interval], line: str, color: str, name: str | None) -> None:
    """Medians with a band."""
    middle, low, high = np.array(intervals).T
    ax.plot(middle, line, color=color, marker=".", label=name)
    ax.fill_between(range(len(middle)), low, high, color=color, alpha=0.12, linewidth=0)


def _finish(ax: Axes, layers: list[str], says: str) -> Axes:
    crowded = sum(len(layer) + 2 for layer in layers) > 40
    ax.set_xticks(range(len(layers)), layers, rotation=35 if crowded else 0, ha="right" if crowded else "center")
    ax.set_ylabel(says)
    ax.legend(frameon=False, fontsize="small")
    return ax


def _angles(separations: Separations, layer: str) -> Axes:
    ax = new_axes(*SMALL)
    position = separations.layers.index(layer)
    values = [network.angles[position] for network in separations.networks.values()]
    predicted = next(iter(separations.networks.values())).angles_predicted[position]
    bins = shared_bins([*values, predicted])
    for (name, _), ratios, color in zip(separations.networks.items(), values, _colors(separations)):
        outline(ax, ratios, bins, color=color, label=name)
    outline(ax, predicted, bins, linestyle=":", color="#000000", label="predicted")
    ax.set(xlabel=f"angle after {layer} / angle before", ylabel="density")
    ax.legend(frameon=False, fontsize="small")
    return ax


def _test_row(test: Shift) -> dict[str, str]:
    return {
        "network": test.after,
        "layer": test.layer,
        "ratio": test.column.replace("_", " "),
        f"median, {test.before}": f"{test.median_before:.3f}",
        "median": f"{test.median_after:.3f}",
        "superiority": f"{test.superiority:.3f}",
        "p (Mann–Whitney)": f"{test.mann_whitney_p:.2g}",
        "KS distance": f"{test.ks:.3f}",
        "p (KS)": f"{test.ks_p:.2g}",
    }


def _layer_rows(separations: Separations) -> list[dict[str, str]]:
    rows = []
    for name, network in separations.networks.items():
        for row in network.rows:
            cells = {"network": name, "layer": row.layer, "kind": row.kind, "scale": f"{row.scale:.3g}"}
            for column in (*COLUMNS, "angle_random", "angle_predicted"):
                interval = getattr(row, column)
                if interval is not None:
                    text = f"{interval.median:.3f} ({interval.low:.3f}–\u2060{interval.high:.3f})"
                    cells[column.replace("_", " ")] = text
            if row.recall is not None:
                cells["recall"] = f"{row.recall:.2f}"
            rows.append(cells)
    return rows


def _collapse_rows(separations: Separations) -> list[dict[str, str]]:
    return [
        {
            "network": name,
            "layer": row.layer,
            "within / between": f"{row.within_between:.3g}",
            "along the means": f"{row.variability:.3g}",
            "cosine of means": f"{row.cosine:.3f} (sd {row.cosine_spread:.3f})",
            "simplex": f"{row.simplex:.3f}",
            "nearest mean": f"{row.class_mean_accuracy:.3f} ± {row.class_mean_accuracy_se:.3f}",
            "linear probe": f"{row.probe_accuracy:.3f} ± {row.probe_accuracy_se:.3f}",
        }
        for name, network in separations.collapses.items()
        for row in network.rows
    ]


def _changed(separations: Separations) -> dict[str, list[dict[str, Any]]]:
    """Return pairs of an anchor and its nearest point of another class.

    Those whose ratio grew most, and those whose ratio shrank.
    """
    first, *_, last = [*separations.networks.values()] * 2
    if len(separations.networks) < 2 or "inter_boundary" not in first.ratios:
        return {}
    position = separations.layers.index(separations.shown_layers[0])
    before, after = (network.ratios["inter_boundary"][position] for network in (first, last))
    with np.errstate(divide="ignore", invalid="ignore"):
        change = np.log(after / before)
    # Anchors are drawn with repetition, and two images may each be the other's nearest: every pair once.
    known = np.flatnonzero(np.isfinite(change)).tolist()
    anchors = {frozenset(first.points[anchor][[0, 4]].tolist()): int(anchor) for anchor in known}
    order = sorted(anchors.values(), key=lambda anchor: change[anchor])
    chosen = {
        "Grew most": [anchor for anchor in order[::-1][:_PAIRS] if change[anchor] > 0],
        "Shrank most": [anchor for anchor in order[:_PAIRS] if change[anchor] < 0],
    }
    return {
        title: [_pair(separations, anchor, float(before[anchor]), float(after[anchor])) for anchor in some]
        for title, some in chosen.items()
    }


def _pair(separations: Separations, anchor: int, before: float, after: float) -> dict[str, Any]:
    points = next(iter(separations.networks.values())).points[anchor][[0, 4]]
    x, y = (separations.data.images[int(point)][None].numpy() for point in points)
    classes = " / ".join(separations.data.names[separations.data.classes[point]] for point in points)
    thumbnail = next(iter(thumbnails(x, y, angles=np.array([[before], [after]]), count=1)), None)
    return {"images": thumbnail, "classes": classes, "before": before, "after": after}
