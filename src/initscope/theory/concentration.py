r"""Required numbers: filters of a convolutional layer, dimensions of a linear layer, bits of a sign embedding.

For each the source's bound with explicit constants, and the exact or sharp number next to it. Filters are i.i.d., so
their averages concentrate; the docs (plan) derive the constants of theorem 2 and corollary 1 of the JL-for-CNNs paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from initscope.errors import check_between, check_count, check_probability
from initscope.theory._search import log_excess, smallest
from initscope.theory._sharp import (
    SharpFilters,
    filter_share_sd,
    layer_cosines,
    living_filters,
    sharp_filters,
    sharp_inner_filters,
)
from initscope.theory.norms.law import norm_ratio_cdf, norm_ratio_tail

__all__ = [
    "BERNSTEIN_CONSTANT",
    "SharpFilters",
    "cosine_filters",
    "cosine_filters_without_union",
    "filter_share_sd",
    "inner_product_filters",
    "inner_product_filters_without_union",
    "johnson_lindenstrauss_width",
    "layer_cosine_filters",
    "layer_cosine_filters_without_union",
    "layer_cosines",
    "linear_filters",
    "living_filters",
    "projection_failure",
    "projection_width",
    "sharp_filters",
    "sharp_inner_filters",
    "sign_bits",
    "sign_bits_hoeffding",
    "sign_bits_theorem",
    "sign_failure",
]

BERNSTEIN_CONSTANT = (8 / 3) * (1 + 1 / math.log(2)) * 4
"""The constant D of [Nachum2022]_ theorem 2, by its lemma 4 and theorem 6.

