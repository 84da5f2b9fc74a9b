"""Atomic writing: permissions, leftovers of killed writers, targets that cannot be written."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import pytest

from initscope._utils.files import atomic_path, locked, memory_limit, open_regular, reading, write_text
from initscope.errors import InputError

DYING = """
import os, sys
from initscope._utils.files import atomic_path

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
    other_host = tmp_path / left.name.replace(left.name.split(".")[-3], "0" * 8)
    foreign = [tmp_path / name for name in (".a[1].csv.mine", "b.csv" + left.name[9:], "a1.csv")]
    for each in (other_host, *foreign):
        each.write_text("kept")
    (tmp_path / f".b.csv{left.name[9:]}").write_text("left by a writer of another file")
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
    for target in (tmp_path / "folder", tmp_path / "file" / "below", tmp_path / ("n" * 300), ".", tmp_path / "a\0b"):
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


def test_links_are_followed_and_stay_links(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "file").write_text("old")
    (tmp_path / "link").symlink_to("far/file")
    (tmp_path / "new").symlink_to("far/new")
    write_text(tmp_path / "link", "through")
    write_text(tmp_path / "new", "made")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "far" / "file").read_text() == "through"
    assert (tmp_path / "far" / "new").read_text() == "made"
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InputError, match="cannot be written"):
        write_text(tmp_path / "loop", "x")


def test_devices_pipes_and_sockets_are_refused_and_stay(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "null").symlink_to(os.devnull)
    for target in (pipe, tmp_path / "null", os.devnull):
        with pytest.raises(InputError, match=r"cannot be written \(it is a (pipe|device), not a file"):
            write_text(target, "x")
        with pytest.raises(InputError, match=r"is a (pipe|device), not a file"):
            open_regular(target)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_a_file_keeps_its_mode_and_is_never_open_to_more_meanwhile(tmp_path, mode):
    target = tmp_path / "secret"
    target.write_text("old")
    target.chmod(mode)
    with atomic_path(target) as temporary:
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600
        temporary.write_text("new")
    assert stat.S_IMODE(target.stat().st_mode) == mode
    assert target.read_text() == "new"


def test_a_read_only_file_is_refused_to_a_superuser_too(tmp_path):
    target = tmp_path / "kept"
    target.write_text("old")
    target.chmod(0o444)
    with pytest.raises(InputError, match="it is read-only"):
        write_text(target, "new")
    assert target.read_text() == "old"


@pytest.mark.parametrize("name", ["n" * 255, "n" * 251 + ".csv", "ä" * 127, "a." + "s" * 253])
def test_names_as_long_as_a_disk_takes(tmp_path, name):
    write_text(tmp_path / name, "x")
    write_text(tmp_path / name, "y")
    assert [each.name for each in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "y"


ELSEWHERE = """
import sys, time
import initscope._utils.files as files
from initscope._utils.files import atomic_path

with atomic_path(sys.argv[1]) as temporary:
    print(temporary, flush=True)
    sys.stdin.readline()
    temporary.write_text("theirs")
"""


def test_a_live_writer_keeps_its_file_whatever_its_number(tmp_path):
    """Process numbers of another container mean nothing here: the lock alone tells a live writer from a dead one."""
    target = tmp_path / "shared"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", ELSEWHERE, str(target)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as other:
        theirs = other.stdout.readline().strip()
        for number in range(3):
            write_text(target, str(number))
            assert os.path.exists(theirs)
        other.communicate("go\n")
    assert target.read_text() == "theirs"
    assert [each.name for each in tmp_path.iterdir()] == ["shared"]


def test_a_lock_follows_the_file_that_replaces_it(tmp_path):
    """Two threads count up a number in a file that each replaces: none is lost, with the lock; many, without."""
    target = tmp_path / "number"
    target.write_text("0")

    def count():
        for _ in range(30):
            with locked(target):
                write_text(target, str(int(target.read_text()) + 1))

    counters = [threading.Thread(target=count) for _ in range(3)]
    for each in counters:
        each.start()
    for each in counters:
        each.join()
    assert target.read_text() == "90"
    with locked(tmp_path / "missing"):
        pass


@pytest.mark.parametrize(
    "failure",
    [zlib.error("x"), SyntaxError("x"), TypeError("x"), AttributeError("x"), OverflowError("x"), MemoryError(),
     KeyError(), RecursionError(),StopIteration(),
     UnicodeDecodeError("utf-8", b"x", 0, 1, "x"), OSError("x"), OSError(5, "x")],
    ids=lambda failure: type(failure).__name__,
)  # fmt: skip
def test_every_failure_of_a_reader_is_one_error(failure):
    with pytest.raises(InputError, match=r"^some.file .*; do this$"), reading("some.file", "a file", "do this"):
        raise failure


def test_a_file_that_is_not_there_is_a_matter_of_its_path():
    told = r"\(No such file or directory\); check the path$"
    with pytest.raises(InputError, match=told), reading("some.toml", "a TOML file", "write it so"):
        Path("nowhere/some.toml").read_bytes()


def test_what_we_refuse_ourselves_and_interrupts_pass_through():
    for passed in (InputError("ours"), KeyboardInterrupt(), SystemExit(3)):
        with pytest.raises(type(passed)) as caught, reading("file", "a file", "do this"):
            raise passed
        assert caught.value is passed


def test_the_limit_of_memory(monkeypatch):
    monkeypatch.setenv("INITSCOPE_MEMORY", "1.5")
    assert memory_limit() == 1_500_000_000
    for bad in ("lots", "-1", "0", "inf", "nan"):
        monkeypatch.setenv("INITSCOPE_MEMORY", bad)
        with pytest.raises(InputError, match="INITSCOPE_MEMORY"):
            memory_limit()
    monkeypatch.delenv("INITSCOPE_MEMORY")
    assert memory_limit() > 10**8
