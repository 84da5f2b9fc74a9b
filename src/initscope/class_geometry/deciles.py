"""Accuracy of random and trained networks by decile of the distance to the boundary."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from initscope._utils.faiss import nearest_rows
from initscope.class_geometry.labeled import Labeled, labeled
from initscope.class_geometry.neural_collapse import layer_rows, ridge_classifier
from initscope.class_geometry.outputs import layers_of
from initscope.errors import InputError, check_count
from initscope.results import Result, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["AccuracyByDistance", "accuracy_by_distance", "boundary_distance", "extreme_learning"]


@dataclass(frozen=True)
class AccuracyByDistance(Result):
    """Accuracy of classifiers on groups of equal size, from the samples at the boundary to those deep in their class.

    Attributes
    ----------
    distance : tuple of float
        Median distance of each group.
    accuracy, standard_error : dict of tuples
        Accuracies by classifier, one value per group.
    """

    distance: tuple[float, ...]
    accuracy: dict[str, tuple[float, ...]]
    standard_error: dict[str, tuple[float, ...]]

    def table(self) -> list[dict[str, Any]]:
        """Return one row per group."""
        return [
            {"group": group + 1, "distance": distance}
            | {name: values[group] for name, values in self.accuracy.items()}
            | {f"{name} ±": values[group] for name, values in self.standard_error.items()}
            for group, distance in enumerate(self.distance)
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Return the accuracy against the group, with two standard errors."""
        ax = make_axes(ax)
        groups = range(1, len(self.distance) + 1)
        for name, values in self.accuracy.items():
            errors = [2 * error for error in self.standard_error[name]]
            ax.errorbar(groups, values, yerr=errors, marker="o", label=name)
        ax.set(xlabel="decile of the distance to the boundary", ylabel="test accuracy", ylim=(0, 1))
        ax.locator_params(axis="x", integer=True)
        ax.legend(frameon=False)
        return ax


def boundary_distance(train: Any, test: Any) -> NDArray[np.float64]:
    r"""Return the distance of each test sample to the nearest other class over that to its own class.

    .. math:: \min_{c \ne c(x)} \min_{u \in c} \|x - u\| \Big/ \min_{u \in c(x)} \|x - u\|

    over the training samples u: below 1 the nearest neighbor is of another class. The distance is relative, so that
    images of low contrast, which are close to all others, do not count as boundary. Both are `ImageSet` or (images,
    labels).

    Parameters
    ----------
    train, test : ImageSet or (images, labels)
        Samples with their classes.

    Returns
    -------
    array ``[test samples]``
    """
    return _depth(*_sets(train, test))


def extreme_learning(model: nn.Module, train: Any, test: Any, *, layer: str | None = None) -> NDArray[np.int64]:
    """Return the classes that a linear classifier on the outputs of a network predicts for the test samples.

    Source: [Bronstein2016]_, 'Training': extreme learning uses random weights only.

    With random weights this is an extreme learning machine: only the last layer is fitted (ridge regression). ``layer``
    is by default the last activation. Returns the numbers of the classes in their sorted order.

    Parameters
    ----------
    model : torch.nn.Module
        It runs in evaluation mode and is restored.
    train, test : ImageSet or (images, labels)
        Samples that the classifier is fitted on, and samples to classify.
    layer : str, optional
        The layer whose outputs are classified; default: the last activation.

    Returns
    -------
    array of int ``[test samples]``
        Numbers of the classes in their sorted order.
    """
    from_set, to_set = _sets(train, test)
    known = layers_of(model, from_set.images, None if layer is None else [layer])
    chosen = known[-1:] if layer is not None or len(known) < 2 else known[-2:-1]
    fitted = layer_rows(model, from_set.images, chosen)[chosen[0].name]
    tested = layer_rows(model, to_set.images, chosen)[chosen[0].name]
    return np.asarray(ridge_classifier(fitted, from_set.classes).predict(tested))


def accuracy_by_distance(distance: Any, correct: Mapping[str, Any], *, groups: int = 10) -> AccuracyByDistance:
    """Return the accuracy of classifiers by groups (deciles) of a distance.

    Source: the conclusion of [Bronstein2016]_: random weights serve average points, training the boundaries.

    Parameters
    ----------
    distance : array [N]
        For example of `boundary_distance`.
    correct : mapping of str to bool array [N]
        For each classifier, whether it classifies the sample correctly.
    groups : int

    Returns
    -------
    AccuracyByDistance
        The accuracy of every classifier in each group.

    Examples
    --------
    >>> accuracy_by_distance([1.0, 2.0, 3.0, 4.0], {"a": [False, True, True, True]}, groups=2).accuracy
    {'a': (0.5, 1.0)}
    """
    values = np.asarray(distance, dtype=np.float64)
    groups = check_count("groups", groups, most=len(values))
    for name, right in correct.items():
        if np.shape(right) != values.shape:
            raise InputError(
                f"correct[{name!r}] has shape {np.shape(right)}, distance {values.shape}; give one for each"
            )
    parts = np.array_split(np.argsort(values, kind="stable"), groups)
    accuracy = {name: tuple(float(np.asarray(right)[part].mean()) for part in parts) for name, right in correct.items()}
    errors = {
        name: tuple(math.sqrt(share * (1 - share) / len(part)) for share, part in zip(shares, parts))
        for name, shares in accuracy.items()
    }
    return AccuracyByDistance(tuple(float(np.median(values[part])) for part in parts), accuracy, errors)


def _sets(train: Any, test: Any) -> tuple[Labeled, Labeled]:
    """Return both sets with the same numbering of classes."""
    first, second = (
        labeled(*(samples if isinstance(samples, tuple) else (samples, None)), name=name)
        for samples, name in ((train, "training images"), (test, "test images"))
    )
    if first.names != second.names:
        raise InputError(
            f"training and test images have different classes, {len(first.names)} and {len(second.names)} of them; "
            "give samples of the same classes in both"
        )
    return first, second


def _depth(train: Labeled, test: Labeled) -> NDArray[np.float64]:
    rows, queries = (np.ascontiguousarray(samples.images.flatten(1).numpy()) for samples in (train, test))
    distances = np.empty((len(test), len(train.names)))
    for label in range(len(train.names)):
        distances[:, label] = np.sqrt(nearest_rows(queries, rows[train.classes == label], 1)[0][:, 0])
    own_class = np.take_along_axis(distances, test.classes[:, None], axis=1)[:, 0]
    np.put_along_axis(distances, test.classes[:, None], np.inf, axis=1)
    with np.errstate(divide="ignore"):
        return np.asarray(distances.min(axis=1) / own_class)
