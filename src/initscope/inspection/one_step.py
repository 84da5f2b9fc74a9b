"""One step of training, not taken: the loss at the start, which parameters it reaches, what smaller formats lose."""

from __future__ import annotations

import math
from collections.abc import Callable, Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from initscope._hall.randomness import torch_generator
from initscope.inspection.straight_through import straight_through
from initscope.inspection.unregistered import unregistered
from initscope.inspection.weights import drawn_weights
from initscope.measurement.number_formats import FORMATS, FormatCount
from initscope.measurement.observation import Observation
from initscope.recording import Batch
from initscope.tracing import Inputs, named_tensors

__all__ = ["FormatShares", "Probe", "probe"]

_SAMPLES = 16
_NEARLY_ALL = 0.9
"""Share above which dropout leaves so little that a probability of keeping may be meant."""
Loss = Callable[[Any, Any], Tensor]


@dataclass(frozen=True)
class FormatShares:
    """Shares of values, and of the weights' gradients, that overflow or underflow in a number format."""

    format: str
    values_over: float
    values_under: float
    gradients_over: float
    gradients_under: float


@dataclass(frozen=True)
class Probe:
    """What one step would do.

    Attributes
    ----------
    loss, chance : float or None
        Cross-entropy at the start, and that of a uniform guess, ln K; None where the outputs are not known for logits.
    detached, aside, frozen, unused, silenced : tuple of str
        Modules with weights that run but that the loss does not reach, though the output depends on them, and others;
        whose weights ask for no gradient, tables aside; that are not run; and dropout that drops everything.
    starved : tuple of str
        Dropout that drops nearly everything.
    unregistered : dict
        See `unregistered`.
    classes : int
        How many the targets are of; 0 if they are none.
    takes_logits : bool
        Whether the loss that was given is a cross-entropy of logits, of classes or of two.
    broadcast : bool
        Whether outputs and targets are of as many values in different shapes, and the loss compares all with all.
    distance : bool
        Whether the loss that was given is none where outputs are equal to real-valued targets, one for each.
    target_size : float
        Root mean square of such targets over that of the outputs, or over 1 if that is more.
    broken : tuple of str
        Modules whose weights get gradients that are not finite.
    frozen_share : float
        Of all weights, how many are frozen.
    gradients : FormatCount or None
        Of all weights' gradients.
    failed : str
        Why there is nothing, if the step could not be tried.
    """

    loss: float | None = None
    chance: float | None = None
    detached: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    silenced: tuple[str, ...] = ()
    starved: tuple[str, ...] = ()
    unregistered: dict[str, str] = field(default_factory=dict)
    classes: int = 0
    takes_logits: bool = False
    broadcast: bool = False
    distance: bool = False
    target_size: float = 0.0
    broken: tuple[str, ...] = ()
    frozen_share: float = 0.0
    gradients: FormatCount | None = field(default=None, repr=False)
    failed: str = ""


