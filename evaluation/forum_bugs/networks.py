"""Bugs inside the model: initialization, architecture, attention, axes, parameters that are not trained."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evaluation.programs import Case, Program
from evaluation.samples import blobs, digits, grammar
from evaluation.scores import accuracy

SGD = torch.optim.SGD
NOISY = blobs(noise=1.5)
FLAT = digits(flat=True)
IMAGES = blobs()


def token_loss(logits: Tensor, tokens: Tensor) -> Tensor:
    """Return the mean cross-entropy over all positions."""
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def perceptron(*hidden: int, inputs: int = 64, outputs: int = 10, act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Return linear layers with one activation between them."""
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [nn.Linear(inputs, width), act()]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))


def cnn(*, outputs: int = 10, extra: tuple[nn.Module, ...] = ()) -> nn.Sequential:
    """Return two convolutions and a linear head for images of 16×16."""
    return nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()),
        *(nn.MaxPool2d(2), nn.Flatten(), *extra, nn.Linear(512, outputs)),
    )


class FrozenBackbone(nn.Module):
    """A random backbone, frozen or not, with a head."""

    def __init__(self, frozen: bool) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            *(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, 2, 1), nn.ReLU()),
            *(nn.Conv2d(8, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 2), nn.ReLU(), nn.Flatten()),
        )
        self.head = nn.Linear(8, 10)
        self.backbone.requires_grad_(not frozen)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        return self.head(self.backbone(images))


class Detached(nn.Module):
    """Features that are detached before the head."""

    def __init__(self, detach: bool) -> None:
        super().__init__()
        self.features, self.head, self.detach = perceptron(32, 32, 16, outputs=4), nn.Linear(4, 10), detach

    def forward(self, values: Tensor) -> Tensor:
        """Return logits."""
        features = torch.tanh(self.features(values))
        return self.head(features.detach() if self.detach else features)


class ListOfLayers(nn.Module):
    """Hidden layers in a Python list, or in a ModuleList."""

    def __init__(self, registered: bool, width: int = 16) -> None:
        super().__init__()
        layers = [nn.Linear(64 if i == 0 else width, width) for i in range(6)]
        self.hidden = nn.ModuleList(layers) if registered else layers
        self.head = nn.Linear(width, 10)

    def forward(self, values: Tensor) -> Tensor:
        """Return logits."""
        for layer in self.hidden:
            values = F.relu(layer(values))
        return self.head(values)


class Blocks(nn.Module):
    """Forty small blocks, with or without their residual connections, with or without a growing branch."""

    def __init__(self, *, residual: bool = True, gain: float = 1.0, norm: bool = True, depth: int = 40) -> None:
        super().__init__()
        self.stem, self.head, self.residual, self.gain = nn.Linear(64, 32), nn.Linear(32, 10), residual, gain
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(32) if norm else nn.Identity(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32))
            for _ in range(depth)
        )

    def forward(self, values: Tensor) -> Tensor:
        """Return logits."""
        values = self.stem(values)
        for block in self.blocks:
            values = values + self.gain * block(values) if self.residual else block(values)
        return self.head(values)


class Repeated(nn.Module):
    """One layer applied many times, or a layer of its own each time."""

    def __init__(self, shared: bool, times: int = 12) -> None:
        super().__init__()
        layer = nn.Linear(32, 32)
        layers = [layer if shared else nn.Linear(32, 32) for _ in range(times)]
        self.hidden = nn.Sequential(*(part for item in layers for part in (item, nn.Tanh())))
        self.stem, self.head = nn.Linear(64, 32), nn.Linear(32, 10)
        if not shared:
            for item in layers:
                nn.init.xavier_uniform_(item.weight)

    def forward(self, values: Tensor) -> Tensor:
        """Return logits."""
        return self.head(self.hidden(self.stem(values)))


