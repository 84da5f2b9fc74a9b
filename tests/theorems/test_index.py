"""The theorem index: each row's example gives what a value computed another way says, and every name leads somewhere.

``theory/statements/README.md`` says what a row is; the files beside this one hold the other ways.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch

import initscope
from initscope.reproductions import all_reproductions

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "src" / "initscope" / "theory" / "statements").glob("*.toml"))
ROWS = [
    pytest.param(path.stem, row, id=f"{path.stem}: {row['statement']}")
    for path in FILES
    for row in tomllib.loads(path.read_text(encoding="utf-8"))["row"]
]
NAMES = sorted({name for row in ROWS for name in row.values[1]["functions"]})
MOST_MISSED = 0.1
"""Share of its value by which an example may be wrong unnoticed."""


def find(name):
    """Return what a dotted name means, and the object that it belongs to if it is a method."""
    parts = name.split(".")
    for split in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:split]))
        except ModuleNotFoundError:
            continue
        for part in parts[split:]:
            owner, found = found, getattr(found, part)
        return (owner, found) if len(parts) > split and inspect.isclass(owner) else (None, found)
    raise AssertionError(name)


def run(row):
    """Value of the example's last line."""
    names = {"np": np, "torch": torch, "initscope": initscope}
    for name in row["functions"]:
        owner, found = find(name)
        short = owner.__name__ if owner is not None else name.rpartition(".")[2]
        names[short] = owner if owner is not None else found
    lines = ast.parse(row["example"].strip())
    last = lines.body.pop()
    assert isinstance(last, ast.Expr), "the last line of an example is its value"
    exec(compile(lines, "example", "exec"), names)
    return np.asarray(eval(compile(ast.Expression(last.value), "example", "eval"), names), dtype=float)


@pytest.mark.parametrize(("section", "row"), ROWS)
def test_the_example_gives_what_another_way_gives(section, row):
    """Within 4 standard errors of the witness; an error of a tenth of the value is noticed (`MOST_MISSED`)."""
    found = run(row)
    witness = getattr(importlib.import_module(f"theorems.{section}"), row["witness"])()
    expected = np.asarray(witness.value, dtype=float)
    assert found.shape == expected.shape
    assert np.isfinite(found).all()
    assert np.max(witness.allowed()) <= MOST_MISSED * np.abs(expected).max()
    assert (np.abs(found - expected) <= witness.allowed()).all(), (found, expected, witness.error)


@pytest.mark.parametrize(("section", "row"), ROWS)
def test_rows_lead_somewhere(section, row):
    """Functions that the example calls, tests and reproductions that are there, words on the other way."""
    assert row["functions"]
    assert all(callable(find(name)[1]) for name in row.get("see", []))
    for name in row["functions"]:
        assert re.search(rf"\b{name.rpartition('.')[2]}\b", row["example"]), f"the example does not call {name}"
    assert row["tests"]
    for path in row["tests"]:
        assert (ROOT / path).is_file(), path
    assert set(row["reproductions"]) <= set(all_reproductions())
    assert row["against"]


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_a_documented_callable_with_a_source(name):
    """A reference of docs/references.rst, or the words that it goes beyond the sources."""
    found = find(name)[1]
    if not callable(found):
        assert isinstance(found, float)
        return
    text = f"{inspect.getdoc(found)} {inspect.getmodule(found).__doc__ if '.reproductions.' in name else ''}"
    cited = re.findall(r"\[([A-Z]\w+\d{4})\]_", text)
    assert cited or re.search(r"[Bb]eyond the (sources|paper)", text)
    references = (ROOT / "docs" / "references.rst").read_text(encoding="utf-8")
    assert all(f"[{source}]" in references for source in cited)


def test_the_index_has_them_all():
    assert len(NAMES) > 70
    statements = " ".join(row.values[1]["statement"] for row in ROWS)
    for statement in ("theorem 1", "theorem 5", "corollary 1", "lemma 7", "proposition 1", "definition 2"):
        assert statement in statements
    page = (ROOT / "docs" / "theorems.rst").read_text(encoding="utf-8")
    assert all(f".. theorem-index:: {path.stem}" in page for path in FILES)


def test_every_reproduction_has_its_statement():
    """Each reproduction stands in some row."""
    shown = {id for row in ROWS for id in row.values[1]["reproductions"]}
    assert set(all_reproductions()) <= shown


def test_no_source_points_into_a_document_that_users_do_not_have():
    for path in (ROOT / "src").rglob("*.py"):
        assert "§" not in path.read_text(encoding="utf-8"), path
