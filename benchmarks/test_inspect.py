"""What `inspect` costs beside training: in forward and backward passes of the same network over the same images.

    pytest benchmarks/test_inspect.py                # four blocks of a ResNet, 48 images of 32×32
    PYTHONPATH=. python benchmarks/test_inspect.py alexnet  # or vit_b16, resnet50: at real size, some minutes

Times are processor times, the least of several, in turns, on one thread.
"""

from __future__ import annotations

import sys
import time

import pytest
import torch
import torch.nn.functional as F
from evaluation.published import full_size
from measuring import in_turns
from test_measurement import resnet50
from torch import nn

from initscope import inspect
from initscope.inspection import what_if

IMAGES, SIZE = 48, 32
REAL = {
    "alexnet": (full_size.alexnet, 16, 224),
    "vit_b16": (full_size.vit_b16, 8, 224),
    "resnet50": (resnet50, 16, 224),
}
"""Network, number of images and their side."""


def images(count: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(count, 3, size, size, generator=generator), torch.arange(count) % 10


def one_pass(model: nn.Module, x: torch.Tensor, classes: torch.Tensor) -> None:
    model.zero_grad()
    F.cross_entropy(model(x), classes).backward()


def without_alternatives(model: nn.Module, x: torch.Tensor, classes: torch.Tensor) -> None:
    inspect(model, x, pairs=len(x) // 2, alternatives=False)


def with_alternatives(model: nn.Module, x: torch.Tensor, classes: torch.Tensor) -> None:
    """Of a healthy network nothing is tried, so the trials are asked for."""
    half = len(x) // 2
    inspect(model, x, pairs=half, alternatives=False)
    what_if(model, x[:half], x[half:])


@pytest.mark.parametrize(("call", "passes", "repeats"), [(without_alternatives, 5, 5), (with_alternatives, 40, 2)])
def test_passes(benchmark, call, passes, repeats):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    given = (full_size.resnet_of_four_blocks(), *images(IMAGES, SIZE))
    calls = [lambda: call(*given), lambda: one_pass(*given)]
    ours, bare = benchmark.pedantic(in_turns, args=calls, kwargs={"repeats": repeats}, rounds=1)
    torch.set_num_threads(before)
    benchmark.extra_info.update(inspect=ours, bare=bare, ratio=ours / bare)
    print(f"\n{call.__name__}: {ours:.2f} s, a pass: {bare:.3f} s, {ours / bare:.1f} passes (at most {passes})")
    assert ours <= passes * bare


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    build, count, size = REAL[sys.argv[1]]
    model, (x, classes) = build(), images(count, size)
    (bare,) = in_turns(lambda: one_pass(model, x, classes), repeats=2)
    start = time.process_time()
    report = inspect(model, x, pairs=count // 2, alternatives=False)
    looked = time.process_time() - start
    start = time.process_time()
    table = what_if(model, x[: count // 2], x[count // 2 :])
    tried = time.process_time() - start
    print(f"{sys.argv[1]}: {count} images of {size}×{size}, a pass {bare:.2f} s, {report.conclusion}")
    print(f"inspect {looked:.1f} s, {looked / bare:.1f} passes; the trials {tried:.1f} s, {tried / bare:.1f} passes")
    print(f"tried {len(table.alternatives)} starts; left out: {table.skipped}")
