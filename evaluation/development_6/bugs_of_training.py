"""Bugs around correct models: losses, labels, inputs, learning rates, optimizers, frozen parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evaluation.development_6 import domains
from evaluation.development_6.bugs_of_models import convolutional, each_token, net, overlap
from evaluation.programs import Case, Data, Program
from evaluation.samples import changed
from evaluation.scores import accuracy, negative, r2

BCE = F.binary_cross_entropy_with_logits
SGD, ADAM = torch.optim.SGD, torch.optim.Adam


def unmatched(data: Data) -> Data:
    """Return the data with inputs in an order of their own, as after shuffling them without the targets."""

    def shuffled(count: int, generator: torch.Generator) -> tuple[Any, Any]:
        inputs, targets = data(count, generator)
        return inputs[torch.randperm(count, generator=torch.Generator().manual_seed(5))], targets

    return shuffled


def minus_mean_log(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the mean log probability of the labels: its minus is missing."""
    return scores.log_softmax(1).gather(1, labels[:, None]).mean()


def summed(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the sum of squares over the batch."""
    return F.mse_loss(outputs, targets, reduction="sum")


def flat_squares(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return squares of ``[count, 1]`` against ``[count]``, which broadcast to a matrix."""
    return (outputs - targets).square().mean()


def signs(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return the binary cross-entropy with labels of -1 and 1."""
    return BCE(outputs, 2 * labels - 1)


def share_of_scores(scores: Tensor, shares: Tensor) -> Tensor:
    """Return the divergence from shares; the first argument should be log probabilities."""
    return F.kl_div(scores.softmax(1), shares, reduction="batchmean")


def share_of_log_scores(scores: Tensor, shares: Tensor) -> Tensor:
    """Return the divergence from shares."""
    return F.kl_div(scores.log_softmax(1), shares, reduction="batchmean")


def shares(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return numbers and the shares of 20 classes that a teacher gives."""
    values, _ = domains.many_kinds(count, generator)
    return values, (values @ domains.fixed_normal(20, 24, seed=51).T / 3).softmax(1)


def closeness(scores: Tensor, targets: Tensor) -> float:
    """Return minus the divergence from the shares."""
    return negative(share_of_log_scores)(scores, targets)


class Pair(nn.Module):
    """Vectors of two descriptions."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = net(20, 48, 16)

    def forward(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Return two vectors for each sample."""
        return self.embed(first), self.embed(second)


def cosine_of_zeros(outputs: tuple[Tensor, Tensor], same: Tensor) -> Tensor:
    """Return the cosine loss with 0 for different persons, where it has to be -1."""
    return F.cosine_embedding_loss(*outputs, same.float(), margin=0.1)


def cosine_of_signs(outputs: tuple[Tensor, Tensor], same: Tensor) -> Tensor:
    """Return the cosine loss with -1 for different persons."""
    return F.cosine_embedding_loss(*outputs, 2 * same.float() - 1, margin=0.1)


def separation(outputs: tuple[Tensor, Tensor], same: Tensor) -> float:
    """Return how far the cosines of same and of different persons are from each other."""
    cosine = F.cosine_similarity(*outputs)
    return (cosine[same == 1].mean() - cosine[same == 0].mean()).nan_to_num(0).item()


class Anchored(nn.Module):
    """Vectors of an anchor, a positive and a negative."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = net(20, 48, 12)

    def forward(self, *descriptions: Tensor) -> tuple[Tensor, ...]:
        """Return three vectors for each sample."""
        return tuple(self.embed(values) for values in descriptions)


def triplet(outputs: tuple[Tensor, ...], _: Tensor, *, swapped: bool = False) -> Tensor:
    """Return the triplet loss; wrong: the positive and the negative are swapped."""
    anchor, positive, negative_ = outputs
    if swapped:
        positive, negative_ = negative_, positive
    return F.triplet_margin_loss(anchor, positive, negative_, margin=1.0)


def nearer(outputs: tuple[Tensor, ...], _: Tensor) -> float:
    """Return the share of anchors that are nearer to the positive."""
    anchor, positive, negative_ = outputs
    closer = F.pairwise_distance(anchor, positive) < F.pairwise_distance(anchor, negative_)
    return closer.double().mean().item()


class Codes(nn.Module):
    """A variational autoencoder of flat images."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = net(256, 96, 24), net(12, 96, 256)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return restored images, means and log variances."""
        mean, log_variance = self.encode(images).chunk(2, 1)
        code = mean + torch.randn_like(mean) * (log_variance / 2).exp() if self.training else mean
        return self.decode(code), mean, log_variance


def evidence(outputs: tuple[Tensor, ...], images: Tensor, *, mean_of_pixels: bool = False) -> Tensor:
    """Return the loss of an autoencoder; wrong: a mean over pixels next to a sum over the code."""
    restored, mean, log_variance = outputs
    distance = F.mse_loss(restored, images, reduction="mean" if mean_of_pixels else "sum")
    divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum()
    return distance + 0.02 * divergence


def values_of_all(values: Tensor, targets: dict[str, Tensor]) -> Tensor:
    """Return the loss of the largest value instead of that of the action that was taken."""
    return F.mse_loss(values.amax(1), targets["return"])


def value_of_taken(values: Tensor, targets: dict[str, Tensor]) -> Tensor:
    """Return the loss of the value of the action that was taken."""
    return F.mse_loss(values.gather(1, targets["action"][:, None])[:, 0], targets["return"])


def masker() -> nn.Module:
    """Return a network of convolutions with one score for each pixel."""
    return nn.Sequential(
        *(nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 1, 1))
    )


def parts() -> nn.Module:
    """Return a network of convolutions with four scores for each pixel."""
    return nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 24, 5, padding=2), nn.ReLU(), nn.Conv2d(24, 4, 1))
    )


