"""What ``initscope demo`` costs beside its bare convolutions, on one thread.

    pytest benchmarks/test_demo.py

The whole command in a process of its own, from its start to the written page, against the calls of ``conv2d`` that its
measured forward passes make: 8 draws, 12 layers, 20 crops of 32×32, 96 filters of 3×3. Processor times, the least of
several, in turns.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

DRAWS, LAYERS, CROPS, SIDE, WIDTH = 8, 12, 20, 32, 96


def demo(folder) -> float:
    """Processor time of the command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = "import sys; from initscope.cli import main; sys.exit(main(['demo']))"
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", code], check=True, cwd=folder, env=environment, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def bare_convolutions() -> float:
    """Processor time of the convolutions alone: inputs padded, weights drawn and memory warm before."""
    inputs = {channels: torch.rand(CROPS, channels, SIDE + 2, SIDE + 2) for channels in (3, WIDTH)}
    weights = {channels: torch.randn(WIDTH, channels, 3, 3) for channels in (3, WIDTH)}
    channels = [3] + [WIDTH] * (LAYERS - 1)
    for first in (3, WIDTH):
        F.conv2d(inputs[first], weights[first])
    start = time.process_time()
    for _ in range(DRAWS):
        for count in channels:
            F.conv2d(inputs[count], weights[count])
    return time.process_time() - start


def test_the_demo_costs_at_most_three_times_its_convolutions(benchmark, tmp_path):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    demo(tmp_path)  # what is compiled and cached once

    def turns() -> tuple[float, float]:
        pairs = [(demo(tmp_path), bare_convolutions()) for _ in range(3)]
        return min(ours for ours, _ in pairs), min(bare for _, bare in pairs)

    with torch.no_grad():
        ours, bare = benchmark.pedantic(turns, rounds=1)
    torch.set_num_threads(threads)
    benchmark.extra_info.update(demo=ours, convolutions=bare, ratio=ours / bare)
    print(f"\ndemo: {ours:.2f} s, its convolutions: {bare:.2f} s, ratio {ours / bare:.2f} (at most 3)")
    assert ours <= 3 * bare
