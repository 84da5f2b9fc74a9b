"""The terminal's table fits a terminal and keeps every number readable."""

import io

import pytest
from rich.console import Console

from initscope.report import Comparison
from initscope.report.table import side_by_side, terminal_table, with_error


def printed(comparison, width):
    text = io.StringIO()
    Console(file=text, width=width).print(terminal_table(comparison, title="t"))
    return text.getvalue()


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


def test_kinds_are_shown_unless_the_names_tell_them(comparison, partly_covered):
    assert "Conv2d" not in printed(comparison, 100)
    assert "Conv2d" in printed(partly_covered, 100)


def test_one_side(comparison):
    names = list(side_by_side(Comparison(prediction=comparison.prediction))[0])
    assert names == ["layer", "kind", "cosine predicted", "angle ° predicted", "norm ratio predicted", "status"]


def test_numbers():
    assert with_error(0.5, 0.0124, 3) == "0.500 ±0.012"
    assert with_error(2.5e-7, 1e-8, 3) == "2.50e-07 ±1.0e-08"
    assert with_error(0.0, None, 2) == "0.00"
