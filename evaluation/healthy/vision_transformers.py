"""Vision transformers in the style of timm and vit-pytorch."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evaluation.healthy.convolutional import InvertedResidual, conv_bn
from evaluation.healthy.token_perceptrons import Mixer, Mlp, ResMlp
from evaluation.programs import Healthy, Program
from evaluation.samples import blobs

IMAGES = blobs(side=32)


def truncated(model: nn.Module) -> nn.Module:
    """Initialize linear layers from N(0, 0.02²), as timm does."""
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            nn.init.trunc_normal_(layer.weight, std=0.02)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return model


class Attention(nn.Module):
    """Multi-head attention with a fused projection; `bias` is added to the scores."""

    def __init__(self, dim: int, heads: int = 4, qkv_bias: bool = True) -> None:
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.qkv, self.proj = nn.Linear(dim, 3 * dim, bias=qkv_bias), nn.Linear(dim, dim)

    def forward(self, x: Tensor, bias: Tensor | float = 0.0) -> Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        attn = (q @ k.transpose(-2, -1) * self.scale + bias).softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(b, n, c))


class Block(nn.Module):
    """Pre-norm attention and perceptron."""

    def __init__(self, dim: int, attn: nn.Module | None = None) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=1e-6), nn.LayerNorm(dim, eps=1e-6)
        self.attn, self.mlp = attn or Attention(dim), Mlp(dim, 4 * dim)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    """Patches, a class token, learned positions (Dosovitskiy et al. 2021)."""

    def __init__(self, dim: int = 48, depth: int = 3, attn=None, registers: int = 0) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 8, 8)
        self.tokens = nn.Parameter(1e-6 * torch.randn(1, 1 + registers, dim))
        self.pos = nn.Parameter(0.02 * torch.randn(1, 16, dim))
        self.blocks = nn.Sequential(*(Block(dim, attn(dim) if attn else None) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(dim, eps=1e-6), nn.Linear(dim, 10)
        truncated(self)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2) + self.pos
        x = torch.cat([self.tokens.expand(len(x), -1, -1), x], 1)
        return self.head(self.norm(self.blocks(x))[:, 0])


class LocalitySelfAttention(nn.Module):
    """A learned temperature and a masked diagonal (LSA, Lee et al. 2021)."""

    def __init__(self, dim: int, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.temperature = heads, nn.Parameter(torch.log(torch.tensor((dim // heads) ** -0.5)))
        self.to_qkv, self.to_out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        q, k, v = (t.reshape(b, n, self.heads, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))
        dots = q @ k.transpose(-1, -2) * self.temperature.exp()
        dots = dots.masked_fill(torch.eye(n, dtype=torch.bool, device=x.device), -torch.finfo(dots.dtype).max)
        return self.to_out((dots.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


class QueryNorm(nn.Module):
    """Attention with normalized queries and keys (Henry et al. 2020)."""

    def __init__(self, dim: int, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.qn, self.kn = nn.LayerNorm(dim // heads), nn.LayerNorm(dim // heads)

    def forward(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(self.qn(q), self.kn(k), v)
        return self.proj(y.transpose(1, 2).reshape(b, n, d))


class TokenNet(nn.Module):
    """Patches, blocks of tokens, a mean and a head."""

    def __init__(self, *blocks: nn.Module, dim: int = 48, patch: int = 8) -> None:
        super().__init__()
        self.patch, self.blocks = nn.Conv2d(3, dim, patch, patch), nn.Sequential(*blocks)
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(self.patch(x).flatten(2).mT)).mean(1))


class Windows(nn.Module):
    """Attention in windows of 4×4 with a table of relative positions, shifted or not (Swin, Liu et al. 2021)."""

    def __init__(self, dim: int, shift: int, side: int = 8, window: int = 4) -> None:
        super().__init__()
        self.norm1, self.norm2, self.attn, self.mlp = (
            nn.LayerNorm(dim),
            nn.LayerNorm(dim),
            Attention(dim),
            Mlp(dim, 4 * dim),
        )
        self.table = nn.Parameter(torch.zeros((2 * window - 1) ** 2, 4))
        nn.init.trunc_normal_(self.table, std=0.02)
        where = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        relative = (where[:, :, None] - where[:, None] + window - 1).permute(1, 2, 0)
        self.register_buffer("index", relative[..., 0] * (2 * window - 1) + relative[..., 1])
        self.shift, self.side, self.window = shift, side, window
        self.register_buffer("mask", self.shift_mask())

    def shift_mask(self) -> Tensor:
        """Return 0 where two positions of a window are neighbours, -100 elsewhere."""
        region = torch.zeros(self.side, self.side)
        if self.shift:
            cuts = (slice(0, -self.window), slice(-self.window, -self.shift), slice(-self.shift, None))
            for number, (rows, columns) in enumerate((r, c) for r in cuts for c in cuts):
                region[rows, columns] = number
        parts = self.split(region[None, ..., None])[..., 0]
        return -100.0 * (parts[:, :, None] != parts[:, None]).float()

    def split(self, x: Tensor) -> Tensor:
        """Return windows ``[count * windows, 16, width]``."""
        b, h, w, c = x.shape
        size = self.window
        return x.view(b, h // size, size, w // size, size, c).transpose(2, 3).reshape(-1, size * size, c)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        y = self.norm1(x).view(b, self.side, self.side, c)
        y = self.split(y.roll((-self.shift, -self.shift), (1, 2)))
        bias = self.table[self.index].permute(2, 0, 1) + self.mask.repeat(b, 1, 1)[:, None]
        y = self.attn(y, bias)
        side, size = self.side // self.window, self.window
        y = y.view(b, side, side, size, size, c).transpose(2, 3).reshape(b, self.side, self.side, c)
        x = x + y.roll((self.shift, self.shift), (1, 2)).view(b, n, c)
        return x + self.mlp(self.norm2(x))


def swin() -> nn.Module:
    return truncated(TokenNet(Windows(48, 0), Windows(48, 2), Windows(48, 0), Windows(48, 2), patch=4))


class LevitAttention(nn.Module):
    """Convolutional tokens, keys narrower than values, a bias for each offset, hard-swish (Graham et al. 2021)."""

    def __init__(self, dim: int, side: int, heads: int = 4, key: int = 8) -> None:
        super().__init__()
        self.heads, self.key, self.value = heads, key, 2 * key
        self.qkv = nn.Sequential(nn.Linear(dim, heads * 4 * key, bias=False))
        self.norm, self.proj = nn.BatchNorm1d(heads * 4 * key), nn.Linear(heads * 2 * key, dim, bias=False)
        self.out_norm = nn.BatchNorm1d(dim)
        nn.init.zeros_(self.out_norm.weight)
        grid = torch.stack(torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")).flatten(1)
        offset = (grid[:, :, None] - grid[:, None]).abs()
        self.biases = nn.Parameter(torch.zeros(heads, side * side))
        self.register_buffer("index", offset[0] * side + offset[1])

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        y = self.norm(self.qkv(x).flatten(0, 1)).view(b, n, self.heads, -1)
        q, k, v = y.split([self.key, self.key, self.value], 3)
        scores = torch.einsum("bnhd,bmhd->bhnm", q, k) * self.key**-0.5 + self.biases[:, self.index]
        y = torch.einsum("bhnm,bmhd->bnhd", scores.softmax(-1), v).reshape(b, n, -1)
        return x + self.out_norm(self.proj(F.hardswish(y)).flatten(0, 1)).view(b, n, c)


class LevitMlp(nn.Module):
    """A perceptron with batch norms, the last starting at zero."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.up, self.n1 = nn.Linear(dim, 2 * dim, bias=False), nn.BatchNorm1d(2 * dim)
        self.down, self.n2 = nn.Linear(2 * dim, dim, bias=False), nn.BatchNorm1d(dim)
        nn.init.zeros_(self.n2.weight)

    def forward(self, x: Tensor) -> Tensor:
        y = self.n2(self.down(F.hardswish(self.n1(self.up(x.flatten(0, 1))))))
        return x + y.view_as(x)


