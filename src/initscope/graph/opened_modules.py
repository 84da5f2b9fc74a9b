"""Modules of torch that do several steps in one call, run step by step: attention, and the layers of a recurrent loop.

Every step makes the same call as the module itself, so that the result is the module's own output, bit by bit.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["RecurrentLayer", "is_loop", "joined_states", "opened_attention", "recurrent_layers"]

_LOOPS = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})


def opened_attention() -> Callable[..., Any]:
    """Run `F.multi_head_attention_forward` so that its calls of other functions are visible.

    The code is torch's own; only the question whether somebody overrides it as a whole has another answer. It is made
    for every call, because programs replace functions of `torch.nn.functional` while they run.
    """
    whole = F.multi_head_attention_forward
    scope = dict(vars(F)) | {"has_torch_function": lambda tensors: False}
    opened = types.FunctionType(whole.__code__, scope, whole.__name__, whole.__defaults__, whole.__closure__)
    opened.__kwdefaults__ = whole.__kwdefaults__
    return opened


class RecurrentLayer(NamedTuple):
    """One layer of a recurrent loop: its inputs, its output, and its gates or its bounded activation."""

    number: int
    inputs: Tensor
    output: tuple[Tensor, ...]
    gates: Tensor | None
    bounded_by: Callable[[Tensor], Tensor]


def is_loop(function: Any, args: tuple[Any, ...]) -> bool:
    """Whether a call is a loop over time whose layers can run one by one: no packed sequences, no dropout between."""
    if getattr(function, "__name__", "") not in _LOOPS or len(args) != 9 or not isinstance(args[3], bool):
        return False
    dropout, training = args[5], args[6]
    return not (training and dropout > 0)


def recurrent_layers(
    function: Any, args: tuple[Any, ...]
) -> Generator[RecurrentLayer, tuple[Tensor, ...] | None, None]:
    """Run the layers one after the other, each by the same call with the weights of one layer.

    A value that is sent back, unless None, replaces a layer's output.
    """
    values, state, weights, biases, layers, _, training, both_ways, batch_first = args
    states = state if isinstance(state, (tuple, list)) else (state,)
    directions, per_layer = 2 if both_ways else 1, len(weights) // layers
    for index in range(layers):
        layer_weights = list(weights[index * per_layer : (index + 1) * per_layer])
        start = [part[index * directions : (index + 1) * directions] for part in states]
        given: Any = tuple(start) if isinstance(state, (tuple, list)) else start[0]
        output = function(values, given, layer_weights, biases, 1, 0.0, training, both_ways, batch_first)
        name = function.__name__
        gates = _gates(name, values, output[0], start[0], layer_weights, bool(batch_first), bool(biases), directions)
        replaced = yield RecurrentLayer(
            index, values, output, gates, torch.tanh if name == "rnn_tanh" else torch.sigmoid
        )
        output = output if replaced is None else replaced
        values = output[0]


def joined_states(outputs: list[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Return the module's output: the last layer's values, and the last states of all layers."""
    if len(outputs) == 1:
        return outputs[0]
    states = [torch.cat([output[part] for output in outputs]) for part in range(1, len(outputs[0]))]
    return (outputs[-1][0], *states)


@torch.no_grad()
def _gates(
    name: str,
    values: Tensor,
    hidden: Tensor,
    first: Tensor,
    weights: list[Tensor],
    batch_first: bool,
    biases: bool,
    directions: int,
) -> Tensor | None:
    """Return the gates of a layer's forward direction at all times, computed from the input and output of the loop.

    For tanh its values.
    """
    projected = len(weights) // directions == (5 if biases else 3)
    if name == "rnn_relu" or projected:
        return None
    size = hidden.shape[-1] // directions
    if name == "rnn_tanh":
        return hidden[..., :size]
    along = 1 if batch_first and values.dim() == 3 else 0
    start = first[0].unsqueeze(along)
    before = torch.cat([start, hidden[..., :size].narrow(along, 0, hidden.shape[along] - 1)], dim=along)
    sums = F.linear(values, weights[0]) + F.linear(before, weights[1])
    if biases:
        sums = sums + weights[2] + weights[3]
    parts = torch.split(sums, size, dim=-1)
    # torch's order: input, forget, cell, output of the LSTM; reset, update, new of the GRU
    chosen = [parts[0], parts[1], parts[3]] if name == "lstm" else [parts[0], parts[1]]
    return torch.sigmoid(torch.cat(chosen, dim=-1))
