r"""Duals of activations without a closed form: by their Hermite series if it is short, otherwise by integrals.

A function of a Gaussian is a series in normalized Hermite polynomials, σ(√k z) = Σ aₙ(k) hₙ(z), so that
:math:`E\,σ(X)σ(Y) = \sum_n a_n(k_{xx})\,a_n(k_{yy})\,\rho^n` [Daniely2016]_: integrals in one dimension, and powers of
a whole Gram matrix. Smooth activations of moderate variance, as after a norm, need some ten terms.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from initscope.theory._arccos import half_gap
from initscope.theory._interpolation import LARGE
from initscope.theory.activations import Activation

__all__ = ["coefficients", "dual_matrix", "means", "slopes", "transformed"]

_ORDERS, _LAST = 56, 8  # of the series, and those among them whose share says that it has ended
_ENDED = 1e-10  # share of these in E σ'(X)², the slowest of the sums
_REACH, _POINTS = 11.0, 201  # of the integrals: h₅₆ times the density is below 1e-13 there
_NOTHING = 1e-13  # share of an order that may be left out
_FEW = 64  # variances that are integrated one by one
_SPANS = ((0.05, 6), (0.5, 12), (2.0, 24))  # of log variances, and the Chebyshev nodes that do for them
_AGREES = 1e-10  # between nodes, against the largest coefficient


def transformed(sigma: Activation, kxx: Tensor, kyy: Tensor, d: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``sigma.transform`` of maps, by the series if that is exact to a relative 1e-9."""
    smooth = sigma.integrated and kxx.shape == kyy.shape == d.shape
    series = coefficients(sigma, torch.stack([kxx, kyy])) if smooth else None
    if series is None:
        first, second, apart = sigma.transform(kxx, kyy, d)
        return first, second, apart
    (a, b), dtype = series, kxx.dtype
    moments = (a.square().sum(dim=-1), b.square().sum(dim=-1), _squared_distance(a, b, kxx, kyy, d))
    first, second, apart = (moment.to(dtype) for moment in moments)
    return first, second, apart


def means(sigma: Activation, kxx: Tensor, kyy: Tensor) -> tuple[Tensor, Tensor]:
    """Return E σ(X) and E σ(Y), the first of the coefficients."""
    series = coefficients(sigma, torch.stack([kxx, kyy])) if kxx.shape == kyy.shape else None
    if series is None:
        return sigma.mean(kxx), sigma.mean(kyy)
    x, y = series[..., 0].to(kxx.dtype)
    return x, y


def slopes(sigma: Activation, kxx: Tensor, kyy: Tensor, kxy: Tensor) -> Tensor:
    """Return E σ'(X)σ'(Y) = Σ n aₙaₙ ρⁿ⁻¹/√(kxx kyy), the derivative of the dual's series, if it has converged."""
    limit = (kxx * kyy).sqrt()
    kxy = kxy.clamp(-limit, limit)  # rounding must not carry a cosine beyond 1
    series = coefficients(sigma, torch.stack([kxx, kyy])) if kxx.shape == kyy.shape == kxy.shape else None
    if series is None:
        return torch.as_tensor(sigma.derivative_dual(kxx, kyy, kxy))
    order = torch.arange(1, series.shape[-1], dtype=torch.float64)
    a, b = series[..., 1:]
    sums: Tensor = (order * a * b * (kxy / limit)[..., None] ** (order - 1)).sum(dim=-1) / limit
    return sums


def _squared_distance(a: Tensor, b: Tensor, kxx: Tensor, kyy: Tensor, d: Tensor) -> Tensor:
    """Return Σ (aₙ - bₙ)² + 2 aₙbₙ (1 - ρⁿ), with 1 - ρⁿ as a sum of powers times 1 - ρ: nothing cancels near ρ = 1."""
    gap = 2 * half_gap(torch, kxx.double(), kyy.double(), d.double())[1].clamp(0, 1)[..., None]
    powers = (1 - gap) ** torch.arange(a.shape[-1] - 1, dtype=torch.float64, device=a.device)
    below = gap * powers.cumsum(dim=-1)
    apart: Tensor = (a - b).square().sum(dim=-1) + 2 * (a[..., 1:] * b[..., 1:] * below).sum(dim=-1)
    return apart


