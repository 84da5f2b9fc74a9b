"""One training step without the update: initial loss, parameters with a gradient, losses of smaller formats."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from initscope.graph import Batch, Inputs, is_weight_layer, role_of
from initscope.initializers import believability
from initscope.inspection.instruments.outputs import Loss
from initscope.inspection.losses import Reading, cross_entropy_of, loss_value, read
from initscope.inspection.straight_through import straight_through
from initscope.inspection.unregistered import created_in_forward, unregistered
from initscope.inspection.weights import drawn_weights, following
from initscope.measurement.number_formats import FORMATS, FormatCount
from initscope.measurement.observation import Observation

__all__ = ["FormatShares", "Probe", "probe"]

_SAMPLES = 16
_AGAIN = 4
"""Number of passes in training mode after which a layer counts as never reached."""
_STEPS, _RATE = 5, 1e-2
"""Number of training steps to try if matrices start at zero, and the change per weight, as in Adam's first steps."""


@dataclass(frozen=True)
class FormatShares:
    """Shares of values, and of weight gradients, that overflow or underflow in a number format."""

    format: str
    values_over: float
    values_under: float
    gradients_over: float
    gradients_under: float


@dataclass(frozen=True)
class Dropouts:
    """Dropout modules and their probabilities."""

    shares: dict[str, float] = field(default_factory=dict)

    @property
    def all(self) -> tuple[str, ...]:
        """Modules that drop everything."""
        return tuple(path for path, share in self.shares.items() if share >= 1)

    @property
    def active(self) -> frozenset[str]:
        """Modules that drop anything."""
        return frozenset(path for path, share in self.shares.items() if share > 0)

    @classmethod
    def of(cls, model: nn.Module) -> Dropouts:
        """Return the dropout modules of a model."""
        return cls({path: module.p for path, module in model.named_modules() if isinstance(module, _DropoutNd)})


@dataclass(frozen=True)
class Probe:
    """The effects of one training step.

    Attributes
    ----------
    given : bool
        Whether the user gave the loss, and so intends to train.
    failed : str
        Why the other fields are empty, if the step failed.
    reading : Reading
        How the loss reads the outputs.
    dropout : Dropouts
        The dropout modules.
    frozen, frozen_share : tuple of str, float
        Modules whose weights require no gradient, except embeddings and copies of trained layers; share of weights.
    frozen_random : bool
        Whether all of these have independent random weights, as before any training.
    detached, aside, unused : tuple of str
        Modules with weights: those that the loss does not reach although the output depends on them; others that
        run but that the loss does not reach; those that do not run.
    dropped : tuple of str
        Those ``aside`` on which no output depends.
    unregistered, created_in_forward : dict, int
        See `unregistered`; number of parameters of layers that the model creates in every call.
    mistaken_norms : dict
        Norms that do not run, each with an equal norm next to it that runs more than once.
    stuck : tuple of str
        Matrices that stay zero, because the factor that multiplies them is zero too.
    broken : tuple of str
        Modules whose weights get gradients that are not finite.
    gradients : FormatCount or None
        Counts for all weight gradients.
    """

    given: bool = False
    failed: str = ""
    reading: Reading = field(default_factory=Reading)
    dropout: Dropouts = field(default_factory=Dropouts)
    frozen: tuple[str, ...] = ()
    frozen_share: float = 0.0
    frozen_random: bool = False
    detached: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    unregistered: dict[str, str] = field(default_factory=dict)
    created_in_forward: int = 0
    mistaken_norms: dict[str, str] = field(default_factory=dict)
    stuck: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    gradients: FormatCount | None = field(default=None, repr=False)


