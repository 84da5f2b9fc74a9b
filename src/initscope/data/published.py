"""Published data sets, from local files or (where there is an official archive) downloaded with a checksum."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from initscope.data.idx import read_idx
from initscope.data.image_set import ImageSet
from initscope.data.locations import Remote, fetch, find, missing
from initscope.errors import InputError

__all__ = ["cifar10", "fashion_mnist", "imagenet_sample"]

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

BYTES = ("bytes / 255",)


def fashion_mnist(
    *, split: str = "train", limit: int | None = None, download: bool = True, mirror: str | None = None
) -> ImageSet:
    """Fashion-MNIST: 60,000 training and 10,000 test pictures of clothes, 1×28×28, ten classes."""
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
    found = find(*(f"{folder}{name}{suffix}" for folder in folders for suffix in (".gz", "")))
    if found:
        return found
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
        with np.load(archive, allow_pickle=False) as arrays:
            images, labels = arrays["images"][:limit].transpose(0, 3, 1, 2), arrays["labels"][:limit]
    else:
        images, labels = _read_cifar_archive(archive, split, limit)
    return ImageSet(images / np.float32(255), labels, CIFAR_CLASSES, name="cifar10", steps=BYTES)


def _read_cifar_archive(path: Path, split: str, limit: int | None) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images ``[N, 3, 32, 32]`` and labels; a record is one label byte and 3,072 pixel bytes, channels first."""
    files = [f"data_batch_{number}.bin" for number in range(1, 6)] if split == "train" else ["test_batch.bin"]
    batches: list[bytes] = []
    wanted = None if limit is None else limit * CIFAR_RECORD
    try:
        with tarfile.open(path) as archive:
            members = {member.name.rsplit("/", 1)[-1]: member for member in archive.getmembers() if member.isfile()}
            for file in files:
                if wanted is not None and sum(map(len, batches)) >= wanted:
                    break
                stream = archive.extractfile(members[file])
                batches.append(stream.read() if stream else b"")
    except (OSError, KeyError, EOFError, tarfile.TarError) as error:
        raise InputError(f"{path} is not the binary edition of CIFAR-10 ({error}); fetch it again") from error
    values = np.frombuffer(b"".join(batches), dtype=np.uint8)
    if values.size % CIFAR_RECORD:
        raise InputError(f"{path}: {values.size} bytes are not whole records of {CIFAR_RECORD}; fetch it again")
    records = values.reshape(-1, CIFAR_RECORD)[:limit]
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]


def imagenet_sample(*, limit: int | None = None, resolution: int = 128) -> ImageSet:
    """One photograph of each of 1,000 ImageNet classes, centre crop; ``resolution`` 128 (1,000) or 224.

    Read from ``imagenet_sample_RESOLUTION.npz`` (uint8 ``[N, H, W, 3]``, names) or from the folder
    ``imagenet-sample-images`` of JPEG files (any resolution) in a folder of ``INITSCOPE_DATA``.
    """
    found = find(f"imagenet_sample_{resolution}.npz", "imagenet-sample-images")
    if found is None:
        ways = (
            f"put imagenet_sample_{resolution}.npz (images uint8 [N, H, W, 3], name) into a folder and set "
            "INITSCOPE_DATA to it (resolutions made so far: 128 and 224)",
            "in such a folder: git clone https://github.com/EliSchwartz/imagenet-sample-images",
            f"use your own photographs instead: --data FOLDER --size {resolution}",
        )
        raise missing(f"imagenet-sample at {resolution}×{resolution}", ways)
    if found.is_dir():
        from initscope.data.folders import image_files, read_images

        files = image_files(found)[:limit]
        names = tuple(file.stem.partition("_")[2] or file.stem for file in files)
        steps = (f"centre crop, resize to {resolution}×{resolution}", *BYTES)
        images = read_images(files, (resolution, resolution))
        return ImageSet(images, np.arange(len(files)), names, name="imagenet-sample", steps=steps)
    with np.load(found, allow_pickle=False) as arrays:
        pixels, names = arrays["images"][:limit], tuple(arrays["name"][:limit])
    images = pixels.transpose(0, 3, 1, 2) / np.float32(255)
    return ImageSet(images, np.arange(len(images)), names, name="imagenet-sample", steps=BYTES)


def _download(name: str, remote: Remote, ways: tuple[str, str, str], download: bool, mirror: str | None) -> Path:
    if not download:
        raise missing(name, ways)
    try:
        return fetch(remote, mirror=mirror)
    except (OSError, ValueError) as error:
        raise missing(name, ways, error) from error
