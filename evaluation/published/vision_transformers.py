"""Transformers and mixers of images: ViT, DeiT, CaiT, Swin, MLP-Mixer, DiT, ConvMixer, a masked autoencoder."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from evaluation.published.attention import PreNormBlock, SelfAttention, perceptron
from evaluation.published.initialization import normal_, xavier_, zero_
from evaluation.published.losses import both_heads, cross_entropy, squares
from evaluation.published.members import Member
from evaluation.published.samples import denoising, photographs

CLASSES = 10


class VisionTransformer(nn.Module):
    """ViT: patches of 4×4, a class token, learned places; ``distilled`` has DeiT's second token and head."""

    def __init__(self, width=64, depth=6, heads=4, *, distilled=False, scale=0.0, places=64):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.tokens = nn.Parameter(torch.zeros(1, 2 if distilled else 1, width))
        self.places = nn.Parameter(torch.zeros(1, places + self.tokens.shape[1], width))
        blocks = [PreNormBlock(width, SelfAttention(width, heads), scale=scale) for _ in range(depth)]
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.heads = nn.ModuleList(nn.Linear(width, CLASSES) for _ in range(self.tokens.shape[1]))
        normal_(self, truncated=True)
        nn.init.trunc_normal_(self.tokens, std=0.02)
        nn.init.trunc_normal_(self.places, std=0.02)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.tokens.expand(len(x), -1, -1), x], dim=1) + self.places
        x = self.norm(self.blocks(x))
        outputs = tuple(head(x[:, index]) for index, head in enumerate(self.heads))
        return outputs if len(outputs) > 1 else outputs[0]


class WindowBlock(nn.Module):
    """Swin's block: attention in windows, moved by half a window in every second block, with a table of biases."""

    def __init__(self, width, heads, side, window, shift):
        super().__init__()
        self.side, self.window, self.shift = side, window, shift
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.mlp = SelfAttention(width, heads), perceptron(width, 4 * width)
        self.table = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        place = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        apart = place[:, :, None] - place[:, None] + window - 1
        self.register_buffer("index", apart[0] * (2 * window - 1) + apart[1])
        self.register_buffer("mask", self._mask())

    def _mask(self):
        """-100 between places that the move brought together from opposite ends."""
        stripe = torch.zeros(self.side)
        if self.shift:
            stripe[-self.window : -self.shift], stripe[-self.shift :] = 1, 2
        zones = (3 * stripe[:, None] + stripe).view(1, self.side, self.side, 1)
        zones = self._windows(zones)[..., 0]
        return torch.where(zones[:, :, None] == zones[:, None], 0.0, -100.0)[:, None]

    def _windows(self, x):
        n, parts = len(x), self.side // self.window
        x = x.view(n, parts, self.window, parts, self.window, -1).transpose(2, 3)
        return x.reshape(n * parts**2, self.window**2, -1)

    def _joined(self, windows, n):
        parts = self.side // self.window
        windows = windows.view(n, parts, parts, self.window, self.window, -1).transpose(2, 3)
        return windows.reshape(n, self.side, self.side, -1)

    def forward(self, x):
        n = len(x)
        y = torch.roll(self.norm1(x), (-self.shift, -self.shift), (1, 2)) if self.shift else self.norm1(x)
        bias = self.table[self.index].permute(2, 0, 1)[None] + self.mask.repeat(n, 1, 1, 1)
        y = self._joined(self.attention(self._windows(y), bias=bias), n)
        x = x + (torch.roll(y, (self.shift, self.shift), (1, 2)) if self.shift else y)
        return x + self.mlp(self.norm2(x))


class Merging(nn.Module):
    """Four neighbours joined and halved in channels."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.reduce = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x):
        parts = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
        return self.reduce(self.norm(torch.cat(parts, dim=-1)))


class Swin(nn.Module):
    """Two stages of two blocks."""

    def __init__(self, width=32, heads=2, window=4):
        super().__init__()
        self.patches, self.norm = nn.Conv2d(3, width, 4, 4), nn.LayerNorm(width)
        stages = []
        for side, channels in ((8, width), (4, 2 * width)):
            moves = (0, window // 2) if side > window else (0, 0)
            stages += [WindowBlock(channels, heads, side, window, shift) for shift in moves]
            stages += [Merging(channels)] if side == 8 else []
        self.stages = nn.Sequential(*stages)
        self.last, self.head = nn.LayerNorm(2 * width), nn.Linear(2 * width, CLASSES)
        normal_(self, truncated=True)
        for block in self.stages:
            if isinstance(block, WindowBlock):
                nn.init.trunc_normal_(block.table, std=0.02)

    def forward(self, x):
        x = self.norm(self.patches(x).permute(0, 2, 3, 1))
        return self.head(self.last(self.stages(x)).mean((1, 2)))


class MixerBlock(nn.Module):
    """Tokens mixed per channel, then channels per token."""

    def __init__(self, width, tokens):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens, self.channels = perceptron(tokens, width // 2), perceptron(width, 4 * width)

    def forward(self, x):
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


def mixer(width=64, depth=4):
    """MLP-Mixer: Glorot's law, biases of deviation 1e-6, head at 0 (the published code)."""
    model = nn.Sequential(
        nn.Conv2d(3, width, 4, 4), nn.Flatten(2), Transposed(), *[MixerBlock(width, 64) for _ in range(depth)],
        nn.LayerNorm(width), MeanOfTokens(), nn.Linear(width, CLASSES),
    )  # fmt: skip
    xavier_(model)
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.bias, std=1e-6)
    zero_(model[-1])
    return model


