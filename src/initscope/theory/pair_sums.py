r"""The cosine of a pair from sums over its units, and the influence of one filter on it.

`cosine_from_gap` and `angle_from_gap` preserve the digits of nearly parallel pairs; `filter_influence` is the
first-order share of each independent filter in the cosine, from which standard errors and the number of filters follow.
"""

from __future__ import annotations

from typing import Any

from initscope.theory._arccos import angle_of_half_gap, half_gap
from initscope.theory._arrays import Array, namespace

__all__ = ["angle_from_gap", "cosine_from_gap", "filter_influence", "half_gap_from_sums"]

_LOST = 1e12
"""Ratio of two norms beyond which the squared distance knows nothing of the angle between them."""


def half_gap_from_sums(xx: Array, yy: Array, gap: Array) -> Array:
    r"""Return (1 - cosine)/2 from ‖x‖², ‖y‖² and ‖x-y‖²; NaN if a side is zero or the norms differ by more than 1e12.

    .. math:: \frac{1-\rho}2 = \frac{\|x-y\|^2 - (\|x\|-\|y\|)^2}{4\,\|x\|\,\|y\|} = \sin^2\frac\theta2

    The rounding error of ‖x-y‖² is multiplied by the ratio of the norms, so beyond a ratio of 1e12 no digits are left.
    Source: elementary; in the variable of [ChoSaul2009]_, in which small angles keep their digits.
    """
    xp, xx, yy, gap = namespace(xx, yy, gap)
    product, h = half_gap(xp, xx, yy, gap)
    smaller, larger = xp.minimum(xx, yy), xp.maximum(xx, yy)
    known = (product > 0) & (smaller * _LOST**2 > larger)
    return xp.where(known, h, xp.full_like(h, float("nan")))


def cosine_from_gap(xx: Array, yy: Array, gap: Array) -> Array:
    r"""⟨x, y⟩/(‖x‖‖y‖) from ‖x‖², ‖y‖² and ‖x-y‖², the definition of [Nachum2022]_ eq. 1 through `half_gap_from_sums`.

    >>> float(cosine_from_gap(4.0, 4.0, 4.0))      # 60 degrees
    0.5
    """
    return 1 - 2 * half_gap_from_sums(xx, yy, gap)


def angle_from_gap(gap: Array) -> Array:
    """Return the angle in radians from 1 - cosine, with all the digits that this has; beyond [0, 2] the nearer end.

    >>> float(angle_from_gap(2e-20))
    2e-10
    """
    xp, gap = namespace(gap)
    # arctan loses NaN in the masked roots below
    return xp.where(xp.isnan(gap), gap, angle_of_half_gap(xp, gap / 2))


def filter_influence(xx: Array, yy: Array, xy: Array, *, axis: int = -1) -> tuple[Array, Array]:
    r"""Return the cosine of a pair, and the first-order contribution of each filter; filters are along ``axis``.

    .. math:: \rho = \frac{A}{\sqrt{BC}}, \qquad
              \frac{a_i}{\sqrt{BC}} - \frac\rho2\Bigl(\frac{b_i}B + \frac{c_i}C\Bigr)

    Here a, b, c are the inner products ``xy`` and squared norms ``xx``, ``yy`` of one filter's two outputs and A, B, C
    their sums. The influences sum to 0; the variance of ρ over independent filters is N/(N-1) times the sum of their
    squares (delta method of a ratio of means, as for the filters of [Nachum2022]_ corollary 1).

    >>> import numpy as np
    >>> cosine, influence = filter_influence(np.array([2.0, 1.0]), np.array([1.0, 2.0]), np.array([1.0, 0.5]))
    >>> round(float(cosine), 12), influence.round(12).tolist()
    (0.5, [0.083333333333, -0.083333333333])
    """
    xp, xx, yy, xy = namespace(xx, yy, xy)

    def total(values: Array) -> Any:
        return xp.sum(values, axis=axis, keepdims=True)

    product = xp.sqrt(total(xx)) * xp.sqrt(total(yy))
    cosine = total(xy) / product
    influence = xy / product - cosine * (xx / total(xx) + yy / total(yy)) / 2
    return xp.squeeze(cosine, axis=axis), influence
