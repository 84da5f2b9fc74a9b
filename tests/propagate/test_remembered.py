"""What propagation remembers of earlier models never answers for another one."""

import pytest
import torch
import torch.nn.functional as F
from scipy.stats import norm
from torch import nn

from initscope.graph.opened_modules import opened_attention
from initscope.propagate.registry import find_rule
from initscope.propagate.rules.gates import known


@pytest.mark.parametrize("thresholds", [(0.06, 0.1), (3.06, 3.1)])
def test_written_out_thresholds_between_the_points_of_the_grid(thresholds):
    """E[g² 1(g > t)] = tφ(t) + Φ(-t). The second threshold had the answer of the first."""
    for threshold in thresholds:
        sigma = known(lambda x, t=threshold: x * (x > t))
        expected = threshold * norm.pdf(threshold) + norm.sf(threshold)
        assert float(sigma.second_moment(1.0)) == pytest.approx(expected, rel=1e-7)


def test_a_function_is_remembered():
    assert known(lambda x: x * (x > 0.07)) is known(lambda x: x * (x > 0.07))
    assert known(lambda x: x + x**2) is known(lambda x: x + x**2)


def test_functions_that_a_program_replaces_are_used(monkeypatch):
    opened_attention()
    replacement = torch.nn.functional.relu
    monkeypatch.setattr(F, "scaled_dot_product_attention", replacement)
    assert opened_attention().__globals__["scaled_dot_product_attention"] is replacement


def test_a_forward_that_a_class_gets_later_has_no_rule():
    """The rule of `nn.Linear` was used for it if the class had been asked for before."""

    class Layer(nn.Linear):
        pass

    assert find_rule(Layer(2, 2)) is find_rule(nn.Linear(2, 2))
    Layer.forward = lambda self, x: F.linear(x, self.weight) ** 2
    assert find_rule(Layer(2, 2)) is None
    del Layer.forward
    assert find_rule(Layer(2, 2)) is find_rule(nn.Linear(2, 2))
