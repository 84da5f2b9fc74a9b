"""Well-known networks, written from their published descriptions; ``width`` sets the channels of the first layer."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Function(nn.Module):
    """A function as a module that is looked into."""

    def __init__(self, function, **modules):
        super().__init__()
        self.function = function
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, x):
        return self.function(self, x)


def norm(channels, batch_norm):
    return nn.BatchNorm2d(channels) if batch_norm else nn.Identity()


class BasicBlock(nn.Module):
    """ResNet v1: the skip is added before the last activation."""

    def __init__(self, inputs, outputs, stride=1, batch_norm=True):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = norm(outputs, batch_norm)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = norm(outputs, batch_norm)
        self.relu = nn.ReLU(inplace=True)
        self.down = None
        if stride > 1 or inputs != outputs:
            self.down = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm(outputs, batch_norm))

    def forward(self, x):
        skip = x if self.down is None else self.down(x)
        x = self.norm2(self.conv2(self.relu(self.norm1(self.conv1(x)))))
        x += skip
        return self.relu(x)


class PreActivationBlock(nn.Module):
    """ResNet v2: the skip carries sums of weight layers only."""

    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)

    def forward(self, x):
        return x + self.conv2(F.relu(self.conv1(torch.relu(x))))


class Bottleneck(nn.Module):
    """ResNet-50's block: 1×1 to a quarter of the channels, 3×3, 1×1 back."""

    def __init__(self, inputs, outputs, stride=1, batch_norm=True):
        super().__init__()
        width = outputs // 4
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.norm1 = norm(width, batch_norm)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.norm2 = norm(width, batch_norm)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.norm3 = norm(outputs, batch_norm)
        self.down = None
        if stride > 1 or inputs != outputs:
            self.down = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm(outputs, batch_norm))

    def forward(self, x):
        skip = x if self.down is None else self.down(x)
        x = F.relu(self.norm1(self.conv1(x)))
        x = F.relu(self.norm2(self.conv2(x)))
        return F.relu(self.norm3(self.conv3(x)) + skip)


RESNET_BLOCKS = {18: (BasicBlock, 1, (2, 2, 2, 2)), 50: (Bottleneck, 4, (3, 4, 6, 3))}


def resnet(depth, width=64, *, batch_norm=True, classes=1000):
    """ResNet-18 and ResNet-50 (v1): 7×7 stem and max pooling, four stages, global pooling."""
    block, expansion, counts = RESNET_BLOCKS[depth]
    layers = [nn.Conv2d(3, width, 7, 2, 3, bias=False), norm(width, batch_norm), nn.ReLU(inplace=True)]
    layers.append(nn.MaxPool2d(3, 2, 1))
    inputs = width
    for stage, count in enumerate(counts):
        outputs = expansion * width * 2**stage
        for index in range(count):
            layers.append(block(inputs, outputs, 2 if stage and not index else 1, batch_norm))
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def preactivation_resnet(width):
    return nn.Sequential(
        nn.Conv2d(3, width, 3, 2, 1), PreActivationBlock(width), PreActivationBlock(width), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 50),
    )  # fmt: skip


VGG_BLOCKS = {16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


def vgg(depth, width=64, hidden=4096, classes=1000):
    """VGG-16 (D) and VGG-19 (E): blocks of 3×3 convolutions, each halved by max pooling, then three Linear layers."""
    layers, inputs = [], 3
    for block, count in enumerate(VGG_BLOCKS[depth]):
        outputs = width * min(2**block, 8)
        for _ in range(count):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(inplace=True)]
            inputs = outputs
        layers.append(nn.MaxPool2d(2))
    head = [
        nn.Flatten(), nn.Linear(inputs, hidden), nn.ReLU(True), nn.Dropout(), nn.Linear(hidden, hidden), nn.ReLU(True),
        nn.Dropout(), nn.Linear(hidden, classes),
    ]  # fmt: skip
    return nn.Sequential(*layers, *head).eval()


