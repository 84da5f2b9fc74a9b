"""What outputs depend on, measured by changing inputs: other samples, the next token, the order of tokens.

A model runs a few times on a few samples, in evaluation mode and with the same random numbers each time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from initscope.graph import Graph, Inputs, SampleAxes, named_tensors, sample_axes, trace
from initscope.graph.borrowing import NoDropoutCalls
from initscope.inspection.inputs import all_targets, target_relation
from initscope.measurement.observation import Observation

__all__ = ["Dependence", "dependence"]

_SAMPLES = 7
"""Number of samples to run: few outputs have another axis of that length."""
_CHANGED = 1e-3
"""Change from which an effect counts, over the largest value or over the differences between samples."""
_ROUNDING = 50
"""Multiples of the machine epsilon, relative to the largest value, that may be rounding."""
_SEED = 0


@dataclass(frozen=True)
class Dependence:
    """Effects of changed inputs; row numbers are the first row with the effect, or None.

    Attributes
    ----------
    mixed : int or None
        Values of a sample depend on other samples in evaluation mode, and so does the output.
    separate : bool
        Whether the inputs of that row are still separate for each sample, so that the row itself mixes them.
    sees_next : int or None
        Outputs at a position depend on the next token, which is their target.
    orderless : bool
        Whether tokens in another order give the same output, in a model with attention over them.
    dropping : bool
        Whether dropout makes outputs random in evaluation mode too.
    forwards : bool
        Whether the targets equal an input, and each position of the output sees the input at its own position.
    constant : bool
        Whether outputs are bitwise equal for all samples.
    ignored : float
        Share of the values of the real-valued input that the output does not depend on.
    ignored_relation, used_relation : float or None
        How strongly the targets depend on these values, and on the others; see `target_relation`.
    """

    mixed: int | None = None
    separate: bool = True
    sees_next: int | None = None
    orderless: bool = False
    dropping: bool = False
    forwards: bool = False
    constant: bool = False
    ignored: float = 0.0
    ignored_relation: float | None = None
    used_relation: float | None = None


def dependence(model: nn.Module, seen: Observation) -> Dependence:
    """Run ``model`` with changed inputs, inside of `borrowed`; return the defaults if the model fails."""
    inputs = seen.x if isinstance(seen.x, Inputs) else Inputs((seen.x,))
    inputs = inputs.pick(slice(0, _SAMPLES))
    model.eval()
    try:
        with torch.no_grad():
            probes = _Probes(model, inputs)
            mixed = probes.mixed()
            sees_next, forwards = _first_that_sees_next(probes, seen), _forwards(probes, seen)
            constant = bool(probes.before) and all(bool((values == values[:1]).all()) for values in probes.before)
            orderless = _orderless(probes, seen)
            dropping, ignored = probes.dropping(), None if constant else probes.ignored()
            result = Dependence(mixed, probes.separate, sees_next, orderless, dropping, forwards, constant)
            return result if ignored is None else replace(result, **_related(ignored, seen))
    except Exception:  # whatever the model raises: other checks report the failure
        return Dependence()


class _Probes:
    """Runs of a model on the same samples, with one change at a time."""

    def __init__(self, model: nn.Module, inputs: Inputs) -> None:
        self.model, self.inputs, self.samples = model, inputs, inputs.samples
        self.before, self.separate = self.run(inputs), True
        fresh = torch.Generator().manual_seed(_SEED).get_state()  # unchanged if the run used no random numbers
        on_cpu = all(tensor.is_cpu for tensor in (*model.parameters(), *inputs.tensors()))
        self._draws = not on_cpu or not torch.equal(torch.get_rng_state(), fresh)

    def run(self, inputs: Inputs, seed: int = _SEED) -> list[Tensor]:
        """Return the real-valued tensors of the output with one entry per sample, and no other axis of that length."""
        torch.manual_seed(seed)
        output = self.model(*inputs.map(torch.clone).args, **inputs.map(torch.clone).kwargs)
        return [tensor for _, tensor in named_tensors(output, "") if _of_samples(tensor, self.samples)]

    def dropping(self) -> bool:
        """Return whether outputs depend on the seed, and only because of calls of dropout."""
        if not self._draws or not self._differ_by_seed():
            return False
        with NoDropoutCalls():
            return not self._differ_by_seed()

    def _differ_by_seed(self) -> bool:
        first, second = (self.run(self.inputs, _SEED + seed) for seed in (0, 1))
        return any(_differ(a, b) for a, b in zip(first, second, strict=True))

    def mixed(self) -> int | None:
        """Return the first node at which values of a sample change with another sample."""
        for changed, other in ((0, 1), (self.samples - 1, 0)):
            positions = torch.arange(self.samples)
            rest, replaced = (
                positions[positions != changed],
                self.inputs.pick(torch.where(positions == changed, other, positions)),
            )
            after = self.run(replaced)
            if any(_differ(a[rest], b[rest], _spread(a)) for a, b in zip(self.before, after, strict=True)):
                return self.first(replaced, rest.tolist())
        return None

    def first(self, changed: Inputs, rest: list[int], length: int | None = None) -> int:
        """Return the first node whose values at the samples ``rest`` change if the inputs are ``changed``.

        With ``length``, compare only sequences ``[samples, length, units]``, without their last position.
        """

        def part(values: Tensor) -> Tensor:
            if length is None:
                return values[rest]
            return values[rest, :-1] if values.dim() == 3 and values.shape[1] == length else values[:0]

        traced = trace(self.model, self.inputs.pick(slice(0, 2)), opened=True)
        axes = sample_axes(traced, self.inputs)
        before, after = (_values_by_node(traced, axes, inputs) for inputs in (self.inputs, changed))
        for index, values in before.items():
            given = traced.nodes[index].role == "input"
            if not given and index in after and _differ(part(values), part(after[index]), _spread(values)):
                self.separate = all(parent in before for parent in traced.nodes[index].reads)
                return index
        return len(traced.nodes) - 1

    def ignored(self) -> Tensor | None:
        """Return which values of the only real-valued input have no effect on the outputs; None if all have one."""
        real = [tensor for tensor in self.inputs.sample_tensors() if tensor.is_floating_point()]
        if len(real) != 1 or real[0].dim() < 2 or not self.before:
            return None
        slopes: list[Tensor] = []

        def recorded(values: Tensor) -> Tensor:
            if values is not real[0]:
                return values.clone()
            slopes.append(values.clone().requires_grad_(True))
            return slopes[0] * 1

        with torch.enable_grad():
            torch.manual_seed(_SEED)
            inputs = self.inputs.map(recorded)
            output = self.model(*inputs.args, **inputs.kwargs)
            held = [tensor for _, tensor in named_tensors(output, "") if _of_samples(tensor, self.samples)]
            total = sum((tensor * torch.randn_like(tensor)).sum() for tensor in held if tensor.requires_grad)
        if not isinstance(total, Tensor):
            return None
        unread = (torch.autograd.grad(total, slopes)[0] == 0).all(dim=0)
        if not bool(unread.any()) or bool(unread.all()):
            return None
        # ops such as rounding have no gradient, but may still use all values
        replaced = self.inputs.map(lambda t: torch.where(unread, t.roll(1, 0), t) if t is real[0] else t)
        read = any(_differ(a, b) for a, b in zip(self.before, self.run(replaced), strict=True))
        return None if read else unread


def _related(unread: Tensor, seen: Observation) -> dict[str, Any]:
    """Return the share of unused values, and how the targets are related to the unused and the used values."""
    sides = [side if isinstance(side, Inputs) else Inputs((side,)) for side in (seen.x, seen.y)]
    values = torch.cat([t for side in sides for t in side.sample_tensors() if t.is_floating_point()])
    parts = values[:, unread], values[:, ~unread]
    ignored, used = (target_relation(part, all_targets(seen)) for part in parts)
    return {"ignored": float(unread.double().mean()), "ignored_relation": ignored, "used_relation": used}


def _values_by_node(traced: Graph, axes: SampleAxes, inputs: Inputs) -> dict[int, Tensor]:
    """Return the values of every node by its index, with the samples on the first axis."""
    values: dict[int, Tensor] = {}

    def watch(node: Any, args: Any, kwargs: Any, output: Any) -> None:
        held = axes.tensor(node, output, inputs.samples)
        if held is not None:
            values[node.index] = held[1].detach().clone()

    torch.manual_seed(_SEED)
    traced.execute(inputs.map(torch.clone), watch)
    return values


def _first_that_sees_next(probes: _Probes, seen: Observation) -> int | None:
    """Return the first row at which outputs depend on the next token, if the targets are an input shifted by one."""
    inputs, targets = probes.inputs, seen.targets
    if not isinstance(targets, Tensor) or targets.dim() < 2 or targets.shape[1] < 3:
        return None
    targets, length = targets[: probes.samples], targets.shape[1]
    for tensor in inputs.sample_tensors():
        if tensor.shape != targets.shape or not torch.equal(tensor[:, 1:], targets[:, :-1].to(tensor.dtype)):
            continue

        replaced = _with_another_end(inputs, tensor)
        for a, b in zip(probes.before, probes.run(replaced), strict=True):
            axis = next((axis for axis in (1, a.dim() - 1) if a.dim() > axis and a.shape[axis] == length), None)
            if axis is not None and _differ(a.narrow(axis, 0, length - 1), b.narrow(axis, 0, length - 1)):
                return probes.first(replaced, list(range(probes.samples)), length)
    return None


def _forwards(probes: _Probes, seen: Observation) -> bool:
    """Return whether targets equal the input tokens, in a model whose positions see only tokens up to their own."""
    targets = seen.targets
    if not isinstance(targets, Tensor) or targets.is_floating_point() or targets.dim() != 2 or targets.shape[1] < 3:
        return False
    for tensor in probes.inputs.sample_tensors():
        if tensor.shape[1:] != targets.shape[1:] or not torch.equal(tensor.long(), targets[: probes.samples].long()):
            continue
        for a, b in zip(probes.before, probes.run(_with_another_end(probes.inputs, tensor)), strict=True):
            if a.dim() == 3 and a.shape[:2] == tensor.shape and not _differ(a[:, :-1], b[:, :-1]):
                return _differ(a[:, -1], b[:, -1])
    return False


def _with_another_end(inputs: Inputs, tensor: Tensor) -> Inputs:
    """Return the inputs, with the last entry of ``tensor`` taken from another sample."""

    def changed(values: Tensor) -> Tensor:
        if values is not tensor:
            return values
        values = values.clone()
        values[:, -1] = values[:, -1].roll(1, 0)
        return values

    return inputs.map(changed)


def _orderless(probes: _Probes, seen: Observation) -> bool:
    """Return whether a model with attention over tokens gives the same output if their order changes."""
    tokens, entropy = seen.x, seen.attention_entropy
    attends = entropy is not None and bool((entropy == entropy).any())
    if not attends or not isinstance(tokens, Tensor) or tokens.is_floating_point() or tokens.dim() != 2:
        return False
    length = tokens.shape[1]
    order = torch.arange(length).flip(0)
    after = probes.run(probes.inputs.map(lambda tensor: tensor[:, order]))
    back = [b[:, order] if b.dim() == 3 and b.shape[1] == length else b for b in after]
    pairs = list(zip(probes.before, back, strict=True))
    return bool(pairs) and all(_differ(a, a.roll(1, 0)) and not _differ(a, b) for a, b in pairs)


def _of_samples(tensor: Tensor, samples: int) -> bool:
    plain = tensor.is_floating_point() and tensor.layout == torch.strided and not tensor.is_nested
    return plain and tensor.dim() > 0 and len(tensor) == samples and samples not in tensor.shape[1:]


def _spread(values: Tensor) -> float:
    """Return the largest difference of a value from its mean over the samples; infinite if a value is not finite."""
    values = values.double()
    largest = float((values - values.mean(dim=0)).abs().max()) if values.numel() else math.inf
    return largest if math.isfinite(largest) else math.inf


def _differ(first: Tensor, second: Tensor, scale: float = math.inf) -> bool:
    """Return whether two runs differ by more than rounding; values that are not finite in one of them do not count.

    A change counts from a thousandth of the largest value, or of ``scale`` if that is smaller: a vector that all
    samples share would otherwise hide how they differ.
    """
    rounding = _ROUNDING * torch.finfo(first.dtype).eps
    first, second = first.double(), second.double()
    known = torch.isfinite(first) & torch.isfinite(second)
    if not bool(known.any()):
        return False
    gap, largest = (float(values[known].max()) for values in ((first - second).abs(), first.abs()))
    return gap > max(_CHANGED * min(scale, largest), rounding * largest)
