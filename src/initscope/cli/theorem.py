"""``initscope theorem``: a statement of the sources by its number or by words, with what computes and checks it."""

from __future__ import annotations

import textwrap
from typing import Annotated

from cyclopts import Parameter

from initscope.cli._help import OUTPUT
from initscope.cli._output import Format, csv_text, json_text, print_table
from initscope.errors import InputError
from initscope.results import plain
from initscope.theory.statements import SOURCES, Statement, find_statements, statements

__all__ = ["theorem"]


def theorem(
    *query: Annotated[str, Parameter(help="A source (cnn, norms, talk, injectivity), a number, words of the title.")],
    list: Annotated[bool, Parameter(negative="", help="List all statements, or those that match.")] = False,
    format: Annotated[Format, Parameter(group=OUTPUT)] = "table",
) -> None:
    """Show a statement of the sources: in words, as a formula, the function, an example to paste, its test."""
    if not query and not list:
        raise InputError("no statement is named; for example: initscope theorem cnn 3, or initscope theorem --list")
    matches = find_statements(" ".join(query)) if query else statements()
    if format == "json":
        print(json_text([plain(statement) for statement in matches]), end="")
    elif format == "csv":
        print(csv_text([row for statement in matches for row in statement.table()]), end="")
    elif list or not query:
        print_table([{name: row[name] for name in ("source", "statement")} for s in matches for row in s.table()])
    else:
        print(_text(matches[0]))
        for other in matches[1:6]:
            print(f"See also: initscope theorem {other.source} {other.title.partition(',')[0]!r}")


def _text(statement: Statement) -> str:
    """Return a statement as plain text."""
    beyond = " (beyond the source)" if statement.beyond else ""
    parts = {
        "Statement": statement.words,
        "Formula": statement.formula,
        "Assumes": statement.assumptions,
        "Note": statement.note,
        "Compute": "\n".join(statement.functions),
        "Example": statement.example,
        "Tested in": "\n".join(statement.tests) + f"\nagainst {statement.checked_against}",
        "Reproduce": "\n".join(f"initscope reproduce {name}" for name in statement.reproductions),
        "See also": "\n".join(statement.see),
    }
    lines = [f"{statement.title}{beyond}", SOURCES[statement.source], ""]
    for name, text in parts.items():
        if text:
            lines += [name, textwrap.indent(text.strip(), "  "), ""]
    return "\n".join(lines)
