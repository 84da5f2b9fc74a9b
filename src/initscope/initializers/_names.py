"""Weight laws by name, as the command line takes them. To add one, add a line to `LAWS`."""

from __future__ import annotations

from collections.abc import Callable

from initscope.errors import InputError
from initscope.initializers._base import Initializer
from initscope.initializers._looks_linear import LooksLinear
from initscope.initializers._orthogonal import DeltaOrthogonal, Orthogonal
from initscope.initializers._present import Present
from initscope.initializers._scaled import Glorot, He, LeCun
from initscope.initializers._zero_sum import ZeroSum

__all__ = ["LAWS", "named"]

LAWS: dict[str, Callable[[], Initializer]] = {
    "he": He,
    "he-fan-out": lambda: He(mode="fan_out"),
    "glorot": Glorot,
    "lecun": LeCun,
    "orthogonal": Orthogonal,
    "delta-orthogonal": DeltaOrthogonal,
    "looks-linear": LooksLinear,
    "zero-sum": ZeroSum,
    "present": Present,
}


def named(name: str) -> Initializer:
    """The weight law of that name.

    >>> named("he-fan-out").mode
    'fan_out'
    """
    if name not in LAWS:
        raise InputError(f"no weight law is called {name!r}; known: {', '.join(LAWS)}")
    return LAWS[name]()
