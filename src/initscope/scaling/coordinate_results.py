"""What a coordinate check found: exponents of every row, and the finding in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from initscope.results import Result, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DEPTH", "SCORES", "CoordinateCheck", "CoordinateRow", "DepthCheck", "two_errors", "width_findings"]

Floats = npt.NDArray[np.float64]
SCORES = "scores"
"""Kind of the rows that hold what a softmax of attention reads."""
DEPTH = "depth"
"""Role of the rows of a check against the depth."""
_DRAWN = ("embedding", "weights", SCORES, DEPTH)
_HALF_ROOT = -0.25  # between 1/d (-0.5 at the start) and 1/√d (0)
_ADVICE = {
    SCORES: "use 1/d attention: divide scores by the head size, not by its root",
    "embedding": "scale the embedding so that its size does not depend on the width",
    "output": "divide the output by the width: an output multiplier, or weights of deviation 1/width",
    "weights": "scale its weights by 1/√fan-in, and their learning rate by 1/fan-in under Adam",
}


@dataclass(frozen=True)
class CoordinateRow(Result):
    """Exponents of one row's root mean square against the width.

    ``predicted`` is by theory at initialization, NaN where a row has no prediction; ``predicted_se`` is its standard
    error over the models that were drawn. ``measured [steps + 1]`` are after 0, 1, … steps, with their standard errors
    over the draws of the weights ``errors``, NaN with one draw.
    """

    layer: str
    kind: str
    role: str
    predicted: float
    predicted_se: float
    measured: tuple[float, ...]
    errors: tuple[float, ...]


@dataclass(frozen=True)
class _Check(Result):
    """Exponents of rows against a size of the model, and what is wrong in words.

    ``at`` are the sizes of the models; ``sizes [at, steps + 1, rows]`` are root mean squares. ``passes`` where nothing
    grows or shrinks by more than ``tolerance`` after the last step.
    """

    at: tuple[int, ...]
    steps: int
    tolerance: float
    rows: tuple[CoordinateRow, ...]
    sizes: Floats
    findings: tuple[str, ...]
    against: ClassVar[str]

    @property
    def passes(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def table(self) -> list[dict[str, Any]]:
        """One dict per row: exponents at initialization, predicted and measured, and after the last step."""
        return [
            {
                "layer": row.layer, "kind": row.kind,
                "predicted": row.predicted, "predicted_se": row.predicted_se,
                "initial": row.measured[0], "initial_se": row.errors[0],
                "final": row.measured[-1], "final_se": row.errors[-1],
            }
            for row in self.rows
        ]  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Widths or depths, findings and rows."""
        return {
            f"{self.against}s": list(self.at), "steps": self.steps, "passes": self.passes,
            "findings": list(self.findings), "rows": [row.to_dict() for row in self.rows],
        }  # fmt: skip

    def plot(self, ax: Axes | None = None) -> Axes:
        """Root mean squares against the width or depth, at initialization (dashed) and after the last step."""
        ax = make_axes(ax)
        chosen = [index for index, row in enumerate(self.rows) if row.role in _DRAWN]
        for place, index in enumerate(chosen):
            color = f"C{place % 10}"
            ax.loglog(self.at, self.sizes[:, 0, index], "--", color=color, alpha=0.5)
            ax.loglog(self.at, self.sizes[:, -1, index], color=color, label=self.rows[index].layer)
        ax.set_xticks(self.at, [str(size) for size in self.at])
        ax.set_xticks([], minor=True)
        ax.set_xlabel(self.against)
        ax.set_ylabel("root mean square")
        if len(chosen) <= 12:
            ax.legend(fontsize="small")
        return ax


@dataclass(frozen=True)
class CoordinateCheck(_Check):
    """Exponents of all rows against the width (see `initscope.scaling.coordinates`)."""

    against = "width"

    @property
    def widths(self) -> tuple[int, ...]:
        """Of the models."""
        return self.at


@dataclass(frozen=True)
class DepthCheck(_Check):
    """Exponents against the number of blocks (see `initscope.scaling.depth_coordinates`)."""

    against = "depth"

    @property
    def depths(self) -> tuple[int, ...]:
        """Of the models."""
        return self.at


def width_findings(
    rows: Sequence[CoordinateRow],
    reads: Sequence[Sequence[int]],
    tolerance: float,
    wider: frozenset[int] = frozenset(),
) -> tuple[str, ...]:
    """In words, which rows do not stay put, each where it begins: rows that only pass it on are not named.

    After the last step no size may depend on the width; before the first a size may fall, but not grow. Scores and the
    output may fall at any time: both start small in μP, and a few steps do not make up for it. Scores of heads whose
    size grows with the width (rows ``wider``) must fall like its root at initialization [Yang2021]_: a few steps do not
    align queries and keys, but training does, and then scores grow by that root.
    """
    wrong: dict[int, float] = {}
    weights = [index for index, row in enumerate(rows) if row.role == "weights"]
    for index, row in enumerate(rows):
        start, end = row.measured[0], row.measured[-1]
        grown = math.isfinite(end) and abs(end) > tolerance + two_errors(row, -1)
        if grown and not (len(row.measured) == 1 and end < 0):
            wrong[index] = end
        elif math.isfinite(start) and start > tolerance + two_errors(row, 0):
            wrong[index] = start
    found = []
    for index, exponent in wrong.items():
        row = rows[index]
        role = "output" if weights and index == weights[-1] and row.role == "weights" else row.role
        if role in (SCORES, "output") and exponent < 0:
            continue
        if role not in _ADVICE or any(_passes_on(parent, wrong, rows, exponent, reads) for parent in reads[index]):
            continue
        verb = "grow" if exponent > 0 else "shrink"
        what = f"logits of {row.layer}" if role == SCORES else row.layer
        found.append(f"{what} {verb}{'' if role == SCORES else 's'} like width^{exponent:.2g}: {_ADVICE[role]}")
    return tuple(found + [text for index in sorted(wider - wrong.keys()) if (text := _unscaled(rows[index]))])


def two_errors(row: CoordinateRow, step: int) -> float:
    """Twice the standard error of an exponent; 0 where one draw has none."""
    error = row.errors[step]
    return 2 * error if math.isfinite(error) else 0.0


def _unscaled(row: CoordinateRow) -> str:
    """What to say of scores that do not fall with the size of their heads."""
    start = row.measured[0]
    if not math.isfinite(start) or start - two_errors(row, 0) < _HALF_ROOT:
        return ""
    told = f"logits of {row.layer} start like width^{start:.2g} and will grow like width^{start + 0.5:.2g}"
    return f"{told} once queries and keys align: {_ADVICE[SCORES]}"


def _passes_on(
    parent: int, wrong: dict[int, float], rows: Sequence[CoordinateRow], exponent: float, reads: Sequence[Sequence[int]]
) -> bool:
    """Whether a row before, or one that it moves, is wrong in the same way."""
    if parent in wrong and wrong[parent] * exponent > 0:
        return True
    if rows[parent].role in ("movement", "bookkeeping", "activation", "scaling"):
        return any(_passes_on(before, wrong, rows, exponent, reads) for before in reads[parent])
    return False