class Transposed(nn.Module):
    """Channels last."""

    def forward(self, x):
        return x.transpose(1, 2)


class MeanOfTokens(nn.Module):
    """Global pooling over tokens."""

    def forward(self, x):
        return x.mean(dim=1)


class Residual(nn.Module):
    """x + body(x)."""

    def __init__(self, *body):
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x):
        return x + self.body(x)


def conv_mixer(width=64, depth=4, size=5):
    """ConvMixer: depthwise convolutions with skips, then 1×1; torch's own start."""
    block = [
        layer for _ in range(depth) for layer in (
            Residual(nn.Conv2d(width, width, size, groups=width, padding="same"), nn.GELU(), nn.BatchNorm2d(width)),
            nn.Conv2d(width, width, 1), nn.GELU(), nn.BatchNorm2d(width),
        )
    ]  # fmt: skip
    stem = [nn.Conv2d(3, width, 4, 4), nn.GELU(), nn.BatchNorm2d(width)]
    return nn.Sequential(*stem, *block, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, CLASSES))


class AdaptiveBlock(nn.Module):
    """DiT's block: shift, scale and gate come from the condition, all 0 at the start (adaLN-zero)."""

    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(width, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.attention, self.mlp = SelfAttention(width, heads), perceptron(width, 4 * width)
        self.modulate = nn.Linear(width, 6 * width)

    def forward(self, x, condition):
        parts = self.modulate(F.silu(condition))[:, None].chunk(6, dim=-1)
        x = x + parts[2] * self.attention(self.norm1(x) * (1 + parts[1]) + parts[0])
        return x + parts[5] * self.mlp(self.norm2(x) * (1 + parts[4]) + parts[3])


class DiffusionTransformer(nn.Module):
    """DiT in miniature: Glorot's law, embedding of the step of .02, modulations and last layer 0."""

    def __init__(self, width=64, depth=4, heads=4, patch=2, side=16):
        super().__init__()
        self.width, self.patch = width, patch
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.blocks = nn.ModuleList(AdaptiveBlock(width, heads) for _ in range(depth))
        self.norm, self.modulate = nn.LayerNorm(width, elementwise_affine=False), nn.Linear(width, 2 * width)
        self.last = nn.Linear(width, 3 * patch**2)
        self.register_buffer("places", _waves(torch.arange((side // patch) ** 2), width)[None])
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)
        nn.init.xavier_uniform_(self.patches.weight.flatten(1))
        nn.init.zeros_(self.patches.bias)
        for layer in (self.time[0], self.time[2]):
            nn.init.normal_(layer.weight, std=0.02)
        for layer in (*[block.modulate for block in self.blocks], self.modulate, self.last):
            zero_(layer)

    def forward(self, x, step):
        condition = self.time(_waves(step, self.width))
        side = x.shape[-1] // self.patch
        x = self.patches(x).flatten(2).transpose(1, 2) + self.places
        for block in self.blocks:
            x = block(x, condition)
        shift, scale = self.modulate(F.silu(condition))[:, None].chunk(2, dim=-1)
        x = self.last(self.norm(x) * (1 + scale) + shift)
        return F.pixel_shuffle(x.transpose(1, 2).unflatten(2, (side, side)), self.patch)


def _waves(values, width):
    """Sines and cosines of ``values`` at rates from 1 to 1/10000, ``[len(values), width]``."""
    rates = torch.exp(-math.log(10000) * torch.arange(width // 2, device=values.device) / (width // 2))
    angles = values[:, None].float() * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


MEMBERS = (
    Member("ViT", "Dosovitskiy et al. 2021; timm", VisionTransformer, photographs, cross_entropy),
    Member("DeiT", "Touvron et al. 2021", lambda: VisionTransformer(distilled=True), photographs, both_heads),
    Member("CaiT", "Touvron et al. 2021b, layer scale 1e-5", lambda: VisionTransformer(depth=8, scale=1e-5),
           photographs, cross_entropy),
    Member("Swin", "Liu et al. 2021", Swin, photographs, cross_entropy),
    Member("MLP-Mixer", "Tolstikhin et al. 2021", mixer, photographs, cross_entropy),
    Member("ConvMixer", "Trockman, Kolter 2022", conv_mixer, photographs, cross_entropy),
    Member("DiT", "Peebles, Xie 2023, adaLN-zero", DiffusionTransformer, denoising, squares),
)  # fmt: skip
