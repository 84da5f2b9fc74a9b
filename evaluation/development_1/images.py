"""Networks that read pictures, each in its own hand."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F

from evaluation.declared import network
from evaluation.development_1.data import masks, pictures


@network(pictures(28, 1))
def lenet_of_a_tutorial() -> nn.Module:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(1, 10, kernel_size=5)
            self.conv2 = nn.Conv2d(10, 20, kernel_size=5)
            self.conv2_drop = nn.Dropout2d()
            self.fc1 = nn.Linear(320, 50)
            self.fc2 = nn.Linear(50, 10)

        def forward(self, x):
            x = F.relu(F.max_pool2d(self.conv1(x), 2))
            x = F.relu(F.max_pool2d(self.conv2_drop(self.conv2(x)), 2))
            x = x.view(-1, 320)
            x = F.relu(self.fc1(x))
            x = F.dropout(x, training=self.training)
            return self.fc2(x)

    return Net()


@network(pictures(28, 1), loss=F.nll_loss)
def mnist_with_log_softmax() -> nn.Module:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(1, 32, 3, 1)
            self.conv2 = nn.Conv2d(32, 64, 3, 1)
            self.dropout1 = nn.Dropout(0.25)
            self.dropout2 = nn.Dropout(0.5)
            self.fc1 = nn.Linear(9216, 128)
            self.fc2 = nn.Linear(128, 10)

        def forward(self, x):
            x = F.relu(self.conv1(x))
            x = F.relu(self.conv2(x))
            x = self.dropout1(F.max_pool2d(x, 2))
            x = self.dropout2(F.relu(self.fc1(torch.flatten(x, 1))))
            return F.log_softmax(self.fc2(x), dim=1)

    return Net()


@network(pictures())
def keras_style_cnn() -> nn.Module:
    def stage(before, after, drop):
        return [
            nn.Conv2d(before, after, 3, padding="same"),
            nn.ELU(),
            nn.BatchNorm2d(after),
            nn.Conv2d(after, after, 3, padding="same"),
            nn.ELU(),
            nn.BatchNorm2d(after),
            nn.MaxPool2d(2),
            nn.Dropout(drop),
        ]

    return nn.Sequential(
        *stage(3, 32, 0.2), *stage(32, 64, 0.3), *stage(64, 128, 0.4), nn.Flatten(), nn.Linear(2048, 10)
    )


def conv_bn(before, after, kernel=3, stride=1, groups=1, act=nn.ReLU):
    return nn.Sequential(
        nn.Conv2d(before, after, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(after), act()
    )


@network(pictures())
def resnet9() -> nn.Module:
    class Residual(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def forward(self, x):
            return x + self.module(x)

    class Scale(nn.Module):
        def forward(self, x):
            return 0.125 * x

    return nn.Sequential(
        conv_bn(3, 32),
        conv_bn(32, 64),
        nn.MaxPool2d(2),
        Residual(nn.Sequential(conv_bn(64, 64), conv_bn(64, 64))),
        conv_bn(64, 128),
        nn.MaxPool2d(2),
        conv_bn(128, 128),
        Residual(nn.Sequential(conv_bn(128, 128), conv_bn(128, 128))),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(128, 10, bias=False),
        Scale(),
    )


class SqueezeExcite(nn.Module):
    def __init__(self, channels, hidden, gate=nn.Sigmoid):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(channels, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, channels), gate())

    def forward(self, x):
        weights = self.fc(x.mean((2, 3)))
        return x * weights[:, :, None, None]


class InvertedResidual(nn.Module):
    def __init__(self, before, after, expand, stride, act, se=True, gate=nn.Sigmoid):
        super().__init__()
        hidden = before * expand
        self.skip = stride == 1 and before == after
        self.body = nn.Sequential(
            conv_bn(before, hidden, 1, act=act),
            conv_bn(hidden, hidden, 3, stride, groups=hidden, act=act),
            SqueezeExcite(hidden, max(4, hidden // 4), gate) if se else nn.Identity(),
            nn.Conv2d(hidden, after, 1, bias=False),
            nn.BatchNorm2d(after),
        )

    def forward(self, x):
        return x + self.body(x) if self.skip else self.body(x)


@network(pictures(48))
def efficientnet() -> nn.Module:
    rows = [
        (16, 16, 1, 1),
        (16, 24, 6, 2),
        (24, 24, 6, 1),
        (24, 40, 6, 2),
        (40, 40, 6, 1),
        (40, 80, 6, 2),
        (80, 80, 6, 1),
    ]
    return nn.Sequential(
        conv_bn(3, 16, 3, 2, act=nn.SiLU),
        *[InvertedResidual(*row, nn.SiLU) for row in rows],
        conv_bn(80, 320, 1, act=nn.SiLU),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(320, 10),
    )


@network(pictures(48))
def mobilenet_v3() -> nn.Module:
    rows = [
        (16, 16, 1, 2),
        (16, 24, 4, 2),
        (24, 24, 4, 1),
        (24, 40, 4, 2),
        (40, 40, 6, 1),
        (40, 48, 3, 1),
        (48, 96, 6, 1),
    ]
    model = nn.Sequential(
        conv_bn(3, 16, 3, 1, act=nn.Hardswish),
        *[
            InvertedResidual(*row, nn.Hardswish if i > 2 else nn.ReLU, i != 1, nn.Hardsigmoid)
            for i, row in enumerate(rows)
        ],
        conv_bn(96, 288, 1, act=nn.Hardswish),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(288, 256),
        nn.Hardswish(),
        nn.Dropout(0.2),
        nn.Linear(256, 10),
    )
    for m in model.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_out")
        elif isinstance(m, nn.Linear):
            nn.init.normal_(m.weight, 0, 0.01)
            nn.init.zeros_(m.bias)
    return model


@network(pictures())
def densenet() -> nn.Module:
    class Layer(nn.Module):
        def __init__(self, before, growth):
            super().__init__()
            self.bn1, self.conv1 = nn.BatchNorm2d(before), nn.Conv2d(before, 4 * growth, 1, bias=False)
            self.bn2, self.conv2 = nn.BatchNorm2d(4 * growth), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

        def forward(self, x):
            out = self.conv1(F.relu(self.bn1(x)))
            return torch.cat([x, self.conv2(F.relu(self.bn2(out)))], 1)

    layers, width = [nn.Conv2d(3, 24, 3, padding=1, bias=False)], 24
    for stage in range(3):
        for _ in range(4):
            layers.append(Layer(width, 12))
            width += 12
        if stage < 2:
            layers += [conv_bn(width, width // 2, 1), nn.AvgPool2d(2)]
            width //= 2
    return nn.Sequential(
        *layers, nn.BatchNorm2d(width), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)
    )


@network(pictures())
def resnext() -> nn.Module:
    class Block(nn.Module):
        def __init__(self, before, after, stride):
            super().__init__()
            self.conv1 = conv_bn(before, after // 2, 1)
            self.conv2 = conv_bn(after // 2, after // 2, 3, stride, groups=8)
            self.conv3 = nn.Conv2d(after // 2, after, 1, bias=False)
            self.bn3 = nn.BatchNorm2d(after)
            nn.init.zeros_(self.bn3.weight)
            self.shortcut = nn.Identity()
            if stride > 1 or before != after:
                self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

        def forward(self, x):
            return F.relu(self.bn3(self.conv3(self.conv2(self.conv1(x)))) + self.shortcut(x))

    blocks = [
        Block(32, 64, 1),
        Block(64, 64, 1),
        Block(64, 128, 2),
        Block(128, 128, 1),
        Block(128, 256, 2),
        Block(256, 256, 1),
    ]
    return nn.Sequential(conv_bn(3, 32), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10))


@network(pictures())
def convnext() -> nn.Module:
    class LayerNorm2d(nn.LayerNorm):
        def forward(self, x):
            return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    class Block(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.dwconv = nn.Conv2d(dim, dim, 7, padding=3, groups=dim)
            self.norm = nn.LayerNorm(dim, eps=1e-6)
            self.pwconv1, self.pwconv2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
            self.gamma = nn.Parameter(1e-6 * torch.ones(dim))

        def forward(self, x):
            y = self.dwconv(x).permute(0, 2, 3, 1)
            y = self.pwconv2(F.gelu(self.pwconv1(self.norm(y))))
            return x + (self.gamma * y).permute(0, 3, 1, 2)

    model = nn.Sequential(
        nn.Conv2d(3, 48, 4, 4), LayerNorm2d(48), Block(48), Block(48),
        LayerNorm2d(48), nn.Conv2d(48, 96, 2, 2), Block(96), Block(96), Block(96),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(96), nn.Linear(96, 10),
    )  # fmt: skip
    for m in model.modules():
        if isinstance(m, (nn.Conv2d, nn.Linear)):
            nn.init.trunc_normal_(m.weight, std=0.02)
            nn.init.zeros_(m.bias)
    return model


class DoubleConv(nn.Module):
    def __init__(self, before, after, norm=nn.BatchNorm2d):
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(before, after, 3, padding=1, bias=False), norm(after), nn.ReLU(inplace=True),
            nn.Conv2d(after, after, 3, padding=1, bias=False), norm(after), nn.ReLU(inplace=True),
        )  # fmt: skip

    def forward(self, x):
        return self.double_conv(x)


@network(masks())
def unet_milesial() -> nn.Module:
    class UNet(nn.Module):
        def __init__(self, widths=(16, 32, 64, 128)):
            super().__init__()
            self.inc = DoubleConv(3, widths[0])
            self.downs = nn.ModuleList(nn.Sequential(nn.MaxPool2d(2), DoubleConv(a, b)) for a, b in pairwise(widths))
            self.ups = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairwise(widths))
            self.merges = nn.ModuleList(DoubleConv(2 * a, a) for a in widths[:-1])
            self.outc = nn.Conv2d(widths[0], 3, 1)

        def forward(self, x):
            skips = [self.inc(x)]
            for down in self.downs:
                skips.append(down(skips[-1]))
            x = skips.pop()
            for up, merge in zip(reversed(self.ups), reversed(self.merges), strict=True):
                x = merge(torch.cat([skips.pop(), up(x)], dim=1))
            return self.outc(x)

    return UNet()


@network(masks())
def unet_attention_gates() -> nn.Module:
    class Gate(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.theta, self.phi = nn.Conv2d(channels, channels // 2, 1), nn.Conv2d(channels, channels // 2, 1)
            self.psi = nn.Conv2d(channels // 2, 1, 1)

        def forward(self, skip, gating):
            return skip * torch.sigmoid(self.psi(F.relu(self.theta(skip) + self.phi(gating))))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            norm = lambda c: nn.GroupNorm(8, c)  # noqa: E731
            self.enc1, self.enc2, self.mid = DoubleConv(3, 24, norm), DoubleConv(24, 48, norm), DoubleConv(48, 96, norm)
            self.red2, self.red1 = nn.Conv2d(96, 48, 1), nn.Conv2d(48, 24, 1)
            self.gate2, self.gate1 = Gate(48), Gate(24)
            self.dec2, self.dec1 = DoubleConv(96, 48, norm), DoubleConv(48, 24, norm)
            self.head = nn.Conv2d(24, 3, 1)

        def forward(self, x):
            one = self.enc1(x)
            two = self.enc2(F.max_pool2d(one, 2))
            y = self.mid(F.max_pool2d(two, 2))
            y = self.red2(F.interpolate(y, scale_factor=2, mode="bilinear"))
            y = self.dec2(torch.cat([self.gate2(two, y), y], 1))
            y = self.red1(F.interpolate(y, scale_factor=2, mode="bilinear"))
            return self.head(self.dec1(torch.cat([self.gate1(one, y), y], 1)))

    return Net()
