"""What outputs depend on, found by changing inputs: on other samples, on the words they are to tell, on the order.

A model is run a few times on a few samples, in evaluation mode and with the same random numbers each time.
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
"""The number of samples that are run: few outputs have another axis of that length."""
_CHANGED = 1e-3
"""Change over the largest value, or over the differences of samples, from which on it is an effect."""
_ROUNDING = 50
"""Steps of a number format, relative to the largest value, that may be rounding."""
_SEED = 0


@dataclass(frozen=True)
class Dependence:
    """Each is the first row where it is seen, None where it is not.

    Attributes
    ----------
    mixed : int or None
        A sample's values depend on other samples, in evaluation mode, at the output as well.
    apart : bool
        Whether what that row reads keeps samples apart, so that it mixes them itself.
    told : int or None
        Outputs at a place depend on the next one, which is their target.
    orderless : bool
        Whether words in another order give the same, in a model that attends to them.
    dropping : bool
        Whether calls of dropout make outputs random in evaluation mode too.
    forwards : bool
        Whether targets are an input as it is, and each position of the output sees those up to its own.
    constant : bool
        Whether outputs are bitwise equal for all samples.
    ignored : float
        Share of the values of the real-valued input that the output does not depend on.
    ignored_relation, used_relation : float or None
        How much the targets have to do with these values, and with the others; see `target_relation`.
    """

    mixed: int | None = None
    apart: bool = True
    told: int | None = None
    orderless: bool = False
    dropping: bool = False
    forwards: bool = False
    constant: bool = False
    ignored: float = 0.0
    ignored_relation: float | None = None
    used_relation: float | None = None


def dependence(model: nn.Module, seen: Observation) -> Dependence:
    """Run ``model`` with changed inputs; inside of `borrowed`. Nothing is known of models that fail."""
    inputs = seen.x if isinstance(seen.x, Inputs) else Inputs((seen.x,))
    inputs = inputs.pick(slice(0, _SAMPLES))
    model.eval()
    try:
        with torch.no_grad():
            probes = _Probes(model, inputs)
            mixed = probes.mixed()
            told, forwards = _told(probes, seen), _forwards(probes, seen)
            constant = bool(probes.before) and all(bool((one == one[:1]).all()) for one in probes.before)
            orderless = _orderless(probes, seen)
            dropping, ignored = probes.dropping(), None if constant else probes.ignored()
            result = Dependence(mixed, probes.apart, told, orderless, dropping, forwards, constant)
            return result if ignored is None else replace(result, **_related(ignored, seen))
    except Exception:  # whatever the model raises: other checks report what is known
        return Dependence()


class _Probes:
    """Runs of a model on the same samples, of which something is changed."""

    def __init__(self, model: nn.Module, inputs: Inputs) -> None:
        self.model, self.inputs, self.samples = model, inputs, inputs.samples
        self.before, self.apart = self.run(inputs), True
        fresh = torch.Generator().manual_seed(_SEED).get_state()  # as it still is if the run took no random numbers
        on_cpu = all(tensor.is_cpu for tensor in (*model.parameters(), *inputs.tensors()))
        self._draws = not on_cpu or not torch.equal(torch.get_rng_state(), fresh)

    def run(self, inputs: Inputs, seed: int = _SEED) -> list[Tensor]:
        """The real-valued tensors of the output that have one entry for each sample, and no other axis as long."""
        torch.manual_seed(seed)
        output = self.model(*inputs.map(torch.clone).args, **inputs.map(torch.clone).kwargs)
        return [tensor for _, tensor in named_tensors(output, "") if _of_samples(tensor, self.samples)]

    def dropping(self) -> bool:
        """Whether other random numbers give other outputs, and would not if calls of dropout did nothing."""
        if not self._draws or not self._differ_by_seed():
            return False
        with NoDropoutCalls():
            return not self._differ_by_seed()

    def _differ_by_seed(self) -> bool:
        first, second = (self.run(self.inputs, _SEED + seed) for seed in (0, 1))
        return any(_differ(a, b) for a, b in zip(first, second, strict=True))

    def mixed(self) -> int | None:
        """The first step where a sample's values change with another sample."""
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
        """The first step that has samples whose values at ``rest`` are not as before, with ``changed`` inputs.

        With a ``length``: of sequences so long, ``[samples, places, units]``, at all places but the last.
        """

        def part(values: Tensor) -> Tensor:
            if length is None:
                return values[rest]
            return values[rest, :-1] if values.dim() == 3 and values.shape[1] == length else values[:0]

        traced = trace(self.model, self.inputs.pick(slice(0, 2)), opened=True)
        axes = sample_axes(traced, self.inputs)
        before, after = (_by_step(traced, axes, inputs) for inputs in (self.inputs, changed))
        for index, values in before.items():
            given = traced.nodes[index].role == "input"
            if not given and index in after and _differ(part(values), part(after[index]), _spread(values)):
                self.apart = all(parent in before for parent in traced.nodes[index].reads)
                return index
        return len(traced.nodes) - 1

    def ignored(self) -> Tensor | None:
        """The values of the only real-valued input that the outputs do not depend on; None where they read all."""
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
        # ops without a slope, as rounding and maxima, may read them all the same
        replaced = self.inputs.map(lambda t: torch.where(unread, t.roll(1, 0), t) if t is real[0] else t)
        read = any(_differ(a, b) for a, b in zip(self.before, self.run(replaced), strict=True))
        return None if read else unread


