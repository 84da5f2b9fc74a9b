"""Find words to avoid and British spellings in texts and names; ``./run lint`` runs it.

``words.toml`` holds the terms, the files that are not rewritten yet, and the exceptions with their reasons.
``python tools/words.py --sentences`` lists long sentences; their length is a report and never fails the check.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MOST_WORDS = 25
MOST_EXCEPTIONS = 20

_FENCED = re.compile(r"^```.*?^```", re.M | re.S)
_LITERAL_BLOCK = re.compile(
    r"^(?P<indent> *)(?:\.\. (?:code-block|code|math|jupyter-execute|parsed-literal|raw)::|(?!\.\. )[^\n]*::$)[^\n]*\n"
    r"(?:\s*\n)*(?:(?P=indent) +[^\n]*\n?|[ ]*\n)*",
    re.M,
)
_LITERAL = re.compile(r"``.+?``|(?<![`\w])`[^`\n]+`(?!`)|:\w+:`[^`]*`|https?://\S+|\$[^$\n]+\$", re.S)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*])|\n\s*\n")


@dataclass(frozen=True)
class Term:
    """A word to avoid: where it counts (``text`` or ``name``) and what to write instead."""

    pattern: re.Pattern[str]
    use: str
    scope: str


@dataclass(frozen=True)
class Match:
    """A word to avoid that stands in a file."""

    path: str
    line: int
    word: str
    use: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word!r}: write {self.use}"


@dataclass(frozen=True)
class Piece:
    """A text or a name of a file, and the line where it begins."""

    line: int
    content: str
    scope: str


def read_terms(settings: dict[str, Any]) -> list[Term]:
    """Return the terms of ``words.toml``: words in texts, words as names or as parts of names, and spellings."""
    terms = []
    for pattern, use in settings["text"].items():
        terms.append(Term(re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])", re.I), use, "text"))
    for pattern, use in settings["name"].items():
        terms.append(Term(re.compile(rf"\A_*(?:{pattern})_*\Z"), use, "name"))
    for pattern, use in settings["name_part"].items():
        terms.append(Term(re.compile(rf"(?:\A|_)(?:{pattern})(?=_|\Z)", re.I), use, "name"))
    for pattern, use in settings["spelling"].items():
        terms.append(Term(re.compile(rf"(?<![a-z])(?:{pattern})", re.I), use, "text"))
        terms.append(Term(re.compile(rf"(?:{pattern})", re.I), use, "name"))
    return terms


def python_pieces(source: str) -> Iterator[Piece]:
    """Yield the comments, the texts (strings that hold a space) and the defined names of a Python file."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Piece(token.start[0], token.string, "text")
    inside: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            inside.update(id(part) for part in ast.walk(node) if part is not node)
            content = "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield Piece(node.lineno, content, "text")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            if re.search(r"\s", node.value.strip()):
                yield Piece(node.lineno, without_literals(node.value), "text")
        else:
            for name in _defined(node):
                yield Piece(node.lineno, name, "name")  # type: ignore[attr-defined]


def _defined(node: ast.AST) -> list[str]:
    """Return the names that a node defines."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [re.sub(r"(?<=[a-z])(?=[A-Z])", "_", node.name)]
    if isinstance(node, ast.arg):
        return [node.arg]
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return [node.id]
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return [node.attr]
    return []


def without_literals(text: str) -> str:
    """Return prose only: code blocks, literals, links and formulas become blanks, and lines keep their numbers."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    for pattern in (_FENCED, _LITERAL_BLOCK, _LITERAL):
        text = pattern.sub(blank, text)
    return re.sub(r"^ *(?:>>>|\.\.\.) .*$", "", text, flags=re.M)


def pieces(path: Path) -> list[Piece]:
    """Return what a person reads in a file."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return list(python_pieces(source))
    return [Piece(1, without_literals(source), "text")]


def matches(path: Path, name: str, terms: list[Term]) -> Iterator[Match]:
    """Yield the words to avoid of a file, which reports call ``name``."""
    for piece in pieces(path):
        for term in terms:
            if term.scope == piece.scope:
                for match in term.pattern.finditer(piece.content):
                    line = piece.line + piece.content.count("\n", 0, match.start())
                    yield Match(name, line, " ".join(match[0].strip("_").split()), term.use)


def long_sentences(path: Path) -> tuple[list[tuple[int, str]], int]:
    """Return the sentences of a file with more than ``MOST_WORDS`` words, with their lines, and the number of all."""
    too_long, count = [], 0
    for piece in pieces(path):
        if piece.scope == "name":
            continue
        position = 0
        for sentence in _SENTENCE_END.split(piece.content):
            position = piece.content.index(sentence, position)
            words = re.findall(r"[^\W\d_][\w'-]*", sentence)
            count += bool(words)
            if len(words) > MOST_WORDS:
                too_long.append((piece.line + piece.content.count("\n", 0, position), " ".join(sentence.split())))
    return too_long, count


def files(settings: dict[str, Any]) -> list[Path]:
    """Return the files to read: the sources, the documentation and the examples."""
    listed = [path for pattern in settings["files"] for path in sorted(ROOT.glob(pattern))]
    return [path for path in listed if path.is_file() and "_build" not in path.parts]


def check(settings: dict[str, Any]) -> list[str]:
    """Return what is wrong: words to avoid, exceptions that match nothing, and too many exceptions."""
    terms, exceptions = read_terms(settings), settings.get("exception", [])
    used: set[int] = set()
    problems: list[str] = []
    for path in files(settings):
        name = path.relative_to(ROOT).as_posix()
        if is_pending(name, settings):
            continue
        for match in matches(path, name, terms):
            allowed = [
                number
                for number, exception in enumerate(exceptions)
                if name.startswith(exception["path"]) and re.fullmatch(exception["word"], match.word, re.I)
            ]
            used.update(allowed)
            if not allowed:
                problems.append(str(match))
    for number, exception in enumerate(exceptions):
        if number not in used:
            problems.append(f"words.toml: the exception {exception['word']!r} in {exception['path']} matches nothing")
    if len(exceptions) > MOST_EXCEPTIONS:
        problems.append(f"words.toml: {len(exceptions)} exceptions; at most {MOST_EXCEPTIONS} are allowed")
    return problems


def is_pending(name: str, settings: dict[str, Any]) -> bool:
    """Return whether a file is on the list of those that are not rewritten yet."""
    return any(name == entry or name.startswith(f"{entry}/") for entry in settings["not_rewritten"])


def main(arguments: list[str]) -> int:
    """Print problems, or long sentences with ``--sentences``; return the exit code."""
    settings = tomllib.loads((ROOT / "tools" / "words.toml").read_text(encoding="utf-8"))
    chosen = [path for path in files(settings) if not is_pending(path.relative_to(ROOT).as_posix(), settings)]
    if arguments and arguments[0] != "--sentences":  # some files, on the list or not
        terms = read_terms(settings)
        for argument in arguments:
            folder = Path(argument)
            for path in sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]:
                for match in matches(path, str(path), terms):
                    print(match)
        return 0
    too_long, count = 0, 0
    for path in chosen:
        sentences, number = long_sentences(path)
        too_long, count = too_long + len(sentences), count + number
        if arguments:
            for line, sentence in sentences:
                print(f"{path.relative_to(ROOT)}:{line}: {sentence}")
    problems = check(settings)
    print("\n".join(problems), end="\n" if problems else "")
    print(f"words: {len(problems)} problems in {len(chosen)} files")
    print(f"{too_long} of {count} sentences have more than {MOST_WORDS} words (python tools/words.py --sentences)")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
