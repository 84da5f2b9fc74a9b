"""Compare stated errors with what estimates really vary by.

The settings are in ``calibrated_networks.py`` and ``calibrated_samples.py``. ``tests/test_calibration.py`` runs each of
them over a few seeds, ``benchmarks/calibration.py`` over 200 or more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import nn

Estimates = tuple[Any, Any]
"""Numbers and their stated errors, of the same length."""


@dataclass(frozen=True)
class Setting:
    """One kind of error: ``run(seed)`` gives estimates and their errors; without ``truth`` their mean stands for it.

    ``seeds`` are those of the published table, ``few`` those of the test.
    """

    quantity: str
    where: str
    run: Callable[[int], Estimates]
    truth: Callable[[], Any] | None
    seeds: int
    few: int


@dataclass(frozen=True)
class Spread:
    """Root mean square deviation over root mean square stated error: 1 if errors are right; its own standard error.

    ``within``: the share of estimates within one stated error.
    """

    value: float
    error: float
    within: float


class Settings(list[Setting]):
    """Settings of a module."""

    def add(
        self, quantity: str, where: str, *, truth: Callable[[], Any] | None = None, seeds: int = 200, few: int = 80
    ) -> Callable[[Callable[[int], Estimates]], Callable[[int], Estimates]]:
        """Register a function of the seed."""

        def register(run: Callable[[int], Estimates]) -> Callable[[int], Estimates]:
            self.append(Setting(quantity, where, run, truth, seeds, few))
            return run

        return register


def runs_of(setting: Setting, seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """Estimates and errors, ``[seeds, numbers]`` each; predictions sample few units, which takes less time."""
    with mock.patch("initscope.propagate.draws._MOST", 1 << 10):
        estimates, errors = zip(*(setting.run(seed) for seed in range(seeds)), strict=True)
    return tuple(np.stack([np.ravel(values).astype(float) for values in side]) for side in (estimates, errors))


def spread_of(estimates: np.ndarray, errors: np.ndarray, truth: Any = None, resamples: int = 200) -> Spread:
    """Compare errors with deviations from the truth, or from the mean over seeds.

    Errors are root mean squares: a standard error is right if its square is the variance on average. A mean of
    (deviation/error)² would ask for more: from four replicates it is 3, by Student's law. The variances of all numbers
    of a setting weigh the same. The standard error is that of a bootstrap over seeds.
    """
    seeds = len(estimates)

    def ratio(chosen: np.ndarray) -> float:
        values, stated = estimates[chosen], errors[chosen]
        center, count = (values.mean(axis=0), seeds - 1) if truth is None else (np.ravel(truth), seeds)
        variances = ((values - center) ** 2).sum(axis=0) / count
        return float(np.sqrt(np.mean(variances / (stated**2).mean(axis=0))))

    rng = np.random.default_rng(0)
    again = [ratio(rng.integers(seeds, size=seeds)) for _ in range(resamples)]
    center = estimates.mean(axis=0) if truth is None else np.ravel(truth)
    within = float(np.mean(np.abs(estimates - center) < errors))
    return Spread(ratio(np.arange(seeds)), float(np.std(again)), within)


def near_pairs(*shape: int, count: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    """Pairs of cosine .6 or so."""
    x, noise = torch.randn(2, count, *shape, generator=torch.Generator().manual_seed(0))
    return x, 0.6 * x + 0.8 * noise


def built(factory: Callable[[], nn.Module]) -> nn.Module:
    """The model with one choice of its parameters, whatever was drawn before."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return factory()


def narrow_stack() -> nn.Module:
    """Two dense ReLU layers."""
    return nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
