"""`load_folder`: a folder of image files; its subfolders are the classes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from initscope._utils.files import check_memory, open_regular, reading
from initscope.data.image_set import ImageSet
from initscope.errors import InputError, check_count

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["class_labels", "file_names", "image_files", "load_folder", "read_images", "target_size"]

SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
FORMATS = ["BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP"]  # others may run programs (Ghostscript)
GREY_MODES = {"1", "L", "LA", "La"}
LARGEST_SIDE = 16_384
LARGEST_IMAGE = 1 << 27  # pixels: twelve thousand squared, more than any camera takes
_BYTES_A_PIXEL = 20  # while one is read: three bytes, turned, converted, and three floats
WIDE_MODES = {"I;16", "I;16B", "I;16L", "I"}


def load_folder(
    path: str | os.PathLike[str], size: int | tuple[int, int] | None = None, *, limit: int | None = None
) -> ImageSet:
    """Images of a folder, sorted by path; each subfolder is a class (its own subfolders belong to it).

    Files that are no images by their suffix, and hidden ones, are passed over. Grey images stay grey if all are grey,
    else everything becomes RGB; transparency is dropped; the orientation a camera noted (EXIF) is applied; 8-bit values
    are divided by 255, 16-bit ones by 65535.

    Parameters
    ----------
    path
        The folder.
    size
        Side, or (height, width): every image is cropped around its centre to that shape's proportions and resized
        (Lanczos). Without it all images must have one size already.
    limit
        At most so many images, evenly spaced over the sorted list so that every class stays represented.
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
        steps.insert(0, f"centre crop, resize to {shape[0]}×{shape[1]}")
    return ImageSet(images, labels, names, name=str(path), steps=tuple(steps))


def class_labels(folder: Path, files: Sequence[Path]) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    """Numbers of the classes of all files, which are their subfolders, and their names; None if there are none."""
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
    """Numbers of the files that a limit leaves, evenly spaced."""
    kept = count if limit is None else min(check_count("limit", limit), count)
    return np.arange(kept) * count // kept


def file_names(path: str | os.PathLike[str], *, limit: int | None = None) -> list[str]:
    """Paths, from the folder on, of the images that `load_folder` returns, in its order."""
    files = image_files(Path(path))
    return [str(files[index].relative_to(path)) for index in _chosen(len(files), limit)]


def image_files(folder: Path) -> list[Path]:
    """Image files below ``folder``, sorted, hidden ones left out; at least one."""
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
    """Read files as ``[N, C, H, W]`` in [0, 1]; one channel if all are grey, else three."""
    pictures: list[NDArray[np.float32]] = []
    for file in files:
        picture = _read(file, size)
        pictures.append(picture)
        if len(pictures) == 1:
            check_memory(file.parent, 2 * picture.nbytes * len(files), "use fewer images (--limit) or smaller (--size)")
        if picture.shape[1:] != pictures[0].shape[1:]:
            (one, other) = ("×".join(map(str, shape[1:])) for shape in (pictures[0].shape, picture.shape))
            raise InputError(
                f"images have different sizes: {files[0]} is {one}, {file} is {other} (height×width); "
                "give --size (size=) to crop and resize them all"
            )
    channels = max(len(picture) for picture in pictures)
    return np.stack([np.broadcast_to(picture, (channels, *picture.shape[1:])) for picture in pictures])


def _read(file: Path, size: tuple[int, int] | None) -> NDArray[np.float32]:
    from PIL import Image

    with (
        reading(file, "an image that can be read, whatever its name says", "remove or repair it"),
        warnings.catch_warnings(),
        open_regular(file) as stream,
    ):
        warnings.simplefilter("ignore")  # of odd files, and of large ones, which are checked here
        try:
            with Image.open(stream, formats=FORMATS) as opened:
                _check_size(file, opened.size, size)
                pixels, largest = _pixels(file, opened, size)
        except Image.DecompressionBombError as error:
            raise InputError(f"{file} has more than {LARGEST_IMAGE} pixels; make it smaller") from error
    pixels = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    scaled: NDArray[np.float32] = np.clip(pixels / np.float32(largest), 0, 1)
    return scaled


def _check_size(file: Path, extent: tuple[int, int], size: tuple[int, int] | None) -> None:
    """Refuse, before it is unpacked, an image that is too large, or would be when resized."""
    pixels = extent[0] * extent[1]
    if pixels > LARGEST_IMAGE:
        raise InputError(f"{file} has {pixels} pixels, more than {LARGEST_IMAGE}; make it smaller")
    made = pixels if size is None else size[0] * size[1]
    check_memory(file, _BYTES_A_PIXEL * max(pixels, made), "make it smaller, or give a smaller --size")


def _pixels(file: Path, image: Image.Image, size: tuple[int, int] | None) -> tuple[NDArray[np.float32], float]:
    """Pixels ``[H, W]`` or ``[H, W, 3]`` as they are, upright, cropped and resized; and the largest possible value."""
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(image)
    if image.mode in WIDE_MODES:
        largest = 65535.0
        image = Image.fromarray(np.asarray(image).astype(np.float32))
    elif image.mode == "F":
        raise InputError(f"{file} holds floating-point pixels of unknown range; convert it to 8 or 16 bit")
    else:
        largest = 255.0
        image = image.convert("L" if image.mode in GREY_MODES else "RGB")
    if size is not None:
        image = image.crop(_centre(image.size, size)).resize((size[1], size[0]), Image.Resampling.LANCZOS)
    return np.asarray(image, dtype=np.float32), largest


def _centre(extent: tuple[int, int], size: tuple[int, int]) -> tuple[int, int, int, int]:
    """Box (left, top, right, bottom) of the largest centred rectangle with the proportions of ``size``."""
    width, height = extent
    scale = min(height / size[0], width / size[1])
    across, down = max(1, round(size[1] * scale)), max(1, round(size[0] * scale))
    left, top = (width - across) // 2, (height - down) // 2
    return left, top, left + across, top + down


def target_size(size: int | tuple[int, int] | None) -> tuple[int, int] | None:
    """(height, width) of one side or both, checked."""
    if size is None:
        return None
    height, width = (size, size) if isinstance(size, int) else size
    down, across = (check_count("size", side, most=LARGEST_SIDE, hint="in pixels") for side in (height, width))
    return down, across
