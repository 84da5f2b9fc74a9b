"""Theorems 3 and 4: bounds on the cosine of a pair of images after one ReLU layer, and when they are attained."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from initscope.errors import InputError, check_count
from initscope.results import Result, rows_of_columns
from initscope.theory import activations
from initscope.theory._arccos import half_gap
from initscope.theory._arrays import Array, namespace
from initscope.theory.angles import cosine_map
from initscope.theory.images._layer import ActivationLike, norms
from initscope.theory.images._windows import Padding, Windows, check_pairs

__all__ = [
    "ExcessBound",
    "contracting_positions",
    "excess_bound",
    "extremal_pair",
    "gaussian_cosine",
    "relu_cosine_bounds",
]


def relu_cosine_bounds(rho: Array) -> tuple[Array, Array]:
    r"""Return the least and greatest mean cosine that one ReLU layer can give to images of cosine ρ.

    .. math:: \max(\rho, 0) \le \bar\rho_{out} \le \frac{1+\rho}{2}

    [Nachum2022]_ theorem 3 and eq. 3 (the theorem prints ν = 2/r² for ν² = 2/r²). Cyclic padding, stride 1, any number
    of channels. Zero padding can violate the lower bound, because pixels close to the border are in fewer patches. Both
    bounds are attained, see `extremal_pair`; the lower one exactly if `contracting_positions` is empty.

    >>> [float(bound) for bound in relu_cosine_bounds(0.5)]
    [0.5, 0.75]
    """
    xp, rho = namespace(rho)
    if not bool(xp.all(xp.abs(rho) <= 1 + 1e-6)):
        raise InputError("a cosine lies in [-1, 1] and is not NaN; divide the inner product by both norms")
    return xp.where(rho > 0, rho, xp.zeros_like(rho)), (1 + rho) / 2


def extremal_pair(
    rho: float, bound: str = "upper", *, kernel_size: int = 1
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    r"""Unit images ``[1, 1, r, n]`` of cosine ρ that attain a bound of `relu_cosine_bounds`, for an r×r filter.

    The signals of [Nachum2022]_ remark 2, their entries r pixels apart, so that every patch sees just one of them:
    "upper" :math:`x, y = (\sqrt{(1+\rho)/2}, \pm\sqrt{(1-\rho)/2})`; "lower"
    :math:`x = (\sqrt{1-|\rho|}, \sqrt{|\rho|}, 0)`, :math:`y = (0, \pm\sqrt{|\rho|}, \sqrt{1-|\rho|})` with the sign of
    ρ.

    >>> from initscope.theory.images import expected_cosine
    >>> x, y = extremal_pair(-0.2, "upper", kernel_size=3)
    >>> expected_cosine(x, y, kernel_size=3).round(12)      # (1 - 0.2)/2
    array([0.4])
    """
    if not abs(rho) <= 1:
        raise InputError(f"rho = {rho} must lie in [-1, 1]: it is a cosine")
    r = check_count("kernel_size", kernel_size)
    if bound == "upper":
        shared, signed = math.sqrt((1 + rho) / 2), math.sqrt((1 - rho) / 2)
        entries = [(shared, shared), (signed, -signed)]
    elif bound == "lower":
        shared, separate = math.sqrt(abs(rho)), math.sqrt(1 - abs(rho))
        entries = [(separate, 0.0), (shared, math.copysign(shared, rho)), (0.0, separate)]
    else:
        raise InputError(f"bound = {bound!r} must be 'upper' or 'lower'")
    x, y = np.zeros((2, 1, 1, r, r * len(entries)))
    for k, (u, v) in enumerate(entries):
        x[..., 0, r * k], y[..., 0, r * k] = u, v
    return x, y


def gaussian_cosine(rho: Array, activation: ActivationLike = "relu", *, variance: float | None = None) -> Array:
    r"""Return the mean cosine after one layer of two images whose pixels are i.i.d. Gaussian pairs of correlation ρ.

    For ReLU it is :math:`\hat R(\rho)`, as in a dense layer: [Nachum2022]_ theorem 4, for any filter size and number of
    channels. The expectation is over images and filters; for given images `expected_cosine` scatters around it, the
    less the more pixels.

    Other activations depend on the ``variance`` of the pre-activations. Left out it is that of `expected_cosine` with
    its default weights, for pixels of unit variance in one channel: the squared gain :math:`1/E[\sigma(g)^2]` (2.54 for
    tanh). This is the limit of filters with many taps; with few taps the norm of a patch varies (tanh at ρ = .5 and
    unit variance: .4726 in the limit, .4714 with 9 taps).

    >>> float(gaussian_cosine(-1.0))
    0.0
    """
    sigma = activations.activation(activation)
    return cosine_map(sigma, rho, variance=sigma.gain**2 if variance is None else variance)


def contracting_positions(
    x: Array,
    y: Array,
    *,
    kernel_size: int | Sequence[int],
    padding: Padding = "circular",
    padding_mode: str = "zeros",
    stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
) -> Array:
    """Return a mask ``[pairs, …]`` of the positions at which both patches are nonzero and not parallel.

    Only there does a ReLU layer raise the inner product: [Nachum2022]_ remark 3. For binary images they are in
    `shared_boundary`, and they extend it to gray and color images. Patches count as parallel when sin²(θ/2) is below
    1000 roundings of double precision.

    >>> import numpy as np
    >>> x = np.ones((1, 1, 4, 4))
    >>> bool(contracting_positions(x, 2 * x, kernel_size=3).any())
    False
    """
    return _contraction(
        x,
        y,
        kernel_size=kernel_size,
        padding=padding,
        padding_mode=padding_mode,
        stride=stride,
        dilation=dilation,
    )[1]


def _contraction(x: Array, y: Array, **window_arguments: Any) -> tuple[Array, Array, int]:
    """Return maps of ‖[x]‖‖[y]‖ and of the contracting positions, and the number of taps."""
    xp, x, y = check_pairs(x, y)
    x, y = xp.astype(x, xp.float64), xp.astype(y, xp.float64)  # in float32, two degrees would pass for parallel
    windows = Windows.read(x.shape[2:], **window_arguments)
    kxx, kyy, gap = (windows.sum(xp.sum(image**2, axis=1)) for image in (x, y, x - y))
    product, h = half_gap(xp, kxx, kyy, gap)
    # The rounding error of h is that of d against √(kxx kyy), which unequal norms magnify.
    scale = (kxx + kyy) / xp.where(product > 0, product, xp.ones_like(product))
    return product, (product > 0) & (h > 1000 * xp.finfo(x.dtype).eps * scale), windows.taps


@dataclass(frozen=True)
class ExcessBound(Result):
    """Bounds of `excess_bound`, one entry per pair: 0 ≤ E⟨R,R⟩ - ⟨x,y⟩ ≤ ``inner``, 0 ≤ ρ̄_out - ρ_in ≤ ``cosine``."""

    inner: Array
    cosine: Array
    positions: Array
    """How many positions contribute."""

    def table(self) -> list[dict[str, Any]]:
        """Return one row per pair."""
        return rows_of_columns(self)


def excess_bound(x: Array, y: Array, *, kernel_size: int | Sequence[int]) -> ExcessBound:
    r"""Return by how much one ReLU layer can raise an inner product: theorem 5 for gray and color images.

    .. math:: 0 \le E\langle R(F*x),R(F*y)\rangle - \langle x,y\rangle
              \le \frac{c}{r^2} \sum_{P} \|[x]_{ij}\| \|[y]_{ij}\|

    Here P are the `contracting_positions`, for an r×r filter of variance 2/r², cyclic, stride 1; c = 1/π for images
    without negative values (their patches form no obtuse angle), otherwise 1. It is the extension that [Nachum2022]_
    section 4.1 asks for, and sharper than theorem 5: for binary images it is at most |∂_r|/π, and since the excess is
    never negative, distances never grow. Proof: the excess is :math:`r^{-2}\sum\|[x]\|\|[y]\|\psi(\theta_{ij})` with
    ψ(0) = 0, ψ(π/2) = 1/π, ψ(π) = 1, increasing.

    >>> import numpy as np
    >>> a, b = np.zeros((2, 1, 1, 16, 16))
    >>> a[..., 2:12, 2:12], b[..., 4:14, 4:14] = 1, 1
    >>> excess_bound(a, b, kernel_size=3).inner < 64 / np.pi      # 64 pixels of shared boundary
    array([ True])
    """
    xp, x, y = check_pairs(x, y)
    _, norm_x, norm_y = norms(x, y)
    product, mask, taps = _contraction(x, y, kernel_size=kernel_size)
    signed = xp.any((x < 0) | (y < 0), axis=tuple(range(1, x.ndim)))
    worst = xp.where(signed, xp.ones_like(norm_x), xp.full_like(norm_x, 1 / math.pi))
    positions = tuple(range(1, mask.ndim))
    inner = worst * xp.sum(xp.where(mask, product, xp.zeros_like(product)), axis=positions) / taps
    return ExcessBound(inner, inner / (norm_x * norm_y), xp.sum(xp.astype(mask, xp.int64), axis=positions))
