"""Curves of several models against depth in the same panels, as SVG that stretches with the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from initscope.geometry import Floats
from initscope.rendering.depth import Panel, drawn_panels, panel_curves, rounded

__all__ = ["overlaid_panels"]


def overlaid_panels(models: Mapping[str, Sequence[Panel]], titles: Sequence[str]) -> dict[str, Any]:
    """Return the context of the template ``overlay.html``.

    Parameters
    ----------
    models : mapping of str to sequence of Panel
        By name of a model its panels; panels of one name are drawn together.
    titles : sequence of str
        Names of the rows, if all models have the same ones; else empty, and the axis is the share of the depth.
    """
    names = list(dict.fromkeys(panel.name for panels in models.values() for panel in panels))
    count = max(len(panel.measured) for panels in models.values() for panel in panels)
    shown, data = [], []
    for name in names:
        series = {model: panel for model, panels in models.items() for panel in panels if panel.name == name}
        known = {model: panel for model, panel in series.items() if np.isfinite(panel.measured).any()}
        if not known:
            continue
        joint = _joint(list(known.values()))
        curves = panel_curves(joint, [panel.measured for panel in known.values()])
        order = list(models)
        shown.append(
            _texts(joint)
            | {
                "curves": [(order.index(model), path) for model, path in zip(known, curves["paths"], strict=True)],
                "ticks": curves["ticks"],
                "healthy": curves["healthy"],
                "has_band": curves["has_band"],
            }
        )
        on_grid = {model: rounded(_on_grid(panel.measured, count)) for model, panel in known.items()}
        data.append({"name": name, "series": on_grid, "rounding": joint.rounding} | {"measured": _any_known(on_grid)})
    rows = list(titles) or [f"at {100 * (index + 0.5) / count:.0f} % of the depth" for index in range(count)]
    axis = drawn_panels([], rows)["axis"] if titles else _shares()
    return {"models": list(models), "panels": shown, "axis": axis, "rows": count, "data": data, "titles": rows}


def _texts(panel: Panel) -> dict[str, Any]:
    """Return the texts of a panel."""
    return {"name": panel.name, "title": panel.title, "says": panel.says}


def _joint(panels: Sequence[Panel]) -> Panel:
    """Return a panel with the values of all, which chooses the axis; bounds that differ are left out."""
    lows, highs = {panel.low for panel in panels}, {panel.high for panel in panels}
    return replace(
        panels[0],
        measured=np.concatenate([panel.measured for panel in panels]),
        error=None,
        predicted=None,
        low=panels[0].low if len(lows) == 1 else None,
        high=panels[0].high if len(highs) == 1 else None,
    )


def _on_grid(values: Floats, count: int) -> Floats:
    """Return the value of the row at each of ``count`` shares of the depth."""
    return np.asarray(values[((np.arange(count) + 0.5) * len(values) / count).astype(int)])


def _any_known(series: Mapping[str, Sequence[float | None]]) -> list[float | None]:
    """Return at each position the first value that some model has: where the tooltip can stop."""
    columns = zip(*series.values(), strict=True)
    return [next((value for value in column if value is not None), None) for column in columns]


def _shares() -> list[dict[str, str]]:
    roles = {0: "at-start", 25: "minor", 75: "minor", 100: "at-end"}
    return [{"left": str(share), "name": f"{share} %", "role": roles.get(share, "")} for share in (0, 25, 50, 75, 100)]
