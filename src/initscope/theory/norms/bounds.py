r"""Bounds on norms as [ArpitBengio2019]_ prints them, and the best bounds of the same technique.

Setting: :math:`v = R(Wu)` or :math:`v = z \odot Wu`, W of size m × n with i.i.d. :math:`N(0, 1/(pm))` entries and z
i.i.d. Bernoulli(p); ReLU is p = 1/2 (He fan-out, variance 2/m). Every function returns a bound on the probability of
*failure*, which may exceed 1. The exact distributions are in `initscope.theory.norms.law` and `deep`, the subspace
statements in `uniform`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from initscope.errors import InputError, check_between, check_count, check_probability
from initscope.theory._search import log_excess, smallest

__all__ = [
    "activation_bound",
    "chernoff_bound",
    "chernoff_rates",
    "chernoff_width",
    "gradient_bound",
    "inner_product_bound",
    "masked_inner_product_bound",
    "relu_norm_bound",
    "relu_norm_bound_eps",
    "relu_norm_rate",
    "relu_norm_width",
]


def relu_norm_rate(eps: float) -> float:
    r"""Exponent of lemmas 2 and 5 of [ArpitBengio2019]_.

    .. math:: c(\varepsilon) = \frac{\varepsilon}{4} + \log\frac{2}{1 + \sqrt{1 + \varepsilon}}
              = \tfrac{3}{32}\varepsilon^2 + O(\varepsilon^3)

    The paper's choice of the Chernoff parameter is close to optimal but not optimal: see `chernoff_rates`.

    >>> round(relu_norm_rate(0.1) / (3 * 0.1**2 / 32), 3)
    0.948
    """
    check_between("eps", eps, 0.0, 1.0)
    # log(2 / (1 + sqrt(1 + eps))) = -log1p((sqrt(1 + eps) - 1) / 2), without the cancellation of small eps
    return eps / 4 - math.log1p(eps / (2 * (1 + math.sqrt(1 + eps))))


def relu_norm_bound(width: int, eps: float, *, samples: int = 1) -> float:
    r"""Lemma 2 (ReLU layer, forward) and lemma 5 (masked layer, backward) of [ArpitBengio2019]_: failure of one layer.

    .. math:: P\bigl(|\|v\|^2 - \|u\|^2| > \varepsilon\|u\|^2\bigr) \le 2N e^{-m c(\varepsilon)}

    for one fixed input, N of them by the union bound. Eqs. 120, 121, 134 and 135 of the proof misplace a factor 1/2;
    the lemma is unaffected.

    >>> round(relu_norm_bound(4152, 0.1), 4)
    0.05
    """
    check_count("width", width)
    check_count("samples", samples)
    return 2 * samples * math.exp(-width * relu_norm_rate(eps))


def relu_norm_width(eps: float, delta: float, *, depth: int = 1, samples: int = 1) -> int:
    r"""Smallest equal width for which lemma 2 (depth 1) or theorem 1 promises failure at most ``delta``, as printed.

    Source: [ArpitBengio2019]_ eqs. 7 and 8.

    >>> relu_norm_width(0.1, 0.05)
    4152
    """
    check_probability("delta", delta)
    check_count("depth", depth)
    check_count("samples", samples)
    return math.ceil(math.log(2 * samples * depth / delta) / relu_norm_rate(eps))


def relu_norm_bound_eps(width: int, delta: float) -> float:
    """Distortion that lemmas 2 and 5 promise at this width and delta: `relu_norm_bound` solved for eps.

    The result is NaN if the layer is too narrow for any eps below 1.

    >>> round(relu_norm_bound(4152, relu_norm_bound_eps(4152, 0.05)), 12)
    0.05
    """
    check_count("width", width)
    check_probability("delta", delta)
    from scipy.optimize import brentq

    aim = math.log(2 / delta) / width
    if relu_norm_rate(1 - 1e-12) < aim:
        return math.nan
    return float(brentq(lambda eps: relu_norm_rate(eps) - aim, 1e-12, 1 - 1e-12, xtol=1e-14))


def activation_bound(widths: Sequence[int], eps: float, *, samples: int = 1) -> float:
    r"""Theorem 1: bound on the failure of a deep ReLU network, He fan-out, on ``samples`` fixed inputs.

    Source: [ArpitBengio2019]_ eq. 8.

    .. math:: P\Bigl(\exists x, l:\ \|h^l\|^2 \notin [(1-\varepsilon)^l, (1+\varepsilon)^l]\,\|x\|^2\Bigr)
              \le 2N \sum_l e^{-n_l c(\varepsilon)}

    The band belongs to *squared* norms and widens with depth.
    """
    return sum(relu_norm_bound(width, eps, samples=samples) for width in _widths(widths))


def gradient_bound(width: int, depth: int, eps: float, *, samples: int = 1) -> float:
    r"""Theorem 3: bound on the failure of the gradient norm equality in a network of equal width.

    Source: [ArpitBengio2019]_ eqs. 22 and 23.

    .. math:: P\Bigl(\exists x, l:\ \|\partial\ell/\partial W^l\|_F^2 \notin [(1-\varepsilon)^L, (1+\varepsilon)^L]\,
              \|\delta\|^2\|x\|^2\Bigr) \le 4NL\,e^{-n c(\varepsilon)}

    It assumes (footnote 1) that the error at layer l+1 is independent of the mask of layer l and of :math:`W^{l+1}`,
    which is not true of a network: `initscope.reproductions.independence` measures the effect.
    """
    check_count("depth", depth)
    return 2 * depth * relu_norm_bound(width, eps, samples=samples)


def inner_product_bound(width: int, eps: float) -> float:
    r"""Lemma 6: failure of the inner product under a linear layer with N(0, 1/m) entries.

    Source: [ArpitBengio2019]_ lemma 6.

    .. math:: P(|\langle Wu, Wv\rangle - \langle u, v\rangle| > \varepsilon)
              \le 4 e^{-m(\varepsilon^2 - \varepsilon^3)/4}, \qquad \|u\|, \|v\| \le 1,\ \varepsilon < \tfrac12
    """
    check_count("width", width)
    check_between("eps", eps, 0.0, 0.5, hint="lemma 6 is stated for eps below 1/2")
    return 4 * math.exp(-width * (eps**2 - eps**3) / 4)


def masked_inner_product_bound(width: int, eps: float) -> float:
    r"""Lemma 7: failure of the inner product under one *shared* random mask, N(0, 2/m) entries,
    :math:`\|u\|, \|v\| \le 1`.

    Source: [ArpitBengio2019]_ lemma 7.

    .. math:: P(|\langle z\odot Wu, z\odot Wv\rangle - \langle u, v\rangle| > \varepsilon) \le 4 e^{-m c(\varepsilon)}

    It does not apply to :math:`\langle R(Wu), R(Wv)\rangle`, whose two masks differ: that inner product has another
    mean.
    """
    return 2 * relu_norm_bound(width, eps)


def chernoff_rates(eps: float, *, keep: float = 0.5) -> tuple[float, float]:
    r"""Return best Chernoff exponents (lower tail, upper tail) of a masked layer with keep probability p.

    .. math:: I(a) = \sup_\lambda\ \lambda a - \log\Bigl(1 - p + \frac{p}{\sqrt{1 - 2\lambda/p}}\Bigr),
              \qquad a = 1 \mp \varepsilon

    (:math:`\lambda` multiplies :math:`\|v\|^2/\|u\|^2 \cdot m`, one unit at a time). Lemma 4 for any p: the mean is 1.
    With :math:`s = (1 - 2\lambda/p)^{-1/2}` the stationary point solves :math:`s^3 = a (1 - p + p s)`.
    """
    check_between("eps", eps, 0.0, 1.0)
    check_between("keep", keep, 0.0, 1.0, ends="high", hint="the probability that a unit is kept; 0.5 for ReLU")
    return _rate(-eps, keep), _rate(eps, keep)


def _rate(excess: float, keep: float) -> float:
    """Rate at the mean 1 + excess. In u = s - 1, which keeps the digits of a small excess; s² = 1/(1 - 2 tilt)."""

    def residual(u: float) -> float:
        return u**3 + 3 * u**2 + 3 * u - keep * u - excess - excess * keep * u

    from scipy.optimize import brentq

    # The root lies between s = 1 and s = √(1 + excess), which is the root for keep = 1.
    far = excess / (1 + math.sqrt(1 + excess))
    low, high = sorted((0.0, far * (1 + 1e-9)))
    u = brentq(residual, low, high, xtol=1e-300, rtol=1e-15)
    tilt = keep / 2 * u * (2 + u) / (1 + u) ** 2
    return float(tilt * (1 + excess) - math.log1p(keep * u))


def chernoff_bound(width: int, eps: float, *, keep: float = 0.5, samples: int = 1) -> float:
    r"""Return best two-sided Chernoff bound of one layer, :math:`N(e^{-m I(1-\varepsilon)} + e^{-m I(1+\varepsilon)})`.

    The technique of lemmas 2 and 5 with its parameter optimized on each side.

    >>> chernoff_bound(3698, 0.1) <= 0.05 < chernoff_bound(3697, 0.1)
    True
    """
    check_count("width", width)
    check_count("samples", samples)
    return samples * sum(math.exp(-width * rate) for rate in chernoff_rates(eps, keep=keep))


def chernoff_width(eps: float, delta: float, *, depth: int = 1, samples: int = 1) -> int:
    """Smallest equal width at which the best Chernoff bound, summed over layers and samples, is at most ``delta``.

    Beyond the sources; compare [ArpitBengio2019]_.
    """
    check_probability("delta", delta)
    check_count("depth", depth)
    check_count("samples", samples)
    low, high = chernoff_rates(eps)
    share = delta / (depth * samples)
    guess = math.ceil(math.log(2 / share) / min(low, high))  # enough for both sides if they were equal
    return smallest(lambda width: log_excess(math.exp(-width * low) + math.exp(-width * high), share), guess=guess)


def _widths(widths: Sequence[int]) -> list[int]:
    """Return the widths of a network's layers as a checked list."""
    checked = [check_count("width", width) for width in widths]
    if not checked:
        raise InputError("widths is empty; give the width of every layer, for example [1000] * 10")
    return checked
