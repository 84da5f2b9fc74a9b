"""Kill writers at random times (SIGKILL): what they write is there whole, old or new, and leftovers go.

A writer is a fork that writes version after version of one file; the parent kills it after a random time, reads the
file, and in the end writes once itself and looks that nothing else is left. Exit code 1 if a file was ever not whole.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from initscope._utils.files import atomic_path, write_text
from initscope.cli._vectors import Codes, read_codes, write_codes
from initscope.embed import HammingIndex, SignHash, load_hasher, save_hasher
from initscope.injectivity import decide, read_proof, verify, write_proof

ROWS = 40_000
LAYER = np.vstack([np.eye(60), -np.eye(60)])


@dataclass(frozen=True)
class Writer:
    """Writes version ``number`` (0 … 9) to a path, and reads the version of a whole file."""

    write: Callable[[Path, int], Any]
    read: Callable[[Path], int]


def _codes(number: int) -> np.ndarray:
    return np.full((ROWS, 8), number, dtype=np.uint8)


def _write_index(path: Path, number: int) -> None:
    index = HammingIndex(64)
    index.add(_codes(number))
    index.save(path)


def _read_index(path: Path) -> int:
    index = HammingIndex.load(path)
    assert len(index) == ROWS
    number = 0
    while index.search(_codes(number)[:1], 1)[0][0, 0]:
        number += 1
    return number


def _write_hash(path: Path, number: int) -> None:
    save_hasher(SignHash(bits=number + 8, random_state=number).fit(np.ones((2, 30_000))), path)


def _read_codes(path: Path) -> int:
    codes = read_codes(path).codes
    assert codes.shape == (ROWS, 8)
    assert (codes == codes[0, 0]).all()
    return int(codes[0, 0])


def _write_weights(path: Path, number: int) -> None:
    with atomic_path(path) as temporary:
        torch.save(torch.full((ROWS, 8), float(number)), temporary)


def _read_weights(path: Path) -> int:
    values = torch.load(path, weights_only=True)
    assert bool((values == values[0, 0]).all())
    return int(values[0, 0])


def _read_text(path: Path) -> int:
    text = path.read_text()
    assert text == text[0] * (8 * ROWS)
    return int(text[0])


def _write_proof(path: Path, number: int) -> None:
    layer = LAYER * 2.0**number
    write_proof(path, layer, None, decide(layer))


def _read_proof(path: Path) -> int:
    proof = read_proof(path)
    assert verify(proof.weight, proof.bias, proof.decision)
    assert proof.weight is not None
    return int(np.log2(proof.weight[0, 0]))


WRITERS = {
    "text (pages, tables)": Writer(lambda path, number: write_text(path, str(number) * 8 * ROWS), _read_text),
    "index": Writer(_write_index, _read_index),
    "hash": Writer(_write_hash, lambda path: load_hasher(path).bits - 8),
    "codes": Writer(lambda path, number: write_codes(path, Codes(_codes(number), 64, None)), _read_codes),
    "weights": Writer(_write_weights, _read_weights),
    "proof": Writer(_write_proof, _read_proof),
}


def attack(writer: Writer, path: Path, kills: int, rng: np.random.Generator) -> tuple[int, int, int]:
    """Number of kills after which the file was not whole, a temporary file was left, a new version was there."""
    writer.write(path, 0)  # the first one loads libraries
    began = time.perf_counter()
    writer.write(path, 0)
    took = time.perf_counter() - began
    broken = left = changed = 0
    before = 0
    for _ in range(kills):
        child = os.fork()
        if child == 0:
            number = before
            while True:
                number = (number + 1) % 10
                writer.write(path, number)
        time.sleep(float(rng.uniform(0, 3 * took)))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        left += len(list(path.parent.iterdir())) > 1
        try:
            now = writer.read(path)
        except Exception as error:
            print(f"    not whole: {type(error).__name__}: {error}", flush=True)
            broken += 1
            writer.write(path, before)
            continue
        changed += now != before
        before = now
    writer.write(path, 0)
    broken += [each.name for each in path.parent.iterdir()] != [path.name]
    return broken, left, changed


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="for each writer")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rng, failures = np.random.default_rng(options.seed), 0
    for title, writer in WRITERS.items():
        with tempfile.TemporaryDirectory() as folder:
            broken, left, changed = attack(writer, Path(folder, "file"), options.kills, rng)
        failures += broken
        print(f"{title:22} {options.kills} kills: {broken} not whole, {left} left a temporary file that was removed "
              f"later, {changed} after a new version", flush=True)  # fmt: skip
    print(f"{failures} failures")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
