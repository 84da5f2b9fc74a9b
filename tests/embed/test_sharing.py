"""`HammingIndex` among threads, forks and processes, and with a cache of compiled loops that is damaged or full."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from initscope.embed import HammingIndex
from initscope.errors import InputError

RNG = np.random.default_rng(11)
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def codes_of(rows):
    return RNG.integers(0, 256, (rows, 8), dtype=np.uint8)


def run(script, *arguments, **options):
    """Output of a script in a process of its own; one that hangs fails."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    options = {"env": ENVIRONMENT, **options}
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=True, **options).stdout.strip()


EDITING = """
import sys
import numpy as np
from initscope.embed import HammingIndex
from initscope.errors import InputError

path, number, way = sys.argv[1], int(sys.argv[2]), sys.argv[3]
told = 0
for step in range(40):
    code, name = np.full((1, 8), step, dtype=np.uint8), [1000 * number + step]
    while True:
        if way == "edit":
            with HammingIndex.edit(path) as index:
                index.add(code, name)
            break
        index = HammingIndex.load(path)
        index.add(code, name)
        try:
            index.save(path)
            break
        except InputError as error:
            assert "changed by another process" in str(error)
            told += 1
print(told)
"""


@pytest.mark.parametrize("way", ["edit", "save"])
def test_two_processes_lose_nothing(way, tmp_path):
    """40 codes each: with `edit` the second waits, with load, add and save it is told, and repeats."""
    path = tmp_path / "codes.index"
    HammingIndex(64).save(path)
    command = [sys.executable, "-c", EDITING, str(path)]
    writers = [
        subprocess.Popen([*command, str(number), way], env=ENVIRONMENT, stdout=subprocess.PIPE) for number in (1, 2)
    ]
    for each in writers:
        each.communicate(timeout=600)
        assert each.returncode == 0
    assert sorted(HammingIndex.load(path).ids.tolist()) == [*range(1000, 1040), *range(2000, 2040)]
    assert [each.name for each in tmp_path.iterdir()] == ["codes.index"]


def test_the_second_writer_is_told(tmp_path):
    path, link = tmp_path / "codes.index", tmp_path / "link"
    HammingIndex(64).save(path)
    link.symlink_to(path)
    first, second = HammingIndex.load(path), HammingIndex.load(link)
    first.add(codes_of(2))
    first.save(path)
    second.add(codes_of(3))
    for target in (path, link):
        with pytest.raises(InputError, match="changed by another process since"):
            second.save(target)
    second.save(tmp_path / "other")
    first.save(path)  # what it saved itself is no change by others
    assert len(HammingIndex.load(path)) == 2
    path.unlink()
    first.save(path)
    HammingIndex(64).save(path)  # an index that never was this file replaces it, as files are replaced
    with pytest.raises(InputError, match="changed"):
        first.save(path)


def test_an_edit_that_fails_saves_nothing(tmp_path):
    path = tmp_path / "codes.index"
    HammingIndex(64).save(path)
    with pytest.raises(InputError, match="repeat"), HammingIndex.edit(path) as index:
        index.add(codes_of(2), [0, 0])
    with HammingIndex.edit(path) as index:
        index.add(codes_of(2))
        index.save(path)  # in between: the lock is held already
        index.add(codes_of(2))
    assert len(HammingIndex.load(path)) == 4


@pytest.mark.parametrize("kind", ["flat", "ivf", "hnsw"])
def test_threads_add_and_search_at_once(kind):
    """Every search sees whole batches: a number of codes that some add left, and a right nearest one."""
    codes = codes_of(3000)
    index = HammingIndex(64, kind, probes=1000)
    index.add(codes[:500])
    failures, done = [], threading.Event()

    def search():
        while not done.is_set():
            try:
                distances, found = index.search(codes[:20], 1)
                assert (distances == 0).all()
                assert found[:, 0].tolist() == list(range(20))
                assert len(index) % 500 == 0
            except BaseException as error:
                failures.append(error)
                return

    searching = [threading.Thread(target=search) for _ in range(3)]
    for each in searching:
        each.start()
    for start in range(500, 3000, 500):
        index.add(codes[start : start + 500])
    done.set()
    for each in searching:
        each.join()
    assert failures == []
    assert len(index) == 3000


