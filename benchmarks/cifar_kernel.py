"""Few CIFAR-10 images: infinitely wide networks without training, beside the same networks trained.

    python benchmarks/cifar_kernel.py 10 20 40 80 160 320 640 [--repeats 3] [--test 1000] [--pooled 10 20 40 80]

The numbers are training images of every class. Each measurement is a line of ``cifar_kernel.jsonl``; what is there is
not run again. ``--table`` writes ``cifar_kernel.md`` from it: means over training sets drawn anew, with standard errors
over them; the test images stay.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from initscope.data import load
from initscope.embed import NetworkKernel
from initscope.models import load_model
from initscope.models.training_loop import Loop, seeded

HERE = Path(__file__).parent
LINES, TABLE = HERE / "cifar_kernel.jsonl", HERE / "cifar_kernel.md"
ARCHITECTURES = {
    "plain": "conv3x3x64/2-relu-conv3x3x64-relu-conv3x3x64/2-relu-conv3x3x64-relu-dense10",
    "pooled": "conv3x3x64/2-relu-conv3x3x64/2-relu-conv3x3x64/2-relu-avgpool4-dense10",
}
RATE, BATCH = 1e-3, 32
SHAPE = (3, 32, 32)


def steps(images: int) -> int:
    """Batches of training: enough for the training loss to end near 0 on small sets; about eight epochs of large."""
    return max(400, 8 * images // BATCH)


def subset(labels: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers of ``count`` images of every class."""
    return np.concatenate([rng.choice(np.flatnonzero(labels == c), count, replace=False) for c in range(10)])


def trained(architecture: str, x: np.ndarray, y: np.ndarray, test: np.ndarray, seed: int) -> np.ndarray:
    """Classes of the test images by the network trained with Adam, its rate falling to 0 along a line."""
    model: nn.Module = load_model(architecture, input_shape=SHAPE, seed=seed)
    inputs, labels = torch.from_numpy(x), torch.from_numpy(y)
    with seeded(seed):
        optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=steps(len(x)))

        def loss(pick: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(model(inputs[pick]), labels[pick])

        loop = Loop(model, loss, items=len(x), batch=BATCH, optimizer=optimizer, schedule=schedule)
        for _ in range(steps(len(x))):
            loop.step()
        with torch.no_grad():
            return model(torch.from_numpy(test)).argmax(dim=1).numpy()


def wide(kind: str, architecture: str, x: np.ndarray, y: np.ndarray, test: np.ndarray, seed: int) -> np.ndarray:
    """Classes by the Gaussian process of the infinitely wide network."""
    model = load_model(architecture, input_shape=SHAPE, seed=seed)
    return NetworkKernel(model, kind=kind, initializer="he").fit(x, y).predict(test)


METHODS: dict[str, Callable[..., np.ndarray]] = {
    "NNGP": lambda *given: wide("nngp", *given),
    "NTK": lambda *given: wide("ntk", *given),
    "trained": trained,
}


def study(options: argparse.Namespace) -> None:
    """Run what is asked and not there yet."""
    torch.set_num_threads(1)
    pool, test = load("cifar10", limit=50_000), load("cifar10", split="test", limit=options.test)
    mean, deviation = pool.images.mean(axis=(0, 2, 3), keepdims=True), pool.images.std(axis=(0, 2, 3), keepdims=True)
    asked = (test.images - mean) / deviation
    done = {(line["network"], line["method"], line["images"], line["repeat"]) for line in read()}
    tasks = [("plain", method, count) for method in options.methods for count in options.counts]
    tasks += [("pooled", method, count) for count in options.pooled for method in options.methods]
    for network, method, count in tasks:
        few = asked[: options.pooled_test] if network == "pooled" else asked
        for repeat in range(options.repeats):
            if (network, method, count, repeat) in done:
                continue
            chosen = subset(pool.labels, count, np.random.default_rng([count, repeat]))
            x, cpu = (pool.images[chosen] - mean) / deviation, time.process_time()
            found = METHODS[method](ARCHITECTURES[network], x, pool.labels[chosen], few, repeat)
            line = {
                "network": network, "method": method, "images": count, "repeat": repeat, "test": len(few),
                "accuracy": float((found == test.labels[: len(few)]).mean()),
                "cpu": round(time.process_time() - cpu, 1),
            }  # fmt: skip
            with LINES.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def read() -> list[dict]:
    """Measurements so far."""
    if not LINES.exists():
        return []
    return [json.loads(line) for line in LINES.read_text(encoding="utf-8").splitlines()]


def summary() -> dict[tuple[str, str, int], tuple[float, float, int, float]]:
    """For network, method and images of a class: mean accuracy, its error over training sets, sets, CPU-seconds."""
    groups: dict[tuple[str, str, int], list[dict]] = {}
    for line in read():
        groups.setdefault((line["network"], line["method"], line["images"]), []).append(line)
    result = {}
    for key, lines in sorted(groups.items()):
        each = np.array([line["accuracy"] for line in lines])
        error = each.std(ddof=1) / len(each) ** 0.5 if len(each) > 1 else np.nan
        result[key] = (each.mean(), error, len(each), float(np.mean([line["cpu"] for line in lines])))
    return result


def table() -> str:
    """Accuracies in per cent, in Markdown."""
    found, lines = summary(), []
    for network, architecture in ARCHITECTURES.items():
        methods = [method for method in METHODS if any(key[:2] == (network, method) for key in found)]
        counts = sorted({key[2] for key in found if key[0] == network})
        if not counts:
            continue
        tests = sorted({line["test"] for line in read() if line["network"] == network})
        lines += [f"{network}: `{architecture}`; {' or '.join(map(str, tests))} test images", ""]
        lines += ["| images of a class | " + " | ".join(methods) + " |", "|---|" + "---|" * len(methods)]
        for count in counts:
            cells = [
                cell(*found[network, method, count]) if (network, method, count) in found else "–" for method in methods
            ]
            lines.append(f"| {count} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def cell(mean: float, error: float, sets: int, cpu: float) -> str:
    """Accuracy and its error; how many sets, where there are not three; seconds."""
    spread = "" if np.isnan(error) else f" ± {100 * error:.1f}"
    few = "" if sets == 3 else f", {sets} set{'s' * (sets > 1)}"
    return f"{100 * mean:.1f}{spread} ({cpu:.0f} s{few})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("counts", type=int, nargs="*")
    parser.add_argument("--pooled", type=int, nargs="*", default=[])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--test", type=int, default=1000)
    parser.add_argument("--pooled-test", type=int, default=500)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    study(options)
    if options.table:
        TABLE.write_text(table(), encoding="utf-8")


if __name__ == "__main__":
    main()
