"""Color: why photographs behave like gray images, and images of one color like the inputs of a dense layer."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import array_api_compat
import numpy as np
import numpy.typing as npt

from initscope.errors import InputError, check_between, check_count
from initscope.results import Result
from initscope.theory._arrays import Array, namespace
from initscope.theory._fast import as_numpy
from initscope.theory.images._windows import check_pairs

__all__ = [
    "ChannelStatistics",
    "MonochromaticImage",
    "MonochromaticOutliers",
    "channel_statistics",
    "gray_share",
    "monochromatic_outliers",
    "red_green_pair",
    "standard_error",
]

_RESAMPLES = 4096


@dataclass(frozen=True)
class ChannelStatistics(Result):
    """Means over images with their standard errors (see `channel_statistics`)."""

    images: int
    """Images that counted."""
    skipped: int
    """Images left out because a channel is zero: they have no angle."""
    angle: float
    """Mean angle between two channels, in degrees."""
    angle_standard_error: float
    gray_share: float
    """Mean of `gray_share`: 1 for gray images, 1/channels for a single channel."""
    norm_difference: dict[str, float]
    """Each reading of "relative difference between the channel norms", as a fraction."""
    norm_difference_standard_error: dict[str, float]

    def table(self) -> list[dict[str, Any]]:
        """Return one row per quantity."""
        angle = {"quantity": "angle (degrees)", "value": self.angle, "standard_error": self.angle_standard_error}
        return [angle] + [
            {"quantity": f"norms: {name}", "value": value, "standard_error": self.norm_difference_standard_error[name]}
            for name, value in self.norm_difference.items()
        ]


def channel_statistics(images: Array) -> ChannelStatistics:
    r"""Return angle between color channels and relative difference of their norms, over images ``[n, channels, …]``.

    [Nachum2022]_ section 4.1 reports about 12.5° and 9.2 % for ImageNet and does not define the second number, so every
    reasonable reading is given. Per image, with the channel norms a, b of a pair of channels (mean over pairs):
    ``pair / larger`` :math:`|a-b|/\max(a,b)`, ``pair / smaller``, ``pair / mean`` :math:`|a-b|/\frac{a+b}2`; over all
    channels: ``range / mean`` (max - min)/mean, ``range / largest``, ``deviation / mean`` (standard deviation, divisor
    = number of channels), ``mean deviation / mean`` (mean absolute deviation). Over the data set: ``of mean norms``,
    the ``pair / mean`` of the channels' mean norms, which forgets that images differ.

    >>> import numpy as np
    >>> stats = channel_statistics(np.random.default_rng(0).random((100, 3, 8, 8)))
    >>> round(stats.angle)      # independent uniform pixels: cosine 3/4
    41
    """
    if not array_api_compat.is_array_api_obj(images):
        images = np.asarray(images)
    if images.ndim < 3 or images.shape[1] < 2 or images.shape[0] < 2:
        raise InputError(
            f"images of shape {tuple(images.shape)} must be [n, channels, height, width] with at least two images and "
            "two channels; gray images have no color statistics"
        )
    gram = np.stack([_gram(image) for image in images])
    if not np.isfinite(gram).all():
        wrong = int(np.argmin(np.isfinite(gram).all(axis=(1, 2))))
        raise InputError(f"image {wrong} holds NaN, infinity or values whose squares overflow; clean the data")
    squares = np.diagonal(gram, axis1=1, axis2=2)
    usable = (squares > 0).all(axis=1)
    if usable.sum() < 2:
        raise InputError("fewer than two images have all channels non-zero; channel angles need more")
    gram, norms = gram[usable], np.sqrt(squares[usable])
    pairs = list(itertools.combinations(range(images.shape[1]), 2))
    first, second = (list(side) for side in zip(*pairs))
    cosines = np.clip(gram[:, first, second] / (norms[:, first] * norms[:, second]), -1, 1)
    angles = np.degrees(np.arccos(cosines)).mean(axis=1)
    gap, total = np.abs(norms[:, first] - norms[:, second]), norms[:, first] + norms[:, second]
    mean, largest = norms.mean(axis=1), norms.max(axis=1)
    readings = {
        "pair / larger": (gap / np.maximum(norms[:, first], norms[:, second])).mean(axis=1),
        "pair / smaller": (gap / np.minimum(norms[:, first], norms[:, second])).mean(axis=1),
        "pair / mean": (2 * gap / total).mean(axis=1),
        "range / mean": (largest - norms.min(axis=1)) / mean,
        "range / largest": 1 - norms.min(axis=1) / largest,
        "deviation / mean": norms.std(axis=1) / mean,
        "mean deviation / mean": np.abs(norms - mean[:, None]).mean(axis=1) / mean,
    }
    values = {name: float(reading.mean()) for name, reading in readings.items()}
    errors = {name: standard_error(reading) for name, reading in readings.items()}
    values["of mean norms"], errors["of mean norms"] = _of_mean_norms(norms, first, second)
    return ChannelStatistics(
        images=int(usable.sum()),
        skipped=int((~usable).sum()),
        angle=float(angles.mean()),
        angle_standard_error=standard_error(angles),
        gray_share=float((gram.sum(axis=(1, 2)) / (gram.shape[1] * squares[usable].sum(axis=1))).mean()),
        norm_difference=values,
        norm_difference_standard_error=errors,
    )


def gray_share(images: Array) -> Array:
    r"""Share of an image's energy that is gray, :math:`\|\sum_c x_c\|^2 / (d\,\|x\|^2)`; images ``[n, channels, …]``.

    It is 1 if all d channels are equal, and 1/d if there is only one of them: it measures how far an image is from the
    images of a single color, for which [Nachum2022]_ section 4.1 expects its gray-image analysis to fail.

    >>> import numpy as np
    >>> gray_share(np.eye(3).reshape(1, 3, 3, 1)).round(3)
    array([0.333])
    """
    xp, images, _ = check_pairs(images, images)
    axes = tuple(range(1, images.ndim))
    energy = xp.sum(images**2, axis=axes)
    if not bool(xp.all(energy > 0)):
        raise InputError("an image that is zero or holds NaN has no gray share; leave it out")
    return xp.sum(xp.sum(images, axis=1) ** 2, axis=axes[:-1]) / (images.shape[1] * energy)


@dataclass(frozen=True)
class MonochromaticImage(Result):
    """One image of nearly one color: its index, its `gray_share`, and the distribution of its energy over channels."""

    index: int
    name: str
    gray_share: float
    energy: tuple[float, ...]


@dataclass(frozen=True)
class MonochromaticOutliers(Result):
    """Images of nearly one color, the purest first (see `monochromatic_outliers`)."""

    images: int
    below: float
    skipped: int
    """Images that are black: they have no color."""
    outliers: tuple[MonochromaticImage, ...]

    @property
    def share(self) -> float:
        """Their share of the images that have a color."""
        return len(self.outliers) / max(self.images - self.skipped, 1)

    def table(self) -> list[dict[str, Any]]:
        """Return one row per outlier."""
        return [
            {"index": outlier.index, "name": outlier.name, "gray_share": outlier.gray_share}
            | {f"energy_{channel}": share for channel, share in enumerate(outlier.energy)}
            for outlier in self.outliers
        ]


def monochromatic_outliers(
    images: Array, *, below: float | None = None, names: Sequence[str] = ()
) -> MonochromaticOutliers:
    """The images ``[n, channels, …]`` that are predominantly of one color: those with a `gray_share` under ``below``.

    For pairs of them a layer acts like a dense one; [Nachum2022]_ section 4.1 treats them as outliers of small measure.
    ``below`` is by default halfway between one channel alone and gray, (1 + 1/d)/2: 2/3 for three channels, the value
    of pure yellow. ``names``, for example of the files, appear in the list next to the numbers.

    >>> import numpy as np
    >>> red, grey = np.eye(3)[0].reshape(1, 3, 1, 1), np.ones((1, 3, 1, 1))
    >>> [found.index for found in monochromatic_outliers(np.concatenate([grey, red])).outliers]
    [1]
    """
    xp, images, _ = check_pairs(images, images)
    count, channels = images.shape[:2]
    if channels < 2:
        raise InputError(f"images of {channels} channel have no color; give color images")
    if len(names) not in (0, count):
        raise InputError(f"{len(names)} names for {count} images; give one for each, or none")
    limit = (
        (1 + 1 / channels) / 2 if below is None else check_between("below", below, 0.0, 1.0, hint="a share of energy")
    )
    energy = as_numpy(xp.sum(xp.reshape(images, (count, channels, -1)) ** 2, axis=2)).astype(np.float64)
    colored = np.flatnonzero(energy.sum(axis=1) > 0)
    share = {int(k): float(gray_share(images[int(k)][None])[0]) for k in colored}
    outliers = tuple(
        MonochromaticImage(k, names[k] if names else "", share[k], tuple((energy[k] / energy[k].sum()).tolist()))
        for k in sorted(share, key=share.__getitem__)
        if share[k] < limit
    )
    return MonochromaticOutliers(count, limit, count - len(colored), outliers)


def red_green_pair(size: int = 8) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return a red and a green image ``[1, 3, size, size]`` of unit norm.

    They are orthogonal, but after one ReLU layer their mean cosine is 1/π: each patch pair is orthogonal, so the layer
    acts like a dense one. [Nachum2022]_ section 4.1. [Nachum2022]_ section 4.1.
    """
    size = check_count("size", size)
    red, green = np.zeros((2, 1, 3, size, size))
    red[:, 0] = green[:, 1] = 1 / size
    return red, green


