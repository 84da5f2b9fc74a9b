"""Runs in an environment of its own with neural-tangents: kernels of the networks, or timings. JSON on stdout.

python peer.py values INPUTS.npy        # kernels in float64
python peer.py time CASE N SIDE BATCH   # CPU and wall seconds, and the growth of memory, float32, one thread
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import neural_tangents as nt
import numpy as np
from neural_tangents import stax

GAIN, BIAS = 2**0.5, 0.1


def dense(bias=BIAS):
    return stax.Dense(1, W_std=GAIN, b_std=bias)


def conv(side=3, padding="CIRCULAR", strides=None, bias=BIAS):
    return stax.Conv(1, (side, side), padding=padding, strides=strides, W_std=GAIN, b_std=bias)


NETWORKS = {
    "dense": stax.serial(stax.Flatten(), dense(), stax.Relu(), dense(), stax.Relu(), dense()),
    "dense erf": stax.serial(stax.Flatten(), dense(), stax.Erf(), dense(), stax.Erf(), dense()),
    "convolution": stax.serial(conv(), stax.Relu(), conv(5), stax.Relu(), stax.Flatten(), dense()),
    "valid, strided": stax.serial(
        conv(3, "VALID"), stax.Relu(), conv(2, "VALID", (2, 2)), stax.Relu(), stax.Flatten(), dense()
    ),
    "average pooling": stax.serial(
        conv(), stax.Relu(), stax.AvgPool((2, 2), strides=(2, 2)), conv(), stax.Relu(), stax.Flatten(), dense()
    ),
    "global pooling": stax.serial(conv(), stax.Relu(), conv(), stax.Relu(), stax.GlobalAvgPool(), dense()),
    "skip": stax.serial(
        conv(),
        stax.FanOut(2),
        stax.parallel(stax.Identity(), stax.serial(stax.Relu(), conv(), stax.Relu(), conv())),
        stax.FanInSum(),
        stax.Relu(),
        stax.Flatten(),
        dense(),
    ),
}


def values(path):
    jax.config.update("jax_enable_x64", True)
    images = np.load(path).astype(np.float64).transpose(0, 2, 3, 1)
    found = {}
    for name, (_, _, kernel) in NETWORKS.items():
        both = kernel(images, None, ("nngp", "ntk"))
        found[name] = {"nngp": np.asarray(both.nngp).tolist(), "ntk": np.asarray(both.ntk).tolist()}
    return found


def stack(depth, side, head):
    layers = [layer for _ in range(depth) for layer in (conv(side, bias=None), stax.Relu())]
    return stax.serial(*layers, head)[2]


def runner(kernel, x, y, batch, *, pairs):
    """A call that computes all, compiled: pairs by vmap (batch 0) or by vmap of so many; a matrix at once or so."""

    def one(a, b):
        return kernel(a[None], b[None], "nngp")[0, 0]

    if pairs:
        some = None if batch == 1 else batch
        every = jax.jit(
            jax.vmap(one) if batch == 0 else lambda a, b: jax.lax.map(lambda ab: one(*ab), (a, b), batch_size=some)
        )
        return lambda: every(x, y).block_until_ready()
    if batch:
        batched = nt.batch(kernel, batch_size=batch, store_on_device=False)
        return lambda: np.asarray(batched(x, None, "nngp"))
    whole = jax.jit(lambda a: kernel(a, None, "nngp")).lower(x).compile()
    return lambda: whole(x).block_until_ready()


def timed(case, count, size, batch):
    depth, side = {"one": (1, 11), "wide": (10, 11), "ten": (10, 3)}[case.rpartition("-")[2]]
    kernel = stack(depth, side, stax.GlobalAvgPool() if case.startswith("pooled") else stax.Flatten())
    rng = np.random.default_rng(0)
    x, y = rng.random((2, count, size, size, 3)).astype(np.float32)
    run = runner(kernel, x, y, batch, pairs=not case.startswith("matrix"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if batch or not case.startswith("matrix"):
        run()  # compiled here
    best = (float("inf"), float("inf"))
    for _ in range(2 if case.startswith("matrix") else 5):
        cpu, wall = time.process_time(), time.perf_counter()
        run()
        best = min(best, (time.process_time() - cpu, time.perf_counter() - wall))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"cpu": best[0], "wall": best[1], "memory": (peak - before) / 1024}


if __name__ == "__main__":
    if sys.argv[1] == "values":
        print(json.dumps(values(sys.argv[2])))
    else:
        print(json.dumps(timed(sys.argv[2], *map(int, sys.argv[3:6]))))
