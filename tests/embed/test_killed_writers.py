"""`HammingIndex` files whose writer was killed: at every line of the library, and halfway through the bytes."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from initscope.embed import HammingIndex

# Each writer is a fork that ends itself by SIGKILL or SIGXFSZ at a place, not at a time: no clock is involved.
WRITERS = """
import itertools, json, os, resource, signal, sys
import faiss
import numpy as np
from initscope.embed import HammingIndex

path, mode, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
size = os.path.getsize(path)


def dying_at(count):
    def trace(frame, event, argument):
        nonlocal count
        if not frame.f_globals.get("__name__", "").startswith("initscope"):
            return None
        count -= event == "line"
        if count == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    return trace


def write(place):
    index = HammingIndex.load(path)
    ids = np.arange(len(index), len(index) + rows)
    codes = np.ascontiguousarray(ids[:, None].view(np.uint8)[:, :6])
    if mode == "lines":
        sys.settrace(dying_at(place))
    else:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (place, place))
    index.add(codes, ids)
    index.save(path)


for place in itertools.count(1) if mode == "lines" else range(0, size, size // 8 + 1):
    if not (writer := os.fork()):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        write(place)
        os._exit(0)
    killed = os.WIFSIGNALED(os.waitpid(writer, 0)[1])
    left = [name for name in os.listdir(os.path.dirname(path)) if name != os.path.basename(path)]
    print(json.dumps({"killed": killed, "left": len(left), "ids": HammingIndex.load(path).ids.tolist()}))
    if not killed:
        break
"""


def numbered(ids):
    """Every code spells its id, so that what a file holds can be told from what it should hold."""
    return np.ascontiguousarray(ids[:, None].view(np.uint8)[:, :6])


@pytest.mark.parametrize("mode", ["lines", "bytes"])
def test_killed_writers_lose_nothing_that_was_saved(tmp_path, mode):
    """The file is always whole, the old one or the new one; the next good save removes what killed writers left."""
    path, rows = tmp_path / "codes.index", 100
    start = HammingIndex(48)
    start.add(numbered(np.arange(rows)))
    start.save(path)
    command = [sys.executable, "-c", WRITERS, str(path), mode, str(rows)]
    ran = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    held, kills, leftovers = rows, 0, 0
    for line in ran.stdout.splitlines():
        writer = json.loads(line)
        assert len(writer["ids"]) in ((held, held + rows) if writer["killed"] else (held + rows,))
        held = len(writer["ids"])
        assert writer["ids"] == list(range(held))
        kills, leftovers = kills + writer["killed"], leftovers + writer["left"]
    assert kills >= 5
    assert leftovers  # some were hit between making the temporary file and renaming it
    loaded = HammingIndex.load(path)
    distances, found = loaded.search(numbered(np.arange(held)), k=1)
    np.testing.assert_array_equal(found[:, 0], np.arange(held))
    np.testing.assert_array_equal(distances, 0)
    loaded.save(path)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
