"""Few CIFAR-10 images: an infinitely wide network without training, beside the same network trained.

    python benchmarks/cifar_kernel.py 10 20 40 80 160 320 640 [--repeats 5] [--test 500]

The numbers are training images in all, as in Arora et al. 2019 (arXiv:1910.01663), balanced over the classes. Each line
is a mean over training sets drawn anew, with the standard error over them; the test images stay.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from initscope.data import load
from initscope.embed import NetworkKernel
from initscope.models import load_model
from initscope.training import Loop, seeded

ARCHITECTURE = "conv3x3x32-relu-conv3x3x32/2-relu-conv3x3x32-relu-conv3x3x32/2-relu-dense10"
STEPS, RATE, BATCH = 300, 1e-3, 32


def subset(labels: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers of ``count`` images, as many of every class."""
    classes = range(10)
    return np.concatenate([rng.choice(np.flatnonzero(labels == c), count // 10, replace=False) for c in classes])


def trained(x: torch.Tensor, y: torch.Tensor, test: torch.Tensor, seed: int) -> np.ndarray:
    """Classes of the test images by the network trained with Adam, its rate falling to 0 along a line."""
    model: nn.Module = load_model(ARCHITECTURE, input_shape=(3, 32, 32), seed=seed)
    with seeded(seed):
        optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
        schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, total_iters=STEPS)

        def loss(pick: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(model(x[pick]), y[pick])

        loop = Loop(model, loss, items=len(x), batch=BATCH, optimiser=optimiser, schedule=schedule)
        for _ in range(STEPS):
            loop.step()
        with torch.no_grad():
            return model(test).argmax(dim=1).numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("counts", type=int, nargs="+")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--test", type=int, default=500)
    options = parser.parse_args()
    torch.set_num_threads(1)
    pool, test = load("cifar10", limit=20_000), load("cifar10", split="test", limit=options.test)
    mean, deviation = pool.images.mean(axis=(0, 2, 3), keepdims=True), pool.images.std(axis=(0, 2, 3), keepdims=True)
    images, asked = (pool.images - mean) / deviation, (test.images - mean) / deviation
    model = load_model(ARCHITECTURE, input_shape=(3, 32, 32))
    for count in options.counts:
        found: dict[str, list[float]] = {"NNGP": [], "NTK": [], "trained": []}
        for repeat in range(options.repeats):
            chosen = subset(pool.labels, count, np.random.default_rng([count, repeat]))
            x, y = images[chosen], pool.labels[chosen]
            for kind in ("nngp", "ntk"):
                fitted = NetworkKernel(model, kind=kind).fit(x, y)
                found[kind.upper()].append(float((fitted.predict(asked) == test.labels).mean()))
            classes = trained(torch.from_numpy(x), torch.from_numpy(y), torch.from_numpy(asked), repeat)
            found["trained"].append(float((classes == test.labels).mean()))
        errors = {k: [np.mean(v), np.std(v, ddof=1) / len(v) ** 0.5] for k, v in found.items()}
        print(
            json.dumps({"images": count} | {k: [round(float(n), 4) for n in v] for k, v in errors.items()}), flush=True
        )


if __name__ == "__main__":
    main()