def _related(unread: Tensor, seen: Observation) -> dict[str, Any]:
    """The share of values that are not read, and whether the targets have to do with them or with the others."""
    sides = [side if isinstance(side, Inputs) else Inputs((side,)) for side in (seen.x, seen.y)]
    values = torch.cat([t for side in sides for t in side.sample_tensors() if t.is_floating_point()])
    parts = values[:, unread], values[:, ~unread]
    ignored, used = (target_relation(part, all_targets(seen)) for part in parts)
    return {"ignored": float(unread.double().mean()), "ignored_relation": ignored, "used_relation": used}


def _by_step(traced: Graph, axes: SampleAxes, inputs: Inputs) -> dict[int, Tensor]:
    """The values of every step, samples first, by its place."""
    values: dict[int, Tensor] = {}

    def watch(step: Any, args: Any, kwargs: Any, output: Any) -> None:
        held = axes.tensor(step, output, inputs.samples)
        if held is not None:
            values[step.index] = held[1].detach().clone()

    torch.manual_seed(_SEED)
    traced.execute(inputs.map(torch.clone), watch)
    return values


def _told(probes: _Probes, seen: Observation) -> int | None:
    """Whether outputs know the next entry of a sequence where targets are an input moved by one."""
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
            if axis is None:
                continue
            if _differ(a.narrow(axis, 0, length - 1), b.narrow(axis, 0, length - 1)):
                return probes.first(replaced, list(range(probes.samples)), length)
    return None


def _forwards(probes: _Probes, seen: Observation) -> bool:
    """Whether targets are words as they go in, of a model whose places see those up to their own."""
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
    """The same inputs, of which ``tensor`` ends in the last entry of another sample."""

    def changed(values: Tensor) -> Tensor:
        if values is not tensor:
            return values
        values = values.clone()
        values[:, -1] = values[:, -1].roll(1, 0)
        return values

    return inputs.map(changed)


def _orderless(probes: _Probes, seen: Observation) -> bool:
    """Whether a model of words that attends to them gives the same when they are in another order."""
    words, entropy = seen.x, seen.attention_entropy
    attends = entropy is not None and bool((entropy == entropy).any())
    if not attends or not isinstance(words, Tensor) or words.is_floating_point() or words.dim() != 2:
        return False
    length = words.shape[1]
    order = torch.arange(length).flip(0)
    after = probes.run(probes.inputs.map(lambda tensor: tensor[:, order]))
    back = [b[:, order] if b.dim() == 3 and b.shape[1] == length else b for b in after]
    pairs = list(zip(probes.before, back, strict=True))
    return bool(pairs) and all(_differ(a, a.roll(1, 0)) and not _differ(a, b) for a, b in pairs)


def _of_samples(tensor: Tensor, samples: int) -> bool:
    plain = tensor.is_floating_point() and tensor.layout == torch.strided and not tensor.is_nested
    return plain and tensor.dim() > 0 and len(tensor) == samples and samples not in tensor.shape[1:]


def _spread(values: Tensor) -> float:
    """The largest difference of a value from its mean over the samples; infinite where one is not finite."""
    values = values.double()
    found = float((values - values.mean(dim=0)).abs().max()) if values.numel() else math.inf
    return found if math.isfinite(found) else math.inf


def _differ(first: Tensor, second: Tensor, scale: float = math.inf) -> bool:
    """Whether two runs differ by more than rounding; values that are not finite in one of them do not count.

    A change counts from a thousandth of the largest value on, or of ``scale`` if that is smaller: a vector that is
    common to all samples hides how they differ.
    """
    rounding = _ROUNDING * torch.finfo(first.dtype).eps
    first, second = first.double(), second.double()
    known = torch.isfinite(first) & torch.isfinite(second)
    if not bool(known.any()):
        return False
    gap, largest = (float(values[known].max()) for values in ((first - second).abs(), first.abs()))
    return gap > max(_CHANGED * min(scale, largest), rounding * largest)
