"""`Node`: one op of a model, with everything that is known about it before a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from initscope.graph.calls import OPERATORS, call_name
from initscope.graph.op_traits import INPUT, traits_of_call, traits_of_module
from initscope.traits import Role, Traits

__all__ = ["Node", "kind_of", "leaves", "make_node", "mapped_nodes"]


@dataclass(frozen=True, eq=False)
class Node:
    """One op of a model. Two nodes are equal only if they are the same object.

    Attributes
    ----------
    index : int
        Number of its row; -1 for a node without a row: a size, a parameter, a mask, one of several results.
    name : str
        Name of its row: the module's path, or for functions the path of the module that calls them and their name. A
        module that is called again is ``fc (2)``.
    op : str
        "placeholder" (an input of the model), "call_module", "call_function", "call_method" or "get_attr" (a parameter
        or buffer).
    target : object
        The called object: path of the module, the function, name of the method, or path of the parameter.
    args, kwargs : tuple, dict
        Its arguments; values that the model computes are represented by nodes.
    kind : str
        The module's class, or the function's name. For display, not for comparisons: use ``traits`` instead.
    function : str
        Name of the function of PyTorch that is called (see `call_name`); empty for modules and foreign functions.
    module : nn.Module or None
        The module that is called.
    path : str
        Path of the module that it is, or that calls it; empty for the model itself.
    traits : Traits
        What it is.
    reads : tuple of int
        Numbers of the rows whose values it reads.
    inputs : tuple of Node
        The nodes whose values it reads; of a recorded run those with a row, of a symbolic trace all.
    note : str
        A remark for its row, for example that it reads random numbers.
    output_shapes : dict
        Shapes of the tensors that it returned, by their position in its output, in a recorded run.
    no_grad : bool
        Whether the model calls it with gradients turned off.
    role : Role
        Its effect on the values in one word: the role in its traits.
    row : bool
        Whether it has a row.
    """

    index: int
    name: str
    op: str
    target: Any
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    kind: str = ""
    function: str = ""
    module: nn.Module | None = None
    path: str = ""
    traits: Traits = INPUT
    reads: tuple[int, ...] = ()
    inputs: tuple[Node, ...] = ()
    note: str = ""
    output_shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    no_grad: bool = False
    role: Role = field(init=False)
    row: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "role", self.traits.role)
        object.__setattr__(self, "row", self.index >= 0)

    @property
    def constants(self) -> list[Tensor]:
        """Tensors among its arguments, or those of nodes without a row in them, that do not depend on the inputs."""
        return [leaf for leaf in leaves((self.args, self.kwargs)) if isinstance(leaf, Tensor)]

    def __repr__(self) -> str:
        return self.name


def leaves(value: Any) -> Iterator[Any]:
    """Return everything in nested arguments, with nodes without a row replaced by what they read."""
    if isinstance(value, Node) and not value.row:
        value = (value.args, value.kwargs)
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def mapped_nodes(value: Any, node_of: Any, kinds: type | tuple[type, ...]) -> Any:
    """Apply ``node_of`` to all objects of ``kinds`` in nested tuples, lists, dicts and slices."""
    if isinstance(value, kinds):
        return node_of(value)
    if isinstance(value, tuple):
        items = [mapped_nodes(item, node_of, kinds) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list):
        return [mapped_nodes(item, node_of, kinds) for item in value]
    if isinstance(value, dict):
        return {key: mapped_nodes(item, node_of, kinds) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(mapped_nodes(part, node_of, kinds) for part in (value.start, value.stop, value.step)))
    return value


def make_node(
    index: int,
    name: str,
    op: str,
    target: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    module: nn.Module | None,
    path: str,
    inputs: tuple[Node, ...],
    weight_names: tuple[str, ...] = (),
    note: str = "",
    output_shapes: dict[str, tuple[int, ...]] | None = None,
    no_grad: bool = False,
) -> Node:
    """Return a node with its kind, its function, its traits and the rows that it reads."""
    kind = type(module).__name__ if module is not None else kind_of(op, target, module)
    reads = tuple([parent.index for parent in inputs if parent.row])
    function = "" if op in ("placeholder", "get_attr", "call_module") else call_name(target)
    if op in ("placeholder", "get_attr"):
        traits = INPUT if op == "placeholder" else Traits(role="constant")
    elif module is not None:
        traits = traits_of_module(module, str(target))
    else:
        traits = traits_of_call(function or kind, args, kwargs, len(reads), weight_names)
    return Node(
        index=index,
        name=name,
        op=op,
        target=target,
        args=args,
        kwargs=kwargs,
        kind=kind,
        function=function,
        module=module,
        path=path,
        traits=traits,
        reads=reads,
        inputs=inputs,
        note=note,
        output_shapes=output_shapes or {},
        no_grad=no_grad,
    )


def kind_of(op: str, target: Any, module: nn.Module | None) -> str:
    """Return the displayed kind of an op: the module's class, the function's or the method's name."""
    if op == "placeholder":
        return "input"
    if module is not None:
        return type(module).__name__
    if isinstance(target, str):
        return target
    name: str = getattr(target, "__name__", str(target))
    if name == "__get__":  # x.mT and other attributes, as a run sees them
        name = str(getattr(getattr(target, "__self__", None), "__name__", name))
    return OPERATORS.get(target, name)
