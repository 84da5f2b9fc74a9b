"""Test suite for a rule: its predictions must agree with wide networks that contain the layer."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from initscope.geometry import Measurement, Prediction
from initscope.initializers import He
from initscope.measurement import measure
from initscope.propagate import predict

__all__ = ["RuleContract"]


class RuleContract:
    """Inherit this class and override `layer`, and `input_shape` if the layer needs another shape.

    The network applies random weights, the layer, ReLU and random weights, with ``width`` units or channels.
    Predictions hold in the limit of large width: the tolerance is four standard errors of the measured mean over
    ``draws`` networks plus ``allowance/width``.
    """

    input_shape: ClassVar[tuple[int, ...]] = (3, 8, 8)
    width: ClassVar[int] = 128
    draws: ClassVar[int] = 16
    pairs: ClassVar[int] = 6
    allowance: ClassVar[float] = 4.0
    status: ClassVar[str] = "closed form"
    seed: ClassVar[int] = 0

    def layer(self) -> nn.Module:
        """Return a new module that the rule covers; its input has ``width`` channels or units."""
        raise AssertionError(f"{type(self).__name__} must override layer()")

    def network(self) -> nn.Module:
        """Return the network with the layer between weights."""
        weights: Any = nn.Linear if len(self.input_shape) == 1 else _convolution(len(self.input_shape) - 1)
        before, after = weights(self.input_shape[0], self.width), weights(self.width, self.width)
        return nn.Sequential(before, self.layer(), nn.ReLU(), after)

    def test_prediction_agrees_with_wide_networks(self) -> None:
        """Compare the cosine and the norm ratio of every row."""
        predicted, measured = self._both()
        for row, (name, error) in enumerate(zip([r.layer for r in measured.rows], measured.mean_cosine_se)):
            gap = abs(predicted.cosine[row].mean() - measured.cosine[row].mean())
            assert gap < 4 * np.nan_to_num(error) + self.allowance / self.width, (name, gap, error)
            ratio = predicted.norm_ratio[row].mean() / measured.norm_ratio[row].mean()
            assert abs(ratio - 1) < 0.1 + self.allowance / self.width, (name, ratio)

    def test_status_is_as_good_as_promised(self) -> None:
        """Check that the rows of the layer and of the next op have the expected status and are not sampled."""
        predicted, _ = self._both(draws=1)
        assert {row.status for row in predicted.rows[1:4]} == {self.status}, [
            (row.layer, row.status, row.note) for row in predicted.rows
        ]

    def _both(self, draws: int | None = None) -> tuple[Prediction, Measurement]:
        generator = torch.Generator().manual_seed(self.seed)
        x, noise = torch.randn(2, self.pairs, *self.input_shape, generator=generator)
        y = 0.6 * x + 0.8 * noise
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            model = self.network()
        measured = measure(model, x, y, initializer=He(), draws=draws or self.draws, seed=self.seed)
        return predict(model, x, y, He(), seed=self.seed), measured


def _convolution(dimensions: int) -> Any:
    kind: Any = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}[dimensions]
    return lambda inputs, outputs: kind(inputs, outputs, 3, padding=1, padding_mode="circular", bias=False)
