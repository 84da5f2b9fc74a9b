"""Data that ships with scikit-learn and is always available: two photographs and 1,797 digits."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np

from initscope.data.image_set import ImageSet
from initscope.errors import check_count

__all__ = ["digits", "photos"]


def photos(*, limit: int | None = None, crop: int = 64, stride: int | None = None) -> ImageSet:
    """Square crops of scikit-learn's two sample photographs (427×640): a temple in China and a flower.

    Parameters
    ----------
    limit
        The first ``limit`` crops.
    crop
        Side of a crop in pixels.
    stride
        Step between crops; by default ``crop``, so that they do not overlap (120 crops of 64×64).

    The order of the crops is random but fixed, so that the first few already come from all parts of both photographs.
    """
    crop = check_count("crop", crop, most=427, hint="the photographs are 427×640")
    stride = check_count("stride", crop if stride is None else stride)
    photographs = [_photograph(f"{name}.jpg") for name in ("china", "flower")]
    windows = [
        np.lib.stride_tricks.sliding_window_view(photograph, (crop, crop), axis=(0, 1))[::stride, ::stride]
        for photograph in photographs
    ]
    crops = np.concatenate([window.reshape(-1, 3, crop, crop) for window in windows])
    labels = np.repeat(np.arange(len(windows)), [window.shape[0] * window.shape[1] for window in windows])
    order = np.random.default_rng(0).permutation(len(crops))[:limit]
    return ImageSet(
        crops[order] / np.float32(255), labels[order], ("china", "flower"), name="photos", steps=("bytes / 255",)
    )


def _file_of_sklearn(name: str) -> Path | None:
    """Return a file in scikit-learn's data folder, if it is there; importing scikit-learn takes over a second."""
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        return None
    path = Path(package.origin).parent / "datasets" / name
    return path if path.exists() else None


def _photograph(name: str) -> np.ndarray:
    """Return a photograph ``[427, 640, 3]``."""
    path = _file_of_sklearn(f"images/{name}")
    if path is None:  # another layout
        from sklearn.datasets import load_sample_image

        return np.asarray(load_sample_image(name))
    from PIL import Image

    with Image.open(path) as photograph:
        return np.asarray(photograph)


def digits(*, limit: int | None = None) -> ImageSet:
    """scikit-learn's 1,797 handwritten digits, 1×8×8, 17 gray levels."""
    path = _file_of_sklearn("data/digits.csv.gz")
    if path is None:  # another layout
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
    else:
        rows = np.loadtxt(path, delimiter=",")  # 64 pixels and the digit
        pixels, labels = rows[:, :-1], rows[:, -1].astype(int)
    images = pixels.reshape(-1, 1, 8, 8) / 16
    data = ImageSet(images, labels, tuple(map(str, range(10))), name="digits", steps=("values / 16",))
    return data if limit is None else data.take(limit)
