"""Names that `Graph` had as ``Trace``, for ``inspection/`` and ``propagate/`` until they read nodes and traits.

Nothing else uses them: when both packages have moved, this file goes.
"""

from __future__ import annotations

from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from initscope.graph.node import Node
    from initscope.traits import Role, Traits

__all__ = ["OldNames"]


class OldNames:
    """What nodes answer themselves now."""

    nodes: tuple[Node, ...]

    @property
    def steps(self) -> tuple[Node, ...]:
        """``nodes``."""
        return self.nodes

    @cached_property
    def names(self) -> dict[Node, str]:
        """Names of all rows."""
        return {node: node.name for node in self.nodes}

    @cached_property
    def places(self) -> dict[Node, int]:
        """Numbers of all rows."""
        return {node: node.index for node in self.nodes}

    @property
    def graph_module(self) -> Any:
        """Something with ``graph.nodes``, where the trace is symbolic."""
        symbolic = self.symbolic  # type: ignore[attr-defined]
        return None if symbolic is None else SimpleNamespace(graph=SimpleNamespace(nodes=symbolic.calls))

    def name(self, node: Node) -> str:
        """``node.name``."""
        return node.name

    def kind(self, node: Node) -> str:
        """``node.kind``."""
        return node.kind

    def role(self, node: Node) -> Role:
        """``node.role``."""
        return node.role

    def traits(self, node: Node) -> Traits:
        """``node.traits``."""
        return node.traits

    def module(self, node: Node) -> nn.Module | None:
        """``node.module``."""
        return node.module

    def within(self, node: Node) -> str:
        """``node.path``."""
        return node.path

    def reads(self, node: Node) -> tuple[int, ...]:
        """``node.reads``."""
        return node.reads

    def note(self, node: Node) -> str:
        """``node.note``."""
        return node.note

    def run(self, inputs: Any, watch: Any) -> Any:
        """``execute``."""
        return self.execute(inputs, watch)  # type: ignore[attr-defined]
