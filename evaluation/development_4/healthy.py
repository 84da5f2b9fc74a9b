"""Models without a bug, as practitioners write them: small ones of every kind, with their usual losses."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evaluation.development_4.bugs_of_models import Encoder, Function, attention, cnn, mlp, next_token, program
from evaluation.development_4.data import (
    house_prices,
    marked_last,
    noisy_line,
    padded_text,
    rare_class,
    ratings,
    rings,
    shapes,
    two_views,
)
from evaluation.programs import Data, Healthy
from evaluation.samples import blobs, changed, class_table, digits, grammar, smooth_table, tones

BCE = F.binary_cross_entropy_with_logits


def unet() -> nn.Module:
    def forward(self: Any, images: Tensor) -> Tensor:
        high = self.down(images)
        low = self.bottom(F.max_pool2d(high, 2))
        return self.out(self.up(torch.cat([high, F.interpolate(low, scale_factor=2)], 1)))

    def block(before: int, after: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(before, after, 3, 1, 1), nn.BatchNorm2d(after), nn.ReLU())

    return Function(forward, down=block(1, 16), bottom=block(16, 32), up=block(48, 16), out=nn.Conv2d(16, 1, 1))


def variational() -> nn.Module:
    def forward(self: Any, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encoder(images).chunk(2, 1)
        code = mean + torch.randn_like(mean) * (log_variance / 2).exp()
        return self.decoder(code), mean, log_variance

    return Function(forward, encoder=mlp(64, 64, 16), decoder=mlp(8, 64, 64, end=(nn.Sigmoid(),)))


def evidence_bound(output: tuple[Tensor, Tensor, Tensor], images: Tensor) -> Tensor:
    made, mean, log_variance = output
    divergence = (mean.square() + log_variance.exp() - 1 - log_variance).sum(1) / 2
    return F.binary_cross_entropy(made, images, reduction="none").sum(1).mean() + divergence.mean()


def own_images(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    images, _ = digits(flat=True)(count, generator)
    return images, images


def contrast(views: tuple[Tensor, Tensor], _: Tensor) -> Tensor:
    first, second = (F.normalize(view) for view in views)
    return F.cross_entropy(first @ second.T / 0.1, torch.arange(len(first)))


def two_towers() -> nn.Module:
    return Function(lambda self, a, b: (self.body(a), self.body(b)), body=mlp(24, 64, 16))


class LowRank(nn.Module):
    """A frozen linear layer and a trained update of rank 4 that starts at zero."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down, self.up = nn.Linear(layer.in_features, 4, bias=False), nn.Linear(4, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, values: Tensor) -> Tensor:
        return self.layer(values) + self.up(self.down(values))


def adapted() -> nn.Module:
    return nn.Sequential(
        LowRank(nn.Linear(64, 64)), nn.ReLU(), LowRank(nn.Linear(64, 64)), nn.ReLU(), nn.Linear(64, 10)
    )


def frozen_backbone() -> nn.Module:
    body = cnn(inputs=3)[:-1].requires_grad_(False)
    return nn.Sequential(body, nn.Linear(512, 10))


def self_normalizing() -> nn.Module:
    model = nn.Sequential(*[layer for size in (16, 64, 64, 64, 64, 64) for layer in (
        nn.Linear(size, 64), nn.SELU(), nn.AlphaDropout(0.05))], nn.Linear(64, 4))  # fmt: skip
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="linear")
            nn.init.zeros_(layer.bias)
    return model


def discriminator() -> nn.Module:
    def spectral(before: int, after: int) -> nn.Module:
        return nn.utils.parametrizations.spectral_norm(nn.Conv2d(before, after, 4, 2, 1))

    return nn.Sequential(spectral(3, 16), nn.LeakyReLU(0.2), spectral(16, 32), nn.LeakyReLU(0.2), nn.Flatten(),
                         nn.Linear(512, 1))  # fmt: skip


