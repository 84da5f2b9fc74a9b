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
        Where the results are: ``pandas.read_parquet(folder)``.
    runs, ran, failed : int
        Runs of the grid, those run this time, and those that the folder holds as failed.
    errors : dict
        The commonest errors and how many runs have them.
    """

    folder: str
    runs: int
    ran: int
    failed: int
    errors: dict[str, int]

    def table(self) -> list[dict[str, Any]]:
        """One row."""
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
    """Run the grid that ``path`` declares into the folder ``out``; what is there already is not run again.

    Parameters
    ----------
    path : str or path
        The declaration, see the page on sweeps.
    out : str or path
        Folder of the results. A sweep that was killed and is started again continues where it stopped.
    workers : int, optional
        Processes of this machine; by default one for each processor.
    dask : str, optional
        Address of a Dask scheduler, ``tcp://host:8786``: runs go to its workers instead. Data, and models from files,
        must be there under the same names.
    retry_failed : bool
        Run failed runs again too.
    run_limit : float, optional
        Seconds after which a run on a local process has failed, such as one of a model that never returns.
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
    """Keep outcomes in the folder as they come, and compact it, also if they end by an exception.

    ``common``: for each job what all its rows share; ``order``: the position of every job that the folder may hold.
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
    """What the folder holds, all of it of this grid: a grid may grow, and a folder belongs to one.

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
    """Rows as they are kept: one for every layer; of a failed run one, with the error."""
    common = {"run": outcome.job, **shared}
    if outcome.error:
        return [common | {"status": "failed", "error": outcome.error, "row": 0}]
    return [common | {"status": "done"} | row for row in outcome.rows]


@contextmanager
def _telling(total: int, show: bool) -> Iterator[Callable[[Outcome], None]]:
    """Yield a function that gets every outcome: a bar with the time left on a terminal, else a line now and then."""
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
