"""Kinds of options that commands share: whole numbers and seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter, Token

from initscope.errors import check_seed

__all__ = ["Seed", "Whole"]


def _whole(_: Any, tokens: Sequence[Token]) -> int:
    """Parse a whole number; 2.9 is an error, not 2."""
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f"{tokens[0].value} must be a whole number; for example 3") from None


def _seed(type_: Any, tokens: Sequence[Token]) -> int:
    return check_seed("seed", _whole(type_, tokens))


Whole = Annotated[int, Parameter(converter=_whole)]
Seed = Annotated[int, Parameter(converter=_seed)]
