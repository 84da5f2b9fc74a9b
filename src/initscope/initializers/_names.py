"""Weight laws by name, as the command line takes them. To add one, add a line to `LAWS`."""

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

__all__ = ["LAWS", "AnyLaw", "as_law", "named"]

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
    """The weight law of that name, with options behind a colon if wanted, as in ``he:gain=1.5,bias_variance=0.05``.

    >>> named("he-fan-out").mode
    'fan_out'
    >>> named("lecun:gain=1.2").gain
    1.2
    """
    law, _, options = name.partition(":")
    if law not in LAWS:
        raise InputError(f"no weight law is called {law!r}{did_you_mean(law, LAWS)}; known: {', '.join(LAWS)}")
    found = LAWS[law]()
    known = [field.name for field in fields(found) if isinstance(getattr(found, field.name), float)]
    values = {}
    for part in filter(None, options.split(",")):
        key, _, text = part.partition("=")
        try:
            values[key] = float(text)
        except ValueError:
            values[key] = math.nan
        if key not in known or not math.isfinite(values[key]):
            raise InputError(
                f"weight law {name!r}: {part!r} is no option; {law} takes numbers for {', '.join(known)}, "
                f"as in {law}:{known[0]}=0.1"
            )
    return replace(found, **values) if values else found


AnyLaw = Initializer | type[Initializer] | str
"""How a weight law may be given: ready, as a class whose defaults are taken, or by its name on the command line."""


def as_law(law: AnyLaw | None) -> Initializer | None:
    """The weight law that is meant; None stays None.

    >>> as_law("he") == as_law(He) == He()
    True
    """
    if isinstance(law, str):
        return named(law)
    made = law() if isinstance(law, type) else law
    if made is not None and not isinstance(made, Initializer):
        raise InputError(f"{law!r} is no weight law; give initscope.initializers.He(), or a name: {', '.join(LAWS)}")
    return made
