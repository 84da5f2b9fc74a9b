"""`trace`: list the ops of a model, symbolically where the model allows it, else by recording one run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from initscope.errors import InputError
from initscope.graph.borrowing import borrowed, runnable
from initscope.graph.few_units import FewUnits
from initscope.graph.graph import Graph
from initscope.graph.inputs import Inputs, Whole, bind
from initscope.graph.random_layers import random_layers
from initscope.graph.recording import Recording, tensor_shapes
from initscope.graph.sequential import sequential_trace
from initscope.graph.single_ops import hides_steps, stays_whole
from initscope.graph.symbolic import nodes_in, symbolic_trace

__all__ = ["trace"]


def trace(
    model: nn.Module,
    inputs: Any = None,
    *,
    is_leaf: Callable[[nn.Module], bool] | None = None,
    recorded: int = 64,
    opened: bool = False,
) -> Graph:
    """Return the steps of ``model``.

    Parameters
    ----------
    model : nn.Module
        The model; it is not changed. The trace is for its present mode (training or evaluation).
    inputs : Inputs or one batch of data, optional
        Arguments of the later calls (see `bind`): they determine which arguments keep their defaults, and the inputs of
        a run if symbolic tracing fails. Without it, every argument without a default is one tensor.
    is_leaf : callable, optional
        Function that says which modules are single ops, in addition to those that always are
        (`initscope.graph.stays_whole`).
    recorded : int
        Number of samples of the recorded run, if symbolic tracing fails.
    opened : bool
        Look also into the modules of torch that hide steps (`initscope.graph.hides_steps`): a run is recorded then.

    Returns
    -------
    Graph
        The nodes that have a row, and a method to run them.
    """
    model = runnable(model, values=False)

    def whole(module: nn.Module) -> bool:
        return (stays_whole(module) and not (opened and hides_steps(module))) or (
            is_leaf is not None and is_leaf(module)
        )

    root = Whole(model) if whole(model) else model
    bound = None if inputs is None else bind(model, inputs)
    with borrowed(model):
        for module in random_layers(model):  # what they do in training mode is off in every run, and no step
            module.training = False
        hiding = next((m for m in model.modules() if hides_steps(m)), None) if opened and bound is not None else None
        if hiding is not None and bound is not None:
            reason = f"nn.{type(hiding).__name__} is opened: its steps are those of one run"
            return _recorded(model, root, bound, whole, reason, recorded, opened=True)
        try:
            traced = sequential_trace(root, bound, whole) or symbolic_trace(root, bound, whole)
        except Exception as error:  # fx raises whatever the user's forward raises on symbolic values
            message = str(error).strip().partition("\n")[0].partition(". ")[0]  # what follows is torch's advice
            reason = f"{type(error).__name__}: {message}"
            if bound is None:
                raise InputError(
                    f"{type(model).__name__} cannot be traced without an input ({reason}); give one to run it on"
                ) from error
            reason = f"torch.fx cannot trace it ({reason}): its steps are those of one run"
            return _recorded(model, root, bound, whole, reason, recorded)
    nodes = tuple([node for node in traced.calls if node.row])
    returned = tuple(dict.fromkeys(nodes_in(traced.output)))
    return Graph(model, root, nodes, traced, returned=tuple(node for node in returned if node.row))


def _recorded(
    model: nn.Module,
    root: nn.Module,
    inputs: Inputs,
    is_leaf: Callable[[nn.Module], bool],
    reason: str,
    samples: int,
    *,
    opened: bool = False,
) -> Graph:
    """Run the first samples once and keep what was called."""
    few = inputs.pick(slice(0, samples)) if any(inputs.batched) else inputs
    recording, output = _run_lightly(model, root, few, is_leaf, opened) or _run(root, few, is_leaf, opened)
    nodes, returned = recording.nodes(output)
    return Graph(
        model=model,
        root=root,
        nodes=nodes,
        fallback=reason,
        batch=few.samples if any(few.batched) else None,
        returned=returned,
        opened=opened,
        output_shapes=tensor_shapes(output),
    )


def _run_lightly(
    model: nn.Module, root: nn.Module, inputs: Inputs, is_leaf: Callable[[nn.Module], bool], opened: bool
) -> tuple[Recording, Any] | None:
    """Return a recording of a run that skips most products, with its output.

    None if that may have changed the steps.
    """
    light, recording = FewUnits(), Recording(root, is_leaf, opened=opened)
    try:
        with borrowed(model), light:
            output = recording.run(inputs.map(torch.clone))
    except Exception:  # its own, or that of a model that looks at its values
        return None
    return None if light.doubtful else (recording, output)


def _run(root: nn.Module, inputs: Inputs, is_leaf: Callable[[nn.Module], bool], opened: bool) -> tuple[Recording, Any]:
    recording = Recording(root, is_leaf, opened=opened)
    try:
        return recording, recording.run(inputs.map(torch.clone))
    except Exception as error:
        raise inputs.refused(error) from error
