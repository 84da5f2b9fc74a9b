"""Bugs in the code of models: outputs, axes, masks, attention, normalization, initialization, lost gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evaluation.development_6 import domains
from evaluation.programs import Case, Program
from evaluation.scores import accuracy, negative, r2

BCE = F.binary_cross_entropy_with_logits


def net(*sizes: int, activation: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    """Return linear layers with an activation between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), activation()]
    return nn.Sequential(*layers[:-1])


def each_token(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the cross-entropy of scores ``[count, length, classes]``."""
    return F.cross_entropy(scores.flatten(0, 1), labels.flatten())


def last_token(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the cross-entropy at the last position."""
    return F.cross_entropy(scores[:, -1], labels[:, -1])


def with_end(last: Callable[[], nn.Module], body: Callable[[], nn.Sequential], wrong: bool) -> nn.Module:
    """Return a network, followed by one more layer if it is wrong."""
    return body().append(last()) if wrong else body()


class Readings(nn.Module):
    """An LSTM of channels over time."""

    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.memory = nn.GRU(5, 32, batch_first=not wrong)
        self.head = nn.Linear(32, 4)

    def forward(self, values: Tensor) -> Tensor:
        """Return scores from the mean state."""
        return self.head(self.memory(values)[0].square().mean(1))


class Masker(nn.Module):
    """Convolutions of images whose channels come last, as image libraries load them."""

    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.wrong = wrong
        self.body = nn.Sequential(
            *(nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1), nn.ReLU()),
            nn.Conv2d(12, 1, 1),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Return one score for each pixel."""
        count, rows, columns, channels = images.shape
        first = images.reshape(count, channels, rows, columns) if self.wrong else images.permute(0, 3, 1, 2)
        return self.body(first)


def channels_last(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return images ``[count, 16, 16, 3]`` and masks."""
    images, masks = domains.shape_masks(count, generator)
    return images.permute(0, 2, 3, 1).contiguous(), masks


def overlap(scores: Tensor, masks: Tensor) -> float:
    """Return intersection over union."""
    found = scores > 0
    return ((found & (masks > 0)).sum() / (found | (masks > 0)).sum().clamp_min(1)).item()


class Recaller(nn.Module):
    """Attention of one head over a short text; every token asks for the first one."""

    def __init__(self, wrong: str = "", width: int = 32) -> None:
        super().__init__()
        self.wrong = wrong
        self.embed = nn.Embedding(8, width)
        self.position = nn.Parameter(torch.randn(8, width))
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.head = nn.Linear(width, 8)

    def forward(self, ids: Tensor) -> Tensor:
        """Return scores of the first token at each position."""
        tokens = self.embed(ids) + self.position
        scores = self.query(tokens) @ self.key(tokens).transpose(1, 2)
        root = math.sqrt(tokens.shape[-1])
        scores = scores * root if self.wrong == "scale" else scores / root
        share = scores.softmax(1 if self.wrong == "axis" else -1)
        return self.head(share @ self.value(tokens))


class Order(nn.Module):
    """A transformer encoder with a mean over positions."""

    def __init__(self, wrong: bool, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Embedding(12, width)
        self.position = None if wrong else nn.Parameter(0.5 * torch.randn(10, width))
        layer = nn.TransformerEncoderLayer(width, 4, 64, 0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, ids: Tensor) -> Tensor:
        """Return scores of two classes."""
        tokens = self.embed(ids)
        if self.position is not None:
            tokens = tokens + self.position
        return self.head(self.encoder(tokens).mean(1))


class Opinions(nn.Module):
    """An encoder of padded texts whose first token is read."""

    def __init__(self, wrong: bool, width: int = 32) -> None:
        super().__init__()
        self.wrong = wrong
        self.embed = nn.Embedding(40, width, padding_idx=0)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.query = nn.Parameter(torch.randn(1, 1, width))
        self.head = net(width, 32, 2)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return scores of two classes; ``mask`` is true at real words."""
        words = self.embed(ids)
        hidden = mask if self.wrong else ~mask
        hidden = hidden & ~hidden.all(1, keepdim=True)
        query = self.query.expand(len(ids), -1, -1)
        return self.head(self.attention(query, words, words, key_padding_mask=hidden)[0][:, 0])


class Composer(nn.Module):
    """A GRU over notes that predicts the next note; wrong: it reads the melody in both directions."""

    def __init__(self, wrong: bool, width: int = 48) -> None:
        super().__init__()
        self.embed = nn.Embedding(24, width)
        self.memory = nn.GRU(width, width // 2 if wrong else width, batch_first=True, bidirectional=wrong)
        self.head = nn.Linear(width, 24)

    def forward(self, ids: Tensor) -> Tensor:
        """Return scores of each next note."""
        return self.head(self.memory(self.embed(ids))[0])


class Layers(nn.Module):
    """Layers in a list: a Python list if it is wrong, ``nn.ModuleList`` otherwise."""

    def __init__(self, wrong: bool) -> None:
        super().__init__()
        layers = [nn.Linear(24, 10), nn.Linear(10, 10)]
        self.hidden = layers if wrong else nn.ModuleList(layers)
        self.head = nn.Linear(10, 20)

    def forward(self, values: Tensor) -> Tensor:
        """Return scores of 20 classes."""
        for layer in self.hidden:
            values = torch.tanh(layer(values))
        return self.head(values)


class Prices(nn.Module):
    """A perceptron whose features may be computed without a gradient."""

    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.wrong = wrong
        self.features, self.head = net(8, 16, 16), nn.Linear(16, 1)

    def forward(self, values: Tensor) -> Tensor:
        """Return prices."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.wrong):
            hidden = torch.relu(self.features(values))
        return self.head(hidden)


class Gates(nn.Module):
    """Points are counted if a gate is open; the wrong gate is a comparison."""

    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.wrong = wrong
        self.gate, self.head = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, values: Tensor) -> Tensor:
        """Return scores of three classes from gated units."""
        scores = self.gate(values)
        return self.head((scores > 0).float() if self.wrong else F.softplus(4 * scores))


class Clouds(nn.Module):
    """A perceptron of points and a mean over them; wrong: over the channels."""

    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.axis = 2 if wrong else 1
        self.points = net(3, 32, 48, 48)
        self.head = nn.Linear(48, 4)

    def forward(self, clouds: Tensor) -> Tensor:
        """Return scores of four solids."""
        return self.head(self.points(clouds).amax(self.axis))


class Sensor(nn.Module):
    """Windows of one wave form, normalized inside; the level is the class."""

    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(24, elementwise_affine=False) if wrong else nn.BatchNorm1d(24)
        self.body = net(24, 64, 64, 4)

    def forward(self, values: Tensor) -> Tensor:
        """Return scores of four levels."""
        return self.body(self.norm(values))


class Times(nn.Module):
    """A network of time with a normalization of its one input."""

    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(1) if wrong else nn.BatchNorm1d(1)
        self.body = net(1, 48, 48, 1, activation=nn.Tanh)

    def forward(self, time: Tensor) -> Tensor:
        """Return the oscillation."""
        return self.body(self.norm(time))


def convolutional(wrong: str, width: int = 16) -> nn.Module:
    """Return a small network of gratings."""
    momentum = 1e-4 if wrong == "momentum" else 0.1
    pool = nn.AdaptiveAvgPool2d(1)
    return nn.Sequential(
        *(nn.Conv2d(1, width, 5, 2, 2), nn.BatchNorm2d(width, momentum=momentum), nn.ReLU()),
        *(nn.Conv2d(width, width, 3, 2, 1), nn.BatchNorm2d(width, momentum=momentum), nn.ReLU()),
        *(pool, nn.Flatten(), nn.Linear(width, 6)),
    )


def initialized(init: Callable[[Tensor], Any] | None, body: Callable[[], nn.Module], wrong: bool) -> nn.Module:
    """Return a network whose linear layers are initialized by ``init`` if it is wrong."""
    model = body()
    if wrong and init is not None:
        for layer in model.modules():
            if isinstance(layer, nn.Linear):
                init(layer.weight)
                nn.init.zeros_(layer.bias)
    return model


class Adding(nn.Module):
    """A plain RNN with ReLU whose recurrent weights are scaled."""

    def __init__(self, wrong: bool, width: int = 32) -> None:
        super().__init__()
        self.memory = nn.RNN(2, width, nonlinearity="relu", batch_first=True)
        with torch.no_grad():
            self.memory.weight_hh_l0.copy_((2.0 if wrong else 1.0) * torch.eye(width))
            self.memory.weight_ih_l0.mul_(2)
            self.memory.bias_hh_l0.zero_()
            self.memory.bias_ih_l0.zero_()
        self.head = nn.Linear(width, 1)

    def forward(self, values: Tensor) -> Tensor:
        """Return the sum of the marked numbers."""
        return self.head(self.memory(values)[0][:, -1])


class Deep(nn.Module):
    """Fourteen layers; the wrong version forgets to add the input of each block."""

    def __init__(self, wrong: bool, width: int = 32) -> None:
        super().__init__()
        self.wrong = wrong
        self.enter, self.head = nn.Linear(6, width), nn.Linear(width, 3)
        self.blocks = nn.ModuleList(net(width, width, width, activation=nn.Sigmoid) for _ in range(7))

    def forward(self, values: Tensor) -> Tensor:
        """Return scores of three classes."""
        values = self.enter(values)
        for block in self.blocks:
            values = block(values) if self.wrong else values + block(values)
        return self.head(values)


class Words(nn.Module):
    """Ids of words, embedded, or (wrong) cast to floats."""

    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.wrong = wrong
        self.embed = nn.Linear(20, 32) if wrong else nn.Embedding(40, 32, padding_idx=0)
        self.head = net(32, 32, 2)

    def forward(self, ids: Tensor) -> Tensor:
        """Return scores of two classes."""
        return self.head(self.embed(ids.float()) if self.wrong else self.embed(ids).mean(1))


class Twins(nn.Module):
    """Two inputs with one network; wrong: the first input is passed twice."""

    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.wrong = wrong
        self.embed = net(20, 48, 16)
        self.head = net(16, 16, 2)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """Return scores of different and same."""
        one, other = self.embed(first), self.embed(first if self.wrong else second)
        return self.head((one - other).square())


def case(name: str, causes: tuple[str, ...], build: Callable[[Any], nn.Module], options: dict[str, Any],
         score: Callable[..., float], note: str, *, wrong: Any = True, right: Any = False) -> Case:  # fmt: skip
    """Return a case whose versions differ by what ``build`` is given."""
    both = (Program(partial(build, value), **{"steps": 200, "lr": 3e-3} | options) for value in (wrong, right))
    return Case(name, causes, *both, score=score, note=note)


PRICES = {"data": domains.homes, "loss": F.mse_loss}
KINDS = {"data": domains.many_kinds}
RINGS = {"data": domains.rings(), "steps": 300}
RARE = {"data": domains.symptoms, "loss": BCE, "steps": 300}
TOKENS = {"data": domains.melody, "loss": each_token, "predict": lambda scores: scores[:, -1],
          "truth": lambda count, generator: (None, domains.melody(count, generator)[1][:, -1])}  # fmt: skip

CASES = (
    case(
        "sigmoid_then_logits_loss",
        ("output activation", "loss"),
        partial(with_end, nn.Sigmoid, lambda: net(12, 64, 8)),
        RARE,
        negative(BCE),
        "the loss applies a second sigmoid, so that no share is below one half",
    ),
    case(
        "softmax_then_cross_entropy",
        ("output activation", "loss"),
        partial(with_end, lambda: nn.Softmax(1), lambda: net(24, 64, 20)),
        KINDS | {"lr": 0.2, "optimizer": torch.optim.SGD},
        accuracy,
        "cross-entropy applies a second softmax",
    ),
    case(
        "log_softmax_over_the_batch",
        ("output activation", "loss", "axis", "samples"),
        lambda axis: net(24, 64, 20).append(nn.LogSoftmax(axis)),
        KINDS | {"loss": F.nll_loss, "steps": 40},
        negative(F.nll_loss),
        "the softmax is over the samples of the batch",
        wrong=0,
        right=1,
    ),
    case(
        "softmax_of_one_output",
        ("output activation", "loss"),
        lambda wrong: net(16, 32, 1).append(nn.Softmax(1) if wrong else nn.Sigmoid()),
        {"data": domains.loan_rows, "loss": F.binary_cross_entropy},
        negative(F.binary_cross_entropy),
        "the softmax of a single output is always 1",
    ),
    case(
        "relu_on_signed_prices",
        ("output activation", "loss"),
        partial(with_end, nn.ReLU, lambda: net(8, 48, 1)),
        PRICES,
        r2,
        "half of the targets are negative",
    ),
    case(
        "relu_before_the_loss",
        ("output activation", "loss"),
        partial(with_end, nn.ReLU, lambda: net(24, 64, 20)),
        KINDS | {"lr": 1e-2},
        negative(F.cross_entropy),
        "scores of classes pass a ReLU",
    ),
    case(
        "clamped_shares",
        ("output activation", "loss", "gradient"),
        lambda wrong: net(12, 64, 8).append(nn.Hardtanh(1e-3, 0.999) if wrong else nn.Sigmoid()),
        RARE | {"loss": F.binary_cross_entropy},
        negative(F.binary_cross_entropy),
        "scores are clamped between 0 and 1 instead of a sigmoid",
    ),
    case(
        "batch_second",
        ("samples", "axis"),
        Readings,
        {"data": domains.readings, "steps": 300, "lr": 1e-2},
        accuracy,
        "the GRU runs over the samples of the batch, not over time",
    ),
    case(
        "reshape_instead_of_permute",
        ("axis", "samples", "ignored input"),
        Masker,
        {"data": channels_last, "loss": BCE, "steps": 100},
        overlap,
        "channels and pixels are mixed by a reshape",
    ),
    case(
        "attention_over_queries",
        ("attention", "axis"),
        Recaller,
        {"data": domains.recall, "loss": each_token, "steps": 100},
        accuracy,
        "the softmax is over the queries",
        wrong="axis",
        right="",
    ),
    case(
        "attention_times_root",
        ("attention", "initialization"),
        partial(Recaller, width=96),
        {"data": domains.recall, "loss": last_token, "steps": 80},
        lambda scores, labels: accuracy(scores[:, -1], labels[:, -1]),
        "scores are multiplied by the root of the width",
        wrong="scale",
        right="",
    ),
    case(
        "no_positions",
        ("ignored input", "attention"),
        Order,
        {"data": domains.order, "lr": 1e-3},
        accuracy,
        "without positions the order cannot be seen",
    ),
    case(
        "mask_inverted",
        ("mask", "attention"),
        Opinions,
        {"data": domains.opinions, "steps": 300},
        accuracy,
        "real words are hidden and the padding is read",
    ),
    case(
        "reads_the_next_note",
        ("leak", "mask"),
        Composer,
        TOKENS | {"steps": 120},
        negative(F.cross_entropy),
        "the network reads the notes that it predicts",
    ),
    case("layers_in_a_python_list", ("unregistered",), Layers, KINDS, accuracy, "the hidden layers are not registered"),
    case(
        "features_without_gradient",
        ("gradient", "frozen"),
        Prices,
        PRICES,
        r2,
        "the features are under no_grad",
    ),
    case(
        "gates_by_comparison",
        ("gradient", "activation"),
        Gates,
        RINGS | {"lr": 1e-2},
        accuracy,
        "the comparison has no gradient",
    ),
    case(
        "maximum_over_channels",
        ("axis",),
        Clouds,
        {"data": domains.solids, "steps": 150},
        accuracy,
        "the maximum is over channels instead of points; both are 48",
    ),
    case(
        "level_is_normalized_away",
        ("normalization", "ignored input", "axis"),
        Sensor,
        {"data": domains.loudness},
        accuracy,
        "each window is divided by its own level, which is the class",
    ),
    case(
        "normalization_of_one_number",
        ("normalization", "ignored input", "gradient", "architecture"),
        Times,
        {"data": domains.oscillator, "loss": F.mse_loss, "steps": 300, "lr": 5e-3},
        r2,
        "layer normalization of a single feature is constant",
    ),
    case(
        "running_mean_never_moves",
        ("normalization",),
        convolutional,
        {"data": domains.gratings(), "steps": 100, "lr": 2e-3},
        negative(F.cross_entropy),
        "the momentum is 1e-4, so that evaluation uses the initial statistics",
        wrong="momentum",
        right="",
    ),
    case(
        "all_weights_zero",
        ("initialization", "gradient"),
        partial(initialized, nn.init.zeros_, lambda: net(8, 48, 48, 1)),
        PRICES,
        r2,
        "all weights are zero",
    ),
    case(
        "constant_weights",
        ("initialization",),
        partial(
            initialized, lambda weight: nn.init.constant_(weight, 0.05), lambda: net(24, 64, 20, activation=nn.Tanh)
        ),
        KINDS,
        accuracy,
        "all weights are equal, so that all hidden units stay equal",
    ),
    case(
        "standard_normal_weights",
        ("initialization", "activation"),
        partial(initialized, nn.init.normal_, lambda: net(24, 128, 128, 128, 20, activation=nn.Tanh)),
        KINDS | {"lr": 1e-3},
        accuracy,
        "weights with a standard deviation of 1 saturate tanh",
    ),
    case(
        "tiny_weights",
        ("initialization",),
        partial(initialized, lambda weight: nn.init.normal_(weight, std=1e-3), lambda: net(24, 64, 64, 64, 64, 64, 20)),
        KINDS | {"lr": 1e-3},
        accuracy,
        "weights with a standard deviation of 0.001 in six layers",
    ),
    case(
        "keep_probability_as_dropout",
        ("dropout",),
        lambda share: nn.Sequential(
            nn.Linear(24, 64),
            nn.ReLU(),
            nn.Dropout(share),
            nn.Linear(64, 64),
            nn.ReLU(),
            nn.Dropout(share),
            nn.Linear(64, 20),
        ),
        KINDS,
        accuracy,
        "the probability of keeping a unit is passed",
        wrong=0.95,
        right=0.05,
    ),
    case(
        "explodes_over_time",
        ("initialization", "not finite", "architecture", "learning rate"),
        Adding,
        {"data": domains.running_sum, "loss": F.mse_loss, "steps": 400, "lr": 1e-3},
        r2,
        "recurrent weights of twice the identity",
    ),
    case(
        "skip_is_not_added",
        ("architecture", "activation", "initialization"),
        Deep,
        RINGS,
        accuracy,
        "the input of a block is not added to its output",
    ),
    case(
        "no_activation",
        ("activation", "architecture"),
        lambda wrong: net(6, 48, 48, 3, activation=nn.Identity if wrong else nn.ReLU),
        RINGS,
        accuracy,
        "linear layers follow each other without an activation",
    ),
    case(
        "ids_as_numbers",
        ("input scale", "ignored input", "architecture"),
        Words,
        {"data": domains.opinion_ids, "steps": 300},
        accuracy,
        "ids of words are used as numbers",
    ),
    case(
        "first_input_twice",
        ("ignored input",),
        Twins,
        {"data": domains.same_or_not, "steps": 300},
        accuracy,
        "the second input is never used",
    ),
)
