"""Bugs of losses, labels, inputs and optimizers around correct models."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evaluation.development_5 import domains
from evaluation.development_5.bugs_of_models import Activity, Elman, ShapeNet, deep, on_tokens
from evaluation.programs import Case, Program
from evaluation.samples import changed
from evaluation.scores import accuracy, channel_accuracy, r2

SGD, ADAM = torch.optim.SGD, torch.optim.Adam


class Segmenter(nn.Module):
    """Per-position classes of a sensor window: ``[count, classes, time]``."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(2, 32, 5, padding=2), nn.ReLU(), nn.Conv1d(32, 32, 5, padding=2), nn.ReLU(), nn.Conv1d(32, 3, 1)
        )

    def forward(self, window: Tensor) -> Tensor:
        """Return scores ``[count, 3, time]``."""
        return self.body(window)


def phases(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return two noisy channels and which of three levels their product has, at each time."""
    values = F.interpolate(torch.randn(count, 2, 6, generator=generator), 24, mode="linear")
    product = values.prod(1)
    return values, (product > 0.15).long() + (product > -0.15).long()


def viewed_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the cross-entropy of scores ``[count, 3, time]`` viewed as ``[count * time, 3]``."""
    return F.cross_entropy(scores.reshape(-1, 3), labels.reshape(-1))


class Rank(nn.Module):
    """An embedding of three documents at once."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 8))

    def forward(self, anchor: Tensor, near: Tensor, far: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return three embeddings."""
        return self.body(anchor), self.body(near), self.body(far)


def triplets(count: int, generator: torch.Generator) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
    """Return documents, others of the same of four topics, others of another topic; targets are not used."""
    topics = torch.randn(4, 12, generator=torch.Generator().manual_seed(31))
    kind = torch.randint(4, (count,), generator=generator)
    other = (kind + torch.randint(1, 4, (count,), generator=generator)) % 4
    noise = 1.2 * torch.randn(3, count, 12, generator=generator)
    return (topics[kind] + noise[0], topics[kind] + noise[1], topics[other] + noise[2]), torch.zeros(count)


def triplet(wrong: bool):
    """Return the triplet loss, with the two others exchanged if wrong."""

    def loss(codes: tuple[Tensor, Tensor, Tensor], _: Tensor) -> Tensor:
        anchor, near, far = codes
        return F.triplet_margin_loss(anchor, far, near) if wrong else F.triplet_margin_loss(anchor, near, far)

    return loss


def nearer(codes: tuple[Tensor, Tensor, Tensor], _: Tensor) -> float:
    """Return the share of triplets whose near document is nearer."""
    anchor, near, far = codes
    return ((anchor - near).norm(dim=1) < (anchor - far).norm(dim=1)).double().mean().item()


class TwoTasks(nn.Module):
    """Concentrations of two substances by two heads."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(60, 32), nn.ReLU())
        self.first, self.second = nn.Linear(32, 1), nn.Linear(32, 1)

    def forward(self, spectrum: Tensor) -> Tensor:
        """Return both concentrations."""
        h = self.body(spectrum)
        return torch.cat([self.first(h), self.second(h)], 1)


def weighted(weight: float):
    """Return the squared error of both tasks, the first times ``weight``."""
    return lambda p, y: weight * F.mse_loss(p[:, 0], y[:, 0]) + F.mse_loss(p[:, 1], y[:, 1])


def identities(scaled: bool):
    """Return the id of one of 500 products, as a number, with its price band; scaled: one-hot by tens."""

    def data(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        ids = torch.randint(500, (count,), generator=generator)
        labels = (ids // 50 * 7 % 4).long()
        return (F.one_hot(ids // 50, 10).float() if scaled else 1000.0 * ids[:, None].expand(-1, 10).float()), labels

    return data


def daily(seconds: bool):
    """Return a time and a daily rhythm; the time as seconds since 1970, or as an angle."""

    def data(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        day = torch.rand(count, 1, generator=generator)
        angle = 6.2832 * day
        value = torch.sin(angle) + 0.3 * torch.cos(2 * angle)
        if seconds:
            return (1.7e9 + 86400 * day).float().expand(-1, 2).contiguous(), value
        return torch.cat([angle.sin(), angle.cos()], 1), value

    return data


def unknown_words(share: float):
    """Return reviews in which a share of the tokens is replaced by one unknown token."""

    def data(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        tokens, labels = domains.reviews()(count, generator)
        lost = (torch.rand(tokens.shape, generator=generator) < share) & (tokens > 0)
        return tokens.masked_fill(lost, 49), labels

    return data


class BagOfWords(nn.Module):
    """A mean of word vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = (
            nn.Embedding(50, 16, padding_idx=0),
            nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2)),
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """Return scores of two classes."""
        return self.head(self.embed(tokens).sum(1) / (tokens > 0).sum(1, keepdim=True).clamp_min(1))


