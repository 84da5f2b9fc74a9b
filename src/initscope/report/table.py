"""The terminal's table of a `Comparison`: predicted and measured side by side, within 100 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from initscope.report.geometry import Comparison

__all__ = ["side_by_side", "terminal_table", "with_error"]

_QUANTITIES = {"cosine": ("cosine", 4), "angle": ("angle °", 1), "norm_ratio": ("norm ratio", 3)}


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
    angle_errors = None if measured is None else measured.mean_angle_se
    sides = [side for side in ("predicted", "measured") if getattr(comparison, _ATTRIBUTE[side]) is not None]
    rows = []
    for index, row in enumerate(comparison.table()):
        if angle_errors is not None:
            row["angle_se"] = float(angle_errors[index]) if angle_errors[index] == angle_errors[index] else None
        rows.append(_texts(row, sides, given=index == 0))
    if not any(row["note"] for row in rows):
        for row in rows:
            del row["note"]
    return rows


_ATTRIBUTE = {"predicted": "prediction", "measured": "measurement"}


def _texts(row: dict[str, Any], sides: list[str], *, given: bool) -> dict[str, str]:
    texts = {"layer": row["layer"], "kind": row["kind"]}
    for name, (title, digits) in _QUANTITIES.items():
        for side in sides:
            error = None if given else row.get(f"{name}_se" if side == "measured" else f"{name}_sd_predicted")
            texts[f"{title} {side}"] = with_error(row[f"{name}_{side}"], error, digits)
    return texts | {"status": row["status"], "note": row["note"]}


def terminal_table(comparison: Comparison, *, title: str = "") -> Table:
    """A rich table of `side_by_side`; columns that tell nothing new are left out, notes are lines below."""
    from rich import box
    from rich.table import Table

    rows = side_by_side(comparison)
    dropped = {"note"}
    if all(_tells_kind(row["layer"], row["kind"]) for row in rows):
        dropped.add("kind")
    statuses = {row["status"] for row in rows}
    below = [f"{', '.join(layers)}: {note}" for note, layers in _layers_by_note(rows).items()]
    if len(statuses) == 1:
        dropped.add("status")
        below.insert(0, f"status of every row: {statuses.pop()}")
    table = Table(
        title=title or None,
        title_justify="left",
        caption="\n".join(below) or None,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1),
        collapse_padding=True,
        pad_edge=False,
    )
    columns = [name for name in rows[0] if name not in dropped]
    for name in columns:
        text = name in ("layer", "kind", "status")
        head = name.replace(" predicted", "\npred.").replace(" measured", "\nmeasured")
        table.add_column(head, justify="left" if text else "right", no_wrap=not text, overflow="fold")
    for row in rows:
        table.add_row(*(row[name] for name in columns))
    return table


def _layers_by_note(rows: list[dict[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.get("note"):
            found.setdefault(row["note"], []).append(row["layer"])
    return found


def _tells_kind(layer: str, kind: str) -> bool:
    """Whether a name such as conv3 says what the layer is; the numbers of a `torch.nn.Sequential` do not."""
    name = layer.rstrip("0123456789").lower()
    return bool(name) and name in kind.lower()