def real_and_made(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    images, _ = blobs()(count, generator)
    real = torch.rand(count, 1, generator=generator) < 0.5
    noise = torch.randn(images.shape, generator=generator)
    return torch.where(real[..., None, None], images, noise), real.float()


def weight_norm() -> nn.Module:
    normed = nn.utils.parametrizations.weight_norm
    return nn.Sequential(normed(nn.Linear(16, 64)), nn.Tanh(), normed(nn.Linear(64, 64)), nn.Tanh(), nn.Linear(64, 4))


class Residual(nn.Module):
    """Eight residual convolutions whose branches start at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, 16, 3, 2, 1), nn.Linear(16, 10)
        self.blocks = nn.ModuleList(nn.Sequential(
            nn.Conv2d(16, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)) for _ in range(4))  # fmt: skip
        for block in self.blocks:
            nn.init.zeros_(block[-1].weight)

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.stem(images)
        for block in self.blocks:
            hidden = F.relu(hidden + block(hidden))
        return self.head(hidden.mean((2, 3)))


def tagger() -> nn.Module:
    return Function(lambda self, ids: self.head(self.cell(self.tokens(ids))[0]), tokens=nn.Embedding(32, 16),
                    cell=nn.LSTM(16, 16, batch_first=True, bidirectional=True), head=nn.Linear(32, 4))  # fmt: skip


def tags(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    tokens, _ = grammar()(count, generator)
    return tokens, (tokens + tokens.roll(1, 1)) % 4


def factors() -> nn.Module:
    def forward(self: Any, users: Tensor, items: Tensor) -> Tensor:
        return (self.users(users) * self.items(items)).sum(1)

    return Function(forward, users=nn.Embedding(20, 8), items=nn.Embedding(30, 8))


def set_network() -> nn.Module:
    return Function(lambda self, x: self.after(self.each(x).sum(1)), each=mlp(4, 32, 32), after=mlp(32, 32, 1))


def sets(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    values = torch.randn(count, 8, 4, generator=generator)
    return values, values.max(1).values.mean(1, keepdim=True)


def gaussian(output: Tensor, targets: Tensor) -> Tensor:
    mean, log_variance = output.chunk(2, 1)
    return F.gaussian_nll_loss(mean, targets, log_variance.exp())


def quantile(output: Tensor, targets: Tensor) -> Tensor:
    levels = torch.tensor([0.1, 0.5, 0.9])
    gap = targets - output
    return torch.maximum(levels * gap, (levels - 1) * gap).mean()


def counts(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    values, score = smooth_table(16)(count, generator)
    return values, torch.poisson((1 + score).exp(), generator=generator)


def several_labels(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    values, score = smooth_table(16, 6)(count, generator)
    return values, (score > 0.2).float()


def mixture() -> nn.Module:
    def forward(self: Any, values: Tensor) -> Tensor:
        gates = self.gate(values).softmax(1)
        return torch.einsum("ne,nek->nk", gates, torch.stack([expert(values) for expert in self.experts], 1))

    return Function(forward, gate=nn.Linear(16, 4), experts=nn.ModuleList(mlp(16, 32, 4) for _ in range(4)))


def separable() -> nn.Module:
    def block(before: int, after: int) -> list[nn.Module]:
        return [nn.Conv2d(before, before, 3, 1, 1, groups=before, bias=False), nn.Conv2d(before, after, 1, bias=False),
                nn.BatchNorm2d(after), nn.ReLU6()]  # fmt: skip

    return nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU6(), *block(16, 32), *block(32, 32),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(32, 10))  # fmt: skip


def dilated() -> nn.Module:
    layers = [
        layer for k in range(4) for layer in (nn.Conv1d(16 if k else 1, 16, 3, padding=2**k, dilation=2**k), nn.ReLU())
    ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(16, 4))


def forecaster() -> nn.Module:
    def forward(self: Any, series: Tensor) -> Tensor:
        return self.head(self.cell(series.transpose(1, 2))[1][-1])

    return Function(forward, cell=nn.GRU(1, 32, 2, batch_first=True, dropout=0.1), head=nn.Linear(32, 4))


def next_values(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    waves, _ = tones(36)(count, generator)
    return waves[..., :32], waves[:, 0, 32:]


def sgd(parameters: Any, lr: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=lr, momentum=0.9, weight_decay=5e-4, nesterov=True)


def scaled(data: Data) -> Data:
    return changed(data, inputs=lambda x: (x - x.mean(0)) / x.std(0))


HEALTHY = tuple(
    Healthy(name, program(build, data, *loss, **options))
    for name, build, data, loss, options in (
        ("perceptron", lambda: mlp(16, 64, 64, 4), class_table(16, 4), (), {}),
        ("perceptron_on_rings", lambda: mlp(2, 16, 16, 2), rings, (), {"lr": 1e-2}),
        ("tanh_regression", lambda: mlp(16, 32, 32, 1, act=nn.Tanh), smooth_table(16), (F.mse_loss,), {}),
        ("prices", lambda: mlp(5, 64, 64, 1), scaled(house_prices), (F.smooth_l1_loss,), {}),
        ("noisy_regression", lambda: mlp(8, 32, 1), noisy_line, (F.mse_loss,), {"lr": 3e-3}),
        ("rare_class", lambda: mlp(12, 32, 2), rare_class, (), {"lr": 3e-3}),
        ("several_labels", lambda: mlp(16, 64, 6), several_labels, (BCE,), {}),
        ("convolutions_sgd", cnn, blobs(), (), {"optimizer": sgd, "lr": 0.05}),
        (
            "convolutions_plain",
            lambda: nn.Sequential(
                nn.Conv2d(1, 8, 3),
                nn.ReLU(),
                nn.Conv2d(8, 16, 3),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Flatten(),
                nn.Linear(64, 10),
            ),
            digits(),
            (),
            {},
        ),
        ("residual_zero_gamma", Residual, blobs(), (), {"lr": 3e-3}),
        ("separable", separable, blobs(), (), {"lr": 3e-3}),
        ("unet", unet, shapes, (BCE,), {"samples": 128, "steps": 60}),
        ("autoencoder", lambda: mlp(64, 32, 8, 32, 64, end=(nn.Sigmoid(),)), own_images, (F.mse_loss,), {"lr": 3e-3}),
        ("variational_autoencoder", variational, own_images, (evidence_bound,), {}),
        ("contrastive", two_towers, two_views, (contrast,), {}),
        ("low_rank_adapters", adapted, digits(flat=True), (), {"lr": 3e-3}),
        ("frozen_backbone", frozen_backbone, blobs(), (), {}),
        ("self_normalizing", self_normalizing, class_table(16, 4), (), {}),
        ("weight_norm", weight_norm, class_table(16, 4), (), {"lr": 3e-3}),
        ("discriminator", discriminator, real_and_made, (BCE,), {"lr": 2e-4}),
        ("encoder", Encoder, padded_text, (), {}),
        ("attention_language", lambda: attention(""), grammar(), (next_token,), {"lr": 3e-3}),
        ("tagger", tagger, tags, (next_token,), {"lr": 1e-2}),
        (
            "lstm_classifier",
            lambda: Function(
                lambda self, x: self.head(self.cell(x)[1][0][-1]),
                cell=nn.LSTM(4, 32, batch_first=True),
                head=nn.Linear(32, 3),
            ),
            marked_last(),
            (),
            {"lr": 1e-2},
        ),
        ("forecaster", forecaster, next_values, (F.mse_loss,), {"lr": 3e-3}),
        ("dilated", dilated, tones(), (), {"lr": 3e-3}),
        ("factors", factors, ratings, (F.mse_loss,), {"lr": 1e-2}),
        ("set_network", set_network, sets, (F.mse_loss,), {"lr": 3e-3}),
        ("gaussian_head", lambda: mlp(16, 32, 2), smooth_table(16, noise=0.3), (gaussian,), {}),
        ("quantiles", lambda: mlp(16, 32, 3), smooth_table(16), (quantile,), {"lr": 3e-3}),
        ("poisson", lambda: mlp(16, 32, 1), counts, (F.poisson_nll_loss,), {"lr": 3e-3}),
        ("mixture", mixture, class_table(16, 4), (), {"lr": 3e-3}),
        ("log_softmax_nll", lambda: mlp(64, 64, 10, end=(nn.LogSoftmax(1),)), digits(flat=True), (F.nll_loss,), {}),
        (
            "sigmoid_bce",
            lambda: mlp(12, 32, 1, end=(nn.Sigmoid(),)),
            changed(rare_class, targets=lambda y: y.float()[:, None]),
            (F.binary_cross_entropy,),
            {"lr": 3e-3},
        ),
    )
)
