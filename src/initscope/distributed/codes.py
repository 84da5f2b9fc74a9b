"""Binary codes of data larger than memory: encoding by blocks, and exact search by partitions."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from initscope._utils.content import digest_of, sampled_digest
from initscope._utils.disk import check_space, reserve, reserved_array
from initscope._utils.files import atomic_path, scratch_path
from initscope._utils.tensors import StoredArray
from initscope.distributed.block_map import on_blocks
from initscope.distributed.sources import Blocks, check_content
from initscope.embed.codes import code_bytes
from initscope.errors import InputError, check_count

__all__ = ["encode_blocks", "merge_nearest", "nearest_in_blocks"]

_ROWS = 1 << 20
_HEADERS = 1 << 12  # bytes of a .npz file in addition to its arrays


def encode_blocks(
    fitted: str | os.PathLike[str], blocks: Blocks, out: str | os.PathLike[str], *, dask: str | None = None
) -> tuple[int, int]:
    """Encode all rows with the hash in the file ``fitted``; the codes are written to ``out`` as they come.

    ``out`` ends in .npy (codes only) or .npz (with bits and labels). The numbers of rows and bits are returned.
    """
    from initscope.embed.persistence import load_hasher

    hasher = load_hasher(fitted)
    digest = _digest(hasher)
    width = int(np.prod(blocks.shape))
    if width != hasher.n_features_in_:
        raise InputError(f"{blocks.name} has rows of {width} numbers, {fitted} was fitted to {hasher.n_features_in_}")
    jobs = {str(block.start): {"fitted": str(fitted), "digest": digest, "block": block} for block in blocks}
    labels = np.full(len(blocks), -1, np.int64)
    destination = Path(out)
    shape = (len(blocks), code_bytes(hasher.bits))
    bare, size = destination.suffix == ".npy", math.prod(shape)
    if not bare:  # which holds a copy of the codes, made at the end
        check_space(destination, 2 * size + labels.nbytes + _HEADERS)
    with ExitStack() as files:
        temporary = files.enter_context(atomic_path(destination))
        if not bare:
            reserve(temporary, size + labels.nbytes + _HEADERS, destination)
        codes = reserved_array(
            temporary if bare else files.enter_context(scratch_path(destination)), np.uint8, shape, destination
        )
        for name, (part, part_labels) in on_blocks(_encoded, jobs, dask):
            rows = slice(int(name), int(name) + len(part))
            codes[rows] = part
            if part_labels is not None:
                labels[rows] = part_labels
        codes.flush()
        if not bare:
            known = {} if (labels < 0).any() else {"labels": labels}
            with temporary.open("rb+") as file:  # which keeps the reserved space
                np.savez(file, allow_pickle=False, codes=codes, bits=np.array(hasher.bits), **known)
                file.truncate(file.tell())
    return shape[0], hasher.bits


@lru_cache(maxsize=2)
def _hasher(fitted: str, digest: str) -> Any:
    """Load the hash in the file ``fitted``; a hash that differs from the driver's is refused and not kept."""
    from initscope.embed.persistence import load_hasher

    hasher = load_hasher(fitted)
    if _digest(hasher) != digest:
        raise InputError(f"{fitted} holds a different hash than the driver read; copy the same file to every worker")
    return hasher


def _digest(hasher: Any) -> str:
    from initscope.embed.persistence import hasher_state

    about, arrays = hasher_state(hasher)
    return digest_of([json.dumps(about, sort_keys=True), *(part for pair in sorted(arrays.items()) for part in pair)])


def _encoded(job: Mapping[str, Any]) -> tuple[Any, Any]:
    data = job["block"].read()
    return _hasher(job["fitted"], job["digest"]).transform(data.images.reshape(len(data), -1)), data.labels


def nearest_in_blocks(
    codes: StoredArray, bits: int, queries: np.ndarray, k: int = 10, *, rows: int = _ROWS, dask: str | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return ``(distances, ids)`` of the ``k`` nearest stored codes, exactly: the results of all partitions, merged.

    Ids are row numbers in the file; ties come in their order, whatever the partitions are.
    """
    count = codes.shape[0]
    k = check_count("k", k, most=count, hint=f"there are {count} codes")
    rows = check_count("rows", rows)
    content = sampled_digest(codes.file)
    jobs = {
        str(start): {
            "codes": codes, "content": content, "bits": bits, "queries": queries, "k": k, "start": start,
            "stop": min(start + rows, count),
        }
        for start in range(0, count, rows)
    }  # fmt: skip
    nearest: tuple[np.ndarray, np.ndarray] | None = None
    for _, part in on_blocks(_nearest, jobs, dask):
        nearest = part if nearest is None else merge_nearest(nearest, part, k)
    assert nearest is not None
    return nearest


def _nearest(job: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    from initscope.embed import HammingIndex

    check_content(job["codes"].file, sampled_digest(job["codes"].file), job["content"])
    ids = np.arange(job["start"], job["stop"])
    index = HammingIndex(job["bits"])
    index.add(job["codes"].read(ids), ids)
    distances, ids = index.search(job["queries"], min(job["k"], len(ids)))
    return distances, ids


def merge_nearest(
    left: tuple[np.ndarray, np.ndarray], right: tuple[np.ndarray, np.ndarray], k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Merge the nearest of two partitions into the ``k`` nearest, ``(distances, ids)``; ties by increasing id.

    This is exact: the k nearest of all are among the k nearest of their partitions.

    >>> import numpy as np
    >>> merge_nearest((np.array([[0, 3]]), np.array([[5, 1]])), (np.array([[0, 2]]), np.array([[4, 9]])), 3)
    (array([[0, 0, 2]]), array([[4, 5, 9]]))
    """
    distances, ids = (np.concatenate([left[side], right[side]], axis=1) for side in (0, 1))
    order = np.lexsort((ids, distances), axis=1)[:, :k]
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(ids, order, axis=1)
