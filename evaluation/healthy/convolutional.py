"""Convolutional networks in the style of torchvision and timm, with their published initialization."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evaluation.programs import Healthy, Program
from evaluation.samples import blobs

IMAGES = blobs(side=32)


def conv_bn(inputs: int, outputs: int, size: int = 3, stride: int = 1, groups: int = 1, act=nn.ReLU) -> nn.Sequential:
    """Return a convolution with batch norm and an activation (None: without)."""
    layers = [nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs)]
    return nn.Sequential(*layers, *([act()] if act else []))


def kaiming(model: nn.Module) -> nn.Module:
    """Initialize as torchvision's ResNet does: fan out for convolutions, ones and zeros for norms."""
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, 0, 0.01)
            nn.init.zeros_(layer.bias)
    return model


class Pooled(nn.Module):
    """Features, a global mean, dropout and a linear classifier."""

    def __init__(self, features: nn.Module, width: int, classes: int = 10, drop: float = 0.0) -> None:
        super().__init__()
        self.features, self.drop, self.fc = features, nn.Dropout(drop), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.drop(self.features(x).mean((2, 3))))


class BasicBlock(nn.Module):
    """Two 3×3 convolutions; `zero` starts the last norm at 0."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1, zero: bool = False) -> None:
        super().__init__()
        self.a, self.b = conv_bn(inputs, outputs, 3, stride), conv_bn(outputs, outputs, 3, act=None)
        self.down = conv_bn(inputs, outputs, 1, stride, act=None) if stride > 1 or inputs != outputs else nn.Identity()
        if zero:
            nn.init.zeros_(self.b[1].weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.b(self.a(x)) + self.down(x))


def resnet() -> nn.Module:
    blocks = [BasicBlock(16, 16), BasicBlock(16, 32, 2), BasicBlock(32, 32), BasicBlock(32, 64, 2)]
    return kaiming(Pooled(nn.Sequential(conv_bn(3, 16), *blocks), 64))


class WideBlock(nn.Module):
    """Pre-activation with dropout (Zagoruyko and Komodakis 2016)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.n1, self.c1 = nn.BatchNorm2d(inputs), nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.n2, self.c2 = nn.BatchNorm2d(outputs), nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.short = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if inputs != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.n1(x), inplace=True)
        z = self.c2(F.dropout(F.relu(self.n2(self.c1(y))), 0.3, self.training))
        return z + (x if self.short is None else self.short(y))


def wide_resnet() -> nn.Module:
    body = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), WideBlock(16, 64, 1), WideBlock(64, 64, 1), WideBlock(64, 128, 2)]
    return Pooled(nn.Sequential(*body, nn.BatchNorm2d(128), nn.ReLU()), 128)


class DenseLayer(nn.Module):
    """BN-ReLU-1×1-BN-ReLU-3×3, joined with its input (Huang et al. 2017)."""

    def __init__(self, inputs: int, grow: int = 12) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, 4 * grow, 1, bias=False)),
            *(nn.BatchNorm2d(4 * grow), nn.ReLU(), nn.Conv2d(4 * grow, grow, 3, padding=1, bias=False)),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.body(x)], 1)


def densenet() -> nn.Module:
    first = [DenseLayer(24 + 12 * i) for i in range(4)]
    move = [nn.BatchNorm2d(72), nn.ReLU(), nn.Conv2d(72, 36, 1, bias=False), nn.AvgPool2d(2)]
    second = [DenseLayer(36 + 12 * i) for i in range(4)]
    stem = nn.Conv2d(3, 24, 3, 2, 1, bias=False)
    model = Pooled(nn.Sequential(stem, *first, *move, *second, nn.BatchNorm2d(84), nn.ReLU()), 84)
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight)
    return model