def probe(model: nn.Module, seen: Observation, loss: Loss | None = None, classes: int = 0) -> Probe:
    """Run a few samples forward and backward as in training, in the present mode and precision of the model.

    Call it inside of `borrowed`: statistics of batch norm and random states change.

    The loss is ``loss(output, targets)``; without one, the cross-entropy if the targets are classes; else a random
    projection of everything that the model returns. If ``classes`` is not 0, targets are ignored for models with
    another number of outputs.
    """
    owners = {path: module for path, module, *_ in drawn_weights(model)}
    frozen = {path for path in owners if not any(p.requires_grad for p in owners[path].parameters(recurse=False))}
    step, mistaken = _Step(model, seen, loss), _by_mistake(model, owners, frozen)
    layers = [layer for path in mistaken if is_weight_layer(layer := owners[path])]
    probed = Probe(
        given=loss is not None,
        dropout=Dropouts.of(model),
        frozen=mistaken,
        frozen_random=bool(layers) and all(believability(layer, among=len(layers)).believable for layer in layers),
        frozen_share=_share(model, [owners[path] for path in owners if path in frozen]),
    )
    try:
        with torch.enable_grad():
            output = step.output()
            if classes and not (isinstance(output, Tensor) and output.dim() == 2 and output.shape[1] == classes):
                step.targets = None
            value = step.value(output)
            probed = replace(probed, reading=step.reading(output, value))
            probed = replace(
                probed, unregistered=unregistered(model, value), created_in_forward=created_in_forward(model, value)
            )
            reached = step.reached(value)
            if loss is not None:  # a second step fails if the first leaves states with their graph
                step.reached(step.value(step.output()))
    except Exception as error:  # whatever the model raises: checks of the run report it
        message = str(error).strip()
        return replace(probed, failed=message.splitlines()[0] if message else type(error).__name__)
    runs = Counter(row.within for row in seen.rows)
    infinite = {name for name, gradient in reached.items() if not bool(torch.isfinite(gradient).all())}
    missing = [path for path in owners if path not in frozen and not _any_of(owners[path], path, reached)]
    for _ in range(_AGAIN if missing else 0):  # layers may be skipped at random, and caches hold values without a graph
        trained = step.reached_in_training()
        missing = [path for path in missing if not _any_of(owners[path], path, trained)]
    detached = step.detached(owners, missing, reached)
    aside = tuple(path for path in missing if path in runs and path not in detached)
    returned = step.reached_by_outputs() if aside else frozenset[str]()
    return replace(
        probed,
        detached=detached,
        aside=aside,
        dropped=tuple(path for path in aside if not _any_of(owners[path], path, returned)),
        unused=tuple(path for path in missing if path not in runs),
        mistaken_norms=_mistaken_norms(model, runs),
        stuck=step.stuck(reached),
        broken=tuple(path for path in owners if _any_of(owners[path], path, infinite)),
        gradients=FormatCount().add_all(reached.values()),
    )


def _by_mistake(model: nn.Module, owners: dict[str, nn.Module], frozen: AbstractSet[str]) -> tuple[str, ...]:
    """Return the frozen modules except embeddings and teachers, which are frozen on purpose."""
    meant = {path for path in frozen if isinstance(owners[path], (nn.Embedding, nn.EmbeddingBag))} | following(model)
    return tuple(path for path in owners if path in frozen and path not in meant)


def _share(model: nn.Module, frozen: list[nn.Module]) -> float:
    """Return the share of these modules' weights in all parameters that are frozen there or learn."""
    size = sum(p.numel() for module in frozen for p in module.parameters(recurse=False))
    return size / max(1, size + sum(p.numel() for p in model.parameters() if p.requires_grad))