def standard_error(values: npt.NDArray[np.float64]) -> float:
    """Return the standard error of the mean; NaN for a single value."""
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def _of_mean_norms(norms: npt.NDArray[np.float64], first: list[int], second: list[int]) -> tuple[float, float]:
    r"""Relative difference of the channels' mean norms, and its standard error.

    The error is the deviation over Gaussian means m (relative to their average) with the covariance of the observed
    ones. Their expectations are taken as :math:`1+k(m-1)`: noise adds its variance :math:`\tau` to the expected
    :math:`\|m-1\|^2`, hence :math:`k^2 = \max(0, 1-\tau/\|m-1\|^2)`. A derivative, such as the jackknife, would assume
    that a difference near 0 varies to both sides, and be 1.6 times too large, because it cannot be negative.
    """

    def difference(means: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        a, b = means[..., first], means[..., second]
        return np.asarray((2 * np.abs(a - b) / (a + b)).mean(axis=-1))

    levels = norms.mean(axis=1)
    means = norms.mean(axis=0) / levels.mean()
    covariance = np.cov((norms - np.outer(levels, means)) / levels.mean(), rowvar=False) / len(norms)
    apart, noise = means - 1, float(np.trace(covariance))
    kept = math.sqrt(max(0.0, 1 - noise / max(float(apart @ apart), 1e-300)))
    variances, directions = np.linalg.eigh(covariance)
    gaussian = np.random.default_rng(0).standard_normal((_RESAMPLES, len(means)))
    errors = gaussian @ (directions * np.sqrt(np.maximum(variances, 0.0))).T
    return float(difference(means)), float(difference(1 + kept * apart + errors).std())


def _gram(image: Array) -> npt.NDArray[np.float64]:
    """Return inner products of the channels of each image; one image at a time, so that integers need little memory."""
    xp, image = namespace(image)
    flat = xp.reshape(image, (image.shape[0], -1))
    return as_numpy(flat @ xp.matrix_transpose(flat)).astype(np.float64)
