r"""How far codes and features are from the geometry they stand for: predicted, and observed on data.

A pair at angle θ has Binomial(m, θ/π) unequal bits out of m, so the deviation of a random pair is known exactly;
over many pairs the union bound gives the largest deviation to expect (`hamming_bound`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope._hall.randomness import generator
from initscope.embed._layer import Shape, kernel_shape, patch_sums, to_images
from initscope.errors import InputError, check_count, check_probability
from initscope.results import Result, make_axes
from initscope.theory.concentration import sign_failure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "HammingDistortion",
    "hamming_bound",
    "hamming_distortion",
    "mean_patch_angle",
    "random_pairs",
    "rows_of_pairs",
]


@dataclass(frozen=True)
class HammingDistortion(Result):
    """Hamming distance against angle for pairs of rows.

    Attributes
    ----------
    bits, pairs : int
    rms_observed, rms_predicted : float
        Root mean square of ``hamming/bits - angle/π``; predicted √(mean θ/π (1-θ/π) / m), of orthogonal rows an upper
        bound.
    largest : float
        Largest absolute deviation observed.
    bound : float, or None for orthogonal rows
        No pair exceeds it with probability ``1 - delta`` over the layer (exact binomial tails, union over the pairs).
    ks_statistic, ks_pvalue : float, or None for orthogonal rows
        Kolmogorov–Smirnov test of the deviations against the binomial law (randomised probability transform). Pairs
        share one layer, so they are not quite independent: read small p-values with that in mind.
    angles, hamming : array
        Each pair's angle (radians) and number of unequal bits.
    """

    bits: int
    pairs: int
    rms_observed: float
    rms_predicted: float
    largest: float
    bound: float | None
    delta: float
    ks_statistic: float | None
    ks_pvalue: float | None
    angles: np.ndarray = field(repr=False)
    hamming: np.ndarray = field(repr=False)

    def table(self) -> list[dict[str, Any]]:
        """One row, without the pairs."""
        return [{name: value for name, value in self.to_dict().items() if name not in ("angles", "hamming")}]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Hamming distance against angle, with the line θ/π and two standard deviations on either side."""
        ax = make_axes(ax)
        share = np.linspace(0, 1, 200)
        spread = 2 * np.sqrt(share * (1 - share) / self.bits)
        ax.plot(np.degrees(self.angles), self.hamming / self.bits, ".", color="C1", markersize=4, alpha=0.4, mew=0)
        ax.plot([], [], "o", color="C1", markersize=4, label="pairs")  # dots large enough to be seen in the legend
        ax.plot(180 * share, share, color="C0", label="angle / π")
        for sign in (-1, 1):
            label = "± 2 standard deviations" if sign > 0 else None
            ax.plot(180 * share, share + sign * spread, "--", color="C0", linewidth=1, label=label)
        ax.set(xlabel="angle (degrees)", ylabel="unequal bits (fraction)", title=f"{self.bits} bits")
        ax.set(xlim=(0, 180), xticks=range(0, 181, 45), ylim=(0, 1))
        ax.legend(loc="upper left", frameon=False)
        return ax


def hamming_distortion(
    angles: np.ndarray, hamming: np.ndarray, bits: int, *, delta: float = 0.05, independent: bool = True
) -> HammingDistortion:
    """Set the unequal bits of pairs beside the binomial law of their angles, which holds if bits are independent."""
    share = np.clip(np.asarray(angles, dtype=np.float64) / math.pi, 0.0, 1.0)
    deviation = hamming / bits - share
    statistic, pvalue = _kolmogorov_smirnov(hamming, bits, share) if independent else (None, None)
    return HammingDistortion(
        bits=bits,
        pairs=len(share),
        rms_observed=float(np.sqrt((deviation**2).mean())),
        rms_predicted=float(np.sqrt((share * (1 - share)).mean() / bits)),
        largest=float(np.abs(deviation).max()),
        bound=hamming_bound(bits, delta=delta, pairs=len(share)) if independent else None,
        delta=delta,
        ks_statistic=statistic,
        ks_pvalue=pvalue,
        angles=np.asarray(angles),
        hamming=np.asarray(hamming),
    )


def _kolmogorov_smirnov(hamming: np.ndarray, bits: int, share: np.ndarray) -> tuple[float, float]:
    """Statistic and p-value of the randomised probability transform against the uniform law."""
    from scipy.stats import binom, kstest

    below = binom.cdf(hamming - 1, bits, share)
    within = binom.cdf(hamming, bits, share) - below
    test = kstest(below + generator(0, "probability transform").random(len(share)) * within, "uniform")
    return float(test.statistic), float(test.pvalue)


def hamming_bound(bits: int, *, delta: float = 0.05, pairs: int = 1) -> float:
    r"""Smallest ε such that no pair deviates by more, with probability 1-δ, whatever the angles.

    .. math:: \text{pairs}\cdot\max_p P\bigl(|B/m - p| > \varepsilon\bigr) \le \delta,\quad B\sim\mathrm{Binomial}(m, p)

    The planner `initscope.plan.bits` read the other way; the tails are those of `theory.concentration.sign_failure`.
    1 if no ε below 1 is enough.

    >>> round(hamming_bound(256), 3)      # 0.061 in the normal approximation
    0.062
    """
    bits, pairs = check_count("bits", bits), check_count("pairs", pairs)
    allowed = check_probability("delta", delta) / pairs
    low, high = 0.0, 1.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if sign_failure(bits, middle) > allowed else (low, middle)
    return high


def random_pairs(rows: int, pairs: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Indices of random pairs of different rows."""
    if rows < 2:
        raise InputError(f"{rows} row makes no pair; give at least two")
    left = rng.integers(rows, size=check_count("pairs", pairs))
    return left, (left + rng.integers(1, rows, size=pairs)) % rows


def rows_of_pairs(X: np.ndarray, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows of ``X`` that occur in pairs, and the pairs as indices into them."""
    used, places = np.unique(np.stack([left, right]), return_inverse=True)
    return X[used], *places.reshape(2, -1)


def mean_patch_angle(
    rows: np.ndarray, left: np.ndarray, right: np.ndarray, kernel_size: int | None, shape: Shape
) -> np.ndarray:
    """Angle of each pair, averaged over cyclic patches if there is a kernel (else the angle of the whole rows).

    A zero patch has code 0 for every filter: against another it counts as a right angle, against a zero as none.
    """
    angles = np.empty(len(left))
    for start in range(0, len(left), 1024):
        pick = slice(start, start + 1024)
        x, y = (to_images(rows[side[pick]].astype(np.float64), shape) for side in (left, right))
        maps = [(x * x).sum(axis=1), (y * y).sum(axis=1), (x * y).sum(axis=1)]
        if kernel_size is None:
            squares = [each.sum(axis=(1, 2)) for each in maps]
        else:
            squares = [patch_sums(each, kernel_shape(kernel_size, shape)) for each in maps]
        scale = np.sqrt(squares[0] * squares[1])
        both_zero = (squares[0] <= 0) & (squares[1] <= 0)
        cosine = np.divide(squares[2], scale, out=both_zero.astype(np.float64), where=scale > 0)
        angle = np.arccos(np.clip(cosine, -1.0, 1.0))
        angles[pick] = angle if kernel_size is None else angle.mean(axis=(1, 2))
    return angles
