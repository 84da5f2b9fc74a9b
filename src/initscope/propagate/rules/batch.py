r"""Batch norm in training mode for dense layers: an exact integral over the covariance of the batch.

With C the centred covariance of the n samples, each channel divides its values z ~ N(0, C) by :math:`|z|/\sqrt n`, and

.. math:: E[\sigma\sigma^T] = n\int_0^\infty e^{-sn\epsilon}\det(I+2sC)^{-1/2}\;\hat\sigma\big(C(I+2sC)^{-1}\big)\,ds

for σ homogeneous of degree 1. Convolutions would need the covariances of all samples at all positions, and are sampled.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from initscope.propagate.moments import (
    Cross,
    Distribution,
    Draws,
    Field,
    InputProducts,
    Lookup,
    MomentMaps,
    NotCovered,
    Origin,
    Pair,
    Scaled,
)
from initscope.propagate.origins import Activations
from initscope.propagate.rules import weights
from initscope.propagate.windows import Offset, Sites
from initscope.theory import activations
from initscope.theory.activations import Activation

__all__ = ["BatchNormalized", "batch_normalised", "normalised_activation", "normalised_moments"]

_STEP = 0.2  # of the trapezoidal rule in log s
_NEGLIGIBLE = 1e-13


@dataclass(frozen=True, eq=False)
class BatchGram(Origin):
    """The covariance of the whole batch, x first, then y: ``[2 pairs, 2 pairs]``."""

    gram: Tensor

    def sources(self, offset: Offset) -> tuple[()]:
        """Nothing."""
        return ()

    def cross(self, offset: Offset, lookup: Lookup) -> Cross:
        """A dense layer has one position only."""
        raise NotCovered("a dense layer has no positions")

    def tangent(self, offset: Offset, values: Lookup, tangents: Lookup) -> Cross:
        """Not known."""
        raise NotCovered("batch norm in training mixes the samples of a batch")


@dataclass(frozen=True, eq=False)
class BatchNormalized(Distribution):
    """z/(|z|/√n) of z ~ N(0, covariance), over the batch."""

    covariance: Tensor
    eps: float

    def means(self, state: MomentMaps) -> Pair:
        """Zero, by symmetry."""
        zero = torch.zeros_like(state.kxx)
        return zero, zero

    def draw(self, state: MomentMaps, sites: Sites, draws: Draws) -> Pair:
        """WholeBatch batches, normalised."""
        values, vectors = torch.linalg.eigh(self.covariance)
        root = vectors * values.clamp_min(0).sqrt()
        z = draws.normal((draws.count, len(root)), like=root) @ root.T
        z = (z / (z.square().mean(dim=1, keepdim=True) + self.eps).sqrt()).to(state.kxx.dtype)
        pairs = len(state.kxx)
        return z[:, :pairs, None, None], z[:, pairs:, None, None]

    def fields(self, state: MomentMaps, sites: Sites) -> Iterable[Field]:
        """None whose positions are drawn by themselves."""
        return ()


def batch_normalised(state: MomentMaps, eps: float) -> MomentMaps:
    """The state after batch norm, before its scale and shift."""
    gram = batch_covariance(state)
    centred = gram - gram.mean(dim=0, keepdim=True) - gram.mean(dim=1, keepdim=True) + gram.mean()
    after = normalised_moments(centred, eps, activations.identity)
    return _from_gram(state, after, BatchNormalized(centred, eps))


def normalised_activation(state: MomentMaps, sigma: Activation) -> MomentMaps | None:
    """The state after an activation of batch-normed units, if that has the exact integral."""
    if not isinstance(state.distribution, BatchNormalized) or not sigma.homogeneous:
        return None
    return _from_gram(state, normalised_moments(state.distribution.covariance, state.distribution.eps, sigma), None)


def _from_gram(state: MomentMaps, gram: Tensor, distribution: Distribution | None) -> MomentMaps:
    pairs = len(state.kxx)
    square = gram.diagonal()
    kxx, kyy = square[:pairs, None], square[pairs:, None]
    d = kxx + kyy - 2 * gram[:pairs, pairs:].diagonal()[:, None]
    kxx, kyy, d = (m.to(state.kxx.dtype) for m in (kxx, kyy, d.clamp_min(0)))
    return state.after(
        kxx=kxx,
        kyy=kyy,
        d=d,
        sizes=(state.channels,),
        distribution=distribution,
        fresh=frozenset(),
        origin=BatchGram(gram),
    )


def batch_covariance(state: MomentMaps) -> Tensor:
    """E of the product of a unit's values for every two samples of the batch, by the recursion over layers."""
    if state.positions:
        raise NotCovered("batch statistics over positions need the covariances of all samples at all positions")
    chain = [state]
    while not isinstance(chain[-1].origin, (BatchGram, InputProducts)):
        origin = chain[-1].origin
        if not isinstance(origin, (Activations, Scaled, weights.WeightedSums)):
            raise NotCovered("the covariance of the whole batch is not known there")
        chain.append(origin.before)
    gram = _start(chain.pop())
    for later in reversed(chain):
        gram = _step(later, gram)
    return gram


def _start(state: MomentMaps) -> Tensor:
    if isinstance(state.origin, BatchGram):
        return state.origin.gram
    assert isinstance(state.origin, InputProducts)
    given = state.origin.given
    values = torch.cat([given.x, given.y]).double()
    return values @ values.T / values.shape[1]


def _step(state: MomentMaps, gram: Tensor) -> Tensor:
    origin = state.origin
    if isinstance(origin, weights.WeightedSums):
        if origin.means is not None or origin.groups > 1 or len(origin.before.sizes) > 1:
            raise NotCovered("batch norm after zero-sum weights is sampled")
        return origin.scale * gram + origin.law.bias_variance
    if isinstance(origin, Scaled):
        factors = torch.cat(
            [torch.as_tensor(f).double().reshape(-1).expand(len(gram) // 2) for f in (origin.x, origin.y)]
        )
        return gram * factors[:, None] * factors
    assert isinstance(origin, Activations)
    return _dual(origin.sigma, gram)


def _dual(sigma: Activation, gram: Tensor) -> Tensor:
    square = gram.diagonal()
    limit = (square[:, None] * square).sqrt()
    result: Tensor = sigma.dual(square[:, None].expand_as(gram), square.expand_as(gram), gram.clamp(-limit, limit))
    return result


def normalised_moments(centred: Tensor, eps: float, sigma: Activation) -> Tensor:
    """The integral over s, by the trapezoidal rule in log s."""
    n = len(centred)
    values, vectors = torch.linalg.eigh(centred)
    values = values.clamp_min(0)
    trace = float(values.sum())
    if trace <= 0:
        raise NotCovered("all samples of the batch are equal before it")
    total, largest = torch.zeros_like(centred), 0.0
    u = math.log(1e-14 / trace)
    while True:
        s = math.exp(u)
        weight = n * _STEP * s * math.exp(-s * n * eps - 0.5 * float(torch.log1p(2 * s * values).sum()))
        shrunk = values / (1 + 2 * s * values)
        size = weight * float(shrunk.sum())
        largest = max(largest, size)
        if size > _NEGLIGIBLE * largest:
            total += weight * _dual(sigma, (vectors * shrunk) @ vectors.T)
        elif s * trace > 1:
            return total
        u += _STEP
