"""`ModelName`: a model by name and content, which every worker builds once per run."""

from __future__ import annotations

import threading
import uuid
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from initscope.errors import InputError
from initscope.models.contents import model_digest

if TYPE_CHECKING:
    import torch

__all__ = ["ModelName", "built_model", "named_model"]


class ModelName(NamedTuple):
    """Instructions to build a model: its spec, a file of weights, the shape of its inputs, and a seed.

    ``digest`` is that of the model which the driver built, see `model_digest`. ``run`` is unique for each run: a worker
    never uses the model of an earlier run, because a factory may read more than a digest can cover.
    """

    spec: str
    weights: str | None
    shape: tuple[int, ...]
    seed: int
    digest: str
    run: str


def named_model(spec: str, weights: str | None, shape: tuple[int, ...], seed: int) -> ModelName:
    """Build the model here, and return the name from which `built_model` builds the same model anywhere."""
    digest = model_digest(_load(spec, weights, shape, seed))
    return ModelName(spec, weights, shape, seed, digest, uuid.uuid4().hex)


_building = threading.Lock()


def built_model(model: ModelName) -> Any:
    """Return the model of this process. Threads that drew its weights at once would share a random state.

    Threads that drew its weights at once would share a random state, and differ.
    """
    with _building:
        return _verified(model)


@lru_cache(maxsize=2)
def _verified(model: ModelName) -> Any:
    """Build the model; a model that differs from the driver's is refused and not kept."""
    built = _load(model.spec, model.weights, model.shape, model.seed)
    if model_digest(built) != model.digest:
        raise InputError(
            f"model {model.spec}: this process builds another model than the driver did (other code, weights or "
            "libraries, or random numbers without the seed); copy the model's files to every worker, or give --weights"
        )
    return built


def _load(spec: str, weights: str | None, shape: tuple[int, ...], seed: int) -> torch.nn.Module:
    from initscope.models import load_model

    return load_model(spec, weights=weights, input_shape=shape, seed=seed).eval()
