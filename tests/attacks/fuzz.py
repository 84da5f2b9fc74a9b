"""Damage files at random and count what readers raise: only `InputError` may come.

COUNT files for each reader of `readers.py` get one to three kinds of damage (flipped bits, replaced bytes, cut ends,
removed or repeated parts, extreme numbers, JSON words). A reader runs in processes of its own, a thousand files each,
with at most 4 GB of memory and 600 s, so that a crash or an endless loop is counted too.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from attacks.outcomes import Outcome
from attacks.readers import Reader, damaged, readers

from initscope.errors import InputError

COUNT = 100_000
CHUNK, MEMORY, SECONDS = 1000, 4 << 30, 600


def attack(reader: Reader, folder: Path, seed: int, count: int) -> Counter[str]:
    """Outcomes of ``count`` damaged files: ``read``, ``refused``, or the foreign error."""
    rng, outcomes = np.random.default_rng(seed), Counter[str]()
    path = folder / reader.file
    for _ in range(count):
        path.write_bytes(damaged(reader, rng))
        try:
            reader.read(path)
            outcomes["read"] += 1
        except InputError:
            outcomes["refused"] += 1
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            outcomes[f"{type(error).__name__}: {str(error)[:80]} ({Path(where.filename).name}:{where.lineno})"] += 1
    path.unlink()
    return outcomes


def in_a_process(reader: Reader, folder: Path, seed: int, count: int) -> Counter[str]:
    """`attack` in a fork; how it ended, if not by itself, is one more outcome."""
    inlet, outlet = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(inlet)
        signal.alarm(SECONDS)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        with os.fdopen(outlet, "w") as pipe:
            json.dump(attack(reader, folder, seed, count), pipe)
        os._exit(0)
    os.close(outlet)
    with os.fdopen(inlet) as pipe:
        text = pipe.read()
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return Counter(json.loads(text)) if ended == 0 else Counter({f"the process ended with {ended} (seed {seed})": 1})


def run(count: int, seed: int = 0) -> Iterator[Outcome]:
    """Damage ``count`` files for every reader."""
    os.environ.setdefault("INITSCOPE_MEMORY", "0.5")
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        folder = Path(name)
        os.environ["INITSCOPE_DATA"] = name
        for title, reader in readers(folder).items():
            began, outcomes = time.perf_counter(), Counter[str]()
            for start in range(0, count, CHUNK):
                outcomes += in_a_process(reader, folder, seed + start, min(CHUNK, count - start))
            foreign = {kind: times for kind, times in outcomes.items() if kind not in ("read", "refused")}
            messages = tuple(f"{times} × {kind}" for kind, times in sorted(foreign.items(), key=lambda pair: -pair[1]))
            figures = f"{outcomes['refused']:,} refused, {outcomes['read']:,} read, {time.perf_counter() - began:.0f} s"
            yield Outcome(title, count, sum(foreign.values()), figures, messages)
