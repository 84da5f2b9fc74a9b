"""`separation`: distances after a network over distances before, within and between classes, layer by layer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from initscope._utils.palette import line_color
from initscope.class_geometry.labeled import Labeled, labeled
from initscope.class_geometry.outputs import Layer, layers_of
from initscope.class_geometry.triplets import (
    Chosen,
    Floats,
    Followed,
    Searched,
    choose,
    follow,
    search_again,
    spreads_of,
)
from initscope.errors import check_seed
from initscope.results import Result, make_axes
from initscope.theory.separation import Interval, bootstrap_median, relu_angle_ratio

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["COLUMNS", "READINGS", "LayerSeparation", "Separation", "separation", "separation_of"]

READINGS = {
    "random": "random points of the class and of another",
    "boundary": "farthest of the class and nearest of another among the inputs, mapped by the network",
    "rechosen": "farthest of the class and nearest of another, chosen again in the layer's own space",
}
COLUMNS = tuple(f"{side}_{reading}" for reading in READINGS for side in ("intra", "inter"))


@dataclass(frozen=True)
class LayerSeparation(Result):
    """One layer: medians over the anchors of ‖v' - v‖/‖u' - u‖, scale removed, with 95 % bootstrap intervals.

    Attributes
    ----------
    layer, kind : str
    depth : int
        Number of activations up to this layer.
    scale : float
        The divisor: root of the total variance of the layer's outputs over that of the inputs, both over all samples.
    intra_random, inter_random : Interval
        Distances to a random point of the anchor's class, and of another class.
    intra_boundary, inter_boundary : Interval
        Distances to the farthest point of the class and the nearest of another class among the inputs, mapped by the
        network.
    intra_rechosen, inter_rechosen : Interval
        The same with the points chosen again in the layer's own space (numerators only: the symbols of the talk).
    angle_random, angle_predicted : Interval
        ∠(f(u), f(v))/∠(u, v) of random pairs, and the prediction for wide dense ReLU layers with random weights.
    recall : float
        Share of the boundary points chosen in the layer's space that are the exact ones; 1 if the search was exact.
    """

    layer: str
    kind: str
    depth: int
    scale: float
    intra_random: Interval
    inter_random: Interval
    intra_boundary: Interval | None
    inter_boundary: Interval | None
    intra_rechosen: Interval | None
    inter_rechosen: Interval | None
    angle_random: Interval
    angle_predicted: Interval
    recall: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return a flat dict: ``intra_random``, ``intra_random_low``, ``intra_random_high``, ….

        None if not measured.
        """
        flat: dict[str, Any] = {}
        for name, value in vars(self).items():
            if isinstance(value, Interval):
                flat |= {name: value.median, f"{name}_low": value.low, f"{name}_high": value.high}
            else:
                flat[name] = value
        return flat


@dataclass(frozen=True, repr=False)
class Separation(Result):
    """Ratios of distances by layer.

    Attributes
    ----------
    rows : tuple of LayerSeparation
    ratios : dict of array ``[layers, anchors]``
        The single ratios of the medians, by column; scale removed. The ratio is NaN if two inputs coincide.
    angles, angles_predicted : array ``[layers, 2 * anchors]``
        Angle ratios of random pairs, within classes first.
    points : array ``[anchors, 3 or 5]``
        Indices: anchor, random of its class, random of another, farthest of its class, nearest of another.
    classes : tuple of str
    """

    rows: tuple[LayerSeparation, ...]
    ratios: dict[str, Floats] = field(compare=False)
    angles: Floats = field(compare=False)
    angles_predicted: Floats = field(compare=False)
    points: np.ndarray = field(compare=False)
    classes: tuple[str, ...]
    samples: int
    seed: int

    def __repr__(self) -> str:
        return f"Separation({len(self.rows)} layers, {len(self.points)} anchors, {len(self.classes)} classes)"

    def table(self) -> list[dict[str, Any]]:
        """Return one row per layer."""
        return [row.to_dict() for row in self.rows]

    def to_dict(self) -> dict[str, Any]:
        """Return rows, classes and counts; the single ratios are in ``ratios``."""
        return {
            "rows": self.table(),
            "classes": list(self.classes),
            "anchors": len(self.points),
            "samples": self.samples,
            "seed": self.seed,
        }

    def plot(self, ax: Axes | None = None) -> Axes:
        """Return medians by layer with their intervals: within classes solid, between classes dashed."""
        ax = make_axes(ax)
        for number, reading in enumerate(READINGS):
            for side, line in (("intra", "-"), ("inter", "--")):
                intervals = [getattr(row, f"{side}_{reading}") for row in self.rows]
                if intervals[0] is None:
                    continue
                middle, low, high = np.array(intervals).T
                ax.plot(middle, line, color=line_color(number), marker=".", label=f"{side}, {reading}")
                ax.fill_between(range(len(middle)), low, high, color=line_color(number), alpha=0.15, linewidth=0)
        ax.axhline(1.0, color="0.6", linewidth=0.8)
        ax.set_xticks(range(len(self.rows)), [row.layer for row in self.rows], rotation=35, ha="right")
        ax.set_ylabel("distance after / before, scale removed")
        ax.legend(frameon=False, fontsize="small")
        return ax


