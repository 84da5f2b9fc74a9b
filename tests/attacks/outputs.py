"""Outputs that cannot be written, names of layers that are code, pages of two thousand layers.

Runs the command line in processes of its own, COUNT times for each scenario:

* stdout closed, full, or with an encoding of few characters: one line, exit code 74, or replaced characters;
* disks with 1 MB of space for commands that need more: exit code 2 and one line before the work, nothing left behind.
  As a superuser on Linux these are small tmpfs mounts, otherwise a limit on the size of files;
* names of layers that are HTML, Markdown, escapes of a terminal or change the direction of text, in every format: no
  such character and no such element is in the output;
* HTML reports of 500, 1,000 and 2,000 Linear and ReLU: below 3 MB, CPU time linear in the number of layers.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from attacks.outcomes import Outcome

COUNT = 1
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
NAMES = ("<img src=x onerror=alert(1)>", "[link](javascript:x)", "a\u202eb", "a\x1b[2Jb", "a\x9b\x7fb", "a`b|*c*&lt;")
MODEL = """
from torch import nn
def make():
    model = nn.Sequential()
    for name in NAMES:
        model.add_module(name, nn.Linear(6, 6))
        model.add_module(name + " relu", nn.ReLU())
    nn.init.constant_(model[0].weight, 1e-6)
    return model
"""
FORMATS = ("--format table", "--format md", "--format csv", "--format json", "--out page.html")
DEEP = """
import sys, time, torch, initscope
layers = [part for _ in range({0}) for part in (torch.nn.Linear(16, 16), torch.nn.ReLU())]
report = initscope.inspect(torch.nn.Sequential(*layers), torch.randn(64, 16), pairs=16, alternatives=False)
begun = time.process_time()
report.to_html("deep.html")
print(time.process_time() - begun)
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONDONTWRITEBYTECODE": "1"}


def shell(text: str, before: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command line of initscope by bash."""
    words = ["bash", "-c", f"{before}{COMMAND} {text}"]
    environment = {**ENVIRONMENT, **variables}
    return subprocess.run(words, env=environment, capture_output=True, encoding="utf-8", errors="replace", check=False)


def outcome_of(scenario: str, runs: list[tuple[bool, subprocess.CompletedProcess[str]]], figures: str = "") -> Outcome:
    """One outcome of some runs, each with whether it failed; exit codes and the last line of stderr are figures."""
    last_lines = [(run.stderr.strip().splitlines() or ["(no message)"])[-1] for _, run in runs]
    codes = ", ".join(sorted({f"exit {run.returncode}" for _, run in runs}))
    messages = tuple(last for (failed, _), last in zip(runs, last_lines, strict=True) if failed)
    return Outcome(scenario, len(runs), len(messages), f"{codes}{figures}", messages)


def streams(count: int) -> Iterator[Outcome]:
    """Streams that cannot be written, or lack characters."""
    for text, code in STREAMS.items():
        runs = []
        for _ in range(count):
            run = shell(text)
            traceback = "Traceback" in run.stderr or "unexpected" in run.stderr
            runs.append((traceback or (code is not None and run.returncode != code), run))
        yield outcome_of(text, runs)
    for encoding in ("ascii", "latin-1"):
        runs = [shell(PREDICT, PYTHONIOENCODING=encoding) for _ in range(count)]
        yield outcome_of(f"PYTHONIOENCODING={encoding} {PREDICT}", [(run.returncode != 0, run) for run in runs])


def disks(count: int, folder: Path) -> Iterator[Outcome]:
    """Disks with 1 MB of space, for commands that need more."""
    np.save("x.npy", np.random.default_rng(0).standard_normal((4000, 20)).astype(np.float32))
    shell("hash fit a.hash --data x.npy --bits 8192")
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, check=False, stderr=subprocess.DEVNULL).returncode == 0
    try:
        for text in DISKS:
            runs, spent, left = [], [], []
            for _ in range(count):
                began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
                run = shell(text.format(folder), "" if mounted else "ulimit -f 1000; ")
                spent.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - began)
                left += os.listdir(folder)
                runs.append((run.returncode != 2 or bool(left) or "cannot be written" not in run.stderr, run))
            disk = "1 MB disk" if mounted else "files of at most 1 MB"
            yield outcome_of(text.format("DISK"), runs, f", {disk}, {max(spent):.1f} CPU-seconds, left {left or '-'}")
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)


def unsafe(text: str) -> list[str]:
    """Characters that steer a terminal or the direction of text; the element of `NAMES` outside of code."""
    found = {repr(character) for character in text if unicodedata.category(character) in ("Cc", "Cf")}
    outside_code = re.sub(r"(`+).*?[^`]\1(?!`)", "", text)
    return sorted(found - {repr("\n"), repr("\t"), repr("\r")}) + (["<img"] if "<img src=x" in outside_code else [])


def hostile_names(count: int) -> Iterator[Outcome]:
    """Names of layers that are code, in every format."""
    Path("hostile.py").write_text(f"NAMES = {NAMES!r}\n{MODEL}", encoding="utf-8")
    for option in FORMATS:
        runs, messages = [], list[str]()
        for _ in range(count):
            run = shell(f"inspect hostile.py:make --input-shape 6 --pairs 8 --no-alternatives {option}")
            page = Path("page.html").read_text(encoding="utf-8") if "page" in option else run.stdout
            # Only pages and Markdown are read as HTML.
            bad = [part for part in unsafe(page) if part != "<img" or "md" in option or "page" in option]
            runs.append((bool(bad) or run.returncode != 0, run))
            messages += bad
        yield outcome_of(f"hostile names of layers, {option}", runs, f", unsafe: {', '.join(messages) or 'none'}")


def deep_pages(count: int) -> Iterator[Outcome]:
    """Reports of deep networks: CPU-seconds and bytes."""
    least_before = None
    for layers in (500, 1000, 2000):
        runs, spent, size = [], [], 0
        for _ in range(count):
            words = [sys.executable, "-c", DEEP.format(layers)]
            run = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, check=True)
            spent.append(float(run.stdout))
            size = Path("deep.html").stat().st_size
            runs.append((size > 3e6 or (least_before is not None and spent[-1] > 3 * least_before), run))
        least_before = min(spent)
        figures = f", {least_before:.2f} CPU-seconds, {size / 1e6:.2f} MB"
        yield outcome_of(f"page of {layers:,} Linear and ReLU", runs, figures)


def run(count: int) -> Iterator[Outcome]:
    """Run every scenario ``count`` times."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield from streams(count)
            yield from disks(count, Path(folder, "disk"))
            yield from hostile_names(count)
            yield from deep_pages(count)
        finally:
            os.chdir(before)
