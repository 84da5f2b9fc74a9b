"""The results folder: whole after every kill, read by pandas at any time, one process at a time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from initscope.distributed.folder import Folder, opened
from initscope.errors import InputError

pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")


def rows(run, status="done"):
    return [{"run": run, "status": status, "row": number, "cosine": 0.5} for number in range(2)]


def read(path):
    """What a user reads: runs and the number of their rows."""
    return pandas.read_parquet(path).groupby("run").size().to_dict()


def test_runs_are_read_before_and_after_compaction(tmp_path):
    with opened(tmp_path) as folder:
        folder.add(rows("b"))
        folder.add(rows("a", "failed"))
        folder.settle()
        assert read(tmp_path) == {"a": 2, "b": 2}
        folder.compact({"b": 0, "a": 1})
        folder.add(rows("c"))
        folder.settle()
        assert read(tmp_path) == {"a": 2, "b": 2, "c": 2}
        assert folder.status() == {"a": "failed", "b": "done", "c": "done"}
        assert pandas.read_parquet(tmp_path / "results.parquet")["run"].tolist() == ["b", "b", "a", "a"]
        folder.forget(["a"])
        assert read(tmp_path) == {"b": 2, "c": 2}


@pytest.mark.parametrize("step", range(4))
def test_a_kill_during_compaction_loses_and_doubles_nothing(tmp_path, step, monkeypatch):
    """Stopped before the first rename, between the two, before the old files go, and while they go."""
    with opened(tmp_path) as folder:
        for run in "abc":
            folder.add(rows(run))
        folder.compact()
        folder.add(rows("d"))

        def stop(*arguments, **options):
            raise KeyboardInterrupt

        class Renamed(type(folder.tasks)):
            rename = stop if step == 0 else type(folder.tasks).rename

        folder.tasks = Renamed(folder.tasks)
        if step == 1:
            monkeypatch.setattr(type(folder._new), "replace", stop_at("_results.parquet", type(folder._new).replace))
        if step > 1:
            monkeypatch.setattr("shutil.rmtree", stop)
        with pytest.raises(KeyboardInterrupt):
            folder.compact()
        assert read(tmp_path).keys() >= {"a", "b", "c"}
        assert set(read(tmp_path).values()) == {2}
        monkeypatch.undo()
    if step == 3:
        (tmp_path / "_tasks" / "d.parquet").unlink()
    with opened(tmp_path) as folder:
        assert folder.status().keys() == set("abcd")
        assert read(tmp_path) == dict.fromkeys("abcd", 2)


def stop_at(name, replace):
    def stopping(self, target):
        if self.name == name:
            raise KeyboardInterrupt
        return replace(self, target)

    return stopping


def test_two_processes_are_refused(tmp_path):
    place = tmp_path / "results"
    with opened(place), pytest.raises(InputError, match="in use by another sweep"), opened(place):
        pass
    with opened(tmp_path / "results"):
        pass


def test_damaged_files(tmp_path):
    """A result that a disk lost is run again; a damaged ``results.parquet`` is told, and left as it is."""
    with opened(tmp_path) as folder:
        folder.add(rows("a"))
        folder.add(rows("b"))
    (tmp_path / "tasks" / "b.parquet").write_bytes(b"PAR1 lost")
    (tmp_path / "tasks" / ".c.parquet").write_bytes(b"half")
    with opened(tmp_path) as folder:
        assert folder.status() == {"a": "done"}
        folder.compact()
    whole = (tmp_path / "results.parquet").read_bytes()
    for cut in (0, 4, len(whole) // 2, len(whole) - 1):
        (tmp_path / "results.parquet").write_bytes(whole[:cut])
        with pytest.raises(InputError, match=r"results.parquet is not a file of results"):
            Folder(tmp_path).status()
    assert (tmp_path / "results.parquet").stat().st_size == len(whole) - 1


def test_what_was_written_is_compacted_as_what_is_read(tmp_path, monkeypatch):
    """Of many results the last are read from their files: the same bytes."""
    compacted = []
    for remembered in (10, 1):
        monkeypatch.setattr("initscope.distributed.folder._REMEMBERED", remembered)
        with opened(tmp_path / str(remembered)) as folder:
            for name in ("c", "a", "b"):
                folder.add(rows(name))
            folder.compact({"b": 0, "c": 1, "a": 2})
        compacted.append((tmp_path / str(remembered) / "results.parquet").read_bytes())
    assert compacted[0] == compacted[1]


def test_folders_of_others_are_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match=r"thesis.txt"), opened(tmp_path):
        pass
    with pytest.raises(InputError, match="cannot be made"), opened(tmp_path / "thesis.txt"):
        pass
    assert (tmp_path / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize("theirs", ["_tasks/mine.txt", "tasks/.env", "tasks/mine.parquet", "_results.parquet"])
def test_names_of_ours_in_folders_of_others_stay(tmp_path, theirs):
    """They were taken for leftovers of a sweep and removed."""
    file = tmp_path / theirs
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine")
    with pytest.raises(InputError, match="which does not belong to a sweep"), opened(tmp_path):
        pass
    assert file.read_text() == "mine"
    assert not (tmp_path / "_lock").exists()


@pytest.mark.parametrize("name", ["tasks", "_tasks", "results.parquet", "_lock"])
def test_links_in_a_folder_are_not_followed(tmp_path, name):
    """Files that ``tasks`` led to were removed: those with a dot and those that are no Parquet files."""
    with opened(tmp_path / "out") as folder:
        folder.add(rows("a"))
    home = tmp_path / "home"
    home.mkdir()
    for file in (".bashrc", "photo.parquet"):
        (home / file).write_text("mine")
    (tmp_path / "out" / name).rename(tmp_path / "kept") if (tmp_path / "out" / name).exists() else None
    (tmp_path / "out" / name).symlink_to(home)
    with pytest.raises(InputError, match=f"holds {name}, which does not belong to a sweep"), opened(tmp_path / "out"):
        pass
    assert sorted(file.name for file in home.iterdir()) == [".bashrc", "photo.parquet"]


def test_a_file_of_others_among_the_results_is_refused(tmp_path):
    with opened(tmp_path) as folder:
        folder.add(rows("a"))
    (tmp_path / "tasks" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"tasks/notes.txt"), opened(tmp_path):
        pass


FULL = """
import resource, sys
from pathlib import Path
from initscope.errors import InputError
from initscope.distributed.folder import opened
with opened(sys.argv[1]) as folder:
    folder.add([{"run": "a", "status": "done", "row": 0}])
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    for write in (lambda: folder.add([{"run": "b", "status": "done", "row": 0}]), folder.compact):
        try:
            write()
        except InputError as error:
            print(error)
