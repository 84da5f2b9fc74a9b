r"""Recovery of the input of one layer, or of many, from outputs: its error and its limits.

Weights are i.i.d. Gaussian. `linear_estimate` is the estimate of Plan and Vershynin, `linear_estimate_error` its exact
mean error, `deep_linear_error` that of many layers undone one by one; `span_probability`, `active_condition` and
`noise_amplification` belong to exact recovery from active rows; `donoho_tanner` and `restricted_isometry_bound` to
sparse inputs. The solvers are in `initscope.invert`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from initscope.errors import InputError, check_between, check_count, check_probability
from initscope.theory import _quadrature
from initscope.theory._arrays import Array, erfc, namespace
from initscope.theory.activations import Activation, activation

__all__ = [
    "active_condition",
    "deep_linear_error",
    "donoho_tanner",
    "estimate_slope",
    "linear_estimate",
    "linear_estimate_error",
    "noise_amplification",
    "preactivation_variance",
    "restricted_isometry_bound",
    "span_probability",
]

Source = str | Activation | Callable[[Array], Array]


def estimate_slope(variance: Array, source: Source = "relu") -> Array:
    r"""Mean slope :math:`\mu = E[\sigma'(X)] = E[X\sigma(X)]/k` of an activation at X of variance k (Stein's identity).

    It is 0 for even activations (cos, abs), whose outputs are the same for x and -x: the linear estimate is refused for
    them.

    >>> float(estimate_slope(2.0).round(9))      # half of the units of a ReLU layer are active
    0.5
    """
    sigma = activation(source)
    xp, variance = namespace(variance)
    if not bool(xp.all((variance > 0) & (variance < math.inf))):
        raise InputError("the variance of a preactivation must be positive and finite; an input of zeros has no slope")
    return _quadrature.expect(xp, lambda x: x * sigma(x), variance, sigma.kinks) / variance


def _usable_slope(variance: float, sigma: Activation) -> float:
    """Return the mean slope, if it exceeds the rounding error of its integral: an even activation has none."""
    slope = float(estimate_slope(variance, sigma))
    if abs(slope) <= 1e-9 * math.sqrt(float(sigma.second_moment(variance)) / variance):
        raise InputError(
            f"{sigma.name} has mean slope 0 at variance {variance:g}: x and -x have the same output, so no linear "
            "estimate distinguishes them; use another activation"
        )
    return slope


def preactivation_variance(second_moment: float, source: Source = "relu") -> float:
    """Return the variance k with :math:`E[σ(X)^2]` equal to the outputs' mean square: how large the input was.

    The second moment must grow with the variance, as that of all common activations does.

    >>> round(preactivation_variance(0.5), 9)
    1.0
    """
    from scipy.optimize import brentq

    sigma = activation(source)
    wanted = check_between(
        "second_moment", float(second_moment), 0.0, math.inf, hint="outputs of zeros carry no information"
    )

    def excess(log_variance: float) -> float:
        return float(sigma.second_moment(math.exp(log_variance))) - wanted

    low, high = -30.0, 30.0
    if excess(low) > 0 or excess(high) < 0:
        raise InputError(
            f"no input of a {sigma.name} layer has outputs of mean square {wanted:.4g}; check the activation"
        )
    return math.exp(float(brentq(excess, low, high, xtol=1e-13)))


def linear_estimate(weight: Array, outputs: Array, source: Source = "relu", *, sd: float | None = None) -> Array:
    r"""Estimate inputs from the outputs of a Gaussian layer by one matrix product.

    .. math:: \hat x = \frac{A^T\sigma(Ax)}{m s^2\,E[\sigma'(s\|x\|g)]},\qquad
              \text{ReLU: } \hat x = \frac{2}{m s^2} A^T R(Ax)

    It is unbiased over :math:`a_{ij}\sim N(0, s^2)`, with the error of `linear_estimate_error`; project it on the set
    of possible inputs. ``outputs`` is ``[..., m]``; ``sd`` is s, by default the weights' root mean square. For
    activations that are not homogeneous, :math:`\|x\|` follows from the norm of the outputs. [PlanVershynin2016]_
    section 1. [PlanVershynin2016]_ section 1.

    >>> import numpy as np
    >>> A, x = np.random.default_rng(0).standard_normal((4000, 3)), np.array([1.0, 0.0, 0.0])
    >>> bool(abs(linear_estimate(A, np.maximum(A @ x, 0)) - x).max() < 0.1)
    True
    """
    sigma = activation(source)
    xp, weight, outputs = namespace(weight, outputs)
    if len(weight.shape) != 2 or outputs.shape[-1] != weight.shape[0]:
        raise InputError(
            f"weight of shape {tuple(weight.shape)} and outputs of shape {tuple(outputs.shape)} do not fit; "
            "give an m×n matrix and outputs with m entries each"
        )
    variance = float(xp.mean(weight * weight)) if sd is None else check_between("sd", sd, 0.0, math.inf) ** 2
    if variance == 0:
        raise InputError("the weights are all zero: their outputs do not depend on the input")
    summed = xp.matmul(outputs, weight) / (weight.shape[0] * variance)
    if sigma.homogeneous:
        return summed / _usable_slope(1.0, sigma)
    moments = xp.reshape(xp.mean(outputs * outputs, axis=-1), (-1,))
    slopes = [_usable_slope(preactivation_variance(float(moment), sigma), sigma) for moment in moments]
    scales = xp.reshape(xp.asarray(slopes, dtype=summed.dtype), tuple(outputs.shape[:-1]))
    return summed / scales[..., None]


def linear_estimate_error(outputs: int, dimension: int, source: Source = "relu", *, variance: float = 1.0) -> float:
    r"""Mean squared error of `linear_estimate`, relative to :math:`\|x\|^2`, after projection on a subspace around x.

    Source: the estimate is that of [PlanVershynin2016]_; its exact error goes beyond the sources.

    .. math:: E\frac{\|\hat x-x\|^2}{\|x\|^2} = \frac1m\left(\frac{E[\sigma(X)^2(X^2/k + d - 1)]}{k\mu^2} - 1\right),
              \qquad X\sim N(0,k),\ \mu = E\sigma'(X);\qquad\text{ReLU: } \frac{2d+3}{m}

    ``dimension`` is d, that of the subspace; that of the input without any knowledge. Exact for every m.

    >>> round(linear_estimate_error(1000, 64), 12)      # (2·64 + 3)/1000
    0.131
    """
    m, d = check_count("outputs", outputs), check_count("dimension", dimension)
    sigma = activation(source)
    k = check_between("variance", variance, 0.0, math.inf)
    xp, moment = namespace(k)
    along = float(_quadrature.expect(xp, lambda x: (x * sigma(x)) ** 2, moment, sigma.kinks)) / k
    across = float(sigma.second_moment(k))
    slope = _usable_slope(k, sigma)
    return ((along + (d - 1) * across) / (k * slope**2) - 1) / m


def deep_linear_error(inputs: int, widths: Sequence[int], dimension: int | None = None) -> list[float]:
    r"""Return the mean squared relative error of a ReLU network inverted by the linear estimate, layer by layer.

    .. math:: v_N = v_{N-1} + \frac{2^N d}{n_N} + \frac{3}{n_N}(1 + v_{N-1}),\qquad v_0 = 0

    The estimate :math:`A_1^T\cdots A_N^T y_N` (variance :math:`2/n_l`) is unbiased, but what a layer adds meets every
    earlier transpose, whose mean square gain is 2: the variance doubles per layer unless each intermediate estimate is
    projected on the set that it comes from, as the theorem of [Giryes2016]_ supposes; errors then add up. Only the
    final projection, on a subspace of ``dimension`` d (default: the input's), is counted here. The result is to first
    order in one over the widths.

    >>> deep_linear_error(64, [1000])      # one layer: (2·64 + 3)/1000
    [0.131]
    """
    d = check_count("inputs", inputs) if dimension is None else check_count("dimension", dimension, most=inputs)
    errors, error = [], 0.0
    for depth, width in enumerate(widths, start=1):
        n = check_count("width", width)
        error += 2.0**depth * d / n + 3 / n * (1 + error)
        errors.append(error)
    return errors


def span_probability(outputs: int, inputs: int) -> float:
    r"""Probability that the active rows at a given input span the input space: :math:`P(B \ge n)`, B ~ Bin(m, 1/2).

    Beyond the sources: the binomial distribution of the active rows.

    Rows with a continuous density are in general position, so only their number matters. Exact.

    >>> round(span_probability(127, 64), 12)      # 64 of 127: as likely as 63 at the most
    0.5
    """
    from scipy.stats import binom

    m, n = check_count("outputs", outputs), check_count("inputs", inputs)
    return float(binom.sf(n - 1, m, 0.5))


def active_condition(expansivity: Array) -> Array:
    r"""Condition number of the active rows of a wide Gaussian ReLU layer with α = m/n outputs per input.

    Beyond the sources; compare [DavidsonSzarek2001]_.

    .. math:: \kappa \to \frac{\sqrt{\alpha/2}+1}{\sqrt{\alpha/2}-1},\qquad \alpha > 2

    The edges of the Marchenko–Pastur distribution for m/2 rows: the rows' product with the input is half-normal, which
    changes one direction of n. Below α = 2 the rows do not span: infinite.

    >>> float(active_condition(8.0))
    3.0
    """
    xp, alpha = namespace(expansivity)
    root = xp.sqrt(alpha / 2)
    spans = root > 1
    return xp.where(spans, (root + 1) / xp.where(spans, root - 1, xp.ones_like(root)), xp.asarray(math.inf))


def noise_amplification(inputs: int, active: int, sd: float = 1.0) -> float:
    r"""Return the root mean square error of the input per unit of noise on each active output of a Gaussian layer.

    Beyond the sources: the mean of an inverse Wishart matrix.

    .. math:: \sqrt{E\,\mathrm{tr}(A_+^TA_+)^{-1}} = \frac1s\sqrt{\frac{n}{k-n-1}}

    k active rows (about m/2), weights of standard deviation s: the mean of an inverse Wishart matrix; infinite for
    k ≤ n + 1. For given rows `initscope.invert.recover` computes it from their singular values.

    >>> round(noise_amplification(64, 129), 12)
    1.0
    """
    n, k = check_count("inputs", inputs), check_count("active", active)
    check_between("sd", sd, 0.0, math.inf)
    return math.inf if k <= n + 1 else math.sqrt(n / (k - n - 1)) / sd


def donoho_tanner(measured: Array) -> Array:
    r"""Sparsity k/m up to which :math:`\ell_1` minimization recovers a k-sparse vector from m = δn Gaussian products.

    .. math:: \delta = \frac{2\varphi(z)}{z + 2(\varphi(z) - z\Phi(-z))},\qquad
              \rho(\delta) = 1 - \frac{z\Phi(-z)}{\varphi(z)}

    The weak threshold of the cross-polytope, as n grows with δ = m/n fixed: below, almost every sparse vector is
    recovered, above, almost none. ``measured`` is δ in (0, 1). [DonohoTanner2009]_, in the parametric form of
    [DonohoMalekiMontanari2009]_.

    >>> round(float(donoho_tanner(0.5)), 4)
    0.3857
    """
    xp, delta = namespace(measured)
    if not bool(xp.all((delta > 0) & (delta < 1))):
        raise InputError("measured = m/n must lie strictly between 0 and 1; with m ≥ n nothing needs to be sparse")
    low, high = xp.zeros_like(delta), xp.full_like(delta, 30.0)
    for _ in range(60):
        z = (low + high) / 2
        ratio = z * _mills(xp, z)
        density = xp.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
        too_many = 2 * density / (z + 2 * density * (1 - ratio)) > delta
        low, high = xp.where(too_many, z, low), xp.where(too_many, high, z)
    z = (low + high) / 2
    return 1 - z * _mills(xp, z)


def _mills(xp: Any, z: Array) -> Array:
    """Φ(-z)/φ(z)."""
    return math.sqrt(math.pi / 2) * erfc(xp, z / math.sqrt(2)) * xp.exp(z**2 / 2)


def restricted_isometry_bound(measurements: int, inputs: int, nonzeros: int, delta: float = 0.05) -> float:
    r"""Upper bound on the restricted isometry constant of an m×n Gaussian matrix, with probability 1 - ``delta``.

    .. math:: \delta_k \le \left(1 + \sqrt{k/m} + t\right)^2 - 1,\qquad
              t = \sqrt{\tfrac2m\left(\log\tbinom nk + \log(2/\text{delta})\right)}

    Entries of variance 1/m; Davidson and Szarek's bound on the extreme singular values of the :math:`\binom nk`
    submatrices and a union over them: m of the order k log(n/k) makes it small. Pessimistic by a small factor; a
    sampled lower bound is `initscope.invert.restricted_isometry`. [DavidsonSzarek2001]_ theorem II.13.

    >>> restricted_isometry_bound(10_000, 100, 2) < restricted_isometry_bound(1_000, 100, 2)
    True
    """
    m, n = check_count("measurements", measurements), check_count("inputs", inputs)
    k = check_count("nonzeros", nonzeros, most=n)
    check_probability("delta", delta)
    from scipy.special import betaln

    subsets = -math.log(n + 1) - float(betaln(n - k + 1, k + 1))  # log-gamma functions of large n would cancel
    deviation = math.sqrt(2 / m * (subsets + math.log(2 / delta)))
    return (1 + math.sqrt(k / m) + deviation) ** 2 - 1
