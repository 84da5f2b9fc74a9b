"""`Trace`: the steps of a model, their names, and one way to run them with somebody watching."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import fx, nn

from initscope.errors import InputError
from initscope.graph._inputs import Inputs, Whole, bind
from initscope.graph._light import FewUnits
from initscope.graph._names import Names
from initscope.graph._nodes import is_step
from initscope.graph._randomness import random_layers, random_notes
from initscope.graph._recorded import Recording, Step, tensor_sizes
from initscope.graph._symbolic import Watch, run_graph, symbolic_graph
from initscope.graph.calls import OPERATORS, call_name
from initscope.graph.op_traits import INPUT, traits_of_call, traits_of_module
from initscope.graph.untouched import leaves_no_trace, runnable
from initscope.graph.whole import hides_steps, stays_whole
from initscope.traits import Role, Traits

__all__ = ["Node", "Step", "Trace", "attends", "trace"]

Node = fx.Node | Step
"""A step of a model: both kinds have ``op``, ``name``, ``target``, ``args``, ``kwargs`` and ``all_input_nodes``."""

_ATTENTION = frozenset({"scaled_dot_product_attention", "softmax", "Softmax"})


@dataclass(frozen=True)
class Trace:
    """The steps of a model that have a row, inputs first, in the order in which they run.

    Attributes
    ----------
    model : nn.Module
        The model, not a copy.
    root : nn.Module
        What is run: the model, or a bare layer wrapped as a model of one step.
    steps : tuple of Node
        The inputs (``op`` "placeholder") and calls of modules ("call_module"), functions ("call_function") and methods
        ("call_method") that carry data: no sizes, no parameters. After an in-place step its result is read from it, and
        through other views of the tensor from a step `overwritten` behind it.
    graph_module : fx.GraphModule or None
        The symbolic trace with all its nodes, sizes and parameters included; None where ``fallback`` says why.
    fallback : str
        Why the model could not be traced symbolically, or empty. Its steps are then those of one run, with the sizes of
        that run (``batch`` samples) among their arguments.
    batch : int or None
        Number of samples of the run that was recorded.
    notes : dict
        What is to be told of a step: that it reads random numbers.
    returned : tuple of Node
        The steps whose values the model returns, in the order of its output.
    opened : bool
        Whether modules that hide their steps are looked into.
    output_sizes : dict
        Of a run that was recorded: shapes of the model's own output, by place.
    """

    model: nn.Module
    root: nn.Module
    steps: tuple[Node, ...]
    names: dict[Node, str]
    modules: dict[Node, nn.Module]
    graph_module: fx.GraphModule | None
    fallback: str = ""
    batch: int | None = None
    notes: dict[Node, str] = field(default_factory=dict)
    returned: tuple[Node, ...] = ()
    opened: bool = False
    output_sizes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def note(self, node: Node) -> str:
        """What is to be told of a step, or nothing."""
        return self.notes.get(node, "")

    def module(self, node: Node) -> nn.Module | None:
        """The module that a step calls, if it calls one."""
        return self.modules.get(node)

    def name(self, node: Node) -> str:
        """Name of a step's row: the module's path; for functions the path of the module that calls them and their name.

        A module that is called again is ``fc (2)``.
        """
        return self.names[node]

    def kind(self, node: Node) -> str:
        """What a step does: the module's class, the function's or the method's name."""
        return _kind(node, self.module(node))

    def role(self, node: Node) -> Role:
        """What an op does to the values that pass it."""
        return self.traits(node).role

    def traits(self, node: Node) -> Traits:
        """What an op is."""
        return self._traits[node]

    @cached_property
    def _traits(self) -> dict[Node, Traits]:
        return {node: self._traits_of(node) for node in self.steps}

    def _traits_of(self, node: Node) -> Traits:
        if node.op == "placeholder":
            return INPUT
        module = self.module(node)
        if module is not None:
            return traits_of_module(module, str(node.target))
        reads = sum(parent in self.names for parent in node.all_input_nodes)
        return traits_of_call(
            call_name(node.target) or self.kind(node), node.args, node.kwargs, reads, self._weight_names(node)
        )

    def _weight_names(self, node: Node) -> tuple[str, ...]:
        """Paths of the parameters with two or more axes that a call reads."""
        if isinstance(node, Step):
            return tuple(self._parameter_names[id(t)] for t in node.constants if id(t) in self._parameter_names)
        known = self._parameter_names.values()
        return tuple(str(p.target) for p in node.all_input_nodes if p.op == "get_attr" and p.target in known)

    @cached_property
    def _parameter_names(self) -> dict[int, str]:
        return {id(parameter): name for name, parameter in self.root.named_parameters() if parameter.dim() > 1}

    def within(self, node: Node) -> str:
        """Path of the module that a step is, or that calls it; empty for the model itself."""
        if isinstance(node, Step):
            return node.within
        stack = list(node.meta.get("nn_module_stack", {}).values())
        return str(node.target) if node.op == "call_module" else (stack[-1][0] if stack else "")

    def reads(self, node: Node) -> tuple[int, ...]:
        """Places among ``steps`` of those whose values a step reads."""
        return tuple(self.places[parent] for parent in node.all_input_nodes if parent in self.places)

    @cached_property
    def places(self) -> dict[Node, int]:
        """The place of every step."""
        return {step: place for place, step in enumerate(self.steps)}

    def run(self, inputs: Inputs, watch: Watch) -> Any:
        """Run the model on ``inputs`` and call ``watch(step, args, kwargs, output)`` right after each step.

        What ``watch`` returns takes the output's place, unless it is None. Values are seen before any later in-place
        step overwrites them. Returns the model's output. Steps of a model that branches on its data may be missing in
        a run, or differ from those of the trace; those that the trace does not have are not watched.
        """
        inputs = inputs.map(torch.clone)  # what is written into them is the model's affair
        if self.graph_module is not None:
            return run_graph(self.graph_module, inputs, watch)
        by_name = {name: node for node, name in self.names.items()}
        is_leaf = {id(module) for module in self.modules.values()}

        def pass_on(name: str, args: Any, kwargs: Any, output: Any) -> Any:
            node = by_name.get(name)
            return None if node is None else watch(node, args, kwargs, output)

        return Recording(self.root, lambda module: id(module) in is_leaf, pass_on, opened=self.opened).run(inputs)


