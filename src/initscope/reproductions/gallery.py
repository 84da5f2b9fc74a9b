"""Run reproductions one after another and show them on one page: `reproduce`.

Each reproduction has a JSON file and a picture of its own in the folder, written when it is done, so that a run that
was stopped goes on where it stopped. ``results.json`` and ``index.html`` gather them. Read `reproduce` first.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import textwrap
import time
import tomllib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from initscope._utils.files import write_text
from initscope._utils.progress import kept_if_interrupted, none_is_no_result, steps
from initscope.distributed.local import Outcome, in_processes
from initscope.errors import InputError, check_count
from initscope.rendering.figures import GRAY, MEASURED, PREDICTED, THIRD
from initscope.rendering.page import render_part, versions
from initscope.rendering.svg import inline_svg
from initscope.reproductions.protocol import Declared, Reproduction, Scale
from initscope.reproductions.registry import all_reproductions, get, matching
from initscope.results import Result, format_number, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Gallery", "Shown", "left_out", "reproduce"]

_RESULT = ("id", "status", "ours", "published", "seconds")
"""What ``results.json`` holds of each reproduction."""
_MOST_ROWS = 24
"""Rows of a reproduction's table that the page shows; its JSON file has all."""
_PANEL = 5.0
"""Inches of a picture of one panel: on a phone it then fits the page, with text of about 10 pixels."""
_POINTS = 72  # of an inch, in which SVG counts
_WIDE = 1.7
"""Width over height from which a picture takes the whole width of the page."""


