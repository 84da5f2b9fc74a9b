"""The edge of stability: the largest learning rate that the curvature at initialization allows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence

import torch
from scipy.linalg import eigvalsh_tridiagonal
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from initscope._utils.randomness import torch_generator
from initscope.inspection.instruments.optimizers import adapts
from initscope.inspection.instruments.outputs import loss_value
from initscope.inspection.instruments.training import Setup

__all__ = ["stability_edge"]

_ITERATIONS, _FEWEST = 12, 6
_CONVERGED = 0.01
"""Relative change of the largest eigenvalue at which the iteration ends."""
_FLOOR = 0.1
"""Gradients below this share of their tensor's root mean square count as that large in Adam's denominator."""


def stability_edge(setup: Setup) -> float | None:
    """Return the edge of stability: the largest stable learning rate, 2/λmax for gradient descent.

    At higher rates, steps along the direction of largest curvature grow.

    λmax is the largest eigenvalue of the Hessian of the loss at initialization, from the Lanczos iteration on products
    of the Hessian with vectors. Momentum β raises the edge to 2(1 + β)/λmax. For optimizers that divide steps by the
    root of mean squared gradients, the Hessian is divided too; for Adam the edge is 2(1 + β₁)/((1 - β₁)λmax) (Cohen et
    al. 2022, https://arxiv.org/abs/2207.14484). The squares at initialization are only a first guess of that mean.

    Returns None if the curvature is not positive or cannot be computed.
    """
    torch.manual_seed(setup.seed)
    model, loss, optimizer = setup.optimizer.copies(setup.model, setup.loss)
    model.train()
    options = optimizer.param_groups[0]
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    parameters = [p for p in model.parameters() if p.requires_grad and id(p) in held]
    if not parameters:
        return None

    def gradient(create_graph: bool) -> list[Tensor]:
        torch.manual_seed(setup.seed)  # the same dropout in every pass
        inputs = setup.batch.inputs.map(torch.clone)
        value = loss_value(loss, model(*inputs.args, **inputs.kwargs), setup.batch.targets)
        gradients = torch.autograd.grad(value, parameters, create_graph=create_graph, allow_unused=True)
        return [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, gradients, strict=True)]

    try:
        with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about graphs that gradients of gradients keep in memory
            largest = _largest_eigenvalue(gradient, parameters, adapts(optimizer), setup.seed)
    except (RuntimeError, NotImplementedError):  # an op without a second derivative
        return None
    if not 0 < largest < float("inf"):
        return None
    if "betas" in options:
        beta = float(options["betas"][0])
        return 2 * (1 + beta) / ((1 - beta) * largest)
    return 2 * (1 + float(options.get("momentum", 0.0) or 0.0)) / largest


def _largest_eigenvalue(
    gradient: Callable[[bool], list[Tensor]], parameters: Sequence[Tensor], divided: bool, seed: int
) -> float:
    gradients = gradient(True)
    roots = [_scale(g.detach()) if divided else torch.ones(()) for g in gradients]
    generator = torch_generator(seed, "first vector of the iteration")
    vectors = [torch.randn(p.shape, generator=generator).to(p) for p in parameters]
    previous, size, before = [torch.zeros_like(v) for v in vectors], _norm(vectors), float("inf")
    diagonal: list[float] = []
    off_diagonal: list[float] = []
    for _ in range(_ITERATIONS):  # without orthogonalization: repeated eigenvalues do not change the largest one
        vectors = [v / size for v in vectors]
        scaled = [v * root for v, root in zip(vectors, roots)]
        products = torch.autograd.grad(gradients, parameters, scaled, retain_graph=True, allow_unused=True)
        results = [torch.zeros_like(v) if p is None else p * r for p, v, r in zip(products, vectors, roots)]
        diagonal.append(sum(float((v.double() * r.double()).sum()) for v, r in zip(vectors, results)))
        value = float(eigvalsh_tridiagonal(diagonal, off_diagonal)[-1]) if math.isfinite(diagonal[-1]) else math.nan
        weight = off_diagonal[-1] if off_diagonal else 0.0
        results = [r - diagonal[-1] * v - weight * old for r, v, old in zip(results, vectors, previous)]
        size, previous, vectors = _norm(results), vectors, results
        converged = len(diagonal) >= _FEWEST and abs(value - before) <= _CONVERGED * abs(value)
        if converged or not size > _CONVERGED**2 * abs(value):  # NaN, or the vectors span the whole space
            break
        off_diagonal.append(size)
        before = value
    return value


def _norm(vectors: list[Tensor]) -> float:
    return math.sqrt(sum(float(v.double().square().sum()) for v in vectors))


def _scale(gradient: Tensor) -> Tensor:
    """Return one over the root of each gradient's absolute value, which multiplies the Hessian from both sides."""
    typical = gradient.square().mean().sqrt()
    return (gradient.abs().clamp_min(_FLOOR * float(typical)) + 1e-12).rsqrt()
