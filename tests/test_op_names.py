"""What an op is, is known in ``graph/`` only: no other file compares names of PyTorch's ops, or keeps a set of them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from torch import nn

import initscope
from initscope.graph import ACTIVATIONS
from initscope.graph.ops import OPS

PACKAGE = Path(initscope.__file__).parent
CLASSES = {name for name, kind in vars(nn).items() if isinstance(kind, type) and issubclass(kind, nn.Module)}
NAMES = {*OPS, *(name for row in ACTIVATIONS for name in row.names), *CLASSES, *(name.lower() for name in CLASSES)}
WORDS = {  # of plain English, or of our own: two of them are no set of ops
    "data", "dot", "embedding", "identity", "linear", "max", "mean", "min", "norm", "normal", "normalize", "random",
    "split", "sum", "to", "type", "uniform", "zeros",
}  # fmt: skip
OP_NAMES = {"kind", "target", "function", "__name__", "name"}
"""Attributes and variables that hold the name of an op."""

OTHER_VOCABULARY = {
    "theory/activations/_catalogue.py": "names of formulas, which do not import torch",
    "reproductions/_study_networks.py": "activations of the networks that the study builds",
    "reproductions/cosine_scatter.py": "names of data",
    "reproductions/region_counts.py": "names of result columns",
}


def _strings(node: ast.AST) -> list[str]:
    """The strings that an expression is, or holds as a tuple, list or set."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    items = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else []
    items = node.keys if isinstance(node, ast.Dict) else items
    return [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]


def _holds_an_op_name(node: ast.AST) -> bool:
    """Whether an expression is the name of an op: ``row.kind``, ``row.kind.lower()``, ``call_name(target)``."""
    if isinstance(node, ast.Call):
        called = node.func
        if isinstance(called, ast.Name):
            return called.id == "call_name"
        return isinstance(called, ast.Attribute) and (
            called.attr in ("call_name", "kind") or _holds_an_op_name(called.value)
        )
    if isinstance(node, ast.Attribute):
        of_a_trait = isinstance(node.value, ast.Attribute) and node.value.attr in ("pools", "normalizes")
        return node.attr in OP_NAMES - {"name"} and not of_a_trait  # row.name of an activation is the theory's
    return isinstance(node, ast.Name) and node.id in OP_NAMES


def offences(source: str) -> list[str]:
    """Lines of a file that compare names of ops, or hold several of them."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            compared = [name for side in sides for name in _strings(side) if name in NAMES]
            if compared and any(map(_holds_an_op_name, sides)):
                found.append(f"{node.lineno}: compares {', '.join(compared)}")
        elif isinstance(node, (ast.Tuple, ast.List, ast.Set, ast.Dict)):
            names = _strings(node)
            ops = [name for name in names if name in NAMES - WORDS]
            if len(ops) > 1 and 2 * len(ops) > len(names) and not _is_all(node, source):
                found.append(f"{node.lineno}: holds {', '.join(ops)}")
    return found


def _is_all(node: ast.AST, source: str) -> bool:
    """Whether a list is that of the names which a module exports."""
    before = source.splitlines()[: getattr(node, "lineno", 1)]
    return any("__all__" in line for line in before[-1:])


@pytest.mark.parametrize(
    "source",
    [
        'row.kind == "softmax"',
        'row.kind.lower() in ("relu", "tanh")',
        'call_name(node.target) != "add"',
        'type(module).__name__ == "Linear"',
        '_MOVES = frozenset({"view", "reshape"})',
        'TABLE = {"matmul": 1, "bmm": 2}',
        'name not in ("getitem", "index_select")',
    ],
)
def test_the_lint_sees_comparisons_and_sets_of_op_names(source):
    assert offences(source)


@pytest.mark.parametrize(
    "source",
    [
        'row.role == "norm"',
        'row.role in ("activation", "embedding")',
        'distribution in ("normal", "uniform")',
        'module.padding_mode == "zeros"',
        'sigma.name == "relu"',
        '__all__ = ["relu", "tanh"]',
        'kind in ("nngp", "ntk")',
        'row.traits.pools.kind == "max"',
    ],
)
def test_the_lint_leaves_other_words_alone(source):
    assert not offences(source)


def test_nobody_outside_of_graph_compares_names_of_ops():
    """All other code reads ``row.traits`` or ``node.traits``."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        lines = [] if file.startswith("graph/") else offences(path.read_text(encoding="utf-8"))
        if lines:
            found[file] = lines
    unknown = {file: lines for file, lines in found.items() if file not in OTHER_VOCABULARY}
    assert not unknown, f"read traits instead (initscope/traits.py): {unknown}"
    assert set(found) == set(OTHER_VOCABULARY), "an exception that excuses nothing: delete its line"
