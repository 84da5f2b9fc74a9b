"""IS7: number formats: what float16 cannot hold."""

from __future__ import annotations

import numpy as np

from initscope.inspection._checks.declaration import Hit, check
from initscope.inspection.evidence import Evidence

_FLOAT16 = ("Micikevicius et al. 2018, section 3.2",)


@check(
    "IS701", "float16-overflow", "warning", threshold=1e-6, unit="share of an op's values above 65504",
    message="Values at {at} exceed 65504, the largest number of float16 ({value:.2g} of them at worst).",
    why="in half precision they become infinite",
    advice="use smaller weights or normalization, or bfloat16, which has the range of float32",
    references=_FLOAT16, follows=("IS101", "IS106", "IS601"), needs_norms=True, reinitialize=True,
)  # fmt: skip
def _float16_overflow(evidence: Evidence, threshold: float) -> Hit | None:
    """Values on the way to the output exceed the largest number of float16."""
    over = evidence.overflow
    overflowing = np.flatnonzero(over > threshold)
    return Hit(int(overflowing[0]), float(np.nanmax(over))) if len(overflowing) else None


@check(
    "IS702", "float16-underflow", "info", threshold=0.5, unit="share of the gradients below the smallest of float16",
    reads=("parameters",),
    message="{percent:.0f} % of the gradients of the weights become zero in float16.",
    why="half-precision training then needs loss scaling",
    advice="scale the loss (torch.amp.GradScaler), or use bfloat16", references=_FLOAT16,
)  # fmt: skip
def _float16_underflow(evidence: Evidence, threshold: float) -> Hit | None:
    """Most gradients of the weights are below the smallest number of float16."""
    gradients = evidence.step.gradients
    under = 0.0 if gradients is None else float(gradients.shares()[1][0])
    return Hit(evidence.start, under, facts={"percent": 100 * under}) if under > threshold else None
