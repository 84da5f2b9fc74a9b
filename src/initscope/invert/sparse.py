"""Sparse inputs from fewer products than unknowns: the phase transition, and the restricted isometry constant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from initscope._utils.randomness import generator
from initscope.errors import InputError, check_between, check_count
from initscope.results import Result, make_axes
from initscope.theory.inversion import donoho_tanner

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["SparseTransition", "TransitionPoint", "restricted_isometry", "sparse_transition"]

Floats = NDArray[np.float64]
_STEEPNESS, _PRIOR = math.log(20.0), math.sqrt(2.0)
"""Mean and standard deviation of the logarithm of the steepness."""


@dataclass(frozen=True)
class TransitionPoint(Result):
    """Share of k-sparse inputs recovered from m Gaussian products of n unknowns."""

    measured: float
    outputs: int
    nonzeros: int
    sparsity: float
    theory: float
    order: float
    success: float
    trials: int


@dataclass(frozen=True)
class SparseTransition(Result):
    """Outcome of `sparse_transition`."""

    inputs: int
    method: str
    points: tuple[TransitionPoint, ...]

    def table(self) -> list[dict[str, Any]]:
        """Return one row per point; ``order`` is m/(k log(n/k))."""
        return [point.to_dict() for point in self.points]

    def thresholds(self) -> list[dict[str, float]]:
        """Return for every m/n the k/m at which half of the trials succeed, its standard error, and theory's value."""
        rows = []
        for measured in dict.fromkeys(point.measured for point in self.points):
            mine = [point for point in self.points if point.measured == measured]
            half, error = _half(mine)
            theory = mine[0].theory
            rows.append({"measured": measured, "half": half, "standard_error": error, "theory": theory,
                         "ratio": half / theory})  # fmt: skip
        return rows

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the measured transitions on the theoretical curve."""
        ax = make_axes(ax, figsize=(5.2, 3.6))
        deltas = np.linspace(0.02, 0.98, 97)
        ax.plot(deltas, donoho_tanner(deltas), lw=1, label="Donoho–Tanner")
        rows = self.thresholds()
        ax.errorbar([row["measured"] for row in rows], [row["half"] for row in rows],
                    [2 * row["standard_error"] for row in rows], fmt="o", ms=4,
                    label=f"half succeed, n = {self.inputs}")  # fmt: skip
        ax.set(xlabel="measured share m/n", ylabel="sparsity k/m", title=f"Sparse inputs, {self.method}")
        ax.title.set_fontsize(10)
        ax.legend(fontsize=8)
        return ax


def _half(points: Sequence[TransitionPoint]) -> tuple[float, float]:
    """Fit success against sparsity by a logistic curve; return where it is one half, and the standard error.

    The steepness has a log-normal prior, wider than any transition needs. Without it the fit has no maximum if no point
    has both successes and failures. The error is from the Fisher information.
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    sparsity = np.array([point.sparsity for point in points])
    won = np.array([point.success * point.trials for point in points])
    trials = np.array([point.trials for point in points])
    theory = points[0].theory

    def loss(parameters: Floats) -> float:
        steepness, center = np.exp(parameters[0]), parameters[1]
        z = steepness * (sparsity / theory - center)
        likelihood = np.sum(won * np.logaddexp(0, z) + (trials - won) * np.logaddexp(0, -z))
        return float(likelihood + 0.5 * ((parameters[0] - _STEEPNESS) / _PRIOR) ** 2)

    fit: Any = minimize(loss, np.array([_STEEPNESS, 1.0]), method="BFGS")
    steepness, center = math.exp(fit.x[0]), float(fit.x[1])
    z = steepness * (sparsity / theory - center)
    slopes = np.stack([z, np.full_like(z, -steepness)])  # of z against the two parameters
    information = (slopes * trials * expit(z) * expit(-z)) @ slopes.T + np.diag([_PRIOR**-2, 0.0])
    return center * theory, math.sqrt(np.linalg.inv(information)[1, 1]) * theory