def attends(traced: Trace) -> bool:
    """Whether a model has attention: a call of it, or a softmax."""
    return any(traced.kind(step) in _ATTENTION for step in traced.steps)


def trace(
    model: nn.Module,
    inputs: Any = None,
    *,
    is_leaf: Callable[[nn.Module], bool] = lambda module: False,
    recorded: int = 64,
    opened: bool = False,
) -> Trace:
    """The steps of ``model``.

    Parameters
    ----------
    model : nn.Module
        Left as it is; for its present mode (training or evaluation).
    inputs : Inputs or one batch of data, optional
        What the model will be called with (see `bind`): says which arguments are given and which keep their defaults,
        and what to run it on where symbolic tracing fails. Without it every argument without a default is one tensor.
    is_leaf : callable
        Says which modules stay whole, beside those that always do (`initscope.graph.stays_whole`).
    recorded : int
        Of how many samples the run is recorded, where symbolic tracing fails.
    opened : bool
        Look also into the modules of torch that hide steps (`initscope.graph.hides_steps`): a run is recorded then.
    """
    model = runnable(model, values=False)

    def whole(module: nn.Module) -> bool:
        return (stays_whole(module) and not (opened and hides_steps(module))) or is_leaf(module)

    root = Whole(model) if whole(model) else model
    bound = None if inputs is None else bind(model, inputs)
    with leaves_no_trace(model):
        for module in random_layers(model):  # what they do in training mode is off in every run, and no step
            module.training = False
        hiding = next((m for m in model.modules() if opened and bound is not None and hides_steps(m)), None)
        if hiding is not None and bound is not None:
            reason = f"nn.{type(hiding).__name__} is opened: its steps are those of one run"
            return _recorded(model, root, bound, whole, reason, recorded, opened=True)
        try:
            graph_module = symbolic_graph(root, bound, whole)
        except Exception as error:  # fx raises whatever the user's forward raises on symbolic values
            told = str(error).strip().partition("\n")[0].partition(". ")[0]  # what follows is torch's advice
            reason = f"{type(error).__name__}: {told}"
            if bound is None:
                raise InputError(
                    f"{type(model).__name__} cannot be traced without an input ({reason}); give one to run it on"
                ) from error
            reason = f"torch.fx cannot trace it ({reason}): its steps are those of one run"
            return _recorded(model, root, bound, whole, reason, recorded)
    steps = tuple(node for node in graph_module.graph.nodes if is_step(node))
    given = None if bound is None else bound.names(root)
    modules = {step: graph_module.get_submodule(str(step.target)) for step in steps if step.op == "call_module"}
    notes = random_notes(graph_module.graph.nodes, steps)
    names, last = _names(steps, given), next(iter(reversed(graph_module.graph.nodes)))
    returned = tuple(node for node in last.all_input_nodes if node in names)
    return Trace(model, root, steps, names, modules, graph_module, notes=notes, returned=returned)


