"""Kernel matrices of data sets larger than memory: first pair of blocks at a time, the matrix in a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from initscope._utils.compiled import loops
from initscope._utils.disk import reserved_array
from initscope._utils.files import atomic_path
from initscope.distributed.block_map import on_blocks
from initscope.distributed.model_names import ModelName, built_model
from initscope.distributed.sources import Blocks

__all__ = ["kernel_in_blocks"]


def kernel_in_blocks(
    model: ModelName,
    blocks: Blocks,
    out: str | os.PathLike[str],
    *,
    kind: Literal["nngp", "ntk"] = "nngp",
    normalize: bool = True,
    dask: str | None = None,
) -> float:
    """Write the kernel matrix of all rows to a .npy file in float32; the largest standard error is returned.

    Each pair of blocks is computed once, and written on both sides of the diagonal.
    """
    common = {"model": model, "kind": kind}
    parts = {str(block.start): block for block in blocks}
    jobs = {
        f"{left.start} {right.start}": common | {"left": left, "right": right}
        for left in blocks
        for right in blocks
        if left.start <= right.start
    }
    largest = 0.0
    with atomic_path(out) as temporary:
        matrix = reserved_array(temporary, np.float32, (len(blocks), len(blocks)), out)
        diagonals = dict(on_blocks(_diagonal, {name: common | {"left": block} for name, block in parts.items()}, dask))
        for name, (k, error) in on_blocks(_pair, jobs, dask):
            first, second = name.split()
            scale = np.sqrt(np.outer(diagonals[first], diagonals[second])) if normalize else 1.0
            k, largest = k / scale, max(largest, float((error / scale).max()))
            if first == second and normalize:
                np.fill_diagonal(k, 1.0)
            rows, columns = (slice(parts[part].start, parts[part].stop) for part in (first, second))
            matrix[rows, columns] = k
            matrix[columns, rows] = k.T
        matrix.flush()
    return largest


def _load_loops() -> None:
    """Load the compiled loops; otherwise rounding would depend on earlier computations of this process."""
    for module in ("initscope.theory._fused", "initscope.propagate.kernels._fused"):
        loops(module, pays=True)


def _diagonal(job: Mapping[str, Any]) -> Any:
    from initscope.propagate.kernels import diagonal

    _load_loops()
    return diagonal(built_model(job["model"]), job["left"].read().images, kind=job["kind"], seed=job["model"].seed)


def _pair(job: Mapping[str, Any]) -> tuple[Any, Any]:
    from initscope.propagate.kernels import kernel

    _load_loops()
    left, right = job["left"], job["right"]
    others = None if left == right else right.read().images
    options = {"kind": job["kind"], "normalize": False, "seed": job["model"].seed, "return_error": True}
    k, error = kernel(built_model(job["model"]), left.read().images, others, **options)
    return k, error
