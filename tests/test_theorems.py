"""The page of theorems names only what is there, and each docstring says which statement it is."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "theorems.rst").read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"`(initscope\.[\w.]+)`", PAGE)))


def find(name):
    parts = name.split(".")
    for split in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:split]))
        except ModuleNotFoundError:
            continue
        for part in parts[split:]:
            found = getattr(found, part)
        return found
    raise AssertionError(name)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_a_documented_callable(name):
    found = find(name)
    if callable(found):
        assert inspect.getdoc(found)
    else:
        assert isinstance(found, float)


def test_the_page_has_them_all():
    assert len(NAMES) > 70
    for statement in (
        "theorem 1",
        "theorem 5",
        "corollary 1",
        "lemma 7",
        "proposition 1",
        "definition 2",
        "Sudakov",
        "Cover",
    ):
        assert statement in PAGE


@pytest.mark.parametrize("name", NAMES)
def test_every_docstring_names_its_source(name):
    """A reference of docs/references.rst, or the words that it goes beyond the sources."""
    found = find(name)
    if not callable(found):
        return
    text = inspect.getdoc(found)
    cited = re.findall(r"\[([A-Z]\w+\d{4})\]_", text)
    assert cited or re.search(r"[Bb]eyond the (sources|paper)", text)
    references = (Path(__file__).parents[1] / "docs" / "references.rst").read_text(encoding="utf-8")
    assert all(f"[{source}]" in references for source in cited)


def test_no_source_points_into_a_document_that_users_do_not_have():
    for path in (Path(__file__).parents[1] / "src").rglob("*.py"):
        assert "§" not in path.read_text(encoding="utf-8"), path
