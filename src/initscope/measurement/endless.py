"""`with_an_end`: refuse endless iterators of batches, instead of waiting for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from initscope.errors import InputError

__all__ = ["with_an_end"]

MOST_BATCHES = 100_000  # of data without a length


def with_an_end(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the batches; raise `InputError` after a hundred thousand batches of data without a length."""
    try:
        known = len(batches) >= 0  # type: ignore[arg-type]
    except TypeError:  # a generator, or a loader of a stream
        known = False
    for number, batch in enumerate(batches):
        if number == MOST_BATCHES and not known:
            raise InputError(
                f"the data have given {number} batches without an end; "
                "limit them with itertools.islice, or use larger batches"
            )
        yield batch
