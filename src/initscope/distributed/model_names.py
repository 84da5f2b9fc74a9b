"""`ModelName`: a model by name, which every worker builds for itself, once."""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any, NamedTuple

__all__ = ["ModelName", "built_model"]


class ModelName(NamedTuple):
    """A model as workers build it: its spec, a file of weights, the shape of its inputs, and a seed."""

    spec: str
    weights: str | None
    shape: tuple[int, ...]
    seed: int


_building = threading.Lock()


def built_model(model: ModelName) -> Any:
    """The model of this process. Threads that drew its weights at once would share a random state, and differ."""
    with _building:
        return _loaded(model)


@lru_cache(maxsize=1)
def _loaded(model: ModelName) -> Any:
    from initscope.models import load_model

    return load_model(model.spec, weights=model.weights, input_shape=model.shape, seed=model.seed).eval()
