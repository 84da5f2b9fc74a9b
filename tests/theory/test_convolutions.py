"""The matrix of a convolution against torch's convolution, and its Toeplitz and circulant structure."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from initscope.errors import InputError
from initscope.theory.convolutions import block_toeplitz


@pytest.mark.parametrize("mode", ["zeros", "circular", "reflect", "replicate"])
@pytest.mark.parametrize(("stride", "dilation", "padding"), [(1, 1, 1), (2, 1, 2), (1, 2, 2), (3, 1, 0)])
def test_two_axes_as_in_torch(mode, stride, dilation, padding):
    layer = torch.nn.Conv2d(
        2, 3, 3, stride=stride, dilation=dilation, padding=padding, padding_mode=mode, bias=False, dtype=torch.float64
    )
    torch.nn.init.normal_(layer.weight, generator=torch.Generator().manual_seed(0))
    x = np.random.default_rng(1).standard_normal((2, 6, 7))
    matrix = block_toeplitz(
        layer.weight.detach().numpy(), (6, 7), padding=padding, padding_mode=mode, stride=stride, dilation=dilation
    )
    expected = layer(torch.tensor(x)[None]).detach().numpy().ravel()
    np.testing.assert_allclose(matrix @ x.ravel(), expected, atol=1e-12)


def test_one_and_three_axes():
    rng = np.random.default_rng(2)
    for sizes, kernel, function in (
        ((9,), (2, 2, 4), torch.nn.functional.conv1d),
        ((3, 4, 5), (1, 2, 2, 2, 2), torch.nn.functional.conv3d),
    ):
        weights, x = rng.standard_normal(kernel), rng.standard_normal((kernel[1], *sizes))
        expected = function(torch.tensor(x)[None], torch.tensor(weights)).numpy().ravel()
        np.testing.assert_allclose(block_toeplitz(weights, sizes, padding="valid") @ x.ravel(), expected, atol=1e-12)


def test_blocks_are_toeplitz_and_circulant():
    weights = np.random.default_rng(3).standard_normal((1, 1, 3, 3))
    blocks = block_toeplitz(weights, (5, 6)).reshape(5, 6, 5, 6)
    for shift in ((1, 0), (0, 1), (2, 3)):  # circulant: shifting both pixels changes nothing
        np.testing.assert_array_equal(np.roll(blocks, (*shift, *shift), axis=(0, 1, 2, 3)), blocks)
    open_ends = block_toeplitz(weights, (5, 6), padding="zeros").reshape(5, 6, 5, 6)
    np.testing.assert_array_equal(open_ends[1:, 1:, 1:, 1:], open_ends[:-1, :-1, :-1, :-1])
    # The singular values of a circulant matrix are the sizes of the kernel's Fourier coefficients.
    kernel = np.zeros((5, 6))
    kernel[:3, :3] = weights
    singular = np.linalg.svd(blocks.reshape(30, 30), compute_uv=False)
    np.testing.assert_allclose(singular, np.sort(np.abs(np.fft.fft2(kernel)).ravel())[::-1], atol=1e-12)


def test_refusals():
    with pytest.raises(InputError, match="one axis of taps"):
        block_toeplitz(np.ones((3, 3)), (5, 5))
    with pytest.raises(InputError, match="entries"):
        block_toeplitz(np.ones((8, 8, 3, 3)), (64, 64))
