"""The terminal's table fits a terminal and keeps every number readable."""

import io

import pytest
from rich.console import Console

from initscope.geometry import Comparison
from initscope.pages.table import rich_table, side_by_side, terminal_table, with_error


def drawn(table, width):
    text = io.StringIO()
    Console(file=text, width=width).print(table)
    return text.getvalue()


def printed(comparison, width):
    return drawn(terminal_table(comparison, title="t", width=width), width)


def first_words(text):
    return [line.split()[0] for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize("width", [80, 100])
def test_fits(comparison, width):
    text = printed(comparison, width)
    assert max(map(len, text.splitlines())) <= width
    for row in side_by_side(comparison):
        for cell in row.values():
            assert cell in text or cell in (row["kind"], row["status"])
    assert "status of every row: closed form" in text


def test_notes_and_statuses_are_shown_where_they_differ(partly_covered):
    text = printed(partly_covered, 100)
    assert max(map(len, text.splitlines())) <= 100
    assert "not covered" in text
    assert "LocalResponseNorm" in text
    assert "–" in text


LONG = [f"layer2.{block}.convolution" for block in range(3)]


@pytest.fixture
def wide():
    """Rows too wide for 80 columns, two with a status of their own."""
    statuses = ["closed form", "sampled", "closed form"]
    return [
        {"layer": layer, "kind": "Conv2d", "a": "0.1234 ±0.0100", "b": "0.5678 ±0.0200", "c": "9.000", "status": status}
        for layer, status in zip(LONG, statuses)
    ]


@pytest.mark.parametrize("width", [None, 80, 70, 60, 45])
def test_layers_keep_their_names_at_any_width(wide, width):
    text = drawn(rich_table(wide, width=width), width or 200)
    assert [word for word in first_words(text) if word.startswith("layer2")] == LONG
    assert all(number in text for number in ("0.1234", "0.5678", "9.000"))
    # The status is never lost: a column, or lines below.
    assert ("closed form" in text, "sampled" in text) == (True, True)


def test_what_a_narrow_table_leaves_out_is_said(wide):
    assert "left out" not in drawn(rich_table(wide), 200)
    assert "left out to fit 80 columns: kind;" in drawn(rich_table(wide, width=80), 80)
    narrow = " ".join(drawn(rich_table(wide, width=60), 60).split())
    assert "±0.0100" not in narrow
    assert f"sampled: {LONG[1]}" in narrow
    assert "status of every other row: closed form" in narrow
    assert "left out to fit 60 columns: kind, ±;" in narrow


def test_brackets_are_text():
    assert "[0, 1]" in drawn(rich_table([{"layer": "x", "range": "[0, 1]"}], title="[t]"), 80)


def test_kinds_are_shown_unless_the_names_tell_them(comparison, partly_covered):
    assert "Conv2d" not in printed(comparison, 100)
    assert "Conv2d" in printed(partly_covered, 100)


def test_one_side(comparison):
    names = list(side_by_side(Comparison(prediction=comparison.prediction))[0])
    assert names == ["layer", "kind", "cosine predicted", "angle ° predicted", "size predicted", "status"]


def test_numbers():
    assert with_error(0.5, 0.0124, 3) == "0.500 ±0.012"
    assert with_error(2.5e-7, 1e-8, 3) == "2.50e-07 ±1.0e-08"
    assert with_error(0.0, None, 2) == "0.00"


def test_most_rows_keep_one_line_and_a_dot_of_their_own_is_no_cut():
    """Long texts of many rows cost a column; of few rows they fold; an ellipsis that a value holds is not a cut."""
    few = [{"answer": name, "band": "0.90…1.10", "rests on": "a bound of some words " * 3} for name in ("a", "b")]
    many = [{"layer": f"layer {index} of some length", "size": "1.0", "told": "words " * 3} for index in range(20)]
    assert "rests on" in drawn(rich_table(few, width=60), 60)
    text = drawn(rich_table(many, width=36), 36)
    assert "left out to fit 36 columns: told" in " ".join(text.split())
    assert text.count("layer 1") == 11
    assert all(f"layer {index} of some length" in text for index in range(20))
