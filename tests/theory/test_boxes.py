"""Box sums against torch's own convolution layers with a kernel of ones: every padding, stride, dilation, dimension."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from initscope.errors import InputError
from initscope.theory._boxes import PADDING_MODES, box_sum, output_size


def layer_of_ones(dims, kernel, stride, dilation, padding, mode):
    layer = getattr(torch.nn, f"Conv{dims}d")(
        1, 1, kernel, stride=stride, dilation=dilation, padding=padding, padding_mode=mode, bias=False
    ).double()
    torch.nn.init.ones_(layer.weight)
    return layer


SHAPES = {1: (13,), 2: (9, 12), 3: (7, 8, 9)}


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("mode", PADDING_MODES)
def test_equals_the_convolution_layer(dims, mode):
    """Every combination of kernel (odd, even, 1), stride, dilation and padding, to rounding."""
    maps = np.random.default_rng(0).random((2, *SHAPES[dims]))
    for kernel, stride, dilation, pad in itertools.product((1, 2, 3, 4, 5), (1, 2, 3), (1, 2), (0, 1, 2)):
        if dilation * (kernel - 1) + 1 > min(SHAPES[dims]) + 2 * pad:
            continue
        layer = layer_of_ones(dims, kernel, stride, dilation, pad, mode)
        with torch.no_grad():
            expected = layer(torch.from_numpy(maps)[:, None])[:, 0].numpy()
        options = {
            "kernel_size": (kernel,) * dims,
            "stride": (stride,) * dims,
            "dilation": (dilation,) * dims,
            "padding": ((pad, pad),) * dims,
            "padding_mode": mode,
        }
        got = box_sum(maps, **options)
        np.testing.assert_allclose(got, expected, rtol=1e-13, err_msg=str(options))
        np.testing.assert_array_equal(box_sum(torch.from_numpy(maps), **options).numpy(), got)
        sizes = tuple(output_size(n, kernel, stride, dilation, (pad, pad), mode) for n in SHAPES[dims])
        assert got.shape[1:] == sizes


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")
@pytest.mark.parametrize("mode", PADDING_MODES)
@pytest.mark.parametrize("kernel", [(2, 4), (3, 6)])
def test_same_padding_of_even_kernels(mode, kernel):
    """``padding="same"`` pads one more behind than before."""
    maps = np.random.default_rng(1).random((1, 9, 12))
    layer = layer_of_ones(2, kernel, 1, 1, "same", mode)
    with torch.no_grad():
        expected = layer(torch.from_numpy(maps)[:, None])[:, 0].numpy()
    pads = tuple(((k - 1) // 2, k - 1 - (k - 1) // 2) for k in kernel)
    got = box_sum(maps, kernel_size=kernel, stride=(1, 1), dilation=(1, 1), padding=pads, padding_mode=mode)
    np.testing.assert_allclose(got, expected, rtol=1e-13)


def test_unequal_axes_and_leading_axes():
    maps = np.random.default_rng(2).random((2, 3, 10, 11))
    layer = layer_of_ones(2, (3, 5), (2, 1), (1, 2), (1, 4), "circular")
    with torch.no_grad():
        expected = layer(torch.from_numpy(maps).reshape(6, 1, 10, 11)).numpy().reshape(2, 3, 5, 11)
    got = box_sum(
        maps, kernel_size=(3, 5), stride=(2, 1), dilation=(1, 2), padding=((1, 1), (4, 4)), padding_mode="circular"
    )
    np.testing.assert_allclose(got, expected, rtol=1e-13)


def test_dark_patches_keep_their_digits_in_float32():
    """Beside a bright half, sums of zeros stay 0 and sums of 1e-12 keep their accuracy (a table loses both)."""
    maps = np.ones((32, 64), dtype=np.float32)
    maps[:, 32:] = 1e-12
    maps[:, 50:] = 0
    same = {"stride": (1, 1), "dilation": (1, 1), "padding": ((0, 0), (0, 0))}
    sums = box_sum(maps, kernel_size=(7, 7), **same)
    assert sums.dtype == np.float32
    assert np.all(sums[:, 50:] == 0)
    np.testing.assert_allclose(sums[:, 32:44], 49e-12, rtol=1e-6)


@pytest.mark.parametrize("mode", PADDING_MODES)
def test_gradients(mode):
    maps = torch.rand(1, 6, 7, dtype=torch.float64, requires_grad=True)
    options = {"kernel_size": (3, 4), "stride": (2, 1), "dilation": (1, 1), "padding": ((1, 2), (2, 1))}
    assert torch.autograd.gradcheck(lambda m: box_sum(m, **options, padding_mode=mode), maps)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, 7), "kernel of 7 taps with dilation 1 spans 7 positions, more than the 5"),
        ((5, 3, 1, 3), "dilation 3 spans 7"),
        ((5, 3, 1, 1, (6, 6), "circular"), "padding = 6 must be at most 5 for circular"),
        ((5, 3, 1, 1, (1, 5), "reflect"), "padding = 5 must be at most 4 for reflect"),
        ((5, 3, 1, 1, (1, 1), "mirror"), "padding_mode = 'mirror' must be one of zeros"),
    ],
)
def test_refuses_what_torch_refuses(arguments, message):
    with pytest.raises(InputError, match=message):
        output_size(*arguments)
