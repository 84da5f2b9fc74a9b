"""`Decision` and `Certificate`: the result of `decide` and the input of `verify`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from initscope.injectivity._layer import Floats
from initscope.results import Result

if TYPE_CHECKING:
    from initscope.injectivity.frames import Stability

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
    checksum: str

    @classmethod
    def of(cls, kind: str, rows: npt.ArrayLike) -> Certificate:
        """Return a certificate with the checksum of its content."""
        rows = np.asarray(rows)
        return cls(kind, rows, _checksum(kind, rows))

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Certificate:
        """Return the certificate that `to_dict` wrote; `intact` says whether its checksum is right.

        >>> Certificate.from_dict(Certificate.of("tree", [1, 0]).to_dict()).intact
        True
        """
        rows = np.array(content["rows"])
        if rows.size == 0:
            rows = rows.astype(np.int64)
        if rows.dtype != np.int64:
            raise ValueError(f"rows of type {rows.dtype}")
        return cls(str(content["kind"]), rows, str(content["checksum"]))

    @property
    def intact(self) -> bool:
        """Return whether the content matches the checksum; a damaged proof is rejected even if it is still valid."""
        return self.checksum == _checksum(self.kind, np.asarray(self.rows))

    def to_dict(self) -> dict[str, Any]:
        """Return kind, rows and checksum."""
        return {"kind": self.kind, "rows": self.rows.tolist(), "checksum": self.checksum}


def _checksum(kind: str, rows: npt.NDArray[Any]) -> str:
    numbers = rows.astype(np.int64, casting="unsafe").tobytes() if rows.dtype.kind in "iu" else b"not integers"
    return hashlib.sha256(f"{kind} {rows.shape} ".encode() + numbers).hexdigest()[:16]


@dataclass(frozen=True)
class Decision(Result):
    """The decision on a layer: ``injective`` is True (with ``certificate``), False (with ``witness``) or None.

    None means undecided.

    ``witness`` is a pair of different inputs with equal outputs, to rounding (`verify` proves an exact one).
    ``fewest_active`` is the smallest number of active rows seen at any input, an upper bound on the true minimum;
    the command line fills ``stability`` on request.
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
    stability: Stability | None = None

    @property
    def expansivity(self) -> float:
        """Return the number of outputs per input, α = m/n."""
        return self.outputs / self.inputs

    def table(self) -> list[dict[str, Any]]:
        """Return one row with the decision, without the arrays."""
        decision = {True: "injective", False: "not injective", None: "undecided"}[self.injective]
        proof = self.certificate.kind if self.certificate else "colliding pair" if self.witness else None
        row = {
            "decision": decision,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "expansivity": self.expansivity,
            "proof": proof,
            "method": self.method,
        }
        if self.stability is not None:
            row |= {"stability_lower": self.stability.lower, "stability_upper": self.stability.upper}
        return [row]
