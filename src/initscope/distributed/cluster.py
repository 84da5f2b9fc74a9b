"""`on_cluster`: jobs on the workers of a Dask scheduler. What is lost with a worker or the scheduler is asked again.

A worker that dies is the scheduler's business: it gives the job to another, and up after several deaths. A scheduler
that goes takes all it knows with it; the driver waits for one at the same address and asks for what is missing.

Keys of tasks are unique for each connection of a driver, not content addresses. A scheduler answers a key that it knows
with the result that it has, so two drivers that share a key share a result. A content address is right only if it
covers everything that a result depends on (command, data, model, weights, options, code, libraries), and what it
forgets is a wrong number without an error; a random key cannot be wrong. It costs nothing: the driver takes every
result once, and keeps finished ones itself. What workers keep between tasks (models, hashes, data) is named by its
content, see `initscope._utils.content`.
"""

from __future__ import annotations

import platform
import sys
import time
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from typing import Any

from initscope._utils.content import code_digest
from initscope._utils.libraries import library
from initscope.distributed.local import Job, Outcome, outcome_of
from initscope.errors import InputError

__all__ = ["connect", "on_cluster"]

_PATIENCE = 300.0
"""Seconds to wait for a scheduler that went away."""
_CONNECT = 10.0
"""Seconds in which a scheduler must answer."""
_AHEAD = 8
"""Jobs on the cluster for each of its threads: enough that no worker waits for the driver."""
_RESTART = "install the same version everywhere and restart the workers"


def on_cluster(function: Callable[[Any], Any], jobs: Iterable[Job], address: str) -> Generator[Outcome, None, None]:
    """Outcomes of the jobs as they come; a function of a module that the workers can import."""
    waiting = deque(jobs)
    lost: float | None = None
    while waiting:
        try:
            client = connect(address, _CONNECT)
        except InputError as error:
            if lost is None:
                raise
            if time.monotonic() - lost > _PATIENCE:
                raise InputError(
                    f"--dask {address}: the scheduler went away and did not come back within {_PATIENCE:g} s; "
                    "start it and its workers, then run the same command again"
                ) from error
            time.sleep(0.5)
            continue
        asked: dict[str, Job] = {}
        try:
            for found in _through(client, function, waiting, asked):
                del asked[found.job]
                lost = None
                yield found
        except _gone() as error:
            lost = lost or time.monotonic()
            print(f"the scheduler at {address} went away ({type(error).__name__}); waiting for it", file=sys.stderr)
            time.sleep(0.5)
        finally:
            waiting.extend(asked.values())
            with suppress(Exception):
                client.close(timeout=2)


def connect(address: str, timeout: float) -> Any:
    """A client of the scheduler at ``address``; `InputError` if there is none."""
    distributed = library("distributed")
    try:
        # A client that was given no address stays half made, and is 20 seconds in dying.
        library("distributed.comm").resolve_address(address)
    except ValueError as error:
        raise InputError(f"--dask {address}: {error}; give an address such as tcp://host:8786") from error
    except OSError:
        pass  # the client tells what is wrong, in its time
    try:
        return distributed.Client(address, timeout=timeout, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"--dask {address}: no scheduler answers there ({type(error).__name__}); start one with: dask scheduler"
        ) from error


def _gone() -> tuple[type[BaseException], ...]:
    from concurrent.futures import CancelledError

    cancelled = library("distributed.client").FutureCancelledError
    closed = library("distributed.comm.core").CommClosedError
    return (closed, CancelledError, cancelled, OSError, TimeoutError)


def _through(
    client: Any, function: Callable[[Any], Any], waiting: deque[Job], asked: dict[str, Job]
) -> Generator[Outcome, None, None]:
    """Keep the cluster supplied; ``asked`` are the jobs that it has."""
    finished: Any = library("distributed").as_completed(loop=client.loop)
    window, code, prefix = 0, code_digest(), f"initscope-{uuid.uuid4().hex}-"
    while waiting or asked:
        if waiting and len(asked) <= window // 2:
            window = max(16, _AHEAD * sum(client.nthreads().values()))
            for _ in range(min(window - len(asked), len(waiting))):
                job = waiting.popleft()
                asked[job[0]] = job
                finished.add(client.submit(on_worker, function, job, code, key=prefix + job[0], pure=False))
        future = next(finished)
        yield _outcome(future, future.key.removeprefix(prefix))


def on_worker(function: Callable[[Any], Any], job: Job, code: str) -> Outcome:
    """Run a job, unless this worker runs other sources than the driver: then that is why the job failed."""
    if code_digest() != code:
        return Outcome(job[0], [], f"a worker ({platform.node()}) runs other code of initscope than this; {_RESTART}")
    return outcome_of(function, job)


def _outcome(future: Any, name: str) -> Outcome:
    """The outcome of a job; of one whose workers all died, a failure."""
    if future.status == "cancelled":  # by the client, when it lost the scheduler
        raise ConnectionResetError("the job was lost")
    try:
        outcome: Outcome = future.result(timeout=_PATIENCE)
    except library("distributed.scheduler").KilledWorker as error:
        return Outcome(name, [], f"KilledWorker: every worker that ran it died ({error})")
    return outcome
