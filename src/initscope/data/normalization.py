"""`normalize`: shift and scale the values of an `ImageSet`, and record the step."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from initscope.data.image_set import ImageSet
from initscope.errors import InputError

__all__ = ["IMAGENET_MEAN", "IMAGENET_STD", "normalize"]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def normalize(data: ImageSet, how: str) -> ImageSet:
    """Return ``(images - mean) / std``; the step taken is added to ``ImageSet.steps``.

    Parameters
    ----------
    data
        The images.
    how
        ``"imagenet"``: mean .485/.456/.406 and std .229/.224/.225 of red, green, blue, as most published networks
        expect; ``"standardize"``: mean and (population) standard deviation of each channel over all images and pixels
        of this very set, for vectors one mean and one std over all entries; ``"MEAN,STD"``: two numbers for all
        channels, for example ``"0.5,0.5"``.

    Examples
    --------
    >>> import numpy as np
    >>> normalize(ImageSet(np.ones((2, 1, 4, 4))), "0.5,0.25").images.max()
    np.float32(2.0)
    """
    if how == "imagenet":
        if data.images.ndim != 4 or data.shape[0] != 3:
            raise InputError(
                f"normalize = 'imagenet' needs 3 channels (red, green, blue), {data.name} has shape "
                f"{data.images.shape}; use 'standardize' or 'MEAN,STD'"
            )
        mean, std = np.array(IMAGENET_MEAN), np.array(IMAGENET_STD)
    elif how == "standardize":
        axes = tuple(axis for axis in range(data.images.ndim) if axis != 1 or data.images.ndim == 2)
        mean = np.atleast_1d(data.images.mean(axis=axes, dtype=np.float64))
        std = np.atleast_1d(data.images.std(axis=axes, dtype=np.float64))
        if not (std > 0).all():
            channel = int(np.argmin(std > 0))
            raise InputError(
                f"normalize = 'standardize': channel {channel} of {data.name} is constant ({mean[channel]:g}), "
                "its standard deviation is 0; use 'MEAN,STD' with your own numbers"
            )
    else:
        mean, std = (np.array([value]) for value in _numbers(how))
    by_channel = (1, -1, *[1] * (data.images.ndim - 2)) if len(mean) > 1 else ()
    images = (data.images - mean.astype(np.float32).reshape(by_channel)) / std.astype(np.float32).reshape(by_channel)
    step = f"normalize {how}: (value - {_text(mean)}) / {_text(std)}"
    return replace(data, images=images, steps=(*data.steps, step))


def _numbers(how: str) -> tuple[float, float]:
    try:
        mean, std = (float(part) for part in how.split(","))
    except ValueError:
        raise InputError(
            f"normalize = {how!r} is not known; use 'imagenet', 'standardize' or 'MEAN,STD', such as '0.5,0.5'"
        ) from None
    if not math.isfinite(mean) or not 0 < std < math.inf:
        raise InputError(f"normalize = {how!r}: mean must be finite and std positive; for example '0.5,0.5'")
    return mean, std


def _text(values: np.ndarray) -> str:
    return "/".join(f"{value:.4g}" for value in values)
