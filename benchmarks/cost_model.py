"""What a billion images on a hundred machines would cost: arithmetic from unit costs that are measured here.

    python benchmarks/cost_model.py      # writes cost_model.md

Unit costs (CPU seconds) are measured at one size; the same arithmetic is then checked at four times that size.
"""

from __future__ import annotations

import os
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from measuring import seconds

HERE = Path(__file__).parent
SHAPE, BITS, DRAWS, K = (3, 32, 32), 64, 128, 10
IMAGES, MACHINES, QUERIES, ROWS, KERNEL = 10**9, 100, 10_000, 5_000, 100_000


def images(folder: str, count: int) -> str:
    """A file of bytes that are images."""
    path = f"{folder}/{count}.npy"
    data = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(count, *SHAPE))
    data[:] = np.random.default_rng(0).integers(0, 256, (1000, *SHAPE), dtype=np.uint8)[np.arange(count) % 1000]
    data.flush()
    return path


def measured(folder: str, count: int, codes: int, kernel: int) -> dict[str, float]:
    """CPU seconds of all four commands, in blocks."""
    from initscope.cli._vectors import stored_codes
    from initscope.distributed import (
        encode_blocks,
        kernel_in_blocks,
        mean_width_of_blocks,
        nearest_in_blocks,
        open_blocks,
    )
    from initscope.distributed.matrices import ModelName
    from initscope.embed import SignHash, save_hasher

    blocks = open_blocks(images(folder, count), rows=ROWS)
    save_hasher(SignHash(bits=BITS).fit(np.ones((2, 3072), np.float32)), f"{folder}/hash")
    np.save(f"{folder}/codes.npy", np.random.default_rng(1).integers(0, 256, (codes, BITS // 8), dtype=np.uint8))
    stored, bits = stored_codes(f"{folder}/codes.npy")
    queries = stored.read(np.arange(100))
    few = open_blocks(images(folder, kernel), rows=64)
    model = ModelName("conv3x3x8-relu*4", None, SHAPE, 0)
    calls = {
        "encode": partial(encode_blocks, f"{folder}/hash", blocks, f"{folder}/out.npy"),
        "mean width": partial(mean_width_of_blocks, blocks, draws=DRAWS),
        "search": partial(nearest_in_blocks, stored, bits, queries, K, rows=250_000),
        "kernel": partial(kernel_in_blocks, model, few, f"{folder}/kernel.npy"),
    }
    return {name: seconds(call, 1)[0] for name, call in calls.items()}


def main() -> None:
    small, large = (5_000, 500_000, 128), (20_000, 2_000_000, 256)
    with tempfile.TemporaryDirectory() as folder:
        first, second = measured(folder, *small), measured(folder, *large)
    work = {"encode": 0, "mean width": 0, "search": 1, "kernel": 2}
    growth = {name: (large[at] / small[at]) ** (2 if at == 2 else 1) for name, at in work.items()}
    units = {name: first[name] / (small[at] ** 2 / 2 if at == 2 else small[at]) for name, at in work.items()}
    units["search"] /= 100
    text = table(units) + check(first, second, growth, small, large)
    (HERE / "cost_model.md").write_text(text, encoding="utf-8")
    print(text, end="")


def table(units: dict[str, float]) -> str:
    """The arithmetic for a billion images."""
    each, pixels = IMAGES // MACHINES, int(np.prod(SHAPE))
    pairs = KERNEL**2 // 2 // MACHINES
    sums = IMAGES // ROWS * (pixels * 8 + 4 * DRAWS * 4)  # of every block: a sum in float64, extremes of two halves
    found = MACHINES * (each // 2**20 + 1) * QUERIES * K * 12  # of every partition: distances and ids
    maps = 2 * 512 * 1024 * 16 * 9  # of two blocks: deviations and their inverses before nine steps, twice
    matrix = KERNEL**2 * 4
    rows = [
        ("command", "CPU-seconds", "units a machine", "hours", "read, GB", "moved in all, GB", "MB a worker"),
        ("---",) * 7,
        (f"hash encode, {BITS} bits", "encode", "an image", each, pixels * each, IMAGES * BITS // 8, block()),
        (f"mean-width, {DRAWS} draws", "mean width", "an image", each, 2 * pixels * each, sums, block()),
        (
            f"search, {QUERIES} queries",
            "search",
            "a code and query",
            each * QUERIES,
            each * BITS // 8,
            found,
            3 * 2**23,
        ),
        (f"kernel of {KERNEL:,} images, 4 layers", "kernel", "a pair", pairs, KERNEL * pixels, matrix, maps),
    ]
    lines = [f"{IMAGES:.0e} images of 32×32×3 bytes on {MACHINES} machines of one core each.", ""]
    lines += ["| " + " | ".join(row) + " |" for row in rows[:2]]
    for label, name, unit, count, read, moved, memory in rows[2:]:
        cells = [f"{units[name]:.2e} {unit}", f"{count:.1e}", f"{units[name] * count / 3600:.2g}"]
        cells += [f"{read / 1e9:.2g}", f"{moved / 1e9:.2g}", f"{memory / 1e6:.0f}"]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    flops = 2 * pixels * BITS
    product = f"{flops / 1e3:.0f} kFLOP an image, {flops * each / 1e12:.1f} TFLOP a machine"
    lines += ["", f"The matrix product of encoding is {product}."]
    lines += ["Codes stay where they are: search moves the nearest of every partition of 2²⁰ codes, and nothing else."]
    return "\n".join(lines) + "\n"


def block() -> float:
    """Bytes while a block is encoded: its bytes, floats, and both again while it is made."""
    return ROWS * int(np.prod(SHAPE)) * (1 + 4 + 4)


def check(first: dict, second: dict, growth: dict, small: tuple, large: tuple) -> str:
    """The same arithmetic at a larger size, beside what is measured there."""
    lines = ["", "The arithmetic checked at two sizes: unit costs of the smaller give the larger.", ""]
    lines += ["| command | small | measured (s) | large | predicted (s) | measured (s) | measured/predicted |"]
    lines += ["|---|---|---|---|---|---|---|"]
    at = {"encode": 0, "mean width": 0, "search": 1, "kernel": 2}
    for name, number in at.items():
        expected = first[name] * growth[name]
        sizes = f"| {name} | {small[number]:,} | {first[name]:.3g} | {large[number]:,} "
        lines.append(f"{sizes}| {expected:.3g} | {second[name]:.3g} | {second[name] / expected:.2f} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if os.environ.get("OMP_NUM_THREADS") != "1":
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"OMP_NUM_THREADS": "1"})
    main()
