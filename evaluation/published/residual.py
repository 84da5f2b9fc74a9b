"""Residual and densely connected classifiers: ResNet, PreAct, WideResNet, DenseNet, MobileNet, EfficientNet, …"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from evaluation.published.by_width import BasicBlock, Bottleneck, mobilenet, resnet
from evaluation.published.initialization import fan_out_, normal_, zero_
from evaluation.published.losses import cross_entropy
from evaluation.published.members import Member
from evaluation.published.samples import digits, photographs

CLASSES = 10


def resnet18() -> nn.Module:
    """ResNet-18: He by fan out, batch norms 1 and 0, torch's own head (torchvision)."""
    return fan_out_(resnet(18, 16, classes=CLASSES))


def resnet50() -> nn.Module:
    """ResNet-50 in a quarter of its width."""
    return fan_out_(resnet(50, 16, classes=CLASSES))


def resnet50_zero() -> nn.Module:
    """ResNet-50 whose branches begin as nothing: the last batch norm of each is 0 (Goyal et al. 2017)."""
    model = resnet50()
    for block in model.modules():
        if isinstance(block, Bottleneck):
            nn.init.zeros_(block.norm3.weight)
    return model


def cifar_resnet() -> nn.Module:
    """ResNet-20 for small images: three stages of three blocks."""
    layers = [nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    inputs = 16
    for stage, width in enumerate((16, 32, 64)):
        for index in range(3):
            layers.append(BasicBlock(inputs, width, 2 if stage and not index else 1))
            inputs = width
    return fan_out_(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES)))


class PreActBlock(nn.Module):
    """ResNet v2 with its norms: norm, ReLU, convolution, twice; the stream is a sum of weight layers."""

    def __init__(self, inputs, outputs, stride=1, dropout=0.0):
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(inputs), nn.BatchNorm2d(outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.dropout = nn.Dropout(dropout)
        plain = stride == 1 and inputs == outputs
        self.skip = None if plain else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.norm1(x))
        skip = x if self.skip is None else self.skip(y)
        return skip + self.conv2(self.dropout(F.relu(self.norm2(self.conv1(y)))))


def preact(widths=(16, 32, 64), blocks=3, dropout=0.0) -> nn.Module:
    """PreAct-ResNet, or a wide one with dropout between the convolutions."""
    layers, inputs = [nn.Conv2d(3, 16, 3, padding=1, bias=False)], 16
    for stage, width in enumerate(widths):
        for index in range(blocks):
            layers.append(PreActBlock(inputs, width, 2 if stage and not index else 1, dropout))
            inputs = width
    return fan_out_(nn.Sequential(
        *layers, nn.BatchNorm2d(inputs), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, CLASSES),
    ))  # fmt: skip


class DenseLayer(nn.Module):
    """DenseNet-BC's layer: 1×1 to four times the growth, 3×3 to the growth, joined to what came in."""

    def __init__(self, inputs, growth):
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(inputs), nn.BatchNorm2d(4 * growth)
        self.conv1 = nn.Conv2d(inputs, 4 * growth, 1, bias=False)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x):
        new = self.conv2(torch.relu(self.norm2(self.conv1(torch.relu(self.norm1(x))))))
        return torch.cat([x, new], dim=1)


def densenet(growth=12, layers=4) -> nn.Module:
    """DenseNet-BC of three dense blocks; He by fan in, biases 0 (torchvision)."""
    parts, width = [nn.Conv2d(3, 2 * growth, 3, padding=1, bias=False)], 2 * growth
    for block in range(3):
        for _ in range(layers):
            parts.append(DenseLayer(width, growth))
            width += growth
        parts += [nn.BatchNorm2d(width), nn.ReLU()]
        if block < 2:
            parts += [nn.Conv2d(width, width // 2, 1, bias=False), nn.AvgPool2d(2)]
            width //= 2
    model = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, CLASSES))
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight)
        elif isinstance(layer, nn.Linear):
            nn.init.zeros_(layer.bias)
    return model


def mobilenet2() -> nn.Module:
    """MobileNetV2 of half its width: He by fan out, head of deviation .01 (torchvision)."""
    return fan_out_(mobilenet(16, CLASSES), linear=0.01).train()


class SqueezeExcite(nn.Module):
    """Channels weighed by a gate of their means."""

    def __init__(self, channels, squeezed):
        super().__init__()
        self.reduce, self.expand = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)

    def forward(self, x):
        gate = self.expand(F.silu(self.reduce(x.mean((2, 3), keepdim=True))))
        return x * torch.sigmoid(gate)


