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
from initscope.propagate.kernels import PairKernel
from initscope.theory.images import expected_cosine

torch.set_num_threads(1)
WARM = 2.0  # CPU-seconds of calls before the first that counts, as the peer compiles before


def timed(case, count, size):
    what, _, which = case.rpartition("-")
    depth, side = {"one": (1, 11), "wide": (10, 11), "ten": (10, 3)}[which]
    model = (pooled if what == "pooled" else stack)(depth, side)
    rng = np.random.default_rng(0)
    x, y = (torch.from_numpy(part) for part in rng.random((2, count, 3, size, size)).astype(np.float32))
    calls = {
        "matrix": lambda: partial(initscope.kernel, model, x),
        "pairs": lambda: partial(PairKernel(model, x), x, y),
        "formula": lambda: partial(expected_cosine, x.numpy(), y.numpy(), kernel_size=side),
        "predict": lambda: partial(initscope.predict, model, x, y),
        "pooled": lambda: partial(initscope.predict, model, x, y),
    }
    return timing(calls[what]())


def timing(call):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.process_time()
    call()
    while time.process_time() - begun < WARM:  # loops are loaded once they pay
        call()
    best = (float("inf"), float("inf"))
    for _ in range(5):
        cpu, wall = time.process_time(), time.perf_counter()
        call()
        best = min(best, (time.process_time() - cpu, time.perf_counter() - wall))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"cpu": best[0], "wall": best[1], "memory": (peak - before) / 1024}


if __name__ == "__main__":
    print(json.dumps(timed(sys.argv[1], *map(int, sys.argv[2:4]))))