class TinyGPT(nn.Module):
    """A decoder of two blocks whose parts a bug may change."""

    def __init__(self, *, words: int = 32, width: int = 32, scale: float | None = None, causal: bool = True,
                 embedding: float = 0.02, tied: bool = False, positions: bool = True, shuffle_heads: bool = False,
                 query: float = 1.0) -> None:  # fmt: skip
        super().__init__()
        self.tokens, self.positions = nn.Embedding(words, width), nn.Embedding(32, width)
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(2))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(2)
        )
        self.head = nn.Linear(width, words, bias=False)
        nn.init.normal_(self.tokens.weight, std=embedding)
        nn.init.normal_(self.positions.weight, std=0.02)
        if tied:
            self.head.weight = self.tokens.weight
        self.scale = (width // 4) ** -0.5 if scale is None else scale
        self.causal, self.use_positions, self.shuffle_heads = causal, positions, shuffle_heads
        with torch.no_grad():
            for layer in self.qkv:
                layer.weight[: 2 * width] *= query

    def attend(self, index: int, values: Tensor) -> Tensor:
        """Return the output of one attention layer."""
        count, length, width = values.shape
        projected = self.qkv[index](values)
        if self.shuffle_heads:
            q, k, v = projected.reshape(3, count, 4, length, width // 4)
        else:
            q, k, v = projected.view(count, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT * self.scale
        if self.causal:
            scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -math.inf)
        mixed = scores.softmax(-1) @ v
        return self.out[index](mixed.transpose(1, 2).reshape(count, length, width))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits of the next tokens."""
        values = self.tokens(tokens)
        if self.use_positions:
            values = values + self.positions(torch.arange(tokens.shape[1]))
        for index in range(2):
            values = values + self.attend(index, self.norms[2 * index](values))
            values = values + self.mlps[index](self.norms[2 * index + 1](values))
        return self.head(values)


def recall(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return sequences whose second half repeats the first; the targets are the next tokens."""
    first = torch.randint(32, (count, 8), generator=generator)
    text = torch.cat([first, first, first[:, :1]], 1)
    return text[:, :-1], text[:, 1:]


def repeated_part(logits: Tensor, tokens: Tensor) -> float:
    """Return the accuracy where the sequence repeats."""
    return accuracy(logits[:, 7:], tokens[:, 7:])


def last_position(logits: Tensor, tokens: Tensor) -> float:
    """Return the accuracy at the last position, whose target is not among the inputs that follow."""
    return accuracy(logits[:, -1], tokens[:, -1])


def constant_filters() -> nn.Module:
    """Return the network with all convolution weights equal to 0.05."""
    model = cnn()
    for layer in model:
        if isinstance(layer, nn.Conv2d):
            nn.init.constant_(layer.weight, 0.05)
            nn.init.zeros_(layer.bias)
    return model


def biased_tanh(bias: float) -> nn.Module:
    """Return tanh layers whose biases start at ``bias``."""
    model = perceptron(64, 64, act=nn.Tanh)
    for layer in model[:-1]:
        if isinstance(layer, nn.Linear):
            nn.init.constant_(layer.bias, bias)
    return model


class MixedSamples(nn.Module):
    """A view that mixes samples when the batch axis is not where it is expected."""

    def __init__(self, mixed: bool) -> None:
        super().__init__()
        self.embed, self.rnn, self.head = nn.Embedding(32, 16), nn.GRU(16, 32), nn.Linear(32, 2)
        self.mixed = mixed

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits of two classes."""
        values = self.embed(tokens)
        count, length, width = values.shape
        values = values.reshape(length, count, width) if self.mixed else values.transpose(0, 1)
        return self.head(self.rnn(values)[0][-1])


def scaled_weights(gain: float) -> nn.Module:
    """Return eight ReLU layers with weights N(0, gain²)."""
    model = perceptron(*(64,) * 8)
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=gain)
            nn.init.zeros_(layer.bias)
    return model


CASES = (
    Case("frozen_random_backbone", ("frozen",),
         Program(lambda: FrozenBackbone(True), IMAGES, lr=3e-3, steps=300),
         Program(lambda: FrozenBackbone(False), IMAGES, lr=3e-3, steps=300), accuracy,
         note="requires_grad is False for a backbone that was never trained"),
    Case("constant_convolution_weights", ("initialization",),
         Program(constant_filters, NOISY, steps=100), Program(cnn, NOISY, steps=100), accuracy,
         note="all filters are equal"),
    Case("dropout_99", ("dropout",),
         Program(lambda: cnn(extra=(nn.Dropout(0.99),)), IMAGES, steps=100),
         Program(lambda: cnn(extra=(nn.Dropout(0.1),)), IMAGES, steps=100), accuracy,
         note="Dropout(0.99), meant as the probability of keeping a value"),
    Case("missing_residuals", ("architecture",),
         Program(lambda: Blocks(residual=False), FLAT), Program(Blocks, FLAT), accuracy,
         note="forty blocks without their residual connections"),
    Case("ten_sigmoids", ("activation",),
         Program(lambda: perceptron(*(32,) * 10, act=nn.Sigmoid), FLAT),
         Program(lambda: perceptron(*(32,) * 3), FLAT), accuracy, note="ten sigmoid layers"),
    Case("bias_of_ten_before_tanh", ("initialization", "activation"),
         Program(lambda: biased_tanh(10.0), FLAT), Program(lambda: biased_tanh(0.0), FLAT), accuracy,
         note="biases of 10 saturate every tanh"),
    Case("layers_in_a_list", ("unregistered",),
         Program(lambda: ListOfLayers(False), FLAT), Program(lambda: ListOfLayers(True), FLAT), accuracy,
         note="layers in a Python list are not trained"),
    Case("tied_unit_embeddings", ("initialization",),
         Program(lambda: TinyGPT(embedding=3.0, tied=True), grammar(), token_loss, steps=150),
         Program(lambda: TinyGPT(embedding=0.02, tied=True), grammar(), token_loss, steps=150), accuracy,
         note="tied embeddings of standard deviation 3 make logits of standard deviation 50"),
    Case("detached_features", ("gradient", "frozen"),
         Program(lambda: Detached(True), FLAT, lr=3e-3, steps=300),
         Program(lambda: Detached(False), FLAT, lr=3e-3, steps=300), accuracy,
         note="features are detached before the head"),
    Case("one_layer_repeated", ("shared layer", "architecture"),
         Program(lambda: Repeated(True), FLAT, lr=1e-3), Program(lambda: Repeated(False), FLAT, lr=1e-3), accuracy,
         note="[layer] * 12 repeats one layer"),
    Case("unscaled_attention", ("attention",),
         Program(lambda: TinyGPT(scale=1.0, query=8.0), recall, token_loss, lr=1e-3, steps=500),
         Program(TinyGPT, recall, token_loss, lr=1e-3, steps=500), repeated_part,
         note="scores are not divided by the root of the head width, and the projections are large"),
    Case("heads_mixed_by_reshape", ("axis", "samples"),
         Program(lambda: TinyGPT(shuffle_heads=True), recall, token_loss, lr=3e-3, steps=600),
         Program(TinyGPT, recall, token_loss, lr=3e-3, steps=600), repeated_part,
         note="reshape(3, count, heads, length, width) mixes samples and positions"),
    Case("no_causal_mask", ("leak", "mask"),
         Program(lambda: TinyGPT(causal=False), recall, token_loss, lr=3e-3, steps=300),
         Program(TinyGPT, recall, token_loss, lr=3e-3, steps=300), last_position, hurts=False,
         note="a language model without its causal mask reads the next token; no score on full sequences shows it"),
    Case("mixed_samples", ("samples", "axis"),
         Program(lambda: MixedSamples(True), grammar(target="class"), lr=3e-3, steps=300),
         Program(lambda: MixedSamples(False), grammar(target="class"), lr=3e-3, steps=300), accuracy,
         note="reshape instead of transpose gives every sample the tokens of others"),
    Case("exploding_blocks", ("initialization", "architecture"),
         Program(lambda: Blocks(norm=False, gain=4.0, depth=20), FLAT, optimizer=SGD, lr=0.1),
         Program(lambda: Blocks(norm=False, gain=0.3, depth=20), FLAT, optimizer=SGD, lr=0.1), accuracy,
         note="residual blocks without a norm, each multiplies the signal"),
    Case("tiny_weights_everywhere", ("initialization",),
         Program(lambda: scaled_weights(0.01), FLAT), Program(lambda: scaled_weights((2 / 64) ** 0.5), FLAT), accuracy,
         note="N(0, 0.01²) in eight layers"),
    Case("unit_normal_weights", ("initialization",),
         Program(lambda: scaled_weights(1.0), FLAT), Program(lambda: scaled_weights((2 / 64) ** 0.5), FLAT), accuracy,
         note="torch.randn weights in eight layers"),
)  # fmt: skip
