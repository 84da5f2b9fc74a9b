"""`record`: run a model over data and show the output of every node to the user's observers, without a trace."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain
from typing import Any

from torch import nn

from initscope.errors import InputError, check_count
from initscope.geometry import Row
from initscope.graph import Mode, Node, Observer, run, set_mode, trace
from initscope.graph.borrowing import borrowed, runnable, without_dropout
from initscope.measurement.stream import batches
from initscope.results import Result

__all__ = ["Recorded", "mode_of", "record"]


@dataclass(frozen=True)
class Recorded(Result):
    """The run: ``nodes`` are the observed nodes, ``rows`` their descriptions, ``samples`` the number of samples.

    ``mode`` is ``train``, ``eval`` or ``mixed``; ``fallback`` is the reason why the model could not be traced
    symbolically, or is empty.
    """

    nodes: tuple[Node, ...]
    rows: tuple[Row, ...]
    samples: int
    mode: str
    fallback: str = ""

    def table(self) -> list[dict[str, Any]]:
        """Return one dict per row."""
        return [
            {"layer": row.layer, "kind": row.kind, "role": row.role, "shape": list(row.shape), "note": row.note}
            for row in self.rows
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"rows": [...], "samples": …, "mode": …, "fallback": …}``."""
        return {"rows": self.table(), "samples": self.samples, "mode": self.mode, "fallback": self.fallback}


def record(
    model: nn.Module,
    data: Any,
    observers: Sequence[Observer],
    *,
    mode: Mode | None = None,
    dropout: bool = False,
    seed: int = 0,
    shuffle: bool = False,
    targets: Any = None,
) -> Recorded:
    """Run ``model`` over all batches of ``data`` and hand every node's output to ``observers``.

    Parameters
    ----------
    model, data, mode, dropout, seed
        As in `observe`; the model is left as found, also after an exception.
    observers : sequence of Observer
        Each gets the calls ``begin(batch)`` with the batch's targets, then ``see(node, values)`` for every node with
        real values, one set per sample, then ``end(output)``.
    shuffle : bool
        Read arrays and a ``Dataset`` in random order.
    targets : array, optional
        Default: the part of the data that is not an input.

    Returns
    -------
    Recorded
        The nodes and rows that the observers saw.

    Examples
    --------
    >>> import torch
    >>> from initscope.graph import Observer
    >>> class Means(Observer):
    ...     def __init__(self):
    ...         self.means = {}
    ...     def see(self, node, values):
    ...         self.means.setdefault(node, []).append(float(values.mean()))
    >>> observer = Means()
    >>> seen = record(torch.nn.Sequential(torch.nn.ReLU()), torch.ones(100, 3), [observer])
    >>> [(row.layer, sum(observer.means[node])) for node, row in zip(seen.nodes, seen.rows)]    # two batches
    [('input', 2.0), ('0', 2.0)]
    """
    model = runnable(model)
    seed = check_count("seed", seed, least=0)
    with borrowed(model):
        set_mode(model, mode)
        stream = batches(model, data, targets, seed=seed, shuffle=shuffle)
        first = next(stream, None)
        if first is None:
            raise InputError("the data has no samples")
        graph = trace(model, first.pick(slice(0, 2)).inputs)
        with nullcontext() if dropout else without_dropout(model):
            seen = run(graph, chain([first], stream), observers)
        ran_as = mode_of(model)
    rows = seen.rows()
    return Recorded(graph.nodes, rows, seen.samples, ran_as, graph.fallback)


def mode_of(model: nn.Module) -> str:
    """Return ``train`` or ``eval``, or ``mixed`` if the modules differ."""
    modes = {module.training for module in model.modules()}
    return "mixed" if len(modes) > 1 else "train" if True in modes else "eval"