def probe(model: nn.Module, seen: Observation, loss: Loss | None = None, classes: int = 0) -> Probe:
    """Run a few samples forwards and backwards as training would, in the mode and precision that the model has.

    Inside of `leaves_no_trace`: statistics of batch norm and random states change.

    The loss is ``loss(output, targets)``; without one the cross-entropy where the targets are classes; else a random
    projection of everything that the model returns. Targets of ``classes``, unless 0, are left aside by models of
    another number of outputs.
    """
    dropping = {path: module.p for path, module in model.named_modules() if isinstance(module, _DropoutNd)}
    owners = {path: module for path, module, *_ in drawn_weights(model)}
    frozen = tuple(path for path in owners if not any(p.requires_grad for p in owners[path].parameters(recurse=False)))
    shares = {path: sum(p.numel() for p in owners[path].parameters(recurse=False)) for path in owners}
    share = sum(shares[path] for path in frozen) / max(1, sum(shares.values()))
    tables = {path for path in frozen if isinstance(owners[path], (nn.Embedding, nn.EmbeddingBag))}
    mistaken = tuple(path for path in frozen if path not in tables)  # positions and learned words are meant to stay
    found: dict[str, Any] = {"frozen": mistaken, "frozen_share": share}
    found["silenced"] = tuple(path for path, p in dropping.items() if p >= 1)
    found["starved"] = tuple(path for path, p in dropping.items() if _NEARLY_ALL < p < 1)
    inputs, targets = _few(seen)
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    try:
        with torch.enable_grad():
            output = model(*inputs.args, **inputs.kwargs)
            if classes and not (isinstance(output, Tensor) and output.dim() == 2 and output.shape[1] == classes):
                targets = None
            classified = _cross_entropy(output, targets, seen, model)
            value = _value(output, targets, loss, classified)
            found |= _of_classes(output, targets, loss, value) | _of_values(output, targets, loss, value)
            found["unregistered"] = unregistered(model, value)
            grads = torch.autograd.grad(value, list(parameters.values()), allow_unused=True)
    except Exception as error:  # whatever the model raises: verdicts on the run say what can be said
        return Probe(**found, failed=str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__)
    reached = {name: gradient for name, gradient in zip(parameters, grads, strict=True) if gradient is not None}
    bad = {name for name, gradient in reached.items() if not bool(torch.isfinite(gradient).all())}
    found["broken"] = tuple(path for path in owners if _any_of(owners[path], path, bad))
    ran = {row.within for row in seen.rows}
    missing = [path for path in owners if path not in frozen and not _any_of(owners[path], path, set(reached))]
    unused = tuple(path for path in missing if path not in ran)
    if classified is not None:
        found |= {"loss": float(classified[0].detach()), "chance": classified[1]}
    count = FormatCount().add_all(reached.values())
    behind, meant = _leading_to_output(seen, straight_through(seen.rows)), _leading_to_output(seen, frozenset())

    def value_of(output: Any) -> Tensor:
        return _value(output, targets, loss, _cross_entropy(output, targets, seen, model))

    hidden = {path for path in missing if path in ran - meant and _moves_loss(model, path, inputs, value_of)}
    detached = tuple(path for path in missing if path in behind | hidden)
    aside = tuple(path for path in missing if path in ran - behind - hidden)
    return Probe(**found, detached=detached, aside=aside, unused=unused, gradients=count)


def _moves_loss(model: nn.Module, path: str, inputs: Inputs, value_of: Callable[[Any], Tensor]) -> bool:
    """Whether other weights of a module give another loss, though no step that was seen leads there."""
    module = model.get_submodule(path)
    own = {f"{path}.{name}" if path else name: p * 1.5 for name, p in module.named_parameters(recurse=False)}
    values = []
    with suppress(Exception), torch.enable_grad():  # weights that are computed, as of a parametrisation, stay
        for changed in ({}, own):
            torch.manual_seed(0)
            output = torch.func.functional_call(model, changed, inputs.args, inputs.kwargs)
            values.append(value_of(output).detach())
    return len(values) == 2 and not bool(torch.isclose(values[0], values[1], equal_nan=True))


def _leading_to_output(seen: Observation, meant: AbstractSet[int]) -> set[str]:
    """Modules whose values the output is made of, other than past the rows of detachments that are ``meant``."""
    waiting, reached = [seen.output % len(seen.rows)], set[int]()
    while waiting:
        index = waiting.pop()
        if index not in reached and index not in meant:
            reached.add(index)
            waiting += seen.rows[index].reads
    return {seen.rows[index].within for index in reached}


def format_shares(values: FormatCount, gradients: FormatCount | None) -> tuple[FormatShares, ...]:
    """Values and gradients side by side, a row for each format."""
    over, under = values.shares()
    back_over, back_under = (FormatCount() if gradients is None else gradients).shares()
    columns = zip(FORMATS, over, under, back_over, back_under, strict=True)
    return tuple(FormatShares(form.name, *(float(share) for share in shares)) for form, *shares in columns)


def _any_of(module: nn.Module, path: str, names: set[str]) -> bool:
    own = [name for name, _ in module.named_parameters(recurse=False)]
    return any((f"{path}.{name}" if path else name) in names for name in own)


def _few(seen: Observation) -> tuple[Inputs, Any]:
    inputs = seen.x if isinstance(seen.x, Inputs) else Inputs((seen.x,))
    count = min(_SAMPLES, seen.pairs)
    few = Batch(inputs, seen.targets).pick(slice(0, count))
    return few.inputs.map(torch.clone), few.targets


