"""Tables for the terminal, that of a `Comparison` first: predicted and measured side by side, within its width."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from initscope.geometry import tells_kind
from initscope.pages.quantities import angles, sizes
from initscope.results import format_number, printable

if TYPE_CHECKING:
    from rich.table import Table

    from initscope.geometry import Comparison

__all__ = ["OF_TOKENS", "rich_table", "side_by_side", "table_width", "terminal_table", "with_error"]

Texts = list[dict[str, str]]
_Reduction = Callable[[Texts, list[str]], tuple[Texts, list[str]]]
_SHORT = 6
"""Rows of a table that may all take two lines."""
_DETAILS = ("kind", "status", "±")
"""What goes before any text is folded."""
_QUANTITIES = {"cosine": ("cosine", 4), "angle": ("angle °", 1), "rms_ratio": ("size", 3)}
OF_TOKENS = {"token_cosine": "token cosine", "attention_entropy": "entropy"}
"""What only models with attention have, and its title."""
_ERROR = re.compile(r" ±\S+")
_NUMBER = re.compile(rf"–|-?(\d[\d.,]*(e[-+]?\d+)?|inf|nan)%?({_ERROR.pattern})?")


def with_error(value: float | None, error: float | None, digits: int) -> str:
    """``value ± error`` to the same number of decimals; a dash where there is no value, no error where none is known.

    >>> with_error(0.83517, 0.0156, 3), with_error(12.0, None, 1), with_error(None, None, 1)
    ('0.835 ±0.016', '12.0', '–')
    """
    if value is None:
        return "–"
    if abs(value) >= 1e5 or 0 < abs(value) < 10**-digits:
        return f"{value:.2e}" + ("" if error is None else f" ±{error:.1e}")
    return f"{value:.{digits}f}" + ("" if error is None else f" ±{error:.{digits}f}")


def side_by_side(comparison: Comparison) -> list[dict[str, str]]:
    """One dict of short texts per layer: layer, kind, predicted and measured columns, status, note.

    Columns of a side that is missing, and an empty note column, are left out.
    """
    measured = comparison.measurement
    drawn = measured is not None and measured.draws > 0
    errors = {} if not drawn else {"angle": angles(comparison), "rms_ratio": sizes(comparison)}
    sides = [side for side in ("predicted", "measured") if getattr(comparison, _ATTRIBUTE[side]) is not None]
    rows = []
    for index, row in enumerate(comparison.table()):
        for name, quantity in errors.items():
            error = math.nan if quantity.error is None else float(quantity.error[index])
            row[f"{name}_se"] = error if math.isfinite(error) else None
        rows.append(_texts(row, sides, given=index == 0))
    empty = [name for name in ("gradient predicted", "note") if all(row.get(name, "–") in ("", "–") for row in rows)]
    return [{name: text for name, text in row.items() if name not in empty} for row in rows]


_ATTRIBUTE = {"predicted": "prediction", "measured": "measurement"}


def _texts(row: dict[str, Any], sides: list[str], *, given: bool) -> dict[str, str]:
    texts = {"layer": row["layer"], "kind": row["kind"]}
    for name, (title, digits) in _QUANTITIES.items():
        for side in sides:
            error = None if given else row.get(f"{name}_se" if side == "measured" else f"{name}_sd_predicted")
            texts[f"{title} {side}"] = with_error(row[f"{name}_{side}"], error, digits)
    for name, title in OF_TOKENS.items():
        for side in sides:
            if f"{name}_{side}" in row:
                texts[f"{title} {side}"] = with_error(row[f"{name}_{side}"], None, 3)
    if "gradient_ratio_predicted" in row:
        texts["gradient predicted"] = with_error(row["gradient_ratio_predicted"], None, 3)
    return texts | {"status": row["status"], "note": row["note"]}


def terminal_table(comparison: Comparison, *, title: str = "", width: int | None = None) -> Table:
    """`side_by_side` as a `rich_table`; kinds that the names tell already are left out, notes are lines below."""
    rows = side_by_side(comparison)
    below = [f"{', '.join(layers)}: {note}" for note, layers in _layers_by(rows, "note").items() if note]
    dropped = {"note"}
    if all(tells_kind(row["layer"], row["kind"]) for row in rows):
        dropped.add("kind")
    rows = [{name: text for name, text in row.items() if name not in dropped} for row in rows]
    return rich_table(rows, title=title, below=below, width=width)


def rich_table(
    rows: Sequence[Mapping[str, Any]],
    *,
    title: str = "",
    below: Sequence[str] = (),
    width: int | None = None,
    keep: Sequence[str] = (),
) -> Table:
    """A rich table of dicts that share their keys: numbers to the right, one line a row if ``width`` allows.

    One status that all rows share is a line below. Where the table is wider than ``width``, kinds, statuses and errors
    go, in this order, then other columns from the right, but not the first nor those to ``keep``, until it fits; a
    single row stands upright instead. Texts of a few rows may take two lines, and all that are still too long are cut
    to two. Lines below name the statuses and say what else was left out.
    """
    texts = [{name: format_number(cell) for name, cell in row.items()} for row in rows]
    lines = list(below)
    if len({row.get("status") for row in texts}) == 1:
        texts, lines = _without_status(texts, lines)
    table = _drawn(texts, title, lines)
    if width is None or table_width(table) <= width:
        return table
    if len(texts) == 1:
        texts = [{"of": name.replace("_", " "), "value": text} for name, text in texts[0].items()]
        return _drawn(_two_lines(texts, width), title, lines)
    left_out: list[str] = []
    for name, reduced in _reductions(texts, keep):
        fewer, lines = reduced(texts, lines)
        left_out += [name] * (fewer != texts and name != "status")
        texts = fewer
        if _fits(texts, width) or (name not in _DETAILS and _folds(texts, width)):
            break
    said = [f"left out to fit {width} columns: {', '.join(left_out)}; a file has all"] * bool(left_out)
    return _drawn(texts if _fits(texts, width) else _two_lines(texts, width), title, lines + said)


def _fits(rows: Texts, width: int) -> bool:
    """Whether the rows need no more than ``width``."""
    return table_width(_drawn(rows, "", ())) <= width


def _folds(rows: Texts, width: int) -> bool:
    """Whether rows of two lines fit, whole, and are few: two lines each are harder to read than fewer columns."""
    folded = _two_lines(rows, width)
    cut = any(new[name].count("…") > old[name].count("…") for new, old in zip(folded, rows) for name in old)
    two = sum(any("\n" in text for text in row.values()) for row in folded)
    return _fits(folded, width) and not cut and two <= max(_SHORT, len(rows) / 3)


def _reductions(rows: Texts, keep: Sequence[str]) -> list[tuple[str, _Reduction]]:
    """What may go, the least important first; before any column nothing, as texts may fold."""
    stays = {next(iter(rows[0]), ""), *keep} if rows else set()
    columns = [name for name in reversed(rows[0]) if name not in stays | {"kind", "status"}] if rows else []
    first = zip(_DETAILS, (_without("kind"), _without_status, _without_errors), strict=True)
    return [*first, ("", _as_it_is), *((name.replace("_", " "), _without(name)) for name in columns)]


def _two_lines(rows: Texts, width: int) -> Texts:
    """Texts cut so that the table is ``width`` wide and no cell has more than two lines.

    Columns of numbers keep their width; the others share what is left, the short ones taking only what they need.
    """
    widest = {name: max(len(row[name]) for row in rows) for name in rows[0]}
    words = [name for name in rows[0] if not all(_NUMBER.fullmatch(row[name]) for row in rows)]
    widest |= {name: max(widest[name], *map(len, _head(name).split("\n"))) for name in widest if name not in words}
    room = width - 2 - sum(widest[name] + 2 for name in widest if name not in words) - 2 * len(words)
    for place, name in enumerate(sorted(words, key=lambda name: widest[name])):
        widest[name] = max(6, min(widest[name], room // (len(words) - place)))
        room -= widest[name]
    return [{name: _cut(text, widest[name]) if name in words else text for name, text in row.items()} for row in rows]


def _cut(text: str, width: int) -> str:
    """``text`` on at most two lines of ``width``: words are kept whole where they fit, a long name loses its middle.

    >>> _cut("collapse 1/1, gradient-imbalance 1/1, dead-units 1/1", 20)
    'collapse 1/1,\\ngradient-imbalance …'
    >>> _cut("model.layers.11.attention.output.dense", 12)
    'model.layer…\\noutput.dense'
    >>> _cut("gradient-imbalance", 13)
    'gradient-\\nimbalance'
    """
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    if len(lines) <= 2 and all(len(line) <= width for line in lines):
        return "\n".join(lines)
    if " " not in text.strip():
        at = max(text.rfind(mark, 0, width) for mark in ".-") + 1 or width
        whole = len(text) - at <= width
        return f"{text[:at]}\n{text[at:]}" if whole else f"{text[: width - 1]}…\n{text[-width:]}"
    lines = textwrap.wrap(text, width, break_on_hyphens=False, max_lines=2, placeholder=" …")
    return "\n".join(lines)


def table_width(table: Table) -> int:
    """Columns of a terminal that the table needs to have each row on one line."""
    from rich.console import Console
    from rich.measure import Measurement

    console = Console(width=100_000)
    return Measurement.get(console, console.options, table).maximum


def _without(column: str) -> _Reduction:
    """What leaves that column out."""

    def reduced(rows: Texts, below: list[str]) -> tuple[Texts, list[str]]:
        return [{name: text for name, text in row.items() if name != column} for row in rows], below

    return reduced


def _as_it_is(rows: Texts, below: list[str]) -> tuple[Texts, list[str]]:
    return rows, below


def _without_status(rows: Texts, below: list[str]) -> tuple[Texts, list[str]]:
    """The status of most rows is said once, below, the others with their layers: no row loses it."""
    if not rows or "status" not in rows[0]:
        return rows, below
    groups = sorted(_layers_by(rows, "status").items(), key=lambda group: -len(group[1]))
    line = f"status of every {'row' if len(groups) == 1 else 'other row'}: {groups[0][0]}"
    others = [f"{status}: {', '.join(layers)}" for status, layers in groups[1:]]
    return [{name: text for name, text in row.items() if name != "status"} for row in rows], [*others, line, *below]


def _without_errors(rows: Texts, below: list[str]) -> tuple[Texts, list[str]]:
    return [{name: _ERROR.sub("", text) for name, text in row.items()} for row in rows], below


def _drawn(rows: Texts, title: str, below: Sequence[str]) -> Table:
    from rich import box, markup
    from rich.table import Table

    def escape(text: str) -> str:
        return markup.escape(printable(text))

    table = Table(
        title=escape(title) or None,
        title_justify="left",
        caption=escape("\n".join(below)) or None,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1),
        collapse_padding=True,
        pad_edge=False,
    )
    for name in rows[0] if rows else ():
        numeric = name != "layer" and all(_NUMBER.fullmatch(row[name]) for row in rows)
        justify: Any = "right" if numeric else "left"
        table.add_column(escape(_head(name)), justify=justify, no_wrap=numeric, overflow="fold")
    for row in rows:
        table.add_row(*(escape(text) for text in row.values()))
    return table


def _head(name: str) -> str:
    return name.replace("_", " ").replace(" predicted", "\npred.").replace(" measured", "\nmeasured")


def _layers_by(rows: Texts, name: str) -> dict[str, list[str]]:
    """The layers of each text of that column, in order."""
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row.get(name, ""), []).append(row.get("layer", ""))
    return found
