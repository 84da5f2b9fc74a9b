"""What ``./run bench`` measures. A case is a function that returns rows; its docstring stands above its table."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np
from gpt2 import gpt2
from measuring import Row, against_peer, exponent, in_turns, seconds

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "neural_tangents"))


def _with_neural_tangents(
    label: str, case: str, ours: int, theirs: int, batches: tuple[int, ...], wanted: str, peer_case: str = ""
) -> Row:
    """The best of its ways to batch; seconds for each pair where the numbers of images differ."""
    from compare import ours as run_ours, peer as run_peer

    mine = run_ours(case, ours, 32)
    best = min(
        (run_peer("time", peer_case or case, theirs, 32, batch) for batch in batches), key=lambda found: found["cpu"]
    )
    scale = 1.0 if ours == theirs else 1 / ours
    other = 1.0 if ours == theirs else 1 / theirs
    return Row(
        label, mine["cpu"] * scale, mine["wall"] * scale, "neural-tangents", best["cpu"] * other, best["wall"] * other,
        wanted, mine["memory"], best["memory"],
    )  # fmt: skip


def kernel_matrix() -> list[Row]:
    """Kernel matrix of 256 images 32×32×3; memory is its growth over what the libraries take."""
    run = _with_neural_tangents
    return [
        run("one 11×11 layer", "matrix-one", 256, 256, (0,), "≥ 15, memory < 1/3"),
        run("ten 3×3 layers", "matrix-ten", 256, 256, (0,), "≥ 15, memory < 1/3"),
    ]


def kernel_pairs() -> list[Row]:
    """200 pairs of images 32×32×3 beside vmapped pairs, both float32 and compiled before, the peer with its best batch.

    `predict` gives the rows of all layers and traces the model at every call.
    """
    batches = (0, 1, 8, 50)

    def run(label: str, case: str, wanted: str = "≥ 5", peer_case: str = "") -> Row:
        return _with_neural_tangents(label, case, 200, 200, batches, wanted, peer_case)

    return [
        run("PairKernel, one 11×11 layer", "pairs-one"),
        run("expected_cosine, the same", "formula-one", peer_case="pairs-one"),
        run("PairKernel, ten 11×11 layers", "pairs-wide"),
        run("PairKernel, ten 3×3 layers", "pairs-ten"),
        run("predict, one 11×11 layer", "predict-one", "", "pairs-one"),
        run("predict, ten 11×11 layers", "predict-wide", "", "pairs-wide"),
        run("predict, ten 3×3 layers", "predict-ten", "", "pairs-ten"),
    ]


def kernel_pooling() -> list[Row]:
    """Global average pooling behind one 11×11 layer, images 32×32×3: seconds a pair (64 pairs of ours, 2 of theirs)."""
    return [_with_neural_tangents("one pair", "pooled-one", 64, 2, (1,), "≥ 50, memory < 2000")]


def prediction() -> list[Row]:
    """`predict` of 64 pairs against a bare forward pass of both sides."""
    import torch

    import initscope
    from initscope.models import load_model

    x, y = torch.rand(2, 64, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    rows = []
    for name in ("conv3x3x64-relu*8", "dense1000-relu*10"):
        model = load_model(name, input_shape=(3, 32, 32))
        with torch.no_grad():
            rows.append(
                against_peer(
                    name, partial(initscope.predict, model, x, y), "forward", partial(model, torch.cat([x, y]))
                )
            )
    return rows


def hashing() -> list[Row]:
    """Encoding against the bare matrix product, search against faiss's exhaustive search."""
    import faiss

    from initscope.embed import HammingIndex, SignHash

    faiss.omp_set_num_threads(1)
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((20_000, 384), dtype=np.float32)
    hasher = SignHash(bits=64).fit(rows[:1000])
    weights = np.ascontiguousarray(hasher.weights_.T)
    codes = rng.integers(0, 256, (500_000, 8), dtype=np.uint8)
    ours, theirs = HammingIndex(64), faiss.IndexBinaryFlat(64)
    ours.add(codes)
    theirs.add(codes)
    return [
        against_peer("encode 20,000 × 384 to 64 bits", partial(hasher.transform, rows), "GEMM", lambda: rows @ weights),
        against_peer(
            "10 nearest of 500,000 codes, 200 queries", partial(ours.search, codes[:200], 10), "faiss",
            partial(theirs.search, codes[:200], 10),
        ),
    ]  # fmt: skip


