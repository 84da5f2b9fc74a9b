"""Kill writers at random times (SIGKILL): the file is always whole, old or new, and leftovers are removed.

A writer is a forked process that writes version after version of one file. COUNT times the parent kills it after a
random time (up to three writes) and reads the file: another content than a whole version is a failure. In the end the
parent writes once itself; a temporary file that is still there is a failure.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attacks.outcomes import Outcome

from initscope._utils.files import atomic_path, write_text
from initscope.cli._vectors import Codes, read_codes, write_codes
from initscope.embed import HammingIndex, SignHash, load_hasher, save_hasher
from initscope.injectivity import decide, read_proof, verify, write_proof

COUNT = 200
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


def attack(writer: Writer, path: Path, kills: int, rng: np.random.Generator) -> tuple[list[str], int, int]:
    """Failures; number of kills that left a temporary file; number of kills after a new version was there."""
    writer.write(path, 0)  # the first one loads libraries
    began = time.perf_counter()
    writer.write(path, 0)
    took = time.perf_counter() - began
    failures, left, changed, before = list[str](), 0, 0, 0
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
            version = writer.read(path)
        except Exception as error:
            failures.append(f"not whole: {type(error).__name__}: {error}")
            writer.write(path, before)
            continue
        changed += version != before
        before = version
    writer.write(path, 0)
    names = sorted(file.name for file in path.parent.iterdir())
    if names != [path.name]:
        failures.append(f"left over: {names}")
    return failures, left, changed


def run(count: int, seed: int = 0) -> Iterator[Outcome]:
    """Kill every writer ``count`` times."""
    rng = np.random.default_rng(seed)
    for title, writer in WRITERS.items():
        with tempfile.TemporaryDirectory() as folder:
            failures, left, changed = attack(writer, Path(folder, "file"), count, rng)
        figures = f"{left} left a temporary file, which the next write removed; {changed} after a new version"
        yield Outcome(title, count, len(failures), figures, tuple(failures))
