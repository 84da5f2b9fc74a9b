"""`reproduce`: run reproductions and show them on one page.

The folder has a JSON file and a figure for each reproduction, written when it is done, so that an interrupted run can
continue. ``results.json`` and ``index.html`` summarize all of them.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import textwrap
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from initscope._utils.content import code_digest
from initscope._utils.files import write_text
from initscope._utils.progress import kept_if_interrupted, none_is_no_result, steps
from initscope.distributed.local import Outcome, in_processes
from initscope.errors import InputError, check_count
from initscope.rendering.page import render_part, versions
from initscope.rendering.svg import fixed_colors, inline_svg, page_colors
from initscope.reproductions.protocol import Declared, Reproduction, Scale
from initscope.reproductions.registry import all_reproductions, get, matching
from initscope.results import Result, format_number, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Gallery", "Shown", "left_out", "reproduce"]

_RESULT = ("id", "status", "why", "ours", "published", "seconds")
"""Fields of each reproduction in ``results.json``."""
_MOST_ROWS = 24
"""Number of table rows that the page shows; the JSON file has all."""
_PANEL = 5.0
"""Width in inches of a figure with one panel: it fits a phone, with text of about 10 pixels."""
_POINTS = 72  # per inch, the unit of SVG
_WIDE = 1.7
"""Aspect ratio above which a figure uses the whole width of the page."""


@dataclass(frozen=True)
class Shown(Result):
    """One reproduction of a gallery: the fields of `Reproduction.to_dict`, its table, its command and its figure.

    ``key`` identifies everything that the numbers depend on: equal keys mean equal numbers.
    """

    id: str
    source: str
    statement: str
    scale: str
    status: str
    why: str
    ours: dict[str, dict[str, float | None]]
    published: dict[str, float] | None
    seconds: float
    rows: list[dict[str, Any]] = field(repr=False)
    seed: int | None
    command: str
    key: str
    svg: str = field(default="", repr=False)
    """SVG text, stored as a separate file in the folder."""

    @property
    def wide(self) -> bool:
        """Whether the figure has several panels side by side."""
        width, height = self._size()
        return width > _WIDE * height and width > 1.2 * _POINTS * _PANEL

    @property
    def least_width(self) -> int:
        """Width in pixels below which the figure scrolls instead of shrinking, so that its text is legible."""
        return round(0.85 * self._size()[0])

    def _size(self) -> tuple[float, float]:
        box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', self.svg)
        return (1.0, 1.0) if box is None else (float(box[1]), float(box[2]))

    def cells(self) -> list[list[str]]:
        """Return the first rows of the table as texts; lists and dicts are shown by their length."""
        return [[_cell(value) for value in row.values()] for row in self.rows[:_MOST_ROWS]]

    def numbers(self) -> list[dict[str, str]]:
        """Return our numbers with their errors and the published ones, as texts; those without our value come last."""
        published = self.published or {}
        rows = []
        for name in dict.fromkeys([*self.ours, *published]):
            number = self.ours.get(name, {"value": None, "error": None})
            error = "" if number["error"] is None else f"± {number['error']:.2g}"
            texts = {
                "name": name,
                "ours": _text(number["value"]),
                "error": error,
                "published": _text(published.get(name)),
            }
            rows.append(texts)
        return rows


@dataclass(frozen=True)
class Gallery(Result):
    """Finished reproductions, and the folder with their files."""

    folder: str
    reproductions: tuple[Shown, ...]

    @property
    def failed(self) -> tuple[str, ...]:
        """Ids of the reproductions that failed."""
        return tuple(shown.id for shown in self.reproductions if shown.status == "failed")

    def results(self) -> list[dict[str, Any]]:
        """Return ``[{"id", "status", "why", "ours", "published", "seconds"}]``."""
        return [{name: plain(getattr(shown, name)) for name in _RESULT} for shown in self.reproductions]

    def table(self) -> list[dict[str, Any]]:
        """Return one row per reproduction: its first number, the count of its numbers, and its status."""
        rows = []
        for shown in self.reproductions:
            numbers = shown.numbers()
            both = (number for number in numbers if "–" not in (number["ours"], number["published"]))
            compared = next(both, numbers[0] if numbers else None)
            ours = "–" if compared is None else f"{compared['name']}: {compared['ours']} {compared['error']}".strip()
            published = "–" if compared is None else compared["published"]
            row = {"reproduction": shown.id, "status": shown.status, "ours": ours, "published": published}
            rows.append(row | {"numbers": len(shown.ours), "seconds": round(shown.seconds, 1)})
        return rows

    def _html(self) -> str:
        """Return the page: contents, every reproduction with its figure, and what is not reproduced."""
        counts: dict[str, int] = {}
        for shown in self.reproductions:
            counts[shown.status] = counts.get(shown.status, 0) + 1
        return render_part(
            "page.html",
            body="gallery.html",
            title="Reproductions",
            reproductions=self.reproductions,
            most_rows=_MOST_ROWS,
            counts=counts,
            sources=_by_source(self.reproductions),
            left_out=left_out(),
            versions=versions(),
            seconds=sum(shown.seconds for shown in self.reproductions),
        )


def reproduce(
    ids: Sequence[str] | None = None,
    *,
    out: str | os.PathLike[str] = "gallery",
    scale: Scale = "small",
    again: bool = False,
    workers: int = 1,
    progress: Callable[[str], None] | None = None,
) -> Gallery:
    """Run reproductions and write ``index.html``, ``results.json``, and a figure and a JSON file for each.

    Parameters
    ----------
    ids
        Names of reproductions, or statements such as ``"cnn theorem 3"``; None for all.
    out
        Output folder. Reproductions that it already has for the same scale and code are not run again.
    scale
        ``small`` takes seconds on bundled data; ``full`` has the published sizes, and some need ``INITSCOPE_DATA``.
    again
        Run also reproductions that the folder already has.
    workers
        Number of processes, which share the threads of torch. A process that dies is replaced, and its reproduction is
        tried again.
    progress
        Called with a line of text before and after each reproduction.

    A reproduction that raises does not stop the others: it is shown as failed, with its error, and tried again at the
    next call.
    """
    if scale not in get_args(Scale):
        raise InputError(f"scale = {scale!r} must be 'small' or 'full'")
    named = [id for name in ids or () for id in matching(name)]
    chosen = list(all_reproductions().values()) if ids is None else [get(id) for id in dict.fromkeys(named)]
    if not chosen:
        raise InputError("ids is empty; name at least one reproduction, or pass None for all")
    workers = check_count("workers", workers, most=4096)
    folder, say = Path(out), progress or (lambda text: None)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"out = {folder} is a file; it must be a folder")
    kept = {} if again else {entry.id: old for entry in chosen if (old := _kept(folder, entry, scale)) is not None}
    new = _ran([declared for declared in chosen if declared.id not in kept], folder, scale, workers, say)
    for id, old in kept.items():
        say(f"{id}: {old.status} (from an earlier run)")
    done = kept | new
    none_is_no_result(done)
    shown = [done[declared.id] for declared in chosen if declared.id in done]
    gallery = Gallery(str(folder), tuple(shown))
    write_text(folder / "results.json", json.dumps(gallery.results(), indent=2, ensure_ascii=False) + "\n")
    gallery.to_html(folder / "index.html")
    return gallery


def _ran(
    chosen: Sequence[Declared], folder: Path, scale: Scale, workers: int, say: Callable[[str], None]
) -> dict[str, Shown]:
    """Run reproductions in this process or in workers; each is written when it is done."""
    jobs = [(entry.id, {"id": entry.id, "scale": scale, "folder": str(folder), "share": workers}) for entry in chosen]
    outcomes: Iterable[Outcome]
    if workers == 1:
        outcomes = (Outcome(name, _written(job)) for name, job in _announced(jobs, say))
    else:
        outcomes = in_processes(_written, jobs, workers)
    by_id: dict[str, Shown] = {}
    with kept_if_interrupted():
        for number, (id, rows, error) in enumerate(steps(outcomes, "running reproductions", len(jobs)), 1):
            shown = rows[0]["shown"] if rows else _failed(get(id), scale, error, 0.0)
            reason = f": {shown.why}" if shown.status in ("failed", "differs", "not confirmed") else ""
            say(f"{number}/{len(jobs)} {id}: {shown.status} ({shown.seconds:.1f} s){reason}")
            by_id[id] = shown
    return by_id


def _announced(jobs: Sequence[tuple[str, Any]], say: Callable[[str], None]) -> Iterator[tuple[str, Any]]:
    for number, (name, job) in enumerate(jobs, 1):
        say(f"{number}/{len(jobs)} {name} …")
        yield name, job


def _written(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Run the reproduction that ``job`` names, write it, and return it as the only row."""
    import torch

    if job["share"] > 1:
        torch.set_num_threads(max(1, torch.get_num_threads() // job["share"]))
    shown = _run(get(job["id"]), job["scale"])
    _write(Path(job["folder"]), shown)
    return [{"shown": shown}]


def left_out() -> list[dict[str, str]]:
    """Return figures and statements without a reproduction, ``{"source", "what", "why"}``, from ``left_out.toml``."""
    text = files("initscope.reproductions").joinpath("left_out.toml").read_text(encoding="utf-8")
    return list(tomllib.loads(text)["figure"])


def _how(declared: Declared, scale: Scale) -> dict[str, Any]:
    """Return the seed, the command and the key of a reproduction."""
    options = declared.small if scale == "small" else declared.full
    return {
        "seed": options.get("seed", _default_seed(declared)),
        "command": f"initscope reproduce {declared.id} --scale {scale}",
        "key": _key(declared, scale),
    }


def _failed(declared: Declared, scale: Scale, why: str, seconds: float) -> Shown:
    failed = Reproduction(**declared.describe(), scale=scale, status="failed", why=why, ours={}, seconds=seconds)
    return Shown(**failed.to_dict(), rows=[], **_how(declared, scale))


def _run(declared: Declared, scale: Scale) -> Shown:
    begun = time.perf_counter()
    try:
        reproduction = declared.run(scale=scale)
        figure = reproduction.figure()
        figure_svg = "" if figure is None else _drawn(figure, declared.id)
        return Shown(**reproduction.to_dict(), rows=plain(reproduction.rows), svg=figure_svg, **_how(declared, scale))
    except Exception as error:
        why = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return _failed(declared, scale, why, time.perf_counter() - begun)


_LABEL = 36
"""Maximum number of characters per line of the label of a vertical axis."""


def _drawn(figure: Figure, id: str) -> str:
    """Return SVG for light and dark pages, with transparent legends; a single panel fits the width of a phone."""
    width, height = figure.get_size_inches()
    if len(figure.axes) == 1 and width > _PANEL:
        figure.set_size_inches(_PANEL, height * _PANEL / width)
    for ax in figure.axes:
        if "$" not in ax.get_ylabel():
            ax.set_ylabel(textwrap.fill(ax.get_ylabel(), _LABEL))
        legend = ax.get_legend()
        if legend is not None:
            legend.get_frame().set(facecolor="none", edgecolor="none")
    return inline_svg(figure.axes[0], id)


def _default_seed(declared: Declared) -> int | None:
    """Return the default seed of a reproduction; None if it has no seed."""
    seed = inspect.signature(declared.produce).parameters.get("seed")
    return seed.default if seed is not None and isinstance(seed.default, int) else None


def _key(declared: Declared, scale: Scale) -> str:
    """Return the key of a reproduction; it runs again if initscope, numpy, scipy or torch have changed."""
    options = declared.small if scale == "small" else declared.full
    return f"{scale}, {options!r}, {code_digest()}"


def _write(folder: Path, shown: Shown) -> None:
    """Write the figure, then the JSON file, whose existence means that both are complete."""
    if shown.svg:
        write_text(folder / f"{shown.id}.svg", _standing_alone(shown.svg))
    entry = shown.to_dict() | {"svg": f"{shown.id}.svg" if shown.svg else ""}
    write_text(folder / f"{shown.id}.json", json.dumps(entry, indent=2, ensure_ascii=False) + "\n")


_NAMESPACES = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'


def _standing_alone(figure_svg: str) -> str:
    """Return the figure as a standalone SVG file, with the namespaces and colors that the page would provide."""
    opening = f'<svg {_NAMESPACES} style="background: white" font-family="sans-serif" '
    return fixed_colors(figure_svg).replace("<svg ", opening, 1)


def _kept(folder: Path, declared: Declared, scale: Scale) -> Shown | None:
    """Return this reproduction from an earlier run, or None if it failed, is damaged or has another key."""
    try:
        entry = json.loads((folder / f"{declared.id}.json").read_text(encoding="utf-8"))
        if entry["svg"]:
            figure_svg = (folder / f"{declared.id}.svg").read_text(encoding="utf-8")
            entry["svg"] = page_colors(re.sub(r"<svg xmlns.*? viewBox", "<svg viewBox", figure_svg, count=1))
        shown = Shown(**entry)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return shown if shown.status != "failed" and shown.key == _key(declared, scale) else None


def _by_source(reproductions: Sequence[Shown]) -> dict[str, list[Shown]]:
    """Return reproductions by their source document (authors)."""
    by_source: dict[str, list[Shown]] = {}
    for shown in reproductions:
        by_source.setdefault(shown.source.partition(" 20")[0], []).append(shown)
    return by_source


def _cell(value: Any) -> str:
    return f"{len(value)} values" if isinstance(value, (list, dict)) else format_number(value)


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
