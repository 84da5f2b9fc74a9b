"""Which modules are one step of a model, and which are traced into. Prediction and measurement have the same rows for
it: both trace by this, and a rule of a user's own declares its modules here."""

from __future__ import annotations

import torch
from torch import nn

from initscope.graph.activations import activation_row
from initscope.graph.modules import ActivationLayer
from initscope.graph.op_traits import role_of

__all__ = ["computes_as", "declare_whole", "hides_attention", "hides_steps", "stays_whole"]

_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
_HIDING = (
    nn.Transformer, nn.TransformerEncoder, nn.TransformerDecoder, nn.TransformerEncoderLayer,
    nn.TransformerDecoderLayer, nn.MultiheadAttention, nn.RNNBase,
)  # fmt: skip
_DECLARED: set[type[nn.Module]] = {ActivationLayer}


def declare_whole(*kinds: type[nn.Module]) -> None:
    """Let modules of these classes, and of subclasses that keep their ``forward``, be one step each.

    Parameters
    ----------
    kinds : types
        Classes of modules.
    """
    _DECLARED.update(kinds)


def stays_whole(module: nn.Module) -> bool:
    """Return whether a module is one step.

    Single steps are layers of torch and subclasses with a known role that compute the same; scripted modules, which
    cannot be traced into; and modules that `declare_whole` named. Containers and models are not.

    Parameters
    ----------
    module : nn.Module
        A module of a model.

    Returns
    -------
    bool

    >>> class Own(nn.Linear): pass
    >>> stays_whole(nn.ReLU()), stays_whole(Own(2, 2)), stays_whole(nn.Sequential())
    (True, True, False)
    """
    if _is_layer_of_torch(type(module)) or isinstance(module, torch.jit.ScriptModule):
        return True
    kinds = [kind for kind in type(module).__mro__ if kind in _DECLARED]
    row = activation_row(module)
    kinds += [row.module] if row is not None and row.module is not None else []
    if role_of(module) != "other":
        kinds += [kind for kind in type(module).__mro__ if _is_layer_of_torch(kind)]
    return any(computes_as(module, kind) for kind in kinds)


def hides_steps(module: nn.Module) -> bool:
    """Return whether a module of torch does several steps in one call: transformers, attention, recurrent loops.

    Parameters
    ----------
    module : nn.Module
        A module of a model.

    Returns
    -------
    bool

    >>> hides_steps(nn.MultiheadAttention(4, 2)), hides_steps(nn.Linear(4, 2))
    (True, False)
    """
    if not isinstance(module, _HIDING) or isinstance(module, torch.jit.ScriptModule):
        return False
    return computes_as(module, next(kind for kind in _HIDING if isinstance(module, kind)))


def hides_attention(model: nn.Module) -> bool:
    """Return whether a model holds torch's own attention, whose steps have rows of their own, and no recurrent loops.

    Parameters
    ----------
    model : nn.Module
        Any model.

    Returns
    -------
    bool

    >>> hides_attention(nn.TransformerEncoderLayer(4, 2)), hides_attention(nn.LSTM(4, 2))
    (True, False)
    """
    modules = list(model.modules())
    attends = any(isinstance(module, nn.MultiheadAttention) and hides_steps(module) for module in modules)
    return attends and not any(isinstance(module, nn.RNNBase) for module in modules)


def _is_layer_of_torch(kind: type) -> bool:
    ours = kind.__module__.startswith(("torch.nn", "torch.ao.nn")) and issubclass(kind, nn.Module)
    return ours and kind is not nn.Module and not issubclass(kind, _CONTAINERS)


def computes_as(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Return whether a module computes what ``kind`` or torch defines, not what a user's subclass or a patch does."""
    return not has_own_forward(module) and class_computes_as(type(module), kind)


def has_own_forward(module: nn.Module) -> bool:
    """Return whether a module has a ``forward`` that its class does not define, as patched modules have."""
    attributes = vars(module)
    return "forward" in attributes or "_conv_forward" in attributes


def class_computes_as(cls: type[nn.Module], kind: type[nn.Module]) -> bool:
    """Return `computes_as` for modules whose ``forward`` is that of their class ``cls``."""
    if cls is kind and cls.__module__.startswith("torch.nn.modules."):
        return True
    for method in ("forward", "_conv_forward"):
        definer = next((base for base in cls.__mro__ if method in vars(base)), nn.Module)
        if not (issubclass(kind, definer) or definer.__module__.startswith("torch.")):
            return False
    return True
