"""Callback for the ``Trainer`` of Lightning."""

from __future__ import annotations

from typing import Any

from initscope._utils.libraries import library
from initscope.integrations.watching import Watch

__all__ = ["lightning_callback"]


def lightning_callback(data: Any = None, *, module: str = "", **options: Any) -> Any:
    """Return a ``lightning.Callback`` that inspects the model before training and after every epoch.

    Parameters
    ----------
    data
        See `Watch`. None: the first batch of the training loader of the trainer.
    module
        Name of the network in the LightningModule, such as ``"net"``; default: the whole module.
    **options
        Options of `Watch`: ``stop_on="not-finite"``, ``warn_on=``, ``every=``, ``out="report.html"``, ``log=``.

    The callback stops training if ``stop_on`` says so, and sends the scalars also to the loggers of the trainer. Its
    attribute ``watch`` is the `Watch`.
    """
    callback = library("lightning.pytorch", "pytorch_lightning").Callback

    class InitscopeCallback(callback):  # type: ignore[valid-type, misc]
        """Inspects the network during training."""

        def __init__(self) -> None:
            super().__init__()
            self.watch = Watch(data, **options)

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            """Inspect the network before training."""
            if self.watch.data is None:
                batch = next(iter(trainer.train_dataloader))
                self.watch.data = tuple(batch) if isinstance(batch, list) else batch
            self.watch.loggers.append(self._log_to(trainer))
            self.watch.start(_network(pl_module, module))
            self._stop(trainer)

        def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            """Inspect the network after an epoch."""
            self.watch.step(_network(pl_module, module), trainer.current_epoch + 1)
            self._stop(trainer)

        def _stop(self, trainer: Any) -> None:
            if self.watch.stopped_by:
                trainer.should_stop = True

        def _log_to(self, trainer: Any) -> Any:
            def log(values: Any, step: int) -> None:
                for logger in trainer.loggers:
                    logger.log_metrics(dict(values), step=trainer.global_step)

            return log

    return InitscopeCallback()


def _network(pl_module: Any, name: str) -> Any:
    return pl_module.get_submodule(name) if name else pl_module
