"""`Result`: the base class of all frozen result dataclasses, with the same display, export and plot methods.

A subclass is a ``@dataclass(frozen=True)``. It overrides `Result.table` if it has rows and `Result.plot` if it has a
figure.
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
from initscope._utils.palette import line_color
from initscope.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import pandas
    import pyarrow
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "Result",
    "counted",
    "format_number",
    "html_table",
    "label_text",
    "line_color",
    "load",
    "make_axes",
    "make_grid",
    "panels",
    "plain",
    "printable",
    "rendering_module",
    "rows_of_columns",
    "set_rendering_module",
]


def plain(value: Any) -> Any:
    """Convert arrays, tensors, fractions and nested results to values that JSON can hold (NaN and ±∞ become None).

    The key of a field is its name, or the metadata ``key`` of a field that has another name in JSON.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.metadata.get("key", field.name): plain(getattr(value, field.name)) for field in fields}
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
    """Return a number with its noun in the singular or plural.

    >>> counted(1, "image"), counted(2, "image")
    ('1 image', '2 images')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def format_number(value: Any, digits: int = 4) -> str:
    """Return the short text of a table cell: floats with ``digits`` significant digits, None as a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    return f"{value + 0.0:.{digits}g}"  # no -0


_NOT_PLAIN = re.compile(r"[^\n\t\x20-\x7e]")


def printable(text: str) -> str:
    r"""Return ``text`` with control characters escaped, so that foreign names and messages cannot control a terminal.

    Newlines and tabs stay. Bidirectional marks and lone surrogates are escaped too.

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
    r"""Return a name as a label of a plot, with ``$`` escaped because matplotlib reads ``$…$`` as a formula.

    >>> label_text("$x$")
    '\\$x\\$'
    """
    return printable(name).replace("$", r"\$")


def html_table(rows: list[dict[str, Any]]) -> str:
    """Return a plain HTML table of a list of dicts with the same keys."""
    if not rows:
        return "<table></table>"
    head = "".join(f"<th>{html.escape(printable(str(name)))}</th>" for name in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(printable(format_number(cell)))}</td>" for cell in row.values()) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def rows_of_columns(result: Result) -> list[dict[str, Any]]:
    """Return the rows of a result whose fields are columns of equal length; a single number is a column of length 1."""
    columns = {name: value if isinstance(value, list) else [value] for name, value in result.to_dict().items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def make_axes(ax: Axes | None, figsize: tuple[float, float] | None = None) -> Axes:
    """Return ``ax``, or the axes of a new figure, which a notebook shows and which pyplot does not register."""
    return make_grid(1, 1, figsize)[0, 0] if ax is None else ax


def make_grid(rows: int, columns: int, figsize: tuple[float, float] | None = None, **options: Any) -> np.ndarray:
    """Return the ``[rows, columns]`` axes of a new figure in the style of initscope; ``options`` are of `subplots`."""
    from matplotlib.figure import Figure

    from initscope._utils.axes import ShownAxes, figure_style

    figure = Figure(figsize=figsize, layout="constrained")
    with figure_style():
        axes: np.ndarray = figure.subplots(
            rows, columns, squeeze=False, subplot_kw={"axes_class": ShownAxes}, **options
        )
    return axes


def panels(*draws: Callable[[Axes], Any]) -> Figure:
    """Return a figure with one panel per function, side by side."""
    axes = make_grid(1, len(draws), (5.5 * len(draws), 4))[0]
    for draw, ax in zip(draws, axes):
        draw(ax)
    return axes[0].figure  # type: ignore[no-any-return]


_RENDERING_MODULE: list[str] = []


def set_rendering_module(name: str) -> None:
    """Set the module that renders pages and figures of results; ``initscope/__init__.py`` calls this."""
    _RENDERING_MODULE[:] = [name]


def rendering_module() -> Any:
    """Import the rendering module on first use: it is a higher layer, which this module must not import."""
    return importlib.import_module(_RENDERING_MODULE[0])


_LONGEST = 80


def _short_repr(result: Result) -> str:
    """Return the class name and its fields; long values are given by type and size only."""
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
    """Mixin of frozen dataclasses: all results have the same exports."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__repr__" not in vars(cls) and cls.__repr__ in (object.__repr__, _short_repr):
            cls.__repr__ = _short_repr  # type: ignore[assignment]  # `dataclass` does not replace it

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain Python values, ready for JSON."""
        return dict(plain(self))

    def table(self) -> list[dict[str, Any]]:
        """Return the rows of the result as dicts; by default one row that holds the fields."""
        return [self.to_dict()]

    def to_pandas(self) -> pandas.DataFrame:
        """Return `table` as a pandas DataFrame."""
        frame: pandas.DataFrame = library("pandas").DataFrame(self.table())
        return frame

    def to_arrow(self) -> pyarrow.Table:
        """Return `table` as an Arrow table."""
        made: pyarrow.Table = library("pyarrow").Table.from_pylist(plain(self.table()))
        return made

    @overload
    def to_html(self, path: None = None) -> str: ...

    @overload
    def to_html(self, path: str | os.PathLike[str]) -> Path: ...

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str | Path:
        """Return the result as an HTML page; with ``path``, write the page there and return the path."""
        text = self._html()
        if path is None:
            return text
        write_text(path, text)
        return Path(path)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the result to a file that `initscope.load` reads, and return the path.

        The file is a ZIP archive of JSON and arrays. Functions, and objects of classes that are not part of initscope
        (a loss or an initializer of your own), are not saved.
        """
        from initscope import __version__
        from initscope._utils.archive import write_archive

        write_archive(path, self._to_save(), __version__)
        return Path(path)

    def _to_save(self) -> Result:
        """Return what `save` writes; results that hold the user's data leave it out."""
        return self

    def _html(self) -> str:
        """Return the page of `to_html`; results that show more than their table override this."""
        text: str = rendering_module().render_result(self)
        return text

    def _repr_html_(self) -> str:
        return html_table(self.table())

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the numeric fields as bars, else the numeric columns of `table` as lines; subclasses override this."""
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
            raise InputError(f"{type(self).__name__} holds no numbers to plot; use to_dict() to read it")
        for name, values in drawn.items():
            ax.plot([value if _is_number(value) else math.nan for value in values], "o-", label=label_text(name))
        ax.set_xlabel("row")
        ax.legend()
        return ax


def load(path: str | os.PathLike[str]) -> Any:
    """Read a result that its ``save`` has written.

    Parameters
    ----------
    path : path
        Such as ``"x.initscope"``.

    Returns
    -------
    Result
        Of the class that was saved, for example `initscope.inspection.Report`, with the same page and tables.

    Raises
    ------
    InputError
        If the file is missing, damaged, from a newer version, or not a saved result.
    """
    from initscope._utils.archive import read_archive  # which needs NumPy, and `import initscope` does not

    return read_archive(path)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
