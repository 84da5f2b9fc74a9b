"""Directives that write tables: ``theorem-index`` of statements, ``reproduction-index`` of reproductions.

A row of the first shows a statement in words and formulas, when it holds, its example, the functions, the tests and the
reproductions; one of the second a reproduction with what came out at full scale (``full_scale.json``). On a narrow
screen the cells of a row stand below each other (``_static/index.css``).
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx import addnodes
from sphinx.util.nodes import nested_parse_with_titles

from initscope.reproductions import all_reproductions
from initscope.theory import statements

HERE = Path(__file__).parent
MOST_NUMBERS = 4
"""Numbers of a reproduction that its row shows; the gallery has all."""


class Table(Directive):
    """A table with a class of its own, made of nodes."""

    columns: tuple[tuple[str, int], ...]
    css = ""

    def table(self, rows):
        """Return the table from the cells of each row, lists of nodes."""
        table = nodes.table(classes=[self.css])
        group = nodes.tgroup(cols=len(self.columns))
        table += group
        group += [nodes.colspec(colwidth=width) for _, width in self.columns]
        head, body = nodes.thead(), nodes.tbody()
        group += [head, body]
        head += self.row([[nodes.paragraph(text=name)] for name, _ in self.columns])
        body += [self.row(cells) for cells in rows]
        return table

    def parsed(self, *paragraphs):
        """Return the nodes of reStructuredText."""
        holder, lines = nodes.Element(), "\n\n".join(paragraphs).splitlines()
        nested_parse_with_titles(self.state, StringList(lines, source=self.css), holder)
        return holder.children

    @staticmethod
    def row(cells):
        """Return a row of the table from the nodes of each cell."""
        row = nodes.row()
        for children in cells:
            entry = nodes.entry()
            entry += children
            row += entry
        return row


class TheoremIndex(Table):
    """One section of the index, by the name of its file."""

    required_arguments = 1
    columns = (("statement", 58), ("function", 20), ("test", 11), ("reproduction", 11))
    css = "theorem-index"

    def run(self):
        path = Path(statements.__file__).parent / f"{self.arguments[0]}.toml"
        self.state.document.settings.env.note_dependency(str(path))
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        return [*self.parsed(data["introduction"]), self.table(self.cells(row) for row in data["row"])]

    def cells(self, row):
        """Return the content of the four columns."""
        beyond = " (*beyond*)" if row.get("beyond") else ""
        names = [f"`{name}`" for name in (*row["functions"], *row.get("see", []))]
        tests = [f"``{path.removeprefix('tests/')}``" for path in row["tests"]]
        reproductions = [f":ref:`{id} <reproduction-{id}>`" for id in row["reproductions"]]
        statement = [*self.entry(row), *self.parsed(f"**{row['statement']}**{beyond}", _escaped(row["words"]))]
        formula = nodes.literal_block(row["formula"].strip(), row["formula"].strip(), language="none")
        holds = self.parsed(f"*When it holds:* {_escaped(row['assumptions'])}", row.get("note", ""))
        return [
            [*statement, formula, *holds, *self.example(row)],
            *(self.parsed(*lines or "–") for lines in (names, tests, reproductions)),
        ]

    def entry(self, row):
        """Return an index entry with its target for a numbered statement, so that the search finds “corollary 1”."""
        match = re.match(
            r"(theorem|corollary|lemma|proposition|remark|definition|conjecture) [A-Z]?[\d.]*\d", row["statement"]
        )
        if match is None:
            return []
        number = self.state.document.settings.env.new_serialno("statement")
        target = nodes.target("", "", ids=[f"statement-{self.arguments[0]}-{number}"])
        return [addnodes.index(entries=[("single", match[0], target["ids"][0], "main", None)]), target]

    def example(self, row):
        """Return the example, with its imports, below a line that opens it."""
        code = statements.with_imports(row["example"].strip(), row["functions"])
        block = nodes.literal_block(code, code, language="python")
        opening = f"<details><summary>example</summary><p>Checked against {row['against']}.</p>"
        return [nodes.raw("", opening, format="html"), block, nodes.raw("", "</details>", format="html")]


class ReproductionIndex(Table):
    """All reproductions whose id begins with the argument, with their statement and what came out at full scale."""

    required_arguments = 1
    columns = (("reproduction", 44), ("ours", 26), ("published", 12), ("", 18))
    css = "reproduction-index"

    def run(self):
        path = HERE / "full_scale.json"
        self.state.document.settings.env.note_dependency(str(path))
        results = {result["id"]: result for result in json.loads(path.read_text(encoding="utf-8"))}
        chosen = [declared for id, declared in all_reproductions().items() if id.startswith(self.arguments[0])]
        return [self.table(self.cells(declared, results.get(declared.id)) for declared in chosen)]

    def cells(self, declared, result):
        """Return the content of the four columns."""
        lines = [f".. _reproduction-{declared.id}:", f"``{declared.id}``", _escaped(declared.statement)]
        first = self.parsed(*lines, f"*{_escaped(declared.source)}*")
        if result is None:
            return [first, self.parsed("–"), self.parsed("–"), self.parsed("not run at full scale")]
        published = result["published"] or {}
        names = [*published, *(name for name in result["ours"] if name not in published)]
        lines = [f"{_escaped(name)}: {_number(result['ours'].get(name))}" for name in names[:MOST_NUMBERS]]
        if len(names) > MOST_NUMBERS:
            lines.append(f"and {len(names) - MOST_NUMBERS} more")
        values = [f"{published[name]:g}" for name in names[:MOST_NUMBERS] if name in published]
        reason = [_escaped(result["why"])] if result["status"] != "agrees" else []
        last = [f"**{result['status']}**", *reason, f"{result['seconds']:.0f} s"]
        return [first, self.parsed(*lines), self.parsed(*values or "–"), self.parsed(*last)]


def _escaped(text):
    """Return a text without what reStructuredText would take for markup."""
    return re.sub(r"([*`|_\\])", r"\\\1", text)


def _number(number):
    if number is None:
        return "–"
    error = "" if number["error"] is None else f" ± {number['error']:.2g}"
    return f"{number['value']:.4g}{error}"


def setup(app):
    app.add_directive("theorem-index", TheoremIndex)
    app.add_directive("reproduction-index", ReproductionIndex)
    app.add_css_file("index.css")
    return {"parallel_read_safe": True}
