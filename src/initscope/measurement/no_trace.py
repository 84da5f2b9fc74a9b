"""A measuring tool leaves no trace: random state, buffers, modes, gradients and weights of a model as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

__all__ = ["leaves_no_trace"]


@contextmanager
def leaves_no_trace(model: nn.Module) -> Iterator[None]:
    """Run the model freely inside; on leaving, also by an exception, it and torch's random state are as before.

    Parameters are not copied: what runs inside must not write to them (`measure` draws weights in a copy).
    """
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    modes = [(module, module.training) for module in model.modules()]
    devices = sorted({tensor.device.index or 0 for tensor in model.parameters() if tensor.is_cuda})
    with torch.random.fork_rng(devices=devices), torch.no_grad():
        try:
            yield
        finally:
            for buffer, before in buffers:
                buffer.copy_(before)
            for module, training in modes:
                module.training = training