class InvertedResidual(nn.Module):
    """MobileNetV2: widen, filter each channel by itself, narrow."""

    def __init__(self, inputs, outputs, stride, widen):
        super().__init__()
        hidden = widen * inputs
        first = [nn.Conv2d(inputs, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(inplace=True)]
        self.body = nn.Sequential(
            *(first if widen > 1 else []),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False), nn.BatchNorm2d(hidden),
            nn.ReLU6(inplace=True), nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.skip = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.body(x) if self.skip else self.body(x)


MOBILENET_STAGES = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip


def mobilenet(width=32, classes=1000):
    """MobileNetV2 with its 17 blocks; ``width`` of the stem, 32 as published, scales all."""
    scale = width / 32
    layers = [nn.Conv2d(3, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU6(inplace=True)]
    inputs = width
    for widen, channels, count, stride in MOBILENET_STAGES:
        outputs = round(scale * channels)
        for index in range(count):
            layers.append(InvertedResidual(inputs, outputs, 1 if index else stride, widen))
            inputs = outputs
    last = round(1280 * scale)
    layers += [nn.Conv2d(inputs, last, 1, bias=False), nn.BatchNorm2d(last), nn.ReLU6(inplace=True)]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(last, classes)
    ).eval()


class ConvNeXtBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 5, padding=2, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(0.3 * torch.ones(width))

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + (self.gamma * self.narrow(F.gelu(self.wide(y)))).permute(0, 3, 1, 2)


def convnext(width):
    return nn.Sequential(
        nn.Conv2d(3, width, 4, 4), ConvNeXtBlock(width), ConvNeXtBlock(width), nn.AdaptiveAvgPool2d(1), nn.Flatten(1),
        nn.LayerNorm(width), nn.Linear(width, 50),
    )  # fmt: skip


class UNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.down1, self.down2 = self.double(3, width), self.double(width, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.last = self.double(2 * width, width)

    @staticmethod
    def double(inputs, outputs):
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(True),
            nn.Conv2d(outputs, outputs, 3, padding=1), nn.ReLU(True),
        )  # fmt: skip

    def forward(self, x):
        fine = self.down1(x)
        coarse = self.down2(F.max_pool2d(fine, 2))
        return self.last(torch.cat([self.up(coarse), fine], dim=1))


class DenseNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, 2, 1)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(k * width), nn.ReLU(), nn.Conv2d(k * width, width, 3, padding=1))
            for k in (1, 2, 3)
        )
        self.transition = nn.Sequential(nn.BatchNorm2d(4 * width), nn.ReLU(), nn.Conv2d(4 * width, width, 1))
        self.head = nn.Linear(width, 50)

    def forward(self, x):
        features = [self.first(x)]
        for layer in self.layers:
            features.append(layer(torch.cat(features, 1)))
        x = F.avg_pool2d(self.transition(torch.cat(features, 1)), 2).relu()
        return self.head(F.adaptive_avg_pool2d(x, (1, 1)).view(x.size(0), -1))


class Mixer(nn.Module):
    def __init__(self, width, tokens=16):
        super().__init__()
        self.embed = nn.Conv2d(3, width, 4, 4)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens = nn.Sequential(nn.Linear(tokens, width), nn.GELU(), nn.Linear(width, tokens))
        self.channels = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return (x + self.channels(self.norm2(x))).mean(dim=1)


class ViT(nn.Module):
    def __init__(self, width, tokens=16):
        super().__init__()
        self.embed = nn.Conv2d(3, width, 4, 4)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.place = nn.Parameter(0.02 * torch.ones(1, tokens + 1, width))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.head = nn.Linear(width, 50)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.place
        y = self.norm1(x)
        x = x + self.attention(y, y, y)[0]
        return self.head((x + self.mlp(self.norm2(x)))[:, 0])


class Shared(nn.Module):
    """One convolution used three times."""

    def __init__(self, width):
        super().__init__()
        self.first, self.again = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        x = self.first(x)
        for _ in range(3):
            x = self.again(torch.relu(x))
        return x


class DictInput(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.left, self.right, self.out = nn.Linear(20, width), nn.Linear(10, width), nn.Linear(width, 50)

    def forward(self, batch):
        return {"out": self.out(torch.tanh(self.left(batch["u"]) + self.right(batch["v"])))}


class Branching(nn.Module):
    """Looks at its data, so that it cannot be traced symbolically."""

    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Linear(12, width), nn.Linear(width, width)

    def forward(self, x):
        x = self.first(x)
        if x.shape[0] > 0 and bool(torch.isfinite(x).all()):
            x = torch.relu(x)
        return self.second(x.view(x.shape[0], -1))


MODELS = {
    "VGG-16": lambda width: vgg(16, width, 8 * width, 50),
    "VGG-19": lambda width: vgg(19, width, 8 * width, 50),
    "ResNet-18": lambda width: resnet(18, width).eval(),
    "ResNet-18 plain": lambda width: resnet(18, width, batch_norm=False),
    "ResNet-18 train": lambda width: resnet(18, width).train(),
    "ResNet-50": lambda width: resnet(50, width).eval(),
    "ResNet-50 plain": lambda width: resnet(50, width, batch_norm=False),
    "ResNet v2": preactivation_resnet,
    "MobileNetV2": mobilenet,
    "ConvNeXt": convnext,
    "U-Net": UNet,
    "DenseNet": lambda width: DenseNet(width).eval(),
    "Mixer": Mixer,
    "ViT": ViT,
    "shared": Shared,
}