def sparse_transition(
    measured: Sequence[float] = (0.25, 0.5, 0.75),
    *,
    inputs: int = 400,
    trials: int = 20,
    relative: Sequence[float] = (0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3),
    method: str = "lasso path",
    seed: int = 0,
) -> SparseTransition:
    """Measure how sparse inputs must be for recovery, and compare with the Donoho–Tanner curve.

    Source: [DonohoTanner2009]_; 'Random Gaussian weights' of [Bronstein2016]_.

    ``method`` is ``lasso path`` (scikit-learn's homotopy, up to the solution of least l1 norm) or ``matching pursuit``
    (orthogonal, with k given). Sparsities are ``relative`` to the curve.

    Parameters
    ----------
    measured : sequence of float
        Ratios of measurements to unknowns.
    inputs : int
        Number of unknowns.
    trials : int
        Random problems at each sparsity.
    relative : sequence of float
        Sparsities, relative to the curve.
    method : {"lasso path", "matching pursuit"}
        The solver.
    seed : int
        Seed of the problems.

    Returns
    -------
    SparseTransition
        The share of problems that were solved, for every ratio and sparsity.
    """
    if method not in ("lasso path", "matching pursuit"):
        raise InputError(f"method = {method!r} must be 'lasso path' or 'matching pursuit'")
    n, trials = check_count("inputs", inputs, least=20), check_count("trials", trials)
    rng = generator(seed, "sparse transition")
    points = []
    for delta in measured:
        m = round(check_between("measured", delta, 0.0, 1.0) * n)
        theory = float(donoho_tanner(m / n))
        for factor in relative:
            k = max(1, min(round(factor * theory * m), m))
            success = float(np.mean([_recovers(rng, m, n, k, method) for _ in range(trials)]))
            order = m / (k * math.log(n / k))
            points.append(TransitionPoint(m / n, m, k, k / m, theory, order, success, trials))
    return SparseTransition(n, method, tuple(points))


def _recovers(rng: np.random.Generator, m: int, n: int, k: int, method: str) -> bool:
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import lars_path, orthogonal_mp

    matrix = rng.standard_normal((m, n)) / math.sqrt(m)
    x = np.zeros(n)
    x[rng.choice(n, k, replace=False)] = rng.standard_normal(k)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # paths of inputs that are not recovered end in ties
        warnings.simplefilter("ignore", RuntimeWarning)
        if method == "lasso path":
            solution = lars_path(matrix, matrix @ x, method="lasso", alpha_min=1e-9, max_iter=4 * m, eps=1e-12)[2][
                :, -1
            ]
        else:
            solution = orthogonal_mp(matrix, matrix @ x, n_nonzero_coefs=k)
    return bool(np.linalg.norm(solution - x) < 1e-3 * np.linalg.norm(x))


def restricted_isometry(matrix: Any, nonzeros: int, *, samples: int = 200, seed: int = 0) -> float:
    r"""Return the lower bound on the restricted isometry constant of a matrix with columns of about unit norm.

    Source: [Bronstein2016]_, 'Restricted isometry property (RIP)'.

    .. math:: \delta_k = \max_{|S|=k} \|A_S^TA_S - I\|

    over ``samples`` random supports, each improved by swapping in the column that increases the deviation most.
    Exact maximization is NP-hard; `initscope.theory.inversion.restricted_isometry_bound` bounds it from above for
    Gaussian matrices.

    Parameters
    ----------
    matrix : array ``[m, n]``
        Matrix with columns of about unit norm.
    nonzeros : int
        Size k of the supports.
    samples : int
        Random supports.
    seed : int
        Seed of these supports.

    Returns
    -------
    float
    """
    columns = np.asarray(matrix, dtype=np.float64)
    if columns.ndim != 2 or not np.isfinite(columns).all():
        raise InputError(f"matrix of shape {columns.shape} must be two-dimensional and finite")
    n = columns.shape[1]
    k = check_count("nonzeros", nonzeros, most=n)
    rng = generator(seed, "restricted isometry")
    largest = 0.0
    for _ in range(check_count("samples", samples)):
        support = rng.choice(n, k, replace=False)
        for end in (0, -1):
            largest = max(largest, _improved(columns, support.copy(), end))
    return largest


def _improved(columns: Floats, support: NDArray[np.int64], end: int) -> float:
    """Deviation of the smallest (0) or largest (-1) eigenvalue from 1, after exchanging columns while it grows."""
    best = -math.inf
    for _ in range(10):
        part = columns[:, support]
        spectrum, vectors = np.linalg.eigh(part.T @ part)
        value = abs(float(spectrum[end]) - 1)
        if value <= best * (1 + 1e-9):
            break
        best = value
        direction = vectors[:, end]
        weakest = int(np.abs(direction).argmin())
        rest = part @ direction - part[:, weakest] * direction[weakest]
        products = np.abs(columns.T @ rest)
        products[support] = -math.inf
        if len(support) == columns.shape[1]:
            break
        support[weakest] = int(products.argmax())
    return best