def separation(
    model: nn.Module,
    images: Any,
    labels: Any = None,
    *,
    anchors: int = 2000,
    boundary: bool = True,
    seed: int = 0,
    layers: Collection[str] | None = None,
    rechosen: bool = True,
) -> Separation:
    r"""Measure what a network does to distances within and between classes, layer by layer.

    For random anchors u with outputs v: :math:`\|v_+ - v\|/\|u_+ - u\|` for :math:`u_+` of the same class and
    :math:`\|v_- - v\|/\|u_- - u\|` for :math:`u_-` of another [Bronstein2016]_. The points are random, or at the
    boundary: :math:`u_+` the farthest of the class, :math:`u_-` the nearest of another. The second definition has two
    interpretations, and both are returned: points chosen among the inputs and mapped by the network, or chosen again in
    the layer's space. Every layer's global scale is divided out (`LayerSeparation.scale`). Random weights do not give 1
    at the boundary: compare with the same network at initialization (`separations`).

    Parameters
    ----------
    model : torch.nn.Module
        It runs in evaluation mode and is restored.
    images, labels
        Array or tensor and one label each, or an `ImageSet`; at least two classes, each with at least two samples.
    anchors : int
        Number of triplets, drawn at random.
    boundary : bool
        Search the boundary points; needs faiss.
    seed : int
        Of the triplets and of the sketch.
    layers : names, optional
        Layers to look at; by default every activation and the last layer.
    rechosen : bool
        Choose boundary points again in every layer; this runs the whole set and holds up to 1,024 values of every image
        and layer in memory. Layers with more values take 32 candidates from a random projection to 512 dimensions and
        re-rank them exactly; ``recall`` is the share of anchors for which this finds the true point.

    Returns
    -------
    Separation
        One row per layer, with the distribution of each ratio.

    Examples
    --------
    >>> import torch
    >>> from initscope.data import load
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 300), torch.nn.ReLU())
    >>> [row] = separation(model, load("digits"), anchors=200, boundary=False).rows
    >>> row.layer, 0.9 < row.intra_random.median < 1.1
    ('2', True)
    """
    data = labeled(images, labels, least=2)
    seed = check_seed("seed", seed)
    chosen = choose(data, anchors, boundary=boundary, seed=seed)
    return separation_of(model, data, chosen, seed=seed, layers=layers, rechosen=boundary and rechosen)


def separation_of(
    model: nn.Module,
    data: Labeled,
    chosen: Chosen,
    *,
    seed: int,
    layers: Collection[str] | None = None,
    rechosen: bool = True,
) -> Separation:
    """Return `separation` of triplets that are already chosen."""
    watched = layers_of(model, data.images, layers)
    followed = follow(model, data, chosen, watched)
    searched, spreads = (
        search_again(model, data, chosen, watched, seed=seed) if rechosen else ({}, spreads_of(model, data, watched))
    )
    scale = np.array([spreads[layer.name] for layer in watched]) / chosen.spread
    ratios = _ratios(chosen, watched, followed, searched, scale[:, None])
    before = chosen.angle[:, :2].T.reshape(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        after = np.stack([followed[layer.name].angle[:, :2].T.reshape(-1) for layer in watched])
        angles = np.where(before > 0, after / before, np.nan)
    predicted = np.stack([np.asarray(relu_angle_ratio(before, layer.depth)) for layer in watched])
    rows = []
    for position, layer in enumerate(watched):
        medians = {name: bootstrap_median(ratios[name][position]) if name in ratios else None for name in COLUMNS}
        recall = searched[layer.name].recall if searched else None
        rows.append(
            LayerSeparation(
                layer.name,
                layer.kind,
                layer.depth,
                float(scale[position]),
                **medians,  # type: ignore[arg-type]
                angle_random=bootstrap_median(_by_anchor(angles[position])),
                angle_predicted=bootstrap_median(_by_anchor(predicted[position])),
                recall=recall,
            )
        )
    return Separation(tuple(rows), ratios, angles, predicted, chosen.points, data.names, len(data), seed)


def _by_anchor(values: Floats) -> Floats:
    """Return ``[anchors, 2]``: both values of an anchor, which do not vary independently of each other."""
    return values.reshape(2, -1).T


def _ratios(
    chosen: Chosen,
    layers: tuple[Layer, ...],
    followed: dict[str, Followed],
    searched: dict[str, Searched],
    scale: Floats,
) -> dict[str, Floats]:
    """Return ratios ``[layers, anchors]`` by column, each layer's scale ``[layers, 1]`` divided out."""
    after = np.stack([followed[layer.name].distance for layer in layers])
    before = np.where(chosen.distance > 0, chosen.distance, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        followed_ratios = after / before / scale[:, :, None]
        columns = {name: followed_ratios[:, :, position] for position, name in enumerate(COLUMNS[: before.shape[1]])}
        if searched:
            far = np.stack([searched[layer.name].points.farthest_distance for layer in layers])
            near = np.stack([searched[layer.name].points.nearest_distance for layer in layers])
            columns["intra_rechosen"] = far / before[:, 2] / scale
            columns["inter_rechosen"] = near / before[:, 3] / scale
    return columns
