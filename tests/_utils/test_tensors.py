"""Files of tensors: what is wrong with one that cannot be read is said truly, and nothing in it is executed."""

import io
import os
import pickle
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch

from initscope._utils.tensors import read_tensors, stored_arrays
from initscope.errors import InputError


class Anything:
    """An object that only runs as code."""


def saved(save, value):
    stream = io.BytesIO()
    save(stream, value)
    return stream.getvalue()


ARRAY = np.ones((10, 20))
NPY, NPZ = saved(np.save, ARRAY), saved(lambda stream, value: np.savez(stream, x=value), ARRAY)
PT = saved(lambda stream, value: torch.save(value, stream), torch.ones(200))


@pytest.mark.parametrize(("suffix", "content"), [(".npy", NPY), (".npz", NPZ), (".pt", PT)])
def test_damage_is_called_damage(tmp_path, suffix, content):
    file = tmp_path / f"x{suffix}"
    for broken in (b"", b"hello world", content[:100], content[: len(content) // 2]):
        file.write_bytes(broken)
        with pytest.raises(InputError) as refusal:
            read_tensors(file, hint="HINT")
        assert str(refusal.value) == f"{file} is not a {suffix} file, or damaged; HINT"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.npy", saved(lambda stream, value: np.save(stream, value, allow_pickle=True), np.array([1, None]))),
        ("x.pt", saved(lambda stream, value: torch.save(value, stream), Anything())),
        ("old.pt", pickle.dumps(Anything(), protocol=2)),
    ],
)
def test_objects_are_refused_in_our_own_words(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as refusal:
        read_tensors(tmp_path / name, hint="HINT")
    message = f"{tmp_path / name} holds Python objects, which cannot be read without executing them; HINT"
    assert str(refusal.value) == message


def test_what_is_whole_is_read(tmp_path):
    for name, content in (("x.npy", NPY), ("x.npz", NPZ), ("x.pt", PT)):
        (tmp_path / name).write_bytes(content)
        value = read_tensors(tmp_path / name, hint="")
        assert (value["x"] if name == "x.npz" else value).shape in ((10, 20), (200,))


def test_rows_are_read_alone(tmp_path, monkeypatch):
    """Of 8 MB only what is asked for is held, in each order of storing; the numbers are those of the whole."""
    values = np.arange(1_000_000, dtype=">f8").reshape(1000, 10, 100)
    np.save(tmp_path / "c.npy", values)
    np.save(tmp_path / "f.npy", np.asfortranarray(values))
    np.savez(tmp_path / "plain.npz", x=values, other=values)
    np.savez_compressed(tmp_path / "packed.npz", x=values)
    for rows in (np.array([0, 1, 5, 999]), np.arange(30, 60), np.array([], dtype=int)):
        for name in ("c.npy", "f.npy", "plain.npz", "packed.npz"):
            found = stored_arrays(tmp_path / name, hint="")
            found = found["x"] if isinstance(found, dict) else found
            part = found.read(rows)
            np.testing.assert_array_equal(part, values[rows])
            assert part.dtype == np.float64
    monkeypatch.setenv("INITSCOPE_MEMORY", "0.001")
    for name in ("c.npy", "packed.npz"):
        found = stored_arrays(tmp_path / name, hint="")
        found = found["x"] if isinstance(found, dict) else found
        tracemalloc.start()
        found.read(np.array([3, 500]))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 5e6
        with pytest.raises(InputError, match=r"takes 0.008 GB in memory, more than the limit of 0.001 GB"):
            found.read()


def test_headers_that_promise_more_than_the_file_holds(tmp_path):
    """A header of 10^15 numbers in a small file, plain or packed, is damage: nothing is allocated for it."""
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,), }"
    header += b" " * (128 - 10 - 1 - len(header)) + b"\n"
    huge = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(80)
    (tmp_path / "x.npy").write_bytes(huge)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", huge)
    for name in ("x.npy", "x.npz"):
        with pytest.raises(InputError, match="or damaged"):
            read_tensors(tmp_path / name, hint="HINT")


def quantized():
    return torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("tensor", "kind"),
    [
        (lambda: torch.eye(3).to_sparse(), "sparse_coo"),
        (lambda: torch.eye(3).to_sparse_csr(), "sparse_csr"),
        (quantized, "quantized"),
    ],
)
def test_tensors_that_are_no_arrays_of_numbers(tmp_path, tensor, kind):
    for content in (tensor(), {"a": [tensor()]}):
        torch.save(content, tmp_path / "x.pt")
        with pytest.raises(InputError, match=rf"x\.pt holds a {kind} tensor; save a dense one"):
            read_tensors(tmp_path / "x.pt", hint="")


def test_a_small_file_that_stands_for_much(tmp_path, monkeypatch):
    """One number repeated 10^12 times takes 2 kB on the disk; a packed .pt file, which torch never writes, likewise."""
    torch.save(torch.ones(1).expand(10**12), tmp_path / "x.pt")
    with pytest.raises(InputError, match=r"takes 4e.03 GB in memory"):
        read_tensors(tmp_path / "x.pt", hint="")
    torch.save(torch.zeros(100_000), tmp_path / "x.pt")
    with zipfile.ZipFile(tmp_path / "x.pt") as whole:
        parts = {name: whole.read(name) for name in whole.namelist()}
    with zipfile.ZipFile(tmp_path / "x.pt", "w", zipfile.ZIP_DEFLATED) as packed:
        for name, part in parts.items():
            packed.writestr(name, part)
    with pytest.raises(InputError, match="or damaged"):
        read_tensors(tmp_path / "x.pt", hint="")


def test_devices_and_pipes_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "x.npy")
    (tmp_path / "y.npz").symlink_to("/dev/zero")
    for name in ("x.npy", "y.npz"):
        with pytest.raises(InputError, match="not a file; save the data to a file first"):
            read_tensors(tmp_path / name, hint="")


def test_numbers_of_a_torch_file_do_not_change_with_the_file(tmp_path):
    """Tensors may stay on the disk, but writing to them leaves the file as it is."""
    torch.save({"a": torch.arange(1000.0)}, tmp_path / "x.pt")
    before = (tmp_path / "x.pt").read_bytes()
    value = read_tensors(tmp_path / "x.pt", hint="")["a"]
    value += 1
    assert (tmp_path / "x.pt").read_bytes() == before
    assert float(value[5]) == 6
