"""What measuring costs beside running: a ResNet-50, 64 images of 64×64, on one thread.

    pytest benchmarks/test_measurement.py

Times are processor times, the least of several, the two sides of a ratio in turns, on one thread.
Peak memory is that of a fresh process each, everything loaded counted in (Linux).

A copy of the weights is kept and compared at the end, so that nothing a forward does can change them: without it and
the tracing, which do not grow with the data, geometry would cost 1.2 forward passes.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from measuring import in_turns
from torch import nn

from initscope.measurement import observe

IMAGES, SIZE = 64, 64


class Bottleneck(nn.Module):
    """1×1, 3×3, 1×1 convolutions with batch norm, and a skip."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.skip = nn.Sequential()
        if stride > 1 or inputs != 4 * width:
            self.skip = nn.Sequential(nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.relu(self.bn1(self.conv1(x)))
        inner = self.relu(self.bn2(self.conv2(inner)))
        return self.relu(self.bn3(self.conv3(inner)) + self.skip(x))


def resnet50() -> nn.Module:
    """The network of He et al. 2016, table 1, as it is before training."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    inputs = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            layers.append(Bottleneck(inputs, width, stride if block == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)).eval()


def images() -> torch.Tensor:
    return torch.randn(IMAGES, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))


def forward(model: nn.Module, x: torch.Tensor) -> None:
    with torch.no_grad():
        model(x)


def forward_and_backward(model: nn.Module, x: torch.Tensor) -> None:
    model.zero_grad()
    model(x).square().sum().backward()


def geometry(model: nn.Module, x: torch.Tensor) -> None:
    observe(model, x, pairs=IMAGES // 2, gradients=False, units=False)


def geometry_and_units(model: nn.Module, x: torch.Tensor) -> None:
    observe(model, x, pairs=IMAGES // 2, gradients=False)


def gradients(model: nn.Module, x: torch.Tensor) -> None:
    observe(model, x, pairs=IMAGES // 2)


CASES = [
    ("geometry", "forward", 1.45),
    ("geometry_and_units", "forward", 1.9),
    ("gradients", "forward_and_backward", 1.5),
]


@pytest.mark.parametrize(("measured", "bare", "limit"), CASES)
def test_time(benchmark, measured, bare, limit):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    model, x = resnet50(), images()
    calls = [globals()[name] for name in (measured, bare)]
    ours, theirs = benchmark.pedantic(in_turns, args=[lambda c=call: c(model, x) for call in calls], rounds=1)
    torch.set_num_threads(before)
    benchmark.extra_info.update(measured=ours, bare=theirs, ratio=ours / theirs)
    print(f"\n{measured}: {ours:.3f} s, {bare}: {theirs:.3f} s, ratio {ours / theirs:.3f} (at most {limit})")
    assert ours <= limit * theirs


@pytest.mark.parametrize(("measured", "bare", "limit"), [(*case[:2], 1.45) for case in CASES])
def test_peak_memory(measured, bare, limit):
    peaks = [
        int(subprocess.run([sys.executable, __file__, name], check=True, capture_output=True, text=True).stdout)
        for name in (measured, bare)
    ]
    print(f"\n{measured}: {peaks[0] / 1024:.0f} MB, {bare}: {peaks[1] / 1024:.0f} MB, ratio {peaks[0] / peaks[1]:.3f}")
    assert peaks[0] <= limit * peaks[1]


if __name__ == "__main__":
    torch.set_num_threads(1)
    network, batch = resnet50(), images()
    for _ in range(2):
        globals()[sys.argv[1]](network, batch)
    # Not getrusage: a child inherits the peak of the process that started it.
    status = Path("/proc/self/status").read_text()
    print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))
