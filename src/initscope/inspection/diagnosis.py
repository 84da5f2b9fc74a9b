"""The diagnosis of a `Report` in one sentence: how many layers, what happens to the signal, where, and how much."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from initscope.results import counted

if TYPE_CHECKING:
    from initscope.inspection.report import Report
    from initscope.inspection.verdicts import Verdict

__all__ = ["diagnose", "layer_title"]


def diagnose(report: Report) -> str:
    """For example “40 layers, gradients vanish: layer 1 (Linear) gets 5e-24 of what the last gets”."""
    layers = counted(sum(row.role in ("weights", "recurrent") for row in report.rows), "layer")
    faults = [verdict for verdict in report.verdicts if verdict.fault]
    if not faults:
        return f"{layers}, healthy: nothing to change"
    first, *others = sorted(faults, key=lambda verdict: verdict.name in _FOLLOWS)
    also = ", ".join(_few_words(report, verdict) for verdict in others)
    return f"{layers}, {_words(report, first)}{f'; also: {also}' if also else ''}"


def layer_title(report: Report, layer: str) -> str:
    """A layer's name for people; of a module or parameter without a row the name itself."""
    return next((row.title for row in report.observation.rows if row.layer == layer), layer)


_FOLLOWS = ("rank-loss", "dead-units", "precision")
"""Verdicts that usually follow from another one."""

_SHORT = {
    "collapse": "angles close",
    "vanishing": "the signal vanishes",
    "exploding": "the signal explodes",
    "dead-units": "units are dead",
    "saturated": "units are saturated",
    "rank-loss": "rank is lost",
    "not-finite": "values are not finite",
    "zero-gradient": "gradients are zero",
    "odd-layer": "a layer is drawn unlike its peers",
    "token-collapse": "tokens turn alike",
}


def _few_words(report: Report, verdict: Verdict) -> str:
    if verdict.name == "gradient-imbalance":
        return _gradients(report, verdict).partition(":")[0]
    return _SHORT.get(verdict.name, verdict.name.replace("-", " "))


def _words(report: Report, verdict: Verdict) -> str:
    told = _TOLD.get(verdict.name)
    if told is not None:
        return told(report, verdict)
    at = layer_title(report, verdict.layer)
    if verdict.words:
        return f"{_few_words(report, verdict)}: {at}, {verdict.words}"
    much = f", {verdict.value_is} {verdict.value:.3g} (threshold {verdict.threshold:g})" if verdict.threshold else ""
    return f"{_few_words(report, verdict)}: {at}{much}"


def _share(value: float) -> str:
    """A small share as a person says it.

    >>> _share(0.031), _share(5e-24), _share(0.0)
    ('3.1 %', '5e-24', 'nothing')
    """
    return "nothing" if value == 0 else f"{100 * value:.2g} %" if value > 1e-4 else f"{value:.0e}".replace("e-0", "e-")


def _collapse(report: Report, verdict: Verdict) -> str:
    at = layer_title(report, verdict.layer)
    return f"angles close: from {at} on, inputs look alike and {_share(verdict.value)} of their angle is left"


def _size(report: Report, verdict: Verdict) -> str:
    verb = "vanishes" if verdict.name == "vanishing" else "explodes"
    amount = _share(verdict.value) if verdict.value < 1 else f"{verdict.value:.2g} times"
    of = "" if verdict.value >= 1 else "of "
    return f"the signal {verb}: {amount} {of}the input's size, from {layer_title(report, verdict.layer)} on"


def _gradients(report: Report, verdict: Verdict) -> str:
    """By the first layer's gradient over the last one's, where this tells what the verdict tells."""
    ratios = report.gradients_over_last["gradient_over_last"]
    places = np.flatnonzero(np.isfinite(ratios))
    if len(places):
        ratio, at = float(ratios[places[0]]), report.rows[places[0]].title
        if ratio == 0 or ratio < 1 / math.sqrt(verdict.threshold):
            return f"gradients vanish: {at} gets {_share(ratio)} of what the last gets"
        if ratio > math.sqrt(verdict.threshold):
            return f"gradients explode: {at} gets {ratio:.0e} times what the last gets"
    at = layer_title(report, verdict.layer)
    return f"gradients are unbalanced: {verdict.value:.1e}-fold over the depth, worst at {at}"


def _units(report: Report, verdict: Verdict) -> str:
    what = "are dead" if verdict.name == "dead-units" else "are saturated"
    return f"{100 * verdict.value:.0f} % of the units {what} at worst, from {layer_title(report, verdict.layer)} on"


def _rank(report: Report, verdict: Verdict) -> str:
    at = layer_title(report, verdict.layer)
    return f"rank is lost: from {at} on the samples differ in hardly more than one direction ({verdict.value:.2f})"


_TOLD: dict[str, Callable[[Report, Verdict], str]] = {
    "collapse": _collapse,
    "vanishing": _size,
    "exploding": _size,
    "gradient-imbalance": _gradients,
    "dead-units": _units,
    "saturated": _units,
    "rank-loss": _rank,
}
