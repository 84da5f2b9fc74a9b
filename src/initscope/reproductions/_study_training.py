"""Training the networks of the study of verdicts: three rates, one fixed budget, one line of JSON for each run."""

from __future__ import annotations

import functools
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
from initscope.data.locations import search_path
from initscope.distributed.local import in_processes
from initscope.models.training_loop import Loop, seeded
from initscope.reproductions._study_networks import Network

__all__ = ["RATES", "STEPS", "read_runs", "splits", "train", "train_all", "train_best"]

RATES = (3e-4, 1e-3, 3e-3)
STEPS = 100
_BATCH = 64
_TRAIN, _TEST = 1200, 500


def splits(name: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training images and labels, test images and labels, all standardised and 8×8.

    Fashion-MNIST is averaged over blocks: 28 pixels, without the outermost two on each side, by threes.
    """
    return _splits(name, tuple(search_path()))


@functools.lru_cache(maxsize=4)
def _splits(name: str, _folders: tuple[Path, ...]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    images, labels = [], []
    sides = ["train"] if name == "digits" else ["train", "test"]
    for side, count in zip(sides, (_TRAIN + _TEST,) if len(sides) == 1 else (_TRAIN, _TEST), strict=True):
        found = load(name, split=side, limit=count)
        images.append(torch.as_tensor(found.images))
        labels.append(torch.as_tensor(np.asarray(found.labels)))
    pixels = torch.cat(images)
    if pixels.shape[-1] != 8:
        pixels = F.avg_pool2d(pixels[..., 2:-2, 2:-2], 3)
    pixels = (pixels - pixels[:_TRAIN].mean()) / pixels[:_TRAIN].std()
    target = torch.cat(labels)
    return pixels[:_TRAIN], target[:_TRAIN], pixels[_TRAIN:], target[_TRAIN:]


def train(model: nn.Module, data: str, rate: float, *, steps: int = STEPS, seed: int = 0) -> dict[str, Any]:
    """Adam at ``rate``, falling to 0 along a line, over ``steps`` batches: loss at the end and test accuracy."""
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
    """Runs that a file holds, by network and rate; a line that a killed run left unfinished is passed over."""
    found: dict[tuple[str, float], dict[str, Any]] = {}
    file = Path(path)
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        try:
            run = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[run["network"], run["rate"]] = run
    return found


Runs = dict[tuple[str, float], dict[str, Any]]
"""By name and rate."""


def train_all(
    these: Iterable[Network],
    path: str | Path | None = None,
    *,
    rates: tuple[float, ...] = RATES,
    steps: int = STEPS,
    seconds: float = float("inf"),
    workers: int = 1,
) -> Runs:
    """Train every network at every rate; each run is a line of ``path``, and is not made again at the same steps.

    After ``seconds`` no other run is begun: of this process, or of the clock if ``workers`` processes train.
    """
    kept = {} if path is None else read_runs(path)
    runs = {key: run for key, run in kept.items() if run["steps"] == steps}
    left = [(network, rate) for network in these for rate in rates if (network.name, rate) not in runs]
    if workers > 1:
        _train_apart(left, steps, seconds, workers, runs, path)
        return runs
    begun = time.process_time()
    for network, rate in left:
        if time.process_time() - begun <= seconds:
            _train_once(network.name, network.build, network, rate, steps, runs, path)
    return runs


def _train_apart(
    left: Iterable[tuple[Network, float]], steps: int, seconds: float, workers: int, runs: Runs, path: str | Path | None
) -> None:
    """By processes of the sweep engine, one thread each; what does not run stays to be run."""
    jobs = [(f"{network.name} {rate}", {"network": network, "rate": rate, "steps": steps}) for network, rate in left]
    begun = time.monotonic()
    with closing(in_processes(_in_process, jobs, workers)) as outcomes:
        for found in outcomes:
            if found.error:
                raise RuntimeError(f"{found.job}: {found.error}")
            _keep(found.rows[0], runs, path)
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
    """Test accuracy at the best of the rates of a model in the network's place; its runs are kept under ``name``."""
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
    """Add the run to ``runs`` and to the file, unless it is there."""
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
