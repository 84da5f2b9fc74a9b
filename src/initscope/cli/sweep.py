"""``initscope sweep``: run a grid that a TOML file declares, on local processes or a Dask cluster."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from initscope.cli._help import OUTPUT
from initscope.cli._options import Whole
from initscope.cli._output import Format, ask_of, emit, say

__all__ = ["sweep"]


def sweep(
    file: Annotated[Path, Parameter(help="TOML file with the grid; see above.")],
    /,
    *,
    out: Annotated[
        Path, Parameter(group=OUTPUT, help="Folder for the results (Parquet); an earlier sweep in it is continued.")
    ],
    workers: Annotated[Whole | None, Parameter(help="Number of local processes; default: one per processor.")] = None,
    dask: Annotated[str | None, Parameter(help="Address of a Dask scheduler, such as tcp://host:8786.")] = None,
    retry_failed: Annotated[bool, Parameter(negative=(), help="Run failed runs again.")] = False,
    run_limit: Annotated[
        float | None, Parameter(help="Seconds after which a run on a local process has failed; default: none.")
    ] = None,
    format: Format = "table",
) -> None:
    """Run a grid of architectures, initializers, data and seeds; an interrupted sweep can be continued.

    FILE is TOML: [grid] holds lists for architecture, width, depth, initializer, activation, data, seed and quantity
    (predict, measure, mean-width, inspect, train), [run] what all runs share (pairs, draws, …).
    """
    from initscope.distributed import run_sweep
    from initscope.distributed.summary import PAGE

    signal.signal(signal.SIGTERM, _interrupt)  # of a queueing system whose time is up
    try:
        options: dict[str, Any] = {"retry_failed": retry_failed, "run_limit": run_limit, "progress": True}
        result = run_sweep(file, out, workers=workers, dask=dask, **options)
    except KeyboardInterrupt as interrupt:
        message = f"interrupted; finished runs are in {out}, start the same again, and it goes on"
        raise KeyboardInterrupt(message) from interrupt
    ask_of(grid=str(file))
    emit(result, format, title=str(file))
    say(f"page: {out / PAGE}")
    if result.failed:
        error, count = next(iter(result.errors.items()))
        say(f"{result.failed} failed, {count} of them with: {error}; --retry-failed runs them again")
        sys.exit(1)


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt
