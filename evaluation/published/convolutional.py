"""Convolutional classifiers without skips: LeNet, AlexNet, VGG, SqueezeNet, Inception, NiN, a self-normalising one."""

from __future__ import annotations

import torch
from torch import nn

from evaluation.published.by_width import vgg
from evaluation.published.initialization import fan_out_, xavier_
from evaluation.published.losses import cross_entropy
from evaluation.published.members import Member
from evaluation.published.samples import digits, large_digits, photographs

CLASSES = 10


def lenet() -> nn.Module:
    """LeNet-5 with tanh, torch's own start."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, CLASSES),
    )  # fmt: skip


def alexnet() -> nn.Module:
    """AlexNet in miniature: five convolutions, dropout before dense layers; torch's own start, as in torchvision."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 5, 2, 2), nn.ReLU(True), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(True),
        nn.MaxPool2d(2), nn.Conv2d(64, 96, 3, padding=1), nn.ReLU(True), nn.Conv2d(96, 64, 3, padding=1),
        nn.ReLU(True), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(True), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Dropout(), nn.Linear(256, 256), nn.ReLU(True), nn.Dropout(), nn.Linear(256, 256), nn.ReLU(True),
        nn.Linear(256, CLASSES),
    )  # fmt: skip


def vgg16() -> nn.Module:
    """VGG-16 as torchvision starts it: He by fan out; dense layers of a quarter the width and twice the deviation."""
    return fan_out_(vgg(16, 32, 1024, CLASSES), linear=0.02).train()


def vgg_batch_norm() -> nn.Module:
    """VGG-11 with batch norm for 32×32 images."""
    layers: list[nn.Module] = []
    inputs = 3
    for channels in (32, "M", 64, "M", 128, 128, "M", 128, 128, "M"):
        if channels == "M":
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(inputs, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(True)]
            inputs = channels
    return fan_out_(nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, CLASSES)), linear=0.01)


class Fire(nn.Module):
    """SqueezeNet's module: squeeze, then expand by 1×1 and 3×3 side by side."""

    def __init__(self, inputs: int, squeezed: int, expanded: int):
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeezed, 1)
        self.small, self.large = nn.Conv2d(squeezed, expanded, 1), nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, x):
        x = torch.relu(self.squeeze(x))
        return torch.cat([torch.relu(self.small(x)), torch.relu(self.large(x))], dim=1)


def squeezenet() -> nn.Module:
    """SqueezeNet 1.1 in miniature: He uniform, the last convolution normal of .01."""
    last = nn.Conv2d(128, CLASSES, 1)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, 2), nn.ReLU(True), nn.MaxPool2d(3, 2, ceil_mode=True), Fire(32, 16, 32), Fire(64, 16, 32),
        nn.MaxPool2d(3, 2, ceil_mode=True), Fire(64, 16, 64), Fire(128, 16, 64), nn.Dropout(), last, nn.ReLU(True),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
    nn.init.normal_(last.weight, std=0.01)
    return model


def _convolution(inputs: int, outputs: int, size: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, padding=size // 2, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(True)
    )


class Inception(nn.Module):
    """GoogLeNet's module with batch norm: four branches of different reach."""

    def __init__(self, inputs: int, width: int):
        super().__init__()
        self.branches = nn.ModuleList([
            _convolution(inputs, width, 1),
            nn.Sequential(_convolution(inputs, width // 2, 1), _convolution(width // 2, width, 3)),
            nn.Sequential(_convolution(inputs, width // 2, 1), _convolution(width // 2, width, 5)),
            nn.Sequential(nn.MaxPool2d(3, 1, 1), _convolution(inputs, width, 1)),
        ])  # fmt: skip

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], dim=1)


def inception() -> nn.Module:
    """GoogLeNet in miniature: truncated normal weights of .01 before batch norm, as in torchvision."""
    model = nn.Sequential(
        _convolution(3, 32, 3), nn.MaxPool2d(2), Inception(32, 16), Inception(64, 16), nn.MaxPool2d(2),
        Inception(64, 24), Inception(96, 24), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2),
        nn.Linear(96, CLASSES),
    )  # fmt: skip
    for layer in model.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            nn.init.trunc_normal_(layer.weight, std=0.01, a=-2, b=2)
    return model


def network_in_network() -> nn.Module:
    """NiN: convolutions followed by 1×1 convolutions, global pooling for a head; Glorot's law."""

    def block(inputs, outputs, size):
        return [
            nn.Conv2d(inputs, outputs, size, padding=size // 2), nn.ReLU(), nn.Conv2d(outputs, outputs, 1), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 1), nn.ReLU(),
        ]  # fmt: skip

    return xavier_(nn.Sequential(
        *block(3, 32, 5), nn.MaxPool2d(2), nn.Dropout(), *block(32, 32, 5), nn.MaxPool2d(2), nn.Dropout(),
        *block(32, 32, 3), nn.Conv2d(32, CLASSES, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    ))  # fmt: skip


def all_convolutional() -> nn.Module:
    """All-convolutional net with SELU and LeCun's law: self-normalising (Klambauer et al. 2017)."""
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.SELU(), nn.Conv2d(32, 32, 3, 2, padding=1), nn.SELU(),
        nn.Conv2d(32, 64, 3, padding=1), nn.SELU(), nn.Conv2d(64, 64, 3, 2, padding=1), nn.SELU(), nn.Flatten(),
        nn.Linear(256, 64), nn.SELU(), nn.Linear(64, CLASSES),
    )  # fmt: skip
    for layer in model.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="linear")
            nn.init.zeros_(layer.bias)
    return model


MEMBERS = (
    Member("LeNet-5", "LeCun et al. 1998", lenet, large_digits, cross_entropy),
    Member("AlexNet", "Krizhevsky et al. 2012; torchvision", alexnet, photographs, cross_entropy),
    Member("VGG-16", "Simonyan, Zisserman 2015; torchvision", vgg16, photographs, cross_entropy),
    Member("VGG-BN", "Simonyan, Zisserman 2015; torchvision", vgg_batch_norm, photographs, cross_entropy),
    Member("SqueezeNet", "Iandola et al. 2016; torchvision", squeezenet, photographs, cross_entropy),
    Member("GoogLeNet", "Szegedy et al. 2015; torchvision", inception, photographs, cross_entropy),
    Member("NiN", "Lin et al. 2014; Zhang et al. 2023, section 8.3", network_in_network, photographs, cross_entropy),
    Member("SELU net", "Klambauer et al. 2017", all_convolutional, digits, cross_entropy),
)
