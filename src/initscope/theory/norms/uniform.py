r"""Norm preservation for *all* inputs of a set at once: the covering bounds of the paper, and Gordon's, far narrower.

Setting: one layer :math:`R(Wu)`, W of size m × n with i.i.d. N(0, 2/m) entries, u in a set T of unit vectors (a
subspace's sphere, a cloud of points). `lemma3_width` and `theorem2_width` are the paper's, `gordon_*` go beyond it.
"""

from __future__ import annotations

import math

import numpy as np

from initscope.errors import InputError, check_between, check_count, check_probability
from initscope.theory._search import smallest
from initscope.theory.norms.bounds import relu_norm_rate
from initscope.theory.norms.law import active_units

__all__ = [
    "cone_count_log",
    "expected_relu_norm",
    "gordon_band",
    "gordon_deep_band",
    "gordon_width",
    "lemma3_width",
    "theorem2_width",
]


def expected_relu_norm(width: int) -> float:
    r"""Exact :math:`e_m = \sqrt{2/m}\;E\|g_+\|` of a standard Gaussian g in m dimensions: the mean norm a unit input
    gets.

    .. math:: E\|g_+\| = \sum_{k\ge1}\binom mk 2^{-m}\,\sqrt2\,\frac{\Gamma((k+1)/2)}{\Gamma(k/2)},
              \qquad e_m = 1 - \frac{5}{8m} + O(m^{-2})

    >>> round(expected_relu_norm(1), 12) == round(1 / math.sqrt(math.pi), 12)
    True
    """
    from scipy.special import poch

    counts, weights = active_units(width)
    active = counts > 0
    return float(np.sum(weights[active] * poch(counts[active] / 2, 0.5)) * 2 / math.sqrt(width))


def gordon_band(width: int, one_sided_width: float, delta: float) -> tuple[float, float]:
    r"""Band that holds :math:`\|R(Wu)\|` for all unit vectors u of a set at once, with probability at least 1 -
    ``delta``.

    .. math:: e_m \pm \sqrt{2/m}\,(w + t), \qquad t = \sqrt{2\log(2/\delta)}

    ``one_sided_width`` is :math:`w = E\sup_{u\in T}\langle g, u\rangle`: at most √d for a d-dimensional subspace, at
    most :math:`\sqrt{2\log N}` for N points. The comparison of [Gordon1988]_ for :math:`\max_v\langle Wu, v\rangle`
    over v ≥ 0 gives both means, Gaussian concentration (the norm is √(2/m)-Lipschitz in the Gaussians) the deviation t,
    half of ``delta`` on each side. A width measured from samples is a certificate for those samples only. Norms, not
    squared norms.
    """
    check_probability("delta", delta)
    if not 0 <= one_sided_width < math.inf:
        raise InputError(
            f"one_sided_width = {one_sided_width} must be at least 0 and finite; for a subspace it is sqrt(dim)"
        )
    center = expected_relu_norm(width)
    half = math.sqrt(2 / width) * (one_sided_width + math.sqrt(2 * math.log(2 / delta)))
    return max(center - half, 0.0), center + half


def _norm_band(eps: float, squared: bool) -> tuple[float, float]:
    """Return the band of norms that ``eps`` allows."""
    check_between("eps", eps, 0.0, 1.0)
    return (math.sqrt(1 - eps), math.sqrt(1 + eps)) if squared else (1 - eps, 1 + eps)


def gordon_width(one_sided_width: float, eps: float, delta: float, *, squared: bool = True) -> int:
    """Smallest width at which `gordon_band` lies within 1 ± eps, of squared norms or (``squared=False``) of norms.

    Beyond the sources; compare [ArpitBengio2019]_.

    >>> lemma3_width(10, 0.1, 0.05) > 80 * gordon_width(math.sqrt(10), 0.1, 0.05)
    True
    """
    low, high = _norm_band(eps, squared)

    def excess(width: int) -> float:
        bottom, top = gordon_band(width, one_sided_width, delta)
        return max(low - bottom, top - high)

    return smallest(excess)


