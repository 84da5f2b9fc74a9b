"""Objectives of `train`: cross-entropy, metric criteria on embeddings, and their mix; losses are torch's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from initscope.class_geometry.augmentation import Augmentation
from initscope.class_geometry.labeled import UNLABELED
from initscope.errors import InputError

__all__ = ["CRITERIA", "OBJECTIVES", "Objective", "random_triplets"]

Criterion = Callable[[Tensor, Tensor], Tensor]


def random_triplets(classes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return anchors, positives and negatives as indices.

    Every row with a partner of its class and a row of another class is an anchor.
    """
    same = classes[:, None] == classes
    like = same & ~torch.eye(len(classes), dtype=torch.bool)
    usable = torch.nonzero(like.any(dim=1) & (~same).any(dim=1)).squeeze(1)
    if not len(usable):
        return usable, usable, usable
    positive, negative = (torch.multinomial(mask[usable].float(), 1).squeeze(1) for mask in (like, ~same))
    return usable, positive, negative


def triplet(embeddings: Tensor, classes: Tensor, *, margin: float) -> Tensor:
    """Return `torch.nn.functional.triplet_margin_loss` of unit embeddings on `random_triplets` of the batch."""
    anchor, positive, negative = random_triplets(classes)
    unit = F.normalize(embeddings)
    if not len(anchor):
        return unit.sum() * 0
    return F.triplet_margin_loss(unit[anchor], unit[positive], unit[negative], margin=margin)


def contrastive(embeddings: Tensor, classes: Tensor, *, margin: float) -> Tensor:
    """Return `torch.nn.functional.hinge_embedding_loss`.

    Similar pairs count their distance, others the margin minus their distance.
    """
    anchor, positive, negative = random_triplets(classes)
    unit = F.normalize(embeddings)
    if not len(anchor):
        return unit.sum() * 0
    near, far = (F.pairwise_distance(unit[anchor], unit[other]) for other in (positive, negative))
    signs = torch.cat([torch.ones_like(near), -torch.ones_like(far)])
    return F.hinge_embedding_loss(torch.cat([near, far]), signs, margin=margin)


CRITERIA: dict[str, Callable[..., Tensor]] = {"triplet": triplet, "contrastive": contrastive}
OBJECTIVES = ("cross-entropy", *CRITERIA, *(f"cross-entropy+{name}" for name in CRITERIA))


@dataclass
class Objective:
    """Loss of a batch, given its item numbers; `train` explains the parts."""

    model: nn.Module
    images: Tensor
    classes: Tensor
    augment: Augmentation
    name: str | Criterion
    margin: float
    metric_weight: float
    label_smoothing: float

    def __post_init__(self) -> None:
        if not callable(self.name) and self.name not in OBJECTIVES:
            raise InputError(f"objective = {self.name!r} is unknown; choose one of {', '.join(OBJECTIVES)}")
        self.labeled = torch.nonzero(self.classes != UNLABELED).squeeze(1)
        parts = [] if callable(self.name) else self.name.split("+")
        self.classifies = "cross-entropy" in parts
        self.criterion: Criterion | None = None
        if callable(self.name):
            self.criterion = self.name
        elif parts[-1] in CRITERIA:
            chosen = CRITERIA[parts[-1]]
            self.criterion = lambda embeddings, classes: chosen(embeddings, classes, margin=self.margin)
        self.partly = self.criterion is not None and len(self.labeled) < len(self.classes)
        if self.classifies and self.criterion is not None:
            linear = [module for module in self.model.modules() if isinstance(module, nn.Linear)]
            if not linear:
                raise InputError(
                    f"objective = {self.name!r} needs the inputs of the last Linear layer, but the model has none"
                )
            self.last = linear[-1]

    @property
    def items(self) -> int:
        """Number of items that batches are drawn from: unlabeled items count only if a criterion can use them."""
        return len(self.classes) if self.partly else len(self.labeled)

    def __call__(self, pick: Tensor) -> Tensor:
        """Return the loss of the items ``pick``."""
        if self.criterion is None:
            return self._cross_entropy(self.labeled[pick])[0]
        if self.partly:
            loss = self._two_views(pick)
            if self.classifies:
                drawn = self.labeled[torch.randint(0, len(self.labeled), (len(pick),))]
                loss = self.metric_weight * loss + self._cross_entropy(drawn)[0]
            return loss
        rows = self.labeled[pick]
        if self.classifies:
            loss, embeddings = self._cross_entropy(rows)
            return loss + self.metric_weight * self.criterion(embeddings, self.classes[rows])
        return self.criterion(self.model(self.augment(self.images[rows])), self.classes[rows])

    def _cross_entropy(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        embeddings, output = self._run(self.augment(self.images[rows]))
        loss = F.cross_entropy(output, self.classes[rows], label_smoothing=self.label_smoothing)
        return loss, embeddings

    def _two_views(self, pick: Tensor) -> Tensor:
        """Return the criterion on two augmented views; an item without a label is only similar to its other view."""
        assert self.criterion is not None
        known = self.classes[pick]
        unique_labels = torch.arange(len(pick)) + int(self.classes.max()) + 1
        classes = torch.where(known == UNLABELED, unique_labels, known)
        images = self.images[pick]
        embeddings, _ = self._run(torch.cat([self.augment(images), self.augment(images)]))
        return self.criterion(embeddings, classes.repeat(2))

    def _run(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return the input of the last Linear layer and the output; the output twice if no classifier is trained."""
        if self.criterion is None or not self.classifies:
            output = self.model(images)
            return output, output
        seen: list[Tensor] = []

        def keep(_module: nn.Module, args: tuple[Any, ...]) -> None:
            seen.append(args[0])

        handle = self.last.register_forward_pre_hook(keep)
        try:
            output = self.model(images)
        finally:
            handle.remove()
        return seen[-1].flatten(1), output
