"""Training of the networks of the study of checks: three learning rates, a fixed budget, a JSON line per run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from initscope.data import load
from initscope.distributed.local import in_processes
from initscope.models.training_loop import Loop, seeded
from initscope.reproductions._study_networks import Network

__all__ = ["RATES", "STEPS", "read_runs", "splits", "train", "train_all", "train_best"]

RATES = (3e-4, 1e-3, 3e-3)
STEPS = 100
_BATCH = 64
_TRAIN, _TEST = 1200, 500


def splits(name: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return training images and labels, test images and labels; images are standardized and have 8×8 pixels.

    Fashion-MNIST is cropped by two pixels on each side and averaged over 3×3 blocks.
    """
    images, labels = [], []
    sides = ["train"] if name == "digits" else ["train", "test"]
    for side, count in zip(sides, (_TRAIN + _TEST,) if len(sides) == 1 else (_TRAIN, _TEST), strict=True):
        loaded = load(name, split=side, limit=count)
        images.append(torch.as_tensor(loaded.images))
        labels.append(torch.as_tensor(np.asarray(loaded.labels)))
    pixels = torch.cat(images)
    if pixels.shape[-1] != 8:
        pixels = F.avg_pool2d(pixels[..., 2:-2, 2:-2], 3)
    pixels = (pixels - pixels[:_TRAIN].mean()) / pixels[:_TRAIN].std()
    target = torch.cat(labels)
    return pixels[:_TRAIN], target[:_TRAIN], pixels[_TRAIN:], target[_TRAIN:]


def train(model: nn.Module, data: str, rate: float, *, steps: int = STEPS, seed: int = 0) -> dict[str, Any]:
    """Train with Adam and a learning rate that decays linearly to 0; return the final loss and the test accuracy."""
    inputs, labels, test_inputs, test_labels = splits(data)
    begun = time.process_time()
    with seeded(seed):
        optimizer = torch.optim.Adam(model.parameters(), lr=rate)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=steps)

        def loss(pick: Tensor) -> Tensor:
            return F.cross_entropy(model(inputs[pick]), labels[pick])

        model.train()
        loop = Loop(model, loss, items=len(inputs), batch=_BATCH, optimizer=optimizer, schedule=schedule)
        losses = [float(loop.step()) for _ in range(steps)]
        model.eval()
        with torch.no_grad():
            accuracy = float((model(test_inputs).argmax(1) == test_labels).float().mean())
    seconds = round(time.process_time() - begun, 3)
    return {"loss": float(f"{np.mean(losses[-10:]):.5g}"), "accuracy": round(accuracy, 6), "seconds": seconds}


def read_runs(path: str | Path) -> dict[tuple[str, float], dict[str, Any]]:
    """Return the runs in a file, by network and learning rate; an incomplete last line is ignored."""
    runs: dict[tuple[str, float], dict[str, Any]] = {}
    file = Path(path)
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        try:
            run = json.loads(line)
        except json.JSONDecodeError:
            continue
        runs[run["network"], run["rate"]] = run
    return runs


Runs = dict[tuple[str, float], dict[str, Any]]
"""Runs by network name and learning rate."""


def train_all(
    to_train: Iterable[Network],
    path: str | Path | None = None,
    *,
    rates: tuple[float, ...] = RATES,
    steps: int = STEPS,
    seconds: float = float("inf"),
    workers: int = 1,
) -> Runs:
    """Train every network at every learning rate; runs that ``path`` holds for the same number of steps are reused.

    No new run starts after ``seconds`` of CPU time, or of wall time with several ``workers``.
    """
    kept = {} if path is None else read_runs(path)
    runs = {key: run for key, run in kept.items() if run["steps"] == steps}
    left = [(network, rate) for network in to_train for rate in rates if (network.name, rate) not in runs]
    if workers > 1:
        _train_in_processes(left, steps, seconds, workers, runs, path)
        return runs
    begun = time.process_time()
    for network, rate in left:
        if time.process_time() - begun <= seconds:
            _train_once(network.name, network.build, network, rate, steps, runs, path)
    return runs


def _train_in_processes(
    left: Iterable[tuple[Network, float]], steps: int, seconds: float, workers: int, runs: Runs, path: str | Path | None
) -> None:
    """Train in worker processes, one thread each, until the time is over."""
    jobs = [(f"{network.name} {rate}", {"network": network, "rate": rate, "steps": steps}) for network, rate in left]
    begun = time.monotonic()
    with closing(in_processes(_in_process, jobs, workers)) as outcomes:
        for outcome in outcomes:
            if outcome.error:
                raise RuntimeError(f"{outcome.job}: {outcome.error}")
            _keep(outcome.rows[0], runs, path)
            if time.monotonic() - begun > seconds:
                return


def _in_process(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    torch.set_num_threads(1)
    network: Network = job["network"]
    return [_trained(network.name, network.build, network, job["rate"], job["steps"])]


def train_best(
    name: str,
    build: Callable[[], nn.Module],
    network: Network,
    *,
    rates: tuple[float, ...],
    steps: int,
    runs: Runs,
    path: str | Path | None = None,
) -> float:
    """Return the best test accuracy over learning rates of a model in place of the network; cache it as ``name``."""
    for rate in rates:
        _train_once(name, build, network, rate, steps, runs, path)
    return max(float(runs[name, rate]["accuracy"]) for rate in rates)


def _train_once(
    name: str,
    build: Callable[[], nn.Module],
    network: Network,
    rate: float,
    steps: int,
    runs: Runs,
    path: str | Path | None,
) -> None:
    """Train and add the run to ``runs`` and to the file, unless it is there."""
    if (name, rate) not in runs:
        _keep(_trained(name, build, network, rate, steps), runs, path)


def _trained(name: str, build: Callable[[], nn.Module], network: Network, rate: float, steps: int) -> dict[str, Any]:
    run = {"network": name, "rate": rate, "steps": steps}
    return run | train(build(), network.architecture.data, rate, steps=steps, seed=network.seed)


def _keep(run: dict[str, Any], runs: Runs, path: str | Path | None) -> None:
    runs[run["network"], run["rate"]] = run
    if path is not None:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(run) + "\n")
