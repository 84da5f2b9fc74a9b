"""Options of ``initscope inspect`` that say how the model is trained: targets, loss, optimizer, rate, trial."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from initscope._utils.files import memory_limit, read_small, reading
from initscope._utils.tensors import read_tensors
from initscope.cli._help import WORK
from initscope.errors import InputError

if TYPE_CHECKING:
    from initscope.data import ImageSet

__all__ = ["TrainingOptions"]

_TABLE, _STEP = "a table of numbers", "save the targets as one array, or as numbers separated by commas"


@Parameter(name="*", group=WORK)
@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """How the model is trained."""

    targets: Annotated[
        str | None,
        Parameter(help="A .npy, .pt or .csv file, or the number of a column of --data. Default: labels of the data."),
    ] = None
    loss: Annotated[
        str | None,
        Parameter(help="cross-entropy, mse, bce, …, or module:function of (output, targets)."),
    ] = None
    optimizer: Annotated[
        str | None,
        Parameter(help="adam, adamw, sgd, …, or module:function of the parameters. Default: adam."),
    ] = None
    lr: Annotated[float | None, Parameter(help="Learning rate. Default: that of the optimizer.")] = None
    trial: Annotated[
        bool | Literal["long"] | None,
        Parameter(help="Train copies for a few steps on one batch, at most 30 s; long: at most 10 minutes."),
    ] = None

    def apply(self, data: ImageSet) -> tuple[Any, dict[str, Any]]:
        """Return the inputs without a column of targets, and the arguments of `initscope.inspect`."""
        inputs, targets = self._targets(data)
        given = {"loss": self.loss, "optimizer": self.optimizer, "lr": self.lr, "trial": self.trial}
        return inputs, given | {"targets": targets}

    def _targets(self, data: ImageSet) -> tuple[Any, Any]:
        if self.targets is None:
            return data, None
        if self.targets.lstrip("-").isdigit():
            return _without_column(data, int(self.targets))
        return data.images, _read(Path(self.targets), len(data))


def _without_column(data: ImageSet, column: int) -> tuple[Any, Any]:
    """Return rows without one column, and that column as targets: whole numbers are classes."""
    import numpy as np
    import torch

    values = np.asarray(data.images)
    if values.ndim != 2 or not -values.shape[1] <= column < values.shape[1]:
        raise InputError(f"--targets {column}: {data.name} has inputs of shape {data.shape}, without such a column")
    return torch.as_tensor(np.delete(values, column, axis=1)), _as_targets(values[:, column])


def _read(path: Path, count: int) -> Any:
    """Return the targets of a file, one per sample."""
    import numpy as np

    if path.suffix not in (".npy", ".pt", ".pth", ".csv", ".txt"):
        raise InputError(f"--targets {path}: give a .npy, .pt or .csv file, or the number of a column of --data")
    if path.suffix in (".csv", ".txt"):
        text = read_small(path, _TABLE, _STEP, memory_limit() // 16)
        with reading(path, _TABLE, _STEP):
            values = np.atleast_1d(np.genfromtxt(io.BytesIO(text), delimiter=","))
        values = values[1:] if len(values) == count + 1 and not np.isfinite(values[0]).all() else values
    else:
        content = read_tensors(path, hint=_STEP)
        if hasattr(content, "detach"):  # NumPy has no bfloat16
            content = content.detach().double() if content.is_floating_point() else content
        values = np.atleast_1d(np.asarray(content))
    if values.dtype.kind not in "biuf":
        raise InputError(f"--targets {path} holds values of type {values.dtype}, not numbers; {_STEP}")
    if len(values) != count:
        raise InputError(f"--targets {path} has {len(values)} values and the data {count} samples; give one for each")
    return _as_targets(values)


def _as_targets(values: Any) -> Any:
    """Return whole numbers as classes, other numbers as float32."""
    import numpy as np
    import torch

    from initscope.data.image_set import is_whole

    values = np.asarray(values)
    return torch.as_tensor(values.astype(np.int64 if is_whole(values) else np.float32))
