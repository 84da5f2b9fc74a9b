import pickle
import tracemalloc

import numpy as np
import pytest
import torch

from initscope.data import load_array
from initscope.errors import InputError

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (4, 3, 8, 9), dtype=np.uint8)


def saved(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    return load_array(tmp_path / "a.npy")


def test_bytes_become_numbers_from_0_to_1(tmp_path):
    data = saved(tmp_path, BYTES)
    assert np.array_equal(data.images, BYTES / np.float32(255))
    assert data.steps == ("values / 255",)
    wide = saved(tmp_path, BYTES.astype(np.uint16) * 257)
    assert np.allclose(wide.images, data.images)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_stay_as_they_are(tmp_path, dtype):
    values = RNG.standard_normal((4, 3, 8, 9)).astype(dtype)
    data = saved(tmp_path, values)
    assert data.images.dtype == np.float32
    assert np.array_equal(data.images, values.astype(np.float32))
    assert data.steps == ()


def test_layouts(tmp_path):
    last = saved(tmp_path, BYTES.transpose(0, 2, 3, 1))
    assert np.array_equal(last.images, BYTES / np.float32(255))
    assert last.steps == ("channels moved to the front", "values / 255")
    assert saved(tmp_path, BYTES[:, 0]).images.shape == (4, 1, 8, 9)
    assert saved(tmp_path, np.ones((5, 7))).images.shape == (5, 7)
    assert saved(tmp_path, np.ones((5, 7), bool)).images.max() == 1
    assert saved(tmp_path, np.ones((2, 1, 3, 4, 5))).images.shape == (2, 1, 3, 4, 5)


@pytest.mark.parametrize("keys", [("images", "labels"), ("x", "y"), ("data", "targets")])
def test_npz_and_pt_with_labels(tmp_path, keys):
    labels = np.array([1, 0, 1, 0])
    np.savez(tmp_path / "a.npz", **dict(zip(keys, (BYTES, labels))), class_names=np.array(["no", "yes"]))
    torch.save(dict(zip(keys, map(torch.from_numpy, (BYTES, labels)))), tmp_path / "a.pt")
    for file in ("a.npz", "a.pt"):
        data = load_array(tmp_path / file)
        assert np.array_equal(data.images, BYTES / np.float32(255))
        assert data.labels.tolist() == [1, 0, 1, 0]
    assert load_array(tmp_path / "a.npz").class_names == ("no", "yes")


@pytest.mark.parametrize("key", ["labels", "y", "targets"])
@pytest.mark.parametrize("shape", [(4,), (4, 1), (4, 3)])
def test_fractions_are_targets_and_not_cut_to_classes(tmp_path, key, shape):
    values = np.linspace(-1.5, 2.25, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    np.savez(tmp_path / "a.npz", **{"x": BYTES, key: values})
    torch.save({"x": torch.from_numpy(BYTES), key: torch.from_numpy(values)}, tmp_path / "a.pt")
    for file in ("a.npz", "a.pt"):
        data = load_array(tmp_path / file, limit=2)
        assert data.labels is None
        assert np.array_equal(data.targets, values[[0, 2]])


def test_whole_floats_stay_classes_and_whole_columns_of_floats_are_targets(tmp_path):
    np.savez(tmp_path / "a.npz", x=BYTES, y=np.array([0.0, 2.0, 1.0, 2.0]))
    assert load_array(tmp_path / "a.npz").labels.tolist() == [0, 2, 1, 2]
    np.savez(tmp_path / "a.npz", x=BYTES, y=np.array([[0.0], [2.0], [1.0], [2.0]]))
    assert load_array(tmp_path / "a.npz").targets.tolist() == [[0], [2], [1], [2]]


def test_a_tensor_alone_and_an_only_array(tmp_path):
    torch.save(torch.ones(3, 5, dtype=torch.bfloat16), tmp_path / "a.pt")
    assert load_array(tmp_path / "a.pt").images.shape == (3, 5)
    np.savez(tmp_path / "a.npz", anything=BYTES)
    assert len(load_array(tmp_path / "a.npz")) == 4


class Evil:
    def __reduce__(self):
        return (pytest.fail, ("a file was executed",))


def test_nothing_in_a_file_is_executed(tmp_path):
    np.save(tmp_path / "a.npy", np.array([Evil()], dtype=object), allow_pickle=True)
    (tmp_path / "raw.npy").write_bytes(pickle.dumps(Evil()))
    torch.save(Evil(), tmp_path / "a.pt")
    for file in ("a.npy", "a.pt"):
        with pytest.raises(InputError, match=f"{file} holds Python objects, which cannot be read without executing"):
            load_array(tmp_path / file)
    with pytest.raises(InputError, match=r"raw.npy is not a \.npy file, or damaged"):
        load_array(tmp_path / "raw.npy")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(5), r"holds an array of shape \(5,\); expected"),
        (np.ones((0, 3, 4, 4)), r"a.npy is empty: its array has shape \(0, 3, 4, 4\)"),
        (np.full((2, 5), 1e300), r"holds values up to 1e\+300, beyond 3.4e\+38 of float32"),
        (np.ones((2, 3, 4, 4), np.int64), "values of type int64, whose range is unknown"),
        (np.array([["a", "b"]]), "values of type <U1"),
    ],
)
def test_arrays_that_are_no_images(tmp_path, array, message):
    with pytest.raises(InputError, match=message):
        saved(tmp_path, array)


