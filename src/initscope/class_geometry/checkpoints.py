"""`separations`: distances of the same triplets in several networks (random weights, checkpoints), with tests."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from initscope.class_geometry.labeled import labeled
from initscope.class_geometry.neural_collapse import Collapse, collapse
from initscope.class_geometry.ratios import COLUMNS, Separation, separation_of
from initscope.class_geometry.triplets import choose
from initscope.errors import InputError, check_seed
from initscope.results import Result, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Separations", "Shift", "outline", "separations", "shared_bins"]


@dataclass(frozen=True)
class Shift(Result):
    """Difference of one column of ratios between two networks at one layer, over the same anchors.

    Attributes
    ----------
    before, after : str
        Names of the networks.
    layer, column : str
    median_before, median_after : float
    superiority : float
        Probability that a ratio of ``after`` is larger than one of ``before`` (ties count half): .5 is no change,
        0 or 1 no overlap. The size of the effect, which does not depend on the number of anchors.
    mann_whitney_p : float
        Two-sided p-value of that probability being .5.
    ks : float
        Largest distance of the two distribution functions (Kolmogorov–Smirnov).
    ks_p : float
        Its p-value. With thousands of anchors even small effects have small p-values, so read both.
    """

    before: str
    after: str
    layer: str
    column: str
    median_before: float
    median_after: float
    superiority: float
    mann_whitney_p: float
    ks: float
    ks_p: float


@dataclass(frozen=True, repr=False)
class Separations(Result):
    """`Separation` of several networks on the same triplets, by name, in the order given.

    ``collapses`` has the `Collapse` of every network if ``probes`` was set.
    """

    networks: dict[str, Separation]
    data: Any = field(compare=False)
    collapses: dict[str, Collapse] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Separations({', '.join(self.networks)})"

    def table(self) -> list[dict[str, Any]]:
        """Return one row per network and layer."""
        return [{"network": name} | row for name, network in self.networks.items() for row in network.table()]

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"networks": {name: …}, "tests": [...]}``, tests at `shown_layers`; ``collapses`` with probes."""
        content = {
            "networks": {name: network.to_dict() for name, network in self.networks.items()},
            "tests": [test.to_dict() for layer in self.shown_layers for test in self.tests(layer)],
        }
        return content | (
            {"collapses": {n: rows.table() for n, rows in self.collapses.items()}} if self.collapses else {}
        )

    @property
    def layers(self) -> tuple[str, ...]:
        """Return the names of the measured layers."""
        return tuple(row.layer for row in next(iter(self.networks.values())).rows)

    @property
    def shown_layers(self) -> tuple[str, ...]:
        """The layers that are compared in detail: the last activation, which a classifier reads, and the last layer."""
        rows = next(iter(self.networks.values())).rows[-2:]
        return tuple(row.layer for row in rows) if rows[0].depth == rows[-1].depth else self.layers[-1:]

    def tests(self, layer: str | None = None) -> tuple[Shift, ...]:
        """Compare every later network with the first, column by column, at one layer (default: the last)."""
        layer = layer or self.layers[-1]
        if layer not in self.layers:
            raise InputError(f"layer {layer!r} was not measured; the measured layers are {', '.join(self.layers)}")
        position = self.layers.index(layer)
        (first, start), *others = self.networks.items()
        return tuple(
            Shift(
                first, name, layer, column, *_compared(start.ratios[column][position], other.ratios[column][position])
            )
            for name, other in others
            for column in COLUMNS
            if column in start.ratios
        )

    def plot(self, ax: Axes | None = None, *, column: str = "inter_boundary", layer: str | None = None) -> Axes:
        """Plot histograms of one column's ratios at one layer (default: the last), one outline per network."""
        ax = make_axes(ax)
        layer = layer or self.layers[-1]
        position = self.layers.index(layer)
        values = [network.ratios[column][position] for network in self.networks.values()]
        bins = shared_bins(values)
        for name, ratios in zip(self.networks, values):
            outline(ax, ratios, bins, label=name)
        ax.axvline(1.0, color="0.6", linewidth=0.8)
        side, _, reading = column.partition("_")
        ax.set(xlabel=f"{side}-class distance ratio after {layer}, {reading} points", ylabel="density")
        ax.legend(frameon=False, fontsize="small")
        return ax

    def _html(self) -> str:
        """Return the whole page."""
        from initscope.class_geometry.page import render

        return render(self)


