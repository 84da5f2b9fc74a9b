"""Inputs from the outputs whose preactivation is known: least squares through products with the layer and its adjoint.

Dense layers by their singular values; convolutions by SciPy's LSMR, or by its conjugate gradients on the normal
equations where the outputs are many (their vectors are then no longer than the input). Both start at 0, so that of
several solutions they find the one of least norm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from initscope.invert.operators import Affine

__all__ = ["Solution", "extreme_singular_values", "largest_singular_value", "normal_operator", "solve"]

LARGE = 1_000_000
"""Outputs beyond which LSMR's long vectors cost as much as the layer."""
LARGEST_EXACT_SPECTRUM = 20_000
"""Unknowns up to which the smallest singular value is iterated until it stands still."""
MOST_STEPS, FEW_STEPS = 1000, 50


@dataclass(frozen=True)
class Solution:
    """Least-squares solution, extreme singular values of the rows used, and how many iterations it took.

    ``inverse_moment`` is Σ 1/σ² where all singular values are known, else NaN: noise of standard deviation τ on every
    row moves the solution by τ times its root.
    """

    x: Tensor
    largest: float
    smallest: float
    inverse_moment: float
    iterations: int
    method: str

    @property
    def condition(self) -> float:
        """Ratio of the extreme singular values; infinite where the rows do not span."""
        return self.largest / self.smallest if self.smallest > 0 else math.inf


def solve(
    affine: Affine,
    values: Tensor,
    known: Tensor,
    weights: Tensor | None = None,
    *,
    method: str = "auto",
    iterations: int | None = None,
    spectrum: bool = True,
) -> Solution:
    """The x with ``affine(x) = values`` where ``known``, in the least-squares sense, rows weighted by ``weights``."""
    mask = known.to(values.dtype) if weights is None else known * weights
    target = mask * (values - affine.offset)
    if method == "auto":
        method = "svd" if affine.is_dense and affine.size <= 4096 else "lsmr" if known.numel() < LARGE else "cg"
    if method == "svd":
        return _by_singular_values(affine, target, mask)
    x, count = (_by_lsmr if method == "lsmr" else _by_cg)(affine, target, mask, iterations)
    enough = int(known.sum()) >= affine.size
    largest, smallest = extreme_singular_values(affine, mask) if spectrum and enough else (math.nan, 0.0)
    return Solution(x, largest, smallest, math.nan, count, method)


def _by_singular_values(affine: Affine, target: Tensor, mask: Tensor) -> Solution:
    rows = mask.reshape(-1).double().numpy()
    used = rows > 0
    matrix = affine.matrix()[used] * rows[used, None]
    right = target.reshape(-1).double().numpy()[used]
    if not used.any():
        return Solution(torch.zeros(affine.input_shape, dtype=affine.dtype), 0.0, 0.0, math.inf, 0, "svd")
    left, sizes, directions = np.linalg.svd(matrix, full_matrices=False)
    keep = sizes > max(matrix.shape) * np.finfo(np.float64).eps * sizes[0]
    x = directions[keep].T @ ((left[:, keep].T @ right) / sizes[keep])
    spans = int(keep.sum()) == affine.size
    moment = float((1 / sizes[keep] ** 2).sum()) if spans else math.inf
    smallest = float(sizes[-1]) if spans else 0.0
    solution = torch.from_numpy(x).to(affine.dtype).reshape(affine.input_shape)
    return Solution(solution, float(sizes[0]), smallest, moment, 1, "svd")


def _operator(affine: Affine, mask: Tensor) -> Any:
    from scipy.sparse.linalg import LinearOperator

    return LinearOperator(
        (mask.numel(), affine.size),
        matvec=lambda x: _numpy(mask * affine.linear(_tensor(x, affine, affine.input_shape))),
        rmatvec=lambda u: _numpy(affine.adjoint(mask * _tensor(u, affine, affine.output_shape))),
        dtype=np.float64,
    )


def normal_operator(affine: Affine, mask: Tensor) -> Any:
    """x ↦ Aᵀ M² A x as SciPy's operator."""
    from scipy.sparse.linalg import LinearOperator

    squared = mask * mask

    def product(x: NDArray[Any]) -> NDArray[Any]:
        return _numpy(affine.adjoint(squared * affine.linear(_tensor(x, affine, affine.input_shape))))

    return LinearOperator((affine.size, affine.size), matvec=product, dtype=np.float64)


