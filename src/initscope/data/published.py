"""Published data sets, from local files or (where there is an official archive) downloaded with a checksum."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from initscope._utils.files import open_regular, reading
from initscope._utils.tensors import StoredArray, stored_arrays
from initscope.data.idx import read_idx
from initscope.data.image_set import ImageSet
from initscope.data.locations import Remote, fetch, find, missing
from initscope.errors import InputError

__all__ = ["cifar10", "fashion_mnist", "first_rows", "imagenet_sample"]

FASHION_CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
FASHION_URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
FASHION_FILES = {
    name: Remote("fashion-mnist", f"{FASHION_URL}{name}.gz", sha256, megabytes)
    for name, sha256, megabytes in (
        ("train-images-idx3-ubyte", "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84", 26),
        ("train-labels-idx1-ubyte", "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845", 1),
        ("t10k-images-idx3-ubyte", "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073", 5),
        ("t10k-labels-idx1-ubyte", "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5", 1),
    )
}

CIFAR_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
# The binary edition: the same pixels as the Python edition, and nothing to unpickle.
CIFAR_ARCHIVE = Remote(
    "cifar10",
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    170,
)
CIFAR_RECORD = 1 + 3 * 32 * 32
CIFAR_FILE = 10_000 * CIFAR_RECORD
CIFAR_MEMBERS = 100

BYTES = ("bytes / 255",)
AGAIN = "fetch it again"


def fashion_mnist(
    *, split: str = "train", limit: int | None = None, download: bool = True, mirror: str | None = None
) -> ImageSet:
    """Fashion-MNIST: 60,000 training and 10,000 test images of clothes, 1×28×28, ten classes."""
    prefix = "train" if split == "train" else "t10k"
    images, labels = (
        read_idx(_fashion_file(f"{prefix}-{part}-ubyte", download, mirror), limit=limit)
        for part in ("images-idx3", "labels-idx1")
    )
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise InputError(f"fashion-mnist: images {images.shape} and labels {labels.shape} do not fit; fetch them again")
    return ImageSet(images[:, None] / np.float32(255), labels, FASHION_CLASSES, name="fashion-mnist", steps=BYTES)


def _fashion_file(name: str, download: bool, mirror: str | None) -> Path:
    folders = ("fashion-mnist/", "FashionMNIST/raw/", "")
    file = find(*(f"{folder}{name}{suffix}" for folder in folders for suffix in (".gz", "")))
    if file:
        return file
    ways = (
        "on Debian or Ubuntu: apt-get install dataset-fashion-mnist",
        f"put the four IDX files (among them {name}.gz) into FOLDER/fashion-mnist and set INITSCOPE_DATA=FOLDER",
        f"with a network, initscope downloads it from {FASHION_URL} (31 MB), or from a mirror: INITSCOPE_MIRROR=URL",
    )
    return _download("fashion-mnist", FASHION_FILES[name], ways, download, mirror)


def cifar10(
    *, split: str = "train", limit: int | None = None, download: bool = True, mirror: str | None = None
) -> ImageSet:
    """CIFAR-10: 50,000 training and 10,000 test photographs, 3×32×32, ten classes."""
    archive = find(f"cifar10_{split}.npz", CIFAR_ARCHIVE.file)
    if archive is None:
        ways = (
            "put cifar10_train.npz and cifar10_test.npz (images uint8 [N, 32, 32, 3], labels) into a folder and set "
            "INITSCOPE_DATA to it",
            f"put the archive {CIFAR_ARCHIVE.file} of the CIFAR-10 page into such a folder",
            f"with a network, initscope downloads {CIFAR_ARCHIVE.url} ({CIFAR_ARCHIVE.megabytes} MB), or from a "
            "mirror: INITSCOPE_MIRROR=URL",
        )
        archive = _download("cifar10", CIFAR_ARCHIVE, ways, download, mirror)
    if archive.suffix == ".npz":
        images, labels = first_rows(archive, ("images", "labels"), limit)
        images = _channels_first(archive, images)
    else:
        images, labels = _read_cifar_archive(archive, split, limit)
    with reading(archive, "CIFAR-10", AGAIN):
        return ImageSet(images / np.float32(255), labels, CIFAR_CLASSES, name="cifar10", steps=BYTES)


def first_rows(path: Path, names: tuple[str, ...], limit: int | None) -> list[NDArray[Any]]:
    """Return the first ``limit`` rows of arrays of a .npz file, which must have equal lengths."""
    content = stored_arrays(path, hint=AGAIN)
    if isinstance(content, StoredArray) or not set(names) <= set(content):
        raise InputError(f"{path} does not hold the arrays {', '.join(names)}; {AGAIN}")
    arrays = [content[name] for name in names]
    total = {array.shape[:1] for array in arrays}
    if len(total) != 1 or total == {()}:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in zip(names, arrays))
        raise InputError(f"{path}: the arrays have different lengths: {shapes}; {AGAIN}")
    rows = None if limit is None else np.arange(min(limit, total.pop()[0]))
    return [array.read(rows) for array in arrays]


def _channels_first(path: Path, images: NDArray[Any]) -> NDArray[np.uint8]:
    """Move the channels of bytes ``[N, H, W, 3]`` to the front."""
    if images.ndim != 4 or images.shape[3] != 3 or images.dtype != np.uint8:
        raise InputError(f"{path} holds images {images.dtype} {images.shape}, not uint8 [N, H, W, 3]; {AGAIN}")
    return images.transpose(0, 3, 1, 2)


def _read_cifar_archive(path: Path, split: str, limit: int | None) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return images ``[N, 3, 32, 32]`` and labels; a record is one label byte and 3,072 pixel bytes, channels first."""
    files = [f"data_batch_{number}.bin" for number in range(1, 6)] if split == "train" else ["test_batch.bin"]
    batches: list[bytes] = []
    wanted = None if limit is None else limit * CIFAR_RECORD
    with (
        reading(path, "the binary edition of CIFAR-10", AGAIN),
        open_regular(path) as stored,
        gzip.open(stored) as unpacked,
        tarfile.open(fileobj=_Bounded(unpacked), mode="r:") as archive,  # type: ignore[call-overload]
    ):
        members = {member.name.rsplit("/", 1)[-1]: member for member in _members(path, archive) if member.isfile()}
        for file in files:
            if wanted is not None and sum(map(len, batches)) >= wanted:
                break
            stream = archive.extractfile(members[file])
            batches.append(stream.read() if stream else b"")
    values = np.frombuffer(b"".join(batches), dtype=np.uint8)
    if values.size % CIFAR_RECORD:
        raise InputError(f"{path}: {values.size} bytes are not whole records of {CIFAR_RECORD}; fetch it again")
    records = values.reshape(-1, CIFAR_RECORD)[:limit]
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]


