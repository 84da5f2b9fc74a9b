"""The terminal's table fits a terminal and keeps every number readable."""

import io
import math

import pytest
import torch
from rich.console import Console
from torch import nn

import initscope
from initscope.geometry import ROUNDING, Comparison
from initscope.rendering.table import note_lines, rich_table, side_by_side, terminal_table, with_error


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
            assert cell in text or cell == row["status"]
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
    assert "(Conv2d)" not in printed(comparison, 100)
    assert "layer 1 (Conv2d)" in printed(partly_covered, 100)


def test_one_side(comparison):
    names = list(side_by_side(Comparison(prediction=comparison.prediction))[0])
    assert names == ["layer", "angle ° predicted", "RMS ratio predicted", "status"]


def test_numbers():
    assert with_error(0.5, 0.0124, 3) == "0.500 ±0.012"
    assert with_error(2.5e-7, 1e-8, 3) == "2.5e-07 ±1e-08"
    assert with_error(0.0, None, 2) == "0.00"
    assert with_error(123456.0, None, 3) == "1.23e+05"
    assert [with_error(math.nan, 1.0, 2), with_error(2.0, math.nan, 2)] == ["–", "2.00"]
    assert with_error(45.83, 0.003, 1) == "45.8"  # not ±0.0
    assert [with_error(0.0995, 0.004, 1), with_error(2e-13, 2e-15, 3)] == ["0.100 ±0.004", "2.0e-13 ±2e-15"]
    assert [with_error(1047.99, 26.92, 2), with_error(1047.99, None, 2)] == ["1048 ±27", "1048"]
    assert [with_error(angle, 1e-7, 1, ROUNDING) for angle in (3.3e-6, 4.8e-5)] == ["<1e-05", "4.8e-05 ±1e-07"]


def deep(width=24, depth=40):
    """Fewer lines than layers, and nothing but rounding left of the angles: biases are larger than the signal."""
    torch.manual_seed(0)
    layers = [module for _ in range(depth) for module in (nn.Linear(width, width), nn.ReLU())]
    x, y = torch.rand(2, 6, width, generator=torch.Generator().manual_seed(1))
    model = nn.Sequential(*layers)
    return Comparison(initscope.predict(model, x, y, gradients=True), initscope.measure(model, x, y, draws=0))


def test_a_deep_network_is_few_lines_with_the_values_of_its_rows():
    """The lines stand for all rows in order, each with the values of its last; `depth=0` has every one."""
    comparison = deep()
    rows, lines = comparison.rows, side_by_side(comparison, None)
    assert len(side_by_side(comparison)) == len(rows) == 81
    assert 10 <= len(lines) <= 14
    every = {row.title: texts for row, texts in zip(rows, side_by_side(comparison), strict=True)}
    last = [*every.values()][-1]
    assert {lines[-1][name] for name in ("RMS ratio measured", "angle ° predicted")} == {
        last[name] for name in ("RMS ratio measured", "angle ° predicted")
    }
    text = printed(comparison, 80)
    assert f"81 ops in {len(lines)} lines; --depth 0 prints them all" in text
    assert "gradient: norm for the weights of a layer / norm for the last layer" in " ".join(text.split())
    assert "79 (ReLU)" in drawn(terminal_table(comparison, depth=0), 200)


def test_rounding_is_not_printed_as_an_angle():
    """Theory goes on where float32 has no digits left; what is measured there says only that it is small."""
    comparison = deep()
    known = [row["angle_measured"] for row in comparison.table()]
    small = [index for index, angle in enumerate(known) if 0 < angle < ROUNDING]
    assert len(small) > 10
    told = side_by_side(comparison)
    assert {told[index]["angle ° measured"] for index in small} == {"<1e-05"}
    assert float(told[-1]["angle ° predicted"]) < 1e-9
    assert "&lt;1e-05" in comparison.to_html()


def test_names_are_not_broken_within_a_word_while_there_are_columns_to_leave_out():
    rows = [{"layer": "layer 4 (AdaptiveAvgPool2d)"} | dict.fromkeys("abcdefg", "0.123") for _ in range(9)]
    text = drawn(rich_table(rows, width=50), 50)
    assert text.count("(AdaptiveAvgPool2d)") == 9
    assert "left out to fit 50 columns: g" in text


def test_what_has_no_value_in_any_row_is_no_column():
    text = drawn(rich_table([{"id": "1", "name": "", "cnn": None}, {"id": "2", "name": "", "cnn": None}]), 80)
    assert "name" not in text
    assert "cnn" not in text


def test_many_layers_of_one_remark_are_counted():
    assert note_lines({f"layer {k}": "cosine ± 0.001; no rule" for k in range(5)} | {"head": "64 heads drawn"}) == [
        "layer 0, layer 1, layer 2 and 2 more: no rule"
    ]


def test_most_rows_keep_one_line_and_a_dot_of_their_own_is_no_cut():
    """Long texts of many rows cost a column; of few rows they fold; an ellipsis that a value holds is not a cut."""
    few = [{"answer": name, "band": "0.90…1.10", "rests on": "a bound of some words " * 3} for name in ("a", "b")]
    many = [{"layer": f"layer {index} of some length", "size": "1.0", "told": "words " * 3} for index in range(20)]
    assert "rests on" in drawn(rich_table(few, width=60), 60)
    text = drawn(rich_table(many, width=36), 36)
    assert "left out to fit 36 columns: told" in " ".join(text.split())
    assert text.count("layer 1") == 11
    assert all(f"layer {index} of some length" in text for index in range(20))


def test_long_texts_of_few_rows_are_lines_below_and_measured_outlasts_predicted():
    answers = [
        {"answer": name, "width": "12", "rests on": f"{name} in many words, " * 5} for name in ("paper", "exact")
    ]
    text = " ".join(drawn(rich_table(answers, width=60), 60).split())
    assert all(f"{row['answer']}: {row['rests on'].strip(', ')}" in text for row in answers)
    assert "left out" not in text
    sides = [f"{name} {side}" for name in ("angle", "size", "gradient") for side in ("predicted", "measured")]
    rows = [{"layer": f"layer {index}"} | dict.fromkeys(sides, "0.1234") for index in range(9)]
    text = " ".join(drawn(rich_table(rows, width=50), 50).split())
    assert "left out to fit 50 columns: gradient predicted, size predicted;" in text


def test_names_and_a_first_number_stay_however_long_the_names_are():
    rows = [
        {"layer": f"encoder.layers.{index}.attention.output.dense", "angle": "12.0", "size": "1.0"} for index in "123"
    ]
    text = drawn(rich_table(rows, width=30), 30)
    assert text.count("12.0") == 3
    assert max(map(len, text.splitlines())) <= 30


def test_words_are_of_columns_that_are_shown():
    rows = [{"layer": "a", "intra random": "1.0", "psnr": "2.0", "psnr_se": "0.1"}]
    words = {"intra": "within", "inter": "between", "psnr": "in dB", "±": "standard error"}
    text = " ".join(drawn(rich_table(rows, words=words), 80).split())
    assert "intra: within; psnr: in dB; ±: standard error" in text
