r"""Dense linear layers: the bound of Johnson and Lindenstrauss for a cosine, and its exact distribution.

The outputs of a layer of N Gaussian neurons are N independent pairs of correlation ρ, so the output cosine is a sample
correlation around a known mean: its distribution is Fisher's, whatever the inputs' dimension.
"""

from __future__ import annotations

import math

import numpy as np

from initscope.errors import InputError, check_between, check_count, check_probability
from initscope.theory._arrays import Array, namespace
from initscope.theory._search import log_excess, smallest

__all__ = [
    "linear_cosine_bound",
    "linear_cosine_failure",
    "linear_cosine_width",
    "projection_covariance",
]


def projection_covariance(u: Array, v: Array, *, variance: float = 1.0, rho: float = 1.0) -> Array:
    r"""Covariance ``[…, 2, 2]`` of (⟨u, G⟩, ⟨v, H⟩) for jointly Gaussian vectors G and H; ``u`` and ``v`` ``[…, k]``.

    .. math:: \nu^2\begin{pmatrix}\|u\|^2 & \rho\langle u,v\rangle\\ \rho\langle u,v\rangle & \|v\|^2\end{pmatrix},
              \qquad E[GG^T] = E[HH^T] = \nu^2 I,\ E[GH^T] = \rho\nu^2 I

    [Nachum2022]_ lemma 3. With ρ = 1, one filter G = H, it is the covariance of two pre-activations, on which every
    dual activation acts.

    >>> projection_covariance([3.0, 4.0], [1.0, 0.0], variance=2.0, rho=0.5).tolist()
    [[50.0, 3.0], [3.0, 2.0]]
    """
    check_between("variance", variance, 0.0, math.inf)
    if not abs(rho) <= 1:
        raise InputError(f"rho = {rho} must lie in [-1, 1]: it is a correlation")
    xp, u, v = namespace(u, v)
    if tuple(u.shape) != tuple(v.shape) or u.ndim == 0:
        raise InputError(f"u of shape {tuple(u.shape)} and v of {tuple(v.shape)} must be vectors of one length")
    between = rho * xp.sum(u * v, axis=-1)
    rows = [xp.stack([xp.sum(u * u, axis=-1), between], axis=-1), xp.stack([between, xp.sum(v * v, axis=-1)], axis=-1)]
    return variance * xp.stack(rows, axis=-2)


def linear_cosine_failure(width: int, eps: float, *, rho: float = 0.0) -> float:
    r"""Return the exact probability that a dense linear layer of N neurons moves a cosine ρ by ``eps`` or more.

    .. math:: P(|\rho_{out} - \rho| \ge \varepsilon), \qquad
              p(r) = \frac{(N-1)\,\Gamma(N)\,(1-\rho^2)^{N/2}(1-r^2)^{(N-3)/2}}
              {\sqrt{2\pi}\,\Gamma(N+\frac12)\,(1-\rho r)^{N-1/2}}\;
              {}_2F_1\bigl(\tfrac12, \tfrac12; N+\tfrac12; \tfrac{1+\rho r}{2}\bigr)

    Fisher's distribution of a correlation coefficient with N degrees of freedom: i.i.d. Gaussian weights of mean zero,
    no activation, any inputs of that cosine. ρ = 0 is the widest distribution. One neuron leaves ±1. Sharpens the
    Johnson–Lindenstrauss statement of [Nachum2022]_ section 1; beyond the paper.

    >>> round(linear_cosine_failure(2, 0.5), 9)      # arcsine law: 1 - 2 arcsin(1/2)/π
    0.666666667
    """
    width = check_count("width", width)
    check_between("eps", eps, 0.0, 2.0)
    if not abs(rho) <= 1:
        raise InputError(f"rho = {rho} must lie in [-1, 1]: it is a cosine")
    if abs(rho) == 1:
        return 0.0
    if width == 1:
        apart = math.acos(rho) / math.pi
        return (apart if 1 + rho >= eps else 0.0) + (1 - apart if 1 - rho >= eps else 0.0)
    upper = _upper_tail(width, rho, eps) if rho + eps < 1 else 0.0
    return upper + (_upper_tail(width, -rho, eps) if rho - eps > -1 else 0.0)