@dataclass(frozen=True)
class Shown(Result):
    """One reproduction of a gallery: what `Reproduction.to_dict` tells, its table, how it was run, and its picture.

    ``key`` says what the numbers depend on: the same key, the same numbers.
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
    picture: str = field(default="", repr=False)
    """SVG text; a file of its own in the folder."""

    @property
    def wide(self) -> bool:
        """Whether the picture is of several panels."""
        width, height = self._size()
        return width > _WIDE * height and width > 1.2 * _POINTS * _PANEL

    @property
    def least_width(self) -> int:
        """Pixels below which the picture scrolls rather than shrink: its text, of 10 points, keeps 8.5 pixels."""
        return round(0.85 * self._size()[0])

    def _size(self) -> tuple[float, float]:
        box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', self.picture)
        return (1.0, 1.0) if box is None else (float(box[1]), float(box[2]))

    def cells(self) -> list[list[str]]:
        """The first rows of the table as texts; an array or a list in a cell only by its length."""
        return [[_cell(value) for value in row.values()] for row in self.rows[:_MOST_ROWS]]

    def numbers(self) -> list[dict[str, str]]:
        """Our numbers with their errors and the published ones, as texts; those that we have not come last."""
        told = self.published or {}
        found = []
        for name in dict.fromkeys([*self.ours, *told]):
            number = self.ours.get(name, {"value": None, "error": None})
            error = "" if number["error"] is None else f"± {number['error']:.2g}"
            texts = {"name": name, "ours": _text(number["value"]), "error": error, "published": _text(told.get(name))}
            found.append(texts)
        return found


@dataclass(frozen=True)
class Gallery(Result):
    """Reproductions that were run, and the folder they were written to."""

    folder: str
    reproductions: tuple[Shown, ...]

    @property
    def failed(self) -> tuple[str, ...]:
        """Ids of those that could not be run."""
        return tuple(shown.id for shown in self.reproductions if shown.status == "failed")

    def results(self) -> list[dict[str, Any]]:
        """``[{"id", "status", "ours", "published", "seconds"}]``."""
        return [{name: plain(getattr(shown, name)) for name in _RESULT} for shown in self.reproductions]

    def table(self) -> list[dict[str, Any]]:
        """One row per reproduction: its first number, how many it has, and whether they agree."""
        rows = []
        for shown in self.reproductions:
            numbers = shown.numbers()
            both = (number for number in numbers if "–" not in (number["ours"], number["published"]))
            compared = next(both, numbers[0] if numbers else None)
            told = "–" if compared is None else f"{compared['name']}: {compared['ours']} {compared['error']}".strip()
            published = "–" if compared is None else compared["published"]
            row = {"reproduction": shown.id, "status": shown.status, "ours": told, "published": published}
            rows.append(row | {"numbers": len(shown.ours), "seconds": round(shown.seconds, 1)})
        return rows

    def _html(self) -> str:
        """The page: contents, every reproduction with its picture, and what cannot be reproduced."""
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
    """Run reproductions and write ``index.html``, ``results.json``, and for each a picture and a JSON file.

    Parameters
    ----------
    ids
        Names of reproductions, or statements such as ``"cnn theorem 3"`` for those that show it; None for all of them.
    out
        Folder to write to. What is there of the same reproduction, size and version is not run again.
    scale
        ``small`` in seconds on bundled data, ``full`` at the published sizes; some then need ``INITSCOPE_DATA``.
    again
        Run also what is there already.
    workers
        Processes that run reproductions, by the engine of sweeps: one that dies is replaced, and its reproduction tried
        again. Of torch's threads each has its share.
    progress
        Called with a line of text before and after each reproduction.

    A reproduction that raises does not stop the others: it is shown as failed, with its error, and tried again next
    time.
    """
    if scale not in get_args(Scale):
        raise InputError(f"scale = {scale!r} must be 'small' or 'full'")
    named = [id for name in ids or () for id in matching(name)]
    chosen = list(all_reproductions().values()) if ids is None else [get(id) for id in dict.fromkeys(named)]
    if not chosen:
        raise InputError("no reproduction is named; name some, or None for all")
    workers = check_count("workers", workers, most=4096)
    folder, say = Path(out), progress or (lambda text: None)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"out = {folder} is a file; give the name of a folder")
    kept = {} if again else {one.id: found for one in chosen if (found := _kept(folder, one, scale)) is not None}
    new = _ran([declared for declared in chosen if declared.id not in kept], folder, scale, workers, say)
    for id, found in kept.items():
        say(f"{id}: {found.status} (there already)")
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
    """Reproductions run here, or by processes; each is written when it is done."""
    jobs = [(one.id, {"id": one.id, "scale": scale, "folder": str(folder), "share": workers}) for one in chosen]
    outcomes: Iterable[Outcome]
    if workers == 1:
        outcomes = (Outcome(name, _written(job)) for name, job in _told(jobs, say))
    else:
        outcomes = in_processes(_written, jobs, workers)
    found: dict[str, Shown] = {}
    with kept_if_interrupted():
        for number, (id, rows, error) in enumerate(steps(outcomes, "running reproductions", len(jobs)), 1):
            shown = rows[0]["shown"] if rows else _failed(get(id), scale, error, 0.0)
            reason = f": {shown.why}" if shown.status in ("failed", "differs") else ""
            say(f"{number}/{len(jobs)} {id}: {shown.status} ({shown.seconds:.1f} s){reason}")
            found[id] = shown
    return found


def _told(jobs: Sequence[tuple[str, Any]], say: Callable[[str], None]) -> Iterator[tuple[str, Any]]:
    for number, (name, job) in enumerate(jobs, 1):
        say(f"{number}/{len(jobs)} {name} …")
        yield name, job


def _written(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Run the reproduction that ``job`` names and write it; what is shown comes back as the only row."""
    import torch

    if job["share"] > 1:
        torch.set_num_threads(max(1, torch.get_num_threads() // job["share"]))
    shown = _run(get(job["id"]), job["scale"])
    _write(Path(job["folder"]), shown)
    return [{"shown": shown}]


def left_out() -> list[dict[str, str]]:
    """Figures and statements without a reproduction: ``{"source", "what", "why"}``, from ``left_out.toml``."""
    text = files("initscope.reproductions").joinpath("left_out.toml").read_text(encoding="utf-8")
    return list(tomllib.loads(text)["figure"])


def _how(declared: Declared, scale: Scale) -> dict[str, Any]:
    """How a reproduction is run, for those who want to do it again."""
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
        picture = "" if figure is None else _drawn(figure, declared.id)
        return Shown(**reproduction.to_dict(), rows=plain(reproduction.rows), picture=picture, **_how(declared, scale))
    except Exception as error:
        why = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return _failed(declared, scale, why, time.perf_counter() - begun)


_LABEL = 36
"""Characters of a line beside an axis: as many as it is high."""


def _drawn(figure: Figure, id: str) -> str:
    """SVG that stands on light and dark, a legend's frame without white ground; one panel as wide as a phone."""
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
    """The seed that a reproduction uses unless told otherwise; None where it takes none."""
    seed = inspect.signature(declared.produce).parameters.get("seed")
    return seed.default if seed is not None and isinstance(seed.default, int) else None


def _key(declared: Declared, scale: Scale) -> str:
    """What the numbers depend on, with a sum of the reproduction's file: one that was edited is run again."""
    options = declared.small if scale == "small" else declared.full
    file = zlib.crc32(Path(inspect.getfile(declared.produce)).read_bytes())
    return f"initscope {version('initscope')}, {scale}, {options!r}, {file:08x}"


def _write(folder: Path, shown: Shown) -> None:
    """The picture first: a JSON file says that both are there."""
    if shown.picture:
        write_text(folder / f"{shown.id}.svg", _standing_alone(shown.picture))
    told = shown.to_dict() | {"picture": f"{shown.id}.svg" if shown.picture else ""}
    write_text(folder / f"{shown.id}.json", json.dumps(told, indent=2, ensure_ascii=False) + "\n")


_NAMESPACES = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'


def _standing_alone(picture: str) -> str:
    """The picture as a file: with the names and the colours that the page around it would give."""
    colours = {"predicted": PREDICTED, "measured": MEASURED, "third": THIRD, "faint": GRAY}
    style = "".join(f"--{name}: {colour}; " for name, colour in colours.items())
    return picture.replace("<svg ", f'<svg {_NAMESPACES} style="{style}background: white" font-family="sans-serif" ', 1)


def _kept(folder: Path, declared: Declared, scale: Scale) -> Shown | None:
    """Return what an earlier run left of it, unless it failed, is damaged or has another size or version."""
    try:
        told = json.loads((folder / f"{declared.id}.json").read_text(encoding="utf-8"))
        if told["picture"]:
            picture = (folder / told["picture"]).read_text(encoding="utf-8")
            told["picture"] = re.sub(r"<svg xmlns.*? viewBox", "<svg viewBox", picture, count=1)
        shown = Shown(**told)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return shown if shown.status != "failed" and shown.key == _key(declared, scale) else None


def _by_source(reproductions: Sequence[Shown]) -> dict[str, list[Shown]]:
    """Reproductions by the document they come from: what stands before the first comma of its source."""
    found: dict[str, list[Shown]] = {}
    for shown in reproductions:
        found.setdefault(shown.source.partition(" 20")[0], []).append(shown)
    return found


def _cell(value: Any) -> str:
    return f"{len(value)} values" if isinstance(value, (list, dict)) else format_number(value)


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
