"""Joint draws of Gaussian units at several sites, from the covariances between positions (theory §3.2, §3.3)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from initscope.propagate.offsets import Lookup
from initscope.propagate.sites import Sites
from initscope.propagate.state import Maps

__all__ = ["Draws", "gaussian_draws"]

_AT_ONCE = 1 << 22  # normal numbers of one piece
_ROUNDING = 1e-10  # relative; what a correlation matrix may lack of being positive


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
    factor = _factor(_covariance(state, sites, draws)).to(state.kxx.dtype)
    outputs, width = factor.shape[:-2], factor.shape[-1]
    flat = factor.reshape(-1, width, width)
    step = max(1, _AT_ONCE // (width * draws.count))
    values = torch.empty((len(flat), width, draws.count), dtype=flat.dtype, device=flat.device)
    for start in range(0, len(flat), step):
        part = flat[start : start + step]
        torch.bmm(part, draws.normal((len(part), width, draws.count), like=part), out=values[start : start + step])
    values = values.reshape(*outputs, width, draws.count).movedim(-1, 0).movedim(-1, 3)
    x, gap = values[:, :, :, : width // 2], values[:, :, :, width // 2 :]
    return x, x - gap


def _covariance(state: Maps, sites: Sites, draws: Draws) -> Tensor:
    """``[pairs, blocks, *size, n, n]`` of all x, then all x - y: differences of near-equal inputs keep their digits."""
    count = len(sites.shifts)
    kxx, kyy, d = (sites.take(maps.double()) for maps in (state.kxx, state.kyy, state.d))
    # rows and columns first, so that each entry is a map
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
    return matrix.movedim((0, 1), (-2, -1))


def _factor(covariance: Tensor) -> Tensor:
    """L with L Lᵀ = covariance; what sampling or rounding made negative is left out."""
    size = covariance.diagonal(dim1=-2, dim2=-1).clamp_min(0).sqrt()
    inverse = torch.where(size > 0, 1 / size, 0)
    correlation = covariance * inverse[..., :, None] * inverse[..., None, :]
    correlation.diagonal(dim1=-2, dim2=-1).copy_(torch.ones_like(size) + _ROUNDING)
    factor, failed = torch.linalg.cholesky_ex(correlation)
    if bool((failed > 0).any()):
        values, vectors = torch.linalg.eigh(correlation[failed > 0])
        factor[failed > 0] = vectors * values.clamp_min(0).sqrt()[..., None, :]
    result: Tensor = factor * size[..., :, None]
    return result
