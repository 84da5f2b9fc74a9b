"""`Loop`: the one training loop. It knows a loss of numbered items and torch's own optimizers and schedulers.

What a step depends on is the network, the optimizer, the schedule, the order of the items and torch's generator; all of
it goes into `Loop.state`, so that a run that was killed goes on, bit for bit, as if nothing had been.
Importing this file imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

__all__ = ["Loop", "seeded"]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch's global generator set for initialisation and dropout, and put back as it was; no other device's."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


class Loop:
    """Minimise ``loss(numbers of a batch's items)`` over random batches of ``items``, inside of `seeded`.

    Every item is seen once before any is seen again; a batch may reach from one round into the next.

    Parameters
    ----------
    network : torch.nn.Module
        What the loss runs; kept in the state.
    loss : callable
        From item numbers ``[batch]`` to a scalar with gradients.
    items, batch : int
    optimizer : torch.optim.Optimizer
    schedule : torch.optim.lr_scheduler.LRScheduler
        Stepped after every batch.
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
        """One step of the optimizer; the loss before it."""
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
        """All that the next steps depend on, as tensors and plain values."""
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "order": self.order,
            "generator": torch.get_rng_state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a `state`."""
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.order = state["order"]
        torch.set_rng_state(state["generator"])
