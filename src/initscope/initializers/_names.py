"""Initializers by their names on the command line. To add one, add a line to `INITIALIZERS`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace

from initscope.errors import InputError, did_you_mean
from initscope.initializers._base import Initializer
from initscope.initializers._looks_linear import LooksLinear
from initscope.initializers._orthogonal import DeltaOrthogonal, Orthogonal
from initscope.initializers._present import Present
from initscope.initializers._scaled import Glorot, He, LeCun
from initscope.initializers._zero_sum import ZeroSum

__all__ = ["INITIALIZERS", "AnyInitializer", "as_initializer", "named"]

INITIALIZERS: dict[str, Callable[[], Initializer]] = {
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
    """Return the initializer of that name, with options after a colon, as in ``he:gain=1.5,bias_variance=0.05``.

    >>> named("he-fan-out").mode
    'fan_out'
    >>> named("lecun:gain=1.2").gain
    1.2
    """
    kind, _, options = name.partition(":")
    if kind not in INITIALIZERS:
        raise InputError(
            f"no initializer is called {kind!r}{did_you_mean(kind, INITIALIZERS)}; known: {', '.join(INITIALIZERS)}"
        )
    initializer = INITIALIZERS[kind]()
    known = [field.name for field in fields(initializer) if isinstance(getattr(initializer, field.name), float)]
    values = {}
    for part in filter(None, options.split(",")):
        key, _, text = part.partition("=")
        try:
            values[key] = float(text)
        except ValueError:
            values[key] = math.nan
        if key not in known or not math.isfinite(values[key]):
            raise InputError(
                f"initializer {name!r}: {part!r} is no option; {kind} takes numbers for {', '.join(known)}, "
                f"as in {kind}:{known[0]}=0.1"
            )
    return replace(initializer, **values) if values else initializer


AnyInitializer = Initializer | type[Initializer] | str
"""How an initializer may be given: ready, as a class whose defaults are taken, or by its name on the command line."""


def as_initializer(initializer: AnyInitializer | None) -> Initializer | None:
    """Return the initializer for a name, an initializer or None.

    >>> as_initializer("he") == as_initializer(He) == He()
    True
    """
    if isinstance(initializer, str):
        return named(initializer)
    made = initializer() if isinstance(initializer, type) else initializer
    if made is not None and not isinstance(made, Initializer):
        raise InputError(
            f"{initializer!r} is no initializer; give initscope.initializers.He(), or a name: {', '.join(INITIALIZERS)}"
        )
    return made
