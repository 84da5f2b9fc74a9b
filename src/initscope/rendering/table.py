"""Tables for the terminal that fit its width, and the table of a `Comparison` with predicted and measured columns."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from initscope.geometry import ROUNDING, named
from initscope.rendering.folding import few_lines, folded_table, folding_summary
from initscope.rendering.quantities import angles, sizes
from initscope.results import format_number, printable

if TYPE_CHECKING:
    from rich.table import Table

    from initscope.geometry import Comparison

__all__ = [
    "MOST_LINES",
    "OF_TOKENS",
    "WORDS",
    "note_lines",
    "rich_table",
    "side_by_side",
    "table_lines",
    "table_width",
    "terminal_table",
    "with_error",
    "wrapped",
]

MOST_LINES = 25
"""Lines that a result takes on a terminal, unless details are requested."""
_MOST_NOTES = 2
"""Notes below a table that is folded to a screen."""

Texts = list[dict[str, str]]
_Reduction = Callable[[Texts, list[str]], tuple[Texts, list[str]]]
_SHORT = 6
"""Tables with at most this number of rows may use two lines for each row."""
_LONG = 30
"""Texts with more characters than this go below the table instead of being left out."""
_DETAILS = ("kind", "status", "±")
"""Details that are left out before any text is wrapped."""
_QUANTITIES = {"angle": ("angle °", 1), "rms_ratio": ("RMS ratio", 3)}
OF_TOKENS = {"token_cosine": "token cosine", "attention_entropy": "entropy"}
"""Titles of quantities that only models with attention have."""
WORDS = {
    "angle °": "between pairs of inputs",
    "RMS ratio": "RMS of the units / RMS of the input",
    "token cosine": "between the tokens of a sample",
    "entropy": "of attention; 1 means uniform over all tokens",
    "gradient": "norm for the weights of a layer / norm for the last layer",
    "dead": "fraction of units that are zero for all samples",
    "saturated": "fraction of values at an end of the range of the activation",
    "rank": "number of directions in which samples differ",
}
"""Short definitions of the columns of a table of layers."""
_ERROR = re.compile(r" ±\S+")
_NUMBER = re.compile(rf"–|[-<]?(\d[\d.,]*(e[-+]?\d+)?|inf|nan)%?({_ERROR.pattern})?")


def with_error(value: float | None, error: float | None, digits: int, least: float = 0.0) -> str:
    """Return ``value ± error`` with the same number of decimals; a dash without a value, no error if it is unknown.

    Errors have at most two significant digits, values four, and small values two. Values below ``least`` are shown as
    ``<least``. An error that rounds to zero is left out.

    >>> with_error(0.83517, 0.0156, 3), with_error(12.0, None, 1), with_error(None, None, 1)
    ('0.835 ±0.016', '12.0', '–')
    >>> with_error(1047.99, 26.92, 2), with_error(1.679, 0.265, 3), with_error(10483.2, None, 3)
    ('1048 ±27', '1.68 ±0.27', '10483')
    >>> with_error(0.0948, None, 1), with_error(0.1, 0.004, 1), with_error(2.36e-6, 1e-8, 1, least=1e-5)
    ('0.095', '0.100 ±0.004', '<1e-05')
    >>> with_error(0.000141, 3e-6, 3), with_error(0.00073, 5e-5, 3)
    ('0.00014', '0.00073 ±0.00005')
    """
    if value is None or math.isnan(value):
        return "–"
    if error is not None and not math.isfinite(error):
        error = None
    size = abs(value)
    if 0 < size < least:
        return f"<{least:g}"
    if size >= 1e5 or 0 < size < 1e-4:
        return f"{value:.{2 if size >= 1e5 else 1}e}" + (f" ±{error:.1g}" if error else "")
    if 0 < size < 10.0 ** (1 - digits):
        decimals = 1 - _exponent(size)
        if error and size >= 1e-2:  # more digits of smaller values would make the column wide
            decimals = max(decimals, min(-_exponent(error), decimals + 1))
    else:
        decimals = min(digits, 3 - _exponent(size) if size else digits, 1 - _exponent(error) if error else digits)
    decimals = max(0, decimals)
    spread = "" if error is None else f"{error:.{decimals}f}"
    return f"{value:.{decimals}f}" + (f" ±{spread}" if spread.strip("0.") else "")


def _exponent(number: float) -> int:
    """Return the power of ten of the first digit."""
    return math.floor(math.log10(number))


def side_by_side(comparison: Comparison, depth: int | None = 0, most: int | None = None) -> list[dict[str, str]]:
    """Return one dict of short texts per line: layer, predicted and measured columns, status, note.

    ``depth`` folds the rows to module paths of this length. 0 shows every row; None shows blocks, and few of them
    (`few_lines`), at most about ``most``. Columns of a missing side and an empty note column are left out.
    """
    sides = [side for side in ("predicted", "measured") if getattr(comparison, _ATTRIBUTE[side]) is not None]
    rows = [_texts(row, sides) for row in _folded(comparison, depth, most)]
    if depth == 0:  # every op, by the name of its module
        rows = [texts | {"layer": named(row.layer, row.kind)} for texts, row in zip(rows, comparison.rows, strict=True)]
    empty = {"note"} if not any(row["note"] for row in rows) else set()
    if sum(row.get("gradient predicted", "–") != "–" for row in rows) < 2:  # the value of the last layer is always 1
        empty.add("gradient predicted")
    return [{name: text for name, text in row.items() if name not in empty} for row in rows]


def _folded(comparison: Comparison, depth: int | None, most: int | None) -> list[dict[str, Any]]:
    """Return the folded table with the errors of angles and RMS ratios; measured errors only over draws."""
    measured, table = comparison.measurement, comparison.table()
    drawn = measured is not None and measured.draws > 0
    for name, quantity in (("angle", angles(comparison)), ("rms_ratio", sizes(comparison))):
        errors = {"se": quantity.error if drawn else None, "sd_predicted": quantity.spread}
        for index, row in enumerate(table[1:], 1):
            row |= {f"{name}_{kind}": None if of is None else float(of[index]) for kind, of in errors.items()}
    return folded_table(comparison.rows, table, few_lines(comparison.rows, depth, most=most))


_ATTRIBUTE = {"predicted": "prediction", "measured": "measurement"}


def _texts(row: dict[str, Any], sides: list[str]) -> dict[str, str]:
    texts = {"layer": row["title"]}
    for name, (title, digits) in _QUANTITIES.items():
        for side in sides:
            error = row.get(f"{name}_se" if side == "measured" else f"{name}_sd_predicted")
            least = ROUNDING if name == "angle" and side == "measured" else 0.0
            texts[f"{title} {side}"] = with_error(row[f"{name}_{side}"], error, digits, least)
    for name, title in OF_TOKENS.items():
        for side in sides:
            if f"{name}_{side}" in row:
                texts[f"{title} {side}"] = with_error(row[f"{name}_{side}"], None, 3)
    if "gradient_over_last_predicted" in row:
        texts["gradient predicted"] = with_error(row["gradient_over_last_predicted"], None, 3)
    return texts | {"status": row["status"], "note": row["note"]}


def terminal_table(
    comparison: Comparison,
    *,
    title: str = "",
    width: int | None = None,
    depth: int | None = None,
    most: int | None = None,
    how_to_see_all: str = "--depth 0 prints them all",
) -> Table:
    """Return `side_by_side` as a `rich_table`, with the number of folded rows, the notes and the definitions below.

    With ``most`` there are about that many rows and only the first notes.
    """
    rows = [
        {name: text for name, text in row.items() if name != "note"} for row in side_by_side(comparison, depth, most)
    ]
    folded = folding_summary(_folded(comparison, depth, most), how_to_see_all)
    notes = note_lines({row.title: row.note for row in comparison.rows})
    if most is not None and len(notes) > _MOST_NOTES + 1:
        more = f"{len(notes) - _MOST_NOTES} more notes; {how_to_see_all}"
        notes = [*notes[:_MOST_NOTES], more]
    below = [*[folded] * bool(folded), *notes]
    measured, words = comparison.measurement, dict(WORDS)
    if any("±" in text for row in rows for name, text in row.items() if name.endswith(" predicted")):
        words["± pred."] = "spread of one draw of the weights"
    if measured is not None and measured.draws > 1:
        words["± measured"] = f"standard error over {measured.draws} draws of the weights"
    keep = ("angle ° measured",)
    return rich_table(rows, title=title, below=below, width=width, keep=keep, words=words)


_PRECISION = re.compile(r"(, )?(\d+ heads drawn(, )?)?(cosine ± [\d.e+-]+)?(?=;|$)")
"""The precision of a prediction in a note, which the terminal omits; the page and other formats keep it."""


def note_lines(notes: Mapping[str, str]) -> list[str]:
    """Return a line for each distinct note, with the layers that have it, which are the keys of ``notes``."""
    layers: dict[str, list[str]] = {}
    for layer, note in notes.items():
        layers.setdefault(_PRECISION.sub("", note).strip(";, "), []).append(layer)
    return [f"{_few(names)}: {note}" for note, names in layers.items() if note]


def _few(names: Sequence[str]) -> str:
    """Return the first three names and the number of the others."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def rich_table(
    rows: Sequence[Mapping[str, Any]],
    *,
    title: str = "",
    below: Sequence[str] = (),
    width: int | None = None,
    keep: Sequence[str] = (),
    words: Mapping[str, str] | None = None,
) -> Table:
    """Return a rich table of dicts with the same keys; numbers are right-aligned.

    Columns without values are left out, and a status that all rows share becomes a line below the table. A table that
    is wider than ``width`` is reduced until it fits:

    - kinds, statuses and errors are left out, in this order;
    - texts of a few rows wrap to two lines;
    - other columns are left out from the right, predictions of measured quantities first. The first two columns and
      those in ``keep`` stay, and long texts of a few rows move below the table.

    A single row is shown vertically. Texts that are still too long are cut to two lines. Lines below the table list
    what was left out, and define the shown columns and errors (“±”) by ``words``.
    """
    texts = _without_empty([{name: format_number(cell) for name, cell in row.items()} for row in rows])
    lines = list(below)
    if len(texts) > 1 and len({row.get("status") for row in texts}) == 1:
        texts, lines = _without_status(texts, lines)
    if width is None or _fits(texts, width):
        return _drawn(texts, title, [*_legend(texts, words), *lines])
    if len(texts) == 1:
        lines = [*_legend(texts, words), *lines]
        texts = [{"quantity": name.replace("_", " "), "value": text} for name, text in texts[0].items()]
        return _drawn(_two_lines(texts, width), title, lines)
    left_out, lines_before = list[str](), len(lines)
    for name, reduced in _reductions(texts, keep):
        fewer, lines = reduced(texts, lines)
        moved_below = len(lines) > lines_before and name != "±"
        left_out += [name] * (fewer != texts and not moved_below)
        texts, lines_before = fewer, len(lines)
        if _fits(texts, width) or (name not in _DETAILS and _folds(texts, width)):
            break
    notice = [f"left out to fit {width} columns: {', '.join(left_out)}; --format json has all"] * bool(left_out)
    texts = texts if _fits(texts, width) else _two_lines(texts, width)
    return _drawn(texts, title, [*_legend(texts, words), *lines, *notice])


