"""`FreeOutput`: the output of a model as free variables, and the loss of the best constant prediction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from initscope.inspection.instruments.minimum import minimize
from initscope.inspection.instruments.outputs import Loss, loss_value, real_tensors, with_tensors
from initscope.inspection.instruments.scores import class_axis, output_kind

__all__ = ["FreeOutput", "small"]

_STEPS = 200
_INSIDE = 1e-4
"""Distance from 0 and 1 at which free probabilities start."""


class FreeOutput:
    """The tensors of an output that a loss depends on, to be replaced by others.

    Attributes
    ----------
    tensors : list of Tensor
        Tensors that the loss depends on.
    start : float
        The loss of the output as it is.
    """

    def __init__(self, output: Any, targets: Any, loss: Loss | None, samples: int) -> None:
        self._output, self._targets, self._loss, self._samples = output, targets, loss, samples
        candidates = real_tensors(output)
        leaves = [tensor.detach().clone().requires_grad_(True) for tensor in candidates]
        with torch.enable_grad():
            value = loss_value(loss, with_tensors(output, list(zip(candidates, leaves))), targets)
            self.start = float(value.detach())
            gradients: Any = [None] * len(leaves)
            if value.requires_grad and leaves:
                gradients = torch.autograd.grad(value, leaves, allow_unused=True)
        self.tensors = [tensor for tensor, gradient in zip(candidates, gradients) if gradient is not None]

    def rebuilt(self, tensors: list[Tensor]) -> Any:
        """Return the output with other tensors for those that the loss depends on."""
        return with_tensors(self._output, list(zip(self.tensors, tensors, strict=True)))

    def least(self, enough: float = 0.0, constant: float | None = None) -> float | None:
        """Return the lowest loss over all values of the output; None if the model computes its own loss.

        If that is above the loss of a ``constant`` prediction, the loss is flat at the start: then the search begins
        again at the mean over the samples.
        """
        if self._is_own_loss():
            return None
        leaves = [tensor.detach().clone() for tensor in self.tensors]
        lowest = self._minimum(leaves, self.rebuilt, self._domains(leaves, self.rebuilt), enough)
        if constant is None or not lowest > constant:
            return lowest
        means = [small(tensor.detach().mean(dim=0, keepdim=True)) for tensor in self.tensors]
        leaves = [mean.expand_as(tensor).clone() for mean, tensor in zip(means, self.tensors)]
        domains = [_normalized(tensor) or domain for tensor, domain in zip(leaves, self._domains(leaves, self.rebuilt))]
        return min(constant, self._minimum(leaves, self.rebuilt, domains, enough))

    def constant(self) -> float | None:
        """Return the lowest loss over outputs that are equal for all samples, and for all positions that have a class.

        Outputs that are probabilities of classes, or their logarithms, remain so.
        """
        if self._is_own_loss() or not self._samples:
            return None
        axes = [self._shared_axes(tensor) for tensor in self.tensors]
        if not all(axes):
            return None

        def rebuilt(values: list[Tensor]) -> Any:
            return self.rebuilt([value.expand(tensor.shape) for value, tensor in zip(values, self.tensors)])

        means = [small(tensor.detach().mean(dim=shared, keepdim=True)) for tensor, shared in zip(self.tensors, axes)]
        domains = [_normalized(tensor) or domain for tensor, domain in zip(self.tensors, self._domains(means, rebuilt))]
        return self._minimum(means, rebuilt, domains)

    def paired(self, enough: float = 0.0) -> float | None:
        """Return the lowest loss over outputs of the targets' shape, if they have the same number of values."""
        targets = self._targets
        if len(self.tensors) != 1 or not isinstance(targets, Tensor) or self._output is not self.tensors[0]:
            return None
        tensor = self.tensors[0]
        if targets.shape == tensor.shape or targets.numel() != tensor.numel() or not targets.is_floating_point():
            return None
        leaves = [tensor.detach().reshape(targets.shape).clone()]
        return self._minimum(leaves, lambda values: values[0], [_ANY], enough)

    def linear(self, basis: Tensor, enough: float = 0.0) -> float | None:
        """Return the lowest loss over outputs that are affine functions of the rows of ``basis``, one per sample."""
        if len(self.tensors) != 1 or self._is_own_loss() or self.tensors[0].shape[0] != len(basis):
            return None
        (tensor,) = self.tensors
        if tensor.dim() > 2:
            return None
        domain = _normalized(tensor) or self._domains([tensor.detach()], self.rebuilt)[0]
        rows = basis.to(tensor)
        weights = rows.new_zeros(rows.shape[1], tensor[0].numel()).requires_grad_(True)
        bias = rows.new_zeros(tensor[0].numel()).requires_grad_(True)

        def evaluate() -> Tensor:
            return self._loss_of(self.rebuilt([domain.map((rows @ weights + bias).reshape(tensor.shape))]))

        with torch.enable_grad():
            return minimize([weights, bias], evaluate, _STEPS, enough)[1]

    def _is_own_loss(self) -> bool:
        return all(tensor.dim() == 0 or tensor.numel() == 1 < self._samples for tensor in self.tensors)

    def _shared_axes(self, tensor: Tensor) -> tuple[int, ...]:
        """Return the axes along which a constant prediction does not vary: samples, and positions with a class each."""
        classes = class_axis(tensor, self._targets)
        if classes is not None:
            return tuple(axis for axis in range(tensor.dim()) if axis != classes)
        matching = [axis for axis, length in enumerate(tensor.shape) if length == self._samples]
        return (matching[0],) if matching else ()

    def _loss_of(self, output: Any) -> Tensor:
        return loss_value(self._loss, output, self._targets)

    def _minimum(self, leaves: list[Tensor], rebuilt: Rebuild, domains: list[_Domain], enough: float = 0.0) -> float:
        leaves = [domain.inverse(leaf).requires_grad_(True) for leaf, domain in zip(leaves, domains)]

        def evaluate() -> Tensor:
            return self._loss_of(rebuilt([domain.map(leaf) for leaf, domain in zip(leaves, domains)]))

        with torch.enable_grad():
            return minimize(leaves, evaluate, _STEPS, enough)[1]

    def _domains(self, leaves: list[Tensor], rebuilt: Rebuild) -> list[_Domain]:
        """Return the domain of each tensor: binary cross-entropy, for example, only accepts values in [0, 1]."""

        def refuses(index: int, shift: float) -> bool:
            moved = [leaf + shift if position == index else leaf for position, leaf in enumerate(leaves)]
            try:
                with torch.no_grad():
                    value = float(self._loss_of(rebuilt(moved)))
            except (RuntimeError, ValueError):
                return True
            return value != value

        domains = []
        for index, leaf in enumerate(leaves):
            below = bool((leaf >= 0).all()) and refuses(index, -1 - float(leaf.max()))
            above = bool((leaf <= 1).all()) and refuses(index, 1.5)
            domains.append(_PROBABILITIES if above else _POSITIVE if below else _ANY)
        return domains


