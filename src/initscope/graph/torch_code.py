"""Return whether a run of a model executes only torch's own layers: then less must be saved."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from torch import nn

from initscope.errors import InputError

__all__ = ["OtherThreads", "only_torch_code"]

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class OtherThreads:
    """A hook that refuses calls from other threads than that in which it was made."""

    def __init__(self, name: str) -> None:
        self._name, self._ours = name, threading.get_ident()

    def __call__(self, *call: Any) -> None:
        """Raise an error, unless the call comes from that thread."""
        if threading.get_ident() != self._ours:
            raise InputError(f"this {self._name} is being measured in another thread; wait for it, or give it a copy")


def only_torch_code(modules: Iterable[nn.Module]) -> bool:
    """Return whether no code but torch's own layers' runs: these write no parameters, and drop only by their module.

    Parameters
    ----------
    modules : iterable of nn.Module
        All modules of a model.

    Returns
    -------
    bool
        False also for an embedding that rescales what it looks up.
    """
    for module in modules:
        attributes = vars(module)
        if not type(module).__module__.startswith("torch.nn.modules.") or "forward" in attributes:
            return False
        if attributes.get("max_norm") is not None:
            return False
        for name in _HOOKS:
            hooks = attributes.get(name)
            if hooks and not all([type(hook) is OtherThreads for hook in hooks.values()]):  # noqa: C419
                return False
    return True
