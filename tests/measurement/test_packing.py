"""Greedy packings are packings and coverings, and never exceed Sudakov's bound."""

from __future__ import annotations

import numpy as np
import pytest

from initscope.errors import InputError
from initscope.measurement import packing_numbers


def test_line_and_limit():
    line = np.linspace(0, 1, 101)[:, None]
    result = packing_numbers(line, [0.5, 0.26, 0.011], limit=20)
    assert result.numbers[:2] == (3, 3)
    assert result.complete == (True, True, False)
    assert result.numbers[2] == 20
    assert len(result.table()) == 3


@pytest.mark.parametrize("dimension", [1, 3, 20])
def test_numbers_stay_below_sudakov_and_fall_with_eps(dimension):
    cloud = np.random.default_rng(dimension).standard_normal((500, dimension))
    eps = (0.5, 1.0, 2.0, 4.0)
    result = packing_numbers(cloud, eps, limit=500)
    assert all(log <= bound for log, bound in zip(result.log_numbers, result.log_bounds))
    assert list(result.numbers) == sorted(result.numbers, reverse=True)


def test_bad_input_is_refused():
    with pytest.raises(InputError):
        packing_numbers(np.ones((1, 3)), [1.0])
    with pytest.raises(InputError):
        packing_numbers(np.eye(3), [0.0])