def _without_empty(rows: Texts) -> Texts:
    """Return the rows without empty columns; a single row is unchanged."""
    empty = {name for name in (rows[0] if len(rows) > 1 else ()) if all(row[name] in ("", "–") for row in rows)}
    return [{name: text for name, text in row.items() if name not in empty} for row in rows]


def _legend(rows: Texts, words: Mapping[str, str] | None) -> list[str]:
    """Return one line with the definitions in ``words`` of the shown columns, and of errors if there are any."""
    names = [name.replace("_", " ") for name in (rows[0] if rows else ())]
    shown = {name.removesuffix(" predicted").removesuffix(" measured") for name in names}
    shown |= {word for name in names for word in name.split()}
    errors = "se" in shown or any("±" in text for row in rows for text in row.values())
    entries = [f"{of}: {is_}" for of, is_ in (words or {}).items() if of in shown or (errors and of.startswith("±"))]
    return ["; ".join(entries)] if entries else []


def _fits(rows: Texts, width: int) -> bool:
    """Return whether the table is at most ``width`` wide."""
    return table_width(_drawn(rows, "", ())) <= width


def _folds(rows: Texts, width: int) -> bool:
    """Return whether the rows fit in two lines each without cuts, and few rows need two lines."""
    folded = _two_lines(rows, width)
    cut = any(new[name].count("…") > old[name].count("…") for new, old in zip(folded, rows) for name in old)
    two = sum(any("\n" in text for text in row.values()) for row in folded)
    return _fits(folded, width) and not cut and two <= max(_SHORT, len(rows) / 3)