"""


def test_a_full_disk_is_told_and_loses_nothing(tmp_path):
    """Files may have at most 1000 bytes from the second run on; ``-B``: Python keeps compiled modules, also cut off."""
    ended = subprocess.run([sys.executable, "-B", "-c", FULL, str(tmp_path / "out")], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("cannot be written (File too large)") == 2
    assert read(tmp_path / "out") == {"a": 1}
    with opened(tmp_path / "out") as folder:
        assert folder.status() == {"a": "done"}


def test_results_are_on_the_disk_before_they_have_their_name(tmp_path, monkeypatch):
    """Every file that is renamed was brought to the disk first, whole."""
    synced, renamed = set(), []
    replace = Path.replace

    def brought(descriptor):
        synced.add((os.fstat(descriptor).st_ino, os.fstat(descriptor).st_size))

    def moved(self, target):
        renamed.append((self.stat().st_ino, self.stat().st_size) in synced)
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", brought)
    monkeypatch.setattr(Path, "replace", moved)
    with opened(tmp_path) as folder:
        for run in "abcdef":
            folder.add(rows(run))
        folder.compact()
        assert set(folder.status()) == set("abcdef")
    assert len(renamed) == 8  # with results.parquet, twice
    assert all(renamed)


def test_what_the_disk_refuses_later_is_told(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    with opened(tmp_path) as folder:
        folder.add(rows("a"))
        folder.settle()
        monkeypatch.setattr(os, "fsync", full)
        folder.add(rows("b"))
        with pytest.raises(InputError, match="No space left on device"):
            folder.settle()
        assert folder.status() == {"a": "done"}
    assert not [*tmp_path.glob("tasks/.*")]
