"""The page of a data overview, its section for other pages, and the figure of its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from initscope.rendering.page import render_part
from initscope.rendering.rows import shown_rows
from initscope.rendering.thumbnails import data_uri
from initscope.results import label_text, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["columns_figure", "contact_sheet", "render_overview"]

_IMAGES = 40
_ROWS = 60


def render_overview(overview: Any, template: str) -> str:
    """Return the page or a part of it.

    Parameters
    ----------
    overview : initscope.data.Overview
        What to show.
    template : str
        ``page.html``, ``overview.html`` for a notebook, or ``overview_section.html`` for a section of another page.
    """
    rows = overview.table()
    left = max(0, len(rows) - _ROWS)
    classes = [{"class": name, "samples": count} for name, count in overview.classes.items()]
    pairs = [
        {"sample": first, "and sample": second, "distance / median": share}
        for first, second, share in overview.near_duplicates
    ]
    return render_part(
        template,
        body="overview.html",
        title=overview.headline,
        headline=overview.summary,
        overview=overview,
        problems=overview.problems,
        facts=overview.facts(),
        columns=shown_rows(rows[:_ROWS]),
        left=left,
        classes=shown_rows(classes) if classes else None,
        pairs=shown_rows(pairs) if pairs else None,
        images=overview.images,
    )


def contact_sheet(data: Any) -> tuple[tuple[str, str], ...]:
    """Return small images as data URIs, with the names of their classes; empty for data other than gray or RGB images.

    Parameters
    ----------
    data : initscope.data.ImageSet
        The images; up to 40 evenly spaced ones are shown.
    """
    if data.images.ndim != 4 or data.shape[0] not in (1, 3) or min(data.shape[1:]) < 4:
        return ()
    shown = data.spread(_IMAGES)
    images = np.nan_to_num(shown.images, posinf=0.0, neginf=0.0)
    low, high = min(0.0, images.min()), max(1.0, images.max())
    pixels = np.round(255 * (images - low) / (high - low)).astype(np.uint8)
    names = [""] * len(shown)
    if shown.labels is not None:
        names = [data.class_names[k] if 0 <= k < len(data.class_names) else str(k) for k in shown.labels]
    return tuple((data_uri(image), name) for image, name in zip(pixels, names))


def columns_figure(overview: Any, ax: Axes | None = None) -> Axes:
    """Return the axes with mean and standard deviation of every column.

    Parameters
    ----------
    overview : initscope.data.Overview
        What to plot.
    ax : Axes, optional
        Where to plot; default: a new figure.
    """
    ax = make_axes(ax)
    columns = overview.columns[:_ROWS]
    positions = np.arange(len(columns))
    means, sds = [column.mean for column in columns], [column.sd for column in columns]
    ax.errorbar(means, positions, xerr=sds, fmt="o")
    ax.set_yticks(positions, [label_text(column.name) for column in columns])
    ax.invert_yaxis()
    ax.set_xlabel("mean ± standard deviation")
    return ax
