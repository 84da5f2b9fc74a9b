"""`watch_layers`: run a model over images and hand what each layer makes of them to a function; leaves no trace."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from torch import Tensor, nn

from initscope._untouched import leaves_no_trace, runnable, without_dropout
from initscope.errors import InputError
from initscope.measurement.steps import is_activation, output_tensor
from initscope.tracing import Trace, bind, trace

__all__ = ["Layer", "layers_of", "watch_layers"]

_BATCH_VALUES = 1 << 20
"""Input values of a batch: bounds the memory of the activations."""


class Layer(NamedTuple):
    """A layer that is looked at: name and kind of its row, number of values, activations up to and with it."""

    name: str
    kind: str
    values: int
    depth: int


def layers_of(model: nn.Module, images: Tensor, layers: Collection[str] | None = None) -> tuple[Layer, ...]:
    """The layers to look at: those named, or every activation and the last layer."""
    found: list[tuple[Layer, bool]] = []
    few = images[:2]
    with _traced(model, few) as traced:

        def note(node: Any, _args: Any, _kwargs: Any, output: Any) -> None:
            active, values = is_activation(traced, node), output_tensor(output, len(few))
            depth = (found[-1][0].depth if found else 0) + active
            if values is not None and node.op != "placeholder":
                found.append((Layer(traced.name(node), traced.kind(node), values[0].numel(), depth), active))

        _run(traced, few, note)
    known = [layer.name for layer, _ in found]
    if layers is not None:
        if unknown := sorted(set(layers) - set(known)):
            raise InputError(f"layers {', '.join(unknown)} are not in the model; it has {', '.join(known)}")
        return tuple(layer for layer, _ in found if layer.name in layers)
    return tuple(layer for place, (layer, active) in enumerate(found) if active or place == len(found) - 1)


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
    wanted = {layer.name for layer in layers}
    size = max(1, _BATCH_VALUES // (group * images[0].numel())) * group
    with _traced(model, images[:2]) as traced:
        for first in range(0, len(images), size):
            batch = images[first : first + size]

            def pass_on(
                node: Any, _args: Any, _kwargs: Any, output: Any, first: int = first, batch: Any = batch
            ) -> None:
                if (name := traced.name(node)) in wanted:
                    values = output_tensor(output, len(batch))
                    assert values is not None
                    watch(name, first, values.detach().flatten(1).float())

            _run(traced, batch, pass_on)


@contextmanager
def _traced(model: nn.Module, few: Tensor) -> Iterator[Trace]:
    """The steps of ``model`` in evaluation mode; it is as before afterwards."""
    model = runnable(model)
    with leaves_no_trace(model), without_dropout(model):
        model.eval()
        yield trace(model, few)


def _run(traced: Trace, batch: Tensor, watch: Callable[..., None]) -> None:
    inputs = bind(traced.model, batch)
    try:
        traced.run(inputs, watch)
    except Exception as error:
        raise inputs.refused(error) from error
