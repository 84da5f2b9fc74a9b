"""Networks of pictures in the styles of known repositories: compact, detecting, self-supervised, without norms."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from evaluation.declared import network
from evaluation.development_1.data import pictures


def _shuffle(x, groups):
    n, c, h, w = x.shape
    return x.view(n, groups, c // groups, h, w).transpose(1, 2).contiguous().view(n, c, h, w)


@network(pictures())
def shufflenet_v2() -> nn.Module:
    class Unit(nn.Module):
        def __init__(self, inp, oup, stride):
            super().__init__()
            self.stride, half = stride, oup // 2
            self.branch1 = nn.Sequential()
            if stride > 1:
                self.branch1 = nn.Sequential(
                    nn.Conv2d(inp, inp, 3, stride, 1, groups=inp, bias=False), nn.BatchNorm2d(inp),
                    nn.Conv2d(inp, half, 1, bias=False), nn.BatchNorm2d(half), nn.ReLU(inplace=True),
                )  # fmt: skip
            self.branch2 = nn.Sequential(
                nn.Conv2d(inp if stride > 1 else half, half, 1, bias=False), nn.BatchNorm2d(half),
                nn.ReLU(inplace=True), nn.Conv2d(half, half, 3, stride, 1, groups=half, bias=False),
                nn.BatchNorm2d(half), nn.Conv2d(half, half, 1, bias=False), nn.BatchNorm2d(half), nn.ReLU(inplace=True),
            )  # fmt: skip

        def forward(self, x):
            if self.stride == 1:
                x1, x2 = x.chunk(2, dim=1)
                out = torch.cat((x1, self.branch2(x2)), dim=1)
            else:
                out = torch.cat((self.branch1(x), self.branch2(x)), dim=1)
            return _shuffle(out, 2)

    return nn.Sequential(
        nn.Conv2d(3, 24, 3, 2, 1, bias=False), nn.BatchNorm2d(24), nn.ReLU(inplace=True),
        Unit(24, 48, 2), Unit(48, 48, 1), Unit(48, 96, 2), Unit(96, 96, 1), Unit(96, 96, 1),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, 10),
    )  # fmt: skip


@network(pictures())
def squeezenet() -> nn.Module:
    class Fire(nn.Module):
        def __init__(self, inp, squeeze, expand):
            super().__init__()
            self.squeeze = nn.Conv2d(inp, squeeze, 1)
            self.expand1x1 = nn.Conv2d(squeeze, expand, 1)
            self.expand3x3 = nn.Conv2d(squeeze, expand, 3, padding=1)

        def forward(self, x):
            x = F.relu(self.squeeze(x), inplace=True)
            return torch.cat([F.relu(self.expand1x1(x)), F.relu(self.expand3x3(x))], 1)

    final = nn.Conv2d(128, 10, 1)
    net = nn.Sequential(
        nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(inplace=True), Fire(32, 16, 32), Fire(64, 16, 32), nn.MaxPool2d(2),
        Fire(64, 24, 64), Fire(128, 24, 64), nn.Dropout(0.5), final, nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )  # fmt: skip
    for m in net.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.normal_(m.weight, 0.0, 0.01) if m is final else nn.init.kaiming_uniform_(m.weight)
            nn.init.zeros_(m.bias)
    return net


def _with_aux(out, labels):
    logits, aux = out
    return F.cross_entropy(logits, labels) + 0.3 * F.cross_entropy(aux, labels)


@network(pictures(), loss=_with_aux)
def inception_with_auxiliary_head() -> nn.Module:
    def basic(i, o, k, **kw):
        return nn.Sequential(nn.Conv2d(i, o, k, bias=False, **kw), nn.BatchNorm2d(o, eps=0.001), nn.ReLU(inplace=True))

    class Inception(nn.Module):
        def __init__(self, i, o1, r3, o3, r5, o5, pool):
            super().__init__()
            self.b1 = basic(i, o1, 1)
            self.b2 = nn.Sequential(basic(i, r3, 1), basic(r3, o3, 3, padding=1))
            self.b3 = nn.Sequential(basic(i, r5, 1), basic(r5, o5, 5, padding=2))
            self.b4 = nn.Sequential(nn.MaxPool2d(3, 1, 1), basic(i, pool, 1))

        def forward(self, x):
            return torch.cat([b(x) for b in (self.b1, self.b2, self.b3, self.b4)], 1)

    class GoogLeNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(basic(3, 32, 3, padding=1), nn.MaxPool2d(2))
            self.inc1, self.inc2 = Inception(32, 16, 16, 32, 4, 8, 8), Inception(64, 32, 24, 48, 6, 16, 16)
            self.aux = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(1024, 64), nn.ReLU(),
                                     nn.Dropout(0.7), nn.Linear(64, 10))  # fmt: skip
            self.pool, self.dropout, self.fc = nn.AdaptiveAvgPool2d(1), nn.Dropout(0.4), nn.Linear(112, 10)

        def forward(self, x):
            x = self.inc1(self.stem(x))
            aux = self.aux(x)
            x = self.inc2(F.max_pool2d(x, 2))
            return self.fc(self.dropout(self.pool(x).flatten(1))), aux

    return GoogLeNet()


class SEBottleneck(nn.Module):
    def __init__(self, c, stride=1, reduction=8):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(c, c // 2, 1, bias=False), nn.BatchNorm2d(c // 2)
        self.conv2, self.bn2 = nn.Conv2d(c // 2, c // 2, 3, stride, 1, bias=False), nn.BatchNorm2d(c // 2)
        self.conv3, self.bn3 = nn.Conv2d(c // 2, c, 1, bias=False), nn.BatchNorm2d(c)
        self.fc1, self.fc2 = nn.Linear(c, c // reduction), nn.Linear(c // reduction, c)
        nn.init.zeros_(self.bn3.weight)

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        w = out.mean((2, 3))
        w = torch.sigmoid(self.fc2(F.relu(self.fc1(w))))
        return F.relu(x + out * w[:, :, None, None])


@network(pictures())
def se_resnet_zero_gamma() -> nn.Module:
    net = nn.Sequential(
        nn.Conv2d(3, 64, 3, 2, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(), *[SEBottleneck(64) for _ in range(4)],
        nn.AvgPool2d(2), *[SEBottleneck(64) for _ in range(2)], nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(64, 10),
    )  # fmt: skip
    for m in net.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
    return net


@network(pictures(), rate=3e-4)
def vgg_plain_torchvision_init() -> nn.Module:
    cfg, layers, c = [32, "M", 64, "M", 128, 128, "M", 128, 128, "M"], [], 3
    for v in cfg:
        if v == "M":
            layers += [nn.MaxPool2d(2, 2)]
        else:
            layers += [nn.Conv2d(c, v, 3, padding=1), nn.ReLU(True)]
            c = v
    net = nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(512, 256), nn.ReLU(True), nn.Dropout(),
        nn.Linear(256, 256), nn.ReLU(True), nn.Dropout(), nn.Linear(256, 10),
    )  # fmt: skip
    for m in net.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            nn.init.constant_(m.bias, 0)
        elif isinstance(m, nn.Linear):
            nn.init.normal_(m.weight, 0, 0.01)
            nn.init.constant_(m.bias, 0)
    return net


@network(pictures())
def normalizer_free_resnet() -> nn.Module:
    class WSConv2d(nn.Conv2d):
        def forward(self, x):
            w = self.weight
            var, mean = torch.var_mean(w, dim=(1, 2, 3), keepdim=True)
            w = (w - mean) * torch.rsqrt(var * w[0].numel() + 1e-4)
            return F.conv2d(x, w, self.bias, self.stride, self.padding)

    class Block(nn.Module):
        def __init__(self, c, alpha, beta):
            super().__init__()
            self.alpha, self.beta = alpha, beta
            self.conv1, self.conv2 = WSConv2d(c, c, 3, padding=1), WSConv2d(c, c, 3, padding=1)
            self.skip_gain = nn.Parameter(torch.zeros(()))

        def forward(self, x):
            out = F.relu(x) * 1.7139588594436646 * self.beta
            out = self.conv2(F.relu(self.conv1(out)) * 1.7139588594436646)
            return out * self.skip_gain * self.alpha + x

    blocks, expected = [], 1.0
    for _ in range(4):
        blocks.append(Block(48, 0.2, 1 / expected**0.5))
        expected += 0.2**2
    return nn.Sequential(WSConv2d(3, 48, 3, 2, 1), *blocks, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(48, 10))  # fmt: skip


@network(pictures())
def fixup_resnet() -> nn.Module:
    depth = 6

    class Block(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.bias1a, self.bias1b = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
            self.bias2a, self.bias2b = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
            self.scale = nn.Parameter(torch.ones(1))
            self.conv1, self.conv2 = nn.Conv2d(c, c, 3, 1, 1, bias=False), nn.Conv2d(c, c, 3, 1, 1, bias=False)
            nn.init.normal_(self.conv1.weight, std=math.sqrt(2 / (c * 9)) * depth**-0.5)
            nn.init.zeros_(self.conv2.weight)

        def forward(self, x):
            out = F.relu(self.conv1(x + self.bias1a) + self.bias1b)
            return F.relu(self.conv2(out + self.bias2a) * self.scale + self.bias2b + x)

    head = nn.Linear(32, 10)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), *[Block(32) for _ in range(depth)],
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)  # fmt: skip


@network(pictures(28, 1))
def spatial_transformer() -> nn.Module:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.localization = nn.Sequential(
                nn.Conv2d(1, 8, 7), nn.MaxPool2d(2, 2), nn.ReLU(True),
                nn.Conv2d(8, 10, 5), nn.MaxPool2d(2, 2), nn.ReLU(True),
            )  # fmt: skip
            self.fc_loc = nn.Sequential(nn.Linear(90, 32), nn.ReLU(True), nn.Linear(32, 6))
            self.fc_loc[2].weight.data.zero_()
            self.fc_loc[2].bias.data.copy_(torch.tensor([1, 0, 0, 0, 1, 0], dtype=torch.float))
            self.conv1, self.conv2, self.conv2_drop = nn.Conv2d(1, 10, 5), nn.Conv2d(10, 20, 5), nn.Dropout2d()
            self.fc1, self.fc2 = nn.Linear(320, 50), nn.Linear(50, 10)

        def forward(self, x):
            theta = self.fc_loc(self.localization(x).view(-1, 90)).view(-1, 2, 3)
            x = F.grid_sample(x, F.affine_grid(theta, x.size(), align_corners=False), align_corners=False)
            x = F.relu(F.max_pool2d(self.conv1(x), 2))
            x = F.relu(F.max_pool2d(self.conv2_drop(self.conv2(x)), 2))
            x = F.dropout(F.relu(self.fc1(x.view(-1, 320))), training=self.training)
            return self.fc2(x)

    return Net()


@network(pictures(28, 1), loss=lambda out, y: _margin(out, y))
def capsules_with_routing() -> nn.Module:
    def squash(s):
        n2 = (s**2).sum(-1, keepdim=True)
        return n2 / (1 + n2) * s / (n2.sqrt() + 1e-8)

    class Capsules(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.primary = nn.Conv2d(1, 32, 9, 2), nn.Conv2d(32, 32, 3, 2)
            self.W = nn.Parameter(0.1 * torch.randn(1, 64, 10, 8, 8))

        def forward(self, x):
            u = squash(self.primary(F.relu(self.conv1(x))).view(len(x), 4, 8, -1).permute(0, 1, 3, 2).flatten(1, 2))
            u_hat = (self.W @ u[:, :, None, :, None]).squeeze(-1)
            b = torch.zeros(len(x), 64, 10, 1)
            for i in range(3):
                v = squash((F.softmax(b, dim=2) * u_hat).sum(1))
                if i < 2:
                    b = b + (u_hat * v.unsqueeze(1)).sum(-1, keepdim=True)
            return v.norm(dim=-1)

    return Capsules()


def _margin(lengths, labels):
    t = F.one_hot(labels, 10).float()
    return (t * F.relu(0.9 - lengths) ** 2 + 0.5 * (1 - t) * F.relu(lengths - 0.1) ** 2).sum(1).mean()


@network(pictures(), rate=3e-3)
def convmixer() -> nn.Module:
    class Residual(nn.Module):
        def __init__(self, fn):
            super().__init__()
            self.fn = fn

        def forward(self, x):
            return self.fn(x) + x

    dim = 64
    return nn.Sequential(
        nn.Conv2d(3, dim, 4, 4), nn.GELU(), nn.BatchNorm2d(dim),
        *[nn.Sequential(
            Residual(nn.Sequential(nn.Conv2d(dim, dim, 5, groups=dim, padding="same"), nn.GELU(), nn.BatchNorm2d(dim))),
            nn.Conv2d(dim, dim, 1), nn.GELU(), nn.BatchNorm2d(dim)) for _ in range(4)],
        nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(dim, 10),
    )  # fmt: skip
