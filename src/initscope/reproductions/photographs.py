"""Photographs in a deep convolutional network at initialization: the experiment of ``initscope demo``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from initscope.data import load, random_pairs
from initscope.errors import check_count
from initscope.geometry import Comparison, Prediction
from initscope.initializers import He, ZeroSum
from initscope.measurement import measure
from initscope.models import load_model
from initscope.models.architectures import build
from initscope.propagate import predict
from initscope.reproductions.protocol import Declared, Number
from initscope.results import Result, counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["REPRODUCTIONS", "Photographs", "photographs"]

_DEEPEST = 96
"""Largest depth, and depth to which the prediction continues to find where angles have halved."""
_WIDEST = 4096
"""Largest number of filters, so that the weights of a layer stay below a gigabyte."""


@dataclass(frozen=True)
class Photographs(Result):
    """Prediction and measurement, their meaning and advice, the settings, and the pairs of crops."""

    comparison: Comparison
    meaning: str
    facts: dict[str, str]
    x: torch.Tensor = field(repr=False, compare=False)
    y: torch.Tensor = field(repr=False, compare=False)

    def table(self) -> list[dict[str, Any]]:
        """Return one row per layer."""
        return self.comparison.table()

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the mean angle after each layer."""
        return self.comparison.plot(ax)


def photographs(
    *,
    depth: int = 12,
    width: int = 96,
    crop: int = 32,
    crops: int = 20,
    pairs: int = 40,
    draws: int = 8,
    seed: int = 0,
    finite_width: bool = False,
    progress: Callable[[Iterator[Any]], Iterable[Any]] | None = None,
) -> Photographs:
    """Run pairs of crops of the bundled photographs through ``depth`` layers of 3×3 convolution and ReLU.

    Weights are re-initialized by He's initializer ``draws`` times; ``progress`` wraps the iterator over draws, as in
    `initscope.measure`. With ``finite_width`` the mean and the spread at this width are predicted too, which takes a
    minute.
    """
    depth = check_count("depth", depth, most=_DEEPEST, hint="the number of layers")
    width = check_count("width", width, most=_WIDEST, hint="the number of filters of each layer")
    crops = check_count("crops", crops, least=2, hint="a pair needs two crops")
    images = load("photos", crop=crop, limit=crops)
    different = len(images) * (len(images) - 1) // 2
    x, y = (torch.from_numpy(side) for side in random_pairs(images, min(pairs, different), seed)[:2])
    text = f"conv3x3x{width}-relu*{depth}"
    model, initializer = load_model(text, input_shape=images.shape, seed=seed), He()
    comparison = Comparison(
        predict(model, x, y, initializer, finite_width=finite_width),
        measure(model, x, y, initializer=initializer, draws=draws, seed=seed, progress=progress),
        title=f"Photographs through {counted(depth, 'layer')} of a ReLU network at initialization",
    )
    facts = {
        "model": f"{text} ({depth} × 3×3 convolution with {width} filters, circular padding, ReLU)",
        "initializer": "He: Gaussian, variance 2/fan-in, no bias",
        "data": f"{len(images)} crops, {crop}×{crop} pixels, of two photographs that ship with scikit-learn",
    }
    return Photographs(comparison, _meaning(comparison, model, x, y), facts, x, y)


def _meaning(comparison: Comparison, model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> str:
    """Return the meaning of the numbers and advice, with predicted numbers."""
    prediction = comparison.prediction
    assert prediction is not None
    halved = _halving(prediction, x, y)
    where = f"; theory predicts that the median angle has halved at {halved}" if halved else ""
    remedy = predict(model, x, y, ZeroSum(compensate=True))
    before, after, plain = (
        float(angles.mean()) for angles in (remedy.angle[0], remedy.angle[-1], prediction.angle[-1])
    )
    assert comparison.measurement is not None
    measured = float(comparison.measurement.angle[-1].mean())
    return f"{_finding(before, plain, measured)}{where}. {_remedy(before, after, plain)}"


def _halving(prediction: Prediction, x: torch.Tensor, y: torch.Tensor) -> str | None:
    """Return the layer at which the predicted median angle has halved, if necessary in a deeper network."""
    halved = Comparison(prediction).halving_depth()
    if halved is None:
        # A prediction depends only on the initializer, so the deeper network may be narrow.
        deep = build(f"conv3x3x8-relu*{_DEEPEST}", tuple(x.shape[1:]))
        halved = Comparison(predict(deep, x, y, He())).halving_depth()
    return halved


def _finding(before: float, theory: float, measured: float) -> str:
    """Return what happens to the mean angle of a pair, if theory and measurement agree."""
    if max(theory, measured) < before:
        return "Before training the network already makes different photographs more similar"
    if theory < before:
        return (
            "A wide network makes different photographs more similar before training; "
            "this network is so narrow and shallow that random fluctuations are larger"
        )
    return "This network does not make these crops more similar"


def _remedy(before: float, after: float, plain: float) -> str:
    """Return advice on filters that sum to zero: whether theory predicts larger angles with them."""
    change = f"the mean angle from {before:.1f}° to {after:.1f}° instead of {plain:.1f}°"
    if after > plain:
        initializer = "initscope.initializers.ZeroSum(compensate=True)"
        return f"Suggested fix: filters that sum to zero, {initializer}; theory predicts that they change {change}."
    return f"Filters that sum to zero would not help here: theory predicts that they change {change}."


def _numbers(shown: Photographs) -> dict[str, Number]:
    """Return angles at both ends; with a prediction at this width also how many layers agree with it."""
    predicted, measured = shown.comparison.prediction, shown.comparison.measurement
    assert predicted is not None
    assert measured is not None
    result = {
        "mean angle at the input": Number(float(predicted.angle[0].mean())),
        "predicted at the end": Number(float(predicted.angle[-1].mean())),
        "measured at the end": Number(float(measured.angle[-1].mean()), float(measured.mean_angle_se[-1])),
    }
    if predicted.angle_shift is not None:
        at_width = (predicted.angle + predicted.angle_shift).mean(axis=1)
        near = [
            abs(measured.angle[1:].mean(axis=1) - line[1:]) < measured.mean_angle_se[1:]
            for line in (predicted.angle.mean(axis=1), at_width)
        ]
        result["predicted at the end, at this width"] = Number(float(at_width[-1]))
        result["rows within a standard error of the limit (%)"] = Number(100 * float(near[0].mean()))
        result["rows within a standard error of the mean at this width (%)"] = Number(100 * float(near[1].mean()))
    return result


REPRODUCTIONS = (
    Declared(
        id="photographs",
        source="Nachum et al. 2022, section 1; the demo",
        statement="Before training a deep convolutional ReLU network makes different photographs more similar.",
        produce=photographs,
        numbers=_numbers,
        holds=lambda shown: shown.comparison.prediction.angle[-1].mean() < shown.comparison.prediction.angle[0].mean(),
        full={"finite_width": True},
        small={"depth": 4, "width": 16, "crop": 16, "crops": 6, "pairs": 8, "draws": 2},
    ),
)
