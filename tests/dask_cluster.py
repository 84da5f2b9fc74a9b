"""A real Dask cluster for tests: a scheduler and two workers, every one a process of its own."""

import os
import socket
import subprocess
import sys
import time

import sweep_jobs

PATIENCE = 600
"""Seconds, for a machine that has twenty other things to do; seconds suffice otherwise."""


class Cluster:
    """A scheduler and two workers, to start and to kill."""

    def __init__(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.scheduler, self.workers = None, []

    def start(self):
        self.scheduler = run("-m", "distributed.cli.dask_scheduler", "--port", str(self.port), "--host", "127.0.0.1",
                             "--no-dashboard", "--no-show")  # fmt: skip
        self.workers = [self.worker() for _ in range(2)]

    def worker(self):
        return run("-m", "distributed.cli.dask_worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard")

    def kill(self):
        for process in (self.scheduler, *self.workers):
            process.kill()
            process.wait()


def run(*arguments):
    path = os.pathsep.join([os.path.dirname(sweep_jobs.__file__), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "ignore"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([sys.executable, *arguments], env=environment, **quiet)


def wait_until(condition):
    """Wait until something has happened; fail if it does not."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