def features() -> list[Row]:
    """Random features of 5,000 × 384 rows against scikit-learn's Gaussian projection of the same size."""
    from sklearn.random_projection import GaussianRandomProjection

    from initscope.embed import ReLUFeatures

    rows = np.random.default_rng(0).standard_normal((5_000, 384), dtype=np.float32)
    ours = ReLUFeatures(1024).fit(rows)
    theirs = GaussianRandomProjection(1024, random_state=0).fit(rows)
    theirs.components_ = theirs.components_.astype(np.float32)
    return [
        against_peer("1024 features", partial(ours.transform, rows), "scikit-learn", partial(theirs.transform, rows))
    ]


def sweeps() -> list[Row]:
    """Seconds of the driver for each run, and the share of all CPU time that runs of 50 ms have (two processes)."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    import sweep_jobs

    from initscope.distributed.engine import collect
    from initscope.distributed.folder import opened
    from initscope.distributed.local import in_processes

    found = []
    for label, count, work in (("1000 empty runs", 1000, 0.0), ("200 runs of 50 ms", 200, 0.05)):
        common, order = sweep_jobs.shared(count)
        with tempfile.TemporaryDirectory() as folder, opened(f"{folder}/out") as results:
            outcomes = in_processes(sweep_jobs.busy, sweep_jobs.jobs(count, seconds=work), 2)
            cpu, wall = time.process_time(), time.perf_counter()
            collect(outcomes, results, common, order)
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            spent = max(row["mean_width"] for row in results.rows()) * 2 if work else 0.0
        share = count * work / (spent + cpu) if work else None
        found.append(Row(label, cpu / count, wall / count, wanted="> 0.9" if work else "< 0.005 s", value=share))
    return found


def scaling() -> list[Row]:
    """How CPU time grows: the exponent stands for the ratio."""
    import torch

    import initscope
    from initscope.models import load_model
    from initscope.scaling import outlook, read

    def images(count: int, side: int) -> torch.Tensor:
        return torch.rand(count, 3, side, side, generator=torch.Generator().manual_seed(0))

    def predicted(model: str, pairs: int, side: int) -> Callable[[], object]:
        x = images(2 * pairs, side)
        return partial(initscope.predict, load_model(model, input_shape=(3, side, side)), x[:pairs], x[pairs:])

    def matrix(count: int) -> Callable[[], object]:
        return partial(initscope.kernel, load_model("conv5x5x8-relu", input_shape=(3, 32, 32)), images(count, 32))

    def attended(tokens: int) -> Callable[[], object]:
        x, y = torch.randn(2, 4, tokens, 32, generator=torch.Generator().manual_seed(0))
        layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
        return partial(initscope.predict, layer, x, y)

    def blocks(tokens: int, width: int = 1024) -> Callable[[], object]:
        sizes = {"hidden_size": width, "intermediate_size": 4 * width, "num_attention_heads": width // 128}
        law = {"initializer_range": width**-0.5}  # the same variances, so that duals cost the same
        model = read({"model_type": "llama", "num_hidden_layers": 4, "vocab_size": 32000} | sizes | law)
        return partial(outlook, model, tokens, heads=4)

    def paired(count: int) -> Callable[[], object]:
        x = images(2 * count, 32)
        model = load_model("conv3x3x8-relu*4", input_shape=(3, 32, 32))
        return partial(initscope.propagate.kernels.PairKernel(model, x[:2]), x[:count], x[count:])

    grids: dict[str, tuple[list[int], Callable[[int], Callable[[], object]]]] = {
        "predict, pairs": ([400, 800, 1600], lambda n: predicted("conv3x3x8-relu*2", n, 16)),
        "predict, pixels": ([32**2, 48**2, 64**2], lambda n: predicted("conv3x3x8-relu*2", 100, round(n**0.5))),
        "predict, depth": ([8, 16, 32], lambda n: predicted(f"conv3x3x8-relu*{n}", 100, 16)),
        "predict, width (nothing grows)": ([100, 400, 1600], lambda n: predicted(f"dense{n}-relu*4", 400, 8)),
        "predict, tokens": ([32, 64, 128], attended),
        "configuration, tokens": ([128, 256, 512, 1024], blocks),
        "configuration, width (nothing grows)": ([1024, 2048, 4096, 8192], lambda n: blocks(128, n)),
        "PairKernel, pairs": ([200, 400, 800], paired),
        "kernel, images": ([128, 192, 256], matrix),
    }
    rows = []
    for name, (sizes, make) in grids.items():
        times = [seconds(make(size), 2) for size in sizes]
        power = exponent(sizes, [cpu for cpu, _ in times])
        rows.append(Row(f"{name} {sizes[0]} … {sizes[-1]}", *times[-1], value=power))
    return rows


def claims() -> list[Row]:
    """The benchmarks that assert what they claim (pytest), and what each of them measured; training is left out.

    Ratios within a claim are of CPU time, on the threads that it names, the least of several runs in turns.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/report.xml"
        options = ["-q", f"--junitxml={file}", "-o", "junit_logging=system-out", "-p", "no:cacheprovider"]
        files = map(str, sorted(HERE.glob("test_*.py")))
        command = [sys.executable, "-m", "pytest", *files, *options, "-k", "not training_on_cifar10"]
        subprocess.run(command, cwd=HERE.parent, env=os.environ | {"PYTHONHASHSEED": "0"}, stdout=subprocess.DEVNULL)
        cases = [*ElementTree.parse(file).iter("testcase")]
    return [claim(case) for case in cases if case.find("skipped") is None]


