r"""`gist`: the GIST descriptor of images [OlivaTorralba2001]_, energies of a Gabor bank in a grid of cells.

Gray image → logarithm, local mean removed, divided by local contrast → for each filter the modulus of its response,
averaged over 4 × 4 cells. All filters are Gaussians in frequency, in polar coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from initscope.data.image_set import ImageSet
from initscope.data.locations import find
from initscope.data.published import first_rows
from initscope.errors import InputError, check_count

__all__ = ["cifar10_gist", "gist", "mirrored_gist"]

LUMA = (0.299, 0.587, 0.114)
_PREFILTER_CYCLES = 4.0  # cut-off of the local mean, in cycles per image
_PREFILTER_PADDING = 5
_PREFILTER_FLOOR = 0.2
_CHUNK = 256
Floats = NDArray[np.float64]


def gist(
    images: ImageSet | NDArray[Any], *, orientations: Sequence[int] = (8, 8, 8), cells: int = 4
) -> NDArray[np.float32]:
    r"""GIST descriptors ``[N, sum(orientations) · cells²]``: 384 numbers by default.

    Filter j of scale i, with n its number of orientations, has the transfer function

    .. math:: \exp\Bigl(-3.5\Bigl(\frac{1.85^i f}{0.3} - 1\Bigr)^2 - \frac{\pi n^2}{32}\,\varphi_j^2\Bigr),

    f the frequency in cycles per pixel, :math:`\varphi_j` the angle from direction -πj/n. The image before it is
    log(1 + gray), gray in 0 … 255, minus its low-pass :math:`e^{-f^2\log 2/16}` (f in cycles per padded image), divided
    by 0.2 plus the root of the low-passed square. Boundaries of the Gabor filters are cyclic.

    Parameters
    ----------
    images
        ``[N, C, H, W]`` (C is 1 or 3) or ``[N, H, W]`` in [0, 1], or an `ImageSet`; integers are taken as 0 … 255.
    orientations
        Number of orientations at each scale, finest first.
    cells
        Side of the grid of cells.

    Returns
    -------
    array
        float32; for each filter (scale by scale) the cells column by column, as in the published implementation.

    Examples
    --------
    >>> from initscope import data
    >>> data.gist(data.load("photos", limit=2)).shape
    (2, 384)
    """
    counts = [check_count("orientations", count) for count in orientations]
    if not counts:
        raise InputError("orientations is empty; give at least one scale, for example (8, 8, 8)")
    pixels = _checked(images.images if isinstance(images, ImageSet) else np.asarray(images))
    height, width = pixels.shape[2:]
    check_count("cells", cells, most=min(height, width), hint="at most the side of the image in pixels")
    bank = _gabor_bank(counts, height, width)
    rows, columns = (np.arange(cells) * side // cells for side in (height, width))
    areas = np.outer(np.diff(rows, append=height), np.diff(columns, append=width))
    result = np.empty((len(pixels), len(bank) * cells**2), dtype=np.float32)
    for start in range(0, len(pixels), _CHUNK):
        spectrum = np.fft.fft2(_prefiltered(_gray(pixels[start : start + _CHUNK])))
        for number, transfer in enumerate(bank):
            energy = np.abs(np.fft.ifft2(spectrum * transfer))
            means = np.add.reduceat(np.add.reduceat(energy, rows, axis=1), columns, axis=2) / areas
            columns_of_filter = slice(number * cells**2, (number + 1) * cells**2)
            result[start : start + _CHUNK, columns_of_filter] = means.transpose(0, 2, 1).reshape(len(means), -1)
    return result


def mirrored_gist(
    descriptors: NDArray[Any], *, orientations: Sequence[int] = (8, 8, 8), cells: int = 4
) -> NDArray[Any]:
    """Return descriptors of the images mirrored left to right, computed from the descriptors alone.

    Mirroring maps the direction -πj/n to that of filter n - j and reverses the columns of cells. The result equals
    `gist` of the mirrored images except for the highest frequency of an even side, which has no mirror image in the
    Fourier grid, and except for cells or margins of unequal size. The difference is 0.5 % on CIFAR-10.

    Parameters
    ----------
    descriptors
        Rows of `gist`, made with the same ``orientations`` and ``cells``.

    Examples
    --------
    >>> rows = np.arange(384.0)[None]
    >>> bool((mirrored_gist(mirrored_gist(rows)) == rows).all())
    True
    """
    counts = [check_count("orientations", count) for count in orientations]
    length = sum(counts) * check_count("cells", cells) ** 2
    rows = np.asarray(descriptors)
    if rows.ndim != 2 or rows.shape[1] != length:
        raise InputError(
            f"descriptors of shape {rows.shape} must be [N, {length}]: {sum(counts)} filters in {cells} × {cells} "
            "cells; give the orientations and cells they were made with"
        )
    first = np.cumsum([0, *counts[:-1]])
    filters = np.concatenate([start + (-np.arange(count)) % count for start, count in zip(first, counts)])
    return rows.reshape(-1, sum(counts), cells, cells)[:, filters, ::-1].reshape(rows.shape)


def cifar10_gist(*, limit: int | None = None) -> ImageSet:
    """Return GIST descriptors of CIFAR-10, train then test: the published file if present, else computed."""
    file = find("cifar10_gist384.npz")
    if file is not None:
        descriptors, labels = first_rows(file, ("gist", "labels"), limit)
        if descriptors.ndim != 2 or descriptors.dtype.kind != "f" or not np.isin(labels, np.arange(10)).all():
            actual = f"{descriptors.dtype} {descriptors.shape}"
            raise InputError(f"{file}: gist {actual} must be floats [N, 384] with labels 0 to 9; fetch it again")
        return ImageSet(descriptors, labels, _names(labels), name="cifar10-gist", steps=("GIST, 384 numbers",))
    from initscope.data.named import load_named

    parts = [load_named("cifar10", split=split) for split in ("train", "test")]
    images = np.concatenate([part.images for part in parts])[:limit]
    labels = np.concatenate([part.labels for part in parts if part.labels is not None])[:limit]
    return ImageSet(gist(images), labels, parts[0].class_names, name="cifar10-gist", steps=("GIST, 384 numbers",))


def _names(labels: NDArray[Any]) -> tuple[str, ...]:
    return tuple(str(label) for label in range(int(labels.max()) + 1 if labels.size else 0))


def _checked(images: NDArray[Any]) -> NDArray[Any]:
    """Return images as [N, 1 or 3, H, W], or `InputError`."""
    if images.ndim == 3:
        images = images[:, None]
    if images.ndim != 4 or images.shape[1] not in (1, 3) or 0 in images.shape:
        raise InputError(f"images of shape {images.shape} must be [N, 1 or 3, H, W] or [N, H, W]")
    most = 255 if images.dtype.kind in "iu" else 1
    if not (images.min() >= 0 and images.max() <= most):
        raise InputError(
            f"images of type {images.dtype} hold values from {images.min():g} to {images.max():g}; GIST needs gray "
            "values in [0, 1] or whole numbers in 0 … 255, before normalization; rescale them"
        )
    return images


def _gray(images: NDArray[Any]) -> Floats:
    """Return gray values in 0 … 255, [N, H, W]."""
    values = images.astype(np.float64) * (1 if images.dtype.kind in "iu" else 255)
    return values[:, 0] if images.shape[1] == 1 else np.asarray(np.einsum("nchw,c->nhw", values, np.array(LUMA)))


def _prefiltered(gray: Floats) -> Floats:
    """Return the logarithm with local mean and contrast removed; images are padded to a square of even side."""
    height, width = gray.shape[1:]
    pad = _PREFILTER_PADDING
    side = max(height, width) + 2 * pad
    side += side % 2
    margins = [(0, 0), (pad, side - height - pad), (pad, side - width - pad)]
    logs = np.pad(np.log1p(gray), margins, mode="symmetric")
    cycles = np.fft.fftfreq(side) * side
    low = np.exp(-(cycles[:, None] ** 2 + cycles**2) * np.log(2) / _PREFILTER_CYCLES**2)
    detail = logs - np.fft.ifft2(np.fft.fft2(logs) * low).real
    contrast = np.sqrt(np.abs(np.fft.ifft2(np.fft.fft2(detail**2) * low)))
    return np.asarray((detail / (_PREFILTER_FLOOR + contrast))[:, pad : pad + height, pad : pad + width])


def _gabor_bank(counts: Sequence[int], height: int, width: int) -> Floats:
    """Return transfer functions of the filters, [filters, H, W], in the order of the Fourier transform."""
    vertical, horizontal = np.fft.fftfreq(height)[:, None], np.fft.fftfreq(width)[None, :]
    frequency, angle = np.hypot(vertical, horizontal), np.arctan2(vertical, horizontal)
    bank = []
    for scale, count in enumerate(counts):
        radial = 3.5 * (frequency * 1.85**scale / 0.3 - 1) ** 2
        for number in range(count):
            relative_angle = angle + np.pi * number / count
            relative_angle = np.where(relative_angle > np.pi, relative_angle - 2 * np.pi, relative_angle)
            bank.append(np.exp(-radial - np.pi * count**2 / 32 * relative_angle**2))
    return np.array(bank)
