r"""How many: filters of a convolutional layer, dimensions of a linear one, bits of a sign embedding.

For each the source's bound with explicit constants, and the exact or sharp number beside it. Filters are i.i.d., so
what they average concentrates; the constants of theorem 2 and corollary 1 of the JL-for-CNNs paper are derived in the
docs (plan).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from initscope.errors import InputError, check_between, check_count, check_probability
from initscope.results import Result
from initscope.theory._search import log_excess, smallest
from initscope.theory.pair_sums import filter_influence

__all__ = [
    "BERNSTEIN_CONSTANT",
    "SharpFilters",
    "cosine_filters",
    "cosine_filters_without_union",
    "filter_share_sd",
    "inner_product_filters",
    "johnson_lindenstrauss_width",
    "layer_cosines",
    "linear_filters",
    "living_filters",
    "projection_failure",
    "projection_width",
    "sharp_filters",
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

    n² = ``positions``, R = ``patch_norm`` bounds the norm of every patch of both images, ν² = ``variance`` of the
    weights, L the Lipschitz constant of an activation with σ(0) = 0 (needed, not said). ``eps`` is absolute, in units
    of the inner product. D is `BERNSTEIN_CONSTANT`.
    """
    check_count("positions", positions)
    check_between("eps", eps, 0.0, math.inf)
    check_probability("delta", delta)
    for name, value in (("patch_norm", patch_norm), ("variance", variance), ("lipschitz", lipschitz)):
        check_between(name, value, 0.0, math.inf)
    k = BERNSTEIN_CONSTANT * variance * lipschitz**2 * patch_norm**2 * positions / eps
    return _above(max(k, k * k) * math.log(2 * positions / delta))


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

    R = ``patch_ratio`` bounds every patch norm over its image's norm; ν_σ² = ``second_moment`` of the homogeneous
    activation (½ for ReLU; the paper prints ν²). Cyclic convolution, stride 1. The paper asks ε ≤ 1/10; its last step
    holds up to 1 (docs).
    """
    check_between("eps", eps, 0.0, 1.0)
    check_between("second_moment", second_moment, 0.0, math.inf)
    check_count("kernel_size", kernel_size)
    # Unit images, weights that keep norms, three inner products within eps/5, each failing with delta/3.
    return inner_product_filters(
        positions=positions,
        patch_norm=patch_ratio,
        variance=1 / (second_moment * kernel_size**2),
        eps=eps / 5,
        delta=check_probability("delta", delta) / 3,
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
    check_between("eps", eps, 0.0, 1.0)
    check_probability("delta", delta)
    check_between("second_moment", second_moment, 0.0, math.inf)
    k = 5 * BERNSTEIN_CONSTANT * lipschitz**2 / (second_moment * eps)
    return _above(max(k, k * k) * math.log(6 / delta))


def _above(bound: float) -> int:
    """Smallest whole number strictly above ``bound``."""
    return math.floor(bound) + 1


_RAREST = 5e-4
"""Smallest probability of failure that is counted in resampled layers: 50 events in 100,000 layers."""


@dataclass(frozen=True)
class SharpFilters(Result):
    """`sharp_filters`: the number and its 95 % interval from the pilot.

    ``normal`` is the number by the normal limit alone, ``resampled`` says whether the failures were counted instead;
    ``sd`` is the standard deviation of one filter's share, ``cosine`` the pilot's.
    """

    filters: int
    low: int
    high: int
    normal: int
    resampled: bool
    sd: float
    cosine: float


def sharp_filters(
    inner: np.ndarray, norm_x: np.ndarray, norm_y: np.ndarray, *, eps: float, delta: float, seed: int = 0
) -> SharpFilters:
    r"""Return the sharp number of filters from a pilot: inner products and squared norms of each filter's two outputs.

    :math:`\rho_{out} = \bar a/\sqrt{\bar b\bar c}` is a ratio of means of i.i.d. terms, so its variance is
    :math:`s^2/N` with

    .. math:: s^2 = \operatorname{Var}\Bigl[\frac{a}{\sqrt{\bar b\bar c}} - \frac{\rho}{2}\Bigl(\frac{b}{\bar b} +
              \frac{c}{\bar c}\Bigr)\Bigr], \qquad N \approx \Bigl(\frac{z_{1-\delta/2}\,s}{\varepsilon}\Bigr)^2 .

    That is the limit of many filters. Up to a thousand of them N comes instead from counting failures of layers
    resampled from the pilot, which knows the tails (at 20 filters the limit's 5 % are nearer 7 %); below 5e-4 failures
    are too rare to count, and the limit is multiplied by what counting changes at 5e-4. The interval is that of s².
    Layers in which all filters vanish on an image have no angle and count as failures, also where the cosine of the
    others never varies. Beyond [Nachum2022]_ corollary 1, whose number it replaces.
    """
    check_between("eps", eps, 0.0, 1.0)
    check_probability("delta", delta)
    pilot, rho, share = _filter_shares(inner, norm_x, norm_y)
    squares = share**2
    variance = float(squares.mean())
    spread = 1.96 * float(squares.std()) / math.sqrt(share.size)
    normal = max(1, math.ceil((_normal_quantile(delta) / eps) ** 2 * variance))
    resampled = normal <= 1000
    number = normal
    if resampled:
        counted = max(delta, _RAREST)
        start = max((_normal_quantile(counted) / eps) ** 2 * variance, 1e-12)
        layers = max(40_000, math.ceil(50 / counted))
        found = smallest(
            lambda size: log_excess(_resampled_failure(pilot, rho, size, eps, layers, seed), counted),
            guess=math.ceil(1.3 * start),
            scan=1,
        )
        number = (
            found if counted == delta else math.ceil(found * (_normal_quantile(delta) / eps) ** 2 * variance / start)
        )
    living = living_filters(pilot[:, 1], pilot[:, 2], delta=delta)
    number = max(number, living)
    low, high = (
        max(living, math.ceil(number * max(1 + sign * spread / variance, 0.0))) if variance > 1e-24 else number
        for sign in (-1, 1)
    )
    return SharpFilters(number, low, high, normal, resampled, math.sqrt(variance), rho)


def living_filters(norm_x: np.ndarray, norm_y: np.ndarray, *, delta: float) -> int:
    """Fewest filters of which, but for a probability delta, one lives on each image: a black output has no angle.

    From a pilot's squared norms: filters are independent, so N of them are all dead with the N-th power of the share
    that is. Beyond the sources; [Nachum2022]_ corollary 1 takes it for granted.
    """
    dead = np.stack([np.asarray(norm_x) == 0, np.asarray(norm_y) == 0], axis=1)
    first, second, both = (float(share) for share in (*dead.mean(axis=0), dead.all(axis=1).mean()))
    return smallest(lambda size: log_excess(first**size + second**size - both**size, delta))


def filter_share_sd(inner: np.ndarray, norm_x: np.ndarray, norm_y: np.ndarray) -> float:
    """Standard deviation s of one filter's share in the output cosine, from a pilot as in `sharp_filters`."""
    return float(_filter_shares(inner, norm_x, norm_y)[2].std())


def _filter_shares(inner: np.ndarray, norm_x: np.ndarray, norm_y: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
    """The pilot as rows (inner product, squared norms), its cosine, and each filter's centred share in it."""
    pilot = np.stack([np.asarray(values, dtype=np.float64) for values in (inner, norm_x, norm_y)], axis=-1)
    if pilot.ndim != 2 or len(pilot) < 2:
        raise InputError(f"a pilot is three vectors of one length of at least 2, not of shape {pilot.shape[:-1]}")
    if not (pilot[:, 1:].sum(axis=0) > 0).all():
        raise InputError("every filter's output is 0 for one of the images; is it all black?")
    rho, influence = filter_influence(pilot[:, 1], pilot[:, 2], pilot[:, 0])
    return pilot, float(rho), len(pilot) * influence


def _resampled_failure(pilot: np.ndarray, rho: float, size: int, eps: float, layers: int, seed: int) -> float:
    """Share of ``layers`` layers of ``size`` filters drawn from the pilot whose cosine is off by more than eps."""
    generator = np.random.default_rng([seed, size])
    chunk = max(1, (1 << 21) // size)
    # One column at a time: gathering rows is ten times slower.
    columns = np.ascontiguousarray(pilot.T)
    failed = 0
    for start in range(0, layers, chunk):
        chosen = generator.integers(len(pilot), size=(min(chunk, layers - start), size))
        sums = (column.take(chosen).sum(axis=1) for column in columns)
        failed += int(np.count_nonzero(np.abs(layer_cosines(*sums) - rho) > eps))
    return failed / layers


def layer_cosines(inner: np.ndarray, norm_x: np.ndarray, norm_y: np.ndarray) -> np.ndarray:
    """Cosines from inner products and squared norms; infinite where an output vanishes, so that no band contains it."""
    norms = np.sqrt(norm_x * norm_y)
    cosines: np.ndarray = np.divide(inner, norms, out=np.full(norms.shape, np.inf), where=norms > 0)
    return cosines


def _normal_quantile(delta: float) -> float:
    """Two-sided normal quantile z with P(|g| > z) = delta."""
    from scipy.special import ndtri

    return float(-ndtri(delta / 2))


def projection_failure(width: int, eps: float) -> float:
    r"""Exact probability that a linear layer with N(0, 1/width) entries distorts a squared norm by more than ``eps``.

    .. math:: \|Wu\|^2/\|u\|^2 = \chi^2_m/m

    >>> round(projection_failure(1000, 0.1), 4)         # sqrt(2/m) = 0.045: about 2.2 standard deviations
    0.0253
    """
    check_count("width", width)
    check_between("eps", eps, 0.0, 1.0)
    from scipy.special import gammainc, gammaincc

    return float(gammainc(width / 2, width * (1 - eps) / 2) + gammaincc(width / 2, width * (1 + eps) / 2))


def projection_width(eps: float, delta: float, *, pairs: int = 1) -> int:
    """Smallest width of a linear layer that keeps ``pairs`` squared distances within 1 ± eps (union bound)."""
    check_probability("delta", delta)
    check_count("pairs", pairs)
    return smallest(lambda width: log_excess(projection_failure(width, eps), delta / pairs))


def johnson_lindenstrauss_width(samples: int, eps: float) -> int:
    r"""The textbook width :math:`4\log n/(\varepsilon^2/2 - \varepsilon^3/3)` (Dasgupta–Gupta), as scikit-learn
    computes it.

    It promises success with probability at least 1/n only.

    >>> johnson_lindenstrauss_width(1000, 0.1)
    5920
    """
    check_count("samples", samples, least=2)
    check_between("eps", eps, 0.0, 1.0)
    return int(4 * math.log(samples) / (eps**2 / 2 - eps**3 / 3))


def sign_failure(bits: int, eps: float, *, angle: float | None = None) -> float:
    r"""Exact probability that the Hamming distance of a sign embedding misses θ/π by more than ``eps``.

    Sharpens the stable embedding of [Bronstein2016]_; beyond the sources.

    Bits of two inputs at angle θ differ independently with probability θ/π, so :math:`m\,d_H \sim` Binomial(m, θ/π):

    .. math:: P(|d_H - \theta/\pi| > \varepsilon)

    ``angle=None`` takes the worst angle. Between two lattice points :math:`k/m \pm \varepsilon` the probability of
    success is unimodal in the angle, so the worst is the limit at one of them: finitely many binomial sums, no search.

    >>> sign_failure(1, 0.4)                # one bit is always more than 0.4 off at 90 degrees
    1.0
    """
    check_count("bits", bits)
    check_between("eps", eps, 0.0, 1.0)
    from scipy.special import bdtr, bdtrc

    if angle is not None:
        share = check_between("angle", angle, 0.0, math.pi, hint="an angle in radians") / math.pi
        fewest, most = math.ceil(bits * (share - eps) - 1e-9), math.floor(bits * (share + eps) + 1e-9)
        lower = float(bdtr(fewest - 1, bits, share)) if fewest > 0 else 0.0
        return lower + (float(bdtrc(most, bits, share)) if most < bits else 0.0)
    # p just below k/m - eps: k itself fails above, everything under k - 2 eps m fails below.
    first, last = max(1, math.ceil(bits * eps)), bits
    if bits > 2000:
        # All these points share one lattice phase, so the failure is smooth in k and largest at the largest variance.
        nearest = round(bits * (0.5 + eps))
        first, last = max(first, nearest - 20), min(last, nearest + 20)
    k = np.arange(first, last + 1)
    p = k / bits - eps
    below = np.ceil(k - 2 * eps * bits - 1e-9) - 1
    above = np.where(p > 0, bdtrc(k - 1, bits, np.maximum(p, 0.0)), 0.0)
    total = above + np.where(below >= 0, bdtr(np.maximum(below, 0.0), bits, np.maximum(p, 0.0)), 0.0)
    return float(total.max()) if total.size else 0.0


def sign_bits(eps: float, delta: float, *, pairs: int = 1, angle: float | None = None) -> int:
    """Smallest number of bits from which on every number keeps `sign_failure`, times ``pairs``, at most ``delta``.

    The binomial lattice makes the failure jump up and down by a little; a width of several such periods is searched.
    """
    check_probability("delta", delta)
    check_count("pairs", pairs)
    aim = delta / pairs
    first = smallest(lambda bits: log_excess(sign_failure(bits, eps, angle=angle), aim))
    reach = math.ceil(2 / eps + 4 * math.sqrt(first))
    failing = [
        bits for bits in range(max(1, first - reach), first + reach + 1) if sign_failure(bits, eps, angle=angle) > aim
    ]
    return failing[-1] + 1 if failing else first


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
