"""A disk without room is seen before the work, in one line, and nothing is left on it."""

import errno
import os
import resource
import shutil
import subprocess
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

from initscope._utils.disk import check_space, reserved_array
from initscope.cli import main
from initscope.embed import SignHash, save_hasher
from initscope.errors import InputError


@contextmanager
def largest_file(size):
    """Let the system refuse larger files, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def refusal(code):
    def refuse(*_):
        raise OSError(code, os.strerror(code))

    return refuse


def test_room_is_reserved_not_only_asked_for(tmp_path):
    """A mapped file without blocks of its own ends the process by SIGBUS when the disk is full."""
    path = tmp_path / "x.npy"
    path.touch()
    array = reserved_array(path, np.float32, (1000, 1000), path)
    assert path.stat().st_blocks * 512 >= array.nbytes
    array[:] = 1
    array.flush()
    assert np.load(path).sum() == 1e6


@pytest.mark.parametrize("reserving", [refusal(errno.ENOSPC), refusal(errno.EDQUOT), None])
def test_a_full_disk_is_one_line(tmp_path, monkeypatch, reserving):
    """Also where the system cannot reserve: then the free space decides."""
    monkeypatch.setattr(os, "posix_fallocate", reserving or refusal(errno.EOPNOTSUPP))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2e6))
    with pytest.raises(
        InputError, match=r"x.npy: cannot be written .*: it needs 8 MB, and the disk has 2 MB free; free some space"
    ):
        check_space(tmp_path / "x.npy", 8_000_000)
    assert not [*tmp_path.iterdir()]


def test_a_system_that_cannot_reserve_is_trusted_with_what_fits(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate")
    check_space(tmp_path / "not yet" / "x.npy", 1000)
    assert not [*tmp_path.iterdir()]


@pytest.fixture
def inputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = np.random.default_rng(0).standard_normal((300, 8)).astype(np.float32)
    np.save("x.npy", data)
    save_hasher(SignHash(bits=4096).fit(data), "a.hash")
    return {file.name for file in tmp_path.iterdir()}


SIZE_KNOWN, SIZE_UNKNOWN = 100_000, 50_000
"""Largest files: where the size is not known before the work, space is looked for that would suffice for the former."""


@pytest.mark.parametrize(
    ("work", "arguments", "largest"),
    [
        ("distributed.matrices.on_blocks", "kernel dense4-relu --data x.npy --rows 100 --out k.npy", SIZE_KNOWN),
        ("kernel", "kernel dense4-relu --data x.npy --out k.npy", SIZE_KNOWN),
        ("distributed.codes.on_blocks", "hash encode a.hash c.npy --data x.npy --rows 50", SIZE_KNOWN),
        ("distributed.codes.on_blocks", "hash encode a.hash c.npz --data x.npy --rows 50", SIZE_KNOWN),
        ("embed.SignHash.transform", "hash encode a.hash c.npz --data x.npy", SIZE_KNOWN),
        ("inspect", "inspect dense200-relu*2 --input-shape 8 --pairs 4 --apply w.pt", SIZE_KNOWN),
        ("inspect", "inspect dense4-relu --input-shape 8 --pairs 4 --out p.html", SIZE_UNKNOWN),
        ("embed.SignHash.fit", "hash fit b.hash --data x.npy", SIZE_UNKNOWN),
    ],
)
def test_commands_look_before_they_work(inputs, monkeypatch, capsys, work, arguments, largest):
    monkeypatch.setattr(f"initscope.{work}", lambda *_, **__: pytest.fail("work was done before the disk was seen"))
    with largest_file(largest), pytest.raises(SystemExit) as left:
        main(arguments.split())
    message = capsys.readouterr().err.strip().splitlines()[-1]
    assert left.value.code == 2
    assert "cannot be written (File too large)" in message
    assert {*os.listdir()} == inputs


KILLED = """
import os
import initscope.distributed.codes
from initscope.cli import main
initscope.distributed.codes.on_blocks = lambda *_: os._exit(9)
main("hash encode a.hash c.npz --data x.npy --rows 50".split())
"""


def test_leftovers_of_a_killed_encoding_go_with_the_next(inputs):
    """Also if that one writes another file there."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    assert subprocess.run([sys.executable, "-c", KILLED], env=environment, check=False).returncode == 9
    assert len({*os.listdir()} - inputs) == 2
    main(["hash", "encode", "a.hash", "d.npy", "--data", "x.npy", "--rows", "50"])
    assert {*os.listdir()} - inputs == {"d.npy"}
