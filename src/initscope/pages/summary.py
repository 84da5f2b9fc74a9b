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

__all__ = ["headline", "suggestion"]

_KEPT = 0.05
"""Mean angles that change by less than this share of themselves count as kept."""
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
    after = f"{last - first} {'step' if last - first == 1 else 'steps'}"
    movement = f"from {angles[first]:.1f}° to {angles[last]:.1f}°"
    if verb == "keep":
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


def suggestion(comparison: Comparison) -> str:
    """What to try, in a sentence or two; each rests on what the theory says of the alternative."""
    main = comparison.measurement if comparison.measurement is not None else comparison.prediction
    assert main is not None
    if not _is_covered(main):
        return "Look at a part of the model that consists of Linear, convolution and activation layers."
    trend = _trend(main)
    if trend < 0 and main.tokens is not None:
        text = "Different inputs grow alike with depth. initscope inspect says if it is a fault, and what to change."
    elif trend < 0:
        text = (
            "Different inputs grow alike with depth. To keep them apart try filters that sum to zero "
            "(--initializer zero-sum): they take away the common mean that makes ReLU outputs alike."
        )
    elif trend > 0:
        text = (
            "Inputs are driven apart, near ones too. If that is too much, remove less of the mean: "
            "initscope.initializers.ZeroSum(strength=0.5) settles at a smaller angle than strength 1."
        )
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
    """-1 if the mean angle closes, 1 if it opens, 0 if it stays within `_KEPT`."""
    start, *_, end = mean_over_pairs(side.angle)[covered_rows(side.cosine)]
    return 0 if abs(end - start) <= _KEPT * start else int(np.sign(end - start))
