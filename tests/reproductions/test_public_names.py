"""Reproductions are the library's first users: they import public names only, as a user would."""

import ast
from pathlib import Path

import pytest

import initscope

MACHINERY = ("gallery.py",)  # writes files, as the command line would
OPEN = ("initscope.results", "initscope._utils.libraries")  # the second: the one place that loads libraries of extras
FILES = [
    path
    for path in sorted((Path(initscope.__file__).parent / "reproductions").glob("*.py"))
    if path.name not in MACHINERY
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_reproductions_import_public_names_only(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("initscope"):
            own = node.module.startswith("initscope.reproductions") or node.module in OPEN
            private = any(part.startswith("_") for part in node.module.split("."))
            assert own or not private, f"{path.name}: {node.module}"
            assert own or not any(alias.name.startswith("_") for alias in node.names), f"{path.name}: {node.module}"
