"""The compiled loops against the array path, against direct sums and against high precision."""

from __future__ import annotations

import itertools
import sys

import mpmath
import numpy as np
import pytest
import torch

from initscope.theory import _fast
from initscope.theory._boxes import PADDING_MODES, box_sum

numba = pytest.importorskip("numba")

from initscope.theory import _fused  # noqa: E402

TOLERANCE = {np.float32: 1e-6, np.float64: 1e-14}


def exact_psi(square):
    """ψ(θ) at sin²(θ/2) = ``square``, from its definition with 50 digits."""
    with mpmath.workdps(50):
        theta = 2 * mpmath.asin(mpmath.sqrt(mpmath.mpf(square)))
        return (mpmath.sin(theta) - theta * mpmath.cos(theta)) / mpmath.pi


@pytest.mark.parametrize("mode", PADDING_MODES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_box_sums_equal_the_array_path(mode, dtype):
    """Every kernel (odd, even, 1, unequal), stride, dilation and padding; to rounding of sums of positive terms."""
    maps = np.random.default_rng(0).random((2, 3, 17, 14)).astype(dtype)
    kernels = [(1, 1), (2, 3), (3, 2), (3, 3), (5, 5), (1, 7), (7, 1)]
    for kernel, stride, dilation, padding in itertools.product(
        kernels,
        [(1, 1), (2, 3)],
        [(1, 1), (2, 2)],
        [((0, 0), (0, 0)), ((1, 1), (1, 1)), ((1, 2), (3, 0)), ((4, 4), (2, 2))],
    ):
        spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
        if any(span > n + sum(p) for span, n, p in zip(spans, (17, 14), padding)):
            continue
        layer = {"kernel_size": kernel, "stride": stride, "dilation": dilation, "padding": padding}
        got = _fused.box_sums(maps, **layer, padding_mode=mode)
        expected = box_sum(maps, **layer, padding_mode=mode)
        assert got.dtype == dtype
        np.testing.assert_allclose(got, expected, rtol=TOLERANCE[dtype], err_msg=str(layer))


def test_box_sums_of_many_rows_in_one_line():
    """More rows than one line holds, and a row longer than a line."""
    for shape in [(70, 90), (200, 300), (5, 3000), (3, 35)]:
        maps = np.random.default_rng(1).random((2, *shape))
        layer = {"kernel_size": (3, 11), "stride": (1, 1), "dilation": (1, 3), "padding": ((1, 1), (15, 15))}
        got = _fused.box_sums(maps, **layer, padding_mode="circular")
        np.testing.assert_allclose(got, box_sum(maps, **layer, padding_mode="circular"), rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("taps", [12, 13, 31])
@pytest.mark.parametrize("stride", [1, 2, 5, 40])
def test_tall_windows(dtype, taps, stride):
    """Rows summed in blocks of as many as a filter has: every stride against the block, blocks that a strip cuts."""
    maps = np.random.default_rng(2).random((2, 150, 130)).astype(dtype)
    layer = {"kernel_size": (taps, 3), "stride": (stride, 1), "dilation": (1, 1), "padding": ((3, 9), (1, 1))}
    got, expected = (each(maps, **layer, padding_mode="reflect") for each in (_fused.box_sums, box_sum))
    np.testing.assert_allclose(got, expected, rtol=TOLERANCE[dtype])


@pytest.mark.parametrize("taps", [7, 13])
def test_dark_patches_keep_exact_zeros(taps):
    maps = np.ones((1, 80, 64), dtype=np.float32)
    maps[:, :, 32:] = 0
    layer = {"kernel_size": (taps, taps), "stride": (1, 1), "dilation": (1, 1), "padding": ((0, 0), (0, 0))}
    assert np.all(_fused.box_sums(maps, **layer)[:, :, 32:] == 0)
    assert np.all(_fused.box_sums(maps.mT, **layer)[:, 32:] == 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pair_maps(dtype):
    x, y = np.random.default_rng(2).standard_normal((2, 4, 3, 6, 5)).astype(dtype)
    maps = _fused.pair_maps(x, y)
    expected = np.stack([(x**2).sum(1), (y**2).sum(1), ((x - y) ** 2).sum(1)])
    np.testing.assert_allclose(maps, expected, rtol=10 * TOLERANCE[dtype])
    strided = _fused.pair_maps(x[::2, :, ::-1], y[::2, :, ::-1])
    np.testing.assert_array_equal(strided, maps[:, ::2, ::-1])


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float32, 2e-6), (np.float64, 2e-14)])
def test_relu_step_in_high_precision(dtype, rtol):
    """ψ = (d/2 - d_out)/√(kxx kyy) at angles from 1e-5 to π; detects a relative error of 2e-14 (2e-6 in float32)."""
    squares = np.concatenate([np.geomspace(1e-4, 0.49, 40), np.linspace(0.45, 0.55, 21), np.linspace(0.6, 1, 15)])
    gap = (4 * squares).astype(dtype)  # kxx = kyy = 1: d = 4 sin²(θ/2)
    kxx, kyy, out = np.ones_like(gap), np.ones_like(gap), gap.copy()
    _fused.relu_step(kxx, kyy, out)
    expected = [float(mpmath.mpf(float(d)) / 2 - exact_psi(float(d) / 4)) for d in gap]
    np.testing.assert_allclose(out, expected, rtol=rtol / 10)
    assert np.all(kxx == 0.5)
    assert np.all(kyy == 0.5)


