"""Small versions of the paper's figures: what they claim, with the predicted spread as the measure."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from initscope.errors import InputError
from initscope.reproductions import bound_tightness, independence, initializations, norm_preservation, width_variation


def test_norm_preservation():
    """He stays at 1 within 4 predicted sd; Glorot falls by 2^(-1/2) a layer from the second on."""
    found = norm_preservation.run(widths=(100, 400), depth=6, samples=100, inputs=80)
    assert len(found.rows) == 2 * 2 * 6
    for row in found.rows:
        assert abs(row.activation - row.activation_predicted) < 4 * row.activation_predicted_sd
        assert abs(row.gradient - row.gradient_predicted) < 4 * row.gradient_predicted_sd
        if row.network == "He":
            assert row.activation_predicted == pytest.approx(1, abs=5 / 8 * row.layer / row.width * 1.5)
    glorot = [row for row in found.rows if row.network == "Glorot" and row.width == 400]
    for before, after in pairwise(glorot):
        assert after.activation_predicted / before.activation_predicted == pytest.approx(math.sqrt(0.5), rel=0.01)
        assert after.activation / before.activation == pytest.approx(math.sqrt(0.5), rel=0.25)
    assert len(found.figure().axes) == 2
    assert found.table()[0]["layer"] == 1


def test_spread_falls_with_width():
    found = norm_preservation.run(widths=(50, 800), depth=3, samples=200, inputs=100)
    last = {row.width: row for row in found.rows if row.network == "He" and row.layer == 3}
    assert last[800].activation_sd < last[50].activation_sd / 2
    assert last[800].gradient_sd < last[50].gradient_sd / 2


def test_bound_tightness():
    """The measured quantile is the exact one (4 σ), the paper's mean far below, the lemma above."""
    samples = 2000
    found = bound_tightness.run(widths=(200, 800), samples=samples, inputs=300)
    for index, width in enumerate(found.widths):
        exact = found.exact[index]
        assert found.lemma[index] > 1.3 * exact
        # Sd of a 95 % quantile of |normal|: √(δ(1-δ)/n) over the density 2φ(1.96) of the standardised distortion.
        error = math.sqrt(0.05 * 0.95 / samples) / (2 * 0.0584) * math.sqrt(5 / width)
        # Inputs share the layer: their cosines of order 300^(-1/2) leave a common deviation beside the sampling error.
        common = math.sqrt(5 / width) / math.sqrt(300)
        assert abs(found.forward_quantile[index] - exact) < 4 * math.hypot(error, common)
        assert found.forward_mean[index] < exact / 3
        assert found.backward_quantile[index] < found.lemma[index]
    assert len(found.table()) == 2
    assert len(found.figure().axes) == 2


def test_width_variation():
    found = width_variation.run(variations=(1, 100), width=200, depth=8, samples=50, inputs=50)
    assert found.predicted_spread[1] > 1.2 * found.predicted_spread[0]
    for row in found.rows:
        assert abs(row.gradient - row.gradient_predicted) < 4 * row.gradient_predicted_sd
    assert found.plot().get_xlabel() == "layer"
    with pytest.raises(InputError, match="below width"):
        width_variation.run(variations=(300,), width=200)


def test_initializations():
    """Means over 150 networks within 4 standard errors of the exact prediction; unequal widths tell the modes apart."""
    draws = 150
    found = initializations.run(widths=(60, 120, 40), inputs=50, draws=draws)
    for row in found.rows:
        error = row.activation_predicted_sd / math.sqrt(draws)
        assert abs(row.activation - row.activation_predicted) < 4 * error
        assert row.activation_sd == pytest.approx(row.activation_predicted_sd, rel=0.35)
        # Independence holds to order 1/width only: allowed beside the standard error.
        allowance = 4 * row.gradient_predicted_sd / math.sqrt(draws) + 5 / 40 * row.gradient_predicted
        assert abs(row.gradient - row.gradient_predicted) < allowance
    last = {row.network: row.activation_predicted for row in found.rows if row.layer == 3}
    assert last["He fan-in"] == pytest.approx(last["He fan-out"] * math.sqrt(40 / 50))
    assert last["LeCun"] == pytest.approx(last["He fan-in"] * 2**-1.5)
    assert found.plot(quantity="gradient").get_yscale() == "log"


def test_independence_is_nearly_true():
    """Failure rates agree within 4 σ although the mean of the squared ratio is off by O(1/width)."""
    found = independence.run(widths=(20, 100), depth=3, draws=500)
    for row in found.rows:
        assert abs(row.failure - row.predicted_failure) < 4 * row.failure_error + 3 / row.width
    narrow, wide = found.rows
    assert abs(wide.mean - 1) < abs(narrow.mean - 1) + 4 * narrow.mean_error
    assert found.plot().get_xscale() == "log"


def test_random_state_is_left_alone():
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    before = torch.rand(1), np.random.rand()  # noqa: NPY002
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    initializations.run(widths=(10, 10), inputs=10, draws=2)
    bound_tightness.run(widths=(50,), samples=20, inputs=10)
    assert (torch.rand(1), np.random.rand()) == before  # noqa: NPY002
