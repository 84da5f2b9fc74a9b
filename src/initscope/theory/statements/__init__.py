"""The index of statements: every theorem, lemma, figure and equation of the sources, found by name in `theorem`.

There is one TOML file per section; ``README.md`` describes the fields. Nothing here imports the functions of
statements, so a search is fast.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from initscope.errors import InputError
from initscope.results import Result

__all__ = ["SOURCES", "Statement", "find_statements", "statements", "theorem", "with_imports"]

SOURCES = {
    "cnn": "Nachum, Hązła, Gastpar, Khina 2022: A Johnson–Lindenstrauss framework for randomly initialized CNNs",
    "norms": "Arpit, Bengio 2019: The benefits of over-parameterization at initialization in deep ReLU networks",
    "talk": "Bronstein 2016 (with Giryes, Sapiro): Deep neural networks: a universal classification strategy?",
    "injectivity": "Maillard et al. 2022: Injectivity of ReLU networks",
    "depth": "beyond the sources: signal propagation through depth",
    "attention": "beyond the sources: attention with random weights",
}
"""Short name of each source, as `theorem` takes it, and its title."""

_KINDS = "theorem|corollary|lemma|proposition|remark|definition|conjecture|example|figure|section|footnote|eq"
_LABEL = re.compile(rf"\b({_KINDS})s?\.? ([\d.]*\d(?:(?:, | to | and )[\d.]*\d)*)", re.IGNORECASE)
_EQUATION = {"equation": "eq", "eqs": "eq", "eq.": "eq", "fig": "figure", "fig.": "figure", "thm": "theorem"}


@dataclass(frozen=True)
class Statement(Result):
    """One statement of a source.

    Attributes
    ----------
    source : str
        Short name of the source, a key of `SOURCES`.
    title : str
        Its number in the source and its topic.
    words, formula, assumptions : str
        The statement in words, as formulas in Unicode (one on each line), and when it holds.
    functions : tuple of str
        Public functions that compute it.
    example : str
        Code to paste, imports included.
    checked_against : str
        The independent value that a test compares the example with.
    tests, reproductions : tuple of str
        Files of tests, and names for ``initscope reproduce``.
    see : tuple of str
        Related functions.
    note : str
        A remark, such as a known slip of the source.
    beyond : bool
        Whether it goes beyond the source.
    """

    source: str
    title: str
    words: str
    formula: str
    assumptions: str
    functions: tuple[str, ...]
    example: str
    checked_against: str
    tests: tuple[str, ...]
    reproductions: tuple[str, ...]
    see: tuple[str, ...]
    note: str
    beyond: bool

    @property
    def labels(self) -> frozenset[str]:
        """Numbers that the statement has in its source, such as ``theorem 3`` and ``eq 13``."""
        return frozenset(_labels(self.title))

    def table(self) -> list[dict[str, Any]]:
        """Return one row: source, title, functions and reproductions."""
        functions, shown = ", ".join(self.functions), ", ".join(self.reproductions)
        return [{"source": self.source, "statement": self.title, "functions": functions, "reproductions": shown}]


def theorem(source: str, which: str | int | None = None) -> Statement:
    """Return the statement of a source, by its number or by words of its title.

    Parameters
    ----------
    source : str
        ``"cnn"``, ``"norms"``, ``"talk"``, ``"injectivity"`` (see `SOURCES`); without ``which`` words to search for.
    which : str or int, optional
        ``3`` for theorem 3, ``"lemma 2"``, ``"eq. 12"``, ``"figure 1"``, or words such as ``"euler"``.

    Returns
    -------
    Statement
        The best match; `find_statements` returns all.

    >>> theorem("cnn", 3).functions
    ('initscope.theory.images.relu_cosine_bounds',)
    """
    query = source if which is None else f"{source} {which}"
    return find_statements(query)[0]


def find_statements(query: str) -> tuple[Statement, ...]:
    """Return the statements that match ``query``, best first.

    Parameters
    ----------
    query : str
        The name of a source, a number such as ``theorem 3`` or a bare ``3``, and words of a title or function, in any
        order: ``"cnn theorem 3"``, ``"norms lemma 2"``, ``"sign embedding"``.

    Returns
    -------
    tuple of Statement
        At least one; nothing that matches is an `InputError` that names the nearest.
    """
    wanted = _Query.read(query)
    ranked = [(wanted.score(statement), statement) for statement in statements()]
    best = max(score for score, _ in ranked)
    if best <= 0:
        raise InputError(_unknown(query, wanted))
    matches = [(score, statement) for score, statement in ranked if score == best or score >= max(1.0, best / 2)]
    return tuple(statement for _, statement in sorted(matches, key=lambda match: -match[0]))


@cache
def statements() -> tuple[Statement, ...]:
    """Return all statements of the index, source by source."""
    known = [statement for path in sorted(Path(__file__).parent.glob("*.toml")) for statement in _read(path)]
    return tuple(sorted(known, key=lambda statement: list(SOURCES).index(statement.source)))


def _read(path: Path) -> Iterator[Statement]:
    section = tomllib.loads(path.read_text(encoding="utf-8"))
    for row in section["row"]:
        yield Statement(
            source=section["source"],
            title=row["statement"],
            words=_one_line(row["words"]),
            formula=row["formula"].strip(),
            assumptions=_one_line(row["assumptions"]),
            functions=tuple(row["functions"]),
            example=with_imports(row["example"].strip(), row["functions"]),
            checked_against=row["against"],
            tests=tuple(row["tests"]),
            reproductions=tuple(row["reproductions"]),
            see=tuple(row.get("see", ())),
            note=_without_markup(row.get("note", "")),
            beyond=row.get("beyond", False),
        )


def _one_line(text: str) -> str:
    """Return a text that is wrapped in its file as one line."""
    return " ".join(text.split())


def _without_markup(note: str) -> str:
    """Return a note, which may have roles and citations of reStructuredText, as plain text."""
    return re.sub(r"\[(\w+)\]_", r"[\1]", re.sub(r":doc:`(\w+)`", r"docs/\1.rst", _one_line(note)))


def with_imports(example: str, functions: list[str]) -> str:
    """Return an example with the imports that it needs, so that it runs when it is pasted."""
    used = {"initscope.": "import initscope", "np.": "import numpy as np", "torch.": "import torch"}
    needed = [line for sign, line in used.items() if re.search(rf"(?<![\w.]){re.escape(sign)}", example)]
    return "\n".join([*needed, *dict.fromkeys(_import_line(name) for name in functions), "", example])


def _import_line(name: str) -> str:
    """Return the line that imports a public name; for a method, the name of its class."""
    parts = name.split(".")
    if parts[-2][0].isupper():
        parts.pop()
    return f"from {'.'.join(parts[:-1])} import {parts[-1]}"


def _labels(text: str) -> Iterator[str]:
    """Yield the numbers that a text names: ``lemmas 2 and 5`` are ``lemma 2`` and ``lemma 5``."""
    for kind, numbers in _LABEL.findall(text):
        for part in re.split(r", | and ", numbers):
            first, _, last = part.partition(" to ")
            span = range(int(first), int(last) + 1) if last and first.isdigit() else [first]
            yield from (f"{kind.lower()} {number}" for number in span)


@dataclass(frozen=True)
class _Query:
    """The query: sources, numbers and other words."""

    sources: frozenset[str]
    labels: frozenset[str]
    words: tuple[str, ...]

    @classmethod
    def read(cls, query: str) -> _Query:
        tokens = [_EQUATION.get(token, token) for token in query.lower().replace("(", " ").replace(")", " ").split()]
        text = " ".join(tokens)
        labels = set(_labels(text))
        rest = re.findall(r"[^\s,.:;'\"]+", _LABEL.sub(" ", text))
        sources = frozenset(token for token in rest if token in SOURCES)
        words = tuple(token for token in rest if token not in sources)
        if not labels and len(words) == 1 and words[0].isdigit():
            labels, words = {f"theorem {words[0]}"}, ()
        return cls(sources, frozenset(labels), words)

    def score(self, statement: Statement) -> float:
        """Return how well a statement matches; 0 if a source, a number or a word that is asked for is not in it."""
        if self.sources and statement.source not in self.sources:
            return 0.0
        if self.labels and not self.labels & statement.labels:
            return 0.0
        title = statement.title.lower()
        names = " ".join((*statement.functions, *statement.see, *statement.reproductions)).lower()
        more = f"{names} {statement.words} {statement.note}".lower()
        score = 1.0
        for word in self.words:
            stem = word.removesuffix("s")
            if stem not in title and stem not in more:
                return 0.0
            score += 2.0 if stem in title else 1.0
        first = _LABEL.match(title)
        leading = first is not None and not self.labels.isdisjoint(_labels(first[0]))
        return score + leading


def _unknown(query: str, wanted: _Query) -> str:
    """Return the message for a query without a match, with the nearest titles."""
    import difflib

    titles = {statement.title: statement for statement in statements()}
    chosen = [title for title, statement in titles.items() if not wanted.sources or statement.source in wanted.sources]
    near = difflib.get_close_matches(" ".join((*wanted.labels, *wanted.words)), chosen, n=3, cutoff=0.0)
    nearest = "; ".join(f"{titles[title].source}: {title}" for title in near)
    return f"no statement matches {query!r}; nearest: {nearest}. See: initscope theorem --list"
