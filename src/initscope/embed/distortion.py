r"""Distortion of distances by codes and features: predicted, and observed on data.

A pair at angle θ has Binomial(m, θ/π) unequal bits out of m, so the deviation of a random pair is known exactly;
over many pairs the union bound gives the largest deviation to expect (`hamming_bound`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope._utils.palette import line_color
from initscope.embed._layer import Shape, kernel_shape, patch_sums, to_images
from initscope.embed.codes import unpack_bits
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
    "unequal_by_bit",
]

_FEWEST_BITS = 16
"""Fewest bits for which Student's t of non-Gaussian values is reliable."""


_DRAWN_SINGLY = 2000
"""Most points drawn as vector shapes; more are rasterized, to limit the size of the file."""


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
    bias, bias_standard_error : float
        Mean of ``hamming/bits - angle/π`` over the pairs, and its standard error over the bits. Bits are independent,
        but pairs that share rows and one layer are not. None for orthogonal rows and fewer than 16 bits.
    pvalue : float or None
        Probability of a bias at least this large under the binomial distribution, by Student's t over the bits; valid
        even if pairs share rows.
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
    bias: float
    bias_standard_error: float | None
    pvalue: float | None
    angles: np.ndarray = field(repr=False)
    hamming: np.ndarray = field(repr=False)

    def table(self) -> list[dict[str, Any]]:
        """Return one row, without the pairs."""
        return [{name: value for name, value in self.to_dict().items() if name not in ("angles", "hamming")}]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Hamming distance against angle, with the line θ/π and two standard deviations on either side."""
        ax = make_axes(ax)
        share = np.linspace(0, 1, 200)
        spread = 2 * np.sqrt(share * (1 - share) / self.bits)
        points = ax.plot(
            np.degrees(self.angles), self.hamming / self.bits, ".", color=line_color(1), markersize=4, alpha=0.4
        )
        points[0].set(mew=0, rasterized=len(self.angles) > _DRAWN_SINGLY)
        ax.plot([], [], "o", color=line_color(1), markersize=4, label="pairs")  # visible in the legend
        ax.plot(180 * share, share, color=line_color(0), label="angle / π")
        for sign in (-1, 1):
            label = "± 2 standard deviations" if sign > 0 else None
            ax.plot(180 * share, share + sign * spread, "--", color=line_color(0), linewidth=1, label=label)
        ax.set(xlabel="angle (degrees)", ylabel="unequal bits (fraction)", title=f"{self.bits} bits")
        ax.set(xlim=(0, 180), xticks=range(0, 181, 45), ylim=(0, 1))
        ax.legend(loc="upper left", frameon=False)
        return ax


def hamming_distortion(
    angles: np.ndarray,
    hamming: np.ndarray,
    bits: int,
    *,
    delta: float = 0.05,
    independent: bool = True,
    by_bit: np.ndarray | None = None,
) -> HammingDistortion:
    """Compare the unequal bits of pairs with the binomial distribution of their angles, exact for independent bits.

    ``by_bit`` is the fraction of pairs that differ in each bit; without it there is no p-value.
    """
    share = np.clip(np.asarray(angles, dtype=np.float64) / math.pi, 0.0, 1.0)
    deviation = hamming / bits - share
    error, pvalue = _bias_test(by_bit - share.mean()) if independent and by_bit is not None else (None, None)
    return HammingDistortion(
        bits=bits,
        pairs=len(share),
        rms_observed=float(np.sqrt((deviation**2).mean())),
        rms_predicted=float(np.sqrt((share * (1 - share)).mean() / bits)),
        largest=float(np.abs(deviation).max()),
        bound=hamming_bound(bits, delta=delta, pairs=len(share)) if independent else None,
        delta=delta,
        bias=float(deviation.mean()),
        bias_standard_error=error,
        pvalue=pvalue,
        angles=np.asarray(angles),
        hamming=np.asarray(hamming),
    )


def _bias_test(deviations: np.ndarray) -> tuple[float | None, float | None]:
    """Return the standard error of the mean of independent deviations, one per bit, and the p-value of that mean."""
    from scipy.stats import t

    bits = len(deviations)
    error = float(deviations.std(ddof=1) / math.sqrt(bits)) if bits >= _FEWEST_BITS else 0.0
    if error == 0:
        return None, None
    return error, float(2 * t.sf(abs(deviations.mean()) / error, bits - 1))


def unequal_by_bit(codes: np.ndarray, left: np.ndarray, right: np.ndarray, bits: int) -> np.ndarray:
    """Return the share of pairs of packed codes that differ in each bit."""
    counts = np.zeros(bits)
    for start in range(0, len(left), 1024):
        pick = slice(start, start + 1024)
        counts += unpack_bits(codes[left[pick]] ^ codes[right[pick]], bits).sum(axis=0)
    return counts / len(left)


def hamming_bound(bits: int, *, delta: float = 0.05, pairs: int = 1) -> float:
    r"""Return the smallest ε such that no pair deviates by more, with probability 1-δ, for any angles.

    .. math:: \text{pairs}\cdot\max_p P\bigl(|B/m - p| > \varepsilon\bigr) \le \delta,\quad B\sim\mathrm{Binomial}(m, p)

    This is the inverse of the planner `initscope.plan.bits`; the tails are those of
    `theory.concentration.sign_failure`.

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
    """Return indices of random pairs of different rows; no pair occurs twice, so there are at most rows·(rows-1)/2.

    >>> left, right = random_pairs(3, 100, np.random.default_rng(0))
    >>> sorted(zip(left.tolist(), right.tolist()))
    [(0, 1), (0, 2), (1, 2)]
    """
    if rows < 2:
        raise InputError(f"{rows} row: a pair needs two rows; give at least two")
    total = rows * (rows - 1) // 2
    number = rng.choice(total, min(check_count("pairs", pairs), total), replace=False)
    # Pair number r(r-1)/2 + l is (l, r) with l < r; the root is rounded, so it is put right by one.
    right = ((1 + np.sqrt(1 + 8.0 * number)) / 2).astype(np.int64)
    right -= right * (right - 1) // 2 > number
    right += right * (right + 1) // 2 <= number
    return number - right * (right - 1) // 2, right


