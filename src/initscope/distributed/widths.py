"""Mean width of data larger than memory, and after every layer: extremes along random directions, merged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from initscope.distributed.block_map import on_blocks
from initscope.distributed.model_names import ModelName, built_model
from initscope.distributed.sources import Blocks
from initscope.errors import check_count
from initscope.measurement.by_layer import LayerStatistics, LayerWidths, layer_statistics, layer_sums, widths_of
from initscope.measurement.width import MeanWidth, RunningWidth

__all__ = ["layer_widths_of_blocks", "mean_width_of_blocks"]


def mean_width_of_blocks(blocks: Blocks, *, draws: int = 128, seed: int = 0, dask: str | None = None) -> MeanWidth:
    """Compute `initscope.mean_width` of all rows in two passes: for their mean, then for their extremes."""
    check_count("draws", draws, least=2, hint="two are the least that give a standard error")
    jobs: dict[str, dict[str, Any]] = {f"{block.start}": {"block": block} for block in blocks}
    sums = dict(on_blocks(_sum, jobs, dask))
    center = sum(sums[name] for name in jobs) / len(blocks)  # in the order of the rows: rounding is the same each time
    more = {"draws": draws, "seed": seed, "center": center}
    parts = dict(on_blocks(_running_width, {name: job | more for name, job in jobs.items()}, dask))
    first, *others = (parts[name] for name in jobs)
    for running in others:
        first.merge(running)
    result: MeanWidth = first.result()
    return result


def _sum(job: Mapping[str, Any]) -> Any:
    data = job["block"].read()
    return data.images.reshape(len(data), -1).sum(axis=0, dtype=np.float64)


def _running_width(job: Mapping[str, Any]) -> RunningWidth:
    running = RunningWidth(job["draws"], job["seed"], center=job["center"])
    running.add(job["block"].read().images)
    running.forget()
    return running


def layer_widths_of_blocks(
    model: ModelName, blocks: Blocks, *, draws: int = 128, seed: int = 0, dask: str | None = None
) -> LayerWidths:
    """Compute `initscope.measurement.layer_widths` of all rows in two passes: for means, then for extremes."""
    check_count("draws", draws, least=2, hint="two are the least that give a standard error")
    jobs: dict[str, dict[str, Any]] = {f"{block.start}": {"block": block, "model": model} for block in blocks}
    sums = dict(on_blocks(_layer_sums, jobs, dask))
    centers = [
        None if any(step[2] is None for step in steps) else sum(step[2] for step in steps) / len(blocks)
        for steps in zip(*(sums[name] for name in jobs), strict=True)
    ]
    more = {"draws": draws, "seed": seed, "centers": centers}
    parts = dict(on_blocks(_layer_statistics, {name: job | more for name, job in jobs.items()}, dask))
    first, *others = (parts[name] for name in jobs)
    for part in others:
        for (_, _, mine), (_, _, later) in zip(first, part, strict=True):
            if mine is not None:
                mine.merge(later)
    return widths_of(first)


def _layer_sums(job: Mapping[str, Any]) -> list[LayerStatistics]:
    return layer_sums(built_model(job["model"]), job["block"].read().images)


def _layer_statistics(job: Mapping[str, Any]) -> list[LayerStatistics]:
    options = {"draws": job["draws"], "seed": job["seed"], "centers": job["centers"]}
    return layer_statistics(built_model(job["model"]), job["block"].read().images, **options)
