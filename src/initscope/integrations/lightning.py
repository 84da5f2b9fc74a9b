"""A callback for Lightning's ``Trainer``."""

from __future__ import annotations

from typing import Any

from initscope._utils.libraries import library
from initscope.integrations.watching import Watch

__all__ = ["lightning_callback"]


def lightning_callback(data: Any = None, *, module: str = "", **options: Any) -> Any:
    """A ``lightning.Callback``: a report when training starts, a look after every epoch, a stop if asked for.

    Parameters
    ----------
    data
        As in `Watch`. None: the first batch of the trainer's own training loader.
    module
        Name of the network inside the LightningModule, such as ``"net"``; default: the module itself.
    **options
        Of `Watch`: ``stop_on="not-finite"``, ``warn_on=``, ``every=``, ``out="report.html"``, ``log=``.

    The scalars of each look also go to the trainer's own loggers. The `Watch` is its attribute ``watch``.
    """
    callback = library("lightning.pytorch", "pytorch_lightning").Callback

    class InitscopeCallback(callback):  # type: ignore[valid-type, misc]
        """Looks at the network as it trains."""

        def __init__(self) -> None:
            super().__init__()
            self.watch = Watch(data, **options)

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            """The report of the start."""
            if self.watch.data is None:
                batch = next(iter(trainer.train_dataloader))
                self.watch.data = tuple(batch) if isinstance(batch, list) else batch
            self.watch.loggers.append(self._log_to(trainer))
            self.watch.start(_network(pl_module, module))
            self._stop(trainer)

        def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            """A look after the epoch."""
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
