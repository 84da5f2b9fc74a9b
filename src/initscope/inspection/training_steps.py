"""`TrainingStep`: the loss that a Lightning module computes in its own ``training_step``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["TrainingStep"]


class TrainingStep(nn.Module):
    """``loss(output, targets)`` from a module's ``training_step``; meanwhile its ``forward`` returns ``output``.

    A step that calls an inner network instead of the module computes its own output, so the loss does not depend on
    ``output``; `fits` says whether it does.
    """

    def __init__(self, module: nn.Module, inputs: Any) -> None:
        super().__init__()
        self.module, self.inputs = module, inputs

    def forward(self, output: Any, targets: Any) -> Tensor:
        """Return the loss of an output."""
        module: Any = self.module
        count = len(targets) if hasattr(targets, "__len__") else None
        inputs = self.inputs[:count] if isinstance(self.inputs, Tensor) else self.inputs
        replaced = module.__dict__.get("forward")
        module.__dict__["forward"] = lambda *args, **kwargs: output
        try:
            value = module.training_step((inputs, targets), 0)
        finally:
            del module.__dict__["forward"]
            if replaced is not None:
                module.__dict__["forward"] = replaced
        return value["loss"] if isinstance(value, dict) else value  # type: ignore[no-any-return]

    @classmethod
    def of(cls, module: nn.Module, inputs: Any, targets: Any) -> TrainingStep | None:
        """Return the loss of a module that has a training step, if it depends on the module's output; else None."""
        if not callable(getattr(module, "training_step", None)) or targets is None:
            return None
        loss, few = cls(module, inputs), inputs[:4] if isinstance(inputs, Tensor) else inputs
        try:
            with torch.enable_grad():
                output = module(few).detach().requires_grad_(True)
                value = loss(output, targets[:4])
                (gradient,) = torch.autograd.grad(value, output, allow_unused=True)
        except Exception:  # the step needs its trainer, or expects another batch
            return None
        return loss if gradient is not None else None