def dual_matrix(sigma: Activation, variances: Tensor, covariance: Tensor) -> Tensor | None:
    """Return E σ(X)σ(Y) of whole Gram matrices ``[..., n, n]`` with their diagonals; None if the series is too long."""
    series = coefficients(sigma, variances)
    if series is None:
        return None
    size = variances.double().sqrt()
    inverse = torch.where(size > 0, 1 / size, 0)
    cosine = (covariance * inverse[..., :, None]).mul_(inverse[..., None, :]).clamp_(-1, 1)
    share = series.square().flatten(0, -2).amax(dim=0) * torch.arange(series.shape[-1]).clamp_min(1)
    orders = (share > _NOTHING * share.sum()).nonzero()[:, 0].tolist() or [0]
    powers = {1: cosine}
    result = torch.zeros_like(cosine)
    for order, below in zip(reversed(orders), [*reversed(orders[:-1]), 0], strict=True):
        term = series[..., order]
        result.add_(term[..., :, None] * term[..., None, :])
        if order > below:
            if order - below not in powers:
                powers[order - below] = cosine ** (order - below)
            result.mul_(powers[order - below])
    return result


def coefficients(sigma: Activation, variance: Tensor) -> Tensor | None:
    """Return aₙ of every variance on a last axis, in float64; None if σ has kinks or the series is too long."""
    small = 0 < variance.numel() < 2 * LARGE
    if not sigma.integrated or sigma.kinks or not small or variance.requires_grad or variance.device.type != "cpu":
        return None
    flat = variance.double().flatten()
    least, most = float(flat.min()), float(flat.max())
    if not 0 < least <= most < math.inf or not _ends(_integrated(sigma, flat[flat.argmax()][None])):
        return None
    expansion = _integrated(sigma, flat) if len(flat) <= _FEW else _interpolated(sigma, flat, least, most)
    if expansion is None:
        return None
    share = expansion.square().amax(dim=0) * torch.arange(expansion.shape[1]).clamp_min(1)
    last = int((share > _NOTHING * share.sum()).nonzero()[-1]) + 1 if bool(share.any()) else 1
    return expansion[:, :last].reshape(*variance.shape, -1)


def _ends(series: Tensor) -> bool:
    slopes = series.square() * torch.arange(series.shape[-1])
    return bool((slopes[:, -_LAST:].sum(dim=1) <= _ENDED * slopes.sum(dim=1)).all())


def _integrated(sigma: Activation, variance: Tensor) -> Tensor:
    """Return coefficients ``[variances, orders]`` by the trapezoidal rule, whose error decreases exponentially."""
    points, weights = _rule()
    values: Tensor = sigma(variance.sqrt()[:, None] * points)
    return values @ weights


def _interpolated(sigma: Activation, variance: Tensor, least: float, most: float) -> Tensor | None:
    """The same from a few variances between which it is a polynomial in their logarithm, as at two more it is."""
    middle, half = math.log(least * most) / 2, max(math.log(most / least) / 2, 1e-6) * (1 + 1e-9)
    count = next((count for span, count in _SPANS if 2 * half <= span), None)
    if count is None:
        return None
    nodes = torch.cos(math.pi * (torch.arange(count, dtype=torch.float64) + 0.5) / count)
    checks = torch.tensor([-0.77, 0.31], dtype=torch.float64)
    exact = _integrated(sigma, torch.exp(middle + half * torch.cat([nodes, checks])))
    if not bool((_between(nodes, checks) @ exact[:count] - exact[count:]).abs().max() <= _AGREES * exact.abs().max()):
        return None
    return _between(nodes, (variance.log() - middle) / half) @ exact[:count]


def _between(nodes: Tensor, points: Tensor) -> Tensor:
    """Return ``[points, nodes]``: the polynomials that are 1 at one Chebyshev node and 0 at the others."""
    orders = torch.arange(len(nodes), dtype=torch.float64)
    at_nodes, at_points = (torch.cos(orders * angles.clamp(-1, 1).arccos()[:, None]) for angles in (nodes, points))
    share = torch.full((len(nodes),), 2.0 / len(nodes), dtype=torch.float64)
    share[0] /= 2
    return (at_points * share) @ at_nodes.T


@lru_cache(maxsize=1)
def _rule() -> tuple[Tensor, Tensor]:
    """Return points, and ``[points, orders]`` weights: Hermite polynomials times the density."""
    points = torch.linspace(-_REACH, _REACH, _POINTS, dtype=torch.float64)
    density = (points[1] - points[0]) * torch.exp(-points.square() / 2) / math.sqrt(2 * math.pi)
    hermite = [torch.ones_like(points), points]
    for n in range(1, _ORDERS):
        hermite.append((points * hermite[n] - math.sqrt(n) * hermite[n - 1]) / math.sqrt(n + 1))
    return points, torch.stack(hermite, dim=1) * density[:, None]
