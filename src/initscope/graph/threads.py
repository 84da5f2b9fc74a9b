"""One torch thread for small work, all of the user's for large.

On a machine that is busy, threads that wait for each other at the end of every small step spin, and cost many times
the work itself. So what runs inside of `borrowed` runs on one thread; a recording goes on with the user's number
of threads once it has done `LARGE` multiplications, some seconds of one thread. The count is of the model and the data,
not of the clock: the same run takes the same threads, and so has the same rounding.

``torch.set_num_threads`` holds for the thread that calls it and for those that first use torch afterwards. The user's
other threads keep theirs; one that starts while a model is measured takes one thread until it asks for more.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

__all__ = ["LARGE", "all_threads", "multiplications_per_value", "one_thread"]

LARGE = 1e11
"""Multiplications of a recording from which on it takes all threads."""

_outside: list[int] = []  # the user's number of threads; of the one thread that is inside, the outermost context first


def one_thread() -> Callable[[], None]:
    """Go on with one thread; what is returned puts the number back that was there."""
    before = torch.get_num_threads()
    _outside.append(before)
    if before > 1:
        torch.set_num_threads(1)

    def restore() -> None:
        _outside.pop()
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)

    return restore


def all_threads() -> None:
    """Go on with the threads that the user had, until the innermost context is left."""
    if _outside and torch.get_num_threads() != _outside[0]:
        torch.set_num_threads(_outside[0])


def multiplications_per_value(module: nn.Module | None) -> float:
    """Return about how many multiplications a value of a module's output takes.

    Each position of its output sees all of its weights; without any, each value is seen once.
    """
    if module is None or isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        return 1.0
    total, units = 0, 0
    for parameter in module.parameters():
        if parameter.dim() > 1:
            total += parameter.numel()
            units = units or len(parameter)
    return total / max(1, units) if total else 1.0
