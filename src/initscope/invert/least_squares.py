"""Least squares for inputs from known preactivations, by products with the layer and its adjoint.

Dense layers are solved by their singular values. Convolutions use SciPy's LSMR, or its conjugate gradients on the
normal equations if there are many outputs (their vectors are only as long as the input). Both begin at 0, so that they
find the solution of least norm.
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

__all__ = ["Solution", "largest_singular_value", "normal_operator", "singular_values", "solve"]

Floats = NDArray[np.float64]

LARGE = 1_000_000
"""Number of outputs above which the vectors of LSMR cost as much as the layer."""
LARGEST_EXACT_SPECTRUM = 20_000
"""Number of unknowns up to which the smallest singular value is iterated to convergence."""
MOST_STEPS, FEW_STEPS = 1000, 50
SMALL_MATRIX, PROBED = 1_000_000, 4000
"""Largest matrix (entries) for an exact SVD; unknowns probed together for Σ 1/σ² of larger matrices."""


@dataclass(frozen=True)
class Solution:
    """Least-squares solution, extreme singular values of the rows used, and how many iterations it took.

    ``inverse_moment`` is Σ 1/σ², for large layers estimated to a few percent (infinite where the rows do not span):
    noise of standard deviation τ on every row moves the solution by τ times its root.
    """

    x: Tensor
    largest: float
    smallest: float
    inverse_moment: float
    iterations: int
    method: str

    @property
    def condition(self) -> float:
        """Return the ratio of the extreme singular values; infinite if the rows do not span."""
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
    """Return the x with ``affine(x) = values`` at ``known`` by least squares, rows weighted by ``weights``."""
    mask = known.to(values.dtype) if weights is None else known * weights
    target = mask * (values - affine.offset)
    if method == "auto":
        method = "svd" if affine.is_dense and affine.size <= 4096 else "lsmr" if known.numel() < LARGE else "cg"
    if method == "svd":
        return _by_singular_values(affine, target, mask)
    x, count = (_by_lsmr if method == "lsmr" else _by_cg)(affine, target, mask, iterations)
    enough = int(known.sum()) >= affine.size
    largest, smallest, moment = math.nan, 0.0, math.inf
    if spectrum and enough:
        largest, smallest, moment = singular_values(affine, mask)
    return Solution(x, largest, smallest, moment, count, method)


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
    """Return x ↦ Aᵀ M² A x as SciPy's operator."""
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
    """Run conjugate gradients on the normal equations, restarted from the residual to recover lost digits."""
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


def singular_values(affine: Affine, mask: Tensor) -> tuple[float, float, float]:
    r"""Return the largest and smallest singular value of the masked rows, 0 if they do not span, and Σ 1/σ².

    By Lanczos iteration. The smallest is a Ritz value, an upper bound. It is iterated until it moves by less than
    0.5 %, or for a fixed time in large layers. The sum is the mean of :math:`n\,z^T(A^TA)^{-1}z` over random unit
    vectors z, by the quadrature of the iteration [GolubMeurant2010]_: one vector for 4,000 unknowns, several for fewer,
    so that its error is about 4 %. It is exact for small matrices.
    """
    operator = normal_operator(affine, mask)
    steps = min(MOST_STEPS if affine.size <= LARGEST_EXACT_SPECTRUM else FEW_STEPS, 3 * affine.size)
    with torch.no_grad():
        tridiagonal = _lanczos(operator, steps)
        bottom, top = _ends(*tridiagonal)
    # Rounding in products turns zero eigenvalues into values of order eps.
    floor = 100 * float(torch.finfo(affine.dtype).eps) * top
    if bottom <= floor:
        return math.sqrt(max(top, 0.0)), 0.0, math.inf
    if affine.size * mask.numel() <= SMALL_MATRIX:
        sizes = np.linalg.svd(affine.matrix() * mask.reshape(-1, 1).double().numpy(), compute_uv=False)
        moment = float((1 / sizes**2).sum())
    else:
        more = range(1, -(-PROBED // affine.size))
        with torch.no_grad():
            probes = [tridiagonal, *(_lanczos(operator, len(tridiagonal[0]), seed=seed) for seed in more)]
        moment = affine.size * float(np.mean([_first_of_inverse(*probe) for probe in probes]))
    return math.sqrt(top), math.sqrt(bottom), moment


def largest_singular_value(affine: Affine) -> float:
    """Return the largest singular value of all rows, to about 1 %."""
    with torch.no_grad():
        operator = normal_operator(affine, torch.ones(affine.output_shape, dtype=affine.dtype))
        top = _ends(*_lanczos(operator, 30))[1]
    return math.sqrt(max(top, 0.0))


def _lanczos(operator: Any, steps: int, *, seed: int = 0) -> tuple[Floats, Floats]:
    """Return diagonal and off-diagonal of the operator on the Krylov space of a random vector.

    There is no reorthogonalization: rounding only adds copies of converged extreme values.
    """
    start = np.random.default_rng(seed).standard_normal(operator.shape[0])
    diagonal: list[float] = []
    off_diagonal: list[float] = []
    before, vector, beta, last = np.zeros_like(start), start / np.linalg.norm(start), 0.0, math.inf
    for step in range(1, steps + 1):
        image = operator @ vector - beta * before
        diagonal.append(float(image @ vector))
        image -= diagonal[-1] * vector
        beta = float(np.linalg.norm(image))
        if beta <= 1e-13 * abs(diagonal[0]) or step == steps:
            break
        if step % 25 == 0:
            least = _ends(np.array(diagonal), np.array(off_diagonal))[0]
            if abs(last - least) <= 0.005 * abs(least):
                break
            last = least
        off_diagonal.append(beta)
        before, vector = vector, image / beta
    return np.array(diagonal), np.array(off_diagonal[: len(diagonal) - 1])


def _ends(diagonal: Floats, off_diagonal: Floats) -> tuple[float, float]:
    """Return the smallest and largest eigenvalue of a tridiagonal matrix."""
    from scipy.linalg import eigvalsh_tridiagonal

    spectrum = eigvalsh_tridiagonal(diagonal, off_diagonal)
    return float(spectrum[0]), float(spectrum[-1])


def _first_of_inverse(diagonal: Floats, off_diagonal: Floats) -> float:
    """Return the first entry of the inverse of a positive tridiagonal matrix."""
    from scipy.linalg import solveh_banded

    bands = np.vstack([diagonal, np.append(off_diagonal, 0.0)])
    return float(solveh_banded(bands, np.eye(len(diagonal))[:, 0], lower=True)[0])