FORKING = """
import os, signal, sys
import faiss
import numpy as np
from initscope.embed import HammingIndex

faiss.omp_set_num_threads(2)
codes = np.random.default_rng(0).integers(0, 256, (2000, 8), dtype=np.uint8)
index = HammingIndex(64, sys.argv[1])
index.add(codes)
before = index.search(codes[:300], 5)
child = os.fork()
if child == 0:
    signal.alarm(20)  # a child that hangs is ended, and told below
    same = all((mine == theirs).all() for mine, theirs in zip(index.search(codes[:300], 5), before))
    index.add(codes[:10], np.arange(10) + 10**6)
    os._exit(0 if same and len(index) == 2010 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("kind", ["flat", "ivf", "hnsw"])
def test_a_fork_searches_and_adds(kind):
    assert run(FORKING, kind) == "0"


MIXED = """
import os, signal, sys, threading
import numpy as np
from initscope.embed import HammingIndex

codes = np.random.default_rng(0).integers(0, 256, (30000, 8), dtype=np.uint8)
index = HammingIndex(64, "hnsw")
index.add(codes[:100])
adding = threading.Thread(target=lambda: [index.add(codes[i : i + 100]) for i in range(100, 6000, 100)])
adding.start()
ends = []
while adding.is_alive():
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        index.search(codes[:5], 1)
        os._exit(0 if len(index) % 100 == 0 else 1)
    ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
adding.join()
print(len(ends) > 0 and set(ends) == {0}, len(index))
"""


def test_forks_while_a_thread_adds_find_the_index_at_rest():
    assert run(MIXED) == "True 6000"


def test_ids_that_repeat_in_a_file_are_found_in_any_order(tmp_path):
    from initscope.embed import index as module

    for ids, different in (([], True), ([3], True), ([1, 2, 5], True), ([5, 1, 2], True), ([5, 1, 5], False)):
        assert module._all_different(np.array(ids, dtype=np.int64)) is different


SEARCHING = """
import sys
import numpy as np
from initscope.embed import HammingIndex, scan

scan._WORTH_LOADING = 0
codes = np.random.default_rng(0).integers(0, 256, (300, 8), dtype=np.uint8)
index = HammingIndex(64)
index.add(codes)
distances, found = index.search(codes[:50], 1)
assert (distances == 0).all() and (found[:, 0] == np.arange(50)).all()
print(index.compiled)
"""


def spoil(folder, how):
    for file in [each for each in folder.rglob("*") if each.suffix in (".nbi", ".nbc")]:
        content = bytearray(file.read_bytes())
        if how == "noise":
            content = b"\x80\x04" + bytes(RNG.integers(0, 256, 500, dtype=np.uint8))
        else:
            content[len(content) // 2] ^= 64
        file.write_bytes(content)


def test_a_damaged_cache_of_compiled_loops_costs_time_and_no_answer(tmp_path):
    pytest.importorskip("numba")
    environment = {**ENVIRONMENT, "NUMBA_CACHE_DIR": str(tmp_path)}
    assert run(SEARCHING, env=environment) == "True"
    assert list(tmp_path.rglob("*.nbc"))
    for how in ("flipped", "noise"):
        spoil(tmp_path, how)
        assert run(SEARCHING, env=environment) == "True"


FULL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
NO_NUMBA = """
import numba
def refuse(*args, **options):
    raise RuntimeError("cannot compile")
numba.njit = refuse
"""


@pytest.mark.parametrize(
    ("before", "compiled"), [(FULL, "True"), (NO_NUMBA, "False")], ids=["a full disk", "a numba that fails"]
)
def test_a_search_goes_on_without_a_cache_or_without_numba(tmp_path, before, compiled):
    """Nothing can be written (files may have no byte), and numba refuses: by loops compiled afresh, or by faiss."""
    pytest.importorskip("numba")
    environment = {**ENVIRONMENT, "NUMBA_CACHE_DIR": str(tmp_path)}
    assert run(before + SEARCHING, env=environment) == compiled
