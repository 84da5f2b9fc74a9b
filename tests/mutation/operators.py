"""`mutants`: small changes of a program, each of which a test should notice."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
ARITHMETIC = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.MatMult: ast.Add,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change of a source file.

    Attributes
    ----------
    kind : str
        The operator: comparison, arithmetic, constant, boolean, return, dropped call, dropped raise.
    line, function : int, str
        Line of the change, and the names of the classes and functions around it.
    old, new : str
        The source before and after it.
    begin, end : int
        Where ``old`` is, in bytes of the UTF-8 source.
    """

    kind: str
    line: int
    function: str
    old: str
    new: str
    begin: int
    end: int

    def applied(self, source: str) -> str:
        """Return the changed source."""
        raw = source.encode()
        return (raw[: self.begin] + self.new.encode() + raw[self.end :]).decode()


def mutants(source: str) -> list[Mutant]:
    """Return all mutants of a Python source, in the order of its lines."""
    raw, tree = source.encode(), ast.parse(source)
    starts = [0]
    for line in raw.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for function, node in _nodes(tree, ""):
        for kind, change in _changes(node):
            begin = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + node.end_col_offset
            new = ast.unparse(change)
            if isinstance(change, ast.expr) and not isinstance(change, ast.Constant):
                new = f"({new})"
            old = raw[begin:end].decode()
            found.append(Mutant(kind, node.lineno, function, old, new, begin, end))
    return sorted(found, key=lambda mutant: (mutant.begin, mutant.end, mutant.new))


def _nodes(node: ast.AST, function: str) -> Iterator[tuple[str, ast.AST]]:
    """Nodes with the name of the function around them, without what runs no computation: annotations, f-strings."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "type_params"):
            continue
        if isinstance(node, ast.keyword) and node.arg == "strict":
            continue  # of zip: a guard
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr) or _is_for_types(child):
                continue
            inner = function
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{function}.{child.name}".lstrip(".")
            yield inner, child
            yield from _nodes(child, inner)


def _is_for_types(node: ast.AST) -> bool:
    """Whether this is for type checkers and readers, as ``frozen=True`` of a dataclass."""
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("cast", "TypeVar", "dataclass")


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Compare():
            for index, operator in enumerate(node.ops):
                changed = copy.deepcopy(node)
                changed.ops[index] = COMPARISONS[type(operator)]()
                yield "comparison", changed
        case ast.BinOp() if type(node.op) in ARITHMETIC and not _is_text(node):
            yield "arithmetic", ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
        case ast.AugAssign() if type(node.op) in ARITHMETIC and not _is_text(node.value):
            yield "arithmetic", ast.AugAssign(node.target, ARITHMETIC[type(node.op)](), node.value)
        case ast.UnaryOp(op=ast.USub()) if not isinstance(node.operand, ast.Constant):
            yield "arithmetic", node.operand
        case ast.UnaryOp(op=ast.Not()):
            yield "boolean", node.operand
        case ast.BoolOp():
            yield "boolean", ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values)
        case ast.Constant(value=bool()):
            yield "constant", ast.Constant(not node.value)
        case ast.Constant(value=int()):
            yield "constant", ast.Constant(node.value + 1)
        case ast.Constant(value=float()):
            yield "constant", ast.Constant(2 * node.value if node.value else 1.0)
        case ast.Return() if node.value is not None and not _is_none(node.value):
            yield "return", ast.Return(ast.Constant(None))
        case ast.Raise():
            yield "dropped raise", ast.Pass()
        case ast.Expr(value=ast.Call()):
            yield "dropped call", ast.Pass()


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_text(node: ast.AST) -> bool:
    """Whether an operator joins or formats text."""
    pieces = (node.left, node.right) if isinstance(node, ast.BinOp) else (node,)
    return any(
        isinstance(piece, ast.JoinedStr) or (isinstance(piece, ast.Constant) and isinstance(piece.value, str))
        for piece in pieces
    ) or any(isinstance(piece, ast.BinOp) and _is_text(piece) for piece in pieces)