def _upper_tail(width: int, rho: float, eps: float) -> float:
    """Return P(r > ρ + eps), integrated in Fisher's variable z = artanh r, in which r is nearly Gaussian.

    With ζ = artanh ρ the powers in the density are those of cosh(z - ζ) and √(cosh z / cosh ζ): nothing cancels,
    however many neurons.
    """
    from scipy.special import hyp2f1, poch

    center, spread = math.atanh(rho), 1 / math.sqrt(width)
    low = math.atanh(eps / (1 - rho * (rho + eps)))
    nodes, weights = np.polynomial.legendre.leggauss(32)
    edges = low + spread * np.concatenate([np.arange(0.0, 40.0, 1.0), 40 * 1.3 ** np.arange(0, 14)])
    half = np.diff(edges)[:, None] / 2
    beyond = edges[:-1, None] + half * (1 + nodes)
    z = center + beyond
    r = np.tanh(z)
    logs = (_log_cosh(z) - _log_cosh(np.asarray(center))) / 2 - (width - 0.5) * _log_cosh(beyond)
    scale = (width - 1) / (math.sqrt(2 * math.pi) * poch(width, 0.5))
    density = scale * np.exp(logs) * hyp2f1(0.5, 0.5, width + 0.5, (1 + rho * r) / 2)
    return float(np.sum(half * weights * density))


def _log_cosh(z: np.ndarray) -> np.ndarray:
    """Without overflow, and with its digits near 0."""
    size = np.abs(z)
    near = np.log1p(2 * np.sinh(np.minimum(size, 1) / 2) ** 2)
    result: np.ndarray = np.where(size < 1, near, np.logaddexp(size, -size) - math.log(2))
    return result


def linear_cosine_width(eps: float, delta: float, *, rho: float = 0.0, pairs: int = 1) -> int:
    """Smallest width of a dense linear layer that keeps a cosine ρ within ``eps``, but for a probability ``delta``.

    By the exact distribution (`linear_cosine_failure`), for ``pairs`` cosines at once by the union bound. Beyond
    [Nachum2022]_ section 1.

    >>> linear_cosine_width(0.1, 0.05), linear_cosine_bound(0.1, 0.05)
    (384, 6825)
    """
    check_probability("delta", delta)
    check_count("pairs", pairs)
    guess = math.ceil((2 * math.log(2 * pairs / delta)) / eps**2)
    return smallest(lambda width: log_excess(linear_cosine_failure(width, eps, rho=rho), delta / pairs), guess=guess)


def linear_cosine_bound(eps: float, delta: float, *, pairs: int = 1) -> int:
    r"""Return a width that provably preserves every cosine within ``eps``: the Johnson–Lindenstrauss lemma for angles.

    .. math:: N \ge \frac{4\,(\sqrt2 + \sqrt{2\log(2/\delta)})^2}{\varepsilon^2}
              \quad\Rightarrow\quad P(|\rho_{out} - \rho_{in}| < \varepsilon) \ge 1 - \delta

    [Nachum2022]_ section 1 states N > c log(1/δ)/ε² and leaves c open. Proof: on the plane of the two inputs the layer
    has singular values in :math:`1 \pm a`, :math:`a = (\sqrt2 + \sqrt{2\log(2/\delta)})/\sqrt N` [DavidsonSzarek2001]_.
    A map with their ratio turns a ray by at most arcsin a, so the angle between two by 2 arcsin a, and
    :math:`|\cos\theta' - \cos\theta| \le 2\sin(\arcsin a) = 2a`.

    >>> linear_cosine_bound(0.1, 0.05)
    6825
    """
    check_between("eps", eps, 0.0, 2.0)
    check_count("pairs", pairs)
    deviation = math.sqrt(2) + math.sqrt(2 * math.log(2 * pairs / check_probability("delta", delta)))
    return math.ceil(4 * deviation**2 / eps**2)
