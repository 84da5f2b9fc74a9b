"""Drivers that share a Dask cluster, and what happens to it meanwhile: does a command write another run's numbers?

A scheduler and two workers live through all COUNT rounds. Every round runs the command line in processes of its own:

* two drivers at once: kernels of two data sets with equal names of blocks;
* data replaced: the files have the same names in every round, and other values;
* data replaced during a run: old numbers, or exit code 2 and one line;
* hash fitted again under its name; model file edited (ReLU, Tanh, …), of the same length;
* worker stopped for 30 seconds; worker killed while it runs a task;
* scheduler killed while it has tasks, and started again.

Every file is compared, byte for byte, with that of the same command without a cluster.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from attacks.outcomes import Outcome
from dask_cluster import Cluster, busy_workers, wait_until

COUNT = 5
SIZE = 400
STOPPED = 30
MODEL = """from torch import nn

def make():
    return nn.Sequential(nn.Linear(20, 30), nn.ACTIVATION(), nn.Linear(30, 30), nn.ACTIVATION())
"""
KERNEL = "kernel dense30-relu*2 --data {}.npy --rows {} --out {}"
Driver = subprocess.Popen[str]


def start(words: str, *, dask: str | None = None) -> Driver:
    """The command line in a process of its own."""
    command = [sys.executable, "-m", "initscope", *words.split(), *(["--dask", dask] if dask else [])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONWARNINGS": "ignore"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


class Attack:
    """A cluster, and how often each scenario was tried and failed."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.tries, self.refused, self.messages = Counter[str](), Counter[str](), defaultdict[str, list[str]](list)

    def check(self, scenario: str, driver: Driver, file: str, expected: bytes, refusal: str = "\0") -> None:
        """Wait for a driver and compare its file; a line that holds ``refusal`` instead of a file is right too."""
        lines = driver.communicate()[1].strip().splitlines()
        self.tries[scenario] += 1
        if driver.returncode == 2 and refusal in lines[-1] and not Path(file).exists():
            self.refused[scenario] += 1
        elif driver.returncode != 0 or Path(file).read_bytes() != expected:
            self.messages[scenario].append(f"{file}, exit {driver.returncode}: {lines[-1:]}")

    def while_busy(self, driver: Driver) -> None:
        """Wait until a worker runs a task of the driver, or the driver has ended."""
        wait_until(lambda: driver.poll() is not None or self.cluster.ask(busy_workers))

    def two_drivers(self, number: int) -> None:
        """Two kernels at once, of data that replace those of the round before."""
        rng = np.random.default_rng(number)
        for name, shift in (("A", 0), ("B", 5)):
            np.save(f"{name}.npy", (shift + rng.standard_normal((SIZE, 20))).astype(np.float32))
        rows = SIZE // 4
        drivers = {name: start(KERNEL.format(name, rows, f"{name}-dask.npy"), dask=self.cluster.address)
                   for name in "AB"}  # fmt: skip
        scenario = "two drivers at once" + (", data replaced" if number else "")
        for name, driver in drivers.items():
            self.check(scenario, driver, f"{name}-dask.npy", alone(KERNEL.format(name, rows, "alone.npy")))

    def edited(self, number: int) -> None:
        """A hash and a model that are others than in the round before."""
        alone(f"hash fit a.hash --data A.npy --bits 64 --seed {number}", "a.hash")
        encode = f"hash encode a.hash {{}} --data A.npy --rows {SIZE // 4}"
        driver = start(encode.format("codes.npy"), dask=self.cluster.address)
        self.check("hash fitted again", driver, "codes.npy", alone(encode.format("alone.npy")))
        Path("m.py").write_text(MODEL.replace("ACTIVATION", ("ReLU", "Tanh")[number % 2]), encoding="utf-8")
        kernel = f"kernel m.py:make --data A.npy --rows {SIZE // 4} --out {{}}"
        driver = start(kernel.format("m.npy"), dask=self.cluster.address)
        self.check("model file edited", driver, "m.npy", alone(kernel.format("alone.npy")))

    def killed(self, number: int) -> None:
        """A worker or the scheduler is killed, or the data are replaced, while a worker is busy."""
        kernel = KERNEL.format("B", SIZE // 16, "{}")
        expected = alone(kernel.format("alone.npy"))
        driver = start(kernel.format("killed.npy"), dask=self.cluster.address)
        self.while_busy(driver)
        self.cluster.replace_worker()
        self.check("worker killed", driver, "killed.npy", expected)
        driver = start(kernel.format("back.npy"), dask=self.cluster.address)
        self.while_busy(driver)
        self.cluster.kill()
        self.cluster.start()
        self.check("scheduler killed", driver, "back.npy", expected)
        Path("replaced.npy").unlink(missing_ok=True)
        driver = start(kernel.format("replaced.npy"), dask=self.cluster.address)
        self.while_busy(driver)
        np.save("other.npy", np.random.default_rng(1000 + number).standard_normal((SIZE, 20)).astype(np.float32))
        os.replace("other.npy", "B.npy")
        self.check("data replaced during a run", driver, "replaced.npy", expected, "has changed since the run began")

    def stopped(self) -> None:
        """A worker that runs a task is stopped for 30 seconds (SIGSTOP), as a node that swaps."""
        kernel = KERNEL.format("A", SIZE // 16, "{}")
        driver = start(kernel.format("stopped.npy"), dask=self.cluster.address)
        self.while_busy(driver)
        os.kill(self.cluster.workers[0].pid, signal.SIGSTOP)
        time.sleep(STOPPED)
        os.kill(self.cluster.workers[0].pid, signal.SIGCONT)
        self.check("worker stopped for 30 s", driver, "stopped.npy", alone(kernel.format("alone.npy")))

    def outcomes(self) -> Iterator[Outcome]:
        """One outcome for each scenario."""
        for scenario, tries in self.tries.items():
            messages = tuple(self.messages[scenario])
            figures = f"{tries - self.refused[scenario] - len(messages)} equal byte for byte"
            if self.refused[scenario]:
                figures += f", {self.refused[scenario]} refused in one line"
            yield Outcome(scenario, tries, len(messages), figures, messages)


def alone(words: str, file: str = "alone.npy") -> bytes:
    """The bytes of the file that a command writes without a cluster."""
    Path(file).unlink(missing_ok=True)
    driver = start(words)
    message = driver.communicate()[1]
    assert driver.returncode == 0, message
    return Path(file).read_bytes()


def run(count: int) -> Iterator[Outcome]:
    """Run ``count`` rounds."""
    attack, before = Attack(), Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        attack.cluster.start()
        try:
            for number in range(count):
                attack.two_drivers(number)
                attack.edited(number)
                attack.killed(number)
                attack.stopped()
        finally:
            attack.cluster.kill()
            os.chdir(before)
    yield from attack.outcomes()