def _members(path: Path, archive: tarfile.TarFile) -> list[tarfile.TarInfo]:
    """Return the members of the archive; raise `InputError` as soon as one is larger than in CIFAR-10."""
    members = []
    for member in archive:
        members.append(member)
        if member.size > CIFAR_FILE or len(members) > CIFAR_MEMBERS:
            raise InputError(f"{path} holds more than CIFAR-10 does ({member.name}: {member.size} bytes); {AGAIN}")
    return members


class _Bounded:
    """A file that refuses reads larger than any file of CIFAR-10, as a guard against decompression bombs."""

    def __init__(self, file: BinaryIO | gzip.GzipFile) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= CIFAR_FILE:
            raise ValueError(f"a piece of {size} bytes")
        return self._file.read(size)


def imagenet_sample(*, limit: int | None = None, resolution: int = 128) -> ImageSet:
    """Return one photograph of each of 1,000 ImageNet classes, center crop; ``resolution`` 128 (1,000) or 224.

    Read from ``imagenet_sample_RESOLUTION.npz`` (uint8 ``[N, H, W, 3]``, names) or from the folder
    ``imagenet-sample-images`` of JPEG files (any resolution) in a folder of ``INITSCOPE_DATA``.
    """
    location = find(f"imagenet_sample_{resolution}.npz", "imagenet-sample-images")
    if location is None:
        ways = (
            f"put imagenet_sample_{resolution}.npz (images uint8 [N, H, W, 3], name) into a folder and set "
            "INITSCOPE_DATA to it (resolutions made so far: 128 and 224)",
            "in such a folder: git clone https://github.com/EliSchwartz/imagenet-sample-images",
            f"use your own photographs instead: --data FOLDER --size {resolution}",
        )
        raise missing(f"imagenet-sample at {resolution}×{resolution}", ways)
    if location.is_dir():
        from initscope.data.folders import image_files, read_images

        files = image_files(location)[:limit]
        names = tuple(file.stem.partition("_")[2] or file.stem for file in files)
        steps = (f"center crop, resize to {resolution}×{resolution}", *BYTES)
        photographs = read_images(files, (resolution, resolution))
        return ImageSet(photographs, np.arange(len(files)), names, name="imagenet-sample", steps=steps)
    pixels, named = first_rows(location, ("images", "name"), limit)
    images = _channels_first(location, pixels) / np.float32(255)
    return ImageSet(images, np.arange(len(images)), tuple(map(str, named)), name="imagenet-sample", steps=BYTES)


def _download(name: str, remote: Remote, ways: tuple[str, str, str], download: bool, mirror: str | None) -> Path:
    if not download:
        raise missing(name, ways)
    try:
        return fetch(remote, mirror=mirror)
    except (OSError, ValueError) as error:
        raise missing(name, ways, error) from error
