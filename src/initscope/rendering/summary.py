"""A `Comparison` in sentences and on a terminal: how angles change, where they have halved, and what to try."""

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
from initscope.rendering.table import MOST_LINES, table_lines, terminal_table, wrapped
from initscope.results import counted

__all__ = ["comparison_lines", "headline", "suggestion"]

_PRESERVED = 0.05
"""A mean angle that changes by less than this fraction counts as preserved."""
_ERRORS = 2.0
"""A measured mean angle that changes by less than this number of standard errors counts as unchanged."""
_FEWEST = 4
"""Rows that a table keeps, however much text is around it."""
_SCALE = 10.0
"""RMS ratios beyond this factor are mentioned."""


def headline(comparison: Comparison) -> str:
    """Return one or two sentences: the mean angle at the input and at the end, and the layer where it has halved."""
    sides = {"measured": comparison.measurement, "predicted": comparison.prediction}
    known = {name: side for name, side in sides.items() if side is not None}
    name, main = next(iter(known.items()))
    if not _is_covered(main):
        return "No layer of this model is covered. The notes in the table give the reasons."
    first, *_, last = covered_rows(main.cosine)
    angles = mean_over_pairs(main.angle)
    verb = {-1: "shrink", 0: "keep", 1: "grow"}[_trend(main)]
    after = counted(last - first, "op")
    movement = f"from {angles[first]:.1f}° to {angles[last]:.1f}°"
    if _is_noise(main):
        within = f"within {_ERRORS:g} standard errors ({_angle_error(main):.1f}° each)"
        text = f"Angles between pairs are preserved {within}, {movement} on average over {after} ({name}"
    elif verb == "keep":
        text = f"Angles between pairs are preserved, {movement} on average over {after} ({name}"
    else:
        text = f"Angles between pairs {verb} {movement} on average over {after} ({name}"
    if comparison.prediction is not None and comparison.measurement is not None:
        expected = mean_over_pairs(comparison.prediction.angle)[last]
        text += f"; {expected:.1f}° predicted)." if np.isfinite(expected) else "; no prediction for the last layer)."
    else:
        text += ")."
    if verb == "shrink":
        halved = comparison.halving_depth()
        at = next((row.title for row in comparison.rows if row.layer == halved), "")
        text += f" Their median has halved at {at}." if at else " Their median does not halve within this depth."
    return text


def suggestion(comparison: Comparison, initializer: str = "") -> str:
    """Return advice in one or two sentences, based on what theory predicts for the alternative.

    ``initializer`` is the name of the initializer of the weights, if it is known.
    """
    main = comparison.measurement if comparison.measurement is not None else comparison.prediction
    assert main is not None
    if not _is_covered(main):
        return "Try a part of the model that consists of Linear, convolution and activation layers."
    trend, zero_sum = _trend(main), initializer == "zero-sum"
    rectified = main.tokens is None and any(row.traits.is_relu for row in main.rows)
    judged = "Run initscope inspect to see whether this is an error and how to fix it"
    if trend < 0 and rectified and not zero_sum:
        text = (
            "Try --initializer zero-sum: different inputs become similar with depth, and filters that sum to zero keep "
            "them distinct. They remove the common mean that makes ReLU outputs similar."
        )
    elif trend < 0:
        text = f"{judged}: different inputs become similar with depth."
    elif trend > 0 and zero_sum:
        text = (
            "Remove less of the mean if angles grow too much: "
            "initscope.initializers.ZeroSum(strength=0.5) leads to a smaller angle than strength 1."
        )
    elif trend > 0:
        text = f"{judged}: angles grow, also between similar inputs."
    elif _is_noise(main):
        text = "Use more draws (--draws): there are too few to see whether angles change."
    else:
        text = "No change is needed: the network preserves angles."
    scale = float(median_over_pairs(main.rms_ratio)[covered_rows(main.cosine)[-1]])
    if scale > _SCALE:
        text += f" The RMS grows by a factor of {scale:.3g}: choose a smaller gain, or He's variance 2/fan-in."
    elif scale < 1 / _SCALE:
        factor = 1 / max(scale, 1e-300)
        text += f" The RMS shrinks by a factor of {factor:.3g}: choose a larger gain, or He's variance 2/fan-in."
    return text


def comparison_lines(
    comparison: Comparison,
    step: str,
    width: int | None = None,
    *,
    meaning: str = "",
    depth: int | None = None,
    how_to_see_all: str = "--depth 0 prints them all",
) -> list[str]:
    """Return the comparison as lines of at most ``width`` characters: conclusion, table, next step.

    Parameters
    ----------
    comparison : Comparison
        What is shown.
    step : str
        The next step.
    width : int, optional
        Columns of the terminal. None: each sentence is one line.
    meaning : str
        What the numbers mean, below the table.
    depth : int, optional
        Fold the table to paths of that many modules. None: to at most `MOST_LINES` lines in all.
    how_to_see_all : str
        How the user gets the rows that are folded.

    Returns
    -------
    list of str
        Lines to print.
    """
    top = [*wrapped(headline(comparison), width), *(wrapped(comparison.title, width) if comparison.title else []), ""]
    end = ["", *(wrapped(meaning, width) if meaning else []), *wrapped(f"Next: {step[:1].lower()}{step[1:]}", width)]
    if depth is not None:
        table = terminal_table(comparison, width=width, depth=depth, how_to_see_all=how_to_see_all)
        return [*top, *table_lines(table, width), *end]
    lines: list[str] = []
    without = f"{counted(len(comparison.rows), 'op')}, without notes; {how_to_see_all}"
    for captions in (True, False):
        below = [] if captions else wrapped(without, width)
        most = max(_FEWEST, min(len(comparison.rows), MOST_LINES))
        while most >= _FEWEST:
            table = terminal_table(comparison, width=width, most=most, how_to_see_all=how_to_see_all)
            lines = [*top, *table_lines(table, width, captions=captions), *below, *end]
            if len(lines) <= MOST_LINES:
                return lines
            most -= max(1, min(most - _FEWEST, len(lines) - MOST_LINES))
    return lines


def _is_covered(side: Prediction | Measurement) -> bool:
    """Return whether any row after the input, or after the embedding of indices, has values."""
    return len(covered_rows(side.cosine)) > 1


def _trend(side: Prediction | Measurement) -> int:
    """Return -1 if the mean angle shrinks, 1 if it grows, 0 if the change is within `_PRESERVED` or `_ERRORS`."""
    first, *_, last = mean_over_pairs(side.angle)[covered_rows(side.cosine)]
    tolerance = max(_PRESERVED * first, _ERRORS * _angle_error(side))
    return 0 if abs(last - first) <= tolerance else int(np.sign(last - first))


def _is_noise(side: Prediction | Measurement) -> bool:
    """Return whether the mean angle changes by more than `_PRESERVED`, but not by more than `_ERRORS`."""
    first, *_, last = mean_over_pairs(side.angle)[covered_rows(side.cosine)]
    return bool(_PRESERVED * first < abs(last - first) <= _ERRORS * _angle_error(side))


def _angle_error(side: Prediction | Measurement) -> float:
    """Return the standard error of the last mean angle, in degrees; 0 for predictions and for a single draw."""
    error = float(side.mean_angle_se[covered_rows(side.cosine)[-1]]) if isinstance(side, Measurement) else 0.0
    return error if np.isfinite(error) else 0.0