class SqueezeExcite(nn.Module):
    """Gates of channels."""

    def __init__(self, width: int, squeezed: int, act=nn.ReLU, gate=nn.Sigmoid) -> None:
        super().__init__()
        self.down, self.up, self.act, self.gate = (
            nn.Conv2d(width, squeezed, 1),
            nn.Conv2d(squeezed, width, 1),
            act(),
            gate(),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(self.up(self.act(self.down(x.mean((2, 3), keepdim=True)))))


class InvertedResidual(nn.Module):
    """Expand, depthwise, squeeze-excite, project (Sandler et al. 2018, Howard et al. 2019)."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1, expand: int = 4, act=nn.ReLU6, se: bool = False,
                 size: int = 3) -> None:  # fmt: skip
        super().__init__()
        hidden = inputs * expand
        self.skip = stride == 1 and inputs == outputs
        self.body = nn.Sequential(
            conv_bn(inputs, hidden, 1, act=act),
            conv_bn(hidden, hidden, size, stride, hidden, act),
            *([SqueezeExcite(hidden, max(4, inputs // 4), nn.ReLU if act is nn.Hardswish else act)] if se else []),
            conv_bn(hidden, outputs, 1, act=None),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.skip else self.body(x)


def mobilenet_v2() -> nn.Module:
    block = InvertedResidual
    body = [conv_bn(3, 16, 3, 2, act=nn.ReLU6), block(16, 16), block(16, 24, 2, 6), block(24, 24, 1, 6)]
    return kaiming(Pooled(nn.Sequential(*body, block(24, 32, 2, 6), conv_bn(32, 128, 1, act=nn.ReLU6)), 128, drop=0.2))


def mobilenet_v3() -> nn.Module:
    def block(*arguments: int, **options: object) -> nn.Module:
        return InvertedResidual(*arguments, act=nn.Hardswish, se=True, **options)

    body = [conv_bn(3, 16, 3, 2, act=nn.Hardswish), block(16, 16), block(16, 24, 2, size=5), block(24, 24, size=5)]
    return kaiming(Pooled(nn.Sequential(*body, conv_bn(24, 96, 1, act=nn.Hardswish)), 96))


def efficientnet() -> nn.Module:
    def block(*arguments: int, **options: object) -> nn.Module:
        return InvertedResidual(*arguments, act=nn.SiLU, se=True, **options)

    body = [conv_bn(3, 16, 3, 2, act=nn.SiLU), block(16, 16, 1, 1), block(16, 24, 2, 6), block(24, 24, 1, 6, size=5)]
    return kaiming(Pooled(nn.Sequential(*body, block(24, 40, 2, 6), conv_bn(40, 160, 1, act=nn.SiLU)), 160, drop=0.2))


class ConvNeXtBlock(nn.Module):
    """Depthwise 7×7, LayerNorm, two linear layers, a scale of 1e-6 (Liu et al. 2022)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dw, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width, eps=1e-6)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(1e-6 * torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.dw(x).permute(0, 2, 3, 1))
        return x + (self.gamma * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)


class ChannelNorm(nn.LayerNorm):
    """LayerNorm over the channels of images."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def convnext() -> nn.Module:
    body = [nn.Conv2d(3, 32, 4, 4), ChannelNorm(32), ConvNeXtBlock(32), ConvNeXtBlock(32)]
    body += [ChannelNorm(32), nn.Conv2d(32, 64, 2, 2), ConvNeXtBlock(64), ConvNeXtBlock(64)]
    model = Pooled(nn.Sequential(*body), 64)
    for layer in model.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            nn.init.trunc_normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)
    return model


class RegBlock(nn.Module):
    """A grouped bottleneck with squeeze-excite (Radosavovic et al. 2020)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            conv_bn(inputs, outputs, 1), conv_bn(outputs, outputs, 3, stride, outputs // 8),
            SqueezeExcite(outputs, inputs // 4), conv_bn(outputs, outputs, 1, act=None),
        )  # fmt: skip
        self.down = conv_bn(inputs, outputs, 1, stride, act=None) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.down(x))


def regnet() -> nn.Module:
    return kaiming(
        Pooled(nn.Sequential(conv_bn(3, 16, 3, 2), RegBlock(16, 32, 2), RegBlock(32, 32, 1), RegBlock(32, 64, 2)), 64)
    )


