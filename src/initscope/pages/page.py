"""The one-file page of a `Comparison`: HTML with its pictures inside; no script, nothing fetched from anywhere."""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope._hall.files import write_text
from initscope.geometry import Comparison
from initscope.pages.figures import angle_figure, norm_figure, pairs_figure
from initscope.pages.summary import headline, suggestion
from initscope.pages.svg import inline_svg
from initscope.pages.table import side_by_side
from initscope.pages.thumbnails import thumbnails

if TYPE_CHECKING:
    import jinja2

__all__ = ["render_page", "render_part", "versions", "write_page"]


def write_page(path: str | os.PathLike[str], comparison: Comparison, **options: Any) -> None:
    """Write `render_page` to ``path``, atomically."""
    write_text(path, render_page(comparison, **options))


def render_page(
    comparison: Comparison,
    *,
    facts: Mapping[str, object] | None = None,
    images: tuple[Any, Any] | None = None,
    advice: str = "",
    rows: Sequence[Mapping[str, str]] | None = None,
    inside: Sequence[Sequence[Mapping[str, str]]] = (),
    findings: str = "",
    alternatives: str = "",
    fragment: bool = False,
) -> str:
    """The whole page as text.

    Parameters
    ----------
    comparison : Comparison
        What to show.
    facts : mapping, optional
        What was run, as label and value: model, data, … . Pairs, draws, seed and versions are added.
    images : pair of arrays, optional
        ``x, y`` of the pairs, ``[pairs, C, H, W]``; a few are shown if they are grey or RGB images.
    advice : str
        What to try, instead of the general `suggestion`.
    rows : list of dicts of short texts, optional
        The table, instead of `side_by_side`.
    inside : list of such lists
        For each of ``rows`` the rows that it stands for, which a click shows; empty lists for none.
    findings, alternatives : str
        HTML to stand before the pictures and behind the table, see `render_part`.
    fragment : bool
        For a notebook's cell: one element with its own style, no page around it.
    """
    context = _context(comparison, facts or {}, images, advice)
    context |= {"findings": findings, "alternatives": alternatives, "inside": inside} | (
        {} if rows is None else {"rows": rows}
    )
    return render_part("body.html" if fragment else "page.html", **context)


def render_part(template: str, **context: Any) -> str:
    """A part of a page from one of the templates."""
    return _environment().get_template(template).render(context)


def versions() -> dict[str, str]:
    """Versions that the numbers depend on."""
    found = {name: version(name) for name in ("initscope", "torch", "numpy")}
    return found | {"Python": platform.python_version()}


@functools.cache
def _environment() -> jinja2.Environment:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.PackageLoader("initscope.pages"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )


def _context(
    comparison: Comparison, facts: Mapping[str, object], images: tuple[Any, Any] | None, advice: str
) -> dict[str, Any]:
    measured, predicted = comparison.measurement, comparison.prediction
    side = measured if measured is not None else predicted
    assert side is not None
    run = {name: str(value) for name, value in facts.items() if value not in (None, "")}
    run["pairs"] = str(side.cosine.shape[1])
    if measured is not None:
        run["draws of the weights"] = str(measured.draws) if measured.draws else "none: the weights as they are"
        if measured.draws:
            run["seed"] = str(measured.seed)
    run["versions"] = ", ".join(f"{name} {number}" for name, number in versions().items())
    return {
        "title": comparison.title or "What the network does to angles and lengths",
        "headline": headline(comparison),
        "advice": advice or suggestion(comparison),
        "rows": side_by_side(comparison),
        "both": measured is not None and predicted is not None,
        "has_measured": measured is not None,
        "has_predicted": predicted is not None,
        "has_sd": predicted is not None
        and predicted.cosine_sd is not None
        and bool((predicted.cosine_sd[1:] > 0).any()),
        "drawn": measured is not None and measured.draws > 0,
        "has_error": measured is not None and bool(np.isfinite(measured.mean_cosine_se).any()),
        "pictures": {
            name: inline_svg(draw(comparison), name)
            for name, draw in (("angles", angle_figure), ("norms", norm_figure), ("pairs", pairs_figure))
        },
        "thumbnails": [] if images is None else thumbnails(*images, angles=side.angle),
        "run": run,
    }
