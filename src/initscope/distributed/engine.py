"""`run_sweep`: run the missing runs of a grid, save each as it finishes, then compact the folder."""

from __future__ import annotations

import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any

from initscope.distributed.declaration import Sweep, read_sweep
from initscope.distributed.folder import Folder, opened
from initscope.distributed.local import Outcome, in_processes
from initscope.distributed.runs import rows_of
from initscope.distributed.summary import write_summary
from initscope.errors import InputError, check_between, check_count
from initscope.results import Result, counted

__all__ = ["SweepResult", "collect", "run_sweep"]

_REPORT_EVERY = 20.0  # seconds between lines where no bar can be drawn


@dataclass(frozen=True)
class SweepResult(Result):
    """The outcome of a sweep.

    Attributes
    ----------
    folder : str
        Folder of the results; read it with ``pandas.read_parquet(folder)``.
    runs, ran, failed : int
        Number of runs of the grid, of runs executed by this call, and of failed runs in the folder.
    errors : dict
        The most frequent errors, with the number of failed runs.
    """

    folder: str
    runs: int
    ran: int
    failed: int
    errors: dict[str, int]

    def table(self) -> list[dict[str, Any]]:
        """Return one row."""
        return [{"folder": self.folder, "runs": self.runs, "ran": self.ran, "failed": self.failed}]


def run_sweep(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    workers: int | None = None,
    dask: str | None = None,
    retry_failed: bool = False,
    run_limit: float | None = None,
    progress: bool = False,
) -> SweepResult:
    """Run the grid that ``path`` declares into the folder ``out``.

    Results that are already there are not computed again.

    Parameters
    ----------
    path : str or path
        The declaration, see the page on sweeps.
    out : str or path
        Folder of the results. A killed sweep continues where it stopped when it is started again.
    workers : int, optional
        Number of local processes; by default one per processor.
    dask : str, optional
        Address of a Dask scheduler, ``tcp://host:8786``; its workers then execute the runs. Data, and models from
        files, must be there under the same names.
    retry_failed : bool
        Run failed runs again too.
    run_limit : float, optional
        Time limit in seconds for a run in a local process, such as that of a model that never returns; it then counts
        as failed.
    progress : bool
        Whether to show progress and remaining time on stderr.
    """
    if workers is not None and dask is not None:
        raise InputError("workers and dask are both given; runs go to processes here or to a cluster, choose one")
    if run_limit is not None:
        check_between("run_limit", run_limit, 0, math.inf)
        if dask is not None:
            raise InputError(
                "run_limit and dask are both given; tasks of a cluster cannot be ended; use processes here"
            )
    count = check_count("workers", workers, most=4096) if workers is not None else _processors()
    sweep = read_sweep(path)
    with opened(out) as folder:
        status = _known(sweep, folder, out)
        if retry_failed:
            folder.forget(run for run, word in status.items() if word == "failed")
            status = {run: word for run, word in status.items() if word == "done"}
        left = {run: row for run, row in sweep.by_id().items() if run not in status}
        options = asdict(sweep.options)
        jobs = [
            (run, {"run": asdict(row), "options": options, "contents": asdict(sweep.contents(row))})
            for run, row in left.items()
        ]
        if dask is None:
            outcomes = in_processes(rows_of, jobs, count, limit=run_limit)
        else:
            from initscope.distributed.cluster import on_cluster

            outcomes = on_cluster(rows_of, jobs, dask)
        common = {run: asdict(row) for run, row in left.items()}
        collect(outcomes, folder, common, {run: number for number, run in enumerate(sweep.by_id())}, progress=progress)
        return _finished(sweep, folder, len(jobs))


def collect(
    outcomes: Generator[Outcome, None, None],
    folder: Folder,
    common: Mapping[str, Mapping[str, Any]],
    order: Mapping[str, int],
    *,
    progress: bool = False,
) -> None:
    """Write outcomes to the folder as they arrive, then compact the folder, also after an exception.

    ``common`` holds for each job the values that all its rows share; ``order`` holds the position of every job that the
    folder may contain.
    """
    try:
        with closing(outcomes), _telling(len(common), progress) as tell:
            for outcome in outcomes:
                folder.add(_rows(outcome, common[outcome.job]))
                tell(outcome)
    except BaseException:  # Ctrl-C too: what is finished is left as one valid file
        with suppress(InputError):
            folder.compact(order)
        raise
    folder.compact(order)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _known(sweep: Sweep, folder: Folder, out: str | os.PathLike[str]) -> dict[str, str]:
    """Return the runs in the folder, which must all be of this grid: a grid may grow, but a folder belongs to one grid.

    Runs that failed with data or code that has changed since hold no number: they are removed and run again.
    """
    status = folder.status()
    strange = status.keys() - sweep.by_id().keys()
    done = [run for run in strange if status[run] == "done"]
    if done:
        raise InputError(
            f"{out} holds {counted(len(done), 'run')} of another grid, or with other options, data, model files or "
            "code of initscope, or other versions of numpy, scipy or torch; a grid may grow, but what was run must "
            "stay in it: give another folder with --out"
        )
    folder.forget(strange)
    return {run: word for run, word in status.items() if run not in strange}


def _rows(outcome: Outcome, shared: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows as they are stored: one per layer, or one with the error for a failed run."""
    common = {"run": outcome.job, **shared}
    if outcome.error:
        return [common | {"status": "failed", "error": outcome.error, "row": 0}]
    return [common | {"status": "done"} | row for row in outcome.rows]


@contextmanager
def _telling(total: int, show: bool) -> Iterator[Callable[[Outcome], None]]:
    """Yield a function that is called with every outcome.

    It updates a progress bar on a terminal, or prints a line now and then.
    """
    if not show:
        yield lambda outcome: None
        return
    from tqdm import tqdm

    failed, begun = 0, time.monotonic()
    reported = begun
    with tqdm(total=total, desc="runs", unit="run", file=sys.stderr, disable=not sys.stderr.isatty()) as bar:
        done = 0

        def report(outcome: Outcome) -> None:
            nonlocal failed, reported, done
            done, failed = done + 1, failed + bool(outcome.error)
            bar.set_postfix(failed=failed, refresh=False)
            bar.update()
            now = time.monotonic()
            if bar.disable and now - reported > _REPORT_EVERY:
                reported, left = now, (now - begun) / done * (total - done)
                print(f"{done} of {total} runs, {failed} failed, {left:.0f} s left", file=sys.stderr)

        yield report


def _finished(sweep: Sweep, folder: Folder, ran: int) -> SweepResult:
    table = folder.rows()
    write_summary(folder.path, table)
    errors = Counter(row["error"] for row in table if row["status"] == "failed")
    return SweepResult(str(folder.path), len(sweep.runs), ran, errors.total(), dict(errors.most_common(5)))
