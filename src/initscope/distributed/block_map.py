"""`on_blocks`: a function on every job, here one after the other, or on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from initscope.errors import InputError

__all__ = ["on_blocks"]


def on_blocks(
    function: Callable[[Mapping[str, Any]], Any], jobs: Mapping[str, Mapping[str, Any]], dask: str | None
) -> Iterator[tuple[str, Any]]:
    """Names and results of all jobs as they come; the first that fails is an `InputError`.

    On a cluster, jobs of killed workers and of a restarted scheduler are asked again (`initscope.distributed.cluster`).
    """
    if dask is None:
        for name, job in jobs.items():
            yield name, function(job)
        return
    from initscope.distributed.cluster import on_cluster

    for found in on_cluster(function, jobs.items(), dask):
        if found.error:
            raise InputError(f"block {found.job} failed on the cluster: {found.error}")
        yield found.job, found.rows
