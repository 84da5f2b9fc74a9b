"""The one-file page of `Separations`: histograms of the ratios, curves by layer, tests, pairs that changed most."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope.class_geometry.checkpoints import outline, shared_bins
from initscope.class_geometry.ratios import COLUMNS, READINGS
from initscope.rendering.figures import GREY, MEASURED, PREDICTED, SMALL, THIRD, new_axes
from initscope.rendering.page import render_part, versions
from initscope.rendering.rows import shown_rows
from initscope.rendering.svg import inline_svg
from initscope.rendering.thumbnails import thumbnails

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from initscope.class_geometry.checkpoints import Separations, Shift
    from initscope.theory.separation import Interval

__all__ = ["headline", "render"]

_PLACES = {"random": "at random points", "boundary": "at the boundary", "rechosen": "re-chosen there"}
_COLOURS = (GREY, THIRD, PREDICTED, MEASURED)
_MORE = ("tab:blue", "tab:orange", "tab:green", "tab:purple", "tab:brown", "tab:pink", "tab:olive", "tab:cyan")
_PAIRS = 6
"""Pairs shown that grew most, and as many that shrank most."""


def headline(found: Separations) -> str:
    """How far the last network moved the medians from the first, at random points and at the boundary."""
    layer = found.shown_layers[0]
    tests = [test for test in found.tests(layer) if test.after == list(found.networks)[-1]]
    if not tests:
        row = next(iter(found.networks.values())).rows[-1]
        return (
            f"After {row.layer}, distances within classes are {row.intra_random.median:.3g} and between classes "
            f"{row.inter_random.median:.3g} times those of the inputs (medians of random triplets, scale removed)."
        )
    moved = {test.column: f"{test.median_before:.2f} → {test.median_after:.2f}" for test in tests}
    parts = [
        f"{says} {moved[f'intra_{reading}']} within classes, {moved[f'inter_{reading}']} between"
        for reading, says in _PLACES.items()
        if f"intra_{reading}" in moved
    ]
    return f"Medians after {layer}, {tests[0].before} → {tests[0].after}: {'; '.join(parts)}."


def render(found: Separations, *, title: str = "Distances within and between classes") -> str:
    """The page as text."""
    one = next(iter(found.networks.values()))
    tests = [_test_row(test) for layer in found.shown_layers for test in found.tests(layer)]
    tables = {
        "Tests against the first network": (_TESTS, tests),
        "Medians": ("With 95 % bootstrap intervals.", _layer_rows(found)),
        "What training ends in": (_ENDS, _collapse_rows(found)),
    }
    return render_part(
        "page.html",
        body="separation.html",
        title=title,
        headline=headline(found),
        groups=[{"title": title, "pictures": _drawn(pictures)} for title, pictures in _groups(found)],
        several=len(found.networks) > 1,
        boundary="inter_boundary" in one.ratios,
        tables={name: (note, shown_rows(rows)) for name, (note, rows) in tables.items() if rows},
        pairs=_changed(found),
        pairs_layer=found.shown_layers[0],
        run={
            "networks": ", ".join(found.networks),
            "samples": one.samples,
            "classes": ", ".join(one.classes[:20]),
            "anchors": len(one.points),
            "seed": one.seed,
            "versions": ", ".join(f"{name} {number}" for name, number in versions().items()),
        },
    )


_TESTS = (
    "Superiority is the probability that a ratio of the later network exceeds one of the first: .5 is no change. "
    "With many anchors small p-values come with small effects: read both."
)
_ENDS = (
    "Variance within classes over that between; the same along the directions in which class means differ; cosines of "
    "the centred class means, beside those of a simplex; accuracy of the nearest class mean and of a linear probe."
)

Pictures = list[tuple[str, "Axes", str]]


def _groups(found: Separations) -> list[tuple[str, Pictures]]:
    """Titles and pictures: histograms at the layers shown, curves over all layers, angles."""
    one = next(iter(found.networks.values()))
    columns = [name for name in COLUMNS if name in one.ratios]
    groups: list[tuple[str, Pictures]] = [
        (f"After {layer}", [(f"hist{place}-{name}", _histogram(found, name, layer), _says(name)) for name in columns])
        for place, layer in enumerate(found.shown_layers)
    ]
    curves: Pictures = []
    for reading in READINGS:
        if f"intra_{reading}" in columns:
            says = f"Medians, {reading} points: within classes solid, between classes dashed; bands are 95 %"
            curves.append((f"layers-{reading}", _by_layer(found, reading), says))
    if found.collapses:
        says = "Accuracy of a linear probe on held-out samples: solid; of the nearest class mean: dashed"
        curves.append(("layers-probes", _probes_by_layer(found), says))
    says = "Medians of angle after over angle before, random pairs; dotted: as many wide dense ReLU layers at random"
    angles: Pictures = [("layers-angles", _angles_by_layer(found), says)]
    for place, layer in enumerate(found.shown_layers):
        angles.append((f"angles{place}", _angles(found, layer), f"The same pairs after {layer}"))
    return [*groups, ("Layer by layer", curves), ("Angles", angles)]


def _drawn(pictures: Pictures) -> list[dict[str, str]]:
    return [{"name": name, "svg": inline_svg(ax, name), "says": says} for name, ax, says in pictures]


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


def _colours(found: Separations) -> list[str]:
    names = list(found.networks)
    if len(names) <= len(_COLOURS):
        return [*_COLOURS[: len(names) - 1], MEASURED] if len(names) > 1 else [MEASURED]
    return [GREY, *itertools.islice(itertools.cycle(_MORE), len(names) - 2), MEASURED]


def _histogram(found: Separations, column: str, layer: str) -> Axes:
    ax = new_axes(*SMALL)
    ax.set_prop_cycle(color=_colours(found))
    return found.plot(ax, column=column, layer=layer)


def _by_layer(found: Separations, reading: str) -> Axes:
    ax = new_axes(*SMALL)
    for (name, each), colour in zip(found.networks.items(), _colours(found)):
        for side, line in (("intra", "-"), ("inter", "--")):
            intervals = [getattr(row, f"{side}_{reading}") for row in each.rows]
            _curve(ax, intervals, line, colour, name if side == "intra" else None)
    return _finish(ax, list(found.layers), "median ratio")


def _angles_by_layer(found: Separations) -> Axes:
    ax = new_axes(*SMALL)
    for (name, each), colour in zip(found.networks.items(), _colours(found)):
        _curve(ax, [row.angle_random for row in each.rows], "-", colour, name)
    rows = next(iter(found.networks.values())).rows
    ax.plot([row.angle_predicted.median for row in rows], ":", color="#000000", label="predicted")
    return _finish(ax, list(found.layers), "median ratio of angles")


def _probes_by_layer(found: Separations) -> Axes:
    ax = new_axes(*SMALL)
    for (name, each), colour in zip(found.collapses.items(), _colours(found)):
        errors = [2 * row.standard_error for row in each.rows]
        places = range(len(each.rows))
        ax.errorbar(places, [row.probe_accuracy for row in each.rows], errors, fmt=".-", color=colour, label=name)
        ax.plot([row.class_mean_accuracy for row in each.rows], "--", color=colour)
    return _finish(ax, ["input", *found.layers], "accuracy")


def _curve(ax: Axes, intervals: list[Interval], line: str, colour: str, name: str | None) -> None:
    """Medians with a band."""
    middle, low, high = np.array(intervals).T
    ax.plot(middle, line, color=colour, marker=".", label=name)
    ax.fill_between(range(len(middle)), low, high, color=colour, alpha=0.12, linewidth=0)


def _finish(ax: Axes, layers: list[str], says: str) -> Axes:
    crowded = sum(len(layer) + 2 for layer in layers) > 40
    ax.set_xticks(range(len(layers)), layers, rotation=35 if crowded else 0, ha="right" if crowded else "center")
    ax.set_ylabel(says)
    ax.legend(frameon=False, fontsize="small")
    return ax


def _angles(found: Separations, layer: str) -> Axes:
    ax = new_axes(*SMALL)
    place = found.layers.index(layer)
    values = [each.angles[place] for each in found.networks.values()]
    predicted = next(iter(found.networks.values())).angles_predicted[place]
    bins = shared_bins([*values, predicted])
    for (name, _), ratios, colour in zip(found.networks.items(), values, _colours(found)):
        outline(ax, ratios, bins, color=colour, label=name)
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


def _layer_rows(found: Separations) -> list[dict[str, str]]:
    rows = []
    for name, each in found.networks.items():
        for row in each.rows:
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


def _collapse_rows(found: Separations) -> list[dict[str, str]]:
    return [
        {
            "network": name,
            "layer": row.layer,
            "within / between": f"{row.within_between:.3g}",
            "along the means": f"{row.variability:.3g}",
            "cosine of means": f"{row.cosine:.3f} (sd {row.cosine_spread:.3f})",
            "simplex": f"{row.simplex:.3f}",
            "nearest mean": f"{row.class_mean_accuracy:.3f}",
            "linear probe": f"{row.probe_accuracy:.3f} ± {row.standard_error:.3f}",
        }
        for name, each in found.collapses.items()
        for row in each.rows
    ]


def _changed(found: Separations) -> dict[str, list[dict[str, Any]]]:
    """Pairs of an anchor and its nearest of another class: those whose ratio grew most, and those where it shrank."""
    first, *_, last = [*found.networks.values()] * 2
    if len(found.networks) < 2 or "inter_boundary" not in first.ratios:
        return {}
    place = found.layers.index(found.shown_layers[0])
    before, after = (each.ratios["inter_boundary"][place] for each in (first, last))
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
        title: [_pair(found, anchor, float(before[anchor]), float(after[anchor])) for anchor in some]
        for title, some in chosen.items()
    }


def _pair(found: Separations, anchor: int, before: float, after: float) -> dict[str, Any]:
    points = next(iter(found.networks.values())).points[anchor][[0, 4]]
    x, y = (found.data.images[int(point)][None].numpy() for point in points)
    classes = " / ".join(found.data.names[found.data.classes[point]] for point in points)
    picture = next(iter(thumbnails(x, y, angles=np.array([[before], [after]]), count=1)), None)
    return {"picture": picture, "classes": classes, "before": before, "after": after}