Squared ψ₂-norm of a Gaussian (8/3), centring in ψ₁ (1 + 1/ln 2), Bernstein (4).
"""


def inner_product_filters(
    *, positions: int, patch_norm: float, variance: float, eps: float, delta: float, lipschitz: float = 1.0
) -> int:
    r"""[Nachum2022]_ theorem 2: filters for which the mean inner product is within ``eps`` of its expectation.

    .. math:: N > \max(K, K^2)\,\log\frac{2n^2}{\delta}, \qquad K = \frac{D\,\nu^2 L^2 R^2 n^2}{\varepsilon}

    n² = ``positions`` counts the positions of the filter, 784 for a 28 × 28 image. R = ``patch_norm`` bounds the norm
    of every patch of both images, ν² = ``variance`` of the weights, L the Lipschitz constant of an activation with
    σ(0) = 0 (needed, not said). ``eps`` is absolute, in units of the inner product. D is `BERNSTEIN_CONSTANT`.
    """
    check_probability("delta", delta)
    check_count("positions", positions)
    check_between("patch_norm", patch_norm, 0.0, math.inf)
    # The union over positions shares delta among them; each has at most R².
    return inner_product_filters_without_union(
        patch_products=patch_norm**2 * positions,
        variance=variance,
        eps=eps,
        delta=delta / positions,
        lipschitz=lipschitz,
    )


def linear_filters(*, positions: int, patch_norm: float, kernel_size: int, eps: float, delta: float) -> int:
    """[Nachum2022]_ lemma 2: theorem 2 for a linear layer (σ = identity) with variance 1/kernel_size²."""
    check_count("kernel_size", kernel_size)
    return inner_product_filters(
        positions=positions, patch_norm=patch_norm, variance=1 / kernel_size**2, eps=eps, delta=delta
    )


def cosine_filters(
    *,
    positions: int,
    patch_ratio: float,
    kernel_size: int,
    eps: float,
    delta: float,
    lipschitz: float = 1.0,
    second_moment: float = 0.5,
) -> int:
    r"""[Nachum2022]_ corollary 1: filters for which the output cosine is within ``eps`` of :math:`\bar\rho_{out}`.

    .. math:: N > \max(K, K^2)\,\log\frac{6n^2}{\delta}, \qquad K = \frac{5 D L^2 R^2 n^2}{\varepsilon\,\nu_\sigma^2
              r^2}

    n² = ``positions`` counts the positions of the filter, which cyclic convolution has one of at each pixel: 784 for a
    28 × 28 image, not its side 28. R = ``patch_ratio`` bounds every patch norm over its image's norm, and D is
    `BERNSTEIN_CONSTANT`. L = ``lipschitz`` is the Lipschitz constant of the activation (1 for ReLU), ν_σ² =
    ``second_moment`` the E σ(Z)² of the homogeneous activation (½ for ReLU; the paper prints ν²). Cyclic convolution,
    stride 1. The paper asks ε ≤ 1/10; its last step holds up to 1 (docs).
    """
    check_between("second_moment", second_moment, 0.0, math.inf)
    return layer_cosine_filters(
        positions=positions,
        patch_norms=(patch_ratio, patch_ratio),
        squared_norms=(1.0, 1.0),
        variance=1 / (second_moment * check_count("kernel_size", kernel_size) ** 2),
        eps=eps,
        delta=delta,
        lipschitz=lipschitz,
    )


def cosine_filters_without_union(
    *, eps: float, delta: float, lipschitz: float = 1.0, second_moment: float = 0.5
) -> int:
    r"""Corollary 1 without the union over pixels: :math:`K = 5DL^2/(\nu_\sigma^2\varepsilon)` and log(6/δ).

    The sum over positions of one filter is itself sub-exponential (triangle inequality and Cauchy–Schwarz), so neither
    the size of the image nor its largest patch enters. Beyond the paper.

    >>> cosine_filters_without_union(eps=0.1, delta=0.05) > 10**7       # safe, and still far from sharp
    True
    """
    return layer_cosine_filters_without_union(
        patch_energies=(1.0, 1.0),
        squared_norms=(1.0, 1.0),
        variance=1 / check_between("second_moment", second_moment, 0.0, math.inf),
        eps=eps,
        delta=delta,
        lipschitz=lipschitz,
    )


def inner_product_filters_without_union(
    *, patch_products: float, variance: float, eps: float, delta: float, lipschitz: float = 1.0
) -> int:
    r"""Theorem 2 without the union over pixels: :math:`K = D\nu^2L^2\sum_{ij}\|[x]_{ij}\|\|[y]_{ij}\|/\varepsilon`.

    With log(2/δ). The sum over positions of one filter is itself sub-exponential. Beyond the paper.
    """
    check_between("eps", eps, 0.0, math.inf)
    check_probability("delta", delta)
    for name, value in (("patch_products", patch_products), ("variance", variance), ("lipschitz", lipschitz)):
        check_between(name, value, 0.0, math.inf)
    k = BERNSTEIN_CONSTANT * variance * lipschitz**2 * patch_products / eps
    return math.floor(max(k, k * k) * math.log(2 / delta)) + 1


def layer_cosine_filters(
    *,
    positions: int,
    patch_norms: tuple[float, float],
    squared_norms: tuple[float, float],
    variance: float,
    eps: float,
    delta: float,
    lipschitz: float = 1.0,
) -> int:
    r"""Corollary 1 for any layer of [Nachum2022]_ theorem 2: other padding and strides, any Lipschitz σ with σ(0) = 0.

    ``patch_norms`` bound the patches of the two images, ``squared_norms`` are the expected E‖σ(F∗x)‖² and E‖σ(F∗y)‖².
    The proof of the corollary needs each of three inner products within ε/5 of its expectation, in units of these, each
    failing with δ/3: the largest of three numbers of theorem 2. For homogeneous σ, cyclic, stride 1 it is
    `cosine_filters`. Beyond the paper.
    """
    return _largest_of_three(
        lambda first, second, eps, delta: inner_product_filters(
            positions=positions,
            patch_norm=math.sqrt(first * second),
            variance=variance,
            eps=eps,
            delta=delta,
            lipschitz=lipschitz,
        ),
        patch_norms,
        squared_norms,
        eps,
        delta,
    )


def layer_cosine_filters_without_union(
    *,
    patch_energies: tuple[float, float],
    squared_norms: tuple[float, float],
    variance: float,
    eps: float,
    delta: float,
    lipschitz: float = 1.0,
) -> int:
    r"""`layer_cosine_filters` without the union over pixels; ``patch_energies`` are :math:`\sum_{ij}\|[x]_{ij}\|^2`.

    The sum of products is at most the root of both energies (Cauchy–Schwarz). Beyond the paper.
    """
    return _largest_of_three(
        lambda first, second, eps, delta: inner_product_filters_without_union(
            patch_products=math.sqrt(first * second), variance=variance, eps=eps, delta=delta, lipschitz=lipschitz
        ),
        patch_energies,
        squared_norms,
        eps,
        delta,
    )


def _largest_of_three(
    filters: Callable[[float, float, float, float], int],
    patches: tuple[float, float],
    squared_norms: tuple[float, float],
    eps: float,
    delta: float,
) -> int:
    """Corollary 1 from theorem 2: ⟨x,x⟩, ⟨x,y⟩ and ⟨y,y⟩ within ε/5 of the norms, each but for δ/3."""
    check_between("eps", eps, 0.0, 1.0)
    share = check_probability("delta", delta) / 3
    return max(
        filters(patches[a], patches[b], eps / 5 * math.sqrt(squared_norms[a] * squared_norms[b]), share)
        for a, b in ((0, 0), (0, 1), (1, 1))
    )


def projection_failure(width: int, eps: float) -> float:
    r"""Exact probability that a linear layer with N(0, 1/width) entries distorts a squared norm by more than ``eps``.

    .. math:: \|Wu\|^2/\|u\|^2 = \chi^2_m/m

    >>> round(projection_failure(1000, 0.1), 4)         # sqrt(2/m) = 0.045: about 2.2 standard deviations
    0.0253
    """
    check_between("eps", eps, 0.0, 1.0)
    return norm_ratio_cdf(1 - eps, width, keep=1.0) + norm_ratio_tail(1 + eps, width, keep=1.0)


def projection_width(eps: float, delta: float, *, pairs: int = 1) -> int:
    """Return smallest width of a linear layer that keeps ``pairs`` squared distances within 1 ± eps (union bound)."""
    check_probability("delta", delta)
    check_count("pairs", pairs)
    return smallest(lambda width: log_excess(projection_failure(width, eps), delta / pairs))


def johnson_lindenstrauss_width(samples: int, eps: float) -> int:
    r"""Return the textbook width :math:`4\log n/(\varepsilon^2/2 - \varepsilon^3/3)` (Dasgupta–Gupta), as scikit-learn
    computes it.

    It promises success with probability at least 1/n only.

    >>> johnson_lindenstrauss_width(1000, 0.1)
    5920
    """
    check_count("samples", samples, least=2)
    check_between("eps", eps, 0.0, 1.0)
    return int(4 * math.log(samples) / (eps**2 / 2 - eps**3 / 3))


def sign_failure(bits: int, eps: float, *, angle: float | None = None) -> float:
    r"""Return the exact probability that the Hamming distance of a sign embedding misses θ/π by more than ``eps``.

    Sharpens the stable embedding of [Bronstein2016]_; beyond the sources.

    Bits of two inputs at angle θ differ independently with probability θ/π, so :math:`m\,d_H \sim` Binomial(m, θ/π):

    .. math:: P(|d_H - \theta/\pi| > \varepsilon)

    ``angle=None`` uses the worst angle. Between two lattice points :math:`k/m \pm \varepsilon` the probability of
    success is unimodal in the angle, so the worst is the limit at one of them: finitely many binomial sums, no search.

    >>> sign_failure(1, 0.4)                # one bit is always more than 0.4 off at 90 degrees
    1.0
    """
    check_count("bits", bits)
    check_between("eps", eps, 0.0, 1.0)
    if angle is not None:
        share = check_between("angle", angle, 0.0, math.pi, ends="both", hint="an angle in radians") / math.pi
        fewest, most = math.ceil(bits * (share - eps) - 1e-9), math.floor(bits * (share + eps) + 1e-9)
        lower = float(_at_least(bits - fewest + 1, bits, 1 - share)) if fewest > 0 else 0.0
        return lower + (float(_at_least(most + 1, bits, share)) if most < bits else 0.0)
    first, last = max(1, math.ceil(bits * eps)), bits
    if bits > 2000:
        # All these points share one lattice phase, so the failure is smooth in k. The upper tail is likeliest at
        # p = (1 - eps)/2, both together at 1/2 if they are alike there: one peak between, found on grids that narrow.
        first, last = max(first, round(bits * (0.5 + eps / 2)) - 20), min(last, round(bits * (0.5 + eps)) + 20)
        while last - first > 48:
            k = np.linspace(first, last, 17).round()
            at = int(_failures_below(k, bits, eps).argmax())
            first, last = int(k[max(at - 1, 0)]), int(k[min(at + 1, 16)])
    failures = _failures_below(np.arange(first, last + 1), bits, eps)
    return float(failures.max()) if failures.size else 0.0


def _failures_below(k: np.ndarray, bits: int, eps: float) -> np.ndarray:
    """Return failures for θ/π just below k/m - eps, where k itself fails above and all below k - 2 eps m fail below."""
    p = np.maximum(k / bits - eps, 0.0)
    below = np.ceil(k - 2 * eps * bits - 1e-9) - 1
    above = np.where(p > 0, _at_least(k, bits, p), 0.0)
    under = _at_least(bits - np.maximum(below, 0.0), bits, 1 - p)
    failures: np.ndarray = above + np.where(below >= 0, under, 0.0)
    return failures


def _at_least(count: Any, bits: int, share: Any) -> Any:
    """P(B ≥ count), count from 1 to bits, B ~ Binomial(bits, share); SciPy's own ``bdtr`` is NaN beyond 2³¹ bits."""
    from scipy.special import betainc

    return betainc(count, bits - count + 1, share)


