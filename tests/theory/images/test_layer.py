"""Theorem 1 against explicit patches, against simulated filters, and in both libraries; what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from initscope.errors import InputError
from initscope.testing import z_score
from initscope.theory import _fast, activations
from initscope.theory.angles import relu_cosine
from initscope.theory.images import _layer, cosine, expected_cosine, expected_distance, expected_inner

RNG = np.random.default_rng
MODES = {"zeros": "constant", "circular": "circular", "reflect": "reflect", "replicate": "replicate"}


def patches(images, kernel, stride, dilation, pads, mode):
    """[n, channels·taps, positions] by torch's own padding and unfold."""
    padded = torch.nn.functional.pad(torch.from_numpy(images), (*pads[1], *pads[0]), mode=MODES[mode])
    return torch.nn.functional.unfold(padded, kernel, dilation=dilation, stride=stride).numpy()


def relu_inner_by_patches(x, y, variance, **windows):
    """Σ over positions of the arc-cosine formula in its textbook form (eq. 8)."""
    u, v = patches(x, **windows), patches(y, **windows)
    norms = np.linalg.norm(u, axis=1) * np.linalg.norm(v, axis=1)
    rho = np.clip((u * v).sum(axis=1) / np.where(norms > 0, norms, 1), -1, 1)
    dual = (np.sqrt(1 - rho**2) + (np.pi - np.arccos(rho)) * rho) / np.pi
    return variance / 2 * (norms * dual).sum(axis=1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("groups", [1, 2])
def test_layer_equals_explicit_patches(mode, groups):
    """To 1e-10 for every padding mode, amount, stride, dilation and kernel; images with black parts."""
    rng = RNG(0)
    x, y = rng.standard_normal((2, 3, 4, 9, 8))
    x[0, :, :5], y[1, :, :, 4:] = 0, 0
    for kernel, stride, dilation, pad in itertools.product([(3, 3), (2, 4), (1, 5)], [1, 2], [1, 2], [0, 1, 3]):
        spans = [dilation * (k - 1) + 1 for k in kernel]
        if any(span > n + (0 if mode == "circular" else 2 * pad) for span, n in zip(spans, (9, 8))):
            continue
        windows = {
            "kernel": kernel, "stride": stride, "dilation": dilation, "pads": ((pad, pad),) * 2, "mode": mode
        }  # fmt: skip
        split = (3, groups, 4 // groups, 9, 8)
        expected = np.mean(
            [
                relu_inner_by_patches(x.reshape(split)[:, g], y.reshape(split)[:, g], 0.7, **windows)
                for g in range(groups)
            ],
            axis=0,
        )
        layer = {
            "kernel_size": kernel, "stride": stride, "dilation": dilation, "padding": pad, "padding_mode": mode,
            "groups": groups, "weight_variance": 0.7,
        }  # fmt: skip
        np.testing.assert_allclose(expected_inner(x, y, **layer), expected, rtol=1e-10, atol=1e-10)
        tensors = torch.from_numpy(x), torch.from_numpy(y)
        np.testing.assert_allclose(expected_inner(*tensors, **layer).numpy(), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("mode", MODES)
def test_named_padding_keeps_the_size(mode):
    x, y = RNG(1).standard_normal((2, 2, 1, 8, 9))
    by_name = expected_inner(x, y, kernel_size=(3, 5), padding=mode)
    by_amount = expected_inner(x, y, kernel_size=(3, 5), padding=(1, 2), padding_mode=mode)
    np.testing.assert_array_equal(by_name, by_amount)
    # even kernels: one more behind than before, as torch's padding="same"
    even = {"kernel": (4, 2), "stride": 1, "dilation": 1, "pads": ((1, 2), (0, 1)), "mode": mode}
    got = expected_inner(x, y, kernel_size=(4, 2), padding=mode, weight_variance=0.7)
    np.testing.assert_allclose(got, relu_inner_by_patches(x, y, 0.7, **even), rtol=1e-10)


@pytest.mark.parametrize(("dims", "shape"), [(1, (2, 3, 20)), (3, (2, 2, 5, 6, 7))])
def test_signals_and_volumes(dims, shape):
    """Against the mean over 40,000 filters of torch's own layer, as a z-score: an error of 5 % is beyond 4 sigma."""
    x, noise = (torch.from_numpy(values) for values in RNG(2).standard_normal((2, *shape)))
    y = x + noise
    torch.manual_seed(0)
    layer = getattr(torch.nn, f"Conv{dims}d")(shape[1], 40_000, 3, padding=1, bias=False).double()
    torch.nn.init.normal_(layer.weight, std=0.5)
    with torch.no_grad():
        samples = (torch.relu(layer(x)) * torch.relu(layer(y))).flatten(2).sum(-1).T.numpy()
    expected = expected_inner(x, y, kernel_size=3, padding="zeros", weight_variance=0.25).numpy()
    assert np.all(np.abs(z_score(samples, expected)) < 4)
    assert np.all(np.abs(z_score(samples, 1.05 * expected)) > 4)


@pytest.mark.parametrize("name", ["relu", "identity", "tanh", "gelu", "abs", "step"])
def test_any_activation_against_filters(name):
    """Inner product and squared distance over 20,000 simulated cyclic filters, within 4 standard errors."""
    x, y = (torch.from_numpy(values) for values in RNG(3).standard_normal((2, 2, 2, 7, 7)))
    torch.manual_seed(1)
    layer = torch.nn.Conv2d(2, 20_000, 3, padding=1, padding_mode="circular", bias=False).double()
    torch.nn.init.normal_(layer.weight, std=0.4)
    sigma = {
        "relu": torch.relu, "identity": lambda z: z, "tanh": torch.tanh, "gelu": torch.nn.functional.gelu,
        "abs": torch.abs, "step": lambda z: (z > 0).double(),
    }[name]  # fmt: skip
    with torch.no_grad():
        u, v = sigma(layer(x)), sigma(layer(y))
        inner, distance = (u * v).flatten(2).sum(-1).T.numpy(), ((u - v) ** 2).flatten(2).sum(-1).T.numpy()
    options = {"kernel_size": 3, "activation": name, "weight_variance": 0.16}
    assert np.all(np.abs(z_score(inner, expected_inner(x, y, **options).numpy())) < 4)
    assert np.all(np.abs(z_score(distance, expected_distance(x, y, **options).numpy())) < 4)


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("name", ["relu", "abs", "leaky_relu", "identity"])
def test_norms_are_kept(name, groups):
    """Eq. 9 with ν = 1/(ν_σ r): exact for homogeneous activations under cyclic padding; lemma 1 for the identity."""
    x, y = RNG(4).standard_normal((2, 5, 3, 8, 8))
    options = {"kernel_size": 5, "activation": name, "groups": groups}
    np.testing.assert_allclose(expected_inner(x, x, **options), (x**2).sum(axis=(1, 2, 3)), rtol=1e-12)
    if name == "identity":
        np.testing.assert_allclose(expected_inner(x, y, **options), (x * y).sum(axis=(1, 2, 3)), rtol=1e-10)
        np.testing.assert_allclose(expected_cosine(x, y, **options), cosine(x, y), rtol=1e-10)


def test_cosine_is_equation_12():
    """For homogeneous activations the cosine is the patch-weighted mean of R̂(ρ_ij) over r²‖x‖‖y‖, whatever ν."""
    x, y = RNG(5).random((2, 4, 3, 10, 10))
    windows = {"kernel": (3, 3), "stride": 1, "dilation": 1, "pads": ((1, 1), (1, 1)), "mode": "circular"}
    top = relu_inner_by_patches(x, y, 2.0, **windows)
    expected = top / (9 * np.sqrt((x**2).sum(axis=(1, 2, 3)) * (y**2).sum(axis=(1, 2, 3))))
    np.testing.assert_allclose(expected_cosine(x, y, kernel_size=3), expected, rtol=1e-12)
    np.testing.assert_allclose(expected_cosine(x, 7 * y, kernel_size=3, weight_variance=5.0), expected, rtol=1e-12)


def test_one_pixel_images_are_a_dense_layer():
    rng = RNG(6)
    x, y = rng.standard_normal((2, 50, 7, 1, 1))
    np.testing.assert_allclose(expected_cosine(x, y, kernel_size=1), relu_cosine(cosine(x, y)), rtol=1e-12)


def test_nearly_equal_images_keep_their_distance():
    """‖x - y‖ = 1e-9‖x‖: the squared distance halves to first order; the cosine alone would have no digit of it."""
    x = RNG(7).random((1, 3, 12, 12))
    step = 1e-9 * RNG(8).standard_normal(x.shape)
    got = expected_distance(x, x + step, kernel_size=3)
    np.testing.assert_allclose(got, ((x + step - x) ** 2).sum(), rtol=1e-7)


def test_compiled_and_array_paths_agree(monkeypatch):
    """Same numbers to rounding in float32 and float64, with stride, dilation, groups and black parts."""
    pytest.importorskip("numba")
    x, y = RNG(9).standard_normal((2, 6, 4, 20, 24))
    x[:, :, 8:] = 0
    for dtype, rtol in ((np.float32, 1e-5), (np.float64, 1e-12)):
        for padding in ("circular", "zeros", "reflect", "replicate", "valid"):
            options = {"kernel_size": (5, 3), "stride": 2, "dilation": (1, 2), "groups": 2, "padding": padding}
            images = x.astype(dtype), y.astype(dtype)
            monkeypatch.setattr(_fast, "WORTH_COMPILING", 0)
            fast = expected_inner(*images, **options)
            tensors = expected_inner(*map(torch.from_numpy, images), **options)
            with monkeypatch.context() as patch:
                patch.setattr("initscope.theory.images._layer.fused_loops", lambda *arrays, entries: None)
                plain = expected_inner(*images, **options)
            assert fast.dtype == plain.dtype == dtype
            assert isinstance(tensors, torch.Tensor)
            np.testing.assert_allclose(fast, plain, rtol=rtol)
            np.testing.assert_array_equal(fast, tensors.numpy())


def test_chunks_do_not_show(monkeypatch):
    x, y = RNG(10).random((2, 7, 1, 6, 6))
    whole = expected_inner(x, y, kernel_size=3, activation="tanh")
    monkeypatch.setattr("initscope.theory.images._layer._CHUNK", 80)
    np.testing.assert_array_equal(expected_inner(x, y, kernel_size=3, activation="tanh"), whole)


def test_gradients_flow():
    x = torch.rand(2, 2, 5, 5, dtype=torch.float64, requires_grad=True)
    y = torch.rand(2, 2, 5, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda u, v: expected_cosine(u, v, kernel_size=3), (x, y))
    black = torch.zeros(1, 1, 4, 4, dtype=torch.float64, requires_grad=True)
    expected_inner(black, torch.ones_like(black), kernel_size=3).sum().backward()
    assert torch.isfinite(black.grad).all()


def test_integers_are_accepted():
    images = RNG(11).integers(0, 256, (2, 3, 8, 8), dtype=np.uint8)
    got = expected_cosine(images, images[::-1].copy(), kernel_size=3)
    np.testing.assert_allclose(got, expected_cosine(images / 1.0, images[::-1] / 1.0, kernel_size=3), rtol=1e-12)


def images(shape=(3, 1, 6, 6)):
    return RNG(12).random(shape)


def with_value(value, index):
    x = images()
    x[index, 0, 2, 3] = value
    return x


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bad_values_name_the_pair(value, compiled, monkeypatch):
    if compiled:
        pytest.importorskip("numba")
        monkeypatch.setattr(_fast, "WORTH_COMPILING", 0)
    else:
        monkeypatch.setattr("initscope.theory.images._layer.fused_loops", lambda *arrays, entries: None)
    with np.errstate(over="ignore", invalid="ignore"):
        with pytest.raises(InputError, match="pair 2: y holds NaN, infinity or values whose squares overflow"):
            expected_cosine(images(), with_value(value, 2), kernel_size=3)
        with pytest.raises(InputError, match="pair 1: x holds NaN"):
            cosine(with_value(value, 1), images())


def test_zero_images_name_the_pair():
    x = images()
    x[1] = 0
    for function in (lambda a, b: expected_cosine(a, b, kernel_size=3), cosine):
        with pytest.raises(InputError, match="pair 1: x is zero wherever the filter looks, so it has no angle"):
            function(x, images())
        with pytest.raises(InputError, match="pair 1: y is zero"):
            function(images(), x)
    assert expected_inner(x, images(), kernel_size=3)[1] == 0


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((images(), images((3, 1, 6, 5))), {}, r"x has shape \(3, 1, 6, 6\) but y has \(3, 1, 6, 5\)"),
        ((images((6, 6)), images((6, 6))), {}, "must be .pairs, channels, height, width."),
        ((images((0, 1, 6, 6)), images((0, 1, 6, 6))), {}, "none of them empty"),
        (
            (images(), images()),
            {"kernel_size": 7},
            "kernel of 7 taps with dilation 1 spans 7 positions, more than the 6",
        ),
        ((images(), images()), {"kernel_size": 3, "dilation": 3}, "spans 7 positions"),
        ((images(), images()), {"kernel_size": (3, 3, 3)}, "has 3 entries for images with 2 axes"),
        ((images(), images()), {"kernel_size": 0}, "kernel_size = 0 must be a whole number of at least 1"),
        ((images(), images()), {"padding": "same"}, "padding = 'same' must be a number, 'valid', or one of zeros"),
        ((images(), images()), {"padding": -1}, "padding = -1 must be"),
        ((images(), images()), {"padding": 6, "padding_mode": "reflect"}, "must be at most 5 for reflect"),
        ((images(), images()), {"stride": 0}, "stride = 0"),
        ((images(), images()), {"groups": 2}, "groups = 2 must divide the 1 channels"),
        ((images(), images()), {"weight_variance": 0.0}, "weight_variance = 0.0 must be strictly between"),
        ((images(), images()), {"activation": "no such"}, "no such"),
        ((images(), torch.from_numpy(images())), {}, "different libraries"),
    ],
)
def test_refusals(arguments, options, message):
    with pytest.raises(InputError, match=message):
        expected_cosine(*arguments, **{"kernel_size": 3, **options})


def test_relu_is_recognised_for_the_compiled_path():
    assert activations.activation("relu") is activations.relu


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scale", [1e-30, 1e6, 1e17, 1e150])
def test_cosines_do_not_depend_on_the_scale_of_one_image(dtype, scale):
    """[Nachum2022]_ eq. 12 for homogeneous activations: 0 at 1e17, NaN at 1e150 and .025 off in float32 before."""
    if scale > 1e30 and dtype == np.float32:
        pytest.skip("not a float32")
    x, y = images(), images()[::-1] - 0.3
    tolerance = 1e-13 if dtype == np.float64 else 1e-5
    scaled = (scale * x).astype(dtype)
    for function in (lambda a, b: expected_cosine(a, b, kernel_size=3), cosine):
        assert np.abs(function(scaled, y.astype(dtype)) - function(x, y)).max() < tolerance


@pytest.mark.parametrize("library", [np.asarray, torch.from_numpy])
def test_sizes_are_the_largest_magnitudes(library):
    """Bit for bit, NaN and infinity included, and those that come with scaled images are the scaled images' own."""
    rng = RNG(3)
    x, y = (rng.standard_normal((9, 2, 5, 4)) * 10.0 ** rng.integers(-9, 9, (9, 1, 1, 1)) for _ in range(2))
    x[0], x[1, 0, 0, 0], y[2, 1, 3, 3] = 0.0, np.nan, -np.inf
    xp, *images = _layer.check_pairs(library(x), library(y))

    def largest(images):
        return [np.abs(np.asarray(each)).max(axis=(1, 2, 3)) for each in images]

    sizes = _layer._sizes(xp, *images)
    assert np.array_equal(np.asarray(sizes), largest(images), equal_nan=True)
    *scaled, after = _layer._alike(xp, *images, sizes)
    assert np.array_equal(np.asarray(after), largest(scaled), equal_nan=True)
    assert not np.array_equal(np.asarray(after), np.asarray(sizes), equal_nan=True)


def test_a_saturated_image_against_a_small_one():
    """tanh of an image 1e17 times as large is its sign: the dual by its closed form, per position."""
    x, y = images()[:1], images()[1:2] - 0.3
    variance = 1.0
    positions = []
    for i in range(x.shape[2]):
        for j in range(x.shape[3]):
            a, b = (np.roll(image, (-i, -j), axis=(2, 3))[0, :, :3, :3].ravel() for image in (x, y))
            slope = 1e-6 * (a @ b) / np.linalg.norm(a)  # E[sign(X) tanh(εY)] = ε √(2/π) kxy/√kxx for small ε
            positions.append((np.sqrt(2 / np.pi) * slope, 1.0, 1e-12 * (b @ b)))
    inner, norm_x, norm_y = np.sum(positions, axis=0)
    found = expected_cosine(1e17 * x, 1e-6 * y, kernel_size=3, activation="tanh", weight_variance=variance)
    assert found[0] == pytest.approx(inner / np.sqrt(norm_x * norm_y), rel=1e-6)


def test_gaussian_images_have_one_convention_of_variance():
    """A filter as large as the image sees one patch: unit mean square and correlation ½ are `gaussian_cosine`'s law."""
    from initscope.theory.images import gaussian_cosine

    x, noise = np.linalg.qr(np.random.default_rng(0).standard_normal((25, 2)))[0].T * 5
    y = 0.5 * x + np.sqrt(0.75) * noise
    found = expected_cosine(*(image.reshape(1, 1, 5, 5) for image in (x, y)), kernel_size=5, activation="tanh")
    assert found[0] == pytest.approx(float(gaussian_cosine(0.5, "tanh")), abs=1e-9)
    assert float(gaussian_cosine(0.5, "tanh", variance=1.0)) == pytest.approx(0.47255, abs=1e-5)


def test_half_precision_is_worked_on_in_single_precision():
    """A photograph's sum of squares (50,000 here) nearly overflows float16; rounding the pixels costs some 1e-4."""
    rng = np.random.default_rng(0)
    x, y = rng.random((2, 1, 3, 160, 160))
    exact = expected_cosine(x, y, kernel_size=3)
    for half in (x.astype(np.float16), torch.tensor(x).half(), torch.tensor(x).bfloat16()):
        other = y.astype(half.dtype) if isinstance(half, np.ndarray) else torch.tensor(y).to(half.dtype)
        found = expected_cosine(4 * half, 4 * other, kernel_size=3)
        assert str(found.dtype).endswith("float32")
        assert float(found[0]) == pytest.approx(float(exact[0]), abs=2e-4)
        assert float(expected_inner(4 * half, 4 * half, kernel_size=3)[0]) == pytest.approx(16 * (x**2).sum(), rel=1e-3)
