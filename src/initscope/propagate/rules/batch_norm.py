r"""Batch norm in training mode for dense layers: an exact integral over the covariance of the batch.

With C the centered covariance of the n samples, each channel divides its values z ~ N(0, C) by :math:`|z|/\sqrt n`, and

.. math:: E[\sigma\sigma^T] = n\int_0^\infty e^{-sn\epsilon}\det(I+2sC)^{-1/2}\;\hat\sigma\big(C(I+2sC)^{-1}\big)\,ds

for σ homogeneous of degree 1. Convolutions would need the covariances of all samples at all positions, and are sampled.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from initscope.propagate.bases import Distribution, Draws, Field, Origin, Pair
from initscope.propagate.distributions import UNKNOWN
from initscope.propagate.origins.elementwise import batch_dual
from initscope.propagate.origins.matrices import BatchGram
from initscope.propagate.totals import NotCovered
from initscope.propagate.values.moment_maps import MomentMaps
from initscope.propagate.windows import Sites
from initscope.theory import activations
from initscope.theory.activations import Activation

__all__ = ["BatchNormalized", "batch_normalized", "from_batch_gram", "normalized_moments"]

_STEP = 0.2  # of the trapezoidal rule in log s
_NEGLIGIBLE = 1e-13


@dataclass(frozen=True, eq=False)
class BatchNormalized(Distribution):
    """z/(|z|/√n) of z ~ N(0, covariance), over the batch."""

    covariance: Tensor
    eps: float
    zero_mean = True

    def draw(self, state: MomentMaps, sites: Sites, draws: Draws) -> Pair:
        """Normalize whole batches."""
        values, vectors = torch.linalg.eigh(self.covariance)
        root = vectors * values.clamp_min(0).sqrt()
        z = draws.normal((draws.count, len(root)), like=root) @ root.T
        z = (z / (z.square().mean(dim=1, keepdim=True) + self.eps).sqrt()).to(state.kxx.dtype)
        pairs = len(state.kxx)
        return z[:, :pairs, None, None], z[:, pairs:, None, None]

    def fields(self, state: MomentMaps, sites: Sites) -> Iterable[Field]:
        """No samples, because positions cannot be drawn separately."""
        return ()

    def activated_gram(self, sigma: Activation) -> Tensor | None:
        """Return the integral, for homogeneous activations."""
        return normalized_moments(self.covariance, self.eps, sigma) if sigma.homogeneous else None


def batch_normalized(state: MomentMaps, eps: float) -> MomentMaps:
    """Return the value after batch norm, before its scale and shift."""
    gram = batch_covariance(state)
    centered = gram - gram.mean(dim=0, keepdim=True) - gram.mean(dim=1, keepdim=True) + gram.mean()
    after = normalized_moments(centered, eps, activations.identity)
    return from_batch_gram(state, after, BatchNormalized(centered, eps))


def from_batch_gram(state: MomentMaps, gram: Tensor, distribution: Distribution = UNKNOWN) -> MomentMaps:
    """Return the value whose covariance over the whole batch is ``gram``, x first: ``[2·pairs, 2·pairs]``."""
    pairs = len(state.kxx)
    square = gram.diagonal()
    kxx, kyy = square[:pairs, None], square[pairs:, None]
    d = kxx + kyy - 2 * gram[:pairs, pairs:].diagonal()[:, None]
    return state.after(
        tuple(maps.to(state.kxx.dtype) for maps in (kxx, kyy, d.clamp_min(0))),
        sizes=(state.channels,),
        distribution=distribution,
        fresh=frozenset(),
        origin=BatchGram(gram),
    )


def batch_covariance(state: MomentMaps) -> Tensor:
    """E of the product of a unit's values for every two samples of the batch, by the recursion over layers."""
    if state.positions:
        raise NotCovered("batch statistics over positions need the covariances of all samples at all positions")
    origins = list[Origin]()
    before: MomentMaps | None = state
    while before is not None:
        if before.origin is None:
            raise NotCovered("the covariance of the whole batch is not known")
        origins.append(before.origin)
        before = before.origin.batch_parent()
    gram = torch.empty(0)
    for origin in reversed(origins):
        gram = origin.batch_gram(gram)
    return gram


def normalized_moments(centered: Tensor, eps: float, sigma: Activation) -> Tensor:
    """Return the integral over s, by the trapezoidal rule in log s."""
    n = len(centered)
    values, vectors = torch.linalg.eigh(centered)
    values = values.clamp_min(0)
    trace = float(values.sum())
    if trace <= 0:
        raise NotCovered("all samples of the batch are equal before it")
    total, largest = torch.zeros_like(centered), 0.0
    u = math.log(1e-14 / trace)
    while True:
        s = math.exp(u)
        weight = n * _STEP * s * math.exp(-s * n * eps - 0.5 * float(torch.log1p(2 * s * values).sum()))
        shrunk = values / (1 + 2 * s * values)
        size = weight * float(shrunk.sum())
        largest = max(largest, size)
        if size > _NEGLIGIBLE * largest:
            total += weight * batch_dual(sigma, (vectors * shrunk) @ vectors.T)
        elif s * trace > 1:
            return total
        u += _STEP
