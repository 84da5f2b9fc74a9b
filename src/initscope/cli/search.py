"""``initscope search build``, ``query`` and ``evaluate``: nearest codes, and how good the neighbours are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from cyclopts import App

from initscope._hall.tensors import StoredArray
from initscope.cli._help import examples
from initscope.cli._output import Format, emit, say
from initscope.cli._sources import BlockOptions
from initscope.cli._vectors import Codes, array_in_file, read_codes, stored_codes
from initscope.embed.index import Kind
from initscope.errors import InputError

if TYPE_CHECKING:
    from initscope.embed import Neighbours

__all__ = ["app"]

app = App(
    name="search",
    help="Nearest codes by Hamming distance: build an index, query it, evaluate retrieval.",
    help_epilogue=examples("search"),
)


@app.command(help_epilogue=examples("search build"))
def build(codes: Path, out: Path, *, kind: Kind = "flat", ids: Path | None = None) -> None:
    """Build an index of CODES and write it to OUT.

    Parameters
    ----------
    codes
        Codes from hash encode (.npz), or packed uint8 codes (.npy).
    out
        File for the index.
    kind
        flat (exact), ivf or hnsw (faster on many codes, approximate).
    ids
        Whole numbers, one per code (.npy); default: 0, 1, 2 …
    """
    from initscope.embed import HammingIndex

    rows = read_codes(codes)
    index = HammingIndex(rows.bits, kind)
    index.add(rows.codes, None if ids is None else _ids(ids))
    index.save(out)
    say(f"{out}: {index}")


@app.command(help_epilogue=examples("search query"))
def query(
    index: Path, codes: Path, *, k: int = 10, blocks: BlockOptions | None = None, format: Format = "table"
) -> None:
    """Find the nearest codes of each query.

    Parameters
    ----------
    index
        File from search build; with --rows or --dask codes from hash encode, searched part by part, exactly.
    codes
        Codes of the queries.
    k
        Neighbours for each.
    format
        table, json or csv.
    """
    from initscope.embed import HammingIndex, Neighbours

    queries = read_codes(codes)
    if blocks is not None and blocks.asked:
        emit(_in_blocks(index, queries, k, blocks), format, title=f"{codes} in {index}")
        return
    found = HammingIndex.load(index)
    _same_length(queries, found.bits, index)
    emit(Neighbours(*found.search(queries.codes, k)), format, title=f"{codes} in {index}")


@app.command(help_epilogue=examples("search evaluate"))
def evaluate(queries: Path, codes: Path, *, exclude_self: bool = False, format: Format = "table") -> None:
    """Score how well codes of one class find each other: every code of CODES is ranked for each of QUERIES.

    Parameters
    ----------
    queries, codes
        Codes with labels, from hash encode.
    exclude_self
        QUERIES and CODES are the same: leave each query out of its own ranking.
    format
        table, json or csv.
    """
    from initscope.embed import evaluate_among_others, evaluate_retrieval

    asked, ranked = read_codes(queries), read_codes(codes)
    _same_length(asked, ranked.bits, codes)
    same_labels = np.array_equal(_labels(asked, queries), _labels(ranked, codes))
    same = same_labels and np.array_equal(asked.codes, ranked.codes)
    if exclude_self and not same:
        raise InputError(f"--exclude-self: {queries} and {codes} are not the same; give one file twice")
    if same and not exclude_self:
        say("every query is among the ranked codes and finds itself first; --exclude-self leaves it out")
    if exclude_self:
        scores = evaluate_among_others(ranked.codes, ranked.labels)
    else:
        scores = evaluate_retrieval(asked.codes, asked.labels, ranked.codes, ranked.labels)
    emit(scores, format, title=f"{queries} against {codes}")


def _in_blocks(path: Path, queries: Codes, k: int, options: BlockOptions) -> Neighbours:
    from initscope.blocks import nearest_in_blocks
    from initscope.embed import Neighbours

    codes, bits = stored_codes(path)
    _same_length(queries, bits, path)
    more = {} if options.rows is None else {"rows": options.rows}
    return Neighbours(*nearest_in_blocks(codes, bits, queries.codes, k, dask=options.dask, **more))


def _same_length(queries: Codes, bits: int, where: Path) -> None:
    if queries.bits != bits:
        raise InputError(f"the queries have {queries.bits} bits, {where} has {bits}; encode both with the same hash")


def _labels(rows: Codes, path: Path) -> np.ndarray:
    if rows.labels is None:
        raise InputError(f"{path} has no labels; encode data that has classes (a folder with one folder per class)")
    return rows.labels


def _ids(path: Path) -> np.ndarray:
    hint = "give a .npy file of whole numbers"
    found = array_in_file(path, "ids", hint)
    if not isinstance(found, StoredArray):
        raise InputError(f"{path}: holds several arrays; {hint}")
    return found.read()
