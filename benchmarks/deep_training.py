"""Do deep ReLU networks train from He's start, and from a mirrored one? The numbers of docs/inspection.rst.

``python benchmarks/deep_training.py --seeds 20``: ReLU layers of width 64 on the bundled digits, 300 steps of SGD;
mean accuracy on held-out digits with its standard error over seeds, which draw weights, batches and the split.
"""

from __future__ import annotations

import argparse
from itertools import pairwise

import numpy as np
import torch

from initscope import data
from initscope.initializers import He, LooksLinear


def accuracy(law: object, depth: int, rate: float, seed: int, steps: int = 300) -> float:
    """Accuracy on a fifth of the digits after training on the others; NaN if training diverged."""
    digits = data.load("digits")
    images = torch.tensor(digits.images).flatten(1)
    labels = torch.tensor(digits.labels)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(images), generator=generator)
    held, kept = order[: len(order) // 5], order[len(order) // 5 :]
    sizes = [64] * (depth + 1)
    hidden = [part for a, b in pairwise(sizes) for part in (torch.nn.Linear(a, b), torch.nn.ReLU())]
    model = torch.nn.Sequential(*hidden, torch.nn.Linear(64, 10))
    law.fill_(model, generator=generator)
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            torch.nn.init.zeros_(layer.bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    for _ in range(steps):
        batch = kept[torch.randint(len(kept), (64,), generator=generator)]
        loss = torch.nn.functional.cross_entropy(model(images[batch]), labels[batch])
        if not torch.isfinite(loss):
            return float("nan")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return float((model(images[held]).argmax(dim=1) == labels[held]).double().mean())


def main() -> None:
    """Print a line for each depth, rate and start."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for depth, rate in ((100, 1e-3), (20, 1e-3)):
        for name, law in (("He", He()), ("mirrored", LooksLinear())):
            found = np.array([accuracy(law, depth, rate, seed) for seed in range(options.seeds)])
            kept = found[np.isfinite(found)]
            error = kept.std(ddof=1) / np.sqrt(len(kept)) if len(kept) > 1 else float("nan")
            mean = kept.mean() if len(kept) else float("nan")
            print(
                f"{depth} layers, rate {rate:g}, {name}: {mean:.3f} ± {error:.3f}, "
                f"range {kept.min(initial=1):.3f} to {kept.max(initial=0):.3f}, diverged {len(found) - len(kept)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
