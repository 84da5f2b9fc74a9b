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
