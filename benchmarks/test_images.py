"""Prediction for image pairs against running the layer: ratios within one run, threads pinned.

    pytest benchmarks/test_images.py

Times are processor times of all threads, the least of several, taken in turns: a busy machine changes no ratio.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from measuring import in_turns

from initscope.theory.images import expected_cosine

PAIRS, SIZE = 200, 224


@pytest.fixture(autouse=True, params=[1, 2], ids=lambda n: f"{n}-threads")
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def images():
    x, y = torch.rand(2, PAIRS, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    expected_cosine(x, y, kernel_size=11)  # loads the compiled loops
    return x, y


def test_against_convolution_with_100_filters(benchmark, images):
    """At least 100 × faster than a bare conv2d + ReLU of the same 400 images (20 of them timed, times 20)."""
    layer = torch.nn.Conv2d(3, 100, 11, padding=5, bias=False)
    some = images[0][:20]

    @torch.no_grad()
    def convolve():
        torch.relu(layer(some))

    def predict():
        expected_cosine(*images, kernel_size=11)

    convolution, prediction = in_turns(convolve, predict, repeats=3)
    benchmark.extra_info["ratio"] = ratio = 20 * convolution / prediction
    benchmark.pedantic(expected_cosine, args=images, kwargs={"kernel_size": 11}, rounds=3)
    print(f"\nconvolution {20 * convolution:.1f} s, prediction {prediction:.3f} s: {ratio:.0f} times faster")
    assert ratio >= 100


def test_time_does_not_depend_on_the_filter_size(benchmark, images):
    """31×31 against 3×3 within a factor 1.5."""
    calls = [lambda k=k: expected_cosine(*images, kernel_size=k) for k in (3, 11, 31)]
    small, middle, large = in_turns(*calls, repeats=7)
    benchmark.extra_info["ratio"] = large / small
    benchmark.pedantic(calls[2], rounds=3)
    print(f"\n3×3 {small:.3f} s, 11×11 {middle:.3f} s, 31×31 {large:.3f} s: ratio {large / small:.2f}")
    assert large / small <= 1.5


@pytest.mark.parametrize("what", ["pairs", "pixels"])
def test_time_is_linear(benchmark, images, what):
    """Four times the pairs or the pixels take at most four times as long, within 30 %."""
    x, y = images
    if what == "pairs":
        small = x[: PAIRS // 4], y[: PAIRS // 4]
    else:
        small = tuple(v[..., : SIZE // 2, : SIZE // 2].contiguous() for v in images)
    few, many = in_turns(
        *(lambda pair=pair: expected_cosine(*pair, kernel_size=11) for pair in (small, images)), repeats=7
    )
    benchmark.extra_info["ratio"] = many / few
    benchmark.pedantic(expected_cosine, args=small, kwargs={"kernel_size": 11}, rounds=3)
    print(f"\n{many / few:.2f} times the time for 4 times the {what}")
    assert many / few < 4 * 1.3


MEMORY = """
import pathlib, sys, torch
from initscope.theory import _fast
from initscope.theory.images import expected_cosine
torch.set_num_threads(2)
if sys.argv[1] == "arrays":
    import initscope.theory.images._layer as layer
    layer.fused_loops = lambda *arrays, entries: None
_fast.WORTH_COMPILING = 0
expected_cosine(torch.rand(4, 3, 64, 64), torch.rand(4, 3, 64, 64), kernel_size=11)
x, y = torch.rand(200, 3, 224, 224), torch.rand(200, 3, 224, 224)
def peak():  # not getrusage: its maximum is inherited from the process that started this one
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
before = peak()
expected_cosine(x, y, kernel_size=11)
print((peak() - before) / (x.nbytes + y.nbytes))
"""


@pytest.mark.parametrize("path", ["compiled", "arrays"])
def test_peak_extra_memory(path, threads):
    """Under 4 × the size of the input, measured in a fresh process; holds for both paths."""
    if threads != 2:
        pytest.skip("measured once, with 2 threads")
    run = subprocess.run([sys.executable, "-c", MEMORY, path], capture_output=True, text=True, check=True)
    print(f"\nextra memory ({path}): {float(run.stdout):.3f} of the input's size")
    assert float(run.stdout) < 4
