"""`collapse`: neural collapse by layer: variance within and between classes, simplex of the means, linear probes."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from initscope._utils.randomness import generator
from initscope.class_geometry.labeled import labeled
from initscope.class_geometry.outputs import Layer, layers_of, watch_layers
from initscope.class_geometry.supervised import nearest_class_mean
from initscope.errors import InputError, check_count
from initscope.results import Result, make_axes
from initscope.theory.separation import simplex_cosine, variability_collapse

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Collapse", "LayerCollapse", "collapse", "layer_rows", "ridge_classifier"]


@dataclass(frozen=True)
class LayerCollapse(Result):
    """One layer's row.

    Attributes
    ----------
    layer, kind : str
    within_between : float
        Total variance within classes over that of the class means; falls to 0 as classes collapse.
    variability : float
        tr(Σ_W Σ_B⁺)/C, which looks only along the directions in which the means differ.
    cosine, cosine_spread : float
        Mean and standard deviation of the cosines between centered class means; -1/(C-1) and 0 at a simplex.
    simplex : float
        -1/(C-1).
    norm_spread : float
        Standard deviation over mean of the lengths of the centered class means; 0 at a simplex.
    class_mean_accuracy, probe_accuracy : float
        Accuracy on the held-out half by the nearest class mean of the other half, or by a linear classifier (ridge
        regression, its penalty chosen on that half).
    class_mean_accuracy_se, probe_accuracy_se : float
        Standard errors over the held-out samples, for the classifiers as they were fitted.
    """

    layer: str
    kind: str
    within_between: float
    variability: float
    cosine: float
    cosine_spread: float
    simplex: float
    norm_spread: float
    class_mean_accuracy: float
    probe_accuracy: float
    class_mean_accuracy_se: float
    probe_accuracy_se: float


@dataclass(frozen=True)
class Collapse(Result):
    """`LayerCollapse` of every layer, the inputs first."""

    rows: tuple[LayerCollapse, ...]
    samples: int

    def table(self) -> list[dict[str, Any]]:
        """Return one row per layer."""
        return [row.to_dict() for row in self.rows]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Return the accuracy of the linear probe and of the nearest class mean by layer, with two standard errors."""
        ax = make_axes(ax)
        for name, marker in (("probe_accuracy", "o-"), ("class_mean_accuracy", "s--")):
            values = [getattr(row, name) for row in self.rows]
            errors = [2 * getattr(row, f"{name}_se") for row in self.rows]
            ax.errorbar(range(len(values)), values, yerr=errors, fmt=marker, label=name.replace("_", " "))
        ax.set_xticks(range(len(self.rows)), [row.layer for row in self.rows], rotation=35, ha="right")
        ax.set(ylabel="accuracy on held-out samples", ylim=(0, 1))
        ax.legend(frameon=False)
        return ax


def collapse(
    model: nn.Module,
    images: Any,
    labels: Any = None,
    *,
    samples: int = 4000,
    layers: Collection[str] | None = None,
    seed: int = 0,
) -> Collapse:
    """Measure how far each layer of a network has collapsed its classes [Papyan2020]_, and how well it separates them.

    Parameters
    ----------
    model : torch.nn.Module
        It runs in evaluation mode and is restored.
    images, labels
        As in `separation`. Collapse is defined on training samples; held-out samples show what generalizes.
    samples : int
        Random samples used: their outputs at all layers are in memory at once. Half of the samples fit the probes.
    layers : names, optional
        By default every activation and the last layer.
    seed : int
        Of the samples.

    Returns
    -------
    Collapse
        One row per layer.

    Examples
    --------
    >>> from initscope.data import load
    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(64, 100), nn.ReLU())
    >>> collapsed = collapse(model, load("digits"), samples=600)
    >>> [row.layer for row in collapsed.rows], collapsed.rows[0].probe_accuracy > 0.8
    (['input', '2'], True)
    """
    data = labeled(images, labels, least=2)
    order = generator(seed, "samples of collapse").permutation(len(data))[: check_count("samples", samples, least=4)]
    data = data.pick(order)
    watched = layers_of(model, data.images, layers)
    outputs = layer_rows(model, data.images, watched)
    start = LayerCollapse("input", "input", *_measures(data.images.flatten(1).numpy(), data.classes))
    rows = [LayerCollapse(layer.name, layer.kind, *_measures(outputs[layer.name], data.classes)) for layer in watched]
    return Collapse((start, *rows), len(data))


def layer_rows(model: nn.Module, images: Tensor, layers: tuple[Layer, ...]) -> dict[str, NDArray[np.float32]]:
    """Return outputs ``[N, D]`` of the layers."""
    kept = {layer.name: np.empty((len(images), layer.values), dtype=np.float32) for layer in layers}

    def keep(name: str, first: int, values: Tensor) -> None:
        kept[name][first : first + len(values)] = values.numpy()

    watch_layers(model, images, layers, keep)
    return kept


def ridge_classifier(rows: NDArray[Any], classes: NDArray[Any]) -> Any:
    """Fit scikit-learn's ridge classifier to rows.

    Its penalty, relative to their mean square, is chosen by leave-one-out.
    """
    from sklearn.linear_model import RidgeClassifierCV

    square = float(np.square(rows, dtype=np.float64).sum(axis=1).mean()) or 1.0
    return RidgeClassifierCV(alphas=square * np.logspace(-4, 1, 6)).fit(rows, classes)


def _measures(rows: NDArray[np.float32], classes: NDArray[np.int64]) -> tuple[float, ...]:
    present, number = np.unique(classes, return_inverse=True)
    if len(present) < 2:
        raise InputError("all drawn samples have the same class; use more samples")
    means = np.stack([rows[number == label].mean(axis=0, dtype=np.float64) for label in range(len(present))])
    centered = means - means.mean(axis=0)
    squares = sum(
        float(np.square(rows[number == label] - means[label]).sum(axis=1).mean()) for label in range(len(present))
    )
    lengths = np.linalg.norm(centered, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        cosines = (centered / lengths[:, None]) @ (centered / lengths[:, None]).T
        between = float((lengths**2).sum())
        spread = float(lengths.std() / lengths.mean())
    pairs = cosines[np.triu_indices(len(present), 1)]
    half = len(rows) // 2
    fitted, tested = slice(0, half), slice(half, None)
    by_mean = nearest_class_mean(rows[fitted], classes[fitted], rows[tested])
    by_probe = ridge_classifier(rows[fitted], classes[fitted]).predict(rows[tested])
    accuracies = [float((guess == classes[tested]).mean()) for guess in (by_mean, by_probe)]
    errors = [math.sqrt(share * (1 - share) / (len(rows) - half)) for share in accuracies]
    return (
        squares / between if between > 0 else math.inf,
        variability_collapse(rows, classes),
        float(pairs.mean()),
        float(pairs.std()),
        simplex_cosine(len(present)),
        spread,
        *accuracies,
        *errors,
    )