def _value(output: Any, targets: Any, loss: Loss | None, classified: tuple[Tensor, float] | None) -> Tensor:
    if loss is not None and targets is not None:
        return loss(output, targets)
    if classified is not None and isinstance(output, Tensor):
        return classified[0]
    real = [tensor for _, tensor in named_tensors(output, "") if tensor.is_floating_point() and tensor.requires_grad]
    generator = torch_generator(0, "direction of the output")
    parts = [(tensor * torch.randn(tensor.shape, generator=generator).to(tensor)).mean() for tensor in real]
    return torch.stack([part.float() for part in parts]).sum()


def _cross_entropy(output: Any, targets: Any, seen: Observation, model: nn.Module) -> tuple[Tensor, float] | None:
    """Loss and ln K where the first output holds logits: of classes that are given, or of the words of a vocabulary."""
    logits = next((t for _, t in named_tensors(output, "") if t.is_floating_point() and t.dim() > 1), None)
    if logits is None or seen.rows[seen.output].kind.lower() in ("softmax", "sigmoid"):
        return None
    classes = logits.shape[-1]
    if not _are_classes(targets, classes):
        ids = seen.x if isinstance(seen.x, Tensor) else None
        words = {m.num_embeddings for m in model.modules() if isinstance(m, nn.Embedding)}
        causal = ids is not None and not ids.is_floating_point() and ids.dim() == 2 and logits.dim() == 3
        if not causal or ids is None or logits.shape[1] != ids.shape[1] or classes not in words:
            return None
        logits, targets = logits[:, :-1], ids[: len(logits), 1:]
    if tuple(targets.shape) != tuple(logits.shape[:-1]) or classes < 2:
        return None
    flat = logits.float().reshape(-1, classes)
    return F.cross_entropy(flat, targets.reshape(-1).long().to(flat.device)), math.log(classes)


def _of_classes(output: Any, targets: Any, loss: Loss | None, value: Tensor) -> dict[str, Any]:
    """How many classes there are, and whether the loss is the cross-entropy of the output taken for logits."""
    if not isinstance(output, Tensor) or output.dim() != 2 or not _are_classes(targets, output.shape[1]):
        return {}
    if tuple(targets.shape) != (len(output),) or output.shape[1] < 2:
        return {}
    expected = F.cross_entropy(output.float(), targets.long())
    same = loss is not None and bool(torch.isclose(value.float(), expected, rtol=1e-4))
    return {"classes": int(output.shape[1]), "takes_logits": same}


def _of_values(output: Any, targets: Any, loss: Loss | None, value: Tensor) -> dict[str, Any]:
    """What the loss makes of real-valued targets, one for each output: logits of two, all with all, a distance."""
    if loss is None or not isinstance(output, Tensor) or not isinstance(targets, Tensor):
        return {}
    if not targets.is_floating_point() or output.numel() != targets.numel() or value.dim():
        return {}
    shaped = output.detach().reshape(targets.shape)
    of_two = bool(((targets >= 0) & (targets <= 1)).all())
    expected = F.binary_cross_entropy_with_logits(shaped.float(), targets.float()) if of_two else value
    logits = of_two and bool(torch.isclose(value.float(), expected, rtol=1e-4))
    if logits:
        return {"takes_logits": True}
    with suppress(Exception):  # a loss may take outputs of the model's own shape only
        if output.shape != targets.shape and float(loss(targets.to(output), targets)) == 0:
            return {"broadcast": not bool(torch.isclose(loss(shaped, targets), value.detach(), rtol=1e-4))}
    if not float(loss(targets.to(output).reshape(output.shape), targets)) == 0 < float(value.detach()):
        return {}
    sizes = [float(values.detach().double().square().mean().sqrt()) for values in (targets, output)]
    return {"distance": True, "target_size": sizes[0] / max(1.0, sizes[1])}


def _are_classes(targets: Any, classes: int) -> bool:
    whole = isinstance(targets, Tensor) and not targets.is_floating_point() and targets.numel() > 0
    return whole and bool((targets >= 0).all()) and bool((targets < classes).all())
