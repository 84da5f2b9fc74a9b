"""One step of training, not taken: the loss at the start, which parameters it reaches, what smaller formats lose."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from initscope.inspection.losses import Loss, asks_for_own_words, cross_entropy_of, loss_facts, loss_value
from initscope.inspection.straight_through import straight_through
from initscope.inspection.unregistered import made_anew, unregistered
from initscope.inspection.weights import drawn_weights, following
from initscope.layers import role_of
from initscope.measurement.number_formats import FORMATS, FormatCount
from initscope.measurement.observation import Observation
from initscope.recording import Batch
from initscope.tracing import Inputs

__all__ = ["FormatShares", "Probe", "probe"]

_SAMPLES = 16
_STEPS, _RATE = 5, 1e-2
"""Steps of training that are tried where matrices start at zero, and how far each weight goes: Adam's first steps."""
_NEARLY_ALL = 0.9
"""Share above which dropout leaves so little that a probability of keeping may be meant."""


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
        whose weights ask for no gradient, tables and copies of what learns aside; that are not run; and dropout that
        drops everything.
    starved : tuple of str
        Dropout that drops nearly everything.
    dropping : frozenset of str
        Dropout that drops something.
    own_words : bool
        Whether the loss asks every place of a sequence for the very entry that stands there.
    unregistered : dict
        See `unregistered`.
    made_anew : int
        Parameters of layers that the model makes in every call.
    mistaken_norms : dict
        Norms that are not run, each with the one beside it, equal in kind and size, that runs more than once.
    classes : int
        How many the targets are of; 0 if they are none.
    at_ends : float
        Share of their outputs that are the smallest or the largest of all.
    takes_logits : bool
        Whether the loss that was given is a cross-entropy of logits, of classes or of two.
    misread : str
        What is wrong with what the loss takes the outputs for, empty if nothing is known to be.
    second_axis : bool
        Whether the loss takes the second axis of the outputs for the classes where the last one is as long.
    broadcast : bool
        Whether outputs and targets are of as many values in different shapes, and the loss compares all with all.
    distance : bool
        Whether the loss that was given is none where outputs are equal to real-valued targets, one for each.
    target_size : float
        Root mean square of such targets over that of the outputs, or over 1 if that is more.
    stuck : tuple of str
        Matrices that are zero and stay so, as what multiplies them is zero too.
    broken : tuple of str
        Modules whose weights get gradients that are not finite.
    frozen_share : float
        Of all weights, how many are frozen.
    gradients : FormatCount or None
        Of all weights' gradients.
    failed : str
        Why there is nothing, if the step could not be tried.
    given : bool
        Whether the loss is the user's: who gives one means to train.
    """

    loss: float | None = None
    chance: float | None = None
    detached: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    silenced: tuple[str, ...] = ()
    starved: tuple[str, ...] = ()
    own_words: bool = False
    dropping: frozenset[str] = frozenset()
    unregistered: dict[str, str] = field(default_factory=dict)
    made_anew: int = 0
    mistaken_norms: dict[str, str] = field(default_factory=dict)
    classes: int = 0
    at_ends: float = 0.0
    takes_logits: bool = False
    misread: str = ""
    second_axis: bool = False
    broadcast: bool = False
    distance: bool = False
    target_size: float = 0.0
    stuck: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    frozen_share: float = 0.0
    gradients: FormatCount | None = field(default=None, repr=False)
    failed: str = ""
    given: bool = False


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
    kept = sum(p.numel() for path in frozen for p in owners[path].parameters(recurse=False))
    learning = sum(p.numel() for p in model.parameters() if p.requires_grad)  # prompts and scales too
    share = kept / max(1, kept + learning)
    meant = {path for path in frozen if isinstance(owners[path], (nn.Embedding, nn.EmbeddingBag))} | following(model)
    mistaken = tuple(path for path in frozen if path not in meant)  # positions, learned words and teachers stay
    found: dict[str, Any] = {"frozen": mistaken, "frozen_share": share, "given": loss is not None}
    found["dropping"] = frozenset(path for path, p in dropping.items() if p > 0)
    found["silenced"] = tuple(path for path, p in dropping.items() if p >= 1)
    found["starved"] = tuple(path for path, p in dropping.items() if _NEARLY_ALL < p < 1)
    inputs, targets = _few(seen)
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    try:
        with torch.enable_grad():
            output = model(*inputs.args, **inputs.kwargs)
            if classes and not (isinstance(output, Tensor) and output.dim() == 2 and output.shape[1] == classes):
                targets = None
            classified = cross_entropy_of(output, targets, seen, model)
            value = loss_value(output, targets, loss, classified)
            found |= loss_facts(output, targets, loss, value)
            found["own_words"] = loss is not None and asks_for_own_words(output, value, inputs.tensors())
            found |= {"unregistered": unregistered(model, value), "made_anew": made_anew(model, value)}
            grads = _gradients(value, list(parameters.values()))
            if loss is not None:  # the second step shows what the first leaves behind: states with their graph
                again = loss_value(model(*inputs.args, **inputs.kwargs), targets, loss, None)
                _gradients(again, list(parameters.values()))
    except Exception as error:  # whatever the model raises: verdicts on the run say what can be said
        return Probe(**found, failed=str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__)

    def value_of(output: Any) -> Tensor:
        return loss_value(output, targets, loss, cross_entropy_of(output, targets, seen, model))

    reached = {name: gradient for name, gradient in zip(parameters, grads, strict=True) if gradient is not None}
    bad = {name for name, gradient in reached.items() if not bool(torch.isfinite(gradient).all())}
    found["broken"] = tuple(path for path in owners if _any_of(owners[path], path, bad))
    ran = {row.within for row in seen.rows}
    found["mistaken_norms"] = _mistaken_norms(model, Counter(row.within for row in seen.rows))
    missing = [path for path in owners if path not in frozen and not _any_of(owners[path], path, set(reached))]
    if missing and not model.training:  # a cache may hold values without a graph where nothing is trained
        trained = _reached_in_training(model, parameters, inputs, value_of)
        missing = [path for path in missing if not _any_of(owners[path], path, trained)]
    unused = tuple(path for path in missing if path not in ran)
    if classified is not None:
        found |= {"loss": float(classified[0].detach()), "chance": classified[1]}
    count = FormatCount().add_all(reached.values())
    behind, leading = _leading_to_output(seen, straight_through(seen.rows)), _leading_to_output(seen, frozenset())

    zero = [
        name for name, g in reached.items() if g.dim() > 1 and not bool(g.any()) and not bool(parameters[name].any())
    ]
    found["stuck"] = _stuck(model, parameters, zero, inputs, value_of)
    hidden = {
        path
        for path in missing
        if path in ran - leading and _moves_loss(model, _own(owners[path], path), inputs, value_of)
    }
    held = {name for path in owners for name in _own(owners[path], path)}
    loose = [name for name, p in parameters.items() if p.dim() > 1 and name not in reached and name not in held]
    detached = tuple(path for path in missing if path in behind | hidden)
    detached += tuple(name for name in loose if _moves_loss(model, [name], inputs, value_of))
    aside = tuple(path for path in missing if path in ran - behind - hidden)
    return Probe(**found, detached=detached, aside=aside, unused=unused, gradients=count)


def _reached_in_training(
    model: nn.Module, parameters: dict[str, nn.Parameter], inputs: Inputs, value_of: Callable[[Any], Tensor]
) -> set[str]:
    """Parameters that the loss reaches in training mode."""
    modes = {module: module.training for module in model.modules()}
    try:
        with suppress(Exception), torch.enable_grad():  # other verdicts say what can be said
            value = value_of(model.train()(*inputs.args, **inputs.kwargs))
            grads = _gradients(value, list(parameters.values()))
            return {name for name, gradient in zip(parameters, grads, strict=True) if gradient is not None}
        return set()
    finally:
        for module, mode in modes.items():
            module.training = mode


def _gradients(value: Tensor, parameters: list[nn.Parameter]) -> tuple[Tensor | None, ...]:
    """None for what the value does not depend on, which may be all of them."""
    if not parameters or not value.requires_grad:
        return (None,) * len(parameters)
    return torch.autograd.grad(value, parameters, allow_unused=True)


def _stuck(
    model: nn.Module,
    parameters: dict[str, nn.Parameter],
    zero: list[str],
    inputs: Inputs,
    value_of: Callable[[Any], Tensor],
) -> tuple[str, ...]:
    """Which of the ``zero`` matrices have no gradient in a few steps of training either.

    What stands before a head that starts at zero gets one as soon as the head has moved; a factor of another one that
    is zero as well never does.
    """

    def signs(values: dict[str, Tensor]) -> dict[str, Tensor]:
        moving = {name: value.clone().requires_grad_(True) for name, value in values.items()}
        with torch.enable_grad():
            value = value_of(torch.func.functional_call(model, moving, inputs.args, inputs.kwargs))
            found = torch.autograd.grad(value, list(moving.values()), allow_unused=True)
        return {n: torch.zeros_like(values[n]) if g is None else g.sign() for n, g in zip(moving, found, strict=True)}

    values = {name: parameter.detach() for name, parameter in parameters.items()}
    with suppress(Exception):  # weights that are computed cannot be put in
        for _ in range(_STEPS if zero else 0):
            steps = signs(values)
            values = {name: value - _RATE * steps[name] for name, value in values.items()}
            zero = [name for name in zero if not bool(steps[name].any())]
        if zero:  # what has no gradient beside drawn values either, as biases of scores of one key, is of no use at all
            drawn = {name: v if bool(v.any()) else _RATE * torch.randn_like(v) for name, v in values.items()}
            steps = signs(drawn)
            zero = [name for name in zero if bool(steps[name].any())]
        return tuple(zero)
    return ()


def _mistaken_norms(model: nn.Module, runs: Counter[str]) -> dict[str, str]:
    """Norms that never run beside one of their kind that runs again: ``self.bn1`` was copied for ``self.bn2``."""
    kinds: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for path, module in model.named_modules():
        weight = getattr(module, "weight", None)
        if role_of(module) == "norm" and isinstance(weight, Tensor):
            kinds[path.rpartition(".")[0], type(module), tuple(weight.shape)].append(path)
    again = {kind: [path for path in paths if runs[path] > 1] for kind, paths in kinds.items()}
    return {path: again[kind][0] for kind, paths in kinds.items() for path in paths if again[kind] and not runs[path]}


def _moves_loss(model: nn.Module, names: list[str], inputs: Inputs, value_of: Callable[[Any], Tensor]) -> bool:
    """Whether other values of these parameters give another loss, though no step that was seen leads there."""
    given = {name: model.get_parameter(name).detach() for name in names}
    # not larger ones alone: a norm behind them would take that back
    own = {name: p + (p.abs().mean() + 1e-3) * torch.randn_like(p) for name, p in given.items()}
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
    return any(name in names for name in _own(module, path))


def _own(module: nn.Module, path: str) -> list[str]:
    """Names of the parameters that a module holds itself."""
    return [f"{path}.{name}" if path else name for name, _ in module.named_parameters(recurse=False)]


def _few(seen: Observation) -> tuple[Inputs, Any]:
    inputs = seen.x if isinstance(seen.x, Inputs) else Inputs((seen.x,))
    count = min(_SAMPLES, seen.pairs)
    few = Batch(inputs, seen.targets).pick(slice(0, count))
    return few.inputs.map(torch.clone), few.targets
