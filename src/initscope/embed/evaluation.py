"""Nearest codes as a table, and the evaluation of a ranking by mAP, precision and recall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope.embed.metrics import mean_average_precision, precision_recall
from initscope.errors import InputError
from initscope.results import Result, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Evaluation", "Neighbors", "evaluate_among_others", "evaluate_retrieval"]

_RANKS = (1, 10, 100, 1000)


@dataclass(frozen=True)
class Neighbors(Result):
    """Ids and distances of the nearest neighbors of each query: unequal bits of codes, or 1 - cosine of vectors."""

    distances: np.ndarray
    ids: np.ndarray

    def table(self) -> list[dict[str, Any]]:
        """Return one row per query and rank."""
        return [
            {"query": query, "rank": rank + 1, "id": int(name), "distance": distance.item()}
            for query, (names, distances) in enumerate(zip(self.ids, self.distances))
            for rank, (name, distance) in enumerate(zip(names, distances))
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Return the distance against rank: each query, and the median of all."""
        ax = make_axes(ax)
        ranks = range(1, self.distances.shape[1] + 1)
        ax.plot(ranks, self.distances.T, color="0.7", linewidth=0.8)
        ax.plot(ranks, np.median(self.distances, axis=0), label="median")
        ax.set_xlabel("rank")
        ax.set_ylabel("distance")
        ax.legend()
        return ax


@dataclass(frozen=True)
class Evaluation(Result):
    """Mean average precision with the range that ties allow, and precision and recall at ranks and radii."""

    mean_average_precision: dict[str, Any]
    curve: list[dict[str, Any]]

    def table(self) -> list[dict[str, Any]]:
        """Return mAP first, then precision and recall."""
        score = self.mean_average_precision
        rows = [{"at": f"mAP, {name}", "precision": score[name], "recall": None} for name in ("value", "worst", "best")]
        return rows + self.curve


def evaluate_retrieval(queries: Any, query_labels: Any, codes: Any, labels: Any) -> Evaluation:
    """Rank all ``codes`` for each query: mAP, and precision and recall at ranks 1, 10, 100 and 1000.

    Ranks beyond the number of codes are left out.

    >>> codes = np.array([[0], [1], [254], [255]], dtype=np.uint8)
    >>> evaluate_retrieval(codes, [0, 0, 1, 1], codes, [0, 0, 1, 1]).mean_average_precision["value"]
    1.0
    """
    arguments = (queries, query_labels, codes, labels)
    curve = precision_recall(*arguments, ranks=[rank for rank in _RANKS if rank <= len(codes)]).table()
    return Evaluation(mean_average_precision(*arguments).to_dict(), curve)


def evaluate_among_others(codes: Any, labels: Any) -> Evaluation:
    """Rank all other codes for each code. A code without another code of its class is skipped."""
    codes, labels = np.asarray(codes), np.asarray(labels)
    _, class_index, size = np.unique(labels, return_inverse=True, return_counts=True)
    asked = np.flatnonzero(size[class_index] > 1)
    if len(asked) == 0:
        raise InputError("no two codes share a label: no query has a relevant item")
    evaluations = []
    for query in asked:
        others = np.arange(len(labels)) != query
        evaluations.append(evaluate_retrieval(codes[[query]], labels[[query]], codes[others], labels[others]))
    scores = [evaluation.mean_average_precision for evaluation in evaluations]
    values = [score["value"] for score in scores]
    score = {
        **scores[0],
        **_means(scores, "value", "best", "worst"),
        "standard_error": float(np.std(values, ddof=1) / np.sqrt(len(values))),
        "queries": len(asked),
        "skipped": len(labels) - len(asked),
    }
    at = zip(*(evaluation.curve for evaluation in evaluations))
    return Evaluation(score, [{"at": rows[0]["at"], **_means(list(rows), "precision", "recall")} for rows in at])


def _means(rows: list[dict[str, Any]], *names: str) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in rows])) for name in names}
