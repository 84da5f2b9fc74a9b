"""`separations`: the same triplets through several networks (random weights, checkpoints), and tests between them."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from initscope.classes.labelled import labelled
from initscope.classes.ratios import COLUMNS, Separation, separation_of
from initscope.classes.triplets import choose
from initscope.errors import InputError, check_count, check_seed
from initscope.results import Result, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Separations", "Shift", "separations"]


@dataclass(frozen=True)
class Shift(Result):
    """How one column of ratios differs between two networks at one layer, over the same anchors.

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
        Its p-value. With thousands of anchors small p-values come with small effects: read both.
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
    """`Separation` of several networks on the same triplets, by name, in the order given."""

    networks: dict[str, Separation]
    data: Any = field(compare=False)

    def __repr__(self) -> str:
        return f"Separations({', '.join(self.networks)})"

    def table(self) -> list[dict[str, Any]]:
        """One row per network and layer."""
        return [{"network": name} | row for name, each in self.networks.items() for row in each.table()]

    def to_dict(self) -> dict[str, Any]:
        """``{"networks": {name: …}, "tests": [...]}``."""
        return {
            "networks": {name: each.to_dict() for name, each in self.networks.items()},
            "tests": [test.to_dict() for test in self.tests()],
        }

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers that were looked at."""
        return tuple(row.layer for row in next(iter(self.networks.values())).rows)

    def tests(self, layer: str | None = None) -> tuple[Shift, ...]:
        """Every later network against the first, column by column, at one layer (default: the last)."""
        from scipy.stats import ks_2samp, mannwhitneyu

        layer = layer or self.layers[-1]
        if layer not in self.layers:
            raise InputError(f"layer {layer!r} was not looked at; those are {', '.join(self.layers)}")
        place = self.layers.index(layer)
        (first, start), *others = self.networks.items()
        shifts = []
        for name, other in others:
            for column in COLUMNS:
                if column not in start.ratios:
                    continue
                before, after = (each.ratios[column][place] for each in (start, other))
                before, after = before[np.isfinite(before)], after[np.isfinite(after)]
                rank, distribution = mannwhitneyu(after, before), ks_2samp(before, after)
                shifts.append(
                    Shift(
                        first,
                        name,
                        layer,
                        column,
                        float(np.median(before)),
                        float(np.median(after)),
                        float(rank.statistic) / (len(before) * len(after)),
                        float(rank.pvalue),
                        float(distribution.statistic),
                        float(distribution.pvalue),
                    )
                )
        return tuple(shifts)

    def plot(self, ax: Axes | None = None, *, column: str = "inter_boundary", layer: str | None = None) -> Axes:
        """Histograms of one column's ratios at one layer (default: the last), one outline for each network."""
        ax = make_axes(ax)
        layer = layer or self.layers[-1]
        place = self.layers.index(layer)
        values = [each.ratios[column][place] for each in self.networks.values()]
        every = np.concatenate(values)
        bins = np.linspace(0, np.nanpercentile(every, 99), 61).tolist()
        for name, ratios in zip(self.networks, values):
            ax.hist(ratios, bins=bins, density=True, histtype="step", linewidth=1.4, label=name)
        ax.axvline(1.0, color="0.6", linewidth=0.8)
        side, _, reading = column.partition("_")
        ax.set(xlabel=f"{side}-class distance ratio after {layer}, {reading} points", ylabel="density")
        ax.legend(frameon=False, fontsize="small")
        return ax

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """The whole page as text; written to ``path`` too when one is given."""
        from initscope._hall.files import write_text
        from initscope.classes.page import render

        text = render(self)
        if path is not None:
            write_text(path, text)
        return text

    def _repr_html_(self) -> str:
        return super().to_html()


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
) -> Separations:
    """`separation` of several networks of one architecture on the same triplets; tests compare with the first.

    Source: [Bronstein2016]_, 'Random data points' and 'Class boundary points' at several test errors.

    Parameters
    ----------
    networks : mapping of str to torch.nn.Module
        For example ``{"random weights": …, "25 %": …, "18 %": …}``. With weights that they share, give copies.
    images, labels, anchors, boundary, seed, layers, rechosen
        As in `separation`. Boundary points are searched once among the inputs.

    Examples
    --------
    >>> import torch
    >>> from initscope.data import load
    >>> def network(seed):
    ...     torch.manual_seed(seed)
    ...     return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 100), torch.nn.ReLU())
    >>> found = separations({"a": network(0), "b": network(1)}, load("digits"), anchors=300, boundary=False)
    >>> [(test.column, test.ks < 0.2) for test in found.tests()]
    [('intra_random', True), ('inter_random', True)]
    """
    if not networks:
        raise InputError("no network is given; give a dict of names and modules")
    data = labelled(images, labels, each=2)
    seed = check_seed("seed", seed)
    chosen = choose(data, check_count("anchors", anchors), boundary=boundary, seed=seed)
    found = {
        name: separation_of(model, data, chosen, seed=seed, layers=layers, rechosen=boundary and rechosen)
        for name, model in networks.items()
    }
    names = [[row.layer for row in each.rows] for each in found.values()]
    if any(each != names[0] for each in names):
        raise InputError("the networks have different layers; compare networks of one architecture")
    return Separations(found, data)
