"""Files that are large, or that unpack to much more than they hold: how much memory does a command take?

Writes them to a temporary folder (1 GB of disk) and runs each command in a process of its own, COUNT times. Its peak
resident memory, less that of the same command on small data, is compared with what it may take, and its exit code
with 0, or 2 where it must refuse. Without `--limit` the whole file is read; INITSCOPE_MEMORY=4 (GB) is the limit.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from attacks.outcomes import Outcome

COUNT = 1
ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "INITSCOPE_MEMORY": "4"}
COMMAND = [sys.executable, "-c", "import sys; from initscope.cli import main; sys.exit(main())"]
MODEL = "flatten-dense16-relu"
OBSERVE = """
import resource, sys
from pathlib import Path
import numpy as np
from torch import nn
from initscope.measurement import observe
data = np.load(sys.argv[1], mmap_mode="r")
size = int(Path("/proc/self/status").read_text().split("VmData:")[1].split()[0]) << 10
resource.setrlimit(resource.RLIMIT_DATA, (size + (100 << 20),) * 2)
observe(nn.Sequential(nn.Linear(data.shape[1], 8), nn.ReLU()), data, units=sys.argv[2] == "all")
"""
# A small process in between: the peak of a child is at least what its parent holds when it starts the child.
WATCH = """
import os, subprocess, sys
with open(sys.argv[1], "wb") as output:
    process = subprocess.Popen(sys.argv[2:], stdout=output, stderr=output)
_, status, usage = os.wait4(process.pid, 0)
process.returncode = os.waitstatus_to_exitcode(status)
print(usage.ru_maxrss, process.returncode)
"""


@dataclass(frozen=True)
class Attack:
    """A command, the exit code that it should have, and the megabytes that it may take beyond small data."""

    title: str
    arguments: list[str]
    code: int
    most: float


def write_array(path: Path, megabytes: int) -> None:
    """Bytes as images of 32 × 32, without holding them."""
    count = megabytes * 1_000_000 // 1024
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(count, 1, 32, 32))
    block = np.random.default_rng(0).integers(0, 256, (1024, 1, 32, 32), dtype=np.uint8)
    for start in range(0, count, 1024):
        array[start : start + 1024] = block[: min(1024, count - start)]
    array.flush()


def write_bomb(path: Path, gigabytes: float) -> None:
    """An ``.npz`` of one number, a thousandth of it on the disk."""
    count = int(gigabytes * 1e9) // (8 * 1024)
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed,
        packed.open("images.npy", "w", force_zip64=True) as f,
    ):
        np.lib.format.write_array_header_2_0(f, {"descr": "<f8", "fortran_order": False, "shape": (count, 1, 32, 32)})
        alike = b"\x3f" * (8 * 1024 * 128)  # equal bytes, that no number is 0
        for _ in range(count // 128):
            f.write(alike)
        f.write(alike[: 8 * 1024 * (count % 128)])


def write_image(path: Path, side: int) -> None:
    """A PNG of ``side`` × ``side`` black bits: small on the disk, twelve bytes a pixel as numbers."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    packer, row = zlib.compressobj(9), bytes(1 + (side + 7) // 8)
    rows = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b""))


def measured(data: Path, *options: str) -> list[str]:
    """The command that measures a network on data."""
    return [*COMMAND, "measure", MODEL, "--data", str(data), "--pairs", "20", "--draws", "1", *options]


def attacks(folder: Path) -> tuple[list[Attack], list[str]]:
    """All of them, and the command on small data that they are compared with."""
    write_array(folder / "small.npy", 1)
    write_array(folder / "large.npy", 500)
    write_bomb(folder / "bomb.npz", 2.9)
    rows = np.lib.format.open_memmap(folder / "rows.npy", mode="w+", dtype=np.float32, shape=(250_000, 500))
    rows[:] = 1 + np.arange(500)
    rows.flush()
    for name, side in (("huge", 13_000), ("large", 11_000)):
        (folder / name).mkdir()
        for number in range(6):
            write_image(folder / name / f"{number}.png", side)

    def observed(rows: str) -> list[str]:
        return [sys.executable, "-c", OBSERVE, str(folder / "rows.npy"), rows]

    query = [*COMMAND, "search", "query", "/dev/zero", str(folder / "small.npy")]
    small = measured(folder / "small.npy", "--limit", "100")
    return [
        Attack("--limit 100 of 500 MB", measured(folder / "large.npy", "--limit", "100"), 0, 50),
        Attack("the whole of 500 MB, as floats 2 GB", measured(folder / "large.npy"), 0, 4500),
        Attack("npz that unpacks to 2.9 GB", measured(folder / "bomb.npz"), 2, 50),
        Attack("npz that unpacks to 2.9 GB, --limit 100", measured(folder / "bomb.npz", "--limit", "100"), 0, 50),
        Attack("six images of 13,000² pixels", measured(folder / "huge"), 2, 50),
        Attack("six images of 11,000² pixels, the first of which is opened", measured(folder / "large"), 2, 1700),
        Attack("six images of 11,000² pixels, --size 32", measured(folder / "large", "--size", "32"), 2, 1200),
        # Pages of a mapped file count as resident, up to all of it; what the process allocates is limited to 100 MB.
        Attack("observe: the pairs of a mapped file of 500 MB, 100 MB to allocate", observed("pairs"), 0, 600),
        Attack("observe: all of a mapped file of 500 MB, 100 MB to allocate", observed("all"), 0, 600),
        Attack("an endless device as an index", query, 2, 50),
    ], small


def peak(command: list[str]) -> tuple[float, int, float, str]:
    """Megabytes, exit code, seconds and the last line of a command."""
    began = time.perf_counter()
    with tempfile.NamedTemporaryFile() as output:
        watch = [sys.executable, "-c", WATCH, output.name, *command]
        kilobytes, code = subprocess.run(watch, env=ENVIRONMENT, capture_output=True, check=True).stdout.split()
        lines = output.read().decode(errors="replace").strip().splitlines() or [""]
    return int(kilobytes) / 1e3, int(code), time.perf_counter() - began, lines[-1]


def run(count: int) -> Iterator[Outcome]:
    """Run every command ``count`` times."""
    with tempfile.TemporaryDirectory() as temporary:
        commands, small = attacks(Path(temporary))
        base = peak(small)[0]
        for attack in commands:
            messages, figures = [], []
            for _ in range(count):
                megabytes, code, seconds, last_line = peak(attack.arguments)
                figures.append(f"{megabytes - base:+.0f} MB (limit {attack.most:.0f}), exit {code}, {seconds:.0f} s")
                if code != attack.code or megabytes - base > attack.most:
                    messages.append(f"{figures[-1]}: {last_line[:160]}")
            yield Outcome(attack.title, count, len(messages), "; ".join(figures), tuple(messages))
