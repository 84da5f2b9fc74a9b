"""The same timings as ``peer.py``'s, by initscope: CPU and wall seconds, growth of memory, one thread. JSON on stdout.

python ours.py CASE N SIDE
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from functools import partial

os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = "1"

import numpy as np
import torch
from networks import pooled, stack

import initscope
from initscope.theory.images import expected_cosine

torch.set_num_threads(1)


def timed(case, count, size):
    depth, side = {"one": (1, 11), "wide": (10, 11), "ten": (10, 3)}[case.rpartition("-")[2]]
    model = (pooled if case.startswith("pooled") else stack)(depth, side)
    rng = np.random.default_rng(0)
    x, y = (torch.from_numpy(part) for part in rng.random((2, count, 3, size, size)).astype(np.float32))
    if case.startswith("formula"):
        call = partial(expected_cosine, x.numpy(), y.numpy(), kernel_size=side)
        return timing(call)
    call = partial(initscope.kernel, model, x) if case.startswith("matrix") else partial(initscope.predict, model, x, y)
    return timing(call)


def timing(call):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    call()  # loops are loaded here
    best = (float("inf"), float("inf"))
    for _ in range(3):
        cpu, wall = time.process_time(), time.perf_counter()
        call()
        best = min(best, (time.process_time() - cpu, time.perf_counter() - wall))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"cpu": best[0], "wall": best[1], "memory": (peak - before) / 1024}


if __name__ == "__main__":
    print(json.dumps(timed(sys.argv[1], *map(int, sys.argv[2:4]))))
