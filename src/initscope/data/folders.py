"""`load_folder`: a folder of image files; its subfolders are the classes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from initscope._utils.files import check_memory, open_regular, reading
from initscope.data.image_set import ImageSet
from initscope.errors import InputError, check_count

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["SUFFIXES", "class_labels", "decoded", "file_names", "image_files", "load_folder", "read_images", "stacked",
           "target_size"]  # fmt: skip

SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
FORMATS = ["BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP"]  # others may run programs (Ghostscript)
GRAY_MODES = {"1", "L", "LA", "La"}
LARGEST_SIDE = 16_384
LARGEST_IMAGE = 1 << 27  # pixels, about 11,600 squared
_BYTES_A_PIXEL = 20  # while an image is read: three bytes, rotated, converted, and three floats
WIDE_MODES = {"I;16", "I;16B", "I;16L", "I"}


def load_folder(
    path: str | os.PathLike[str], size: int | tuple[int, int] | None = None, *, limit: int | None = None
) -> ImageSet:
    """Load the images of a folder, sorted by path; each subfolder is a class, including its own subfolders.

    Hidden files and files without an image suffix are skipped. If all images are gray they stay gray, else all become
    RGB. Transparency is dropped and the EXIF orientation is applied. 8-bit values are divided by 255, 16-bit values by
    65535.

    Parameters
    ----------
    path
        The folder.
    size
        Side, or (height, width): every image is cropped around its center to the proportions of that shape and resized
        (Lanczos). Without it, all images must have the same size.
    limit
        Load at most this many images, evenly spaced over the sorted list so that every class stays represented.
    """
    folder = Path(path)
    files = image_files(folder)
    labels, names = class_labels(folder, files)
    keep = _chosen(len(files), limit)
    shape = target_size(size)
    images = read_images([files[index] for index in keep], shape)
    labels = None if labels is None else labels[keep]
    steps = ["values / 255 (16 bit: / 65535)"]
    if shape is not None:
        steps.insert(0, f"center crop, resize to {shape[0]}×{shape[1]}")
    return ImageSet(images, labels, names, name=str(path), steps=tuple(steps))


def class_labels(folder: Path, files: Sequence[Path]) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    """Return the class index of every file (its subfolder) and the class names; None if there are no subfolders."""
    classes = [file.relative_to(folder).parts[0] if file.parent != folder else "" for file in files]
    if "" in classes and any(classes):
        inner = next(file for file, name in zip(files, classes) if name)
        raise InputError(
            f"{folder} holds images itself ({files[classes.index('')].name}) and in subfolders ({inner}); "
            "put every image into the subfolder of its class, or all into one folder"
        )
    names = sorted(set(classes) - {""})
    numbers = {name: number for number, name in enumerate(names)}
    return (np.array([numbers[name] for name in classes]) if names else None), tuple(names)


def _chosen(count: int, limit: int | None) -> NDArray[np.int64]:
    """Return evenly spaced indices of at most ``limit`` files."""
    kept = count if limit is None else min(check_count("limit", limit), count)
    return np.arange(kept) * count // kept


def file_names(path: str | os.PathLike[str], *, limit: int | None = None) -> list[str]:
    """Return the relative paths of the images that `load_folder` loads, in its order."""
    files = image_files(Path(path))
    return [str(files[index].relative_to(path)) for index in _chosen(len(files), limit)]


def image_files(folder: Path) -> list[Path]:
    """Return the image files below ``folder``, sorted, without hidden files; at least one."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give the path of a folder of images")
    files = sorted(
        file
        for file in folder.rglob("*")
        if file.suffix.lower() in SUFFIXES
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
    )
    if not files:
        kinds = " ".join(sorted(SUFFIXES))
        raise InputError(f"{folder} holds no images (looked for {kinds}, also in subfolders); give another folder")
    return files


def read_images(files: Sequence[Path], size: tuple[int, int] | None) -> NDArray[np.float32]:
    """Read files as ``[N, C, H, W]`` in [0, 1]; one channel if all are gray, else three."""
    return stacked((_read(file, size) for file in files), len(files), files[0].parent, files)


