"""Networks that read pictures: transformers of patches, several heads, other types and layouts."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from evaluation.declared import network
from evaluation.development_1.data import pictures, unit_pictures
from evaluation.development_1.images import conv_bn


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, bias=0.0):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        attn = ((q @ k.transpose(-2, -1)) * (C // self.heads) ** -0.5 + bias).softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


def mlp(dim, hidden):
    return nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Dropout(0.1), nn.Linear(hidden, dim), nn.Dropout(0.1))


@network(pictures())
def vit_lucidrains() -> nn.Module:
    class Block(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.norm1, self.attn, self.norm2, self.mlp = (
                nn.LayerNorm(dim),
                Attention(dim, 4),
                nn.LayerNorm(dim),
                mlp(dim, 4 * dim),
            )

        def forward(self, x):
            x = x + self.attn(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    class ViT(nn.Module):
        def __init__(self, dim=96, depth=6):
            super().__init__()
            self.embed = nn.Linear(3 * 16, dim)
            self.cls = nn.Parameter(torch.randn(1, 1, dim))
            self.pos = nn.Parameter(torch.randn(1, 65, dim))
            self.blocks = nn.Sequential(*[Block(dim) for _ in range(depth)])
            self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 10))

        def forward(self, x):
            x = F.unfold(x, 4, stride=4).transpose(1, 2)
            x = torch.cat([self.cls.expand(len(x), -1, -1), self.embed(x)], 1) + self.pos
            return self.head(self.blocks(x)[:, 0])

    return ViT()


@network(pictures())
def swin_windows() -> nn.Module:
    class Block(nn.Module):
        def __init__(self, dim, shift, window=4):
            super().__init__()
            self.shift, self.window = shift, window
            self.norm1, self.attn, self.norm2, self.mlp = (
                nn.LayerNorm(dim),
                Attention(dim, 3),
                nn.LayerNorm(dim),
                mlp(dim, 2 * dim),
            )
            self.bias = nn.Parameter(0.02 * torch.randn(3, window**2, window**2))

        def forward(self, x):
            B, H, W, C = x.shape
            w = self.window
            y = torch.roll(self.norm1(x), (-self.shift, -self.shift), (1, 2))
            y = y.view(B, H // w, w, W // w, w, C).transpose(2, 3).reshape(-1, w * w, C)
            y = self.attn(y, self.bias).view(B, H // w, W // w, w, w, C).transpose(2, 3).reshape(B, H, W, C)
            x = x + torch.roll(y, (self.shift, self.shift), (1, 2))
            return x + self.mlp(self.norm2(x))

    class Merge(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.norm, self.reduction = nn.LayerNorm(4 * dim), nn.Linear(4 * dim, 2 * dim, bias=False)

        def forward(self, x):
            parts = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
            return self.reduction(self.norm(torch.cat(parts, -1)))

    class Swin(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch = nn.Conv2d(3, 48, 2, 2)
            self.stages = nn.Sequential(Block(48, 0), Block(48, 2), Merge(48), Block(96, 0), Block(96, 2))
            self.norm, self.head = nn.LayerNorm(96), nn.Linear(96, 10)

        def forward(self, x):
            x = self.stages(self.patch(x).permute(0, 2, 3, 1))
            return self.head(self.norm(x).mean((1, 2)))

    return Swin()


@network(pictures())
def mlp_mixer() -> nn.Module:
    class Mixer(nn.Module):
        def __init__(self, tokens, dim):
            super().__init__()
            self.norm1, self.tokens = nn.LayerNorm(dim), mlp(tokens, 2 * tokens)
            self.norm2, self.channels = nn.LayerNorm(dim), mlp(dim, 4 * dim)

        def forward(self, x):
            x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
            return x + self.channels(self.norm2(x))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Conv2d(3, 96, 4, 4)
            self.mixers = nn.Sequential(*[Mixer(64, 96) for _ in range(6)])
            self.norm, self.head = nn.LayerNorm(96), nn.Linear(96, 10)

        def forward(self, x):
            x = self.stem(x).flatten(2).transpose(1, 2)
            return self.head(self.norm(self.mixers(x)).mean(1))

    return Net()


def _attributes(count, generator):
    images, labels = pictures(32, 3, 6)(count, generator)
    return images, {"kind": labels, "sum": images[:, 0].mean((1, 2)), "flags": (images.mean((2, 3)) > 0).float()}


def _three_losses(out, targets):
    return (
        F.cross_entropy(out["kind"], targets["kind"])
        + F.mse_loss(out["sum"].squeeze(1), targets["sum"])
        + F.binary_cross_entropy_with_logits(out["flags"], targets["flags"])
    )


@network(_attributes, loss=_three_losses)
def multi_task_dict() -> nn.Module:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.backbone = nn.Sequential(
                conv_bn(3, 32, stride=2), conv_bn(32, 64, stride=2), conv_bn(64, 96, stride=2),
                nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            )  # fmt: skip
            self.heads = nn.ModuleDict({"kind": nn.Linear(96, 6), "sum": nn.Linear(96, 1), "flags": nn.Linear(96, 3)})

        def forward(self, image):
            features = self.backbone(image)
            return {name: head(features) for name, head in self.heads.items()}

    return Net()


def _pairs_of_pictures(count, generator):
    one, labels = pictures(28, 1, 4)(count, generator)
    two, others = pictures(28, 1, 4)(count, generator)
    same = torch.arange(count) % 2 == 0
    return (one, torch.where(same[:, None, None, None], one.flip(0).flip(0) + 0.3 * two, two)), (
        same | (labels == others)
    ).float()


def _contrastive(out, same):
    distance = F.pairwise_distance(*out)
    return (same * distance**2 + (1 - same) * F.relu(1 - distance) ** 2).mean()


@network(_pairs_of_pictures, loss=_contrastive)
def siamese_tuple() -> nn.Module:
    class Siamese(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Sequential(
                nn.Conv2d(1, 32, 5), nn.PReLU(), nn.MaxPool2d(2, 2),
                nn.Conv2d(32, 64, 5), nn.PReLU(), nn.MaxPool2d(2, 2), nn.Flatten(),
                nn.Linear(1024, 256), nn.PReLU(), nn.Linear(256, 16),
            )  # fmt: skip

        def forward(self, one, two):
            return self.embed(one), self.embed(two)

    return Siamese()


def _nt_xent(out, _):
    z = F.normalize(out, dim=1)
    scores = z @ z.T / 0.5 - 1e9 * torch.eye(len(z))
    return F.cross_entropy(scores, torch.arange(len(z)) ^ 1)


def _views(count, generator):
    images, _ = pictures(32)(count // 2, generator)
    both = images.repeat_interleave(2, 0)
    return both + 0.5 * torch.randn(both.shape, generator=generator), torch.zeros(count)


@network(_views, loss=_nt_xent)
def simclr_projection() -> nn.Module:
    return nn.Sequential(
        conv_bn(3, 32, stride=2), conv_bn(32, 64, stride=2), conv_bn(64, 128, stride=2), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(128, 128, bias=False), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 64),
    )  # fmt: skip


@network(unit_pictures(32, 3), loss=F.mse_loss)
def conv_autoencoder() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 12, 4, 2, 1), nn.ReLU(), nn.Conv2d(12, 24, 4, 2, 1), nn.ReLU(),
        nn.Conv2d(24, 48, 4, 2, 1), nn.ReLU(),
        nn.ConvTranspose2d(48, 24, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(24, 12, 4, 2, 1), nn.ReLU(),
        nn.ConvTranspose2d(12, 3, 4, 2, 1), nn.Sigmoid(),
    )  # fmt: skip


@network(lambda n, g: (lambda x: (F.avg_pool2d(x, 2), x))(unit_pictures(32, 3)(n, g)[0]), loss=F.l1_loss)
def super_resolution_espcn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 64, 5, padding=2), nn.Tanh(), nn.Conv2d(64, 32, 3, padding=1), nn.Tanh(),
        nn.Conv2d(32, 12, 3, padding=1), nn.PixelShuffle(2),
    )  # fmt: skip


def _small_resnet(act=nn.ReLU) -> nn.Module:
    class Basic(nn.Module):
        def __init__(self, before, after, stride=1):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
            self.conv2, self.bn2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
            self.act = act()
            self.down = None
            if stride != 1 or before != after:
                self.down = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

        def forward(self, x):
            out = self.bn2(self.conv2(self.act(self.bn1(self.conv1(x)))))
            out += x if self.down is None else self.down(x)
            return self.act(out)

    return nn.Sequential(
        conv_bn(3, 16),
        Basic(16, 16),
        Basic(16, 32, 2),
        Basic(32, 64, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


@network(pictures(), dtype=torch.bfloat16)
def resnet_bfloat16() -> nn.Module:
    return _small_resnet().to(torch.bfloat16)


@network(pictures(), dtype=torch.float64)
def resnet_float64() -> nn.Module:
    return _small_resnet().double()


@network(lambda n, g: (lambda x, y: (x.to(memory_format=torch.channels_last), y))(*pictures()(n, g)))
def resnet_channels_last() -> nn.Module:
    return _small_resnet(nn.SiLU).to(memory_format=torch.channels_last)


@network(pictures(), steps=60, mode="eval")
def resnet_trained_eval() -> nn.Module:
    return _small_resnet()


@network(pictures(), steps=60)
def resnet_trained_train() -> nn.Module:
    return _small_resnet()


@network(pictures(), steps=30, rate=2e-2)
def head_on_frozen_backbone() -> nn.Module:
    model = _small_resnet()
    for name, weight in model.named_parameters():
        weight.requires_grad_(name.startswith("6"))
    return model


@network(pictures(28, 1))
def scripted_cnn() -> nn.Module:
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1568, 10),
    )  # fmt: skip
    return torch.jit.script(model)


@network(pictures(28, 1))
def compiled_cnn() -> nn.Module:
    model = nn.Sequential(
        conv_bn(1, 16), nn.MaxPool2d(2), conv_bn(16, 32), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)
    )
    return torch.compile(model, backend="eager")


class FakeQuantize(nn.Module):
    def __init__(self, bits=8):
        super().__init__()
        self.levels = 2**bits - 1
        self.register_buffer("scale", torch.tensor(1.0))

    def forward(self, x):
        if self.training:
            self.scale.mul_(0.9).add_(0.1 * x.detach().abs().max())
        step = 2 * self.scale / self.levels
        rounded = torch.round(x / step).clamp(-(self.levels // 2), self.levels // 2) * step
        return x + (rounded - x).detach()


@network(pictures(28, 1))
def quantisation_aware() -> nn.Module:
    class QuantConv(nn.Conv2d):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.fake = FakeQuantize()

        def forward(self, x):
            return self._conv_forward(x, self.fake(self.weight), self.bias)

    return nn.Sequential(
        FakeQuantize(), QuantConv(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), FakeQuantize(), nn.MaxPool2d(2),
        QuantConv(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), FakeQuantize(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip
