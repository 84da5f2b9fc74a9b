import gzip
import hashlib
import io
import tarfile
import tracemalloc

import numpy as np
import pytest
from PIL import Image

from initscope.data import load, locations, published
from initscope.data.idx import read_idx
from initscope.errors import InputError


def idx(array):
    """Bytes of an IDX file, written from the definition of the format."""
    array = np.asarray(array, np.uint8)
    sides = b"".join(side.to_bytes(4, "big") for side in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sides + array.tobytes()


@pytest.fixture
def fashion():
    rng = np.random.default_rng(0)
    return {
        "train-images-idx3-ubyte": rng.integers(0, 256, (20, 28, 28), dtype=np.uint8),
        "train-labels-idx1-ubyte": rng.integers(0, 10, 20, dtype=np.uint8),
        "t10k-images-idx3-ubyte": rng.integers(0, 256, (6, 28, 28), dtype=np.uint8),
        "t10k-labels-idx1-ubyte": rng.integers(0, 10, 6, dtype=np.uint8),
    }


def write_fashion(folder, arrays, *, compress=True):
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        if compress:
            (folder / f"{name}.gz").write_bytes(gzip.compress(idx(array)))
        else:
            (folder / name).write_bytes(idx(array))


@pytest.mark.parametrize("inside", ["fashion-mnist", "FashionMNIST/raw", "."])
@pytest.mark.parametrize("compress", [True, False])
def test_fashion_from_a_folder_of_the_environment(tmp_path, monkeypatch, fashion, inside, compress):
    write_fashion(tmp_path / "b" / inside, fashion, compress=compress)
    monkeypatch.setenv("INITSCOPE_DATA", f"{tmp_path / 'a'}:{tmp_path / 'b'}")
    data = load("fashion-mnist")
    assert np.array_equal(np.round(data.images[:, 0] * 255), fashion["train-images-idx3-ubyte"])
    assert np.array_equal(data.labels, fashion["train-labels-idx1-ubyte"])
    assert data.class_names[9] == "Ankle boot"
    assert data.images.max() == 1
    assert len(load("fashion-mnist", split="test")) == 6
    assert len(load("fashion-mnist", limit=3)) == 3


def test_fashion_from_the_system_folder(tmp_path, monkeypatch, fashion):
    write_fashion(tmp_path / "fashion-mnist", fashion)
    monkeypatch.setattr(locations, "SYSTEM_FOLDERS", (tmp_path,))
    assert len(load("fashion-mnist")) == 20


def serve_fashion(server, monkeypatch, fashion):
    """Put the files on the local server, and let their checksums be the ones expected."""
    write_fashion(server.folder / "fashion-mnist", fashion)
    for file in (server.folder / "fashion-mnist").iterdir():
        remote = published.FASHION_FILES[file.stem]
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        monkeypatch.setitem(
            published.FASHION_FILES, file.stem, locations.Remote(remote.dataset, remote.url, digest, remote.megabytes)
        )


def test_fashion_is_downloaded_once_from_a_mirror(server, monkeypatch, fashion):
    serve_fashion(server, monkeypatch, fashion)
    monkeypatch.setenv("INITSCOPE_MIRROR", server.url + "/")
    first = load("fashion-mnist")
    assert np.array_equal(first.labels, fashion["train-labels-idx1-ubyte"])
    assert server.requested == [f"/fashion-mnist/train-{part}-ubyte.gz" for part in ("images-idx3", "labels-idx1")]
    assert np.array_equal(load("fashion-mnist").images, first.images)
    assert len(server.requested) == 2
    monkeypatch.delenv("INITSCOPE_MIRROR")
    assert len(load("fashion-mnist", split="test", mirror=server.url)) == 6


def test_a_file_with_the_wrong_checksum_is_refused_and_not_kept(server, fashion, tmp_path):
    write_fashion(server.folder / "fashion-mnist", fashion)
    with pytest.raises(InputError, match=r"Three ways.*The download failed: SHA256 hash of downloaded file"):
        load("fashion-mnist", mirror=server.url)
    assert not [file for file in (tmp_path / "cache").rglob("*") if file.is_file()]


def test_missing_data_says_the_three_ways(server):
    ways = (
        r"Three ways to get it: \(1\).*apt-get install dataset-fashion-mnist.*\(2\).*INITSCOPE_DATA.*\(3\).*downloads"
    )
    with pytest.raises(InputError, match=ways + ".*The download failed: 404"):
        load("fashion-mnist", mirror=server.url)
    with pytest.raises(InputError, match=ways):
        load("fashion-mnist", download=False)
    with pytest.raises(InputError, match=r"cifar10 was not found.*\(1\).*cifar10_train.npz.*\(2\).*\(3\).*170 MB"):
        load("cifar10", download=False)
    with pytest.raises(InputError, match=r"imagenet-sample at 128×128.*\(1\).*\(2\).*git clone.*\(3\)"):
        load("imagenet-sample")
    assert len(server.requested) == 1


def test_damaged_idx_files(tmp_path, monkeypatch, fashion):
    monkeypatch.setenv("INITSCOPE_DATA", str(tmp_path))
    write_fashion(tmp_path, fashion, compress=False)
    images = tmp_path / "train-images-idx3-ubyte"
    images.write_bytes(images.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"idx3-ubyte ends too early: 15679 of 15680 bytes"):
        load("fashion-mnist")
    images.write_bytes(b"hello")
    with pytest.raises(InputError, match="is not an IDX file of unsigned bytes"):
        load("fashion-mnist")
    write_fashion(tmp_path, fashion)
    packed = tmp_path / "train-images-idx3-ubyte.gz"
    packed.write_bytes(packed.read_bytes()[:200])
    with pytest.raises(InputError, match=r"idx3-ubyte.gz is not an IDX file, or damaged"):
        load("fashion-mnist")


@pytest.fixture
def cifar():
    rng = np.random.default_rng(1)
    return {
        split: (rng.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8), rng.integers(0, 10, count, dtype=np.uint8))
        for split, count in (("train", 25), ("test", 5))
    }


def cifar_archive(cifar):
    """The official binary edition: a record is the label, then red, green and blue planes."""
    (images, labels), (test_images, test_labels) = cifar["train"], cifar["test"]
    batches = {
        f"data_batch_{n + 1}.bin": (images[5 * n : 5 * n + 5], labels[5 * n : 5 * n + 5]) for n in reversed(range(5))
    }
    batches["test_batch.bin"] = (test_images, test_labels)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, (pixels, classes) in batches.items():
            records = b"".join(
                bytes([label]) + b"".join(picture[:, :, channel].tobytes() for channel in range(3))
                for picture, label in zip(pixels, classes)
            )
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(records)
            archive.addfile(member, io.BytesIO(records))
    return buffer.getvalue()


def check_cifar(cifar, **options):
    for split, (pixels, labels) in cifar.items():
        data = load("cifar10", split=split, **options)
        assert np.array_equal(np.round(data.images * 255), pixels.transpose(0, 3, 1, 2))
        assert np.array_equal(data.labels, labels)
        few = load("cifar10", split=split, limit=4, **options)
        assert np.array_equal(few.images, data.images[:4])
    assert load("cifar10", limit=7, **options).labels.tolist() == cifar["train"][1][:7].tolist()


def test_cifar_from_npz(tmp_path, monkeypatch, cifar):
    for split, (pixels, labels) in cifar.items():
        np.savez(tmp_path / f"cifar10_{split}.npz", images=pixels, labels=labels)
    monkeypatch.setenv("INITSCOPE_DATA", str(tmp_path))
    check_cifar(cifar)


def test_cifar_from_the_archive_in_a_folder(tmp_path, monkeypatch, cifar):
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(cifar_archive(cifar))
    monkeypatch.setenv("INITSCOPE_DATA", str(tmp_path))
    check_cifar(cifar)


def test_cifar_from_a_mirror(server, monkeypatch, cifar):
    archive = cifar_archive(cifar)
    (server.folder / "cifar10").mkdir()
    (server.folder / "cifar10" / "cifar-10-binary.tar.gz").write_bytes(archive)
    old = published.CIFAR_ARCHIVE
    new = locations.Remote(old.dataset, old.url, hashlib.sha256(archive).hexdigest(), old.megabytes)
    monkeypatch.setattr(published, "CIFAR_ARCHIVE", new)
    check_cifar(cifar, mirror=server.url)
    assert len(server.requested) == 1


