"""`NetworkKernel`: classification and regression with the infinite-width kernel of a network, without training it."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from scipy import linalg, stats
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.svm import SVC
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted
from torch import nn

from initscope.errors import InputError
from initscope.initializers import AnyInitializer
from initscope.propagate.kernels import diagonal, kernel

__all__ = ["NetworkKernel", "left_out_accuracy"]

Floats = npt.NDArray[np.float64]
_NOISES = 10.0 ** np.arange(-8, 1.5, 0.5)
_NODES = 64
_FEW, _LITTLE = 5, 1e-4
"""Fewest samples of a class for choosing the noise by leave-one-out errors, and the noise for smaller classes.

With fewer samples, leaving one out mostly measures that its class is missing."""


class NetworkKernel(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Classification or regression by the kernel of a network, as if it had infinitely many units.

    With ``method="gp"`` the exact Gaussian process (which is kernel ridge regression with an uncertainty)

    .. math:: \mu(x) = k(x)^T(K+s^2I)^{-1}Y, \qquad v(x) = k(x,x) - k(x)^T(K+s^2I)^{-1}k(x)

    on targets Y, of classes the indicators less their means [Lee2018]_; K is scaled to mean diagonal 1. With
    ``method="svm"`` scikit-learn's support vector machine. As a transformer it returns the rows :math:`k(x)^T`, for any
    estimator with ``kernel="precomputed"``.

    Parameters
    ----------
    model : torch.nn.Module
        Any model that `initscope.kernel` covers, as far as its last hidden layer or with its head.
    kind : {"nngp", "ntk"}
        The kernel of training only the last layer, or all layers.
    method : {"gp", "svm"}
        Gaussian process, or support vectors (classes only).
    noise : float or "auto"
        :math:`s^2`, for support vectors 1/C. "auto": the value on a grid with the smallest exact leave-one-out error;
        1e-4, which fits all samples, if a class has fewer than five samples.
    initializer : Initializer, its class or its name, optional
        The distribution of the weights. None: the variances that the model's weights have now.
    seed : int
        Seed for models of which some ops are sampled.
    device : str or torch.device, optional
        Device on which torch computes kernels, as in `initscope.kernel`.

    Attributes
    ----------
    classes_ : ndarray
        The classes; absent after regression.
    noise_ : float
        The noise that is used.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.ReLU())
    >>> corners = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [-1.0, -1.0]])
    >>> NetworkKernel(model, noise=1e-3).fit(corners, [0, 0, 1, 1]).predict([[0.1, 1.0], [0.9, 0.9]])
    array([0, 1])
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        kind: Literal["nngp", "ntk"] = "nngp",
        method: Literal["gp", "svm"] = "gp",
        noise: float | Literal["auto"] = "auto",
        initializer: AnyInitializer | None = None,
        seed: int = 0,
        device: Any = None,
    ) -> None:
        self.model = model
        self.kind = kind
        self.method = method
        self.noise = noise
        self.initializer = initializer
        self.seed = seed
        self.device = device

    def fit(self, X: Any, y: Any = None) -> Self:
        """Compute the kernel of the training data, and solve for ``y`` if it is given."""
        self._check_options()
        K = self._kernel(X)
        self.X_, self.scale_ = X, float(np.mean(np.diag(K)))
        self.K_ = K / self.scale_
        if y is not None:
            targets = self._targets(np.asarray(y))
            if self.method == "svm":
                self.noise_ = 1.0 if self.noise == "auto" else float(self.noise)
                self.svm_ = SVC(C=1 / self.noise_, kernel="precomputed").fit(self.K_, y)
            else:
                self.noise_ = self._chosen_noise(targets) if self.noise == "auto" else float(self.noise)
                self.factor_ = linalg.cho_factor(self.K_ + self.noise_ * np.eye(len(K)), lower=True)
                self.dual_ = linalg.cho_solve(self.factor_, targets)
        return self

    def transform(self, X: Any) -> Floats:
        """Return the kernel of ``X`` with the training data, ``[len(X), n]``."""
        check_is_fitted(self, "K_")
        result: Floats = self._kernel(X, self.X_) / self.scale_
        return result

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return classes or values; with ``return_std`` also the deviation of the process there."""
        if return_std:
            mean, deviation = self._posterior(X)
            return self._decided(mean), deviation
        if self.method == "svm" and self._solved():
            return self.svm_.predict(self.transform(X))
        return self._decided(self._mean(self.transform(X)))

    def decision_function(self, X: Any) -> Floats:
        """Return the posterior means of all classes, ``[len(X), classes]``.

        With support vectors, scikit-learn's decision values.
        """
        rows = self.transform(X)
        if self.method == "svm" and self._solved():
            return np.asarray(self.svm_.decision_function(rows))
        return self._mean(rows)

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability that each class's process is the largest, ``[len(X), classes]``."""
        mean, deviation = self._posterior(X)
        if not hasattr(self, "classes_"):
            raise InputError(
                "predict_proba needs a model that was fitted to classes; this one was fitted to numbers: "
                "use predict(X, return_std=True)"
            )
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        deviation = np.maximum(deviation, 1e-12)[:, None, None]
        # P(class c is the largest) = E over its value of the product of the probabilities that the others lie below
        below = stats.norm.logcdf((mean[:, :, None] - mean[:, None, :])[..., None] / deviation[..., None] + nodes)
        below[:, np.arange(mean.shape[1]), np.arange(mean.shape[1])] = 0
        chance = np.exp(below.sum(axis=2)) @ (weights / weights.sum())
        return np.asarray(chance / chance.sum(axis=1, keepdims=True))

    def score(self, X: Any, y: Any) -> float:
        """Return the accuracy for classes, R² for numbers."""
        from sklearn.metrics import accuracy_score, r2_score

        measure = accuracy_score if hasattr(self, "classes_") else r2_score
        return float(measure(y, self.predict(X)))

    def _check_options(self) -> None:
        if self.method not in ("gp", "svm"):
            raise InputError(f"method = {self.method!r} must be 'gp' or 'svm'")
        if self.noise != "auto" and not 0 < float(self.noise) < np.inf:
            raise InputError(f"noise = {self.noise!r} must be positive, or 'auto'")

    def _options(self) -> dict[str, Any]:
        return {"initializer": self.initializer, "kind": self.kind, "seed": self.seed, "device": self.device}

    def _kernel(self, X: Any, others: Any = None) -> Floats:
        values: Floats = kernel(self.model, X, others, normalize=False, **self._options())
        return values

    def _targets(self, y: npt.NDArray[Any]) -> Floats:
        """Return columns to solve for; of classes the indicators, all less their means."""
        if len(y) != len(self.K_):
            raise InputError(f"X has {len(self.K_)} samples and y {len(y)}; give one target per sample")
        if type_of_target(y).startswith("continuous"):
            if self.method == "svm":
                raise InputError("method='svm' takes classes, and y holds numbers; use method='gp'")
            self.__dict__.pop("classes_", None)
            columns = y.astype(np.float64).reshape(len(y), -1)
        else:
            self.classes_ = np.unique(y)
            if len(self.classes_) < 2:
                raise InputError(f"y holds one class, {self.classes_[0]!r}; give at least two")
            columns = (y[:, None] == self.classes_).astype(np.float64)
        self.mean_ = columns.mean(axis=0)
        return np.asarray(columns - self.mean_)

    def _chosen_noise(self, targets: Floats) -> float:
        few = hasattr(self, "classes_") and len(targets) * self.mean_.min() < _FEW
        return _LITTLE if few else _left_out(self.K_, targets)[0]

    def _solved(self) -> bool:
        check_is_fitted(self, "noise_")
        return True

    def _mean(self, rows: Floats) -> Floats:
        check_is_fitted(self, "dual_")
        return np.asarray(rows @ self.dual_ + self.mean_)

    def _posterior(self, X: Any) -> tuple[Floats, Floats]:
        """Return means ``[n, columns]`` and deviations ``[n]`` of the process without noise."""
        if self.method == "svm":
            raise InputError("support vectors have no uncertainty; use method='gp'")
        rows = self.transform(X)
        mean = self._mean(rows)
        variances = diagonal(self.model, X, **self._options()) / self.scale_
        solved = linalg.solve_triangular(self.factor_[0], rows.T, lower=True)
        return mean, np.sqrt(np.maximum(variances - np.square(solved).sum(axis=0), 0))

    def _decided(self, mean: Floats) -> npt.NDArray[Any]:
        if hasattr(self, "classes_"):
            return np.asarray(self.classes_[mean.argmax(axis=1)])
        return mean[:, 0] if mean.shape[1] == 1 else mean


def left_out_accuracy(K: Floats, labels: npt.NDArray[Any]) -> tuple[float, float]:
    """Return the leave-one-out accuracy of the Gaussian process, and its noise."""
    indicators = (labels[:, None] == np.unique(labels)).astype(np.float64)
    mean = indicators.mean(axis=0)
    noise, errors = _left_out(K / np.mean(np.diag(K)), indicators - mean)
    predicted = indicators - errors
    return float((predicted.argmax(axis=1) == indicators.argmax(axis=1)).mean()), noise


def _left_out(K: Floats, targets: Floats) -> tuple[float, Floats]:
    """Return the noise with the least exact leave-one-out squared error, and these errors."""
    values, vectors = linalg.eigh(K)
    along = vectors.T @ targets
    best: tuple[float, float, Floats] | None = None
    for noise in _NOISES:
        inverse = 1 / (np.maximum(values, 0) + noise)
        errors = (vectors @ (inverse[:, None] * along)) / (np.square(vectors) @ inverse)[:, None]
        size = float(np.square(errors).mean())
        if best is None or size < best[0]:
            best = (size, float(noise), errors)
    assert best is not None
    return best[1:]
