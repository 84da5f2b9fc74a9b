"""What a `Comparison` says in a sentence: what happened to the angles, at which layer they have halved, what to try."""

from __future__ import annotations

import numpy as np

from initscope.geometry import (
    Comparison,
    Measurement,
    Prediction,
    covered_rows,
    mean_over_pairs,
    median_over_pairs,
)
from initscope.results import counted

__all__ = ["headline", "suggestion"]

_KEPT = 0.05
"""Mean angles that change by less than this share of themselves count as kept."""
_ERRORS = 2.0
"""Measured mean angles that change by less than so many standard errors are not said to change."""
_SIZE = 10.0
"""Sizes per unit that change by more than this factor are worth a word."""


def headline(comparison: Comparison) -> str:
    """One or two sentences: the mean angle at the input and at the end, and the layer where it has halved."""
    sides = {"measured": comparison.measurement, "predicted": comparison.prediction}
    told = {name: side for name, side in sides.items() if side is not None}
    name, main = next(iter(told.items()))
    if not _is_covered(main):
        return "No layer of this model is covered: the notes in the table say why."
    first, *_, last = covered_rows(main.cosine)
    angles = mean_over_pairs(main.angle)
    verb = {-1: "close", 0: "keep", 1: "open"}[_trend(main)]
    after = counted(last - first, "op")
    movement = f"from {angles[first]:.1f}° to {angles[last]:.1f}°"
    if _is_noise(main):
        within = f"within {_ERRORS:g} standard errors ({_angle_error(main):.1f}° each)"
        text = f"Angles between pairs stay as they are {within}, {movement} on average over {after} ({name}"
    elif verb == "keep":
        text = f"Angles between pairs stay as they are, {movement} on average over {after} ({name}"
    else:
        text = f"Angles between pairs {verb} {movement} on average over {after} ({name}"
    if comparison.prediction is not None and comparison.measurement is not None:
        expected = mean_over_pairs(comparison.prediction.angle)[last]
        text += f"; {expected:.1f}° predicted)." if np.isfinite(expected) else "; the last is not predicted)."
    else:
        text += ")."
    if verb == "close":
        halved = comparison.halving_depth()
        at = next((row.title for row in comparison.rows if row.layer == halved), "")
        text += f" Their median has halved at {at}." if at else " Their median does not halve in this depth."
    return text


def suggestion(comparison: Comparison, law: str = "") -> str:
    """What to try, in a sentence or two; each rests on what the theory says of the alternative.

    ``law`` is the name of the weights' law, where it is known.
    """
    main = comparison.measurement if comparison.measurement is not None else comparison.prediction
    assert main is not None
    if not _is_covered(main):
        return "Look at a part of the model that consists of Linear, convolution and activation layers."
    trend, zero_sum = _trend(main), law == "zero-sum"
    rectified = main.tokens is None and any(row.traits.is_relu for row in main.rows)
    judged = "initscope inspect says whether this is an error, and how to fix it."
    if trend < 0 and rectified and not zero_sum:
        text = (
            "Different inputs grow alike with depth. To keep them apart try filters that sum to zero "
            "(--initializer zero-sum): they take away the common mean that makes ReLU outputs alike."
        )
    elif trend < 0:
        text = f"Different inputs grow alike with depth. {judged}"
    elif trend > 0 and zero_sum:
        text = (
            "Inputs are driven apart, near ones too. If that is too much, remove less of the mean: "
            "initscope.initializers.ZeroSum(strength=0.5) settles at a smaller angle than strength 1."
        )
    elif trend > 0:
        text = f"Inputs are driven apart, near ones too. {judged}"
    elif _is_noise(main):
        text = "These draws do not tell whether angles change: more of them would (--draws)."
    else:
        text = "The geometry survives: nothing needs to change."
    size = float(median_over_pairs(main.rms_ratio)[covered_rows(main.cosine)[-1]])
    if size > _SIZE:
        text += f" Units grow {size:.3g}-fold: choose a smaller gain, or He's variance 2/fan-in."
    elif size < 1 / _SIZE:
        text += f" Units shrink {1 / max(size, 1e-300):.3g}-fold: choose a larger gain (He's variance is 2/fan-in)."
    return text


def _is_covered(side: Prediction | Measurement) -> bool:
    """Whether anything is known behind the input, or behind the first step that makes values of indices."""
    return len(covered_rows(side.cosine)) > 1


def _trend(side: Prediction | Measurement) -> int:
    """-1 if the mean angle closes, 1 if it opens, 0 if it stays within `_KEPT` or `_ERRORS`."""
    start, *_, end = mean_over_pairs(side.angle)[covered_rows(side.cosine)]
    kept = max(_KEPT * start, _ERRORS * _angle_error(side))
    return 0 if abs(end - start) <= kept else int(np.sign(end - start))


def _is_noise(side: Prediction | Measurement) -> bool:
    """Whether the mean angle changes by more than `_KEPT`, but not by more than `_ERRORS`."""
    start, *_, end = mean_over_pairs(side.angle)[covered_rows(side.cosine)]
    return bool(_KEPT * start < abs(end - start) <= _ERRORS * _angle_error(side))


def _angle_error(side: Prediction | Measurement) -> float:
    """Standard error of the mean angle at the end, in degrees; 0 where it is predicted, or one draw cannot tell."""
    error = float(side.mean_angle_se[covered_rows(side.cosine)[-1]]) if isinstance(side, Measurement) else 0.0
    return error if np.isfinite(error) else 0.0