def noisy_shapes(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return shapes under noise of standard deviation 30."""
    images, labels = domains.shapes()(count, generator)
    return images + 30 * torch.randn(images.shape, generator=generator), labels


def counted(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return the counts."""
    return domains.counts(count, generator)


def next_row(labels: Tensor) -> Tensor:
    """Return the labels of the next row."""
    return labels.roll(1)


class _Absolute(nn.Module):
    """The absolute value."""

    def forward(self, values: Tensor) -> Tensor:
        """Return absolute values."""
        return values.abs()


def adam(**options):
    """Return Adam with other settings as a factory."""
    return lambda parameters, lr: ADAM(parameters, lr=lr, **options)


def descent(**options):
    """Return SGD with other settings as a factory."""
    return lambda parameters, lr: SGD(parameters, lr=lr, **options)


def last_parameter_only(parameters, lr: float) -> torch.optim.Optimizer:
    """Return Adam for the last parameter alone."""
    return ADAM(list(parameters)[-1:], lr=lr)


class Progression(nn.Module):
    """A small transformer encoder with a causal mask."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(24, 32), nn.Parameter(0.02 * torch.randn(20, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.body, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(32, 24)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return scores of the next tokens."""
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.head(self.body(self.embed(tokens) + self.place, mask=mask))


def positive_rate(output: Tensor) -> Tensor:
    """Return rates from their logarithms."""
    return output.exp()


SHAPES = Program(ShapeNet, domains.shapes(), lr=2e-3, steps=250)
ACTIVITY = Program(Activity, domains.sensors(), lr=3e-3, steps=300)
POINTS = Program(lambda: deep(nn.Tanh, depth=2), domains.curves, F.mse_loss, lr=5e-3, steps=400)
SLOW_POINTS = replace(POINTS, optimizer=SGD, lr=0.2, steps=600)
SERIES = Program(lambda: Elman(1.0), domains.demand, F.mse_loss, lr=3e-3, steps=300)
COUNTS = Program(lambda: deep(nn.ReLU, depth=2, inputs=10), counted, F.poisson_nll_loss, lr=3e-3, steps=300,
                 predict=positive_rate)  # fmt: skip
WORDS = Program(Progression, domains.periodic_text(), on_tokens, lr=3e-3, steps=300)
SEGMENTS = Program(Segmenter, phases, lr=3e-3, steps=300)
REVIEWS = Program(BagOfWords, domains.reviews(), lr=5e-3, steps=300)
TRIPLETS = Program(Rank, triplets, triplet(False), lr=2e-3, steps=200)
SPECTRA = Program(TwoTasks, domains.spectra, weighted(1.0), optimizer=SGD, lr=0.1, steps=600)
FIRST_CLASS_ONLY = torch.tensor([1.0, 0.0, 0.0, 0.0])


def without_exponent(rate: Tensor, target: Tensor) -> Tensor:
    """Return the Poisson loss of rates that were already exponentiated, taken as logarithms again."""
    return F.poisson_nll_loss(rate.exp(), target)


CASES = (
    Case("exponent_taken_twice", ("loss", "output activation"),
         replace(COUNTS, loss=without_exponent), COUNTS, r2,
         note="exp(output) is passed to a loss with log_input=True"),
    Case("scores_viewed_instead_of_permuted", ("axis", "loss"),
         replace(SEGMENTS, loss=viewed_loss), SEGMENTS, channel_accuracy,
         note="scores [N, C, T] are viewed as [N·T, C] in front of the loss"),
    Case("absolute_value_on_the_output", ("output activation",),
         replace(POINTS, build=lambda: nn.Sequential(deep(nn.Tanh, depth=2), _Absolute())), POINTS, r2,
         note="abs on the output for targets of both signs"),
    Case("labels_smoothed_completely", ("loss", "labels"),
         replace(ACTIVITY, loss=lambda p, y: F.cross_entropy(p, y, label_smoothing=1.0)), ACTIVITY, accuracy,
         note="label_smoothing=1 leaves nothing of the labels"),
    Case("weights_of_classes_are_zero", ("loss", "labels"),
         replace(SHAPES, loss=lambda p, y: F.cross_entropy(p, y, FIRST_CLASS_ONLY, reduction="sum") / len(y)), SHAPES,
         accuracy, note="three of four classes have weight 0"),
    Case("majority_ignored_by_index", ("loss", "labels"),
         replace(REVIEWS, loss=lambda p, y: F.cross_entropy(p, y, ignore_index=1)), REVIEWS, accuracy,
         note="ignore_index is one of the two classes"),
    Case("near_and_far_exchanged", ("loss", "labels"),
         replace(TRIPLETS, loss=triplet(True)), TRIPLETS, nearer, note="positive and negative are exchanged"),
    Case("huber_with_tiny_delta", ("loss", "learning rate"),
         replace(SLOW_POINTS, loss=lambda p, y: F.huber_loss(p, y, delta=1e-4)),
         replace(SLOW_POINTS, loss=F.huber_loss), r2, note="delta=1e-4 makes gradients of 1e-4"),
    Case("sum_over_the_batch_with_descent", ("loss", "learning rate"),
         replace(SLOW_POINTS, loss=lambda p, y: F.mse_loss(p, y, reduction="sum")), SLOW_POINTS, r2,
         note="reduction='sum' with a rate for means: diverges"),
    Case("loss_divided_twice", ("loss", "learning rate"),
         replace(SLOW_POINTS, loss=lambda p, y: F.mse_loss(p, y) / 4096), SLOW_POINTS, r2,
         note="the loss is divided by the number of batches and of samples"),
    Case("labels_of_the_next_row", ("labels",),
         replace(SHAPES, data=changed(domains.shapes(), targets=next_row), truth=domains.shapes()), SHAPES, accuracy,
         note="labels are shifted by one row"),
    Case("identifiers_as_numbers", ("input scale",),
         Program(lambda: deep(nn.Tanh, depth=2, inputs=10, outputs=4), identities(False), steps=300),
         Program(lambda: deep(nn.Tanh, depth=2, inputs=10, outputs=4), identities(True), steps=300), accuracy,
         note="ids up to 500,000 are read as numbers"),
    Case("seconds_since_1970", ("input scale",),
         replace(POINTS, data=daily(True)), replace(POINTS, data=daily(False)), r2,
         note="the time is in seconds since 1970, in single precision"),
    Case("nearly_all_words_unknown", ("samples", "ignored input", "input scale"),
         replace(REVIEWS, data=unknown_words(0.97)), REVIEWS, accuracy, note="97 % of the words are the unknown word"),
    Case("noise_drowns_the_images", ("input scale", "labels"),
         replace(SHAPES, data=noisy_shapes), SHAPES, accuracy, note="augmentation adds noise of standard deviation 30"),
    Case("epsilon_of_one_thousand", ("optimizer", "learning rate"),
         replace(ACTIVITY, optimizer=adam(eps=1e3)), ACTIVITY, accuracy, note="Adam with eps=1000"),
    Case("momentum_with_four_nines", ("optimizer", "learning rate"),
         replace(SLOW_POINTS, optimizer=descent(momentum=0.9999)), SLOW_POINTS, r2,
         note="momentum 0.9999 with a rate of 0.2"),
    Case("only_the_last_bias_is_optimized", ("optimizer", "frozen"),
         replace(ACTIVITY, optimizer=last_parameter_only), ACTIVITY, accuracy,
         note="the optimizer gets the last parameter only"),
    Case("rate_of_one_with_adam", ("learning rate",),
         replace(WORDS, lr=1.0), WORDS, accuracy, note="Adam with a rate of 1 on a transformer"),
    Case("adadelta_at_a_thousandth", ("optimizer", "learning rate"),
         replace(SHAPES, optimizer=torch.optim.Adadelta, lr=1e-4),
         replace(SHAPES, optimizer=torch.optim.Adadelta, lr=1.0),
         accuracy, note="Adadelta with a rate of 1e-4 instead of 1"),
    Case("maximized", ("optimizer", "loss"),
         replace(SERIES, optimizer=adam(maximize=True)), SERIES, r2, note="maximize=True"),
    Case("decay_of_one_with_descent", ("optimizer",),
         replace(SLOW_POINTS, optimizer=descent(weight_decay=1.0)), SLOW_POINTS, r2, note="SGD with weight decay 1"),
    Case("one_task_weighs_all", ("loss", "learning rate"),
         replace(SPECTRA, loss=weighted(1e-5)), SPECTRA, r2,
         note="one of two tasks weighs 1e-5"),
)  # fmt: skip
