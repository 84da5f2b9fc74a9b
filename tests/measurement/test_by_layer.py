"""Widths by layer are those of the layers' outputs, whatever the batches; the model is left as it was."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import initscope
from initscope.errors import InputError
from initscope.measurement import layer_widths


def test_rows_are_the_widths_of_the_outputs(monkeypatch):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 3, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(108, 5))
    points = torch.randn(40, 1, 8, 8)
    for batch_values in (1 << 22, 7 * 64):
        monkeypatch.setattr("initscope.measurement.by_layer._BATCH_VALUES", batch_values)
        result = layer_widths(model, points, draws=16)
        value = points
        for row, layer in zip(result.rows[1:], model):
            value = layer(value)
            expected = initscope.mean_width(value, draws=16)
            assert row.width is not None
            assert row.width.value == pytest.approx(expected.value, rel=1e-5)
            assert row.width.points == 40
        assert result.rows[0].width.value == pytest.approx(initscope.mean_width(points, draws=16).value, rel=1e-5)
    assert [row["kind"] for row in result.table()] == ["input", "Conv2d", "ReLU", "Flatten", "Linear"]
    assert result.plot().get_ylabel().startswith("intrinsic dimension")


def test_points_may_be_indices():
    model = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Flatten())
    tokens = torch.randint(0, 9, (12, 3), generator=torch.Generator().manual_seed(0))
    given, *values = layer_widths(model, tokens).rows
    assert given.reason
    assert all(row.width.dimension == 12 for row in values)


def test_layers_without_a_width_say_why_and_the_model_is_untouched():
    class Dead(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x - 1e9), x.sum()

    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Dropout(), Dead())
    model.train()
    result = layer_widths(model, np.random.default_rng(0).standard_normal((10, 4)))
    assert model.training
    reasons = {row.kind: row.reason for row in result.rows if row.width is None}
    assert "equal" in reasons["relu"]
    assert "one set for each sample" in reasons["sum"]


def test_one_point_is_refused():
    with pytest.raises(InputError, match="at least two"):
        layer_widths(torch.nn.Linear(3, 2), torch.ones(1, 3))
