"""A model as a chain of blocks, each an affine map and an activation, so that it can be inverted block by block.

The nodes come from `initscope.graph`. If they do not form such a chain (skips, max-pooling, attention), the chain gives
the reason, and the gradient solver is used.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from initscope.errors import InputError, did_you_mean
from initscope.graph import Graph, Inputs, Node, as_module, trace
from initscope.invert.nonlinearities import INVERTIBLE
from initscope.invert.operators import AFFINE_MODULES, BATCH_NORMS, Affine, infer_input_shape

__all__ = ["Chain", "LayerBlock", "chain_of", "prepared", "run_to", "step_named", "traced"]

Part = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class LayerBlock:
    """Affine parts, then an activation (or None); ``name`` is the name of its last node."""

    name: str
    parts: tuple[Part, ...]
    activation: nn.Module | None


@dataclass(frozen=True)
class Chain:
    """Blocks in the order in which they run; if empty, ``reason`` says why the model is not a chain."""

    blocks: tuple[LayerBlock, ...]
    reason: str = ""

    def operators(
        self, input_shape: Sequence[int] | None, output_shape: Sequence[int], dtype: torch.dtype
    ) -> list[Affine]:
        """Return the affine map of every block for inputs of this shape, by default inferred from the outputs."""
        if input_shape is None:
            everything = [part for block in self.blocks for part in block.parts]
            input_shape = infer_input_shape(everything, output_shape)
        operators: list[Affine] = []
        for block in self.blocks:
            operators.append(Affine(block.parts, input_shape, dtype))
            input_shape = operators[-1].output_shape
        if tuple(input_shape) != tuple(output_shape):
            raise InputError(
                f"outputs have shape {tuple(output_shape)} each, but the model makes {tuple(input_shape)} of inputs of "
                f"shape {operators[0].input_shape}; give the outputs of this layer, or another input_shape"
            )
        return operators


def prepared(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Return a copy of the model in evaluation mode and this precision, with fixed weights."""
    try:
        return copy.deepcopy(model).eval().to(dtype).requires_grad_(False)
    except Exception as error:  # modules may hold anything: locks, files, tensors inside of a graph
        raise InputError(f"{type(model).__name__} cannot be copied: {error}") from error


def traced(model: nn.Module, input_shape: Sequence[int] | None, dtype: torch.dtype) -> Graph:
    """Return the model's steps; a model that branches on its data needs ``input_shape`` to be run once."""
    example = None if input_shape is None else torch.zeros(1, *input_shape, dtype=dtype)
    return trace(model, example)


def step_named(graph: Graph, layer: str | None) -> Node:
    """Return the node called ``layer``; the last one if None.

    A module's name may also be that of its last node's module.
    """
    rows = [node for node in graph.nodes if node.op != "placeholder"]
    if not rows:
        raise InputError("the model has no ops: its output is its input, so there is nothing to invert")
    if layer is None:
        return rows[-1]
    names = [node.name for node in rows]
    if layer in names:
        return rows[names.index(layer)]
    inside = [node for node, name in zip(rows, names) if name.startswith(f"{layer}.")]
    if inside:
        return inside[-1]
    shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    raise InputError(f"the model has no layer {layer!r}{did_you_mean(layer, names)}; its layers are: {shown}")


def chain_of(graph: Graph, last: Node) -> Chain:
    """Return the nodes up to ``last`` as blocks."""
    blocks: list[LayerBlock] = []
    parts: list[Part] = []
    rows = list(graph.nodes)
    inputs = [node for node in rows if node.op == "placeholder"]
    if len(inputs) != 1:
        return Chain((), f"the model has {len(inputs)} inputs")
    before: Node = inputs[0]
    for node in rows[len(inputs) : rows.index(last) + 1]:
        name = node.name
        if list(node.inputs) != [before]:
            return Chain((), f"{name} reads more than the node before it (a skip, or several values)")
        made = _understood(node)
        if made is None:
            return Chain((), f"{name} ({node.kind}) is neither affine nor an activation with an inverse")
        if isinstance(made, nn.Module) and type(made) in INVERTIBLE and not isinstance(made, nn.Identity):
            blocks.append(LayerBlock(name, tuple(parts) or (nn.Identity(),), made))
            parts = []
        else:
            parts.append(made)
        before = node
    if parts:
        blocks.append(LayerBlock(last.name, tuple(parts), None))
    return Chain(tuple(blocks))


def _understood(node: Node) -> Part | None:
    module = node.module
    if module is not None:
        if isinstance(module, BATCH_NORMS) and module.running_mean is None:
            return None
        return module if isinstance(module, AFFINE_MODULES) or type(module) in INVERTIBLE else None
    options = {key: value for key, value in node.kwargs.items() if key != "input"}
    try:
        made = as_module(node.function, node.args[1:], options)
    except (TypeError, ValueError):  # options that only the function knows
        return None
    if isinstance(made, nn.Flatten):
        return functools.partial(torch.flatten, start_dim=1) if (made.start_dim, made.end_dim) == (1, -1) else None
    return made if node.role == "activation" and type(made) in INVERTIBLE else None


class _Reached(Exception):
    """Raised when the requested node has run."""


def run_to(graph: Graph, last: Node, x: Tensor) -> Tensor:
    """Return the output of node ``last`` on the batch ``x``; gradients flow, later nodes are not run."""
    outputs: list[Tensor] = []
    is_end = last is graph.nodes[-1]

    def watch(node: Node, args: Any, kwargs: Any, output: Any) -> None:
        if node is last:
            outputs.append(output)
            if not is_end:
                raise _Reached

    with contextlib.suppress(_Reached):
        graph.execute(Inputs((x,)), watch)
    if not outputs or not isinstance(outputs[0], Tensor):
        raise InputError(f"node {last.name!r} does not return a single tensor in this run; choose another layer")
    return outputs[0]
