"""Reproductions of attention: recursion and formulas against independent computations, and small runs."""

import math

import numpy as np
import pytest
import torch

from initscope.reproductions import attention_collapse, get
from initscope.reproductions.attention_errors import Cell, Errors, _holds, _Setting


def test_a_block_is_what_its_expectations_say():
    """Without ReLU layers, against the matrix of the tokens itself: weights that are known, values integrated out."""
    tokens, rho = 12, 0.3
    gram = np.full((tokens, tokens), rho) + (1 - rho) * np.eye(tokens)
    weights = np.full((tokens, tokens), 0.5 / (tokens - 1)) + (0.5 - 0.5 / (tokens - 1)) * np.eye(tokens)
    after = gram + attention_collapse.VARIANCE * weights @ gram @ weights.T
    share, common = float((weights[0] ** 2).sum()), float(weights[0] @ weights[1])
    expected = after[0, 1] / after[0, 0]
    assert attention_collapse.block(rho, share, common, layers=False) == pytest.approx(expected, rel=1e-12)
    assert attention_collapse.block(rho, share, common) > expected  # a ReLU layer brings tokens closer


def test_tokens_collapse_below_the_critical_scores_and_not_above():
    """Two networks of width 96 at each β, within 0.1 of the recursion; far apart at the end."""
    found = attention_collapse.run((0.4, 3.0), width=96, tokens=64, depth=40)
    low, high = (found.alone.curve(kind)[-1] for kind in ("β = 0.4", "β = 3"))
    assert low.measured > 0.75
    assert high.measured < 0.5
    assert found.alone.agree(errors=4, bias=0.1)
    assert found.blocks.agree(errors=4, bias=0.1)
    assert len(found.figure().axes) == 2
    assert {row["stack"] for row in found.table()} == {"attention alone", "with ReLU layers"}


def test_settings_of_one_head_are_predicted():
    """Scores of all sizes and correlated gradients: within 6 % of 40 draws on 32 sequences, which scatter by 1.5 %."""
    for setting in (_Setting(0.0, 0.6, 0.0, 100, 64, 60), _Setting(1 / 3, 0.245, 2 / 3, 150, 64, 40)):
        generator = torch.Generator().manual_seed(5)
        x = setting.correlated(setting.cosine, (32, setting.tokens, setting.inputs), generator)
        measured, ours = setting.measured(x, 40, generator), setting.ours(x, generator)
        assert ours == pytest.approx([value for value, _ in measured], rel=0.06)
        assert all(0.002 < error / value < 0.02 for value, error in measured)


def test_their_formula_at_uniform_attention_without_correlations():
    """No scores: a mean over all tokens, forward and backward."""
    output, gradient = _Setting(0.0, 1e-6, 0.0, 50, 10, 20).theirs()
    assert output == pytest.approx(1 / 20)
    assert gradient == pytest.approx(10 / 50 / 20)


def test_errors_are_sorted_into_percentiles_and_the_check_can_fail():
    def cell(error):
        return Cell(0.0, 0.1, 0.0, 10, 8, 4, 1.0, 0.001, 1 + error, 1.5, 1.0, 0.01, 1 - error, 2.0)

    found = Errors(tuple(cell(e) for e in (0.001, 0.002, 0.003)))
    assert found.percentiles("output", "ours")["median"] == pytest.approx(0.2)
    assert found.scatter("output") == pytest.approx(0.1)
    assert found.left("output") == pytest.approx(math.sqrt((0.1**2 + 0.2**2 + 0.3**2) / 3 - 0.1**2))
    assert found.left("gradient") == 0
    assert _holds(found)
    assert not _holds(Errors((cell(0.02),)))
    assert found.plot().get_yscale() == "log"


@pytest.mark.parametrize("name", ["attention-error-table"])
def test_small_scale_is_ahead_of_every_published_error(name):
    shown = get(name).run(scale="small")
    assert shown.status == "not comparable", shown.why
    assert shown.published is not None
    assert all(shown.ours[key].value < value for key, value in shown.published.items())
    assert math.isfinite(shown.seconds)
