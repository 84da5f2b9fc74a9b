"""`in_processes`: jobs on processes of this machine. A process that dies is replaced, and its job tried again."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from tqdm import tqdm

__all__ = ["Outcome", "in_processes", "outcome_of"]

Job = tuple[str, Mapping[str, Any]]
_AHEAD = 2
"""Jobs that a process holds: while it sends one result, it computes the next."""
_DEATHS = 3
"""A job has failed after its process has died this many times."""


class Outcome(NamedTuple):
    """Rows of a job, or why it failed."""

    job: str
    rows: list[dict[str, Any]]
    error: str = ""


def outcome_of(function: Callable[[Any], Any], job: Job) -> Outcome:
    """Run a job; whatever it raises, an exit of the user's code too, becomes its outcome."""
    name, arguments = job
    try:
        return Outcome(name, function(arguments))
    except (Exception, SystemExit) as error:
        return Outcome(name, [], f"{type(error).__name__}: {error}")


def in_processes(
    function: Callable[[Any], Any], jobs: Iterable[Job], count: int, *, limit: float | None = None
) -> Generator[Outcome, None, None]:
    """Yield outcomes of the jobs as they finish in ``count`` processes.

    Closing the iterator ends the processes at once.

    A job that runs for more than ``limit`` seconds, including the start of its process, fails: its process is ended. A
    forward pass that never returns can be ended in no other way.
    """
    waiting, deaths = deque(jobs), Counter[str]()
    start = _starter(function)
    crew = [start() for _ in range(min(count, len(waiting)))]
    try:
        while waiting or any(worker.held for worker in crew):
            for worker in crew:
                while waiting and len(worker.held) < _AHEAD:
                    worker.give(waiting.popleft())
            left = None if limit is None else min(worker.left(limit) for worker in crew if worker.held)
            ready = wait([worker.connection for worker in crew if worker.held], left)
            for number, worker in enumerate(crew):
                if worker.connection not in ready:
                    if limit is not None and worker.held and worker.left(limit) <= 0:
                        late, *others = worker.held
                        waiting.extendleft(others)
                        worker.end()
                        crew[number] = start()
                        yield Outcome(late[0], [], f"stopped after {limit:g} s, the limit of a run")
                    continue
                outcome = worker.outcome()
                if outcome is not None:
                    yield outcome
                    continue
                suspect, *others = worker.held
                deaths[suspect[0]] += 1
                waiting.extendleft(others)
                if deaths[suspect[0]] < _DEATHS:
                    waiting.appendleft(suspect)
                else:
                    yield Outcome(suspect[0], [], f"the process that ran it died {_DEATHS} times ({worker.end()})")
                crew[number] = start()
    finally:
        for worker in crew:
            worker.end()


class _Worker:
    """A process and the jobs that it holds, the first of them running."""

    def __init__(self, context: Any, function: Callable[[Any], Any]) -> None:
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(function, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.held: deque[Job] = deque()
        self._begun = 0.0

    def left(self, limit: float) -> float:
        """Return the remaining seconds of the running job."""
        return max(0.0, self._begun + limit - time.monotonic())

    def give(self, job: Job) -> None:
        if not self.held:
            self._begun = time.monotonic()
        self.held.append(job)
        with suppress(OSError):  # it is dead: its jobs are taken from it when it is asked for the outcome
            self.connection.send(job)

    def outcome(self) -> Outcome | None:
        """Return the message of the process; None if it is dead."""
        try:
            outcome: Outcome = self.connection.recv()
        except (EOFError, OSError):
            return None
        self.held.popleft()
        self._begun = time.monotonic()
        return outcome

    def end(self) -> str:
        """End the process if it is alive, and return how it ended."""
        self.connection.close()
        self.process.terminate()
        self.process.join(2)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
        code = self.process.exitcode or 0
        return f"signal {-code}: {signal.Signals(-code).name}, out of memory?" if code < 0 else f"exit code {code}"


def _starter(function: Callable[[Any], Any]) -> Callable[[], _Worker]:
    """Return a context that starts processes, if possible as forks of a server that has loaded the libraries."""
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if "forkserver" in methods:
        context.set_forkserver_preload([function.__module__, "initscope.distributed._libraries"])
    return lambda: _Worker(context, function)


def _work(function: Callable[[Any], Any], connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the driver decides
    os.dup2(2, 1)  # what the user's code prints is no data
    sys.stdout = sys.stderr
    tqdm.set_lock(threading.RLock())  # bars that torch.fx makes: their own lock would outlive a process that is ended
    while True:
        try:
            connection.send(outcome_of(function, connection.recv()))
        except (EOFError, OSError):
            return  # the driver has gone