def test_files_that_are_no_arrays(tmp_path):
    with pytest.raises(InputError, match=r"none.npy is not a file"):
        load_array(tmp_path / "none.npy")
    (tmp_path / "a.csv").write_text("1,2")
    with pytest.raises(InputError, match=r"files of type '.csv' are not supported; give .npy"):
        load_array(tmp_path / "a.csv")
    for file in ("a.npz", "a.pt", "a.npy"):
        (tmp_path / file).write_bytes(b"PK\x03\x04 broken")
        with pytest.raises(InputError, match=f"{file} is not a .*, or damaged"):
            load_array(tmp_path / file)
    np.savez(tmp_path / "b.npz", first=BYTES, second=BYTES)
    with pytest.raises(InputError, match="holds first, second; name the array of images 'images'"):
        load_array(tmp_path / "b.npz")
    torch.save({"images": "text"}, tmp_path / "c.pt")
    with pytest.raises(InputError, match=r"c.pt: 'images' is of type str, not an array"):
        load_array(tmp_path / "c.pt")


def test_limit_reads_no_more_than_it_keeps(tmp_path, monkeypatch):
    """A hundredth of 8 million bytes, evenly spaced: the whole, as floats, would be 32 MB."""
    images = np.random.default_rng(0).integers(0, 256, (2000, 1, 40, 100), dtype=np.uint8)
    labels = np.arange(2000) // 20
    np.savez(tmp_path / "a.npz", images=images, labels=labels, unused=images)
    np.save(tmp_path / "a.npy", images)
    torch.save({"images": torch.from_numpy(images), "labels": torch.from_numpy(labels)}, tmp_path / "a.pt")
    keep = np.arange(20) * 100
    monkeypatch.setenv("INITSCOPE_MEMORY", "0.002")
    for name in ("a.npz", "a.npy", "a.pt"):
        tracemalloc.start()
        data = load_array(tmp_path / name, limit=20)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 4e6
        np.testing.assert_array_equal(data.images, images[keep] / np.float32(255))
        assert data.labels is None or data.labels.tolist() == labels[keep].tolist()
    with pytest.raises(InputError, match=r"a.npy takes 0.04 GB in memory, more than .*--limit"):
        load_array(tmp_path / "a.npy")


def test_labels_of_another_length_are_told_with_a_limit_too(tmp_path):
    np.savez(tmp_path / "a.npz", images=np.ones((100, 4)), labels=np.arange(90))
    with pytest.raises(InputError, match=r"100 images but labels of shape \(90,\)"):
        load_array(tmp_path / "a.npz", limit=10)
