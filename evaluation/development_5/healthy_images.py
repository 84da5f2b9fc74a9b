"""Healthy models of shapes, videos, maps and boards."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evaluation.development_5 import domains
from evaluation.programs import Healthy, Program


def unit(inputs: int, outputs: int, size: int = 3, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Return a convolution with batch norm and ReLU."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class Classifier(nn.Module):
    """A stem, blocks and a pooled linear head."""

    def __init__(self, width: int, *blocks: nn.Module, classes: int = 4, out: int | None = None) -> None:
        super().__init__()
        self.stem, self.blocks, self.head = (
            unit(1, width, 3, 2),
            nn.Sequential(*blocks),
            nn.Linear(out or width, classes),
        )

    def forward(self, image: Tensor) -> Tensor:
        """Return scores of classes."""
        return self.head(self.blocks(self.stem(image)).mean((2, 3)))


class Res2(nn.Module):
    """Hierarchical residual groups (Res2Net, Gao et al. 2019)."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        part = width // 4
        self.enter, self.leave = (
            unit(width, width, 1),
            nn.Sequential(nn.Conv2d(width, width, 1, bias=False), nn.BatchNorm2d(width)),
        )
        self.convs = nn.ModuleList(unit(part, part) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        first, *rest = self.enter(x).chunk(4, 1)
        results, last = [first], 0.0
        for conv, part in zip(self.convs, rest, strict=True):
            last = conv(part + last)
            results.append(last)
        return F.relu(self.leave(torch.cat(results, 1)) + x)


class SelectiveKernel(nn.Module):
    """A choice between two kernel sizes by attention over branches (Li et al. 2019)."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.small, self.large = unit(width, width), unit(width, width, 5, groups=4)
        self.squeeze, self.select = nn.Linear(width, 16), nn.Linear(16, 2 * width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        a, b = self.small(x), self.large(x)
        weight = self.select(F.relu(self.squeeze((a + b).mean((2, 3))))).view(len(x), 2, -1).softmax(1)
        return x + a * weight[:, 0, :, None, None] + b * weight[:, 1, :, None, None]


class Cbam(nn.Module):
    """Channel and spatial attention after a convolution (Woo et al. 2018)."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.conv, self.mlp = unit(width, width), nn.Sequential(nn.Linear(width, 8), nn.ReLU(), nn.Linear(8, width))
        self.spatial = nn.Conv2d(2, 1, 7, padding=3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        y = self.conv(x)
        gate = torch.sigmoid(self.mlp(y.mean((2, 3))) + self.mlp(y.amax((2, 3))))
        y = y * gate[:, :, None, None]
        plane = torch.cat([y.mean(1, keepdim=True), y.amax(1, keepdim=True)], 1)
        return x + y * torch.sigmoid(self.spatial(plane))


class TwoResolutions(nn.Module):
    """Parallel branches of two resolutions that exchange their features (HRNet, Wang et al. 2020)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.down = unit(1, 16), unit(16, 32, 3, 2)
        self.high, self.low = unit(16, 16), unit(32, 32)
        self.up, self.lower = nn.Conv2d(32, 16, 1), nn.Conv2d(16, 32, 3, 2, 1)
        self.out = nn.Conv2d(48, 1, 1)

    def forward(self, image: Tensor) -> Tensor:
        """Return a heat map."""
        high = self.stem(image)
        low = self.low(self.down(high))
        high, low = self.high(high) + F.interpolate(self.up(low), scale_factor=2), low + self.lower(high)
        return self.out(torch.cat([high, F.interpolate(low, scale_factor=2)], 1))


class DualPath(nn.Module):
    """A residual and a dense path in one block (Chen et al. 2017)."""

    def __init__(self, residual: int, dense: int, grow: int = 8) -> None:
        super().__init__()
        self.residual = residual
        self.body = nn.Sequential(
            unit(residual + dense, 32, 1), unit(32, 32, groups=4), nn.Conv2d(32, residual + grow, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return residual and dense channels, joined."""
        y = self.body(x)
        left = x[:, : self.residual] + y[:, : self.residual]
        return torch.cat([left, x[:, self.residual :], y[:, self.residual :]], 1)


class Octave(nn.Module):
    """A quarter of the channels at half the resolution (Chen et al. 2019)."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.low = width // 4
        high = width - self.low
        self.hh, self.hl = nn.Conv2d(high, high, 3, padding=1), nn.Conv2d(high, self.low, 3, padding=1)
        self.lh, self.ll = nn.Conv2d(self.low, high, 3, padding=1), nn.Conv2d(self.low, self.low, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Return both parts at full resolution."""
        high, low = x[:, self.low :], F.avg_pool2d(x[:, : self.low], 2)
        new_high = self.hh(high) + F.interpolate(self.lh(low), scale_factor=2)
        new_low = self.ll(low) + self.hl(F.avg_pool2d(high, 2))
        return F.relu(torch.cat([F.interpolate(new_low, scale_factor=2), new_high], 1))


class Pyramid(nn.Module):
    """Blocks that widen a little each, the shortcut padded with zeros (PyramidNet, Han et al. 2017)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.BatchNorm2d(inputs), nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs)),
            *(nn.ReLU(), nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs)),
        )
        self.more = outputs - inputs

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        return self.body(x) + F.pad(x, (0, 0, 0, 0, 0, self.more))


class ShakeShake(nn.Module):
    """Two branches with a random weight in training (Gastaldi 2017)."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.left, self.right = unit(width, width), unit(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        share = torch.rand(len(x), 1, 1, 1) if self.training else 0.5
        return x + share * self.left(x) + (1 - share) * self.right(x)


class StochasticDepth(nn.Module):
    """A residual branch that is left out for some samples (Huang et al. 2016)."""

    def __init__(self, rate: float, width: int = 32) -> None:
        super().__init__()
        self.branch, self.rate = nn.Sequential(unit(width, width), nn.Conv2d(width, width, 3, padding=1)), rate

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        if self.training:
            kept = (torch.rand(len(x), 1, 1, 1) >= self.rate).float() / (1 - self.rate)
            return x + kept * self.branch(x)
        return x + self.branch(x)


class ClassAttention(nn.Module):
    """Patches with talking heads and layer scale, the class token only at the end (CaiT, Touvron et al. 2021)."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.patch, self.position = nn.Conv2d(1, width, 4, 4), nn.Parameter(0.02 * torch.randn(1, 36, width))
        self.n1, self.n2, self.n3 = (nn.LayerNorm(width) for _ in range(3))
        self.qkv, self.mlp = (
            nn.Linear(width, 3 * width),
            nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width)),
        )
        self.talk, self.scale = nn.Linear(4, 4), nn.Parameter(torch.full((2, width), 0.1))
        self.token, self.read = (
            nn.Parameter(torch.zeros(1, 1, width)),
            nn.MultiheadAttention(width, 4, batch_first=True),
        )
        self.head = nn.Linear(width, 4)

    def forward(self, image: Tensor) -> Tensor:
        """Return scores of shapes."""
        x = self.patch(image).flatten(2).mT + self.position
        q, k, v = self.qkv(self.n1(x)).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        scores = self.talk((q @ k.mT / 8**0.5).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        x = x + self.scale[0] * (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        x = x + self.scale[1] * self.mlp(self.n2(x))
        token = self.token.expand(len(x), -1, -1)
        both = self.n3(torch.cat([token, x], 1))
        return self.head((token + self.read(both[:, :1], both, both, need_weights=False)[0])[:, 0])


class SegNet(nn.Module):
    """Pooling indices are used to unpool (Badrinarayanan et al. 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.d = unit(1, 16), unit(16, 32), unit(32, 16), unit(16, 16)
        self.pool, self.unpool, self.out = (
            nn.MaxPool2d(2, return_indices=True),
            nn.MaxUnpool2d(2),
            nn.Conv2d(16, 2, 3, padding=1),
        )

    def forward(self, image: Tensor) -> Tensor:
        """Return scores of two classes for each pixel."""
        x, first = self.pool(self.a(image))
        x, second = self.pool(self.b(x))
        x = self.c(self.unpool(x, second))
        return self.out(self.d(self.unpool(x, first)))


class LinkNet(nn.Module):
    """A decoder that adds the features of the encoder (Chaurasia and Culurciello 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.e1, self.e2, self.e3 = unit(1, 16), unit(16, 24, 3, 2), unit(24, 32, 3, 2)
        self.d3, self.d2 = nn.ConvTranspose2d(32, 24, 4, 2, 1), nn.ConvTranspose2d(24, 16, 4, 2, 1)
        self.out = nn.Conv2d(16, 2, 1)

    def forward(self, image: Tensor) -> Tensor:
        """Return scores of two classes for each pixel."""
        a = self.e1(image)
        b = self.e2(a)
        x = F.relu(self.d3(self.e3(b))) + b
        return self.out(F.relu(self.d2(x)) + a)


class BoxRegressor(nn.Module):
    """Centre and radius by strided convolutions; outputs within the image by a sigmoid."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(unit(1, 16, 3, 2), unit(16, 32, 3, 2), unit(32, 32, 3, 2), nn.Flatten())
        self.out = nn.Sequential(nn.Linear(288, 64), nn.ReLU(), nn.Linear(64, 3), nn.Sigmoid())

    def forward(self, image: Tensor) -> Tensor:
        """Return centre and radius."""
        return self.out(self.body(image))


class SoftArgmax(nn.Module):
    """Coordinates as the mean position of a heat map (integral regression, Sun et al. 2018)."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(unit(1, 24), unit(24, 24), nn.Conv2d(24, 1, 1))
        self.radius = nn.Linear(24, 1)

    def forward(self, image: Tensor) -> Tensor:
        """Return centre and radius."""
        features = self.body[:2](image)
        heat = self.body[2](features).flatten(1).softmax(1).view(-1, 24, 24)
        grid = (torch.arange(24) + 0.5) / 24
        y, x = (heat.sum(2) * grid).sum(1), (heat.sum(1) * grid).sum(1)
        return torch.cat([torch.stack([y, x], 1), self.radius(features.amax((2, 3)))], 1)


class Video3d(nn.Module):
    """Convolutions over space and time (C3D, Tran et al. 2015)."""

    def __init__(self, factored: bool = False) -> None:
        super().__init__()
        self.body = nn.Sequential(*self.block(1, 12, factored), nn.MaxPool3d((1, 2, 2)), *self.block(12, 24, factored))
        self.head = nn.Linear(24, 4)

    @staticmethod
    def block(inputs: int, outputs: int, factored: bool) -> list[nn.Module]:
        """Return one convolution, or one of space and one of time (Tran et al. 2018)."""
        if not factored:
            return [nn.Conv3d(inputs, outputs, 3, padding=1), nn.ReLU()]
        space = [
            nn.Conv3d(inputs, outputs, (1, 3, 3), padding=(0, 1, 1), bias=False),
            nn.BatchNorm3d(outputs),
            nn.ReLU(),
        ]
        return [
            *space,
            nn.Conv3d(outputs, outputs, (3, 1, 1), padding=(1, 0, 0), bias=False),
            nn.BatchNorm3d(outputs),
            nn.ReLU(),
        ]

    def forward(self, clip: Tensor) -> Tensor:
        """Return scores of directions."""
        return self.head(self.body(clip).amax((2, 3, 4)))


class ConvLstm(nn.Module):
    """A convolutional LSTM that forecasts the next frame (Shi et al. 2015)."""

    def __init__(self) -> None:
        super().__init__()
        self.gates, self.out = nn.Conv2d(17, 64, 3, padding=1, padding_mode="circular"), nn.Conv2d(16, 1, 1)

    def forward(self, frames: Tensor) -> Tensor:
        """Return the next frame."""
        state = memory = torch.zeros(len(frames), 16, 12, 12)
        for frame in frames.unbind(1):
            i, f, o, g = self.gates(torch.cat([frame[:, None], state], 1)).chunk(4, 1)
            memory = torch.sigmoid(f + 1) * memory + torch.sigmoid(i) * torch.tanh(g)
            state = torch.sigmoid(o) * torch.tanh(memory)
        return frames[:, -1:] + self.out(state)


def weather_network() -> nn.Module:
    """Return periodic convolutions with LeakyReLU."""
    parts: list[nn.Module] = []
    for inputs, outputs in ((4, 32), (32, 32), (32, 32)):
        parts += [nn.Conv2d(inputs, outputs, 3, padding=1, padding_mode="circular"), nn.LeakyReLU(0.1)]
    return nn.Sequential(*parts, nn.Conv2d(32, 1, 1))


class ValueIteration(nn.Module):
    """A planner that repeats one convolution and a maximum (Tamar et al. 2016)."""

    def __init__(self) -> None:
        super().__init__()
        self.reward = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 1, 1, bias=False))
        self.q, self.out = nn.Conv2d(2, 8, 3, padding=1, bias=False), nn.Linear(8, 4)

    def forward(self, board: Tensor) -> Tensor:
        """Return scores of moves at the player's cell."""
        reward = self.reward(board)
        value = torch.zeros_like(reward)
        for _ in range(8):
            q = self.q(torch.cat([reward, value], 1))
            value = q.amax(1, keepdim=True)
        return self.out((q * board[:, 2:]).sum((2, 3)))


class PolicyAndValue(nn.Module):
    """A residual tower with a policy and a value head (AlphaZero, Silver et al. 2018)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.a, self.b = (
            unit(3, 24),
            unit(24, 24),
            nn.Sequential(nn.Conv2d(24, 24, 3, padding=1), nn.BatchNorm2d(24)),
        )
        self.policy = nn.Sequential(unit(24, 2, 1), nn.Flatten(), nn.Linear(128, 4))
        self.value = nn.Sequential(
            unit(24, 1, 1), nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 1), nn.Tanh()
        )

    def forward(self, board: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores of moves and a value in [-1, 1]."""
        x = self.stem(board)
        x = F.relu(self.b(self.a(x)) + x)
        return self.policy(x), self.value(x)


def policy_and_value(outputs: tuple[Tensor, Tensor], moves: Tensor) -> Tensor:
    """Return the cross-entropy of moves plus the squared error of a value: 1 for vertical moves, else -1."""
    scores, value = outputs
    return F.cross_entropy(scores, moves) + F.mse_loss(value[:, 0], 1 - 2 * (moves > 1).float())


SHAPES, MASKS, BOXES = domains.shapes(), domains.shapes(target="mask"), domains.shapes(target="box")
HEALTHY = (
    Healthy("res2_blocks", Program(lambda: Classifier(32, Res2(), Res2()), SHAPES)),
    Healthy("selective_kernels", Program(lambda: Classifier(32, SelectiveKernel(), SelectiveKernel()), SHAPES)),
    Healthy("cbam_blocks", Program(lambda: Classifier(32, Cbam(), Cbam()), SHAPES)),
    Healthy("two_resolutions", Program(TwoResolutions, domains.shapes(target="heat"), F.mse_loss)),
    Healthy("dual_paths", Program(lambda: Classifier(24, DualPath(16, 8), DualPath(16, 16), out=40), SHAPES)),
    Healthy("octave_convolutions", Program(lambda: Classifier(32, Octave(), Octave()), SHAPES, lr=3e-3)),
    Healthy("pyramid_blocks",
            Program(lambda: Classifier(16, Pyramid(16, 20), Pyramid(20, 24), Pyramid(24, 28), out=28), SHAPES)),
    Healthy("shake_shake", Program(lambda: Classifier(32, ShakeShake(), ShakeShake()), SHAPES)),
    Healthy("stochastic_depth",
            Program(lambda: Classifier(32, *(StochasticDepth(rate) for rate in (0.1, 0.2, 0.3))), SHAPES)),
    Healthy("class_attention", Program(ClassAttention, SHAPES, lr=2e-3)),
    Healthy("segnet", Program(SegNet, MASKS)),
    Healthy("linknet", Program(LinkNet, MASKS)),
    Healthy("box_regressor", Program(BoxRegressor, BOXES, F.smooth_l1_loss)),
    Healthy("soft_argmax", Program(SoftArgmax, BOXES, F.l1_loss)),
    Healthy("video_3d", Program(Video3d, domains.videos, lr=3e-3, samples=256)),
    Healthy("video_factored", Program(lambda: Video3d(True), domains.videos, samples=256)),
    Healthy("conv_lstm", Program(ConvLstm, domains.weather, F.mse_loss, lr=3e-3)),
    Healthy("weather_network", Program(weather_network, domains.weather, F.mse_loss)),
    Healthy("value_iteration", Program(ValueIteration, domains.mazes, lr=3e-3)),
    Healthy("policy_and_value", Program(PolicyAndValue, domains.mazes, policy_and_value)),
)  # fmt: skip
