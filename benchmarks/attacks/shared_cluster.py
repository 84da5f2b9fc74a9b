"""Drivers that share a Dask cluster, and what happens to it meanwhile: does any command write another run's numbers?

``python benchmarks/attacks/shared_cluster.py [ROUNDS]`` (5 by default, some minutes) starts a scheduler and two workers
that live through all rounds. Each round runs the command line in processes of its own: kernels of two data sets at
once, a hash that was fitted again, a model file that was edited, and a kernel during which a worker is killed. In the
end the scheduler is killed during a kernel and starts again. Every file is compared, byte for byte, with that of a run
without a cluster; the exit code is the number of failures.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from dask_cluster import Cluster

MODEL = """from torch import nn

def make():
    return nn.Sequential(nn.Linear(20, 30), nn.ACTIVATION(), nn.Linear(30, 30), nn.ACTIVATION())
"""
KILLED_AFTER = 5.0
"""Seconds; libraries take some of them, and a kernel of 800 rows on two workers takes longer."""


def start(words: str, *, dask: str | None = None) -> subprocess.Popen[str]:
    """The command line in a process of its own."""
    command = [sys.executable, "-m", "initscope", *words.split(), *(["--dask", dask] if dask else [])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONWARNINGS": "ignore"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


class Attack:
    """A cluster, and how often each scenario held and failed."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.held, self.failed = Counter[str](), Counter[str]()

    def check(self, scenario: str, drivers: dict[str, subprocess.Popen[str]], expected: dict[str, str]) -> None:
        """Wait for drivers by their files, and compare these with what commands without a cluster write."""
        for file, driver in drivers.items():
            said = driver.communicate()[1]
            alone = start(expected[file])
            alone.communicate()
            same = driver.returncode == 0 and Path(file).read_bytes() == Path("alone.npy").read_bytes()
            (self.held if same else self.failed)[scenario] += 1
            if not same:
                print(f"{scenario}: {file}, exit {driver.returncode}: {said.strip().splitlines()[-1:]}", flush=True)

    def one_round(self, number: int) -> None:
        """All scenarios that leave the scheduler alone."""
        address, kernel = self.cluster.address, "kernel dense30-relu*2 --data {}.npy --rows 100 --out {}"
        rng = np.random.default_rng(number)
        for name, shift in (("A", 0), ("B", 5)):
            np.save(f"{name}.npy", (shift + rng.standard_normal((400, 20))).astype(np.float32))
        both = {f"{name}-dask.npy": start(kernel.format(name, f"{name}-dask.npy"), dask=address) for name in "AB"}
        self.check("two drivers at once", both, {f"{name}-dask.npy": kernel.format(name, "alone.npy") for name in "AB"})
        start(f"hash fit a.hash --data A.npy --bits 64 --seed {number}").communicate()
        encode = "hash encode a.hash {} --data A.npy --rows 100"
        self.check(
            "hash fitted again",
            {"codes.npy": start(encode.format("codes.npy"), dask=address)},
            {"codes.npy": encode.format("alone.npy")},
        )
        Path("m.py").write_text(MODEL.replace("ACTIVATION", ("ReLU", "Tanh")[number % 2]), encoding="utf-8")
        edited = "kernel m.py:make --data A.npy --rows 100 --out {}"
        self.check(
            "model file edited",
            {"m.npy": start(edited.format("m.npy"), dask=address)},
            {"m.npy": edited.format("alone.npy")},
        )
        driver = start(kernel.format("B", "killed.npy"), dask=address)
        time.sleep(KILLED_AFTER)
        self.cluster.workers[0].kill()
        self.cluster.workers[0].wait()
        self.cluster.workers[0] = self.cluster.worker()
        self.check("worker killed", {"killed.npy": driver}, {"killed.npy": kernel.format("B", "alone.npy")})

    def scheduler_killed(self) -> None:
        """The driver waits for the scheduler: one that comes back at its address is asked again."""
        kernel = "kernel dense30-relu*2 --data B.npy --rows 25 --out {}"
        driver = start(kernel.format("back.npy"), dask=self.cluster.address)
        time.sleep(KILLED_AFTER)
        self.cluster.kill()
        self.cluster.start()
        self.check("scheduler killed", {"back.npy": driver}, {"back.npy": kernel.format("alone.npy")})


def main() -> int:
    """Run it."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    attack = Attack()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        attack.cluster.start()
        try:
            for number in range(rounds):
                attack.one_round(number)
            attack.scheduler_killed()
        finally:
            attack.cluster.kill()
            os.chdir("/")
    for scenario in attack.held | attack.failed:
        print(f"{scenario:22} {attack.held[scenario]} held, {attack.failed[scenario]} failed")
    return attack.failed.total()


if __name__ == "__main__":
    sys.exit(main())
