"""`Loop`: the training loop of this package, for a loss over item indices, with optimizers and schedulers of torch.

`Loop.state` holds everything that the next steps depend on: the network, the optimizer, the schedule, the order of
the items and the random generator. An interrupted run can therefore continue bit for bit. Importing this file imports
torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

__all__ = ["Loop", "seeded"]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global CPU generator of torch, for initialization and dropout, and restore its state at the end."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


class Loop:
    """Minimize ``loss(indices of a batch)`` over random batches of ``items``; to be used within `seeded`.

    Every item is used once before any item is used again. A batch may cross the border of two epochs.

    Parameters
    ----------
    network : torch.nn.Module
        The network that the loss uses; part of the state.
    loss : callable
        Maps item indices ``[batch]`` to a scalar with gradients.
    items, batch : int
    optimizer : torch.optim.Optimizer
    schedule : torch.optim.lr_scheduler.LRScheduler
        Learning-rate schedule, advanced after every batch.
    """

    def __init__(
        self,
        network: torch.nn.Module,
        loss: Callable[[torch.Tensor], torch.Tensor],
        *,
        items: int,
        batch: int,
        optimizer: torch.optim.Optimizer,
        schedule: torch.optim.lr_scheduler.LRScheduler,
    ) -> None:
        self.network = network
        self.loss = loss
        self.items = items
        self.batch = min(batch, items)
        self.optimizer = optimizer
        self.schedule = schedule
        self.order = torch.randperm(items)

    def step(self) -> torch.Tensor:
        """Take one optimizer step and return the loss before it."""
        if len(self.order) < self.batch:
            self.order = torch.cat([self.order, torch.randperm(self.items)])
        pick, self.order = self.order[: self.batch], self.order[self.batch :]
        value = self.loss(pick)
        self.optimizer.zero_grad()
        value.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.schedule.step()
        return value.detach()

    def state(self) -> dict[str, Any]:
        """Return everything that the next steps depend on, as tensors and plain values."""
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "order": self.order,
            "generator": torch.get_rng_state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Continue from a `state`."""
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.order = state["order"]
        torch.set_rng_state(state["generator"])
