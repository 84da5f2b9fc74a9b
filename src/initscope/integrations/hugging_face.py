"""A callback for the ``Trainer`` of Hugging Face's transformers."""

from __future__ import annotations

from typing import Any

from initscope._utils.libraries import library
from initscope.integrations.watching import Watch

__all__ = ["hugging_face_callback"]


def hugging_face_callback(data: Any = None, **options: Any) -> Any:
    """A ``transformers.TrainerCallback``: a report when training begins, a look after every epoch, a stop if asked for.

    Parameters
    ----------
    data
        As in `Watch`: a dict of tensors named as the model's arguments. None: the first batch of the trainer's loader.
    **options
        Of `Watch`: ``stop_on="not-finite"``, ``warn_on=``, ``every=``, ``out="report.html"``, ``log=``.

    Hugging Face's models return more than a tensor; the first of it that is one is looked at. The `Watch` is the
    callback's attribute ``watch``.
    """
    base = library("transformers").TrainerCallback

    class InitscopeCallback(base):  # type: ignore[misc, valid-type]
        """Looks at the model as it trains."""

        def __init__(self) -> None:
            self.watch = Watch(data, **options)

        def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            """The report of the start."""
            if self.watch.data is None:
                self.watch.data = dict(next(iter(given["train_dataloader"])))
            self.watch.start(given["model"])
            self._stop(control)

        def on_epoch_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            """A look after the epoch."""
            self.watch.step(given["model"], state.global_step)
            self._stop(control)

        def _stop(self, control: Any) -> None:
            if self.watch.stopped_by:
                control.should_training_stop = True

    return InitscopeCallback()
