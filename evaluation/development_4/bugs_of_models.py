"""Bugs inside of models: axes, gradients, initializations, layers that lose or ignore what they read."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evaluation.development_4.data import marked_last, padded_text, rings
from evaluation.programs import Case, Data, Program
from evaluation.samples import blobs, changed, class_table, digits, grammar, smooth_table, tones
from evaluation.scores import accuracy, r2


def mlp(*sizes: int, act: Callable[[], nn.Module] = nn.ReLU, end: tuple[nn.Module, ...] = ()) -> nn.Sequential:
    """Return linear layers of these sizes with activations between them."""
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), act()]
    return nn.Sequential(*layers[:-1], *end)


def cnn(*, inputs: int = 3, outputs: int = 10, end: tuple[nn.Module, ...] = ()) -> nn.Sequential:
    """Return two convolutions with norms and a linear head, for images of 16 × 16."""
    return nn.Sequential(
        nn.Conv2d(inputs, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.BatchNorm2d(32),
        nn.ReLU(), nn.Flatten(), nn.Linear(512, outputs), *end)  # fmt: skip


class Function(nn.Module):
    """A model whose forward is a function of its modules and inputs."""

    def __init__(self, forward: Callable[..., Any], **modules: nn.Module) -> None:
        super().__init__()
        for name, module in modules.items():
            setattr(self, name, module)
        self._forward = forward

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._forward(self, *args, **kwargs)


def program(build: Callable[[], nn.Module], data: Data, loss: Any = F.cross_entropy, **options: Any) -> Program:
    """Return a program of 200 steps."""
    return Program(build, data, loss, **options)


def case(
    name: str,
    causes: tuple[str, ...],
    build: Callable[[bool], nn.Module],
    data: Data,
    loss: Any = F.cross_entropy,
    score: Any = accuracy,
    note: str = "",
    hurts: bool = True,
    accepted: tuple[str, ...] = (),
    **options: Any,
) -> Case:
    """Return a case of a model that takes whether it is wrong."""
    faulty, fixed = (program(lambda wrong=wrong: build(wrong), data, loss, **options) for wrong in (True, False))
    return Case(name, causes, faulty, fixed, score, note=note, hurts=hurts, accepted=accepted)


def recurrent(wrong: bool, pick: Callable[[Tensor, bool], Tensor], first: bool = True) -> nn.Module:
    def forward(self: Any, values: Tensor) -> Tensor:
        return self.head(pick(self.cell(values)[0], wrong))

    return Function(forward, cell=nn.LSTM(4, 32, batch_first=first), head=nn.Linear(32, 3))


def viewed_channels(wrong: bool) -> nn.Module:
    def forward(self: Any, images: Tensor) -> Tensor:
        return self.body(images.reshape(-1, 3, 16, 16) if wrong else images.permute(0, 3, 1, 2))

    return Function(forward, body=cnn())


def only_first_channel(wrong: bool) -> nn.Module:
    def forward(self: Any, images: Tensor) -> Tensor:
        return self.body(images[:, :1].expand_as(images) if wrong else images)

    return Function(forward, body=cnn())


def channel_classes(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    images, labels = blobs(classes=4)(count, generator)
    images[:, 0] = torch.randn(images[:, 0].shape, generator=generator)
    return images, labels


def hard_choice(wrong: bool) -> nn.Module:
    def forward(self: Any, values: Tensor) -> Tensor:
        scores = self.choose(values)
        chosen = self.codes(scores.argmax(1)) if wrong else scores.softmax(1) @ self.codes.weight
        return self.head(chosen)

    return Function(forward, choose=mlp(16, 32, 16), codes=nn.Embedding(16, 16), head=nn.Linear(16, 4))


def split_autoencoder(wrong: bool) -> nn.Module:
    def forward(self: Any, values: Tensor) -> Tensor:
        code = self.encoder(values)
        return self.decoder(code.detach() if wrong else code)

    return Function(forward, encoder=mlp(64, 64, 4), decoder=mlp(4, 64, 64))


def images_as_targets(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    images, _ = digits(flat=True)(count, generator)
    return images, images


def filled(build: Callable[[], nn.Module], weight: Callable[[Tensor], Any], bias: float = 0.0) -> nn.Module:
    model = build()
    for module in model.modules():
        if isinstance(module, nn.Linear):
            weight(module.weight)
            nn.init.constant_(module.bias, bias)
    return model


class Encoder(nn.Module):
    """Tokens, positions, two encoder layers and the mean over the tokens."""

    def __init__(self, *, inverted: bool = False, position: float = 0.02) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(32, 32), nn.Parameter(position * torch.randn(16, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head, self.inverted = nn.Linear(32, 2), inverted

    def forward(self, tokens: Tensor, present: Tensor) -> Tensor:
        hidden = self.tokens(tokens) + self.positions
        hidden = self.layers(hidden, src_key_padding_mask=present if self.inverted else ~present)
        weights = present.float()[..., None]
        return self.head((hidden * weights).sum(1) / weights.sum(1))


def attention(wrong: str) -> nn.Module:
    def forward(self: Any, tokens: Tensor) -> Tensor:
        hidden = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        query, key, value = self.qkv(self.norm(hidden)).chunk(3, -1)
        scores = query @ key.transpose(1, 2) / 32**0.5
        if wrong != "mask":
            scores = scores.masked_fill(torch.ones(16, 16).triu(1) > 0, -1e9)
        hidden = hidden + self.out(scores.softmax(0 if wrong == "batch" else 1 if wrong == "queries" else -1) @ value)
        return self.head(hidden + self.ff(hidden))

    return Function(
        forward,
        tokens=nn.Embedding(32, 32),
        positions=nn.Embedding(16, 32),
        norm=nn.LayerNorm(32),
        qkv=nn.Linear(32, 96),
        out=nn.Linear(32, 32),
        ff=mlp(32, 64, 32),
        head=nn.Linear(32, 32),
    )


def next_token(logits: Tensor, tokens: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def token_accuracy(logits: Tensor, tokens: Tensor) -> float:
    return accuracy(logits.flatten(0, 1), tokens.flatten())


def multiplied_residual(wrong: bool) -> nn.Module:
    def forward(self: Any, values: Tensor) -> Tensor:
        hidden = self.first(values)
        for block in self.blocks:
            hidden = hidden * block(hidden) if wrong else hidden + block(hidden)
        return self.head(hidden)

    blocks = nn.ModuleList(nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32)) for _ in range(6))
    return Function(forward, first=nn.Linear(16, 32), blocks=blocks, head=nn.Linear(32, 4))


def pooled(wrong: bool) -> nn.Module:
    def forward(self: Any, waves: Tensor) -> Tensor:
        hidden = self.body(waves)
        return self.head(hidden.mean(0, keepdim=True).expand_as(hidden).mean(2) if wrong else hidden.mean(2))

    body = nn.Sequential(nn.Conv1d(1, 32, 9), nn.ReLU(), nn.Conv1d(32, 32, 9), nn.ReLU())
    return Function(forward, body=body, head=nn.Linear(32, 4))


def cosine_logits(wrong: bool) -> nn.Module:
    def forward(self: Any, values: Tensor) -> Tensor:
        cosines = F.linear(F.normalize(self.body(values)), F.normalize(self.weight))
        return cosines if wrong else 16 * cosines

    model = Function(forward, body=mlp(64, 64, 32))
    model.weight = nn.Parameter(torch.randn(10, 32))
    return model


def distances(wrong: bool) -> nn.Module:
    def forward(self: Any, values: Tensor) -> Tensor:
        hidden = self.body(values)
        gaps = (hidden[:, :, None] - hidden[:, None, :]).square()
        return self.head((gaps if wrong else gaps + 1e-6).sqrt().flatten(1))

    return Function(forward, body=mlp(16, 8), head=nn.Linear(64, 4))


def overwritten(wrong: bool) -> nn.Module:
    def forward(self: Any, values: Tensor) -> Tensor:
        gate = torch.sigmoid(self.gate(values))
        hidden = gate * self.body(values)
        if wrong:
            gate += 1
        return self.head(hidden)

    return Function(forward, gate=nn.Linear(16, 32), body=nn.Linear(16, 32), head=nn.Linear(32, 4))


def random_features(wrong: bool) -> nn.Module:
    def forward(self: Any, images: Tensor) -> Tensor:
        with torch.set_grad_enabled(not wrong):
            hidden = self.body(images)
        return self.head(hidden)

    body = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.Tanh())])
    return Function(forward, body=filled(lambda: body, lambda w: nn.init.normal_(w, std=0.6)), head=nn.Linear(64, 10))


NHWC = changed(blobs(), inputs=lambda images: images.permute(0, 2, 3, 1).contiguous())
TABLE = class_table(16, 4)

CASES = (
    case(
        "lstm_first_step",
        ("ignored input", "architecture"),
        lambda wrong: recurrent(wrong, lambda h, w: h[:, 0 if w else -1]),
        marked_last(),
        lr=1e-2,
        note="the head reads the first step of an LSTM instead of the last",
    ),
    case(
        "lstm_without_batch_first",
        ("samples", "axis"),
        lambda wrong: recurrent(wrong, lambda h, w: h[:, -1], first=not wrong),
        marked_last(),
        lr=1e-2,
        note="batch_first is forgotten: time runs over the samples",
    ),
    case(
        "channels_last_viewed",
        ("axis",),
        viewed_channels,
        NHWC,
        hurts=False,
        note="reshape instead of permute for images with channels last",
    ),
    case(
        "only_first_channel",
        ("ignored input",),
        only_first_channel,
        channel_classes,
        note="two of three channels are never read, and the class is in these",
    ),
    case(
        "stride_skips_pixels",
        ("ignored input", "architecture"),
        lambda wrong: nn.Sequential(
            nn.Conv2d(1, 16, 1, 4) if wrong else nn.Conv2d(1, 16, 4, 4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 10)
        ),
        digits(),
        lr=3e-3,
        note="a 1 × 1 convolution with stride 4 reads one pixel of 16",
    ),
    case("hard_choice", ("gradient",), hard_choice, TABLE, lr=3e-3, note="argmax cuts the gradient"),
    case(
        "detached_code",
        ("gradient", "frozen"),
        split_autoencoder,
        images_as_targets,
        F.mse_loss,
        r2,
        lr=3e-3,
        steps=400,
        note="the code of an autoencoder is detached",
    ),
    case(
        "zeros_everywhere",
        ("initialization", "gradient"),
        lambda wrong: filled(lambda: mlp(16, 32, 32, 4), nn.init.zeros_) if wrong else mlp(16, 32, 32, 4),
        TABLE,
        lr=3e-3,
        note="all weights are zero",
    ),
    case(
        "constant_half",
        ("initialization",),
        lambda wrong: (
            filled(lambda: mlp(16, 32, 32, 4), lambda w: nn.init.constant_(w, 0.5)) if wrong else mlp(16, 32, 32, 4)
        ),
        TABLE,
        lr=3e-3,
        note="all weights are 0.5",
    ),
    case(
        "negative_biases",
        ("initialization", "activation"),
        lambda wrong: filled(lambda: mlp(16, 64, 64, 4), lambda w: None, -3.0) if wrong else mlp(16, 64, 64, 4),
        TABLE,
        lr=3e-3,
        note="biases of -3 switch every ReLU off",
    ),
    case(
        "inverted_padding_mask",
        ("mask", "attention", "ignored input", "not finite"),
        lambda wrong: Encoder(inverted=wrong),
        padded_text,
        lr=3e-3,
        hurts=False,
        note="the padding mask is True where tokens are",
    ),
    case(
        "loud_positions",
        ("initialization", "architecture", "attention"),
        lambda wrong: Encoder(position=300.0 if wrong else 0.02),
        padded_text,
        lr=3e-3,
        note="positions of standard deviation 300 drown the tokens",
    ),
    case(
        "softmax_over_queries",
        ("attention", "axis", "leak"),
        lambda wrong: attention("queries" if wrong else ""),
        grammar(),
        next_token,
        token_accuracy,
        lr=3e-3,
        hurts=False,
        note="the softmax of an attention runs over the queries",
    ),
    case(
        "softmax_over_samples",
        ("attention", "axis", "samples"),
        lambda wrong: attention("batch" if wrong else ""),
        grammar(),
        next_token,
        token_accuracy,
        lr=3e-3,
        hurts=False,
        note="the softmax of an attention runs over the samples",
    ),
    case(
        "multiplied_residual",
        ("architecture", "initialization"),
        multiplied_residual,
        TABLE,
        lr=1e-3,
        note="x * f(x) instead of x + f(x)",
    ),
    case(
        "mean_over_samples",
        ("samples", "ignored input", "axis"),
        pooled,
        tones(),
        lr=3e-3,
        note="the features of all samples are averaged",
    ),
    case(
        "cosine_logits_without_scale",
        ("output activation", "loss"),
        cosine_logits,
        digits(flat=True),
        lr=3e-3,
        hurts=False,
        note="cosines from -1 to 1 are logits of cross-entropy without a scale",
    ),
    case(
        "root_of_zero",
        ("not finite", "gradient"),
        distances,
        TABLE,
        lr=3e-3,
        note="the gradient of a root at zero is infinite",
    ),
    case(
        "gradient_overwritten",
        ("gradient",),
        overwritten,
        TABLE,
        lr=3e-3,
        accepted=("IS205",),
        note="an in-place addition overwrites what the backward pass needs",
    ),
    case(
        "layer_norm_of_one_output",
        ("normalization", "ignored input", "output activation"),
        lambda wrong: mlp(16, 64, 1, end=(nn.LayerNorm(1),) if wrong else ()),
        smooth_table(16),
        F.mse_loss,
        r2,
        lr=3e-3,
        accepted=("IS203", "IS210"),
        note="a LayerNorm over one output makes it a constant",
    ),
    case(
        "batch_norm_over_time",
        ("normalization",),
        lambda wrong: Function(
            lambda self, x: self.head(
                F.relu(
                    self.norm(self.first(x)) if wrong else self.norm(self.first(x).transpose(1, 2)).transpose(1, 2)
                ).mean(1)
            ),
            first=nn.Linear(4, 32),
            norm=nn.BatchNorm1d(12 if wrong else 32),
            head=nn.Linear(32, 3),
        ),
        marked_last(),
        lr=1e-2,
        hurts=False,
        note="BatchNorm1d takes the steps for the channels",
    ),
    case(
        "no_activation",
        ("activation",),
        lambda wrong: mlp(2, 32, 32, 2, act=nn.Identity if wrong else nn.ReLU),
        rings,
        lr=1e-2,
        note="a network without activations on a circle",
    ),
    case(
        "frozen_random_trunk",
        ("gradient", "frozen"),
        random_features,
        digits(flat=True),
        lr=3e-3,
        note="no_grad around an untrained trunk",
    ),
    case(
        "dropout_everywhere",
        ("dropout",),
        lambda wrong: nn.Sequential(
            *[
                layer
                for size in (16, 64, 64, 64)
                for layer in (nn.Linear(size, 64), nn.ReLU(), nn.Dropout(0.9 if wrong else 0.1))
            ],
            nn.Linear(64, 4),
        ),
        TABLE,
        lr=3e-3,
        accepted=("IS401", "IS402", "IS406"),
        note="four dropouts of 0.9, meant as the probability of keeping a value",
    ),
    case(
        "activation_before_norm_of_zero",
        ("activation", "normalization", "gradient"),
        lambda wrong: nn.Sequential(
            nn.Linear(16, 64), nn.Threshold(20.0, 0.0) if wrong else nn.ReLU(), nn.Linear(64, 4)
        ),
        TABLE,
        lr=3e-3,
        accepted=("IS103", "IS307"),
        note="a threshold that nothing passes",
    ),
)
