"""Healthy models of images, masks, boxes, clips and images to be copied."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evaluation.development_6 import domains
from evaluation.programs import Healthy, Program

BCE = F.binary_cross_entropy_with_logits
SGD = partial(torch.optim.SGD, momentum=0.9, nesterov=True, weight_decay=5e-4)


class Bottleneck(nn.Module):
    """A pre-activation block whose last normalization begins at zero (Goyal et al. 2017)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        inner = width // 4
        self.norms = nn.ModuleList([nn.BatchNorm2d(width), nn.BatchNorm2d(inner), nn.BatchNorm2d(width)])
        self.reduce = nn.Conv2d(width, inner, 1, bias=False)
        self.mix = nn.Conv2d(inner, width, 3, padding=1, bias=False)
        nn.init.zeros_(self.norms[2].weight)

    def forward(self, maps: Tensor) -> Tensor:
        inner = self.reduce(F.relu(self.norms[0](maps)))
        return maps + self.norms[2](self.mix(F.relu(self.norms[1](inner))))


def residual_net() -> nn.Module:
    blocks = [Bottleneck(32) for _ in range(3)]
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 3, stride=2, padding=1), *blocks, nn.BatchNorm2d(32), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 6)),
    )


class Separable(nn.Module):
    """Depthwise and pointwise convolutions with squeeze and excitation, as in EfficientNet."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.expand = nn.Conv2d(width, 3 * width, 1)
        self.depthwise = nn.Conv2d(3 * width, 3 * width, 3, padding=1, groups=3 * width, bias=False)
        self.norm = nn.BatchNorm2d(3 * width)
        self.squeeze = nn.Sequential(nn.Linear(3 * width, 6), nn.SiLU(), nn.Linear(6, 3 * width), nn.Sigmoid())
        self.project = nn.Conv2d(3 * width, width, 1)

    def forward(self, maps: Tensor) -> Tensor:
        inner = F.silu(self.norm(self.depthwise(F.silu(self.expand(maps)))))
        gate = self.squeeze(inner.mean((2, 3)))[:, :, None, None]
        return maps + self.project(inner * gate)


def efficient_net() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 24, 3, stride=2, padding=1), Separable(), Separable()),
        *(nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(24, 3)),
    )


class UNet(nn.Module):
    """An encoder and a decoder with skip connections; one score for each pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = self.block(3, 12), self.block(12, 24)
        self.bottom = self.block(24, 32)
        self.up_second, self.up_first = nn.ConvTranspose2d(32, 24, 2, 2), nn.ConvTranspose2d(24, 12, 2, 2)
        self.back_second, self.back_first = self.block(48, 24), self.block(24, 12)
        self.head = nn.Conv2d(12, 1, 1)

    @staticmethod
    def block(inputs: int, width: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(inputs, width, 3, padding=1), nn.GroupNorm(4, width), nn.GELU())

    def forward(self, images: Tensor) -> Tensor:
        first = self.first(images)
        second = self.second(F.max_pool2d(first, 2))
        bottom = self.bottom(F.max_pool2d(second, 2))
        second = self.back_second(torch.cat([self.up_second(bottom), second], 1))
        return self.head(self.back_first(torch.cat([self.up_first(second), first], 1)))


def cross_entropy_and_dice(scores: Tensor, masks: Tensor) -> Tensor:
    share = scores.sigmoid()
    common = (share * masks).sum((1, 2, 3))
    dice = 1 - (2 * common + 1) / (share.sum((1, 2, 3)) + masks.sum((1, 2, 3)) + 1)
    return BCE(scores, masks) + dice.mean()


class DeepLab(nn.Module):
    """Dilated convolutions at several rates and an auxiliary head used in training."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(inplace=True))
        self.rates = nn.ModuleList(nn.Conv2d(24, 12, 3, padding=rate, dilation=rate) for rate in (1, 2, 4))
        self.head = nn.Sequential(nn.BatchNorm2d(36), nn.ReLU(inplace=True), nn.Conv2d(36, 4, 1))
        self.auxiliary = nn.Conv2d(24, 4, 1)

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        maps = self.stem(images)
        wide = torch.cat([rate(maps) for rate in self.rates], 1)
        return {"out": self.head(wide), "aux": self.auxiliary(maps)}


def with_auxiliary(outputs: dict[str, Tensor], labels: Tensor) -> Tensor:
    weight = torch.tensor([0.3, 1.0, 1.0, 1.0])
    return F.cross_entropy(outputs["out"], labels, weight) + 0.4 * F.cross_entropy(outputs["aux"], labels, weight)


class Detector(nn.Module):
    """One box and its class from a grid of cells: softmax over cells, boxes as offsets from the cell."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.LeakyReLU(0.1)),
            *(nn.Conv2d(32, 48, 3, stride=2, padding=1), nn.BatchNorm2d(48), nn.LeakyReLU(0.1)),
            nn.Conv2d(48, 1 + 3 + 3, 3, padding=1),
        )

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        cells = self.body(images)
        share = cells[:, 0].flatten(1).softmax(1).view(-1, 1, 4, 4)
        axis = (torch.arange(4) + 0.5) / 4
        row, column = torch.meshgrid(axis, axis, indexing="ij")
        center = torch.stack([row, column]) + 0.25 * torch.tanh(cells[:, 1:3])
        box = torch.cat([center, 0.5 * torch.sigmoid(cells[:, 3:4])], 1)
        return {"box": (share * box).sum((2, 3)), "kind": (share * cells[:, 4:]).sum((2, 3))}


