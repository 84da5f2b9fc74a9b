"""Mean width of data larger than memory: extremes along random directions, block by block, merged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from initscope.blocks.sources import Blocks
from initscope.blocks.work import on_blocks
from initscope.errors import check_count
from initscope.measurement.width import MeanWidth, RunningWidth

__all__ = ["mean_width_of_blocks"]


def mean_width_of_blocks(blocks: Blocks, *, draws: int = 128, seed: int = 0, dask: str | None = None) -> MeanWidth:
    """What `initscope.mean_width` says of all rows, read twice: for their mean, then for their extremes."""
    check_count("draws", draws, least=2, hint="two are the least that give a standard error")
    jobs: dict[str, dict[str, Any]] = {f"{block.start}": {"block": block} for block in blocks}
    sums = dict(on_blocks(_sum, jobs, dask))
    centre = sum(sums[name] for name in jobs) / len(blocks)  # in the order of the rows: rounding is the same each time
    more = {"draws": draws, "seed": seed, "centre": centre}
    tallies = dict(on_blocks(_tally, {name: job | more for name, job in jobs.items()}, dask))
    first, *others = (tallies[name] for name in jobs)
    for tally in others:
        first.merge(tally)
    result: MeanWidth = first.result()
    return result


def _sum(job: Mapping[str, Any]) -> Any:
    data = job["block"].read()
    return data.images.reshape(len(data), -1).sum(axis=0, dtype=np.float64)


def _tally(job: Mapping[str, Any]) -> RunningWidth:
    tally = RunningWidth(job["draws"], job["seed"], centre=job["centre"])
    tally.add(job["block"].read().images)
    tally.forget()
    return tally
