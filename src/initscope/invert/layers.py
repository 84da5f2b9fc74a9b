"""Inversion block by block, from the last to the first, with the certainty of each step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from initscope.invert.chain import Chain, LayerBlock
from initscope.invert.constrained import fit
from initscope.invert.least_squares import Solution, solve
from initscope.invert.nonlinearities import Preimage, preimage
from initscope.invert.operators import Affine
from initscope.invert.priors import Prior, SubspacePrior
from initscope.results import Result, counted

__all__ = ["LayerRecovery", "undo"]


@dataclass(frozen=True)
class LayerRecovery(Result):
    """The inversion of one block for one sample.

    ``known`` is the share of outputs whose preactivation is known, ``unseen`` the number of inputs that no known output
    depends on, ``spans`` whether the known rows determine the input; ``noise_amplification`` the input's root mean
    square error per unit of noise on each output, √Σ 1/σ², for large convolutions estimated to a few percent.
    """

    layer: str
    inputs: int
    outputs: int
    known: float
    unseen: int
    spans: bool
    condition: float
    noise_amplification: float
    iterations: int
    method: str


def undo(
    chain: Chain,
    operators: Sequence[Affine],
    target: Tensor,
    priors: tuple[Prior, ...],
    noise: float,
    *,
    solver: str,
    iterations: int | None,
) -> tuple[Tensor, tuple[LayerRecovery, ...], str]:
    """Return the inputs of the chain, a row per block (last first), and a message on what is not determined."""
    rows: list[LayerRecovery] = []
    messages: list[str] = []
    current = target
    for index in range(len(operators) - 1, -1, -1):
        block, affine = chain.blocks[index], operators[index]
        preimages = preimage(block.activation, current, noise)
        known_input = priors if index == 0 else ()
        x, row, message = _undo_block(block, affine, preimages, known_input, noise, solver, iterations)
        rows.append(row)
        if message:
            messages.append(f"{block.name}: {message}")
        # Bound rounding and noise of every entry: a unit that was 0 must not count as active in earlier blocks.
        size = float(x.norm()) / math.sqrt(x.numel())
        rounding = 8 * float(torch.finfo(x.dtype).eps) * (row.condition if row.spans else 1.0) * size
        spread = noise * row.noise_amplification / math.sqrt(x.numel()) if row.spans and noise else 0.0
        noise = rounding + (spread if math.isfinite(spread) else 0.0)
        current = x
    return current, tuple(rows), "; ".join(messages)


def _undo_block(
    block: LayerBlock,
    affine: Affine,
    preimages: Preimage,
    priors: tuple[Prior, ...],
    noise: float,
    solver: str,
    iterations: int | None,
) -> tuple[Tensor, LayerRecovery, str]:
    weights = preimages.slope if noise > 0 else None
    subspace = next((prior for prior in priors if isinstance(prior, SubspacePrior)), None)
    solution = solve(affine, preimages.values, preimages.known, weights, method=solver, iterations=iterations)
    x, method, count = solution.x, solution.method, solution.iterations
    unseen = _unseen(affine, preimages.known)
    spans = solution.smallest > 0 and unseen == 0
    message = "" if spans else _open(affine, preimages, unseen)
    if not spans and subspace is not None:
        solution, x = _in_subspace(affine, preimages, weights, subspace)
        spans, method = solution.smallest > 0, "svd in the subspace"
        message = "" if spans else message
    if not spans:
        x, steps = fit(affine, preimages, x, priors, iterations=iterations or 400)
        count, method = count + steps, f"{method}, bounds" + (" and prior" if priors else "")
    row = LayerRecovery(
        layer=block.name,
        inputs=affine.size,
        outputs=math.prod(affine.output_shape),
        known=float(preimages.known.double().mean()),
        unseen=unseen,
        spans=spans,
        condition=solution.condition if spans else math.inf,
        noise_amplification=math.sqrt(solution.inverse_moment) if spans else math.inf,
        iterations=count,
        method=method,
    )
    return x, row, message


def _in_subspace(
    affine: Affine, preimages: Preimage, weights: Tensor | None, subspace: SubspacePrior
) -> tuple[Solution, Tensor]:
    """Solve least squares in the coordinates of the subspace, whose few columns make a small matrix."""
    rows, mean = subspace.frame(torch.zeros(affine.size, dtype=affine.dtype))

    def lift(coordinates: Tensor) -> Tensor:
        return (mean + coordinates @ rows).reshape(len(coordinates), *affine.input_shape)

    inside = Affine((lift, *affine.parts), (len(rows),), affine.dtype)
    solution = solve(inside, preimages.values, preimages.known, weights, method="svd")
    return solution, lift(solution.x[None])[0]


def _unseen(affine: Affine, known: Tensor) -> int:
    """Return the number of inputs that no known output depends on."""
    generator = torch.Generator().manual_seed(0)
    probe = torch.rand(known.shape, generator=generator, dtype=torch.float64).to(affine.dtype) + 0.5
    with torch.no_grad():
        return int((affine.adjoint(known * probe) == 0).sum())


def _open(affine: Affine, preimages: Preimage, unseen: int) -> str:
    known, needed = int(preimages.known.sum()), affine.size
    if known == 0:
        return "no output is active, so the outputs give only bounds; returned is the input of least norm within them"
    why = f"{known} known outputs do not determine {needed} inputs"
    if unseen:
        why += f" ({counted(unseen, 'input')} reach{'es' if unseen == 1 else ''} no known output)"
    return f"{why}; returned is the fitting input of least norm, adjusted to the bounds or the prior"
