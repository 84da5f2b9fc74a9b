"""`Decision` and `Certificate`: what `decide` hands out and `verify` reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from initscope._results import Result
from initscope.injectivity._layer import Floats

__all__ = ["Certificate", "Decision"]


@dataclass(frozen=True)
class Certificate(Result):
    """Proof of injectivity, of one of two kinds.

    ``"tree"``: ``rows`` lists the circuits of a branching in preorder, see `initscope.theory.injectivity.branching`.
    ``"opposite rows"``: ``rows`` has shape (n, 2): row i and row j point in opposite directions, so that one of them is
    active at every input, and the n directions span the input space.
    """

    kind: str
    rows: npt.NDArray[np.integer[Any]]

    def to_dict(self) -> dict[str, Any]:
        """Kind and rows."""
        return {"kind": self.kind, "rows": self.rows.tolist()}


@dataclass(frozen=True)
class Decision(Result):
    """Verdict on one layer: ``injective`` True (with ``certificate``), False (with ``witness``) or None (undecided).

    ``witness`` is a pair of different inputs with equal outputs (to rounding; `verify` proves that an exact pair is there).
    ``fewest_active`` is the smallest number of active rows met at any input, an upper bound on the true minimum.
    """

    injective: bool | None
    method: str
    inputs: int
    outputs: int
    witness: tuple[Floats, Floats] | None = None
    certificate: Certificate | None = None
    fewest_active: int | None = None
    nodes: int = 0
    seconds: float = 0.0

    @property
    def expansivity(self) -> float:
        """Outputs per input, α = m/n."""
        return self.outputs / self.inputs

    def table(self) -> list[dict[str, Any]]:
        """One row: the verdict without the arrays."""
        verdict = {True: "injective", False: "not injective", None: "undecided"}[self.injective]
        proof = self.certificate.kind if self.certificate else "colliding pair" if self.witness else None
        return [
            {
                "verdict": verdict,
                "inputs": self.inputs,
                "outputs": self.outputs,
                "expansivity": self.expansivity,
                "fewest_active": self.fewest_active,
                "proof": proof,
                "method": self.method,
                "seconds": round(self.seconds, 3),
            }
        ]