def _names(steps: tuple[fx.Node, ...], inputs: list[str] | None) -> dict[Node, str]:
    names, result = Names(), dict[Node, str]()
    placeholders = [node for node in steps if node.op == "placeholder"]
    result.update(zip(placeholders, Names.inputs(inputs or [str(p.target) for p in placeholders]), strict=True))
    for node in steps[len(placeholders) :]:
        if node.op == "call_module":
            result[node] = names.unique(str(node.target))
        else:
            stack = list(node.meta.get("nn_module_stack", {}).values())
            result[node] = names.function(stack[-1][0] if stack else "", _kind(node, None))
    return result


def _recorded(
    model: nn.Module,
    root: nn.Module,
    inputs: Inputs,
    is_leaf: Callable[[nn.Module], bool],
    reason: str,
    samples: int,
    *,
    opened: bool = False,
) -> Trace:
    """Run the first samples once and keep what was called."""
    few = inputs.pick(slice(0, samples)) if any(inputs.batched) else inputs
    recording, output = _run_lightly(model, root, few, is_leaf, opened) or _run(root, few, is_leaf, opened)
    steps = tuple(recording.steps)
    return Trace(
        model=model,
        root=root,
        steps=steps,
        names={step: step.name for step in steps},
        modules={step: step.module for step in steps if step.module is not None},
        graph_module=None,
        fallback=reason,
        batch=few.samples if any(few.batched) else None,
        notes=recording.notes,
        returned=recording.made_by(output),
        opened=opened,
        output_sizes=tensor_sizes(output),
    )


def _run_lightly(
    model: nn.Module, root: nn.Module, inputs: Inputs, is_leaf: Callable[[nn.Module], bool], opened: bool
) -> tuple[Recording, Any] | None:
    """A recording of a run that leaves most products out, with its output; None where that may have changed steps."""
    light, recording = FewUnits(), Recording(root, is_leaf, opened=opened)
    try:
        with leaves_no_trace(model), light:
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


def _kind(node: Node, module: nn.Module | None) -> str:
    if node.op == "placeholder":
        return "input"
    if module is not None:
        return type(module).__name__
    if node.op == "call_method":
        return str(node.target)
    name: str = getattr(node.target, "__name__", str(node.target))
    if name == "__get__":  # x.mT and other attributes, as a run sees them
        name = str(getattr(getattr(node.target, "__self__", None), "__name__", name))
    return OPERATORS.get(node.target, name)
