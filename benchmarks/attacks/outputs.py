"""Outputs that take nothing: full disks, a closed or full stdout, few characters; pages of two thousand layers.

``python benchmarks/attacks/outputs.py`` (a few minutes) prints for every command its exit code, its CPU time and what
it left; the exit code is the number of failures. As a superuser on Linux the full disks are small tmpfs mounts,
otherwise a limit on the size of files.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

COMMAND = f"{sys.executable} -m initscope"
PREDICT = "predict dense8-relu*2 --input-shape 6 --pairs 4"
STREAMS = {
    f"{PREDICT} 1>&-": 74,
    f"{PREDICT} > /dev/full": 74,
    f"{PREDICT} --format json > /dev/full": 74,
    "--help > /dev/full": 74,
    f"{PREDICT} | head -1 > /dev/null; exit ${{PIPESTATUS[0]}}": None,
}
DISKS = (
    "kernel dense30-relu*2 --data x.npy --rows 500 --out {}/k.npy",
    "kernel dense30-relu*2 --data x.npy --out {}/k.npy",
    "hash encode a.hash {}/c.npy --data x.npy --rows 500",
    "hash encode a.hash {}/c.npz --data x.npy --rows 500",
    "hash encode a.hash {}/c.npz --data x.npy",
    "inspect dense600-relu*4 --input-shape 20 --pairs 4 --apply {}/w.pt",
)
DEEP = """
import sys, time, torch, initscope
layers = [part for _ in range({0}) for part in (torch.nn.Linear(16, 16), torch.nn.ReLU())]
report = initscope.inspect(torch.nn.Sequential(*layers), torch.randn(64, 16), pairs=16, alternatives=False)
begun = time.process_time()
report.to_html("deep.html")
print(time.process_time() - begun)
"""


def shell(text: str, before: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command line of initscope by bash."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **variables}
    words = ["bash", "-c", f"{before}{COMMAND} {text}"]
    return subprocess.run(words, env=environment, capture_output=True, text=True, errors="replace", check=False)


def shown(failure: bool, title: str, done: subprocess.CompletedProcess[str], more: str = "") -> int:
    """Print a line, and return whether it is a failure."""
    last = (done.stderr.strip().splitlines() or [""])[-1][:150]
    print(f"{'FAILED' if failure else 'held':7} exit {done.returncode:3} {more} {title}\n        {last}", flush=True)
    return int(failure)


def streams() -> int:
    """Streams that take nothing, or few characters."""
    failures = 0
    for text, code in STREAMS.items():
        done = shell(text)
        wrong = (
            "Traceback" in done.stderr or "unexpected" in done.stderr or (code is not None and done.returncode != code)
        )
        failures += shown(wrong, text, done)
    for encoding in ("ascii", "latin-1"):
        done = shell(PREDICT, PYTHONIOENCODING=encoding)
        failures += shown(done.returncode != 0, f"{PREDICT} in {encoding}", done)
    return failures


def disks(folder: Path) -> int:
    """Disks with 1 MB of room, for commands that need more."""
    np.save("x.npy", np.random.default_rng(0).standard_normal((4000, 20)).astype(np.float32))
    shell("hash fit a.hash --data x.npy --bits 8192")
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=False).returncode == 0
    failures = 0
    try:
        for text in DISKS:
            spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            done = shell(text.format(folder), "" if mounted else "ulimit -f 1000; ")
            seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - spent
            left = os.listdir(folder)
            wrong = done.returncode != 2 or bool(left) or "cannot be written" not in done.stderr
            failures += shown(wrong, text, done, f"{seconds:.1f} CPU-seconds, left {left}")
    finally:
        if mounted:
            subprocess.run(["umount", folder], check=True)
    return failures


def deep() -> int:
    """Pages of 500, 1,000 and 2,000 Linear and ReLU: CPU-seconds and bytes."""
    failures, last = 0, None
    for layers in (500, 1000, 2000):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        words = [sys.executable, "-c", DEEP.format(layers)]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
        seconds, size = float(done.stdout), Path("deep.html").stat().st_size
        wrong = size > 3e6 or (last is not None and seconds > 3 * last)
        failures += shown(wrong, f"page of {layers} Linear and ReLU", done, f"{seconds:.2f} CPU-seconds, {size} bytes")
        last = seconds
    return failures


def main() -> int:
    """Run it."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        failures = streams() + disks(Path(folder, "disk")) + deep()
        os.chdir("/")
    print(f"{failures} failures")
    return failures


if __name__ == "__main__":
    sys.exit(main())
