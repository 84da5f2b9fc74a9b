"""`model_digest`: a digest of a model's code and weights, to distinguish models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from initscope._utils.content import digest_of
from initscope.models.user_modules import source_digests

if TYPE_CHECKING:
    import torch

__all__ = ["model_digest"]


def model_digest(model: torch.nn.Module, *, values: bool = True) -> str:
    """Return a digest of a model's structure, of the user's code that defines its modules, and of its state dict.

    Without ``values``, only the names, shapes and types of the state dict count, not the weights.
    """
    state = {name: value for name, value in model.state_dict().items() if hasattr(value, "dtype")}
    sources = source_digests({type(module).__module__ for module in model.modules()})
    shapes = [f"{name} {tuple(value.shape)} {value.dtype}" for name, value in state.items()]
    contents = (_bytes(value) for value in state.values()) if values else ()
    return digest_of([repr(model), *sources, *shapes, *contents])


def _bytes(value: torch.Tensor) -> Any:
    import torch

    return value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