def claim(case: Element) -> Row:
    """What the report of pytest says of one test: its name, whether it held, what it printed or why it failed."""
    wrong = [found for found in (case.find("failure"), case.find("error")) if found is not None]
    lines = [line.strip() for line in (case.findtext("system-out") or "").splitlines()]
    said = [line for line in lines if line and "---" not in line]
    said += [(found.get("message") or "failed").splitlines()[0] for found in wrong]
    name = f"{case.get('classname', '').rpartition('.')[2].removeprefix('test_')}: {case.get('name', '')[5:]}"
    seconds = float(case.get("time", 0))
    return Row(name.replace("_", " "), seconds, held=not wrong, said="; ".join(dict.fromkeys(said)))


def newcomer() -> list[Row]:
    """What a first user waits for: our CPU time over that of the bare work, in turns; the ratio is ours over theirs.

    The last row is seconds alone: 12 convolutions with SiLU whose activations grow without bound.
    """
    import torch
    from test_measurement import forward, geometry, images, resnet50 as measured
    from test_predict import resnet50

    import initscope

    torch.set_num_threads(1)
    example = ("predict", "conv3x3x64-relu*12", "--data", "photos", "--pairs", "50")
    command, bare = ([sys.executable, *rest] for rest in (("-m", "initscope", *example), ("-c", "import torch")))
    both, model, x = torch.rand(128, 3, 64, 64, generator=torch.Generator().manual_seed(0)), resnet50().eval(), images()
    with torch.no_grad():
        predicted = in_turns(partial(initscope.predict, model, *both.chunk(2)), partial(model, both), repeats=2)
    other = measured()
    ratios = {
        "second predict of 12 convolutions, import torch (≤ 1.4)": in_processes(command, bare),
        "predict of ResNet-50 in evaluation, a forward pass (≤ 5)": predicted,
        "measure geometry, a forward pass (≤ 1.25)": in_turns(partial(geometry, other, x), partial(forward, other, x)),
    }
    rows = [Row(name, ours, peer_cpu=None, value=ours / theirs) for name, (ours, theirs) in ratios.items()]
    layers = [nn for i in range(12) for nn in (torch.nn.Conv2d(16 if i else 3, 16, 3, padding=1), torch.nn.SiLU())]
    for layer in layers[::2]:
        torch.nn.init.normal_(layer.weight, std=(4 / layer.weight[0].numel()) ** 0.5)
    start = time.process_time()
    initscope.predict(torch.nn.Sequential(*layers), *both[:120].chunk(2))
    return [*rows, Row("60 pairs of 64×64 through exploding SiLU (≤ 30 s)", time.process_time() - start)]


def in_processes(*commands: list[str], repeats: int = 3) -> list[float]:
    """Least CPU seconds of each command, in turns, in processes of their own."""
    least = [float("inf")] * len(commands)
    for _ in range(repeats):
        for index, command in enumerate(commands):
            start = os.times()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            end = os.times()
            used = end.children_user + end.children_system - start.children_user - start.children_system
            least[index] = min(least[index], used)
    return least


CASES: dict[str, Callable[[], list[Row]]] = {
    "newcomer": newcomer,
    "kernel-matrix": kernel_matrix,
    "kernel-pairs": kernel_pairs,
    "kernel-pooling": kernel_pooling,
    "prediction": prediction,
    "gpt2": gpt2,
    "hashing": hashing,
    "features": features,
    "sweeps": sweeps,
    "scaling": scaling,
    "claims": claims,
}