class StandardizedConv(nn.Conv2d):
    """Weights with zero mean and unit variance times a gain (Brock et al. 2021)."""

    def __init__(self, *arguments: int, **options: int) -> None:
        super().__init__(*arguments, **options)
        self.gain = nn.Parameter(torch.ones(self.out_channels, 1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        fan = self.weight[0].numel()
        variance, mean = torch.var_mean(self.weight, (1, 2, 3), keepdim=True)
        weight = self.gain * (self.weight - mean) * torch.rsqrt((variance * fan).clamp_min(1e-4))
        return F.conv2d(x, weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class NFBlock(nn.Module):
    """A residual block without norms: x + α f(x / β) with a scale that starts at 0."""

    def __init__(self, width: int, beta: float) -> None:
        super().__init__()
        self.beta = beta
        self.c1, self.c2 = (
            StandardizedConv(width, width // 2, 1),
            StandardizedConv(width // 2, width // 2, 3, padding=1),
        )
        self.c3, self.skip_gain = StandardizedConv(width // 2, width, 1), nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        y = 1.7015 * F.gelu(x) / self.beta
        y = self.c2(1.7015 * F.gelu(self.c1(y)))
        return x + 0.2 * self.skip_gain * self.c3(1.7015 * F.gelu(y))


def nfnet() -> nn.Module:
    return Pooled(
        nn.Sequential(
            StandardizedConv(3, 48, 3, stride=2, padding=1),
            *(NFBlock(48, math.sqrt(1 + 0.04 * i)) for i in range(4)),
            nn.GELU(),
        ),
        48,
    )


class Fire(nn.Module):
    """Squeeze to few channels, expand by 1×1 and 3×3 (Iandola et al. 2016)."""

    def __init__(self, inputs: int, squeezed: int, outputs: int) -> None:
        super().__init__()
        self.s, self.a = nn.Conv2d(inputs, squeezed, 1), nn.Conv2d(squeezed, outputs, 1)
        self.b = nn.Conv2d(squeezed, outputs, 3, padding=1)
        for layer in (self.s, self.a, self.b):
            nn.init.kaiming_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.s(x))
        return torch.cat([F.relu(self.a(x)), F.relu(self.b(x))], 1)


def squeezenet() -> nn.Module:
    body = [nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), Fire(32, 8, 24), Fire(48, 8, 24), nn.MaxPool2d(2), Fire(48, 16, 32)]
    return Pooled(nn.Sequential(*body), 64)


class Shuffle(nn.Module):
    """Half of the channels pass, then channels are shuffled (Ma et al. 2018)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        half = width // 2
        self.body = nn.Sequential(conv_bn(half, half, 1), conv_bn(half, half, 3, 1, half, None), conv_bn(half, half, 1))

    def forward(self, x: Tensor) -> Tensor:
        kept, moved = x.chunk(2, 1)
        joined = torch.cat([kept, self.body(moved)], 1)
        return joined.unflatten(1, (2, -1)).transpose(1, 2).flatten(1, 2)


def shufflenet() -> nn.Module:
    return Pooled(nn.Sequential(conv_bn(3, 48, 3, 2), Shuffle(48), Shuffle(48), Shuffle(48), conv_bn(48, 96, 1)), 96)


def vgg() -> nn.Module:
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 32), (32, 64), (64, 64)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
    head = [nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(True), nn.Dropout(), nn.Linear(128, 10)]
    return kaiming(nn.Sequential(*layers, *head))


class Inception(nn.Module):
    """Four parallel branches (Szegedy et al. 2015)."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.a, self.b = conv_bn(inputs, 16, 1), nn.Sequential(conv_bn(inputs, 16, 1), conv_bn(16, 24))
        self.c = nn.Sequential(conv_bn(inputs, 8, 1), conv_bn(8, 12, 5))
        self.d = nn.Sequential(nn.MaxPool2d(3, 1, 1), conv_bn(inputs, 12, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.a(x), self.b(x), self.c(x), self.d(x)], 1)


def googlenet() -> nn.Module:
    return Pooled(nn.Sequential(conv_bn(3, 24, 3, 2), Inception(24), nn.MaxPool2d(2), Inception(64)), 64, drop=0.2)


class RepBlock(nn.Module):
    """3×3, 1×1 and identity, each with batch norm (RepVGG, Ding et al. 2021)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.large, self.small, self.same = (
            conv_bn(width, width, 3, act=None),
            conv_bn(width, width, 1, act=None),
            nn.BatchNorm2d(width),
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.large(x) + self.small(x) + self.same(x))


def repvgg() -> nn.Module:
    return Pooled(
        nn.Sequential(conv_bn(3, 32, 3, 2), RepBlock(32), RepBlock(32), conv_bn(32, 64, 3, 2), RepBlock(64)), 64
    )


class GlobalResponse(nn.Module):
    """A gated unit of a ConvMixer-like stack (Trockman and Kolter 2022)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dw, self.pw = nn.Conv2d(width, width, 5, padding=2, groups=width), nn.Conv2d(width, width, 1)
        self.n1, self.n2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.n1(F.gelu(self.dw(x)))
        return self.n2(F.gelu(self.pw(x)))


def convmixer() -> nn.Module:
    return Pooled(
        nn.Sequential(nn.Conv2d(3, 48, 4, 4), nn.GELU(), nn.BatchNorm2d(48), *(GlobalResponse(48) for _ in range(4))),
        48,
    )


HEALTHY = tuple(
    Healthy(build.__name__, Program(build, IMAGES, lr=lr, steps=60, batch=16, samples=128), source)
    for build, lr, source in (
        (resnet, 1e-3, "torchvision"),
        (wide_resnet, 1e-3, "Zagoruyko and Komodakis 2016"),
        (densenet, 1e-3, "torchvision"),
        (mobilenet_v2, 3e-3, "torchvision"),
        (mobilenet_v3, 3e-3, "torchvision"),
        (efficientnet, 3e-3, "timm"),
        (convnext, 2e-3, "timm"),
        (regnet, 1e-3, "timm"),
        (nfnet, 1e-3, "timm"),
        (squeezenet, 1e-3, "torchvision"),
        (shufflenet, 1e-3, "torchvision"),
        (vgg, 1e-3, "torchvision"),
        (googlenet, 1e-3, "torchvision"),
        (repvgg, 1e-3, "timm"),
        (convmixer, 1e-3, "timm"),
    )
)
