"""`redrawn`: the same model with new weights at every step."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from initscope._utils.randomness import torch_generator
from initscope.graph import Graph, Inputs, hides_attention, trace
from initscope.graph.borrowing import copy_of, snapshot
from initscope.initializers import Initializer

__all__ = ["redrawn"]


def redrawn(model: nn.Module, initializer: Initializer, draws: int, inputs: Inputs, *, seed: int) -> Iterator[Graph]:
    """Yield the traced model with new weights, ``draws`` times, all in one copy, which is restored before each draw.

    Parameters
    ----------
    model : nn.Module
        Not touched.
    initializer : Initializer
        Fills the copy.
    draws, seed : int
        Number of draws, and their seed.
    inputs : Inputs
        A few samples to trace the model on.
    """
    device = next((parameter.device for parameter in model.parameters()), "cpu")
    generator = torch_generator(seed, "weights", device)
    copied = copy_of(model)
    traced = trace(copied, inputs, opened=hides_attention(copied))
    set_back = snapshot(copied)
    for _ in range(draws):
        set_back()
        with torch.no_grad():
            for ours, theirs in zip(copied.parameters(), model.parameters(), strict=True):
                ours.copy_(theirs)
        initializer.fill_(copied, generator=generator)
        yield traced
