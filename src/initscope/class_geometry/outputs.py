"""`watch_layers`: run a model over images and pass the outputs of each layer to a function; the model is unchanged."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from torch import Tensor, nn

from initscope.errors import InputError
from initscope.graph import Batch, Graph, Node, Observer, bind, run, trace
from initscope.graph.borrowing import borrowed, runnable, without_dropout

__all__ = ["Layer", "layers_of", "watch_layers"]

_BATCH_VALUES = 1 << 20
"""Input values of a batch: bounds the memory of the activations."""


class Layer(NamedTuple):
    """A measured layer: name and kind of its row, number of values, and number of activations up to it (inclusive)."""

    name: str
    kind: str
    values: int
    depth: int


def layers_of(model: nn.Module, images: Tensor, layers: Collection[str] | None = None) -> tuple[Layer, ...]:
    """Return the layers to measure: the named ones, or every activation and the last layer."""
    with _traced(model, images[:2]) as graph:
        listing = _Listing()
        run(graph, Batch(bind(graph.model, images[:2])), [listing])
    known = [layer.name for layer, _ in listing.layers]
    if layers is not None:
        if unknown := sorted(set(layers) - set(known)):
            raise InputError(f"layers {', '.join(unknown)} are not in the model; it has {', '.join(known)}")
        return tuple(layer for layer, _ in listing.layers if layer.name in layers)
    last = len(listing.layers) - 1
    return tuple(layer for position, (layer, active) in enumerate(listing.layers) if active or position == last)


class _Listing(Observer):
    """Every node after the input with real values, and whether it is an activation."""

    def __init__(self) -> None:
        self.layers: list[tuple[Layer, bool]] = []

    def see(self, node: Node, values: Tensor) -> None:
        """Note the layer."""
        if node.role == "input":
            return
        active = node.role == "activation"
        depth = (self.layers[-1][0].depth if self.layers else 0) + active
        layer = Layer(node.name, node.kind, values[0].numel(), depth)
        self.layers.append((layer, active))


def watch_layers(
    model: nn.Module,
    images: Tensor,
    layers: Collection[Layer],
    watch: Callable[[str, int, Tensor], None],
    *,
    group: int = 1,
) -> None:
    """Run ``model`` in evaluation mode; ``watch(layer, first, values [B, D])`` sees rows ``first``, ``first + 1``, ….

    Batches hold whole groups of ``group`` rows.
    """
    size = max(1, _BATCH_VALUES // (group * images[0].numel())) * group
    with _traced(model, images[:2]) as graph:
        batches = (Batch(bind(graph.model, images[k : k + size])) for k in range(0, len(images), size))
        run(graph, batches, [_PassingOn({layer.name for layer in layers}, watch)])


class _PassingOn(Observer):
    """Hands the outputs of some steps to a function, with the number of their first row."""

    def __init__(self, wanted: set[str], watch: Callable[[str, int, Tensor], None]) -> None:
        self._wanted, self._watch = wanted, watch
        self._first, self._next = 0, 0

    def begin(self, batch: Batch) -> None:
        """Count the rows."""
        self._first, self._next = self._next, self._next + len(batch)

    def nodes(self, graph: Graph) -> Collection[Node]:
        """Return the requested layers."""
        return [node for node in graph.nodes if node.name in self._wanted]

    def see(self, node: Node, values: Tensor) -> None:
        """Pass the rows on, flat and in single precision."""
        self._watch(node.name, self._first, values.flatten(1).float())


@contextmanager
def _traced(model: nn.Module, few: Tensor) -> Iterator[Graph]:
    """The steps of ``model`` in evaluation mode; it is as before afterwards."""
    model = runnable(model)
    with borrowed(model), without_dropout(model):
        model.eval()
        yield trace(model, few)
