"""Directives that write tables from data: ``theorem-index`` from ``theorems/*.toml``.

Each row of the index shows a statement with its example, the functions, the tests and the exhibits; on a narrow screen
the cells of a row stand below each other (``_static/index.css``).
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.util.nodes import nested_parse_with_titles

HERE = Path(__file__).parent
COLUMNS = (("statement", 40), ("function", 30), ("test", 15), ("exhibit", 15))


class TheoremIndex(Directive):
    """One section of the index, by the name of its file."""

    required_arguments = 1

    def run(self):
        path = HERE / "theorems" / f"{self.arguments[0]}.toml"
        self.state.document.settings.env.note_dependency(str(path))
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        return [*self.parsed(data["introduction"]), self.table(data["row"])]

    def table(self, rows):
        """Return the table, a row for each statement."""
        table = nodes.table(classes=["theorem-index"])
        group = nodes.tgroup(cols=len(COLUMNS))
        table += group
        group += [nodes.colspec(colwidth=width) for _, width in COLUMNS]
        head, body = nodes.thead(), nodes.tbody()
        group += [head, body]
        head += self.row([[nodes.paragraph(text=name)] for name, _ in COLUMNS])
        for row in rows:
            body += self.row(self.cells(row))
        return table

    def cells(self, row):
        """Return what stands in the four columns."""
        beyond = " (*beyond*)" if row.get("beyond") else ""
        note = f"\n\n{row['note']}" if row.get("note") else ""
        names = [*row["functions"], *row.get("see", [])]
        exhibits = [f":ref:`{id} <exhibit-{id}>`" for id in row["exhibits"]]
        tests = [f"``{path.removeprefix('tests/')}``" for path in row["tests"]]
        return [
            [*self.parsed(f"{row['statement']}{beyond}{note}"), *self.example(row)],
            *(self.parsed("\n\n".join(lines) or "–") for lines in ([f"`{n}`" for n in names], tests, exhibits)),
        ]

    def example(self, row):
        """Return the example behind a line that opens it, with the imports that it needs."""
        imports = [_import(name) for name in row["functions"]]
        used = {"initscope.": "import initscope", "np.": "import numpy as np", "torch.": "import torch"}
        needed = [line for sign, line in used.items() if re.search(rf"(?<![\w.]){re.escape(sign)}", row["example"])]
        code = "\n".join([*needed, *dict.fromkeys(imports), "", row["example"].strip()])
        block = nodes.literal_block(code, code, language="python")
        told = f"<details><summary>example</summary><p>Checked against {row['against']}.</p>"
        return [nodes.raw("", told, format="html"), block, nodes.raw("", "</details>", format="html")]

    def parsed(self, text):
        """Return the nodes of reStructuredText."""
        holder = nodes.Element()
        nested_parse_with_titles(self.state, StringList(text.splitlines(), source="theorems"), holder)
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


def _import(name):
    """Return the line that imports a public name, of a method its class."""
    parts = name.split(".")
    if parts[-2][0].isupper():
        parts.pop()
    return f"from {'.'.join(parts[:-1])} import {parts[-1]}"


def setup(app):
    app.add_directive("theorem-index", TheoremIndex)
    app.add_css_file("index.css")
    return {"parallel_read_safe": True}
