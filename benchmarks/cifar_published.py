"""Few CIFAR-10 images by the tangent kernel of a pooled network, in the setting of arXiv:1910.01663.

    python benchmarks/cifar_published.py FOLDER [--pool 80] [--tests 320] [--layers 5]

Convolutions 3×3 with zeros around, ReLU, the mean of all positions, a linear read-out; n training images in all, n/10
of a class. The kernel of a pool of training images with the test images is computed part by part and kept in FOLDER;
what is there is not computed again. Training sets of one size are disjoint. ``cifar_published.jsonl`` has which test
images each set gets right; ``--table`` writes ``cifar_published.md`` from it, with their numbers beside ours.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from initscope import kernel
from initscope.data import load
from initscope.embed import NetworkKernel
from initscope.models import load_model

HERE = Path(__file__).parent
LINES, TABLE = HERE / "cifar_published.jsonl", HERE / "cifar_published.md"
MOST, LOT, PART = 160, 80, 32  # training images at most, in one part; test images in one part
SHAPE = (3, 32, 32)
PUBLISHED = {
    10: (14.59, 15.08, 15.33), 20: (17.50, 18.03, 18.79), 40: (19.52, 20.83, 21.34), 80: (23.32, 24.82, 25.48),
    160: (28.30, 29.63, 30.48),
}  # fmt: skip
"""By training images: ResNet-34 trained, 5 and 14 layers of their kernel; means of 20 draws, in per cent."""
DRAWS = 20
NOISES = (1e-8, 0.1, "auto")
DEVIATIONS = {10: 2.43, 20: 2.13, 40: 1.91, 80: 1.91, 160: 1.17}
"""Of these draws, for 14 layers."""


def images(count: int, tests: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The pool, image j of class j mod 10, and test images, with labels; every channel has mean 0 and deviation 1."""
    every, test = load("cifar10", limit=50_000), load("cifar10", split="test", limit=tests)
    mean, deviation = (getattr(every.images, name)(axis=(0, 2, 3), keepdims=True) for name in ("mean", "std"))
    rng = np.random.default_rng(0)
    classes = [rng.choice(np.flatnonzero(every.labels == c), MOST // 10, replace=False) for c in range(10)]
    pool = np.stack(classes, axis=1).ravel()[:count]
    scaled = ((chosen - mean) / deviation for chosen in (every.images[pool], test.images))
    return (*scaled, every.labels[pool], test.labels)


class Parts:
    """The kernel, part by part in files."""

    def __init__(self, folder: Path, layers: int, pool: np.ndarray, test: np.ndarray) -> None:
        self._folder, self._pool, self._test = folder, pool, test
        architecture = f"(conv3x3x64:zeros-relu)*{layers}-avgpool32-dense10"
        self._model = load_model(architecture, input_shape=SHAPE, seed=0)
        self._name = f"{layers}-layers"

    def part(self, rows: tuple[str, int, int], columns: tuple[str, int, int]) -> np.ndarray:
        """Rows and columns: ``"pool"`` or ``"test"``, the first image and the one behind the last."""
        path = self._folder / f"{self._name}-{'-'.join(map(str, (*rows, *columns)))}.npy"
        if not path.exists():
            left, right = ({"pool": self._pool, "test": self._test}[which][a:b] for which, a, b in (rows, columns))
            cpu = time.process_time()
            options: dict[str, Any] = {"kind": "ntk", "initializer": "he", "normalize": False}
            found = kernel(self._model, left, None if rows == columns else right, **options)
            with (self._folder / "seconds.txt").open("a", encoding="utf-8") as file:
                file.write(f"{path.name} {found.size} {time.process_time() - cpu:.1f}\n")
            whole = path.with_suffix(".part")
            with whole.open("wb") as file:
                np.save(file, found)
            os.replace(whole, path)
        return np.load(path)

    def gram(self) -> np.ndarray:
        """Of the pool."""
        whole = np.zeros((len(self._pool), len(self._pool)))
        lots = [slice(a, a + LOT) for a in range(0, len(whole), LOT)]
        for n, rows in enumerate(lots):
            for columns in lots[n:]:
                whole[rows, columns] = self.part(*(("pool", lot.start, lot.stop) for lot in (rows, columns)))
                whole[columns, rows] = whole[rows, columns].T
        return whole

    def rows(self) -> np.ndarray:
        """Of the test images with the pool."""
        ends = [("test", a, a + PART) for a in range(0, len(self._test), PART)]
        lots = [("pool", a, a + LOT) for a in range(0, len(self._pool), LOT)]
        return np.concatenate([np.concatenate([self.part(lot, each) for lot in lots]).T for each in ends])


class Computed(NetworkKernel):
    """On numbers of images whose kernel is there: those of the pool, and behind them test images."""

    matrix: np.ndarray

    def _kernel(self, X: Any, others: Any = None) -> np.ndarray:
        return self.matrix[np.ix_(X, X if others is None else others)]


def study(options: argparse.Namespace) -> None:
    """Run every disjoint training set of every size, with no noise to speak of, some, and that of the default."""
    torch.set_num_threads(1)
    pool, test, labels, answers = images(options.pool, options.tests)
    parts = Parts(options.folder, options.layers, pool, test)
    Computed.matrix = np.concatenate([parts.gram(), parts.rows()])
    asked = np.arange(len(pool), len(pool) + len(test))
    kept = [line for line in read() if line["layers"] != options.layers]
    for count in PUBLISHED:
        for which in range(len(pool) // count):
            chosen = np.arange(which * count, (which + 1) * count)
            for noise in NOISES:
                found = Computed(parts._model, kind="ntk", noise=noise).fit(chosen, labels[chosen]).predict(asked)
                right = "".join("01"[int(each)] for each in found == answers)
                kept.append({"layers": options.layers, "images": count, "set": which, "noise": noise, "right": right})
    LINES.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")


def read() -> list[dict[str, Any]]:
    """Sets so far."""
    return [json.loads(line) for line in LINES.read_text(encoding="utf-8").splitlines()] if LINES.exists() else []


def accuracy(right: np.ndarray, deviation: float) -> tuple[float, float]:
    """Mean of ``right`` [sets, test images] and its standard error: sets and test images are drawn, each from its many.

    The mean's variance is that over sets, plus that over test images, less what both of them count: what is left of
    single entries. Of one set alone the ``deviation`` from others has to be given.
    """
    (sets, tests), mean = right.shape, right.mean()
    each_set, each_test = right.mean(axis=1, keepdims=True), right.mean(axis=0, keepdims=True)
    over_tests = each_test.var(ddof=1) / tests
    if sets == 1:
        return float(mean), float(np.sqrt(deviation**2 + over_tests))
    over_sets = each_set.var(ddof=1) / sets
    left = np.square(right - each_set - each_test + mean).sum() / ((sets - 1) * (tests - 1)) / right.size
    return float(mean), float(np.sqrt(max(over_sets + over_tests - left, over_sets, over_tests)))


def table() -> str:
    """Accuracies in per cent, in Markdown; in brackets how far from theirs, in standard errors."""
    lines, text = read(), []
    for layers in sorted({line["layers"] for line in lines}):
        mine = [line for line in lines if line["layers"] == layers]
        text += [f"{layers} convolutions; {len(mine[0]['right'])} test images", ""]
        text += ["| images | sets | no noise | noise .1 | noise by default | theirs, 5 layers | theirs, 14 |"
                 " ResNet-34, trained |", "|---" * 8 + "|"]  # fmt: skip
        for count in sorted({line["images"] for line in mine}):
            (trained, five, fourteen), deviation = PUBLISHED[count], DEVIATIONS[count]
            cells, sets = [], 0
            for noise in NOISES:
                found = [line["right"] for line in mine if (line["images"], line["noise"]) == (count, noise)]
                sets = len(found)
                mean, error = accuracy(np.array([[float(bit) for bit in each] for each in found]), deviation / 100)
                apart = (100 * mean - five) / np.hypot(100 * error, deviation / DRAWS**0.5)
                cells.append(f"{100 * mean:.1f} ± {100 * error:.1f} ({apart:+.1f})")
            text.append(f"| {count} | {sets} | {' | '.join(cells)} | {five} | {fourteen} | {trained} |")
        text.append("")
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pool", type=int, default=LOT, choices=(LOT, MOST))
    parser.add_argument("--tests", type=int, default=320)
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    study(options)
    if options.table:
        TABLE.write_text(table(), encoding="utf-8")


if __name__ == "__main__":
    main()