def sign_bits(eps: float, delta: float, *, pairs: int = 1, angle: float | None = None) -> int:
    """Smallest number of bits from which on every number keeps `sign_failure`, times ``pairs``, at most ``delta``.

    The binomial lattice makes the failure jump up and down by a little; a width of several such periods is searched.
    """
    check_probability("delta", delta)
    check_count("pairs", pairs)
    aim = delta / pairs
    last = smallest(lambda bits: log_excess(sign_failure(bits, eps, angle=angle), aim)) - 1
    while True:  # until none of several periods beyond the last failure fails
        tried = range(last + math.ceil(2 / eps + 4 * math.sqrt(last)), last, -1)
        later = next((bits for bits in tried if sign_failure(bits, eps, angle=angle) > aim), None)
        if later is None:
            return last + 1
        last = later


def sign_bits_hoeffding(eps: float, delta: float, *, pairs: int = 1) -> int:
    r"""Bits by Hoeffding's inequality and the union bound, :math:`\log(2P/\delta)/(2\varepsilon^2)`, any angles."""
    check_between("eps", eps, 0.0, 1.0)
    check_probability("delta", delta)
    check_count("pairs", pairs)
    return math.ceil(math.log(2 * pairs / delta) / (2 * eps**2))


def sign_bits_theorem(eps: float, mean_width: float, *, constant: float = 1.0) -> float:
    r"""Bits of the stable-embedding theorem of the talk: :math:`\varepsilon = c\,m^{-1/6}\,\omega^{1/3}`, solved for m.

    Source: [Bronstein2016]_, 'Stable embedding'.

    .. math:: m = c^6\,\omega^2/\varepsilon^6

    ω is the two-sided Gaussian mean width of the set; the talk leaves the constant c open, 1 is a placeholder. It holds
    for all pairs of the set at once.
    """
    check_between("eps", eps, 0.0, 1.0)
    check_between("mean_width", mean_width, 0.0, math.inf)
    check_between("constant", constant, 0.0, math.inf)
    return constant**6 * mean_width**2 / eps**6
