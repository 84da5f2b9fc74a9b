"""``initscope search build``, ``query`` and ``evaluate``: nearest codes, and how good the neighbours are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cyclopts import App

from initscope._results import Result
from initscope._tensors import StoredArray
from initscope.cli._output import Format, emit, say
from initscope.cli._vectors import Codes, array_in_file, read_codes
from initscope.embed.index import Kind
from initscope.errors import InputError

__all__ = ["app"]

app = App(name="search", help="Nearest codes by Hamming distance: build an index, query it, evaluate retrieval.")


@dataclass(frozen=True)
class Neighbours(Result):
    """Ids and distances of the nearest codes of each query."""

    distances: np.ndarray
    ids: np.ndarray

    def table(self) -> list[dict[str, Any]]:
        """One row per query and rank."""
        return [
            {"query": query, "rank": rank + 1, "id": int(name), "distance": int(distance)}
            for query, (names, distances) in enumerate(zip(self.ids, self.distances))
            for rank, (name, distance) in enumerate(zip(names, distances))
        ]


@dataclass(frozen=True)
class Evaluation(Result):
    """Mean average precision with the range that ties allow, and precision and recall at ranks and radii."""

    mean_average_precision: dict[str, Any]
    curve: list[dict[str, Any]]

    def table(self) -> list[dict[str, Any]]:
        """mAP first, then precision and recall."""
        score = self.mean_average_precision
        rows = [{"at": f"mAP, {name}", "precision": score[name], "recall": None} for name in ("value", "worst", "best")]
        return rows + self.curve


@app.command
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


@app.command
def query(index: Path, codes: Path, *, k: int = 10, format: Format = "table") -> None:
    """Find the nearest codes of each query.

    Parameters
    ----------
    index
        File from search build.
    codes
        Codes of the queries.
    k
        Neighbours for each.
    format
        table, json or csv.
    """
    from initscope.embed import HammingIndex

    found = HammingIndex.load(index)
    queries = read_codes(codes)
    _same_length(queries, found.bits, index)
    emit(Neighbours(*found.search(queries.codes, k)), format, title=f"{codes} in {index}")


@app.command
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
    asked, ranked = read_codes(queries), read_codes(codes)
    _same_length(asked, ranked.bits, codes)
    same_labels = np.array_equal(_labels(asked, queries), _labels(ranked, codes))
    same = same_labels and np.array_equal(asked.codes, ranked.codes)
    if exclude_self and not same:
        raise InputError(f"--exclude-self: {queries} and {codes} are not the same; give one file twice")
    if same and not exclude_self:
        say("every query is among the ranked codes and finds itself first; --exclude-self leaves it out")
    scores = _scores_among_others(ranked) if exclude_self else _scores(asked, ranked)
    emit(scores, format, title=f"{queries} against {codes}")


def _scores(asked: Codes, ranked: Codes) -> Evaluation:
    from initscope.embed import mean_average_precision, precision_recall

    arguments = (asked.codes, asked.labels, ranked.codes, ranked.labels)
    ranks = [rank for rank in (1, 10, 100, 1000) if rank <= len(ranked.codes)]
    curve = precision_recall(*arguments, ranks=ranks).table()
    return Evaluation(mean_average_precision(*arguments).to_dict(), curve)


def _scores_among_others(rows: Codes) -> Evaluation:
    """Every code against all others, one by one: each has a ranking of its own. One alone in its class is skipped."""
    labels = np.asarray(rows.labels)
    _, place, size = np.unique(labels, return_inverse=True, return_counts=True)
    asked = np.flatnonzero(size[place] > 1)
    if len(asked) == 0:
        raise InputError("no two codes share a label: no query has a relevant item")
    each = []
    for query in asked:
        others = np.arange(len(labels)) != query
        alone = Codes(rows.codes[[query]], rows.bits, labels[[query]])
        each.append(_scores(alone, Codes(rows.codes[others], rows.bits, labels[others])))

    def mean(rows: list[dict[str, Any]], *names: str) -> dict[str, float]:
        return {name: float(np.mean([row[name] for row in rows])) for name in names}

    scores = [one.mean_average_precision for one in each]
    values = [score["value"] for score in scores]
    score = {
        **scores[0],
        **mean(scores, "value", "best", "worst"),
        "standard_error": float(np.std(values, ddof=1) / np.sqrt(len(values))),
        "queries": len(asked),
        "skipped": len(labels) - len(asked),
    }
    at = zip(*(one.curve for one in each))
    return Evaluation(score, [{"at": rows[0]["at"], **mean(list(rows), "precision", "recall")} for rows in at])


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
