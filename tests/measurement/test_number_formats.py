"""Overflow and underflow of number formats against torch's own cast, value by value around the ends of each range."""

import numpy as np
import pytest
import torch

from initscope.measurement.number_formats import FORMATS, FormatCount

DTYPES = dict(
    zip(
        [form.name for form in FORMATS],
        (torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2),
        strict=True,
    )
)


def around(value, dtype):
    """A dense grid of float32 or float64 numbers around ``value``: every neighbour, then multiples of 1/64 of it."""
    near, kind = [value], np.dtype(str(dtype).removeprefix("torch."))
    for direction in (0, np.inf):
        neighbour = kind.type(value)
        for _ in range(40):
            neighbour = np.nextafter(neighbour, kind.type(direction))
            near.append(neighbour)
    with np.errstate(over="ignore"):
        grid = np.concatenate([np.array(near, dtype=kind), (np.arange(1, 257) / 64).astype(kind) * kind.type(value)])
    return torch.from_numpy(grid[np.isfinite(grid) & (grid > 0)])


def counts(values):
    """Whether each value overflows and underflows, ``[values, formats]``, one count for each value."""
    each = [FormatCount().add_all([value[None]]) for value in values]
    return np.array([count.over for count in each]) == 1, np.array([count.under for count in each]) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", DTYPES)
def test_the_largest_values_overflow_as_the_cast_does(name, dtype):
    """A value overflows where its half is rounded to more than half of the largest value.

    The cast itself gives infinity, NaN (float8 e4m3, torch 2.10) or the largest value (float8 e4m3, torch 2.13).
    """
    index, largest = list(DTYPES).index(name), float(torch.finfo(DTYPES[name]).max)
    values = around(largest, dtype)
    step = torch.finfo(DTYPES[name]).eps * 2.0 ** np.floor(np.log2(largest))
    values = torch.cat([values, around(largest + step / 2, dtype)])
    over, under = counts(values)
    halves = (values / 2).to(DTYPES[name]).double().nan_to_num(nan=torch.inf)
    np.testing.assert_array_equal(over[:, index], (halves > largest / 2).numpy())
    assert not under[:, index].any()
    assert over[:, index].any()
    assert not over[:, index].all()
    if name != "float8 e4m3":
        np.testing.assert_array_equal(over[:, index], values.to(DTYPES[name]).isinf().numpy())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", DTYPES)
def test_the_least_values_underflow_as_the_cast_does(name, dtype):
    index, info = list(DTYPES).index(name), torch.finfo(DTYPES[name])
    least = float(info.smallest_normal) * float(info.eps)
    values = torch.cat([around(least, dtype), around(least / 2, dtype)])
    over, under = counts(values)
    np.testing.assert_array_equal(under[:, index], (values.to(DTYPES[name]).double() == 0).numpy())
    assert not over[:, index].any()
    assert under[:, index].any()
    assert not under[:, index].all()


def test_shares_over_the_whole_range_are_those_of_the_cast():
    """20,000 values from 1e-46 to 1e38, all at once."""
    values = 10 ** (84 * torch.rand(20000, generator=torch.Generator().manual_seed(0)) - 46)
    values = values[values > 0]
    over, under = FormatCount().add_all([values]).shares()
    for index, dtype in enumerate(DTYPES.values()):
        largest = float(torch.finfo(dtype).max)
        halves = (values / 2).to(dtype).double().nan_to_num(nan=torch.inf)
        assert over[index] == float((halves > largest / 2).double().mean())
        assert under[index] == float((values.to(dtype).double() == 0).double().mean())


def test_doubles_beyond_the_range_of_float32_are_counted():
    count = FormatCount().add_all([torch.tensor([1e300, 1e-300, 1.0, 0.0, torch.inf], dtype=torch.float64)])
    assert count.values == 3
    assert (count.over == 1).all()
    assert (count.under == 1).all()
