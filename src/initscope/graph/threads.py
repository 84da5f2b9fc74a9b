"""One torch thread for small work, all of the user's for large.

On a busy machine, threads that wait for each other at the end of every small step spin, which costs many times the work
itself. So code inside `borrowed` runs on one thread; a recording continues with the user's number of threads after
`LARGE` multiplications, some seconds on one thread. The count depends on the model and the data, not on the time: the
same run uses the same threads, and so has the same rounding.

``torch.set_num_threads`` affects the calling thread, and threads that first use torch afterwards. The user's other
threads are not affected; a thread that starts while a model is measured uses one thread until it requests more.
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
    """Continue with one thread; return a function that restores the previous number."""
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
    """Continue with the user's number of threads until the innermost context ends."""
    if _outside and torch.get_num_threads() != _outside[0]:
        torch.set_num_threads(_outside[0])


def multiplications_per_value(module: nn.Module | None) -> float:
    """Return the approximate number of multiplications per value of a module's output.

    Each position of its output uses all of its weights; without weights, each value is used once.
    """
    if module is None or isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        return 1.0
    total, units = 0, 0
    for parameter in module.parameters():
        if parameter.dim() > 1:
            total += parameter.numel()
            units = units or len(parameter)
    return total / max(1, units) if total else 1.0
