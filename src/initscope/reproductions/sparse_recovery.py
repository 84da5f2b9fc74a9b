"""Sparse inputs from fewer random products than unknowns: where recovery breaks, on Donoho and Tanner's curve."""

from __future__ import annotations

from collections.abc import Sequence

from initscope.invert.sparse import SparseTransition, sparse_transition
from initscope.reproductions.protocol import Declared, Number

__all__ = ["REPRODUCTIONS", "run"]

_ROOM = 0.1
"""How far, relatively, the transition of a few hundred unknowns may be from the curve, which is of very many."""


def run(
    *,
    measured: Sequence[float] = (0.1, 0.25, 0.5, 0.75, 0.9),
    inputs: int = 400,
    trials: int = 40,
    relative: Sequence[float] = (0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3),
    seed: int = 0,
) -> SparseTransition:
    """Draw sparse inputs and Gaussian products, minimise the l1 norm, and find the sparsity at which half come back."""
    return sparse_transition(measured, inputs=inputs, trials=trials, relative=relative, seed=seed)


def _numbers(result: SparseTransition) -> dict[str, Number]:
    return {
        f"m/n = {row['measured']:g}: k/m over the curve": Number(row["ratio"], row["standard_error"] / row["theory"])
        for row in result.thresholds()
    }


REPRODUCTIONS = (
    Declared(
        id="talk-sparse-recovery",
        source="Bronstein 2016, 'Random Gaussian weights': k-sparse vectors",
        statement="A k-sparse vector can be reconstructed from m = O(k log(n/k)) random projections.",
        produce=run,
        numbers=_numbers,
        holds=lambda result: all(
            abs(number.value - 1) <= _ROOM + 2 * (number.error or 0.0) for number in _numbers(result).values()
        ),
        small={"measured": (0.25, 0.5), "inputs": 200, "trials": 12, "relative": (0.7, 0.85, 1.0, 1.15, 1.3)},
    ),
)