def test_psi_series_to_rounding():
    """The polynomial itself, relative to ψ, where ψ is far below d (bite: one coefficient off by 1e-13 fails)."""

    def worst(series):
        squares = np.linspace(1e-6, 0.5, 200)
        got = squares * np.sqrt(squares) * np.polynomial.polynomial.polyval(squares, series)
        return max(abs(float(value / exact_psi(t)) - 1) for value, t in zip(got, squares))

    assert worst(_fused._PSI_SERIES) < 3e-15
    assert worst((_fused._PSI_SERIES[0] * (1 + 1e-13), *_fused._PSI_SERIES[1:])) > 3e-15


def test_relu_step_with_unequal_norms_and_zeros():
    """kxx ≠ kyy from the angle; a zero variance gives d/2 and no NaN; d below its least value by rounding is θ = 0."""
    norms, angles = np.asarray([0.3, 2.0]), np.linspace(0.1, 3.0, 7)
    a, b, theta = np.broadcast_arrays(norms[:, None, None], norms[None, :, None], angles)
    kxx, kyy, gap = np.ascontiguousarray(a**2), np.ascontiguousarray(b**2), a**2 + b**2 - 2 * a * b * np.cos(theta)
    out = gap.copy()
    _fused.relu_step(kxx, kyy, out)
    psi = (np.sin(theta) - theta * np.cos(theta)) / np.pi
    np.testing.assert_allclose(out, gap / 2 - a * b * psi, rtol=1e-13)
    maps = [np.asarray(values) for values in ([0.0, 0.0, 4.0, 1.0], [0.0, 9.0, 0.0, 1.0], [0.0, 9.0, 4.0, -1e-17])]
    _fused.relu_step(*maps)
    np.testing.assert_array_equal(maps[2], [0, 4.5, 2, -5e-18])
    with pytest.raises(ValueError, match="C-contiguous"):
        _fused.relu_step(*np.ones((3, 4, 4))[:, :, ::2])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(3, 2, 9, 7), (70, 1, 32, 32), (1000, 3, 1, 1)])
@pytest.mark.parametrize("threads", [1, 2])
def test_steps_with_totals_equal_steps(dtype, shape, threads, monkeypatch):
    """Bit for bit the maps of `relu_step` and `box_sums` and the totals of these, in one pass, in any threads."""
    monkeypatch.setattr(_fused, "threads", lambda: threads)
    maps = np.random.default_rng(5).random((3, *shape)).astype(dtype)
    maps[2] *= 0.3
    after, sums = _fused.rectified(*maps, axes=2)
    expected = maps.copy()
    _fused.relu_step(*expected)
    np.testing.assert_array_equal(after, expected)
    np.testing.assert_array_equal(sums, _fused.totals(expected.reshape(3, *shape[:2], -1)))
    layer = {"kernel_size": (3, 5), "stride": (1, 2), "dilation": (1, 1), "padding": ((1, 1), (2, 2))}
    after, sums = _fused.weighted(*maps, gain=0.7, bias=0.0, **layer)
    expected = dtype(0.7) * np.stack([_fused.box_sums(each, **layer) for each in maps])
    np.testing.assert_array_equal(after, expected)
    np.testing.assert_array_equal(sums, _fused.totals(expected.reshape(3, *shape[:2], -1)))
    biased, _ = _fused.weighted(*maps, gain=0.7, bias=0.2, **layer)
    np.testing.assert_allclose(biased[:2], expected[:2] + dtype(0.2), rtol=TOLERANCE[dtype])
    np.testing.assert_array_equal(biased[2], expected[2])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("pairs", [1, 2, 300])
def test_layer_sums_equal_their_parts(dtype, pairs):
    """More pairs than one lot (65,536 pixels) holds, in two threads, against maps of all pairs at once."""
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((2, pairs, 2, 20, 18)).astype(dtype)
    x[:, :, :9] = 0
    layer = {"kernel_size": (5, 3), "stride": (2, 1), "dilation": (1, 2), "padding": ((2, 2), (2, 2))}
    maps = np.stack([box_sum(m, **layer, padding_mode="circular") for m in _fused.pair_maps(x, y).astype(np.float64)])
    _fused.relu_step(*maps)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        sums = _fused.relu_layer_sums(x, y, **layer, padding_mode="circular")
    finally:
        torch.set_num_threads(before)
    assert sums.dtype == np.float64
    np.testing.assert_allclose(sums, maps.sum(axis=(2, 3)), rtol=10 * TOLERANCE[dtype])


def test_rule_for_compiling(monkeypatch):
    x = np.zeros(4, dtype=np.float32)
    monkeypatch.delitem(sys.modules, "initscope.theory._fused")
    monkeypatch.setattr(_fast, "_asked", {"entries": 0})
    assert _fast.fused_loops(x, entries=_fast.WORTH_COMPILING - 1) is None
    assert _fast.fused_loops(x, entries=1) is not None  # both calls together are worth it
    monkeypatch.setitem(sys.modules, "initscope.theory._fused", _fused)
    assert _fast.fused_loops(x, entries=1) is _fused
    assert _fast.fused_loops(torch.zeros(4), entries=1) is _fused
    assert _fast.fused_loops(torch.zeros(4, requires_grad=True), entries=1) is None
    assert _fast.fused_loops(x.astype(np.float16), entries=1) is None
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert _fast.fused_loops(x, entries=1) is None


def test_as_numpy_shares_memory():
    tensor = torch.zeros(3)
    _fast.as_numpy(tensor)[0] = 1
    assert tensor[0] == 1
