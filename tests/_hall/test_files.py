"""Atomic writing: permissions, leftovers of killed writers, targets that cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from initscope._hall.files import atomic_path, write_text
from initscope.errors import InputError

DYING = """
import os, sys
from initscope._hall.files import atomic_path

with atomic_path(sys.argv[1]) as temporary:
    temporary.write_text("half")
    os._exit(0)
"""


def test_leftovers_of_dead_writers_go_and_no_others(tmp_path):
    target = tmp_path / "a[1].csv"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", DYING, str(target)], env=environment, check=True)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".a[1].csv.")
    other_host = tmp_path / left.name.replace(left.name.split(".")[3], "0" * 8)
    foreign = [tmp_path / name for name in (".a[1].csv.mine", ".b.csv" + left.name[9:], "a1.csv")]
    for each in (other_host, *foreign):
        each.write_text("kept")
    with atomic_path(target) as mine:
        write_text(target, "first")  # another writer of the same file, at the same time
        assert mine.exists()
        mine.write_text("second")
    assert target.read_text() == "second"
    assert sorted(tmp_path.iterdir()) == sorted([target, other_host, *foreign])


def test_permissions_are_those_of_any_new_file_and_the_mask_is_left_alone(tmp_path, monkeypatch):
    def refuse(mask):
        raise AssertionError("the mask belongs to the whole process, other threads included")

    (tmp_path / "plain").touch()
    monkeypatch.setattr(os, "umask", refuse)
    write_text(tmp_path / "atomic", "x")
    assert (tmp_path / "atomic").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_the_folder_is_flushed_after_the_renaming(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(os, "fsync", lambda handle: flushed.append((os.fstat(handle).st_ino, target.exists())))
    target = tmp_path / "a.txt"
    write_text(target, "x")
    assert flushed == [(target.stat().st_ino, False), (tmp_path.stat().st_ino, True)]


def test_failures_are_told_in_one_way_and_leave_nothing(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    for target in (tmp_path / "folder", tmp_path / "file" / "below", tmp_path / ("n" * 300), "."):
        with pytest.raises(InputError, match="cannot be written"):
            write_text(target, "x")
    with pytest.raises(KeyError), atomic_path(tmp_path / "b"):
        raise KeyError
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "folder"]


def test_threads_write_one_file(tmp_path):
    def write(text):
        for _ in range(20):
            write_text(tmp_path / "a", text)

    writers = [threading.Thread(target=write, args=(4000 * letter,)) for letter in "abc"]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    assert (tmp_path / "a").read_text() in [4000 * letter for letter in "abc"]
    assert [each.name for each in tmp_path.iterdir()] == ["a"]
