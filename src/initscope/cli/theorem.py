"""``initscope theorem``: finds a statement of the sources, the function that computes it, and its tests."""

from __future__ import annotations

import shlex
import textwrap
from typing import Annotated, Literal

from cyclopts import Parameter

from initscope.cli._help import OUTPUT
from initscope.cli._output import csv_text, json_text, print_table, text_width
from initscope.errors import InputError
from initscope.results import plain
from initscope.theory.statements import SOURCES, Statement, find_statements, statements

__all__ = ["theorem"]

_INDENT = "  "


def theorem(
    *query: Annotated[str, Parameter(help="A source (cnn, norms, talk, injectivity), a number, words of the title.")],
    list: Annotated[bool, Parameter(negative="", help="List all statements, or those that match.")] = False,
    format: Annotated[
        Literal["table", "json", "csv", "md"],
        Parameter(group=OUTPUT, help="table for people, json or csv for programs, md for notes and pull requests."),
    ] = "table",
) -> None:
    """Show a statement of the sources: its text and formula, the function that computes it, an example and its test."""
    if not query and not list:
        raise InputError("no statement is named; for example: initscope theorem cnn 3, or initscope theorem --list")
    matches = find_statements(" ".join(query)) if query else statements()
    rows = [row for statement in matches for row in statement.table()]
    if format == "json":
        print(json_text([plain(statement) for statement in matches]), end="")
    elif format == "csv":
        print(csv_text(rows), end="")
    elif format == "md":
        print("\n".join(_markdown(statement) for statement in (matches if list else matches[:1])), end="")
    elif list:
        print_table([{name: row[name] for name in ("source", "statement")} for row in rows])
        for source in dict.fromkeys(statement.source for statement in matches):
            print("\n".join(textwrap.wrap(f"{source}: {SOURCES[source]}", text_width(), subsequent_indent=_INDENT)))
    else:
        print(_text(matches[0], text_width()))
        for other in matches[1:6]:
            print(f"See also: initscope theorem {other.source} {other.title.partition(',')[0]!r}")
        if len(matches) > 6:
            print(f"{len(matches) - 6} more: initscope theorem {shlex.join(query)} --list")


def _sections(statement: Statement) -> dict[str, str]:
    """Return the parts of a statement that are not empty, by their headline."""
    parts = {
        "Statement": statement.words,
        "Formula": statement.formula,
        "Assumptions": statement.assumptions,
        "Note": statement.note,
        "Compute": "\n".join(statement.functions),
        "Example": statement.example,
        "Tested in": "\n".join(statement.tests) + f"\nagainst {statement.checked_against}",
        "Reproduce": "\n".join(f"initscope reproduce {name}" for name in statement.reproductions),
        "See also": "\n".join(statement.see),
    }
    return {name: text.strip() for name, text in parts.items() if text}


def _title(statement: Statement) -> str:
    return statement.title + (" (beyond the source)" if statement.beyond else "")


def _text(statement: Statement, width: int) -> str:
    """Return a statement as plain text, wrapped; code and names are not."""
    lines = [*textwrap.wrap(_title(statement), width), *textwrap.wrap(SOURCES[statement.source], width), ""]
    for name, text in _sections(statement).items():
        if name in ("Statement", "Formula", "Assumptions", "Note", "Tested in"):
            further = _INDENT * 3 if name == "Formula" else _INDENT
            text = "\n".join(_wrapped(line, width, further) for line in text.splitlines())
        else:
            text = textwrap.indent(text, _INDENT)
        lines += [name, text, ""]
    return "\n".join(lines)


def _wrapped(line: str, width: int, further: str) -> str:
    """Return an indented text, wrapped to the width, with further lines indented by ``further`` more."""
    return textwrap.fill(
        line, width, initial_indent=_INDENT, subsequent_indent=further, break_long_words=False, break_on_hyphens=False
    )


def _markdown(statement: Statement) -> str:
    """Return a statement as Markdown."""
    lines = [f"### {_title(statement)}", "", f"*{SOURCES[statement.source]}*", ""]
    for name, text in _sections(statement).items():
        if name in ("Statement", "Assumptions", "Note"):
            lines += [f"**{name}.** {text}", ""]
        else:
            lines += [f"**{name}**", "", f"```{'python' if name == 'Example' else ''}", text, "```", ""]
    return "\n".join(lines)
