"""Cheap runs that only find the steps of a model and the axes of samples: most of their products are left out."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from initscope.graph.ops import READS_VALUES

__all__ = ["FewUnits"]

_UNITS = 16  # of a large layer that are computed


class FewUnits(TorchFunctionMode):
    """Products with large matrices of weights compute only some of their units, and repeat them for the others.

    Steps, their shapes, and the assignment of output entries to samples do not depend on the units, unless the model
    branches on its values: ``doubtful`` says whether it read values after such a product.
    """

    def __init__(self) -> None:
        super().__init__()
        self.doubtful = self._repeats = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        weight_index = 1 if func is F.linear else 2 if func is torch.addmm else 0
        if not weight_index or kwargs or len(args) <= weight_index:
            if self._repeats and not self.doubtful:
                self.doubtful = _reads_values(func, args)
            return func(*args, **(kwargs or {}))
        weight, (axis, bias) = args[weight_index], (0, 2) if weight_index == 1 else (1, 0)
        if not isinstance(weight, nn.Parameter) or weight.dim() != 2 or weight.shape[axis] < 4 * _UNITS:
            return func(*args)
        self._repeats = True
        few = list(args)
        few[weight_index] = weight.narrow(axis, 0, _UNITS)
        if len(few) > bias and isinstance(few[bias], Tensor) and few[bias].dim() == 1:
            few[bias] = few[bias][:_UNITS]
        return func(*few)[..., torch.arange(weight.shape[axis], device=weight.device) % _UNITS]


def _reads_values(func: Any, args: Any) -> bool:
    """Return whether a call passes values to Python, or computes sizes from them."""
    name = getattr(func, "__name__", "")
    if name in ("__getitem__", "__setitem__"):
        index = args[1] if isinstance(args[1], tuple) else (args[1],)
        return any(isinstance(part, Tensor) and part.dtype in (torch.bool, torch.uint8) for part in index)
    if name in ("repeat_interleave", "split", "tensor_split"):
        return any(isinstance(part, Tensor) for part in args[1:])
    return name in READS_VALUES
