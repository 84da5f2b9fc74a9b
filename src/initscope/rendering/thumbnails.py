"""Small JPEG data URIs of a few pairs, with their angles at the input and after the network."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope.geometry import covered_rows

if TYPE_CHECKING:
    from initscope.geometry import Floats

__all__ = ["Thumbnail", "data_uri", "thumbnails"]

_SIDE = 96  # pixels; larger images are scaled down


@dataclass(frozen=True)
class Thumbnail:
    """The two images of a pair as data URIs, and its angle at the input and after the last covered layer."""

    x: str
    y: str
    before: float
    after: float


def thumbnails(x: Any, y: Any, *, angles: Floats, count: int = 6) -> list[Thumbnail]:
    """Return ``count`` pairs, sorted by their angle; an empty list if they are not gray or RGB images.

    ``angles`` has shape ``[rows, pairs]``. If values lie outside [0, 1], one affine map rescales all images.
    """
    images = np.stack([np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)])
    if images.ndim != 5 or images.shape[2] not in (1, 3) or min(images.shape[3:]) < 4:
        return []
    covered = covered_rows(angles)
    if not covered:
        return []
    first, last = covered[0], covered[-1]
    order = np.argsort(angles[first], kind="stable")
    order = order[np.isfinite(angles[first, order]) & np.isfinite(angles[last, order])]
    chosen = order[np.linspace(0, len(order) - 1, min(count, len(order))).round().astype(int)]
    low, high = min(0.0, images.min()), max(1.0, images.max())
    pixels = np.round(255 * (images[:, chosen] - low) / (high - low)).astype(np.uint8)
    return [
        Thumbnail(data_uri(pixels[0, k]), data_uri(pixels[1, k]), *angles[[first, last], pair].tolist())
        for k, pair in enumerate(chosen)
    ]


def data_uri(pixels: Any) -> str:
    """Return an image ``[C, H, W]`` of bytes as a data URI, scaled down to at most 96 pixels.

    Parameters
    ----------
    pixels
        Array of uint8.
    """
    from PIL import Image

    image = Image.fromarray(pixels[0] if len(pixels) == 1 else np.ascontiguousarray(np.moveaxis(pixels, 0, -1)))
    image.thumbnail((_SIDE, _SIDE))
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=88)
    return "data:image/jpeg;base64," + base64.b64encode(stream.getvalue()).decode()
