"""Callback for the ``Trainer`` of Hugging Face transformers."""

from __future__ import annotations

from typing import Any

from initscope._utils.libraries import library
from initscope.integrations.watching import Watch

__all__ = ["hugging_face_callback"]


def hugging_face_callback(data: Any = None, **options: Any) -> Any:
    """Return a ``transformers.TrainerCallback`` that inspects the model before training and after every epoch.

    Parameters
    ----------
    data
        See `Watch`: a dict of tensors by the names of the model's arguments. None: the first batch of the trainer.
    **options
        Options of `Watch`: ``stop_on="not-finite"``, ``warn_on=``, ``every=``, ``out="report.html"``, ``log=``.

    If the model returns several values, its first tensor is inspected. The callback stops training if ``stop_on``
    says so. Its attribute ``watch`` is the `Watch`.
    """
    base = library("transformers").TrainerCallback

    class InitscopeCallback(base):  # type: ignore[misc, valid-type]
        """Inspects the model during training."""

        def __init__(self) -> None:
            self.watch = Watch(data, **options)

        def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            """Inspect the model before training."""
            if self.watch.data is None:
                self.watch.data = dict(next(iter(given["train_dataloader"])))
            self.watch.start(given["model"])
            self._stop(control)

        def on_epoch_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            """Inspect the model after an epoch."""
            self.watch.step(given["model"], round(state.epoch))
            self._stop(control)

        def _stop(self, control: Any) -> None:
            if self.watch.stopped_by:
                control.should_training_stop = True

    return InitscopeCallback()