def rows_of_pairs(X: np.ndarray, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows of ``X`` that occur in pairs, and the pairs as indices of these rows."""
    used, indices = np.unique(np.stack([left, right]), return_inverse=True)
    return X[used], *indices.reshape(2, -1)


def mean_patch_angle(
    rows: np.ndarray, left: np.ndarray, right: np.ndarray, kernel_size: int | None, shape: Shape
) -> np.ndarray:
    """Return the angle of each pair, averaged over cyclic patches if there is a kernel, otherwise of the whole rows.

    A zero patch has code 0 for every filter: against another it counts as a right angle, against a zero as none.
    """
    angles = np.empty(len(left))
    for start in range(0, len(left), 1024):
        pick = slice(start, start + 1024)
        x, y = (to_images(rows[side[pick]].astype(np.float64), shape) for side in (left, right))
        maps = [(x * x).sum(axis=1), (y * y).sum(axis=1), (x * y).sum(axis=1)]
        if kernel_size is None:
            squares = [products.sum(axis=(1, 2)) for products in maps]
        else:
            squares = [patch_sums(products, kernel_shape(kernel_size, shape)) for products in maps]
        scale = np.sqrt(squares[0] * squares[1])
        both_zero = (squares[0] <= 0) & (squares[1] <= 0)
        cosine = np.divide(squares[2], scale, out=both_zero.astype(np.float64), where=scale > 0)
        angle = np.arccos(np.clip(cosine, -1.0, 1.0))
        angles[pick] = angle if kernel_size is None else angle.mean(axis=(1, 2))
    return angles
