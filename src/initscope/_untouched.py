"""A measuring tool leaves no trace: whatever runs inside these contexts, the user's model is as before afterwards."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

__all__ = ["leaves_no_trace"]

_guarded: set[int] = set()  # models inside the context: to guard them again would only cost time


@contextmanager
def _attributes_kept(model: nn.Module) -> Iterator[None]:
    """On leaving, also by an exception, every module has the attributes, submodules, hooks and mode it had before.

    What attributes refer to is kept, not values that are written to tensors in place.
    """
    before = []
    for module in model.modules():
        containers = {name: dict(value) for name, value in vars(module).items() if isinstance(value, dict)}
        before.append((module, dict(vars(module)), containers))
    try:
        yield
    finally:
        for module, attributes, containers in before:
            vars(module).clear()
            vars(module).update(attributes)
            for name, content in containers.items():
                container = vars(module)[name]
                if not _same(container, content):
                    container.clear()
                    container.update(content)


def _same(container: dict[object, object], content: dict[object, object]) -> bool:
    """Whether both hold the very same objects under the same keys, so that nothing needs to be written."""
    return list(container) == list(content) and all(container[key] is content[key] for key in content)


@contextmanager
def leaves_no_trace(model: nn.Module) -> Iterator[None]:
    """Run the model freely inside, without gradients; afterwards it and the random states are as before.

    Kept: attributes, hooks and modes of modules, values of buffers, ``requires_grad`` and ``grad`` of parameters, the
    random states of torch, NumPy and Python. Values of parameters are not copied: what runs inside must not write them
    (weights are drawn in a copy).
    """
    if id(model) in _guarded:
        with torch.no_grad():
            yield
        return
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    parameters = [(parameter, parameter.requires_grad, parameter.grad) for parameter in model.parameters()]
    devices = sorted({tensor.device.index or 0 for tensor in model.parameters() if tensor.is_cuda})
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002  (the state users may rely on)
    with torch.random.fork_rng(devices=devices), torch.no_grad(), _attributes_kept(model):
        _guarded.add(id(model))
        try:
            yield
        finally:
            _guarded.remove(id(model))
            random.setstate(python_state)
            np.random.set_state(numpy_state)  # noqa: NPY002
            for buffer, values in buffers:
                buffer.copy_(values)
            for parameter, needed, gradient in parameters:
                parameter.requires_grad_(needed)
                parameter.grad = gradient