class MBConv(nn.Module):
    """EfficientNet's block: widen, depthwise, squeeze and excite, narrow."""

    def __init__(self, inputs, outputs, size, stride, widen):
        super().__init__()
        hidden = inputs * widen
        first = [nn.Conv2d(inputs, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.SiLU()] if widen > 1 else []
        self.body = nn.Sequential(
            *first, nn.Conv2d(hidden, hidden, size, stride, size // 2, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden), nn.SiLU(), SqueezeExcite(hidden, max(1, inputs // 4)),
            nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.skip = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.body(x) if self.skip else self.body(x)


EFFICIENTNET_STAGES = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)  # fmt: skip


def efficientnet() -> nn.Module:
    """EfficientNet-B0 of half its width: He by fan out, the head of 1,000 uniform within 1000^-½ (torchvision)."""
    layers, inputs = [nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.SiLU()], 16
    for widen, channels, count, stride, size in EFFICIENTNET_STAGES:
        for index in range(count):
            layers.append(MBConv(inputs, channels // 2, size, 1 if index else stride, widen))
            inputs = channels // 2
    layers += [nn.Conv2d(inputs, 640, 1, bias=False), nn.BatchNorm2d(640), nn.SiLU(), nn.AdaptiveAvgPool2d(1)]
    head = nn.Linear(640, 1000)
    model = fan_out_(nn.Sequential(*layers, nn.Flatten(), nn.Dropout(0.2), head))
    nn.init.uniform_(head.weight, -(1000**-0.5), 1000**-0.5)
    nn.init.zeros_(head.bias)
    return model


class ChannelNorm(nn.LayerNorm):
    """LayerNorm over the channels of images."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ScaledConvNeXtBlock(nn.Module):
    """ConvNeXt's block with its layer scale of 1e-6."""

    def __init__(self, width):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(1e-6 * torch.ones(width))

    def forward(self, x):
        y = self.narrow(F.gelu(self.wide(self.norm(self.depthwise(x).permute(0, 2, 3, 1)))))
        return x + (self.scale * y).permute(0, 3, 1, 2)


def convnext() -> nn.Module:
    """ConvNeXt of four stages: truncated normal weights of .02."""
    layers, inputs = [], 3
    for stage, (width, count) in enumerate(((24, 2), (48, 2), (96, 3), (192, 2))):
        norm = [ChannelNorm(inputs, eps=1e-6)] if stage else []
        layers += [*norm, nn.Conv2d(inputs, width, 2, 2)] + [ScaledConvNeXtBlock(width) for _ in range(count)]
        inputs = width
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(inputs, eps=1e-6), nn.Linear(inputs, CLASSES)]
    return normal_(nn.Sequential(*layers, *head), truncated=True)


class FixupBlock(nn.Module):
    """Fixup: no norm; the second convolution begins at 0, the first is scaled by blocks^-½; scalar biases."""

    def __init__(self, width, blocks):
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.biases, self.scale = nn.Parameter(torch.zeros(4)), nn.Parameter(torch.ones(1))
        nn.init.normal_(self.conv1.weight, std=(2 / (9 * width)) ** 0.5 * blocks**-0.5)
        zero_(self.conv2)

    def forward(self, x):
        y = F.relu(self.conv1(x + self.biases[0]) + self.biases[1])
        return F.relu(x + self.scale * self.conv2(y + self.biases[2]) + self.biases[3])


def fixup(width=32, blocks=8) -> nn.Module:
    """A Fixup ResNet: the head begins at 0 too."""
    stem = nn.Conv2d(1, width, 3, padding=1, bias=False)
    nn.init.normal_(stem.weight, std=(2 / (9 * width)) ** 0.5)
    body = [FixupBlock(width, blocks) for _ in range(blocks)]
    return nn.Sequential(
        stem, nn.ReLU(), *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), zero_(nn.Linear(width, CLASSES))
    )


MEMBERS = (
    Member("ResNet-18", "He et al. 2016; torchvision", resnet18, lambda n: photographs(n, 64), cross_entropy),
    Member("ResNet-50", "He et al. 2016; torchvision", resnet50, lambda n: photographs(n, 64), cross_entropy),
    Member("ResNet-50 zero", "Goyal et al. 2017", resnet50_zero, lambda n: photographs(n, 64), cross_entropy),
    Member("ResNet-20", "He et al. 2016, section 4.2", cifar_resnet, digits, cross_entropy),
    Member("PreAct-ResNet", "He et al. 2016b", preact, photographs, cross_entropy),
    Member("WideResNet", "Zagoruyko, Komodakis 2016", lambda: preact((32, 64, 128), 2, 0.3), photographs,
           cross_entropy),
    Member("DenseNet-BC", "Huang et al. 2017; torchvision", densenet, photographs, cross_entropy),
    Member("MobileNetV2", "Sandler et al. 2018; torchvision", mobilenet2, lambda n: photographs(n, 64),
           cross_entropy),
    Member("EfficientNet", "Tan, Le 2019; torchvision", efficientnet, lambda n: photographs(n, 64), cross_entropy),
    Member("ConvNeXt", "Liu et al. 2022", convnext, photographs, cross_entropy),
    Member("Fixup", "Zhang et al. 2019", fixup, digits, cross_entropy),
)  # fmt: skip
