"""Results of a coordinate check: exponents of every row, and findings as messages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from initscope._utils.palette import line_color
from initscope.results import Result, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DEPTH", "SCORES", "CoordinateCheck", "CoordinateRow", "DepthCheck", "two_errors", "width_findings"]

Floats = npt.NDArray[np.float64]
SCORES = "scores"
"""Kind of the rows that hold attention scores (inputs of the softmax)."""
DEPTH = "depth"
"""Role of the rows of a depth check."""
_DRAWN = ("embedding", "weights", SCORES, DEPTH)
_HALF_ROOT = -0.25  # between 1/d (exponent -0.5 at initialization) and 1/√d (0)
_ADVICE = {
    SCORES: "use 1/d attention: divide scores by the head size, not by its square root",
    "embedding": "scale the embedding so that its RMS does not depend on the width",
    "output": "divide the output by the width: an output multiplier, or weights with standard deviation 1/width",
    "weights": "scale its weights by 1/√fan-in, and their learning rate by 1/fan-in under Adam",
}


@dataclass(frozen=True)
class CoordinateRow(Result):
    """Exponents of the root mean square of one row against the width.

    ``predicted`` is the exponent at initialization by theory, NaN without a prediction; ``predicted_se`` is its
    standard error over the draws. ``measured [steps + 1]`` are the exponents after 0, 1, … steps, and ``errors`` their
    standard errors over draws of the weights, NaN with one draw.
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
    """Exponents of rows against the width or depth of the model, and findings as messages.

    ``at`` are the widths or depths; ``sizes [at, steps + 1, rows]`` are root mean squares. ``passes`` is true if no
    exponent exceeds ``tolerance`` in absolute value after the last step.
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
        """Whether there are no findings."""
        return not self.findings

    def table(self) -> list[dict[str, Any]]:
        """Return one dict per row: exponents at initialization, predicted and measured, and after the last step."""
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
        """Return widths or depths, findings and rows."""
        return {
            f"{self.against}s": list(self.at), "steps": self.steps, "passes": self.passes,
            "findings": list(self.findings), "rows": [row.to_dict() for row in self.rows],
        }  # fmt: skip

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot root mean squares against the width or depth, at initialization (dashed) and after the last step."""
        ax = make_axes(ax)
        chosen = [index for index, row in enumerate(self.rows) if row.role in _DRAWN]
        for number, index in enumerate(chosen):
            color = line_color(number)
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
        """Sizes of the models."""
        return self.at


@dataclass(frozen=True)
class DepthCheck(_Check):
    """Exponents against the number of blocks (see `initscope.scaling.depth_coordinates`)."""

    against = "depth"

    @property
    def depths(self) -> tuple[int, ...]:
        """Sizes of the models."""
        return self.at


def width_findings(
    rows: Sequence[CoordinateRow],
    reads: Sequence[Sequence[int]],
    tolerance: float,
    wider: frozenset[int] = frozenset(),
) -> tuple[str, ...]:
    """Return messages about rows whose RMS depends on the width; only the first row of each cause is named.

    After the last step no RMS may depend on the width. At initialization it may shrink, but not grow. Scores and the
    output may always shrink: both are small at initialization in μP, and a few steps do not compensate for it. If heads
    grow with the width (rows ``wider``), their scores must shrink like 1/√width at initialization [Yang2021]_:
    training later aligns queries and keys, and then scores grow by √width.
    """
    wrong: dict[int, float] = {}
    weights = [index for index, row in enumerate(rows) if row.role == "weights"]
    for index, row in enumerate(rows):
        initial, final = row.measured[0], row.measured[-1]
        grown = math.isfinite(final) and abs(final) > tolerance + two_errors(row, -1)
        if grown and not (len(row.measured) == 1 and final < 0):
            wrong[index] = final
        elif math.isfinite(initial) and initial > tolerance + two_errors(row, 0):
            wrong[index] = initial
    messages = []
    for index, exponent in wrong.items():
        row = rows[index]
        role = "output" if weights and index == weights[-1] and row.role == "weights" else row.role
        if role in (SCORES, "output") and exponent < 0:
            continue
        if role not in _ADVICE or any(_passes_on(parent, wrong, rows, exponent, reads) for parent in reads[index]):
            continue
        verb = "grow" if exponent > 0 else "shrink"
        what = f"logits of {row.layer}" if role == SCORES else row.layer
        messages.append(f"{what} {verb}{'' if role == SCORES else 's'} like width^{exponent:.2g}: {_ADVICE[role]}")
    return tuple(messages + [text for index in sorted(wider - wrong.keys()) if (text := _unscaled(rows[index]))])


def two_errors(row: CoordinateRow, step: int) -> float:
    """Return twice the standard error of an exponent; 0 with a single draw."""
    error = row.errors[step]
    return 2 * error if math.isfinite(error) else 0.0


def _unscaled(row: CoordinateRow) -> str:
    """Return the message about scores that do not shrink with the size of their heads; empty if they do."""
    exponent = row.measured[0]
    if not math.isfinite(exponent) or exponent - two_errors(row, 0) < _HALF_ROOT:
        return ""
    prediction = (
        f"logits of {row.layer} scale like width^{exponent:.2g} at initialization "
        f"and will grow like width^{exponent + 0.5:.2g}"
    )
    return f"{prediction} once queries and keys align: {_ADVICE[SCORES]}"


def _passes_on(
    parent: int, wrong: dict[int, float], rows: Sequence[CoordinateRow], exponent: float, reads: Sequence[Sequence[int]]
) -> bool:
    """Return whether an input of a row has the same problem, directly or before ops that pass it on."""
    if parent in wrong and wrong[parent] * exponent > 0:
        return True
    if rows[parent].role in ("movement", "bookkeeping", "activation", "scaling"):
        return any(_passes_on(before, wrong, rows, exponent, reads) for before in reads[parent])
    return False
