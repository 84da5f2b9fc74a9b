"""The one-file page of `Separations`: histograms of the ratios, curves by layer, tests, pairs that changed most."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope.classes.ratios import COLUMNS, READINGS
from initscope.pages.figures import GREY, MEASURED, PREDICTED, THIRD, new_axes
from initscope.pages.page import render_part, versions
from initscope.pages.svg import inline_svg
from initscope.pages.thumbnails import thumbnails

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from initscope.classes.checkpoints import Separations, Shift

__all__ = ["headline", "render"]

_COLOURS = (GREY, THIRD, PREDICTED, MEASURED)
_MORE = ("tab:blue", "tab:orange", "tab:green", "tab:purple", "tab:brown", "tab:pink", "tab:olive", "tab:cyan")
_PAIRS = 6
"""Pairs shown that grew most, and as many that shrank most."""


def headline(found: Separations) -> str:
    """One sentence: how far the last network moved the medians from the first, at random points and at the boundary."""
    tests = [test for test in found.tests() if test.after == list(found.networks)[-1]]
    if not tests:
        row = next(iter(found.networks.values())).rows[-1]
        return (
            f"After {row.layer}, distances within classes are {row.intra_random.median:.3g} and between classes "
            f"{row.inter_random.median:.3g} times those of the inputs (medians of random triplets, scale removed)."
        )
    parts = [f"{test.column.replace('_', ' ')} {test.median_before:.3g} → {test.median_after:.3g}" for test in tests]
    return f"Medians after {tests[0].layer}, {tests[0].before} → {tests[0].after}: {'; '.join(parts)}."


def render(found: Separations, *, title: str = "Distances within and between classes") -> str:
    """The page as text."""
    one = next(iter(found.networks.values()))
    columns = [name for name in COLUMNS if name in one.ratios]
    pictures = [(f"hist-{name}", _histogram(found, name), _says(name)) for name in columns]
    for reading in READINGS:
        if f"intra_{reading}" in columns:
            says = f"Medians by layer, {reading} points: within classes solid, between classes dashed; bands are 95 %"
            pictures.append((f"layers-{reading}", _by_layer(found, reading), says))
    says = "Angle after over angle before, random pairs, last layer; dotted: as many wide dense ReLU layers at random"
    pictures.append(("angles", _angles(found), says))
    shifts = [_test_row(test) for test in found.tests()]
    tests = [{"title": "Tests against the first network", "note": _TESTS, "rows": shifts}] if shifts else []
    layers = {"title": "Layer by layer", "note": "Medians and 95 % bootstrap intervals.", "rows": _layer_rows(found)}
    return render_part(
        "page.html",
        body="separation.html",
        title=title,
        headline=headline(found),
        pictures=[{"name": name, "svg": inline_svg(ax, name), "says": says} for name, ax, says in pictures],
        tables=[*tests, layers],
        pairs=_changed(found),
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


def _says(column: str) -> str:
    side, _, reading = column.partition("_")
    where = "within the class" if side == "intra" else "to another class"
    return f"Ratios of distances {where}: {READINGS[reading]}"


def _colours(found: Separations) -> list[str]:
    names = list(found.networks)
    if len(names) <= len(_COLOURS):
        return [*_COLOURS[: len(names) - 1], MEASURED] if len(names) > 1 else [MEASURED]
    return [GREY, *itertools.islice(itertools.cycle(_MORE), len(names) - 2), MEASURED]


def _histogram(found: Separations, column: str) -> Axes:
    ax = new_axes(height=3.0)
    ax.set_prop_cycle(color=_colours(found))
    return found.plot(ax, column=column)


def _by_layer(found: Separations, reading: str) -> Axes:
    ax = new_axes(height=3.4)
    for (name, each), colour in zip(found.networks.items(), _colours(found)):
        for side, line in (("intra", "-"), ("inter", "--")):
            middle, low, high = np.array([getattr(row, f"{side}_{reading}") for row in each.rows]).T
            ax.plot(middle, line, color=colour, marker=".", label=name if side == "intra" else None)
            ax.fill_between(range(len(middle)), low, high, color=colour, alpha=0.12, linewidth=0)
    ax.set_xticks(range(len(found.layers)), list(found.layers), rotation=35, ha="right")
    ax.set_ylabel("median ratio")
    ax.legend(frameon=False, fontsize="small")
    return ax


def _angles(found: Separations) -> Axes:
    ax = new_axes(height=3.0)
    values = [each.angles[-1] for each in found.networks.values()]
    bins = np.linspace(0, float(np.nanpercentile(np.concatenate(values), 99.5)), 61).tolist()
    for (name, _), ratios, colour in zip(found.networks.items(), values, _colours(found)):
        ax.hist(ratios, bins=bins, density=True, histtype="step", linewidth=1.4, color=colour, label=name)
    predicted = next(iter(found.networks.values())).angles_predicted[-1]
    ax.hist(predicted, bins=bins, density=True, histtype="step", linestyle=":", color="#000000", label="predicted")
    ax.set(xlabel="angle after / angle before", ylabel="density")
    ax.legend(frameon=False, fontsize="small")
    return ax


def _test_row(test: Shift) -> dict[str, str]:
    return {
        "network": test.after,
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
                    text = f"{interval.median:.3f} ({interval.low:.3f}–{interval.high:.3f})"
                    cells[column.replace("_", " ")] = text
            if row.recall is not None:
                cells["recall"] = f"{row.recall:.2f}"
            rows.append(cells)
    return rows


def _changed(found: Separations) -> list[dict[str, Any]]:
    """Anchors and their nearest of another class whose ratio grew most, then those whose ratio shrank most."""
    first, *_, last = [*found.networks.values()] * 2
    if len(found.networks) < 2 or "inter_boundary" not in first.ratios:
        return []
    before, after = (each.ratios["inter_boundary"][-1] for each in (first, last))
    with np.errstate(divide="ignore", invalid="ignore"):
        change = np.log(after / before)
    order = np.argsort(change, kind="stable")
    order = order[np.isfinite(change[order])]
    chosen = dict.fromkeys([*order[::-1][:_PAIRS].tolist(), *order[:_PAIRS].tolist()])
    return [_pair(found, anchor, float(before[anchor]), float(after[anchor])) for anchor in chosen]


def _pair(found: Separations, anchor: int, before: float, after: float) -> dict[str, Any]:
    points = next(iter(found.networks.values())).points[anchor][[0, 4]]
    x, y = (found.data.images[int(point)][None].numpy() for point in points)
    classes = " / ".join(found.data.names[found.data.classes[point]] for point in points)
    picture = next(iter(thumbnails(x, y, angles=np.array([[before], [after]]), count=1)), None)
    return {"picture": picture, "classes": classes, "before": before, "after": after}
