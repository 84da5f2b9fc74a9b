"""``initscope search``: build and change an index, find nearest codes and vectors, evaluate retrieval."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from cyclopts import App

from initscope._utils.tensors import StoredArray
from initscope.cli._help import WORK, examples
from initscope.cli._options import Seed, Whole
from initscope.cli._output import Format, ask_of, emit, say
from initscope.cli._sources import BlockOptions
from initscope.cli._vectors import Codes, array_in_file, mapped_vectors, read_codes, stored_codes
from initscope.embed.index import Kind
from initscope.errors import InputError

if TYPE_CHECKING:
    from initscope.embed import Neighbors

__all__ = ["app"]

app = App(
    name="search",
    help="Build and change an index of codes, search it by Hamming distance, and evaluate retrieval.",
    help_epilogue=examples("search"),
    group_parameters=WORK,
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
    from initscope._utils.disk import check_space
    from initscope.embed import HammingIndex

    rows = read_codes(codes)
    check_space(out, rows.codes.nbytes)
    index = HammingIndex(rows.bits, kind)
    index.add(rows.codes, None if ids is None else _ids(ids))
    index.save(out)
    say(f"{out}: {index}")


@app.command(help_epilogue=examples("search query"))
def query(
    index: Path,
    codes: Path,
    *,
    k: Whole = 10,
    rerank: Whole = 100,
    vectors: Path | None = None,
    queries: Path | None = None,
    blocks: BlockOptions | None = None,
    format: Format = "table",
) -> None:
    """Find the nearest codes of each query; with the original vectors, the nearest vectors.

    Parameters
    ----------
    index
        File from search build; with --rows or --dask codes from hash encode, searched part by part, exactly.
    codes
        Codes of the queries.
    k
        Neighbors for each.
    rerank
        With --vectors: how many of the nearest codes are ranked by the exact cosine of their vectors.
    vectors
        The vectors that were encoded, one row for each id from 0 on (.npy, read from the disk as needed).
    queries
        The vectors of the queries (.npy).
    format
        table, json or csv.
    """
    from initscope.embed import HammingIndex, Neighbors

    asked = read_codes(codes)
    ask_of(data={"index": str(index), "queries": str(codes)})
    if blocks is not None and blocks.asked:
        emit(_in_blocks(index, asked, k, blocks), format, title=f"{codes} in {index}")
        return
    result = HammingIndex.load(index)
    _same_length(asked, result.bits, index)
    if (vectors is None) != (queries is None):
        raise InputError("--vectors and --queries go together: exact cosines need both sides")
    title = f"{codes} in {index}"
    if vectors is None or queries is None:
        emit(Neighbors(*result.search(asked.codes, k)), format, title=title)
        return
    emit(_reranked(result, asked, k, rerank, vectors, queries), format, title=f"{title}: 1 - cosine")


def _reranked(result: Any, asked: Codes, k: int, rerank: int, vectors: Path, queries: Path) -> Any:
    """Return the nearest by exact cosine among the nearest codes; the vectors are not loaded into memory."""
    from initscope.embed import Neighbors, rerank as ranked

    rows, sides = mapped_vectors(vectors), mapped_vectors(queries)
    if len(sides) != len(asked.codes):
        raise InputError(f"--queries {queries} has {len(sides)} rows for {len(asked.codes)} codes; give one for each")
    _, ids = result.search(asked.codes, min(max(k, rerank), len(result)))
    _rows_of(ids, rows, vectors)
    cosines, near = ranked(sides, ids, rows, k)
    return Neighbors(1 - cosines, near)


@app.command(help_epilogue=examples("search recall"))
def recall(
    index: Path,
    *,
    vectors: Path,
    k: Whole = 10,
    rerank: Whole = 100,
    sample: Whole = 100,
    seed: Seed = 0,
    format: Format = "table",
) -> None:
    """Count which share of the nearest vectors a search finds, and how many candidates other shares would take.

    Parameters
    ----------
    index
        File from search build (flat or ivf); codes are taken to be searched exhaustively.
    vectors
        The vectors that were encoded, one row for each id from 0 on (.npy, read from the disk block by block).
    k
        Neighbors that each query is asked for.
    rerank
        Candidates, as of search query.
    sample
        Vectors drawn as queries, each searched among the others.
    seed
        Seed of the sample.
    format
        table, json or csv.
    """
    from initscope.embed import HammingIndex
    from initscope.embed.recall import own_recall

    ask_of(data={"index": str(index), "vectors": str(vectors)}, seed=seed)
    codes, ids = HammingIndex.load(index).codes_and_ids()
    rows = mapped_vectors(vectors)
    _rows_of(ids, rows, vectors)
    result = own_recall(codes, lambda indices: rows[ids[indices]], k, max(k, rerank), sample, seed)
    note = f"found: share of the {k} nearest by cosine of {len(result.ranks)} of the vectors; first as asked, then more"
    emit(result, format, title=f"{index}: what candidates find", below=[note])


@app.command(help_epilogue=examples("search add"))
def add(index: Path, codes: Path, *, ids: Path | None = None) -> None:
    """Add CODES to an index that is there; other processes that change it wait for their turn.

    Parameters
    ----------
    index
        File from search build.
    codes
        Codes from hash encode (.npz), or packed uint8 codes (.npy).
    ids
        Whole numbers, one per code (.npy); default: they go on counting.
    """
    from initscope.embed import HammingIndex

    rows = read_codes(codes)
    with HammingIndex.edit(index) as result:
        _same_length(rows, result.bits, index)
        result.add(rows.codes, None if ids is None else _ids(ids))
    say(f"{index}: {result}")


@app.command(help_epilogue=examples("search remove"))
def remove(index: Path, *ids: Whole) -> None:
    """Remove codes by their ids.

    Parameters
    ----------
    index
        File from search build (flat or ivf).
    ids
        Ids of the codes to remove.
    """
    from initscope.embed import HammingIndex

    if not ids:
        raise InputError("no id is given; name those to remove: initscope search remove FILE 3 17")
    with HammingIndex.edit(index) as result:
        gone = result.remove(list(ids))
    say(f"{index}: {result}; removed {gone} of {len(ids)} ids")


@app.command(help_epilogue=examples("search radius"))
def radius(index: Path, codes: Path, *, radius: Whole, format: Format = "table") -> None:
    """Find every code within a Hamming distance of each query.

    Parameters
    ----------
    index
        File from search build (flat or ivf).
    codes
        Codes of the queries.
    radius
        Most unequal bits.
    format
        table, json or csv.
    """
    from initscope.embed import HammingIndex, within_radius

    result = HammingIndex.load(index)
    asked = read_codes(codes)
    ask_of(data={"index": str(index), "queries": str(codes)})
    _same_length(asked, result.bits, index)
    emit(within_radius(result, asked.codes, radius), format, title=f"{codes} in {index}: at most {radius} unequal bits")


@app.command(help_epilogue=examples("search evaluate"))
def evaluate(queries: Path, codes: Path, *, exclude_self: bool = False, format: Format = "table") -> None:
    """Score how well codes of one class find each other: every code of CODES is ranked for each of QUERIES.

    Parameters
    ----------
    queries
        Codes with labels, from hash encode.
    codes
        Codes with labels, among which those of one class are to be found.
    exclude_self
        QUERIES and CODES are the same: leave each query out of its own ranking.
    format
        table, json or csv.
    """
    from initscope.embed import evaluate_among_others, evaluate_retrieval

    asked, ranked = read_codes(queries), read_codes(codes)
    ask_of(data={"queries": str(queries), "codes": str(codes)})
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
    note = "mAP: mean average precision; worst and best: as codes of equal distance may be ordered"
    emit(scores, format, title=f"{queries} against {codes}", below=[note])


def _rows_of(ids: np.ndarray, rows: np.ndarray, vectors: Path) -> None:
    if ids.max(initial=-1) >= len(rows):
        raise InputError(f"--vectors {vectors} has {len(rows)} rows, but id {ids.max()} is in the index")


def _in_blocks(path: Path, queries: Codes, k: int, options: BlockOptions) -> Neighbors:
    from initscope.distributed import nearest_in_blocks
    from initscope.embed import Neighbors

    codes, bits = stored_codes(path)
    _same_length(queries, bits, path)
    more = {} if options.rows is None else {"rows": options.rows}
    return Neighbors(*nearest_in_blocks(codes, bits, queries.codes, k, dask=options.dask, **more))


def _same_length(queries: Codes, bits: int, where: Path) -> None:
    if queries.bits != bits:
        raise InputError(f"the queries have {queries.bits} bits, {where} has {bits}; encode both with the same hash")


def _labels(rows: Codes, path: Path) -> np.ndarray:
    if rows.labels is None:
        raise InputError(f"{path} has no labels; encode data that has classes (a folder with one folder per class)")
    return rows.labels


def _ids(path: Path) -> np.ndarray:
    hint = "give a .npy file of whole numbers"
    result = array_in_file(path, "ids", hint)
    if not isinstance(result, StoredArray):
        raise InputError(f"{path}: holds several arrays; {hint}")
    return result.read()