def _compared(before: NDArray[np.float64], after: NDArray[np.float64]) -> tuple[float, ...]:
    """Return medians, superiority and distance of the distributions with p-values; NaN for a dead layer."""
    from scipy.stats import ks_2samp, mannwhitneyu

    before, after = before[np.isfinite(before)], after[np.isfinite(after)]
    medians = [float(np.median(ratios)) if len(ratios) else math.nan for ratios in (before, after)]
    if not len(before) or not len(after):
        return (*medians, *4 * [math.nan])
    rank, distribution = mannwhitneyu(after, before), ks_2samp(before, after)
    superiority = float(rank.statistic) / (len(before) * len(after))
    return (*medians, superiority, float(rank.pvalue), float(distribution.statistic), float(distribution.pvalue))


def shared_bins(values: Sequence[NDArray[np.float64]]) -> list[float]:
    """Bins for all of the arrays, over the middle 99 % of their values; their number grows with that of the values."""
    every = np.concatenate(values)
    every = every[np.isfinite(every)]
    low, high = (float(end) for end in np.percentile(every, [0.5, 99.5])) if len(every) else (0.0, 1.0)
    count = int(min(45, max(10, min(len(array) for array in values) ** 0.5)))
    # A network that preserves all distances has a single ratio: give the bin a positive width.
    return [float(edge) for edge in np.linspace(low, max(high, low + 0.01), count + 1)]


def outline(ax: Axes, values: NDArray[np.float64], bins: list[float], **style: Any) -> None:
    """Return the outline of a histogram; it is empty if no value is finite, for example in a dead layer."""
    finite = values[np.isfinite(values)]
    if len(finite):
        ax.hist(finite, bins=bins, density=True, histtype="step", linewidth=1.4, **style)


def separations(
    networks: Mapping[str, nn.Module],
    images: Any,
    labels: Any = None,
    *,
    anchors: int = 2000,
    boundary: bool = True,
    seed: int = 0,
    layers: Collection[str] | None = None,
    rechosen: bool = True,
    probes: bool = False,
) -> Separations:
    """Compute the `separation` of several networks of one architecture on the same triplets.

    Tests compare with the first.

    Source: [Bronstein2016]_, 'Random data points' and 'Class boundary points' at several test errors.

    Parameters
    ----------
    networks : mapping of str to torch.nn.Module
        For example ``{"random weights": …, "25 %": …, "18 %": …}``. Networks that share weights must be passed as
        copies.
    images, labels, anchors, boundary, seed, layers, rechosen
        As in `separation`. Boundary points are searched once among the inputs.
    probes : bool
        Add `collapse` of every network, on up to 4,000 of the images.

    Returns
    -------
    Separations
        The separation of every network, and tests against the first.

    Examples
    --------
    >>> import torch
    >>> from initscope.data import load
    >>> def network(seed):
    ...     torch.manual_seed(seed)
    ...     return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 100), torch.nn.ReLU())
    >>> compared = separations({"a": network(0), "b": network(1)}, load("digits"), anchors=300, boundary=False)
    >>> [(test.column, test.ks < 0.2) for test in compared.tests()]
    [('intra_random', True), ('inter_random', True)]
    """
    if not networks:
        raise InputError("no network is given; give a dict of names and modules")
    data = labeled(images, labels, least=2)
    seed = check_seed("seed", seed)
    chosen = choose(data, anchors, boundary=boundary, seed=seed)
    results = {
        name: separation_of(model, data, chosen, seed=seed, layers=layers, rechosen=boundary and rechosen)
        for name, model in networks.items()
    }
    names = [[row.layer for row in result.rows] for result in results.values()]
    if any(layers != names[0] for layers in names):
        raise InputError("the networks have different layers; compare networks of one architecture")
    ends = {name: collapse(model, data, seed=seed, layers=layers) for name, model in networks.items()} if probes else {}
    return Separations(results, data, ends)
