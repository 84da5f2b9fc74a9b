"""The lint step for words: it finds words to avoid in texts and names, leaves code alone, and the project passes it."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "words.py"
spec = importlib.util.spec_from_file_location("words", TOOL)
assert spec is not None
assert spec.loader is not None
words = importlib.util.module_from_spec(spec)
sys.modules["words"] = words
spec.loader.exec_module(words)
SETTINGS = tomllib.loads(TOOL.with_suffix(".toml").read_text(encoding="utf-8"))


def matched(path: Path, content: str) -> list[tuple[int, str]]:
    path.write_text(content, encoding="utf-8")
    return [(match.line, match.word) for match in words.matches(path, path.name, words.read_terms(SETTINGS))]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('"""The law of weights."""\n', [(1, "law")]),
        ("x = 1  # kept beside it\n", [(1, "beside")]),
        ('def f(x):\n    raise ValueError(f"{x} is told\\nanew")\n', [(2, "told"), (3, "anew")]),
        ("def f(place, start):\n    each = found = start\n", [(1, "place"), (2, "each"), (2, "found")]),
        ("class WeightLaw:\n    pass\n", [(1, "Law")]),
        ("weight_law = 0\n", [(1, "law")]),
        ("colour = 'a grey line'\n", [(1, "colour"), (1, "grey")]),
        ('message = "3 layer(s)"\n', [(1, "layer(s)")]),
    ],
)
def test_it_finds_words_in_texts_and_names(tmp_path: Path, source: str, expected: list[tuple[int, str]]) -> None:
    assert sorted(matched(tmp_path / "a.py", source)) == sorted(expected)


@pytest.mark.parametrize(
    "source",
    [
        '"""The law of large numbers; sorted in place; four decimal places; the flaw; a bathroom."""\n',
        '"""See ``told`` and `law`.\n\n>>> told = law()\n"""\n',
        'key = {"law": 1}["law"]\n',
        "stands, once, lawn, outlaw = 1, 2, 3, 4\n",
        "import told\n",
    ],
)
def test_it_leaves_code_and_the_words_of_the_field_alone(tmp_path: Path, source: str) -> None:
    assert matched(tmp_path / "a.py", source) == []


def test_it_reads_the_prose_of_documentation_and_not_its_code(tmp_path: Path) -> None:
    page = """Title
=====

The law.

.. code-block:: python

   law = told

Code::

   anew

End ``law`` beside.
"""
    assert sorted(matched(tmp_path / "a.rst", page)) == [(4, "law"), (14, "beside")]
    assert matched(tmp_path / "a.md", "Text\n\n```console\n$ told\n```\n\nbehind\n") == [(7, "behind")]


def test_it_reports_long_sentences(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("Short one.\n\n" + "A" + " word" * 25 + ". Short again.\n", encoding="utf-8")
    sentences, count = words.long_sentences(path)
    assert [line for line, _ in sentences] == [3]
    assert count == 3


def test_an_exception_that_matches_nothing_is_a_problem() -> None:
    exception = {"path": "src/initscope/errors.py", "word": "zebra", "reason": "none"}
    problems = words.check({**SETTINGS, "files": ["src/initscope/errors.py"], "exception": [exception]})
    assert any("zebra" in problem and "matches nothing" in problem for problem in problems)
    too_many = words.check({**SETTINGS, "files": [], "exception": [exception] * 21})
    assert any("21 exceptions" in problem for problem in too_many)


def test_the_project_uses_none_of_the_words() -> None:
    assert words.check(SETTINGS) == []
    assert all(exception["reason"] for exception in SETTINGS.get("exception", []))
    missing = [entry for entry in SETTINGS["not_rewritten"] if not (words.ROOT / entry).exists()]
    assert missing == []
