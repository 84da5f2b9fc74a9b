"""Planned widths: the bound holds at the width and fails one below."""

from __future__ import annotations

import math

import pytest

from initscope.errors import InputError
from initscope.theory.injectivity import bounds, gordon, planning


@pytest.mark.parametrize(("n", "delta", "depth"), [(1, 0.05, 1), (3, 0.01, 2), (40, 1e-3, 1), (5, 0.05, 3)])
def test_guaranteed_width_is_the_smallest(n, delta, depth):
    plan = planning.expansivity(n=n, delta=delta, depth=depth)
    assert len(plan.layers) == depth
    for layer in plan.layers:
        at, below = (
            min(bounds.union_failure_bound(width, layer.inputs), gordon.gordon_bound(width, layer.inputs))
            for width in (layer.guaranteed, layer.guaranteed - 1)
        )
        assert at <= delta / depth < below
        assert layer.necessary <= layer.guaranteed
    assert [layer.inputs for layer in plan.layers[1:]] == [layer.guaranteed for layer in plan.layers[:-1]]
    assert (plan.constant_width is None) == (depth < 4)


def test_bad_plans():
    for arguments in ({"n": 0, "delta": 0.1}, {"n": 3, "delta": 0.0}, {"n": 3, "delta": 0.1, "depth": 0}):
        with pytest.raises(InputError):
            planning.expansivity(**arguments)
    with pytest.raises(InputError, match="ninefold"):
        planning.expansivity(n=1000, delta=0.1, depth=5)


@pytest.mark.parametrize(("n", "delta", "smallest"), [(1, 0.9, 2), (2, 0.9, 7)])
def test_guaranteed_width_may_be_below_four_times_the_inputs(n, delta, smallest):
    """By hand: 2^(1-m) ≤ .9 from m = 2 on; m·m/2^(m-1) is 1.125 at m = 6 and .766 at m = 7."""
    assert planning.expansivity(n=n, delta=delta).layers[0].guaranteed == smallest


def test_no_constant_width_below_what_one_layer_needs():
    """2 L log L is 6.59 at depth 3, less than the 6.698 at which one layer is injective at all."""
    assert planning.expansivity(n=5, delta=0.05, depth=3).constant_width is None
    plan = planning.expansivity(n=5, delta=0.05, depth=4)
    assert plan.constant_width == math.ceil(8 * math.log(4) * 5)
    assert plan.constant_width > plan.layers[0].conjectured
