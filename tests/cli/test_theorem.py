"""``initscope theorem``: a statement is shown whole, within the width, and in every format."""

from __future__ import annotations

import json
import re

import pytest

from initscope.cli import main
from initscope.cli.theorem import _text
from initscope.theory.statements import SOURCES, find_statements, statements


@pytest.mark.parametrize("width", [60, 100])
def test_the_text_of_a_statement_fits_the_terminal(width):
    """Only names and code, which are not broken, may be longer."""
    for statement in statements():
        prose = _text(statement, width).partition("\nCompute\n")[0]
        too_long = [line for line in prose.splitlines() if len(line) > width and " " in line.strip()]
        assert not too_long, statement.title


def test_a_statement_is_shown_with_formula_and_assumptions(capsys):
    main(["theorem", "cnn", "3"])
    shown = capsys.readouterr().out
    for part in ("Statement\n", "max(ρ, 0) ≤ ρ̄_out ≤ (1+ρ)/2", "Assumptions\n", "cyclic convolution", "docs/slips.rst"):
        assert part in shown


def test_the_list_has_the_source_and_title_of_all(capsys):
    main(["theorem", "--list"])
    shown = capsys.readouterr().out
    assert all(statement.title in shown for statement in statements())
    assert all(f"\n{source}: {title[:40]}" in shown for source, title in SOURCES.items())
    main(["theorem", "--list", "norms"])
    assert "\ncnn: " not in capsys.readouterr().out


def test_more_matches_than_are_shown_are_counted(capsys):
    main(["theorem", "injectivity"])
    shown = capsys.readouterr().out
    (more,) = re.findall(r"^(\d+) more: initscope theorem injectivity --list$", shown, re.MULTILINE)
    assert 1 + shown.count("See also: ") + int(more) == len(find_statements("injectivity"))
    main(["theorem", "cnn", "lemma", "1"])
    assert len(find_statements("cnn lemma 1")) > 6 or " more: " not in capsys.readouterr().out


def test_a_statement_as_markdown_and_json(capsys):
    main(["theorem", "norms", "lemma 2", "--format", "md"])
    shown = capsys.readouterr().out
    assert shown.startswith("### lemmas 2 and 5")
    assert "**Assumptions.**" in shown
    assert shown.count("```") % 2 == 0
    main(["theorem", "norms", "lemma 2", "--format", "json"])
    first = json.loads(capsys.readouterr().out)[0]
    assert first["title"].startswith("lemmas 2 and 5")
    assert first["formula"]
    assert first["assumptions"]
