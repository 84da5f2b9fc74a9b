"""Recovery of sparse inputs from few random projections: the phase transition and the curve of Donoho and Tanner."""

from __future__ import annotations

from collections.abc import Sequence

from initscope.invert.sparse import SparseTransition, sparse_transition
from initscope.reproductions.protocol import Declared, Number

__all__ = ["REPRODUCTIONS", "run"]

_TOLERANCE = 0.1
"""Relative tolerance: the curve holds for infinitely many unknowns, the experiment has a few hundred."""


def run(
    *,
    measured: Sequence[float] = (0.1, 0.25, 0.5, 0.75, 0.9),
    inputs: int = 400,
    trials: int = 40,
    relative: Sequence[float] = (0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3),
    seed: int = 0,
) -> SparseTransition:
    """Minimize the l1 norm for random sparse inputs, and find the sparsity at which half of them are recovered."""
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
            abs(number.value - 1) <= _TOLERANCE + 2 * (number.error or 0.0) for number in _numbers(result).values()
        ),
        small={"measured": (0.25, 0.5), "inputs": 200, "trials": 12, "relative": (0.7, 0.85, 1.0, 1.15, 1.3)},
    ),
)
