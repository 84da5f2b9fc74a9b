"""Two experiments: how many labels, and which samples, does training need?

Both train the same network several times per setting and give mean test error and standard error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from initscope._utils.faiss import nearest_rows
from initscope._utils.randomness import generator
from initscope.class_geometry.labeled import UNLABELED, Labeled, labeled
from initscope.class_geometry.supervised import train
from initscope.errors import InputError, check_count
from initscope.measurement.packing import farthest_first
from initscope.results import Result, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["SUBSETS", "Setting", "Study", "label_study", "subset", "subset_study"]

SUBSETS = ("random", "net", "boundary", "interior")
_DRAWN = ("random", "net")
"""Ways whose samples depend on the seed."""


@dataclass(frozen=True)
class Setting(Result):
    """One selection method with one number of samples or labels: test errors of the runs, their mean and its error."""

    name: str
    size: int
    errors: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean test error."""
        return float(np.mean(self.errors))

    @property
    def standard_error(self) -> float:
        """Standard error of the mean over runs; NaN for a single run."""
        return float(np.std(self.errors, ddof=1) / math.sqrt(len(self.errors))) if len(self.errors) > 1 else math.nan


@dataclass(frozen=True)
class Study(Result):
    """Settings of a study, ``size`` being samples or labels in all."""

    settings: tuple[Setting, ...]

    def table(self) -> list[dict[str, Any]]:
        """Return one row per setting."""
        return [
            {
                "training": setting.name,
                "size": setting.size,
                "test_error": setting.mean,
                "standard_error": setting.standard_error,
            }
            for setting in self.settings
        ]

    def against(self, name: str) -> tuple[Setting, ...]:
        """Return the test errors of every other method minus those of ``name`` at the same size, run by run.

        Negative values are a gain.

        Runs with the same seed share samples, labels and initial weights, so the error of the mean difference is
        smaller than the errors of the two means suggest.
        """
        base = {setting.size: setting.errors for setting in self.settings if setting.name == name}
        return tuple(
            Setting(
                setting.name,
                setting.size,
                tuple(error - reference for error, reference in zip(setting.errors, base[setting.size])),
            )
            for setting in self.settings
            if setting.name != name and setting.size in base
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the test error against the size, one line per method, with two standard errors."""
        ax = make_axes(ax)
        for name in dict.fromkeys(setting.name for setting in self.settings):
            mine = [setting for setting in self.settings if setting.name == name]
            errors = [2 * np.nan_to_num(setting.standard_error) for setting in mine]
            ax.errorbar(
                [setting.size for setting in mine],
                [setting.mean for setting in mine],
                yerr=errors,
                marker="o",
                label=name,
            )
        ax.set(xscale="log", xlabel="samples", ylabel="test error", ylim=(0, None))
        ax.legend(frameon=False)
        return ax


def label_study(
    build: Callable[[int], nn.Module],
    images: Any,
    labels: Any = None,
    *,
    test: Any,
    per_class: Sequence[int] = (10, 100, 1000),
    objectives: Sequence[str] = ("cross-entropy", "cross-entropy+triplet"),
    seeds: Sequence[int] = (0, 1, 2),
    steps: int = 600,
    **options: Any,
) -> Study:
    """Test error against the number of labels, with and without a metric criterion that also sees unlabeled samples.

    Source: [Bronstein2016]_, 'DNNs as metric learners'.

    Parameters
    ----------
    build : callable
        ``build(seed)`` gives a fresh network.
    images, labels
        The training set; all but ``per_class`` labels of each class are hidden.
    test : ImageSet, or a pair of images and labels
    per_class : sequence of int
        Number of labels per class.
    objectives, seeds
        What is compared, and over which runs; a seed chooses labels, weights and order.
    steps : int
        Steps of the optimizer, the same for all: every objective sees the same number of batches.
    options
        Of `train`, for all runs.

    Returns
    -------
    Study
        The test error of every run.
    """
    data = labeled(images, labels)
    settings = []
    for count in per_class:
        hidden = {seed: _hidden(data, check_count("per_class", count), seed) for seed in seeds}
        for objective in objectives:
            errors = []
            for seed in seeds:
                visible = hidden[seed] if "+" in objective else hidden[seed][hidden[seed] != UNLABELED]
                epochs = _epochs(steps, len(visible), options)
                shown = Labeled(data.images, hidden[seed], data.names)
                done = train(
                    build(seed), shown, objective=objective, test=test, seed=seed, epochs=epochs,
                    evaluations=0, **options,
                )  # fmt: skip
                errors.append(done.test_error)
            settings.append(Setting(objective, count * len(data.names), tuple(errors)))
    return Study(tuple(settings))


def subset_study(
    build: Callable[[int], nn.Module],
    images: Any,
    labels: Any = None,
    *,
    test: Any,
    sizes: Sequence[int],
    ways: Sequence[str] = SUBSETS,
    seeds: Sequence[int] = (0, 1, 2),
    steps: int = 600,
    **options: Any,
) -> Study:
    """Test error when training on some of the samples only, chosen in several ways (see `subset`), and on all.

    Source: [Bronstein2016]_, 'Role of training': a small subset of the net is enough.

    Parameters are those of `label_study`; ``sizes`` are numbers of samples.

    Parameters
    ----------
    build : callable
        ``build(seed)`` gives a fresh network.
    images, labels
        The training set.
    test : ImageSet, or a pair of images and labels
        Images on which the test error is measured.
    sizes : sequence of int
        Numbers of training samples.
    ways : sequence of str
        How the samples are chosen, see `subset`.
    seeds : sequence of int
        One run for each; a seed chooses samples, weights and order.
    steps : int
        Steps of the optimizer, the same for all.
    options
        Of `train`, for all runs.

    Returns
    -------
    Study
        The test error of every run.
    """
    data = labeled(images, labels, least=2)
    settings = []
    orders: dict[tuple[str, int], NDArray[np.int64]] = {}

    def chosen(way: str, size: int, seed: int) -> NDArray[np.int64]:
        # Subsets of one way are nested, and some do not depend on the seed: each order is searched once.
        key = way, seed if way in _DRAWN else 0
        if key not in orders:
            orders[key] = _order(data, max(sizes), *key)
        return _of_every_class(data, orders[key], size)

    for way, size in [*((way, size) for way in ways for size in sizes), ("all", len(data))]:
        errors = []
        for seed in seeds:
            part = data if way == "all" else data.pick(chosen(way, size, seed))
            epochs = _epochs(steps, len(part), options)
            done = train(build(seed), part, test=test, seed=seed, epochs=epochs, evaluations=0, **options)
            errors.append(done.test_error)
        settings.append(Setting(way, size, tuple(errors)))
    return Study(tuple(settings))


def subset(data: Labeled, size: int, way: str, *, seed: int = 0) -> NDArray[np.int64]:
    """Return the indices of ``size`` samples, at least one per class.

    The way is ``random``, ``net``, ``boundary`` or ``interior``.

    ``net`` is an ε-net by farthest-first traversal of the inputs: every sample is within ε of a chosen one.
    ``boundary`` takes the samples with the smallest ratio of the distance to the nearest neighbor of another class to
    that of their own class; ``interior`` takes those with the largest ratio.

    Parameters
    ----------
    data : Labeled
        Samples with their classes.
    size : int
        Number of samples to choose.
    way : {"random", "net", "boundary", "interior"}
        How they are chosen.
    seed : int
        Seed of random choices.

    Returns
    -------
    array of int ``[size]``
        Indices of the samples.
    """
    return _of_every_class(data, _order(data, size, way, seed), size)


def _order(data: Labeled, size: int, way: str, seed: int) -> NDArray[np.int64]:
    """Return at least ``size`` samples in the order in which a method selects them."""
    if way == "random":
        return generator(seed, "subset").permutation(len(data))
    if way == "net":
        return farthest_first(data.images.flatten(1).numpy(), min(size, len(data)), start=seed % len(data))[0]
    if way in ("boundary", "interior"):
        depth = _own_depth(data)
        return np.argsort(depth if way == "boundary" else -depth, kind="stable")
    raise InputError(f"way = {way!r} is unknown; choose one of {', '.join(SUBSETS)}")


def _of_every_class(data: Labeled, order: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return the first ``size`` samples of an order, sorted by index, with at least one of every class."""
    size = check_count("size", size, least=len(data.names), most=len(data))
    # A class that is not there at all cannot be learned: the first of every class comes before all others.
    order = np.concatenate([order, np.setdiff1d(np.arange(len(data)), order)])
    firsts = order[np.unique(data.classes[order], return_index=True)[1]]
    others = order[~np.isin(order, firsts)]
    return np.sort(np.concatenate([firsts, others[: size - len(firsts)]]))


def _own_depth(data: Labeled) -> NDArray[np.float64]:
    """Return the distance to the nearest sample of another class over that to the nearest other one of the class."""
    rows = np.ascontiguousarray(data.images.flatten(1).numpy())
    near = np.empty((len(data), len(data.names)))
    for label in range(len(data.names)):
        distances = nearest_rows(rows, rows[data.classes == label], 2)[0]
        near[:, label] = np.where(data.classes == label, distances[:, 1], distances[:, 0])
    own_class = np.take_along_axis(near, data.classes[:, None], axis=1)[:, 0].copy()
    np.put_along_axis(near, data.classes[:, None], np.inf, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.nan_to_num(np.sqrt(near.min(axis=1) / own_class), nan=1.0))


def _hidden(data: Labeled, per_class: int, seed: int) -> NDArray[np.int64]:
    """Return class numbers with all but ``per_class`` of each class hidden."""
    order = generator(seed, "labels that are kept").permutation(len(data))
    shown = np.full(len(data), UNLABELED, dtype=np.int64)
    for label in range(len(data.names)):
        members = order[data.classes[order] == label]
        if len(members) < per_class:
            raise InputError(f"class {data.names[label]} has {len(members)} samples, {per_class} labels were requested")
        shown[members[:per_class]] = label
    return shown


def _epochs(steps: int, items: int, options: dict[str, Any]) -> int:
    """Return the number of passes over the items that make about ``steps`` steps."""
    batch = min(int(options.get("batch", 256)), items)
    return max(1, round(check_count("steps", steps) / -(-items // batch)))
