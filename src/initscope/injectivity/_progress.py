"""A progress bar on stderr, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from initscope._utils.progress import stage

__all__ = ["bar"]


@contextmanager
def bar(title: str, unit: str, show: bool) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the progress so far."""
    if not show:
        with stage(title):
            yield lambda _: None
        return
    from tqdm import tqdm

    with tqdm(desc=title, unit=f" {unit}", leave=False) as line:
        yield lambda done: line.update(done - line.n) and None
