"""The index of statements: numbers and words find the statement that a reader means."""

from __future__ import annotations

import re

import pytest

import initscope
from initscope.errors import InputError
from initscope.theory.statements import SOURCES, find_statements, statements


@pytest.mark.parametrize(
    ("source", "which", "function"),
    [
        ("cnn", 1, "expected_inner"),
        ("cnn", 2, "inner_product_filters"),
        ("cnn", "lemma 4", "orlicz_norm"),
        ("cnn", "dynamical isometry", "jacobian_spectrum"),
        ("cnn", "eq. 10", "patch_norms"),
        ("cnn", 3, "relu_cosine_bounds"),
        ("cnn", "theorem 3", "relu_cosine_bounds"),
        ("cnn", "eq. 2", "relu_cosine"),
        ("cnn", "eq 9", "expected_cosine"),
        ("norms", "lemma 2", "relu_norm_bound"),
        ("norms", "lemma 5", "relu_norm_bound"),
        ("injectivity", "euler threshold", "euler_threshold"),
        ("norms", "theorem 2", "theorem2_width"),
        ("injectivity", "gordon", "gordon_bound"),
    ],
)
def test_a_number_or_words_find_the_statement(source, which, function):
    assert function in {name.rpartition(".")[2] for name in initscope.theorem(source, which).functions}


def test_words_alone_search_all_sources():
    assert "signs" in initscope.theorem("sign embedding").title
    assert len({statement.source for statement in find_statements("theorem 2")}) > 1


def test_every_statement_is_found_by_its_own_title():
    missed = [s.title for s in statements() if s not in find_statements(f"{s.source} {s.title}")]
    assert not missed


def test_unknown_statements_name_the_nearest():
    with pytest.raises(InputError, match=r"no statement matches 'cnn 77'; nearest: cnn: .*initscope theorem --list"):
        initscope.theorem("cnn", 77)


def test_every_source_has_statements():
    assert {statement.source for statement in statements()} == set(SOURCES)


@pytest.mark.parametrize("statement", statements(), ids=lambda statement: statement.title)
def test_every_statement_is_written_out(statement):
    """Whole sentences, at most three; formulas of lines that a terminal shows; when it holds."""
    assert re.fullmatch(r"[A-Z0-9'\"].*[.]", statement.words)
    assert len(re.split(r"(?<=\.) (?=[A-Z])", statement.words)) <= 3
    assert statement.formula
    assert max(len(line) for line in statement.formula.splitlines()) <= 125
    assert statement.assumptions.endswith(".")
    assert ":doc:" not in statement.note