def gordon_deep_band(width: int, one_sided_width: float, depth: int, delta: float) -> list[tuple[float, float]]:
    r"""Bands of :math:`\|h^l\|/\|x\|` for all inputs of a set at once, in every layer of a network of equal width.

    Beyond the sources; compare [ArpitBengio2019]_.

    Layer l sees the normalized image of the set, whose width obeys

    .. math:: w_{l+1} \le \frac{\sqrt2\,(w_l + t')}{\text{lower end of the layer's band}},

    in the mean by the contraction principle (R is 1-Lipschitz), and with :math:`t' = \sqrt{2\log(1/\delta')}` by
    concentration. The 2L-1 events share ``delta`` equally. The √2 a layer is the price of uniformity without the flawed
    subspace argument of theorem 2's proof.
    """
    check_count("depth", depth)
    share = check_probability("delta", delta) / (2 * depth - 1)
    bands, low, high, mean_width = [], 1.0, 1.0, one_sided_width
    for _ in range(depth):
        bottom, top = gordon_band(width, mean_width, share)
        low, high = low * bottom, high * top
        bands.append((low, high))
        if bottom == 0:
            bands += [(0.0, math.inf)] * (depth - len(bands))
            break
        mean_width = math.sqrt(2) * (mean_width + math.sqrt(2 * math.log(1 / share))) / bottom
    return bands


def lemma3_width(dim: int, eps: float, delta: float, *, squared: bool = True) -> int:
    r"""Lemma 3: width at which one ReLU layer preserves the norms of a whole ``dim``-dimensional subspace.

    Source: [ArpitBengio2019]_ eqs. 9 and 10.

    .. math:: m \ge \frac{d\log(2/\Delta) + \log(4/\delta)}{c(\varepsilon/3)},
              \qquad \Delta = \min\Bigl\{\frac{\varepsilon}{3\sqrt d}, \frac{\sqrt\varepsilon}{\sqrt3\,d}\Bigr\}

    The lemma prints squared norms (eq. 10), its proof gives norms (eqs. 74, 98). ``squared=False`` is the formula at
    ``eps``; ``squared=True`` takes it at √(1+eps) - 1, which is what squared norms within 1 ± eps need.

    >>> round(lemma3_width(10, 0.1, 0.05, squared=False), -4), round(lemma3_width(10, 0.1, 0.05), -5)
    (560000, 2600000)
    """
    return theorem2_width(dim, eps, delta, depth=1, squared=squared)


def theorem2_width(
    dim: int, eps: float, delta: float, *, depth: int, squared: bool = True, repaired: bool = False
) -> int:
    r"""Theorem 2: equal width at which ``depth`` ReLU layers preserve the norms of a subspace, within (1 ± eps)^l.

    Source: [ArpitBengio2019]_ eqs. 11 and 12.

    Lemma 3 with log(4L/δ). Its proof claims that a layer maps the subspace into a subspace of the same dimension; the
    image is a union of up to :math:`2\sum_{i<d}\binom{m-1}{i}` cones instead (`cone_count_log`), so as printed it is
    proven for the first layer only. ``repaired=True`` pays for the cones of all layers before the last, and is a
    theorem.
    """
    check_count("dim", dim)
    check_count("depth", depth)
    check_probability("delta", delta)
    eps = _norm_band(eps, squared)[1] - 1
    spacing = min(eps / (3 * math.sqrt(dim)), math.sqrt(eps / 3) / dim)
    rate = relu_norm_rate(eps / 3)
    cost = dim * math.log(2 / spacing) + math.log(4 * depth / delta)
    printed = math.ceil(cost / rate)
    if not repaired or depth == 1:
        return printed
    # Every cone lies in its own d-dimensional subspace; the counts multiply over the depth - 1 layers before.
    return smallest(lambda width: cost + (depth - 1) * cone_count_log(width, dim) - width * rate, guess=printed)


def cone_count_log(width: int, dim: int) -> float:
    r"""Return logarithm of :math:`2\sum_{i<d}\binom{m-1}{i}`: linear pieces of a ReLU layer on a d-dimensional subspace
    (Cover).

    >>> round(math.exp(cone_count_log(3, 2)))         # three lines through the origin of a plane
    6
    """
    from scipy.special import logsumexp

    check_count("width", width)
    check_count("dim", dim)
    i = np.arange(1, min(dim, width))
    # by the ratio of neighbors: log-gamma functions of large widths would cancel
    return math.log(2) + float(logsumexp(np.concatenate([[0.0], np.cumsum(np.log((width - i) / i))])))