def test_an_archive_that_is_not_cifar(tmp_path, monkeypatch):
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(b"nothing")
    monkeypatch.setenv("INITSCOPE_DATA", str(tmp_path))
    with pytest.raises(InputError, match="is not the binary edition of CIFAR-10"):
        load("cifar10")


def test_imagenet_sample_from_npz_and_from_the_folder_of_pictures(tmp_path, monkeypatch):
    monkeypatch.setenv("INITSCOPE_DATA", str(tmp_path))
    pixels = np.random.default_rng(2).integers(0, 256, (3, 224, 224, 3), dtype=np.uint8)
    np.savez(tmp_path / "imagenet_sample_224.npz", images=pixels, name=np.array(["tench", "hen", "cock"]))
    data = load("imagenet-sample", resolution=224, limit=2)
    assert np.array_equal(np.round(data.images * 255), pixels[:2].transpose(0, 3, 1, 2))
    assert data.class_names == ("tench", "hen")
    folder = tmp_path / "imagenet-sample-images"
    folder.mkdir()
    for file in ("n02_hen.JPEG", "n01_great_white_shark.JPEG"):
        Image.new("RGB", (100, 80), (255, 0, 0)).save(folder / file)
    data = load("imagenet-sample", resolution=32)
    assert data.class_names == ("great_white_shark", "hen")
    assert data.images.shape == (2, 3, 32, 32)


def test_prepared_files_that_are_damaged(tmp_path, monkeypatch):
    """cifar10, cifar10-gist and imagenet-sample from .npz files: cut, of other arrays, of other shapes."""
    monkeypatch.setenv("INITSCOPE_DATA", str(tmp_path))
    pixels = np.zeros((4, 32, 32, 3), dtype=np.uint8)
    whole = {
        "cifar10": ("cifar10_train.npz", {"images": pixels, "labels": np.arange(4)}),
        "cifar10-gist": ("cifar10_gist384.npz", {"gist": np.zeros((4, 384), np.float16), "labels": np.arange(4)}),
        "imagenet-sample": ("imagenet_sample_128.npz", {"images": pixels, "name": np.array(list("abcd"))}),
    }
    for name, (file, arrays) in whole.items():
        path = tmp_path / file
        np.savez_compressed(path, **arrays)
        assert len(load(name, limit=3)) == 3
        content = path.read_bytes()
        for broken in (content[:-30], b"PK", b"", content[:40] + b"\xff" * 40 + content[80:]):
            path.write_bytes(broken)
            with pytest.raises(InputError, match=file):
                load(name)
        first, second = arrays
        for wrong in (
            {first: arrays[first]},
            {**arrays, second: arrays[second][:2]},
            {**arrays, first: np.zeros((4, 2, 2, 2, 2))},
            {**arrays, first: np.array(0)},
        ):
            np.savez(path, **wrong)
            with pytest.raises(InputError, match=file):
                load(name)


def test_an_archive_that_unpacks_to_more_than_cifar(tmp_path, monkeypatch):
    monkeypatch.setenv("INITSCOPE_DATA", str(tmp_path))
    path = tmp_path / "cifar-10-binary.tar.gz"
    for name, size in (("data_batch_1.bin", 10**8), ("PaxHeader", 10**8)):
        with tarfile.open(path, "w:gz", compresslevel=1) as archive:
            member = tarfile.TarInfo(name)
            member.size = size
            member.type = tarfile.XHDTYPE if name == "PaxHeader" else tarfile.REGTYPE
            archive.addfile(member, io.BytesIO(bytes(size)))
        tracemalloc.start()
        with pytest.raises(InputError, match="CIFAR-10"):
            load("cifar10")
        assert tracemalloc.get_traced_memory()[1] < 40e6
        tracemalloc.stop()


def test_idx_files_of_impossible_sizes(tmp_path):
    for content in (b"\0\0\x08\x03" + b"\xff" * 12, b"\0\0\x08\xff" + b"\x01" * 1020, b"\0\0\x08\x01\0\0\0"):
        (tmp_path / "x").write_bytes(content)
        (tmp_path / "x.gz").write_bytes(gzip.compress(content))
        for name in ("x", "x.gz"):
            with pytest.raises(InputError, match=name):
                read_idx(tmp_path / name)