def detection(outputs: dict[str, Tensor], targets: dict[str, Tensor]) -> Tensor:
    box = F.smooth_l1_loss(outputs["box"], targets["box"], beta=0.05)
    return 10 * box + F.cross_entropy(outputs["kind"], targets["kind"])


class PatchTransformer(nn.Module):
    """A small ViT with a class token, LayerScale and stochastic depth."""

    def __init__(self, width: int = 48, depth: int = 3) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, width, 4, stride=4)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(0.02 * torch.randn(1, 17, width))
        self.attention = nn.ModuleList(nn.MultiheadAttention(width, 4, batch_first=True) for _ in range(depth))
        self.feed = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(depth)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth + 1))
        self.scales = nn.ParameterList(0.1 * torch.ones(width) for _ in range(2 * depth))
        self.head = nn.Linear(width, 6)

    def drop(self, branch: Tensor) -> Tensor:
        if not self.training:
            return branch
        used = (torch.rand(len(branch), 1, 1) < 0.95).to(branch.dtype)
        return branch * used / 0.95

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.patches(images).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(tokens), -1, -1), tokens], 1) + self.position
        for index, (attention, feed) in enumerate(zip(self.attention, self.feed)):
            normed = self.norms[2 * index](tokens)
            mixed = attention(normed, normed, normed, need_weights=False)[0]
            tokens = tokens + self.drop(self.scales[2 * index] * mixed)
            tokens = tokens + self.drop(self.scales[2 * index + 1] * feed(self.norms[2 * index + 1](tokens)))
        return self.head(self.norms[-1](tokens[:, 0]))


class GaborFeatures(nn.Module):
    """Fixed Gabor filters, as in scattering networks, and a trained classifier of their energies."""

    def __init__(self, filters: int = 16, side: int = 9) -> None:
        super().__init__()
        axis = torch.arange(side) - side // 2
        row, column = torch.meshgrid(axis, axis, indexing="ij")
        window = torch.exp(-(row**2 + column**2) / 8.0)
        bank = []
        for index in range(filters):
            angle = math.pi * index / filters
            along = 1.1 * (row * math.sin(angle) + column * math.cos(angle))
            bank += [window * torch.cos(along), window * torch.sin(along)]
        self.filters = nn.Conv2d(1, 2 * filters, side, bias=False)
        self.filters.weight = nn.Parameter(torch.stack(bank)[:, None] / 6, requires_grad=False)
        self.classify = nn.Sequential(nn.Linear(filters, 32), nn.ReLU(), nn.Linear(32, 6))

    def forward(self, images: Tensor) -> Tensor:
        energy = self.filters(images).square().mean((2, 3)).view(len(images), -1, 2).sum(2)
        return self.classify(torch.log1p(energy))


class Masked(nn.Module):
    """A masked autoencoder: patches that are hidden get a learned token; the whole image is the target."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.embed = nn.Linear(16, width)
        self.hidden = nn.Parameter(0.02 * torch.randn(width))
        self.position = nn.Parameter(0.1 * torch.randn(16, width))
        layer = nn.TransformerEncoderLayer(width, 4, 96, 0.0, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.restore = nn.Linear(width, 16)

    def forward(self, patches: Tensor, visible: Tensor) -> Tensor:
        tokens = torch.where(visible[..., None], self.embed(patches), self.hidden) + self.position
        return self.restore(self.encoder(tokens))


def masked_patches(count: int, generator: torch.Generator) -> tuple[dict[str, Tensor], Tensor]:
    images, _ = domains.gratings(noise=0.1)(count, generator)
    patches = F.unfold(images, 4, stride=4).transpose(1, 2)
    visible = torch.rand(count, 16, generator=generator) < 0.6
    return {"patches": patches, "visible": visible}, patches


class Variational(nn.Module):
    """A convolutional variational autoencoder whose divergence has a weight of one half."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(
            *(nn.Conv2d(1, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 4, 2, 1), nn.ReLU(), nn.Flatten()),
            nn.Linear(512, 32),
        )
        self.decode = nn.Sequential(
            *(nn.Linear(16, 512), nn.ReLU(), nn.Unflatten(1, (32, 4, 4)), nn.ConvTranspose2d(32, 16, 4, 2, 1)),
            *(nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1)),
        )

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encode(images).chunk(2, 1)
        code = mean
        if self.training:
            code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decode(code), mean, log_variance


