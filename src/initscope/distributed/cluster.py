"""`on_cluster`: jobs on the workers of a Dask scheduler. Lost jobs are submitted again.

If a worker dies, the scheduler gives its job to another worker, and gives up after several deaths. If the scheduler
dies, its state is lost; the driver waits for a new scheduler at the same address and submits the missing jobs again.

Keys of tasks are unique for each connection of a driver, not content addresses. A scheduler returns its stored result
for a key that it knows, so two drivers with the same key share a result. A content address is correct only if it covers
everything that a result depends on (command, data, model, weights, options, code, libraries). An omission would give a
wrong number without an error; a random key cannot. This has no cost: the driver takes every result once and stores
finished ones itself. Objects that workers keep between tasks (models, hashes, data) are identified by their content,
see `initscope._utils.content`.
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
"""Seconds to wait for a scheduler that stopped answering."""
_CONNECT = 10.0
"""Seconds in which a scheduler must answer."""
_AHEAD = 8
"""Jobs on the cluster for each of its threads: enough that no worker waits for the driver."""
_RESTART = "install the same version everywhere and restart the workers"


def on_cluster(function: Callable[[Any], Any], jobs: Iterable[Job], address: str) -> Generator[Outcome, None, None]:
    """Yield outcomes of the jobs as they finish; the function must be in a module that the workers can import."""
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
                    f"--dask {address}: the scheduler stopped answering and did not return within {_PATIENCE:g} s; "
                    "start it and its workers, then run the same command again"
                ) from error
            time.sleep(0.5)
            continue
        asked: dict[str, Job] = {}
        try:
            for outcome in _through(client, function, waiting, asked):
                del asked[outcome.job]
                lost = None
                yield outcome
        except _gone() as error:
            lost = lost or time.monotonic()
            print(
                f"the scheduler at {address} stopped answering ({type(error).__name__}); waiting for it",
                file=sys.stderr,
            )
            time.sleep(0.5)
        finally:
            waiting.extend(asked.values())
            with suppress(Exception):
                client.close(timeout=2)


def connect(address: str, timeout: float) -> Any:
    """Return a client of the scheduler at ``address``; `InputError` if there is none."""
    distributed = library("distributed")
    try:
        # A client without a valid address is left half constructed and takes 20 seconds to close.
        library("distributed.comm").resolve_address(address)
    except ValueError as error:
        raise InputError(f"--dask {address}: {error}; give an address such as tcp://host:8786") from error
    except OSError:
        pass  # the client reports the problem
    try:
        return distributed.Client(address, timeout=timeout, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"--dask {address}: no scheduler answers there ({type(error).__name__}); start one with: dask scheduler"
        ) from error


def _gone() -> tuple[type[BaseException], ...]:
    from concurrent.futures import CancelledError

    canceled = library("distributed.client").FutureCancelledError
    closed = library("distributed.comm.core").CommClosedError
    return (closed, CancelledError, canceled, OSError, TimeoutError)


def _through(
    client: Any, function: Callable[[Any], Any], waiting: deque[Job], asked: dict[str, Job]
) -> Generator[Outcome, None, None]:
    """Keep the cluster busy; ``asked`` holds the submitted jobs."""
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
    """Run a job; fail if code or versions of libraries differ between this worker and the driver."""
    if code_digest() != code:
        different = "has different code of initscope, or other versions of numpy, scipy or torch, than the driver"
        return Outcome(job[0], [], f"a worker ({platform.node()}) {different}; {_RESTART}")
    return outcome_of(function, job)


def _outcome(future: Any, name: str) -> Outcome:
    """Return the outcome of a job; if all its workers died, a failure."""
    if future.status == "cancelled":  # by the client, when it lost the scheduler
        raise ConnectionResetError("the job was lost")
    try:
        outcome: Outcome = future.result(timeout=_PATIENCE)
    except library("distributed.scheduler").KilledWorker as error:
        return Outcome(name, [], f"KilledWorker: every worker that ran it died ({error})")
    return outcome
