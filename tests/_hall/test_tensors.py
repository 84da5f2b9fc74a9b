"""Files of tensors: what is wrong with one that cannot be read is said truly, and nothing in it is executed."""

import io
import pickle

import numpy as np
import pytest
import torch

from initscope._hall.tensors import read_tensors
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
        assert str(refusal.value) == f"{file} is damaged or not a {suffix} file; HINT"


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
