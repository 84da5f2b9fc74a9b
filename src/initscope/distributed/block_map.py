"""`on_blocks`: run a function on every job, in this process or on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from initscope.errors import InputError

__all__ = ["on_blocks"]


def on_blocks(
    function: Callable[[Mapping[str, Any]], Any], jobs: Mapping[str, Mapping[str, Any]], dask: str | None
) -> Iterator[tuple[str, Any]]:
    """Yield names and results of all jobs as they finish; raise `InputError` at the first failure.

    On a cluster, jobs of killed workers and of a restarted scheduler are submitted again
    (`initscope.distributed.cluster`).
    """
    if dask is None:
        for name, job in jobs.items():
            yield name, function(job)
        return
    from initscope.distributed.cluster import on_cluster

    for outcome in on_cluster(function, jobs.items(), dask):
        if outcome.error:
            raise InputError(f"block {outcome.job} failed on the cluster: {outcome.error}")
        yield outcome.job, outcome.rows
