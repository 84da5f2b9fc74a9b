"""The HTML page of a `Comparison`: a self-contained file that makes no network requests."""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope._utils.files import write_text
from initscope.geometry import ROUNDING, Comparison
from initscope.rendering.depth import Panel, drawn_panels
from initscope.rendering.figures import new_axes, pairs_figure, rows_after_activations
from initscope.rendering.layers import layer_table, page_data, side_columns
from initscope.rendering.quantities import Quantity, angles, sizes
from initscope.rendering.summary import headline, suggestion
from initscope.rendering.svg import inline_svg
from initscope.rendering.thumbnails import thumbnails
from initscope.results import printable

if TYPE_CHECKING:
    import jinja2

__all__ = ["angle_panel", "comparison_context", "render_page", "render_part", "size_panel", "versions", "write_page"]

_TWO_DECADES = 100.0


def write_page(path: str | os.PathLike[str], comparison: Comparison, **options: Any) -> None:
    """Write the result of `render_page` to ``path`` atomically."""
    write_text(path, render_page(comparison, **options))


def render_page(
    comparison: Comparison,
    *,
    facts: Mapping[str, object] | None = None,
    images: tuple[Any, Any] | None = None,
    advice: str = "",
    fragment: bool = False,
) -> str:
    """Return the HTML page as a string.

    Parameters
    ----------
    comparison : Comparison
        What to show.
    facts : mapping, optional
        Settings to list, by label: model, data, … . Pairs, draws, seed and versions are added.
    images : pair of arrays, optional
        ``x, y`` of the pairs, ``[pairs, C, H, W]``; a few are shown if they are gray or RGB images.
    advice : str
        Advice to show instead of the general `suggestion`.
    fragment : bool
        Return one HTML element with its style, for a notebook cell, instead of a whole page.
    """
    context = comparison_context(comparison, facts or {}, images)
    rows, angle, size = comparison.rows, angles(comparison), sizes(comparison)
    panels = [angle_panel(angle), size_panel(size, [0, *rows_after_activations(rows, range(1, len(rows)))])]
    columns = [*side_columns(angle, "angle", "angle °", 1), *side_columns(size, "rms_ratio", "RMS ratio", 3)]
    depth = drawn_panels(panels, [row.title for row in rows])
    happened, _, more = headline(comparison).partition(". ")
    context |= {
        "title": happened.removesuffix("."),
        "subtitle": comparison.title,
        "headline": more,
        "advice": advice or suggestion(comparison),
        "depth": depth,
        "error_is": angle.error_is,
        "layers": layer_table(rows, columns),
        "data": page_data(rows, columns, depth["data"]),
    }
    return render_part("body.html" if fragment else "page.html", **context)


def render_part(template: str, **context: Any) -> str:
    """Render one of the templates."""
    return printable(_environment().get_template(template).render(context))


def versions() -> dict[str, str]:
    """Return the versions of the packages that the numbers depend on."""
    packages = {name: version(name) for name in ("initscope", "torch", "numpy")}
    return packages | {"Python": platform.python_version()}


def angle_panel(angle: Quantity, low: float | None = None) -> Panel:
    """Return the panel of angles; ``low`` is the threshold of the checks, and growing angles are no error.

    The axis is logarithmic if angles above their rounding error span more than two decades.
    """
    known = angle.measured[angle.measured > ROUNDING]
    decades = bool(len(known)) and bool(known.max() > _TWO_DECADES * known.min())
    return Panel(
        "angle",
        "between pairs, degrees",
        "small angles mean that the network maps different inputs to similar outputs",
        angle.measured,
        angle.error,
        angle.predicted,
        low,
        least=0.0,
        logarithmic=decades,
        rounding=ROUNDING,
    )


def size_panel(size: Quantity, shown: list[int], low: float | None = None, high: float | None = None) -> Panel:
    """Return the panel of RMS ratios at the rows ``shown``; weights between these rows rescale the signal."""
    size = size.at(shown)
    return Panel(
        "RMS ratio",
        "RMS of activations / RMS of the input",
        "a flat curve preserves the scale of the signal; strong growth or decay makes training hard",
        size.measured,
        size.error,
        size.predicted,
        low,
        high,
    )


def comparison_context(
    comparison: Comparison, facts: Mapping[str, object], images: tuple[Any, Any] | None
) -> dict[str, Any]:
    """Return the context that all templates share: pairs, settings of the run, and glossary."""
    measured, predicted = comparison.measurement, comparison.prediction
    side = measured if measured is not None else predicted
    assert side is not None
    run = {name: str(value) for name, value in facts.items() if value not in (None, "")}
    run["pairs"] = str(side.cosine.shape[1])
    if measured is not None:
        run["draws of the weights"] = str(measured.draws) if measured.draws else "none: the given weights"
        if measured.draws:
            run["seed"] = str(measured.seed)
    run["versions"] = ", ".join(f"{name} {number}" for name, number in versions().items())
    return {
        "both": measured is not None and predicted is not None,
        "has_measured": measured is not None,
        "has_predicted": predicted is not None,
        "has_sd": predicted is not None
        and predicted.cosine_sd is not None
        and bool((predicted.cosine_sd[1:] > 0).any()),
        "drawn": measured is not None and measured.draws > 0,
        "has_error": measured is not None and bool(np.isfinite(measured.mean_cosine_se).any()),
        "pairs_figure": inline_svg(pairs_figure(comparison, new_axes(4.2, 3.5)), "pairs"),
        "thumbnails": [] if images is None else thumbnails(*images, angles=side.angle),
        "run": run,
    }


@functools.cache
def _environment() -> jinja2.Environment:
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.PackageLoader("initscope.rendering"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":")}  # compact: pages hold dozens of numbers per layer
    return made
