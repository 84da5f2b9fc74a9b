"""Prediction against running the network: ratios of CPU time within one run, one thread, the slow side on few."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from measuring import in_turns
from torch import nn

import initscope


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Bottleneck(nn.Module):
    """Block of ResNet-50: 1×1, 3×3, 1×1, batch-normed, the skip added before the last activation."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.down = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.down = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return F.relu(self.body(x) + self.down(x))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for index in range(count):
            layers.append(Bottleneck(inputs, width, stride if index == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_resnet50_takes_less_than_ten_forward_passes(mode):
    model = resnet50().train(mode == "train")
    x, y = torch.rand(2, 64, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    both, predictions = torch.cat([x, y]), []
    with torch.no_grad():
        ours, run = in_turns(lambda: predictions.append(initscope.predict(model, x, y)), lambda: model(both), repeats=2)
    print(f"{mode}: predicted in {ours:.1f} s, {ours / run:.1f} forward passes")
    assert all(row.status != "not covered" for row in predictions[0].rows)
    assert ours < 10 * run


@pytest.fixture(scope="module")
def images():
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(200, 3, 224, 224, generator=generator) for _ in range(2)]


def layer(size):
    return nn.Sequential(nn.Conv2d(3, 100, size, padding=size // 2), nn.ReLU())


def test_one_layer_is_100_times_faster_than_running_it(images):
    model = layer(11)
    few = images[0][:4]
    with torch.no_grad():
        some, ours = in_turns(
            lambda: F.relu(F.conv2d(few, model[0].weight, padding=5)), lambda: initscope.predict(model, *images)
        )
    run = some * 400 / len(few)
    print(f"400 images run in {run:.2f} s, 200 pairs predicted in {ours:.3f} s: {run / ours:.0f} times")
    assert run > 100 * ours


PEAK = """
import resource, torch, initscope
from torch import nn
torch.set_num_threads(1)
model = nn.Sequential(nn.Conv2d(3, 100, 11, padding=5), nn.ReLU())
x, y = torch.rand(2, 200, 3, 224, 224)
initscope.predict(model, x[:40], y[:40])  # load what has to be loaded
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
initscope.predict(model, x, y)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / (2 * x.numel() * 4))
"""


def test_peak_memory_is_below_four_times_the_input():
    result = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True)
    share = float(result.stdout)
    print(f"peak resident memory grows by {share:.2f} of the input")
    assert share < 4


def test_time_does_not_depend_on_the_filter_size(images):
    pairs = [side[:60] for side in images]
    models = layer(3), layer(31)
    small, large = in_turns(*(lambda model=model: initscope.predict(model, *pairs) for model in models), repeats=9)
    print(f"31 × 31 against 3 × 3: {large / small:.2f}")
    assert large < 1.5 * small


def test_fifty_layers_cost_at_most_fifty_times_one(images):
    pairs = [side[:20] for side in images]
    deep = [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU()]
    for _ in range(49):
        deep += [nn.Conv2d(16, 16, 3, padding=1), nn.ReLU()]
    models = nn.Sequential(*deep), nn.Sequential(*deep[:2])
    many, one = in_turns(*(lambda model=model: initscope.predict(model, *pairs) for model in models))
    print(f"50 layers against 1: {many / one:.1f}")
    assert many < 50 * one