class Levit(nn.Module):
    """A convolutional stem, then attention and perceptrons with batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            conv_bn(3, 12, 3, 2, act=nn.Hardswish),
            conv_bn(12, 24, 3, 2, act=nn.Hardswish),
            conv_bn(24, 48, 3, 2, act=None),
        )
        self.blocks = nn.Sequential(*(part for _ in range(2) for part in (LevitAttention(48, 4), LevitMlp(48))))
        self.head = nn.Sequential(nn.BatchNorm1d(48), nn.Linear(48, 10))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x).flatten(2).transpose(1, 2)).mean(1))


class MaxViTBlock(nn.Module):
    """An inverted residual, attention in windows and on a grid (Tu et al. 2022)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.conv = InvertedResidual(dim, dim, act=nn.SiLU, se=True)
        self.block, self.grid = Block(dim), Block(dim)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        b, c, h, w = x.shape
        y = x.view(b, c, h // 4, 4, w // 4, 4).permute(0, 2, 4, 3, 5, 1)
        y = self.block(y.reshape(-1, 16, c)).view(b, h // 4, w // 4, 4, 4, c)
        y = y.permute(0, 3, 4, 1, 2, 5)
        y = self.grid(y.reshape(-1, (h // 4) * (w // 4), c)).view(b, 4, 4, h // 4, w // 4, c)
        return y.permute(0, 5, 3, 1, 4, 2).reshape(b, c, h, w)


class MaxViT(nn.Module):
    """A stem and two blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv_bn(3, 32, 3, 2, act=nn.GELU), nn.Conv2d(32, 32, 3, 2, 1))
        self.blocks, self.head = nn.Sequential(MaxViTBlock(32), MaxViTBlock(32)), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class SepViTBlock(nn.Module):
    """Attention in windows with a window token, then attention between windows (Li et al. 2022)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm1, self.norm2, self.attn, self.mlp = (
            nn.LayerNorm(dim),
            nn.LayerNorm(dim),
            Attention(dim, qkv_bias=False),
            Mlp(dim, 4 * dim),
        )
        self.token, self.window_norm = nn.Parameter(torch.randn(dim)), nn.LayerNorm(dim)
        self.qk = nn.Linear(dim, 2 * dim)

    def forward(self, x: Tensor) -> Tensor:
        b, w, n, d = x.shape
        y = torch.cat([self.token.expand(b, w, 1, d), self.norm1(x)], 2)
        y = self.attn(y.flatten(0, 1)).view(b, w, n + 1, d)
        q, k = self.qk(F.gelu(self.window_norm(y[:, :, 0]))).chunk(2, -1)
        between = (q @ k.mT * d**-0.5).softmax(-1)
        x = x + torch.einsum("bvw,bwnd->bvnd", between, y[:, :, 1:])
        return x + self.mlp(self.norm2(x))


class SepViT(nn.Module):
    """Patches of 4×4 in windows of 4×4."""

    def __init__(self, dim: int = 48) -> None:
        super().__init__()
        self.patch, self.blocks = nn.Conv2d(3, dim, 4, 4), nn.Sequential(SepViTBlock(dim), SepViTBlock(dim))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).unfold(2, 4, 4).unfold(3, 4, 4).permute(0, 2, 3, 4, 5, 1).flatten(3, 4).flatten(1, 2)
        return self.head(self.norm(self.blocks(x)).mean((1, 2)))


class CrossCovariance(nn.Module):
    """Attention between channels of normalized queries and keys (XCiT, El-Nouby et al. 2021)."""

    def __init__(self, dim: int, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.temperature = nn.Parameter(torch.ones(heads, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 4, 1)
        attn = (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * self.temperature).softmax(-1)
        return self.proj((attn @ v).permute(0, 3, 1, 2).reshape(b, n, d))


class CompactTransformer(nn.Module):
    """A convolutional tokenizer, sine positions, attention pooling (CCT, Hassani et al. 2021)."""

    def __init__(self, dim: int = 48) -> None:
        super().__init__()
        self.tokenizer = nn.Sequential(nn.Conv2d(3, dim, 3, 1, 1, bias=False), nn.ReLU(), nn.MaxPool2d(3, 4, 1))
        nn.init.kaiming_normal_(self.tokenizer[0].weight)
        angle = torch.arange(64)[:, None] / 10000 ** (2 * (torch.arange(dim) // 2) / dim)
        self.register_buffer("position", torch.where(torch.arange(dim) % 2 == 0, angle.sin(), angle.cos())[None])
        self.blocks, self.norm = nn.Sequential(Block(dim), Block(dim)), nn.LayerNorm(dim)
        self.pool, self.head = nn.Linear(dim, 1), nn.Linear(dim, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.blocks(self.tokenizer(x).flatten(2).mT + self.position))
        return self.head((self.pool(x).softmax(1).mT @ x)[:, 0])


def vit() -> nn.Module:
    return ViT()


def lsa_vit() -> nn.Module:
    return ViT(attn=LocalitySelfAttention)


def vit_query_norm() -> nn.Module:
    return ViT(attn=QueryNorm, registers=4)


def xcit() -> nn.Module:
    return truncated(TokenNet(*(Block(48, CrossCovariance(48)) for _ in range(3))))


def mlp_mixer() -> nn.Module:
    return TokenNet(Mixer(), Mixer(), Mixer())


def res_mlp() -> nn.Module:
    return TokenNet(ResMlp(), ResMlp(), ResMlp())


def levit() -> nn.Module:
    return Levit()


def max_vit() -> nn.Module:
    return MaxViT()


def sep_vit() -> nn.Module:
    return SepViT()


def compact_transformer() -> nn.Module:
    return CompactTransformer()


HEALTHY = tuple(
    Healthy(build.__name__, Program(build, IMAGES, lr=lr, steps=60, batch=16, samples=128), source)
    for build, lr, source in (
        (vit, 1e-3, "timm"),
        (lsa_vit, 1e-3, "vit-pytorch"),
        (vit_query_norm, 1e-3, "timm"),
        (xcit, 1e-3, "timm"),
        (swin, 1e-3, "timm"),
        (mlp_mixer, 1e-3, "timm"),
        (res_mlp, 3e-3, "timm"),
        (levit, 1e-3, "timm"),
        (max_vit, 1e-3, "timm"),
        (sep_vit, 1e-3, "vit-pytorch"),
        (compact_transformer, 1e-3, "vit-pytorch"),
    )
)
