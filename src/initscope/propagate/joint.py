"""Joint draws of Gaussian units at several sites, from the covariances between positions (docs: prediction)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from initscope.propagate.offsets import Lookup
from initscope.propagate.sites import Sites
from initscope.propagate.state import Maps

__all__ = ["Draws", "gaussian_draws"]

_ROUNDING = 1e-10  # what a correlation matrix may lack of being positive
_AT_ONCE = 1 << 20  # numbers of one piece: it stays near the caches


@dataclass(frozen=True)
class Draws:
    """How many samples to draw, with which random numbers, and where covariances between positions are found."""

    count: int
    generator: torch.Generator
    lookup: Lookup

    def normal(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Standard normal numbers, of the type and on the device of ``like``."""
        numbers = torch.randn(shape, generator=self.generator, dtype=like.dtype, device=self.generator.device)
        return numbers.to(like.device)


def gaussian_draws(state: Maps, sites: Sites, draws: Draws) -> tuple[Tensor, Tensor]:
    """x and y of Gaussian units at ``sites``: ``[count, pairs, blocks, shifts, *size]``."""
    covariance = _covariance(state, sites, draws)
    outputs, width = covariance.shape[2:], len(covariance)
    flat = covariance.reshape(width, width, -1)
    values = torch.empty((flat.shape[2], width, draws.count), dtype=state.kxx.dtype, device=flat.device)
    step = max(1, _AT_ONCE // (width * max(width, draws.count)))
    for start in range(0, flat.shape[2], step):
        factor = _factor(flat[:, :, start : start + step].movedim(2, 0)).to(values.dtype)
        normal = draws.normal((len(factor), width, draws.count), like=factor)
        torch.bmm(factor, normal, out=values[start : start + step])
    values = values.reshape(*outputs, width, draws.count).movedim(-1, 0).movedim(-1, 3)
    x, gap = values[:, :, :, : width // 2], values[:, :, :, width // 2 :]
    return x, x - gap


def _covariance(state: Maps, sites: Sites, draws: Draws) -> Tensor:
    """``[n, n, pairs, blocks, *size]`` of all x, then all x - y: differences of near-equal inputs keep their digits."""
    count = len(sites.shifts)
    kxx, kyy, d = (sites.take(maps.double()) for maps in (state.kxx, state.kyy, state.d))
    matrix = kxx.new_zeros((2 * count, 2 * count, *kxx.shape[:2], *kxx.shape[3:]))
    for i in range(count):
        with_gap = (kxx[:, :, i] - kyy[:, :, i] + d[:, :, i]) / 2
        matrix[i, i], matrix[count + i, count + i] = kxx[:, :, i], d[:, :, i]
        matrix[i, count + i] = matrix[count + i, i] = with_gap
    for i, j, offset in sites.couples():
        cross = draws.lookup(state, offset)
        write, read = sites.window(i, offset, tuple(cross.shape[3:]))
        xx, yy, xy, yx = cross[read]
        for row, column, values in (
            (i, j, xx), (i, count + j, xx - xy), (count + i, j, xx - yx), (count + i, count + j, xx + yy - xy - yx)
        ):  # fmt: skip
            matrix[row, column][write] = values
            matrix[column, row][write] = values
    return matrix


def _factor(covariance: Tensor) -> Tensor:
    """L with L Lᵀ = covariance; what sampling or rounding made negative is left out, and variances stay as they are."""
    size = covariance.diagonal(dim1=-2, dim2=-1).clamp_min(0).sqrt()
    inverse = torch.where(size > 0, 1 / size, 0)
    correlation = covariance * inverse[..., :, None] * inverse[..., None, :]
    correlation.diagonal(dim1=-2, dim2=-1).copy_(torch.ones_like(size) + _ROUNDING)
    factor, failed = torch.linalg.cholesky_ex(correlation)
    if bool((failed > 0).any()):
        values, vectors = torch.linalg.eigh(correlation[failed > 0])
        nearest = vectors * values.clamp_min(0).sqrt()[..., None, :]
        factor[failed > 0] = nearest / nearest.norm(dim=-1, keepdim=True)
    result: Tensor = factor * size[..., :, None]
    return result
