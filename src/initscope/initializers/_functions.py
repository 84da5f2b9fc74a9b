"""The initializers as functions in the style of `torch.nn.init`: they fill a layer or a whole model in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from initscope.initializers._looks_linear import LooksLinear
from initscope.initializers._orthogonal import DeltaOrthogonal, Orthogonal
from initscope.initializers._scaled import Glorot, He, LeCun
from initscope.initializers._zero_sum import ZeroSum

if TYPE_CHECKING:
    import torch

    from initscope.initializers._base import AnyModule

__all__ = ["delta_orthogonal_", "glorot_", "he_", "lecun_", "looks_linear_", "orthogonal_", "zero_sum_"]


def he_(module: AnyModule, *, generator: torch.Generator | None = None, **options: Any) -> AnyModule:
    """Fill ``module`` by `He`, which gets the options.

    >>> import torch
    >>> _ = he_(torch.nn.Linear(100, 50), mode="fan_out", generator=torch.Generator().manual_seed(0))
    """
    return He(**options).fill_(module, generator=generator)


def glorot_(module: AnyModule, *, generator: torch.Generator | None = None, **options: Any) -> AnyModule:
    """Fill ``module`` by `Glorot`, which gets the options."""
    return Glorot(**options).fill_(module, generator=generator)


def lecun_(module: AnyModule, *, generator: torch.Generator | None = None, **options: Any) -> AnyModule:
    """Fill ``module`` by `LeCun`, which gets the options."""
    return LeCun(**options).fill_(module, generator=generator)


def looks_linear_(module: AnyModule, *, generator: torch.Generator | None = None, **options: Any) -> AnyModule:
    """Fill ``module`` by `LooksLinear`, which gets the options."""
    return LooksLinear(**options).fill_(module, generator=generator)


def orthogonal_(module: AnyModule, *, generator: torch.Generator | None = None, **options: Any) -> AnyModule:
    """Fill ``module`` by `Orthogonal`, which gets the options."""
    return Orthogonal(**options).fill_(module, generator=generator)


def delta_orthogonal_(module: AnyModule, *, generator: torch.Generator | None = None, **options: Any) -> AnyModule:
    """Fill ``module`` by `DeltaOrthogonal`, which gets the options."""
    return DeltaOrthogonal(**options).fill_(module, generator=generator)


def zero_sum_(module: AnyModule, *, generator: torch.Generator | None = None, **options: Any) -> AnyModule:
    """Fill ``module`` by `ZeroSum`, which gets the options: ``zero_sum_(model, strength=0.5, compensate=True)``."""
    return ZeroSum(**options).fill_(module, generator=generator)
