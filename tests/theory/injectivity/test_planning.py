"""Planned widths: the bound holds at the width and fails one below."""

from __future__ import annotations

import pytest

from initscope.errors import InputError
from initscope.theory.injectivity import bounds, planning


@pytest.mark.parametrize(("n", "delta", "depth"), [(1, 0.05, 1), (3, 0.01, 2), (40, 1e-3, 1), (5, 0.05, 3)])
def test_guaranteed_width_is_the_smallest(n, delta, depth):
    plan = planning.expansivity(n=n, delta=delta, depth=depth)
    assert len(plan.layers) == depth
    for layer in plan.layers:
        assert bounds.union_failure_bound(layer.guaranteed, layer.inputs) <= delta / depth
        assert bounds.union_failure_bound(layer.guaranteed - 1, layer.inputs) > delta / depth
        assert layer.necessary <= layer.guaranteed
    assert [layer.inputs for layer in plan.layers[1:]] == [layer.guaranteed for layer in plan.layers[:-1]]
    assert (plan.constant_width is None) == (depth < 3)


def test_bad_plans():
    for arguments in ({"n": 0, "delta": 0.1}, {"n": 3, "delta": 0.0}, {"n": 3, "delta": 0.1, "depth": 0}):
        with pytest.raises(InputError):
            planning.expansivity(**arguments)
    with pytest.raises(InputError, match="ninefold"):
        planning.expansivity(n=1000, delta=0.1, depth=5)