def _tensor(x: NDArray[Any], affine: Affine, shape: tuple[int, ...]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(x)).to(affine.dtype).reshape(shape)


def _numpy(x: Tensor) -> NDArray[Any]:
    return x.detach().reshape(-1).double().numpy()


def _tolerance(affine: Affine) -> float:
    return 4 * float(torch.finfo(affine.dtype).eps)


def _by_lsmr(affine: Affine, target: Tensor, mask: Tensor, iterations: int | None) -> tuple[Tensor, int]:
    from scipy.sparse.linalg import lsmr

    tolerance = _tolerance(affine)
    limit = iterations or max(200, min(4 * affine.size, 5000))
    with torch.no_grad():
        x, _, count, *_ = lsmr(
            _operator(affine, mask), _numpy(target), atol=tolerance, btol=tolerance, conlim=0, maxiter=limit
        )
    return _tensor(x, affine, affine.input_shape), int(count)


def _by_cg(affine: Affine, target: Tensor, mask: Tensor, iterations: int | None) -> tuple[Tensor, int]:
    """Conjugate gradients on the normal equations, restarted from the residual: that wins back the digits they lose."""
    from scipy.sparse.linalg import cg

    limit, count = iterations or 2000, 0
    operator = normal_operator(affine, mask)
    x = torch.zeros(affine.input_shape, dtype=affine.dtype)
    tolerance = max(_tolerance(affine), 1e-13)
    first = None

    def counted(_: Any) -> None:
        nonlocal count
        count += 1

    with torch.no_grad():
        for _ in range(3):
            right = _numpy(affine.adjoint(mask * (target - mask * affine.linear(x))))
            size = float(np.linalg.norm(right))
            first = first or size
            if size <= 10 * tolerance * first or count >= limit:
                break
            rtol = max(tolerance * first / size, 1e-7 if affine.dtype == torch.float32 else 1e-13)
            step, _ = cg(operator, right, rtol=rtol, atol=0.0, maxiter=limit - count, callback=counted)
            x = x + _tensor(step, affine, affine.input_shape)
    return x, count


def extreme_singular_values(affine: Affine, mask: Tensor) -> tuple[float, float]:
    """Largest and smallest singular value of the masked rows, by Lanczos iteration; 0 where they do not span.

    The smallest is a Ritz value, an upper bound, iterated until it moves by less than half a per cent, or, in large
    layers, for a fixed time.
    """
    operator = normal_operator(affine, mask)
    steps = MOST_STEPS if affine.size <= LARGEST_EXACT_SPECTRUM else FEW_STEPS
    with torch.no_grad():
        bottom, top = _ritz_values(operator, min(steps, 3 * affine.size))
    # Rounding in products leaves eigenvalues of the size of eps in place of zeros.
    floor = 100 * float(torch.finfo(affine.dtype).eps) * top
    return math.sqrt(max(top, 0.0)), math.sqrt(bottom) if bottom > floor else 0.0


def largest_singular_value(affine: Affine) -> float:
    """Largest singular value of all rows, to about a per cent."""
    with torch.no_grad():
        top = _ritz_values(normal_operator(affine, torch.ones(affine.output_shape, dtype=affine.dtype)), 30)[1]
    return math.sqrt(max(top, 0.0))


def _ritz_values(operator: Any, steps: int) -> tuple[float, float]:
    """Smallest and largest eigenvalue of the operator on a Krylov space.

    Without reorthogonalisation: rounding only adds copies of extreme values that have converged.
    """
    from scipy.linalg import eigvalsh_tridiagonal

    start = np.random.default_rng(0).standard_normal(operator.shape[0])
    diagonal: list[float] = []
    beside: list[float] = []
    before, vector, beta, last = np.zeros_like(start), start / np.linalg.norm(start), 0.0, math.inf
    for step in range(1, steps + 1):
        image = operator @ vector - beta * before
        diagonal.append(float(image @ vector))
        image -= diagonal[-1] * vector
        beta = float(np.linalg.norm(image))
        if beta <= 1e-13 * abs(diagonal[0]) or step == steps:
            break
        if step % 25 == 0:
            least = float(eigvalsh_tridiagonal(np.array(diagonal), np.array(beside))[0])
            if abs(last - least) <= 0.005 * abs(least):
                break
            last = least
        beside.append(beta)
        before, vector = vector, image / beta
    spectrum = eigvalsh_tridiagonal(np.array(diagonal), np.array(beside[: len(diagonal) - 1]))
    return float(spectrum[0]), float(spectrum[-1])