def small(values: Tensor) -> Tensor:
    """Return values scaled down to an RMS of at most 1: for large values a loss may have no gradient."""
    return values / values.double().square().mean().sqrt().clamp_min(1.0).to(values)


Rebuild = Callable[[list[Tensor]], Any]


@dataclass(frozen=True)
class _Domain:
    """A set of values, as the image of all real numbers under ``map``."""

    map: Callable[[Tensor], Tensor]
    inverse: Callable[[Tensor], Tensor]


_ANY = _Domain(lambda values: values, lambda values: values)
_POSITIVE = _Domain(torch.exp, lambda values: values.clamp_min(_INSIDE).log())
_PROBABILITIES = _Domain(torch.sigmoid, lambda values: torch.logit(values.clamp(_INSIDE, 1 - _INSIDE)))


def _normalized(tensor: Tensor) -> _Domain | None:
    """Return the domain of outputs that are probabilities of classes along an axis, or their logarithms."""
    for axis in (-1, 1) if tensor.dim() > 2 else (-1,):
        kind = output_kind(tensor, axis)
        if kind == "probabilities":
            return _Domain(partial(torch.softmax, dim=axis), lambda p: p.clamp_min(_INSIDE).log())
        if kind == "log-probabilities":
            return _Domain(partial(torch.log_softmax, dim=axis), lambda p: p)
    return None
