"""Healthy models with one seeded bug each, and which finding at which layer is right.

A fault is one line of code: ``spoil(model)`` changes the model, or gives another in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

import initscope
from evaluation.published.attention import SelfAttention
from evaluation.published.members import Member, inspect_with
from evaluation.published.registry import HEALTHY
from evaluation.published.residual import PreActBlock, preact
from initscope.models.training_loop import seeded


@dataclass(frozen=True)
class Fault:
    """A bug, the model that has it, and the findings that are right.

    Attributes
    ----------
    name : str
        The fault in words.
    member : str
        Who has it.
    spoil : callable
        Makes the fault: changes the model, or returns another one.
    findings : tuple of str
        Names of checks any of which is right.
    where : tuple of str
        Beginnings of the names of layers or blocks any of which is right; empty: anywhere, as the fault is everywhere.
    """

    name: str
    member: str
    spoil: Callable[[Any], Any]
    findings: tuple[str, ...]
    where: tuple[str, ...] = ()
    changes: dict[str, Any] = field(default_factory=dict)
    """Of the member: another ``build``, ``data`` or ``loss``."""

    @property
    def original(self) -> Member:
        """The member without the bug."""
        return replace(HEALTHY[self.member], **self.changes)

    def make(self, seed: int = 0) -> nn.Module:
        """The model with its fault."""
        model = self.original.make(seed)
        with seeded(seed), torch.no_grad():
            other = self.spoil(model)
        return other if isinstance(other, nn.Module) else model

    def inspect(self, seed: int = 0, **options: Any) -> initscope.inspection.Report:
        """The report on the faulty model."""
        return inspect_with(self.make(seed), self.original, **options)

    def found_in(self, report: initscope.inspection.Report) -> bool:
        """Whether the report has an error or a warning of a right name at a right layer."""
        return any(
            finding.name in self.findings
            and (not self.where or any(_within(finding.layer, place) for place in self.where))
            for finding in (*report.errors, *report.warnings)
        )


def _within(layer: str, place: str) -> bool:
    """Whether a layer is ``place`` or lies in it."""
    return layer == place or layer.startswith((f"{place}.", f"{place} "))


def scale_(model: nn.Module, factor: float) -> None:
    """Multiply all matrices."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.mul_(factor)


def replace_all(model: nn.Module, old: type, new: Callable[[], nn.Module]) -> None:
    """Put ``new()`` in place of every module of a class."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, old):
                setattr(parent, name, new())


def after(module: nn.Module, function: Callable[[Tensor], Tensor]) -> None:
    """Pass what a module returns through a function."""
    module.register_forward_hook(lambda _, inputs, output: function(output))


def deep_perceptron(depth: int = 12, width: int = 64) -> nn.Module:
    """He's law for digits: healthy at this depth."""
    layers: list[nn.Module] = []
    for index in range(depth):
        layers += [nn.Linear(width if index else 64, width), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(width, 10))
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
    return model


def wide_and_narrow() -> nn.Module:
    """Widths of 1,024 and 16 in turn, He's law by fan in."""
    layers: list[nn.Module] = []
    sizes = (64, 1024, 16, 1024, 16, 1024, 16)
    for before, behind in pairwise(sizes):
        layers += [nn.Linear(before, behind), nn.ReLU()]
        nn.init.kaiming_normal_(layers[-2].weight)
    return nn.Sequential(*layers, nn.Linear(16, 10))


def plain_residual(blocks: int = 12) -> nn.Module:
    """Pre-activation blocks without norms, each scaled by blocks^-½."""
    model = preact((16,), blocks)
    replace_all(model, nn.BatchNorm2d, nn.Identity)
    for block in model.modules():
        if isinstance(block, PreActBlock):
            with torch.no_grad():
                block.conv2.weight.mul_(blocks**-0.5)
    return model


def without_skips(model: nn.Module) -> None:
    """Blocks of a transformer that do not add what came in."""
    for block in model.blocks:
        block.forward = lambda x, block=block: block.mlp(block.norm2(block.attention(block.norm1(x))))


def attentions(model: nn.Module) -> list[SelfAttention]:
    """The attention layers of a model."""
    return [module for module in model.modules() if isinstance(module, SelfAttention)]


def bytes_of(data: Callable[[int], tuple[Tensor, Any]]) -> Callable[[int], tuple[Tensor, Any]]:
    """Images of 0…255 in place of standardised ones."""

    def raw(count: int) -> tuple[Tensor, Any]:
        images, targets = data(count)
        low, high = images.min(), images.max()
        return 255 * (images - low) / (high - low), targets

    return raw


def with_constant_channel(data: Callable[[int], tuple[Tensor, Any]]) -> Callable[[int], tuple[Tensor, Any]]:
    """Images whose second channel is one number."""

    def changed(count: int) -> tuple[Tensor, Any]:
        images, targets = data(count)
        images = images.clone()
        images[:, 1] = 1.0
        return images, targets

    return changed


def same_image(count: int) -> tuple[Tensor, Any]:
    """One photograph, again and again."""
    images, targets = HEALTHY["VGG-BN"].data(count)
    return images[:1].repeat(count, 1, 1, 1), targets
