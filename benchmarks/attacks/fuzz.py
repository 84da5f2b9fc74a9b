"""Damage files at random and count what readers raise: only `InputError` may come.

A reader is run in processes of its own, a thousand files each, so that one that crashes or hangs is counted too, with
at most 4 GB of memory. Exit code 1 if anything foreign came.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from readers import Reader, damaged, readers

from initscope.errors import InputError

CHUNK, MEMORY, SECONDS = 1000, 4 << 30, 120


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


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000, help="damaged files for each reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="readers whose name holds this")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.environ.setdefault("INITSCOPE_MEMORY", "0.5")
    foreign = 0
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        folder = Path(name)
        os.environ["INITSCOPE_DATA"] = name
        for title, reader in readers(folder).items():
            if options.only not in title:
                continue
            began, outcomes = time.perf_counter(), Counter[str]()
            for start in range(0, options.count, CHUNK):
                part = min(CHUNK, options.count - start)
                outcomes += in_a_process(reader, folder, options.seed + start, part)
            strange = {kind: times for kind, times in outcomes.items() if kind not in ("read", "refused")}
            foreign += sum(strange.values())
            line = f"{title:22} {options.count:7} files: {outcomes['refused']} refused, {outcomes['read']} read"
            print(f"{line}, {sum(strange.values())} foreign ({time.perf_counter() - began:.0f} s)", flush=True)
            for kind, times in sorted(strange.items(), key=lambda each: -each[1])[:10]:
                print(f"    {times} × {kind}", flush=True)
    print(f"{foreign} foreign exceptions")
    return int(foreign > 0)


if __name__ == "__main__":
    sys.exit(main())
