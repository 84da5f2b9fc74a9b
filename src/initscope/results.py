"""`Result`: the base of every frozen result dataclass, so that all of them show, export and plot alike.

A subclass is a ``@dataclass(frozen=True)``; what is tabular overrides `Result.table`, what has a picture `Result.plot`.
"""

from __future__ import annotations

import dataclasses
import functools
import html
import importlib
import math
import os
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from initscope._utils.files import write_text
from initscope._utils.libraries import library
from initscope.errors import InputError

if TYPE_CHECKING:
    import pandas
    import pyarrow
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "Result",
    "counted",
    "drawing_room",
    "drawn_by",
    "format_number",
    "html_table",
    "label_text",
    "make_axes",
    "panels",
    "plain",
    "printable",
    "rows_of_columns",
]


def plain(value: Any) -> Any:
    """Turn arrays, tensors, fractions and nested results into what JSON can hold (NaN and infinities become None)."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if value is None or isinstance(value, (str, bool, int)):
        return value
    return str(value)


def counted(count: int, noun: str) -> str:
    """A number and its noun, in the plural unless there is one.

    >>> counted(1, "image"), counted(2, "image")
    ('1 image', '2 images')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def format_number(value: Any, digits: int = 4) -> str:
    """Short text of a table cell: floats to ``digits`` significant digits, None as a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    return f"{value + 0.0:.{digits}g}"  # no -0


_NOT_PLAIN = re.compile(r"[^\n\t\x20-\x7e]")


def printable(text: str) -> str:
    r"""``text`` with its control characters spelled out: names and messages of others never steer a terminal.

    Newlines and tabs stay. Marks that turn the direction of writing, and halves of characters, are spelled out too.

    >>> printable("conv\x1b[2J1\u202e")
    'conv\\x1b[2J1\\u202e'
    """
    return _NOT_PLAIN.sub(lambda match: _spelled(match[0]), text)


@functools.lru_cache(maxsize=1024)
def _spelled(character: str) -> str:
    if unicodedata.category(character) not in ("Cc", "Cf", "Cs"):
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def label_text(name: str) -> str:
    r"""A name as a label of a picture: matplotlib would read what stands between dollars as a formula.

    >>> label_text("$x$")
    '\\$x\\$'
    """
    return printable(name).replace("$", r"\$")


def html_table(rows: list[dict[str, Any]]) -> str:
    """Plain HTML table of a list of dicts that share their keys."""
    if not rows:
        return "<table></table>"
    head = "".join(f"<th>{html.escape(printable(str(name)))}</th>" for name in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(printable(format_number(cell)))}</td>" for cell in row.values()) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def rows_of_columns(result: Result) -> list[dict[str, Any]]:
    """Rows of a result whose fields are columns of equal length; a single number is a column of one."""
    columns = {name: value if isinstance(value, list) else [value] for name, value in result.to_dict().items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def make_axes(ax: Axes | None, figsize: tuple[float, float] | None = None) -> Axes:
    """The given axes, or those of a new figure, which no global state of pyplot knows and a notebook shows."""
    if ax is not None:
        return ax
    from matplotlib.figure import Figure

    from initscope._utils.axes import ShownAxes

    return Figure(figsize=figsize, layout="constrained").add_subplot(axes_class=ShownAxes)


def panels(*draws: Callable[[Axes], Any]) -> Figure:
    """A figure with one panel per function, side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5 * len(draws), 4), layout="constrained")
    for draw, ax in zip(draws, figure.subplots(1, len(draws), squeeze=False)[0]):
        draw(ax)
    return figure


_DRAWN_BY: list[str] = []


def drawn_by(room: str) -> None:
    """Name the module that draws what results cannot draw themselves; the package's front door does."""
    _DRAWN_BY[:] = [room]


def drawing_room() -> Any:
    """That module, loaded when something is to be drawn: results stand below it and do not import it."""
    return importlib.import_module(_DRAWN_BY[0])


_LONGEST = 80


def _short_repr(result: Result) -> str:
    """The name of the class and its fields; of what would be long only the kind and the size."""
    shown = [
        f"{field.name}={_short(getattr(result, field.name))}"
        for field in dataclasses.fields(result)  # type: ignore[arg-type]
        if field.repr
    ]
    return f"{type(result).__name__}({', '.join(shown)})"


def _short(value: Any) -> str:
    if hasattr(value, "dtype") and len(getattr(value, "shape", ())):
        return f"<{type(value).__name__} {' × '.join(map(str, value.shape))}>"
    text = repr(value)
    if len(text) <= _LONGEST or not isinstance(value, (str, list, tuple, dict, set, frozenset)):
        return text if len(text) <= 2 * _LONGEST else f"<{type(value).__name__}>"
    if isinstance(value, str):
        return f"{text[:_LONGEST]}…"
    kinds = {type(item).__name__ for item in value}
    return f"<{len(value)} {kinds.pop() if len(kinds) == 1 else 'items'}>"


class Result:
    """Mixin of frozen dataclasses: the same exports everywhere."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__repr__" not in vars(cls) and cls.__repr__ in (object.__repr__, _short_repr):
            cls.__repr__ = _short_repr  # type: ignore[assignment]  # `dataclass` leaves what is there

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain Python values, ready for JSON."""
        return dict(plain(self))

    def table(self) -> list[dict[str, Any]]:
        """Rows of the result as dicts; by default one row that holds the fields."""
        return [self.to_dict()]

    def to_pandas(self) -> pandas.DataFrame:
        """`table` as a pandas DataFrame."""
        frame: pandas.DataFrame = library("pandas").DataFrame(self.table())
        return frame

    def to_arrow(self) -> pyarrow.Table:
        """`table` as an Arrow table."""
        made: pyarrow.Table = library("pyarrow").Table.from_pylist(plain(self.table()))
        return made

    @overload
    def to_html(self, path: None = None) -> str: ...

    @overload
    def to_html(self, path: str | os.PathLike[str]) -> Path: ...

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str | Path:
        """The result as a page of HTML; with ``path`` it is written there instead, and the path returned."""
        text = self._html()
        if path is None:
            return text
        write_text(path, text)
        return Path(path)

    def _html(self) -> str:
        """What `to_html` gives, a whole page; results that show more than their table override it."""
        text: str = drawing_room().render_result(self)
        return text

    def _repr_html_(self) -> str:
        return html_table(self.table())

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the numeric fields as bars, else the numbers of `table` row by row; subclasses draw something better."""
        ax = make_axes(ax)
        numbers = {name: value for name, value in self.to_dict().items() if _is_number(value)}
        if numbers:
            ax.barh(list(numbers), list(numbers.values()))
            ax.invert_yaxis()
            return ax
        rows = plain(self.table())
        columns = {name: [row.get(name) for row in rows] for name in (rows[0] if rows else ())}
        drawn = {name: values for name, values in columns.items() if any(map(_is_number, values))}
        if not drawn:
            raise InputError(f"{type(self).__name__} holds no numbers to draw; use to_dict() to read it")
        for name, values in drawn.items():
            ax.plot([value if _is_number(value) else math.nan for value in values], "o-", label=label_text(name))
        ax.set_xlabel("row")
        ax.legend()
        return ax


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