def _reductions(rows: Texts, keep: Sequence[str]) -> list[tuple[str, _Reduction]]:
    """Return the possible reductions, the least important detail first; “” lets texts wrap before columns go."""
    names = [name for name in (rows[0] if rows else ()) if name not in ("kind", "status")]
    stays = {*names[:2], *keep}
    columns = [name for name in reversed(names) if name not in stays]
    columns.sort(key=lambda name: f"{name.removesuffix(' predicted')} measured" not in names)
    first = zip(_DETAILS, (_without("kind"), _without_status, _without_errors), strict=True)
    return [*first, ("", _as_it_is), *((name.replace("_", " "), _without(name)) for name in columns)]


def _two_lines(rows: Texts, width: int) -> Texts:
    """Return the rows with texts cut so that the table is ``width`` wide and no cell has more than two lines.

    Columns of numbers keep their width. The other columns share the rest, and short columns take only what they need.
    """
    widest = {name: max(len(row[name]) for row in rows) for name in rows[0]}
    words = [name for name in rows[0] if not all(_NUMBER.fullmatch(row[name]) for row in rows)]
    widest |= {name: max(widest[name], *map(len, _head(name).split("\n"))) for name in widest if name not in words}
    available = width - 2 - sum(widest[name] + 2 for name in widest if name not in words) - 2 * len(words)
    for number, name in enumerate(sorted(words, key=lambda name: widest[name])):
        widest[name] = max(6, min(widest[name], available // (len(words) - number)))
        available -= widest[name]
    return [{name: _cut(text, widest[name]) if name in words else text for name, text in row.items()} for row in rows]


def _cut(text: str, width: int) -> str:
    """Return ``text`` on at most two lines of ``width`` characters; a word that is too long loses its middle.

    >>> _cut("collapse 1/1, gradient-imbalance 1/1, dead-units 1/1", 20)
    'collapse 1/1,\\ngradient-imbalance …'
    >>> _cut("model.layers.11.attention.output.dense", 12)
    'model.layer…\\noutput.dense'
    >>> _cut("gradient-imbalance", 13), _cut("block model_encoder.0", 14)
    ('gradient-\\nimbalance', 'block model_\\nencoder.0')
    >>> _cut("layer 4 (AdaptiveAvgPool2d)", 18)
    'layer 4 (Adaptive…\\nAdaptiveAvgPool2d)'
    """
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    if len(lines) <= 2 and all(len(line) <= width for line in lines):
        return "\n".join(lines)
    ends = [mark.end() for mark in re.finditer(r"[ ._-]", text) if mark.start() + (mark[0] != " ") <= width]
    if ends and len(text) - ends[-1] <= width:
        return f"{text[: ends[-1]].rstrip()}\n{text[ends[-1] :]}"
    if any(len(word) > width for word in text.split()):
        return f"{text[: width - 1]}…\n{text[-width:]}"
    return "\n".join(textwrap.wrap(text, width, break_on_hyphens=False, max_lines=2, placeholder=" …"))


def wrapped(text: str, width: int | None, indent: str = "") -> list[str]:
    """Return a text as lines of at most ``width`` characters, or on one line if that is None."""
    text = printable(text)
    if width is None:
        return [f"{indent}{text}"]
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False) or [""]


def table_lines(table: Table, width: int | None, *, captions: bool = True) -> list[str]:
    """Return the heading and the rows of a table as lines, and below them what stands below it, if wanted."""
    from io import StringIO

    from rich.console import Console
    from rich.text import Text

    caption = table.caption if isinstance(table.caption, str) else ""
    below = Text.from_markup(caption).plain.splitlines() if captions else []
    table.title = table.caption = None
    text = StringIO()
    Console(file=text, width=width or table_width(table), color_system=None, force_terminal=False).print(table)
    lines = [line.rstrip() for line in text.getvalue().splitlines() if line.strip()]
    return [*lines, *(line for sentence in below for line in wrapped(sentence, width))]


def table_width(table: Table) -> int:
    """Return the width in characters at which no row of the table wraps."""
    from rich.console import Console
    from rich.measure import Measurement

    console = Console(width=100_000)
    return Measurement.get(console, console.options, table).maximum


def _without(column: str) -> _Reduction:
    """Return a reduction that leaves a column out, or moves long texts of a few rows below the table."""

    def reduced(rows: Texts, below: list[str]) -> tuple[Texts, list[str]]:
        if len(rows) <= _SHORT and any(len(row.get(column, "")) > _LONG for row in rows):
            below = [*below, *note_lines({next(iter(row.values())): row[column] for row in rows})]
        return [{name: text for name, text in row.items() if name != column} for row in rows], below

    return reduced


def _as_it_is(rows: Texts, below: list[str]) -> tuple[Texts, list[str]]:
    return rows, below


def _without_status(rows: Texts, below: list[str]) -> tuple[Texts, list[str]]:
    """Move the statuses below the table: the most frequent one without layers, the others with their layers."""
    if not rows or "status" not in rows[0]:
        return rows, below
    groups = sorted(_layers_by(rows, "status").items(), key=lambda group: -len(group[1]))
    line = f"status of every {'row' if len(groups) == 1 else 'other row'}: {groups[0][0]}"
    others = [f"{status}: {_few(layers)}" for status, layers in groups[1:]]
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
    """Return the heading of a column; “predicted”, “measured” and “±” go to a second line."""
    name = name.replace("_", " ")
    return re.sub(r" se$", "\n±", name).replace(" predicted", "\npred.").replace(" measured", "\nmeasured")


def _layers_by(rows: Texts, name: str) -> dict[str, list[str]]:
    """Return the layers by their text in the column ``name``, in order."""
    layers: dict[str, list[str]] = {}
    for row in rows:
        layers.setdefault(row.get(name, ""), []).append(row.get("layer", ""))
    return layers
