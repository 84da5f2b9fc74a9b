"""A real Dask cluster for tests: a scheduler and two workers, every one a process of its own."""

import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import Future

import sweep_jobs

from initscope.distributed.cluster import connect

PATIENCE = 600
"""Seconds, for a machine that has twenty other things to do; seconds suffice otherwise."""


class Cluster:
    """A scheduler and workers, to start and to kill."""

    def __init__(self, workers=2):
        self.count = workers
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.scheduler, self.workers = None, []

    def start(self):
        self.scheduler = run("-m", "distributed.cli.dask_scheduler", "--port", str(self.port), "--host", "127.0.0.1",
                             "--no-dashboard", "--no-show")  # fmt: skip
        self.workers = [self.worker() for _ in range(self.count)]

    def worker(self):
        return run("-m", "distributed.cli.dask_worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard")

    def replace_worker(self):
        """Kill the first worker and start another one."""
        self.workers[0].kill()
        self.workers[0].wait()
        self.workers[0] = self.worker()

    def ask(self, question):
        """The answer of the scheduler to a function of itself, `busy_workers` for example."""
        client = connect(self.address, PATIENCE)
        try:
            return client.run_on_scheduler(question)
        finally:
            client.close(timeout=2)

    def kill(self):
        for process in (self.scheduler, *self.workers):
            process.kill()
            process.wait()


def run(*arguments):
    path = os.pathsep.join([os.path.dirname(sweep_jobs.__file__), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "ignore"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([sys.executable, *arguments], env=environment, **quiet)


def in_background(function, *arguments):
    """The future of a call in a thread of its own, which does not keep a failed test from ending."""
    future = Future()

    def call():
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    return future


def wait_until(condition):
    """Wait until something has happened; fail if it does not."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def busy_workers(dask_scheduler):
    """Number of workers that run a task."""
    return sum(bool(worker.processing) for worker in dask_scheduler.workers.values())


def drivers_with_tasks(dask_scheduler):
    """Number of drivers that wait for a task."""
    return sum(bool(client.wants_what) for client in dask_scheduler.clients.values())