class _Step:
    """A few samples and their targets, run forward and backward."""

    def __init__(self, model: nn.Module, seen: Observation, loss: Loss | None) -> None:
        self.model, self.seen, self.loss = model, seen, loss
        self.parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        inputs = seen.x if isinstance(seen.x, Inputs) else Inputs((seen.x,))
        few = Batch(inputs, seen.targets).pick(slice(0, min(_SAMPLES, seen.pairs)))
        self.inputs, self.targets = few.inputs.map(torch.clone), few.targets

    def output(self, parameters: dict[str, Tensor] | None = None) -> Any:
        """Return the output of the model, with these values of some of its parameters."""
        if parameters is None:
            return self.model(*self.inputs.args, **self.inputs.kwargs)
        return torch.func.functional_call(self.model, parameters, self.inputs.args, self.inputs.kwargs)

    def value(self, output: Any) -> Tensor:
        """Return the value of the loss."""
        return loss_value(output, self.targets, self.loss, self._classified(output))

    def reading(self, output: Any, value: Tensor) -> Reading:
        """Return how the loss reads the output."""
        return read(output, self.targets, self.loss, value, self._classified(output), self.inputs.tensors())

    def _classified(self, output: Any) -> tuple[Tensor, float] | None:
        return cross_entropy_of(output, self.targets, self.seen, self.model)

    def reached(self, value: Tensor) -> dict[str, Tensor]:
        """Return the gradients of the parameters that the value depends on, by name."""
        if not self.parameters or not value.requires_grad:
            return {}
        gradients = torch.autograd.grad(value, list(self.parameters.values()), allow_unused=True)
        return {
            name: gradient for name, gradient in zip(self.parameters, gradients, strict=True) if gradient is not None
        }

    def reached_by_outputs(self) -> AbstractSet[str]:
        """Return the parameters that any output depends on, including outputs that the loss does not read."""
        with torch.enable_grad():
            return self.reached(loss_value(self.output(), None, None, None)).keys()

    def reached_in_training(self) -> AbstractSet[str]:
        """Return the parameters that the loss reaches in training mode."""
        modes = {module: module.training for module in self.model.modules()}
        try:
            self.model.train()
            with suppress(Exception), torch.enable_grad():  # other checks report the exception
                return self.reached(self.value(self.output())).keys()
            return set()
        finally:
            for module, mode in modes.items():
                module.training = mode

    def detached(self, owners: dict[str, nn.Module], missing: list[str], reached: dict[str, Tensor]) -> tuple[str, ...]:
        """Return the ``missing`` modules and matrices that the output depends on, but that the loss does not reach.

        Intended detachments, as in straight-through estimators, do not count as a path to the output. A path through
        NumPy is visible in no row.
        """
        rows = self.seen.rows
        passed_through, leading = self._leading(straight_through(rows)), self._leading(frozenset())
        hidden = {row.within for row in rows} - leading
        held = {name for path in owners for name in _own_weights(owners[path], path)}
        loose = [n for n, p in self.parameters.items() if p.dim() > 1 and n not in reached and n not in held]
        modules = (
            p for p in missing if p in passed_through or (p in hidden and self._moves(_own_weights(owners[p], p)))
        )
        return (*modules, *(name for name in loose if self._moves([name])))

    def _leading(self, meant: AbstractSet[int]) -> set[str]:
        """Return the modules with a path to the output that does not use the ``meant`` detachments."""
        rows = self.seen.rows
        waiting, reached = [self.seen.output % len(rows)], set[int]()
        while waiting:
            index = waiting.pop()
            if index not in reached and index not in meant:
                reached.add(index)
                waiting += rows[index].reads
        return {rows[index].within for index in reached}

    def _moves(self, names: list[str]) -> bool:
        """Return whether changing these parameters changes the loss, although no recorded op leads there."""
        given = {name: self.model.get_parameter(name).detach() for name in names}
        # random changes, because a norm after these parameters would undo a common factor
        shifted = {name: p + (p.abs().mean() + 1e-3) * torch.randn_like(p) for name, p in given.items()}
        values = []
        with suppress(Exception), torch.enable_grad():  # weights computed by a parametrization cannot be replaced
            for changed in ({}, shifted):
                torch.manual_seed(0)
                values.append(self.value(self.output(changed)).detach())
        return len(values) == 2 and not bool(torch.isclose(values[0], values[1], equal_nan=True))

    def stuck(self, reached: dict[str, Tensor]) -> tuple[str, ...]:
        """Return the matrices of zeros that get no gradient in a few training steps.

        A matrix before a head that starts at zero gets a gradient as soon as the head has changed. A factor that
        multiplies another factor of zeros never does.
        """
        parameters = self.parameters
        zero = [n for n, g in reached.items() if g.dim() > 1 and not bool(g.any()) and not bool(parameters[n].any())]
        values = {name: parameter.detach() for name, parameter in parameters.items()}
        with suppress(Exception):  # computed weights cannot be replaced
            for _ in range(_STEPS if zero else 0):
                signs = self._signs(values)
                values = {name: value - _RATE * signs[name] for name, value in values.items()}
                zero = [name for name in zero if not bool(signs[name].any())]
            if (
                zero
            ):  # what gets no gradient with random values either has no effect, such as a bias of scores of one key
                drawn = {name: v if bool(v.any()) else _RATE * torch.randn_like(v) for name, v in values.items()}
                signs = self._signs(drawn)
                zero = [name for name in zero if bool(signs[name].any())]
            return tuple(zero)
        return ()

    def _signs(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the signs of the gradients at these values of the parameters."""
        moving = {name: value.clone().requires_grad_(True) for name, value in values.items()}
        with torch.enable_grad():
            value = self.value(self.output(moving))
            gradients = torch.autograd.grad(value, list(moving.values()), allow_unused=True)
        return {
            n: torch.zeros_like(values[n]) if g is None else g.sign() for n, g in zip(moving, gradients, strict=True)
        }


def _mistaken_norms(model: nn.Module, runs: Counter[str]) -> dict[str, str]:
    """Return norms that never run, with an equal norm next to them that runs twice: a copy-paste slip."""
    kinds: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for path, module in model.named_modules():
        weight = getattr(module, "weight", None)
        if role_of(module) == "norm" and isinstance(weight, Tensor):
            kinds[path.rpartition(".")[0], type(module), tuple(weight.shape)].append(path)
    again = {kind: [path for path in paths if runs[path] > 1] for kind, paths in kinds.items()}
    return {path: again[kind][0] for kind, paths in kinds.items() for path in paths if again[kind] and not runs[path]}


def format_shares(values: FormatCount, gradients: FormatCount | None) -> tuple[FormatShares, ...]:
    """Return the shares for values and gradients, one row per format."""
    over, under = values.shares()
    back_over, back_under = (FormatCount() if gradients is None else gradients).shares()
    columns = zip(FORMATS, over, under, back_over, back_under, strict=True)
    return tuple(FormatShares(form.name, *(float(share) for share in shares)) for form, *shares in columns)


def _any_of(module: nn.Module, path: str, names: Container[str]) -> bool:
    return any(name in names for name in _own_weights(module, path))


def _own_weights(module: nn.Module, path: str) -> list[str]:
    """Return the names of a module's own parameters, without those of its submodules."""
    return [f"{path}.{name}" if path else name for name, _ in module.named_parameters(recurse=False)]