def variational_loss(outputs: tuple[Tensor, Tensor, Tensor], images: Tensor) -> Tensor:
    restored, mean, log_variance = outputs
    divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean()
    return BCE(restored, images, reduction="sum") / len(images) + 0.5 * divergence


def grey_images(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    images, _ = domains.grey_shapes(count, generator)
    return images, images


class VectorQuantized(nn.Module):
    """A vector-quantized autoencoder: the gradient passes the nearest code unchanged (van den Oord et al. 2017)."""

    def __init__(self, codes: int = 32, width: int = 8) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Conv2d(1, 24, 4, 2, 1), nn.ReLU(), nn.Conv2d(24, width, 4, 2, 1))
        self.codes = nn.Embedding(codes, width)
        nn.init.uniform_(self.codes.weight, -0.3, 0.3)
        self.decode = nn.Sequential(
            nn.ConvTranspose2d(width, 24, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(24, 1, 4, 2, 1)
        )

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        maps = self.encode(images).permute(0, 2, 3, 1)
        distance = (maps[..., None, :] - self.codes.weight).square().sum(-1)
        nearest = self.codes(distance.argmin(-1))
        cost = F.mse_loss(nearest, maps.detach()) + 0.25 * F.mse_loss(maps, nearest.detach())
        passed = maps + (nearest - maps).detach()
        return self.decode(passed.permute(0, 3, 1, 2)), cost


def quantized_loss(outputs: tuple[Tensor, Tensor], images: Tensor) -> Tensor:
    return F.mse_loss(outputs[0], images) + outputs[1]


def discriminator() -> nn.Module:
    """Return a GAN's critic with spectral normalization (Miyato et al. 2018)."""
    norm = nn.utils.parametrizations.spectral_norm
    return nn.Sequential(
        *(norm(nn.Conv2d(1, 24, 4, 2, 1)), nn.LeakyReLU(0.2), norm(nn.Conv2d(24, 48, 4, 2, 1)), nn.LeakyReLU(0.2)),
        *(nn.Flatten(), norm(nn.Linear(768, 1))),
    )


def hinge(scores: Tensor, real: Tensor) -> Tensor:
    """Return the hinge loss of a critic."""
    return F.relu(1 - (2 * real - 1) * scores).mean()


class Recurrent(nn.Module):
    """A small network of each frame and a GRU over frames."""

    def __init__(self) -> None:
        super().__init__()
        self.frame = nn.Sequential(
            nn.Conv2d(1, 12, 3, 2, 1), nn.ReLU(), nn.Conv2d(12, 16, 3, 2, 1), nn.ReLU(), nn.Flatten()
        )
        self.memory = nn.GRU(144, 32, batch_first=True)
        self.head = nn.Linear(32, 4)

    def forward(self, clips: Tensor) -> Tensor:
        frames = self.frame(clips.flatten(0, 1)).view(*clips.shape[:2], -1)
        return self.head(self.memory(frames)[0][:, -1])


class Capsules(nn.Module):
    """Capsules with three rounds of routing; the length of a capsule is its score (Sabour et al. 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 5, 2, 2), nn.ReLU())
        self.primary = nn.Conv2d(32, 32, 5, 2, 2)
        self.votes = nn.Parameter(0.1 * torch.randn(64, 3, 8, 8))

    @staticmethod
    def squash(vectors: Tensor) -> Tensor:
        square = vectors.square().sum(-1, keepdim=True)
        return vectors * square / (1 + square) / (square + 1e-8).sqrt()

    def forward(self, images: Tensor) -> Tensor:
        maps = self.primary(self.stem(images)).view(len(images), 4, 8, 16)
        capsules = self.squash(maps.permute(0, 1, 3, 2).reshape(len(images), 64, 8))
        votes = torch.einsum("bpi,pcij->bpcj", capsules, self.votes)
        logits = torch.zeros(votes.shape[:3])
        for _ in range(3):
            found = self.squash((logits.softmax(2)[..., None] * votes).sum(1))
            logits = logits + (votes * found[:, None]).sum(-1)
        return (found.square().sum(-1) + 1e-8).sqrt()


def margins(lengths: Tensor, labels: Tensor) -> Tensor:
    right = F.one_hot(labels, 3)
    present, absent = F.relu(0.9 - lengths).square(), F.relu(lengths - 0.1).square()
    return (right * present + 0.5 * (1 - right) * absent).sum(1).mean()


class Mixer(nn.Module):
    """An MLP-Mixer of 4 by 4 patches."""

    def __init__(self, width: int = 32, depth: int = 2) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, width, 4, 4)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth + 1))
        self.across = nn.ModuleList(
            nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)) for _ in range(depth)
        )
        self.within = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width)) for _ in range(depth)
        )
        self.head = nn.Linear(width, 3)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.embed(images).flatten(2).transpose(1, 2)
        for index, (across, within) in enumerate(zip(self.across, self.within)):
            tokens = tokens + across(self.norms[2 * index](tokens).transpose(1, 2)).transpose(1, 2)
            tokens = tokens + within(self.norms[2 * index + 1](tokens))
        return self.head(self.norms[-1](tokens).mean(1))


class Rescaled(nn.Module):
    """A network that converts bytes to floats itself, as exported models do."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(40.0))
        self.register_buffer("std", torch.tensor(60.0))
        self.body = nn.Sequential(
            *(nn.Conv2d(1, 16, 3, 2, 1), nn.ELU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ELU(), nn.Flatten()),
            nn.Linear(512, 3),
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.body((images - self.mean) / self.std)


def byte_images(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return grey values 0 to 255 as floats, and the kind."""
    images, kind = domains.grey_shapes(count, generator)
    return (255 * images).round(), kind


def plain_autoencoder() -> nn.Module:
    """Return an autoencoder of flat images through 12 units, on purpose."""
    return nn.Sequential(
        *(nn.Linear(256, 128), nn.LeakyReLU(0.1), nn.Linear(128, 12), nn.Linear(12, 128), nn.LeakyReLU(0.1)),
        *(nn.Linear(128, 256), nn.Sigmoid()),
    )


def smoothed(scores: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(scores, labels, label_smoothing=0.1)


def _healthy(
    name: str, build: Any, data: Any, loss: Any = F.cross_entropy, source: str = "", **options: Any
) -> Healthy:
    return Healthy(name, Program(build, data, loss, **{"steps": 150, "lr": 2e-3} | options), source)


HEALTHY = (
    _healthy("zero_gamma_bottlenecks", residual_net, domains.gratings(), smoothed, "ResNet v2", optimizer=SGD, lr=0.05),
    _healthy("efficient_shapes", efficient_net, domains.shape_kinds, source="EfficientNet"),
    _healthy("unet_masks", UNet, domains.shape_masks, cross_entropy_and_dice, "U-Net", steps=100),
    _healthy("dilated_segments_auxiliary", DeepLab, domains.shape_parts, with_auxiliary, "DeepLab v3", steps=100),
    _healthy("grid_detector", Detector, domains.shape_boxes, detection, "YOLO"),
    _healthy("vit_layer_scale", PatchTransformer, domains.gratings(), smoothed, "DeiT, CaiT"),
    _healthy("gabor_features_frozen", GaborFeatures, domains.gratings(), source="scattering networks", lr=5e-3),
    _healthy("masked_patches", Masked, masked_patches, F.mse_loss, "MAE"),
    _healthy("image_vae", Variational, grey_images, variational_loss, "VAE"),
    _healthy("vector_quantized", VectorQuantized, grey_images, quantized_loss, "VQ-VAE"),
    _healthy(
        "spectral_critic",
        discriminator,
        domains.real_or_fake,
        hinge,
        "SN-GAN",
        lr=5e-4,
        optimizer=partial(torch.optim.Adam, betas=(0.5, 0.9)),
    ),
    _healthy("frames_then_gru", Recurrent, domains.clips),
    _healthy("capsule_routing", Capsules, domains.shape_kinds, margins, "CapsNet"),
    _healthy("mixer_shapes", Mixer, domains.shape_kinds, source="MLP-Mixer"),
    _healthy("bytes_rescaled_inside", Rescaled, byte_images),
    _healthy("narrow_autoencoder", plain_autoencoder, domains.grey_copies, F.mse_loss),
)