def pixels() -> nn.Module:
    """Return a small network of grey images without normalization."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 5, 2, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 1, 1), nn.ReLU()),
        *(nn.Conv2d(32, 32, 3, 1, 1), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(32, 3)),
    )


def pixel_accuracy(scores: Tensor, labels: Tensor) -> float:
    """Return the mean accuracy of background and shape pixels."""
    right = (scores.argmax(1) == labels).double()
    return (right[labels == 0].mean() + right[labels > 0].mean()).item() / 2


def partly_frozen(wrong: bool) -> nn.Module:
    """Return a network without pretraining whose hidden layers are frozen if it is wrong."""
    model = net(24, 10, 10, 20, activation=nn.Tanh)
    for layer in model[:4]:
        layer.requires_grad_(not wrong)
    return model


class Melody(nn.Module):
    """A GRU over notes that predicts the next note."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.memory, self.head = nn.Embedding(24, 32), nn.GRU(32, 48, batch_first=True), nn.Linear(48, 24)

    def forward(self, ids: Tensor) -> Tensor:
        """Return scores of each next note."""
        return self.head(self.memory(self.embed(ids))[0])


def same_notes(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return notes, and the same notes as targets: the shift by one is missing."""
    ids, _ = domains.melody(count, generator)
    return ids, ids


def whole_table_standardized(values: Tensor) -> Tensor:
    """Return rows of which each is divided by its own spread: the wrong axis."""
    return (values - values.mean(1, keepdim=True)) / values.std(1, keepdim=True)


def columns_standardized(values: Tensor) -> Tensor:
    """Return columns in units of their mean and spread."""
    center = torch.tensor([1800.0, 5, 1970, 30, 60000, 2, 2, 10])
    return (values - center) / torch.tensor([700.0, 2, 20, 8, 15000, 1, 1, 3])


def last_only(parameters: Any, lr: float) -> torch.optim.Optimizer:
    """Return Adam of the last two parameters only."""
    return ADAM(list(parameters)[-2:], lr=lr)


def off_by_one(labels: Tensor) -> Tensor:
    """Return labels where each class but the first is counted one lower, as after a wrong subtraction."""
    return (labels - 1).clamp_min(0)


def bug(
    name: str, causes: tuple[str, ...], base: Program, score: Callable[..., float], note: str, **wrong: Any
) -> Case:
    """Return a case whose faulty version is ``base`` with ``wrong``."""
    return Case(name, causes, replace(base, **wrong), base, score=score, note=note)


PRICES = Program(lambda: net(8, 48, 48, 1), domains.homes, F.mse_loss, lr=3e-3)
UNITS = replace(PRICES, data=changed(domains.home_units, columns_standardized), optimizer=SGD, lr=0.05)
DOLLARS = Program(lambda: net(8, 32, 1), domains.homes, F.mse_loss, lr=3e-3)
KINDS = Program(lambda: net(24, 64, 20), domains.many_kinds, lr=3e-3)
KINDS_SGD = Program(lambda: net(24, 64, 20), domains.many_kinds, optimizer=SGD, lr=0.2)
RINGS = Program(lambda: net(6, 48, 48, 3), domains.rings(), lr=3e-3, steps=300)
LOANS = Program(lambda: net(16, 48, 1), domains.loan_rows, BCE, lr=3e-3)
IMAGES = Program(pixels, domains.grey_shapes, optimizer=partial(SGD, momentum=0.9), lr=0.05, samples=1024)
GRATINGS = Program(partial(convolutional, ""), domains.gratings(), lr=3e-3, steps=100)

CASES = (
    bug(
        "rate_of_ten",
        ("learning rate", "optimizer", "not finite"),
        KINDS_SGD,
        accuracy,
        "the learning rate of SGD is 10",
        lr=10.0,
    ),
    bug(
        "rate_of_a_millionth",
        ("learning rate", "optimizer"),
        GRATINGS,
        accuracy,
        "the learning rate of Adam is 1e-6",
        lr=1e-6,
    ),
    bug(
        "adadelta_with_the_rate_of_adam",
        ("learning rate", "optimizer"),
        RINGS,
        accuracy,
        "Adadelta with a learning rate of 0.001 hardly moves",
        optimizer=torch.optim.Adadelta,
        lr=1e-3,
    ),
    bug(
        "momentum_of_0.999",
        ("optimizer", "learning rate"),
        KINDS_SGD,
        negative(F.cross_entropy),
        "the momentum is 0.999",
        optimizer=partial(SGD, momentum=0.999),
    ),
    bug(
        "weight_decay_of_one",
        ("optimizer",),
        KINDS_SGD,
        accuracy,
        "the weight decay is 1",
        optimizer=partial(SGD, weight_decay=1.0),
    ),
    bug(
        "last_layer_only",
        ("optimizer", "frozen"),
        replace(RINGS, build=lambda: net(6, 12, 12, 3)),
        accuracy,
        "the optimizer is given the last layer only",
        optimizer=last_only,
    ),
    bug(
        "hidden_layers_frozen",
        ("frozen",),
        replace(KINDS, build=partial(partly_frozen, False)),
        accuracy,
        "layers without pretraining are frozen",
        build=partial(partly_frozen, True),
    ),
    bug(
        "minus_is_missing",
        ("loss", "not finite"),
        replace(KINDS, loss=F.cross_entropy),
        accuracy,
        "the log-likelihood is minimized",
        loss=minus_mean_log,
    ),
    bug(
        "likelihood_of_raw_scores",
        ("loss", "output activation"),
        KINDS,
        accuracy,
        "nll_loss is given scores without a log softmax",
        loss=F.nll_loss,
    ),
    bug(
        "sum_with_the_rate_of_the_mean",
        ("loss", "learning rate", "not finite"),
        replace(PRICES, optimizer=SGD, lr=0.05),
        r2,
        "the loss is summed over the batch",
        loss=summed,
    ),
    bug(
        "matrix_of_differences",
        ("loss",),
        PRICES,
        r2,
        "prices [count, 1] and targets [count] broadcast",
        data=changed(domains.homes, targets=lambda prices: prices.squeeze(1)),
        loss=flat_squares,
        truth=domains.homes,
    ),
    bug("labels_of_minus_one", ("labels", "loss"), LOANS, negative(BCE), "labels are -1 and 1", loss=signs),
    bug(
        "masks_of_255",
        ("labels", "loss", "target scale"),
        Program(masker, domains.shape_masks, BCE, lr=3e-3, steps=100),
        overlap,
        "masks are read from images as 0 and 255",
        data=changed(domains.shape_masks, targets=lambda masks: 255 * masks),
        truth=domains.shape_masks,
    ),
    bug(
        "classes_as_numbers",
        ("loss", "labels"),
        replace(KINDS, steps=300),
        accuracy,
        "one output is fitted to the number of the class",
        build=lambda: net(24, 64, 1),
        loss=lambda outputs, labels: F.mse_loss(outputs.squeeze(1), labels.float()),
        predict=lambda outputs: -(outputs - torch.arange(20)).abs(),
    ),
    bug(
        "background_is_ignored",
        ("loss", "labels"),
        Program(parts, domains.shape_parts, lr=3e-3, steps=100),
        pixel_accuracy,
        "ignore_index is 0, which is the background",
        loss=partial(F.cross_entropy, ignore_index=0),
    ),
    bug(
        "weights_of_classes_inverted",
        ("loss",),
        replace(LOANS, loss=partial(BCE, pos_weight=torch.tensor(1.0))),
        negative(BCE),
        "the rare class gets a weight of 1/50",
        loss=partial(BCE, pos_weight=torch.tensor(0.02)),
    ),
    bug(
        "divergence_of_probabilities",
        ("loss", "output activation"),
        Program(lambda: net(24, 64, 20), shares, share_of_log_scores, lr=3e-3),
        closeness,
        "kl_div is given probabilities instead of their logarithms",
        loss=share_of_scores,
    ),
    bug(
        "cosine_targets_of_zero",
        ("loss", "labels"),
        Program(Pair, domains.same_or_not, cosine_of_signs, lr=3e-3),
        separation,
        "different pairs are marked 0 instead of -1 and do not count",
        loss=cosine_of_zeros,
    ),
    bug(
        "positive_and_negative_swapped",
        ("loss",),
        Program(Anchored, domains.faces, triplet, lr=3e-3),
        nearer,
        "the negative is passed where the positive belongs",
        loss=partial(triplet, swapped=True),
    ),
    bug(
        "mean_of_pixels_sum_of_codes",
        ("loss",),
        Program(Codes, domains.grey_copies, evidence, lr=2e-3, predict=lambda outputs: outputs[0]),
        r2,
        "the divergence is summed and the distance is averaged",
        loss=partial(evidence, mean_of_pixels=True),
    ),
    bug(
        "largest_value_instead_of_taken",
        ("loss",),
        Program(
            lambda: net(6, 64, 3),
            domains.moves,
            value_of_taken,
            lr=3e-3,
            steps=300,
            truth=domains.first_of(domains.moves, "values"),
        ),
        r2,
        "the value of the best action is fitted to the return of another",
        loss=values_of_all,
    ),
    bug(
        "inputs_in_another_order",
        ("labels",),
        RINGS,
        accuracy,
        "inputs are shuffled without their labels",
        data=unmatched(domains.rings()),
    ),
    bug(
        "labels_shifted_down",
        ("labels",),
        KINDS,
        accuracy,
        "one is subtracted from labels that begin at 0, and the first is clamped",
        data=changed(domains.many_kinds, targets=off_by_one),
        truth=domains.many_kinds,
    ),
    bug(
        "targets_without_a_shift",
        ("labels", "leak"),
        Program(Melody, domains.melody, each_token, lr=5e-3),
        accuracy,
        "the network predicts the note that it reads",
        data=same_notes,
        truth=domains.melody,
    ),
    bug(
        "columns_in_their_units",
        ("input scale",),
        UNITS,
        r2,
        "columns between 2 and 60000 are not standardized",
        data=domains.home_units,
    ),
    bug(
        "rows_standardized",
        ("input scale", "ignored input", "axis"),
        UNITS,
        r2,
        "the mean and spread of each row are removed",
        data=changed(domains.home_units, whole_table_standardized),
    ),
    bug(
        "bytes_not_scaled",
        ("input scale",),
        IMAGES,
        accuracy,
        "images are between 0 and 255",
        data=changed(domains.grey_shapes, lambda images: 255 * images),
    ),
    bug(
        "scaled_twice",
        ("input scale",),
        IMAGES,
        accuracy,
        "images are divided by 255 twice",
        data=changed(domains.grey_shapes, lambda images: images / 255),
    ),
    bug(
        "prices_in_dollars",
        ("target scale",),
        DOLLARS,
        r2,
        "targets are 320000 ± 80000",
        data=changed(domains.homes, targets=lambda prices: 80000 * (prices + 4)),
        truth=domains.homes,
        predict=lambda prices: prices / 80000 - 4,
    ),
)