def stacked(
    images: Iterable[NDArray[np.float32]], count: int, source: str | os.PathLike[str], names: Sequence[Any] = ()
) -> NDArray[np.float32]:
    """Return images ``[C, H, W]`` of one size as ``[N, C, H, W]``; one channel if all are gray, else three.

    Parameters
    ----------
    images
        What `decoded` returns, one after the other.
    count
        Number of images.
    source
        Where they come from, for messages.
    names
        What messages call each of them; default: their rows.
    """
    read: list[NDArray[np.float32]] = []
    for image in images:
        read.append(image)
        if len(read) == 1:
            check_memory(source, 2 * image.nbytes * count, "use fewer images (--limit) or smaller (--size)")
        if image.shape[1:] != read[0].shape[1:]:
            (expected, actual) = ("×".join(map(str, shape[1:])) for shape in (read[0].shape, image.shape))
            first, other = (names[row] if names else f"{source}, row {row}" for row in (0, len(read) - 1))
            raise InputError(
                f"images have different sizes: {first} is {expected}, {other} is {actual} (height×width); "
                "give --size (size=) to crop and resize them all"
            )
    channels = max(len(image) for image in read)
    return np.stack([np.broadcast_to(image, (channels, *image.shape[1:])) for image in read])


def _read(file: Path, size: tuple[int, int] | None) -> NDArray[np.float32]:
    with reading(file, "a readable image", "remove or repair it"), open_regular(file) as stream:
        return decoded(file, stream, size)


def decoded(name: str | os.PathLike[str], stream: BinaryIO, size: tuple[int, int] | None = None) -> NDArray[np.float32]:
    """Return an encoded image as ``[C, H, W]`` in [0, 1], upright, with 1 or 3 channels.

    Parameters
    ----------
    name
        What messages call the image.
    stream
        The bytes of the image.
    size
        Height and width to crop and resize to.
    """
    from PIL import Image

    with reading(name, "a readable image", "remove or repair it"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about unusual files, and about large ones, which `_check_size` handles
        try:
            with Image.open(stream, formats=FORMATS) as opened:
                _check_size(name, opened.size, size)
                pixels, largest = _pixels(name, opened, size)
        except Image.DecompressionBombError as error:
            raise InputError(f"{name} has more than {LARGEST_IMAGE} pixels; make it smaller") from error
    pixels = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    scaled: NDArray[np.float32] = np.clip(pixels / np.float32(largest), 0, 1)
    return scaled


def _check_size(file: str | os.PathLike[str], extent: tuple[int, int], size: tuple[int, int] | None) -> None:
    """Raise `InputError` before an image is unpacked if it is too large, or would be after resizing."""
    pixels = extent[0] * extent[1]
    if pixels > LARGEST_IMAGE:
        raise InputError(f"{file} has {pixels} pixels, more than {LARGEST_IMAGE}; make it smaller")
    resized = pixels if size is None else size[0] * size[1]
    check_memory(file, _BYTES_A_PIXEL * max(pixels, resized), "make it smaller, or give a smaller --size")


def _pixels(
    file: str | os.PathLike[str], image: Image.Image, size: tuple[int, int] | None
) -> tuple[NDArray[np.float32], float]:
    """Return pixels ``[H, W]`` or ``[H, W, 3]``, upright, cropped and resized, and the largest possible value."""
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(image)
    if image.mode in WIDE_MODES:
        largest = 65535.0
        image = Image.fromarray(np.asarray(image).astype(np.float32))
    elif image.mode == "F":
        raise InputError(f"{file} holds floating-point pixels of unknown range; convert it to 8 or 16 bit")
    else:
        largest = 255.0
        image = image.convert("L" if image.mode in GRAY_MODES else "RGB")
    if size is not None:
        image = image.crop(_center(image.size, size)).resize((size[1], size[0]), Image.Resampling.LANCZOS)
    return np.asarray(image, dtype=np.float32), largest


def _center(extent: tuple[int, int], size: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return the box (left, top, right, bottom) of the largest centered rectangle with the proportions of ``size``."""
    width, height = extent
    scale = min(height / size[0], width / size[1])
    across, down = max(1, round(size[1] * scale)), max(1, round(size[0] * scale))
    left, top = (width - across) // 2, (height - down) // 2
    return left, top, left + across, top + down


def target_size(size: int | tuple[int, int] | None) -> tuple[int, int] | None:
    """Return (height, width) from one side or both, checked."""
    if size is None:
        return None
    height, width = (size, size) if isinstance(size, int) else size
    down, across = (check_count("size", side, most=LARGEST_SIDE, hint="in pixels") for side in (height, width))
    return down, across
