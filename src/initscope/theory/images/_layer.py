"""Theorem 1: expected inner products, cosines and distances after one random convolutional layer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from initscope.errors import InputError, check_between, check_count
from initscope.theory import activations
from initscope.theory._arrays import Array
from initscope.theory._fast import as_numpy, fused_loops
from initscope.theory.activations import Activation
from initscope.theory.images._windows import Padding, Windows, check_pairs

__all__ = ["ActivationLike", "cosine", "expected_cosine", "expected_distance", "expected_inner", "norms", "patch_norms"]

ActivationLike = str | Activation | Callable[[Array], Array]
_UNLIKE = 2.0**20  # ratio of squared norms from which on inner products are not taken from distances
_CHUNK = 1 << 15  # map entries worked on at once: they stay in the caches, which halves the time
_ENTRIES_PER_PIXEL = 4  # the work of one layer, from pixels to norms, in map entries of `fused_loops`


def expected_inner(
    x: Array,
    y: Array,
    *,
    kernel_size: int | Sequence[int],
    activation: ActivationLike = "relu",
    padding: Padding = "circular",
    padding_mode: str = "zeros",
    stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    weight_variance: float | None = None,
) -> Array:
    r"""Return the expected inner product of two images after one random convolutional layer, per pair.

    .. math:: E\langle\sigma(F*x),\sigma(F*y)\rangle = \sum_{ij}\hat\sigma\left(\nu^2\|[x]_{ij}\|^2,
              \nu^2\|[y]_{ij}\|^2, \nu^2\langle[x]_{ij},[y]_{ij}\rangle\right)

    [Nachum2022]_ theorem 1 (eq. 7, for homogeneous σ eq. 8), with :math:`[x]_{ij}` what the filter sees at position ij.
    Exact for i.i.d. Filters are Gaussian, and their number does not matter: it is the mean over filters. With x = y it
    is the expected squared norm (eq. 9). The identity activation preserves inner products (lemma 1, cyclic, stride 1).

    Parameters
    ----------
    x, y
        Images ``[pairs, channels, height, width]``; one or three axes after the channels work likewise. NumPy or
        torch, any device; gradients flow.
    kernel_size
        Taps of the filter, one number or one per axis.
    activation
        A name, an `Activation` or any elementwise callable.
    padding
        "circular" (the paper's cyclic convolution), "zeros", "reflect" or "replicate" keep the size at stride 1;
        "valid" pads nothing; a number, or one per axis, pads that much in ``padding_mode``.
    stride, dilation, groups
        As in ``torch.nn.Conv2d``. With groups the result is the mean over the filters of all groups.
    weight_variance
        ν². Left out, :math:`\text{groups}/(E[\sigma(g)^2]\,r^2)`, 2/r² for ReLU, which keeps norms for homogeneous σ
        under cyclic padding and stride 1 ([Nachum2022]_ after eq. 9), however many channels there are.

    Returns
    -------
    array
        One value per pair, of the library and dtype of the images.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).random((1, 3, 8, 8))
    >>> np.allclose(expected_inner(x, x, kernel_size=3), (x**2).sum())
    True
    """
    norm_x, norm_y, distance = _moments(
        x,
        y,
        activation=activation,
        groups=groups,
        weight_variance=weight_variance,
        kernel_size=kernel_size,
        padding=padding,
        padding_mode=padding_mode,
        stride=stride,
        dilation=dilation,
    )
    return (norm_x + norm_y - distance) / 2


def expected_distance(x: Array, y: Array, **layer: Any) -> Array:
    r"""Return expected squared distance :math:`E\|\sigma(F*x)-\sigma(F*y)\|^2` per pair; keywords of `expected_inner`.

    It is computed from box sums of (x - y)², so that nearly equal images keep their digits. For ReLU with preserved
    norms it never exceeds ‖x - y‖² (cyclic, stride 1): compare [Nachum2022]_ eq. 17.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).random((1, 3, 8, 8))
    >>> bool(expected_distance(x, 1.5 * x, kernel_size=3)[0] <= 0.25 * (x**2).sum() * (1 + 1e-12))
    True
    """
    return _moments(x, y, **layer)[2]


def expected_cosine(
    x: Array,
    y: Array,
    *,
    kernel_size: int | Sequence[int],
    activation: ActivationLike = "relu",
    padding: Padding = "circular",
    padding_mode: str = "zeros",
    stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    weight_variance: float | None = None,
) -> Array:
    r"""Return mean cosine similarity after one random convolutional layer, per pair; parameters of `expected_inner`.

    .. math:: \bar\rho = \frac{E\langle\sigma(F*x),\sigma(F*y)\rangle}
              {\sqrt{E\|\sigma(F*x)\|^2\;E\|\sigma(F*y)\|^2}}

    [Nachum2022]_ eq. 1 and 12. The denominator is that of the layer itself, so the result also holds with other padding
    and strides than the paper's (r²‖x‖‖y‖). A layer's own cosine concentrates around it as filters are added. For
    homogeneous σ the weight variance cancels, and so does the scale of either image. Otherwise both matter: the default
    variance gives images of unit mean square in one channel pre-activations of variance 1/E[σ(g)²]. An image that is
    zero wherever the filter looks has no angle and is refused.

    >>> import numpy as np
    >>> red, green = np.zeros((2, 1, 3, 8, 8))
    >>> red[:, 0], green[:, 1] = 1, 1
    >>> expected_cosine(red, green, kernel_size=3).round(6)      # 1/pi: as in a dense layer
    array([0.31831])
    """
    sigma = activations.activation(activation)
    layer: dict[str, Any] = {
        "activation": sigma,
        "groups": groups,
        "weight_variance": weight_variance,
        "kernel_size": kernel_size,
        "padding": padding,
        "padding_mode": padding_mode,
        "stride": stride,
        "dilation": dilation,
    }
    xp, x, y = check_pairs(x, y)
    sizes = _sizes(xp, x, y)
    if sigma.homogeneous:
        x, y, sizes = _alike(xp, x, y, sizes)
    norm_x, norm_y, distance = _moments(x, y, **layer)
    norm_x, norm_y = _nonzero(xp, norm_x, norm_y)
    inner = (norm_x + norm_y - distance) / 2
    unlike = (norm_x > _UNLIKE * norm_y) | (norm_y > _UNLIKE * norm_x) | _far_apart(xp, sizes)
    if bool(xp.any(unlike)):
        inner = xp.where(unlike, _moments(x, y, **layer, of_products=True)[2], inner)
    return inner / (xp.sqrt(norm_x) * xp.sqrt(norm_y))


def _sizes(xp: Any, x: Array, y: Array) -> Array:
    """The largest magnitude of every image of x and of y, ``[2, pairs]``; no copy of the images is made for it."""
    flat = (xp.reshape(images, (images.shape[0], -1)) for images in (x, y))
    return xp.stack([xp.maximum(xp.max(images, axis=1), -xp.min(images, axis=1)) for images in flat])


def _alike(xp: Any, x: Array, y: Array, sizes: Array) -> tuple[Array, Array, Array]:
    """Return images times powers of two that bring their largest values to about 1, without rounding.

    For an image and one a million times larger, the squared distance has lost the angle. The magnitudes are returned
    too.
    """
    largest, smallest = xp.max(sizes, axis=0), xp.min(sizes, axis=0)
    extreme = (largest > 4 * smallest) | (largest > 2.0**20) | (smallest < 2.0**-20)
    change = extreme & xp.isfinite(sizes[0]) & xp.isfinite(sizes[1])
    if not bool(xp.any(change)):
        return x, y, sizes
    known = change & (sizes > 0)
    power = xp.floor(xp.log2(xp.where(known, sizes, xp.ones_like(sizes))))
    half = xp.floor(power / 2)  # in two steps: the inverse of the smallest numbers overflows
    factors = 2.0 ** (-half), 2.0 ** (half - power)
    first, second = (xp.reshape(factor, (2, -1, *(1 for _ in x.shape[1:]))) for factor in factors)
    return x * first[0] * second[0], y * first[1] * second[1], sizes * factors[0] * factors[1]


def _far_apart(xp: Any, sizes: Array) -> Array:
    """Return pairs in which one image is more than √_UNLIKE times as large as the other."""
    return xp.max(sizes, axis=0) > _UNLIKE**0.5 * xp.min(sizes, axis=0)


def cosine(x: Array, y: Array) -> Array:
    """Return the cosine similarity of the images themselves, ρ_in, per pair; [Nachum2022]_ eq. 1 without a layer.

    >>> import numpy as np
    >>> cosine(np.ones((1, 1, 2, 2)), np.eye(2).reshape(1, 1, 2, 2)).round(6)
    array([0.707107])
    """
    xp, x, y = check_pairs(x, y)
    x, y, _ = _alike(xp, x, y, _sizes(xp, x, y))
    _, norm_x, norm_y = norms(x, y)
    return xp.sum(x * y, axis=tuple(range(1, x.ndim))) / (norm_x * norm_y)


def patch_norms(
    images: Array,
    *,
    kernel_size: int | Sequence[int],
    padding: Padding = "circular",
    padding_mode: str = "zeros",
    stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
) -> Array:
    r"""Return the norm ‖[x]_ij‖ of the patch at every position, ``[n, …]``; other parameters as in `expected_inner`.

    Its largest value is the R of [Nachum2022]_ theorem 2 and lemma 2; divided by the image's norm it is that of
    corollary 1.

    >>> import numpy as np
    >>> float(patch_norms(np.ones((1, 1, 4, 4)), kernel_size=3).max())
    3.0
    """
    xp, images, _ = check_pairs(images, images)
    windows = Windows.read(
        images.shape[2:], kernel_size, padding=padding, padding_mode=padding_mode, stride=stride, dilation=dilation
    )
    return xp.sqrt(windows.sum(xp.sum(images**2, axis=1)))


def norms(x: Array, y: Array) -> tuple[Any, Array, Array]:
    """Return ``(xp, ‖x‖, ‖y‖)`` per pair; refuse values that are not finite or zero."""
    xp, x, y = check_pairs(x, y)
    squares = (xp.sum(images**2, axis=tuple(range(1, x.ndim))) for images in (x, y))
    norm_x, norm_y = _nonzero(xp, *_finite(xp, *squares))
    return xp, xp.sqrt(norm_x), xp.sqrt(norm_y)


def _moments(
    x: Array,
    y: Array,
    *,
    activation: ActivationLike = "relu",
    groups: int = 1,
    weight_variance: float | None = None,
    of_products: bool = False,
    **window_arguments: Any,
) -> tuple[Array, Array, Array]:
    """Return E‖σ(F∗x)‖², E‖σ(F∗y)‖² and E‖σ(F∗x) - σ(F∗y)‖² per pair, the mean over filters.

    Other arguments as in `Windows.read`.

    ``of_products``: the third is the inner product instead, from the patches' own, for images of unlike norms.
    """
    xp, x, y = check_pairs(x, y)
    pairs, channels, *size = x.shape
    sigma = activations.activation(activation)
    groups = check_count("groups", groups)
    if channels % groups:
        raise InputError(f"groups = {groups} must divide the {channels} channels of the images")
    windows = Windows.read(size, **window_arguments)
    if weight_variance is None:
        variance = groups * sigma.gain**2 / windows.taps
    else:
        variance = check_between("weight_variance", weight_variance, 0.0, math.inf, hint="for example 2/r² for ReLU")
    x, y = (xp.reshape(images, (pairs * groups, channels // groups, *size)) for images in (x, y))
    work = _ENTRIES_PER_PIXEL * pairs * groups * math.prod(size)
    fused = fused_loops(x, y, entries=work) if sigma is activations.relu else None
    if fused is not None and len(size) == 2 and not of_products:
        sums = variance * fused.relu_layer_sums(as_numpy(x), as_numpy(y), **windows.options)
        totals = xp.asarray(sums, dtype=x.dtype)
    else:
        step = max(1, _CHUNK // math.prod(size))
        parts = [
            _chunk_totals(xp, x[k : k + step], y[k : k + step], sigma, windows, variance, of_products)
            for k in range(0, pairs * groups, step)
        ]
        totals = xp.concat(parts, axis=1)
    norm_x, norm_y, distance = (xp.mean(xp.reshape(total, (pairs, groups)), axis=1) for total in totals)
    return (*_finite(xp, norm_x, norm_y), distance)


def _chunk_totals(
    xp: Any, x: Array, y: Array, sigma: Activation, windows: Windows, variance: float, of_products: bool
) -> Array:
    third = x * y if of_products else (x - y) ** 2
    kxx, kyy, between = (variance * windows.sum(xp.sum(values, axis=1)) for values in (x**2, y**2, third))
    if of_products:
        limit = xp.sqrt(kxx) * xp.sqrt(kyy)
        between = xp.minimum(xp.maximum(between, -limit), limit)
        after = (sigma.second_moment(kxx), sigma.second_moment(kyy), sigma.dual(kxx, kyy, between))
    else:
        after = sigma.transform(kxx, kyy, between)
    return xp.stack([xp.sum(xp.reshape(moment, (moment.shape[0], -1)), axis=1) for moment in after])


def _finite(xp: Any, norm_x: Array, norm_y: Array) -> tuple[Array, Array]:
    problem = f"holds NaN, infinity or values whose squares overflow {norm_x.dtype}; clean or rescale the images"
    _refuse_where(xp, ~xp.isfinite(norm_x), ~xp.isfinite(norm_y), problem)
    return norm_x, norm_y


def _nonzero(xp: Any, norm_x: Array, norm_y: Array) -> tuple[Array, Array]:
    problem = "is zero wherever the filter looks, so it has no angle; leave such images out"
    _refuse_where(xp, norm_x <= 0, norm_y <= 0, problem)
    return norm_x, norm_y


def _refuse_where(xp: Any, wrong_x: Array, wrong_y: Array, problem: str) -> None:
    for name, wrong in (("x", wrong_x), ("y", wrong_y)):
        if bool(xp.any(wrong)):
            raise InputError(f"pair {int(xp.argmax(xp.astype(wrong, xp.uint8)))}: {name} {problem}")
