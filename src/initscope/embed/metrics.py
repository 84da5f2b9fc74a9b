"""Retrieval metrics with ties counted exactly: the mean over all orders of equal distances, and its best and worst.

Short codes give thousands of items the same distance, and the order of these ties changes mAP by tens of percentage
points. Everything follows from two counts per query and distance (all items, relevant items).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from initscope.embed.codes import check_codes, hamming_blocks
from initscope.errors import InputError, check_count
from initscope.results import Result

__all__ = ["MeanAveragePrecision", "PrecisionRecall", "mean_average_precision", "precision_recall"]


@dataclass(frozen=True)
class MeanAveragePrecision(Result):
    """Mean average precision over the whole ranking, in [0, 1].

    Attributes
    ----------
    value : float
        Mean over the queries, and over all orders of items at equal distance.
    standard_error : float
        Over the queries.
    best, worst : float
        Return the best and the worst value over all orders of ties: the range that sorting algorithms can report.
    queries, items, skipped : int
        Queries counted, items ranked, queries without any relevant item (not counted).
    """

    value: float
    standard_error: float
    best: float
    worst: float
    queries: int
    items: int
    skipped: int

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True)
class PrecisionRecall(Result):
    """Precision and recall at ranks ``k`` (mean over ties) and within Hamming radii.

    Means over the queries. A query without an item in its radius has precision 0, as is usual.
    """

    rank: tuple[int, ...]
    precision_at_rank: tuple[float, ...]
    recall_at_rank: tuple[float, ...]
    radius: tuple[int, ...]
    precision_at_radius: tuple[float, ...]
    recall_at_radius: tuple[float, ...]

    def table(self) -> list[dict[str, Any]]:
        """Return one row per rank and per radius."""
        ranks = zip(self.rank, self.precision_at_rank, self.recall_at_rank)
        radii = zip(self.radius, self.precision_at_radius, self.recall_at_radius)
        return [{"at": f"rank {k}", "precision": p, "recall": r} for k, p, r in ranks] + [
            {"at": f"radius {k}", "precision": p, "recall": r} for k, p, r in radii
        ]


def mean_average_precision(
    query_codes: Any, query_labels: Any, codes: Any, labels: Any, *, distances: Any = None
) -> MeanAveragePrecision:
    r"""Return the mean average precision of the Hamming ranking, averaged exactly over the orders of ties.

    With n items at a distance, r of them relevant, after N items with R relevant, the mean over the orders of
    the group's share of the average precision is

    .. math:: \frac rn \sum_{j=1}^{n} \frac{R + 1 + (j-1)\frac{r-1}{n-1}}{N + j} ,

    two differences of harmonic numbers [McSherryNajork2008]_.

    Parameters
    ----------
    query_codes, codes : uint8 [.., bytes]
        Packed codes; ignored when ``distances`` are given (pass None).
    query_labels, labels : array
        Items with the query's label are relevant.
    distances : array [queries, items], optional
        Rank by these (real) distances instead of Hamming distances.

    Examples
    --------
    >>> codes = np.array([[0], [0], [255]], dtype=np.uint8)
    >>> result = mean_average_precision(codes[:1], [1], codes, [1, 0, 1])
    >>> [round(score, 4) for score in (result.worst, result.value, result.best)]      # ranks 1 or 2, then 3
    [0.5833, 0.7083, 0.8333]
    """
    query_labels, labels = _labels("query_labels", query_labels), _labels("labels", labels)
    totals = np.zeros((3, len(query_labels)))
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, len(labels) + 1))])
    for rows, counts, relevant in _grouped(query_codes, query_labels, codes, labels, distances):
        totals[:, rows] = _average_precision(counts, relevant, harmonic)
    counted = np.isin(query_labels, labels)
    if not counted.any():
        raise InputError("no query has a relevant item: query_labels and labels share no value")
    mean, best, worst = totals[:, counted]
    return MeanAveragePrecision(
        value=float(mean.mean()),
        standard_error=float(mean.std(ddof=1) / np.sqrt(len(mean))) if len(mean) > 1 else float("nan"),
        best=float(best.mean()),
        worst=float(worst.mean()),
        queries=int(counted.sum()),
        items=len(labels),
        skipped=int((~counted).sum()),
    )


def precision_recall(
    query_codes: Any,
    query_labels: Any,
    codes: Any,
    labels: Any,
    *,
    ranks: Sequence[int] = (1, 10, 100),
    radii: Sequence[int] = (0, 1, 2),
) -> PrecisionRecall:
    """Return the precision and recall at ranks (expected over the orders of ties) and within Hamming radii.

    >>> codes = np.array([[0], [1], [255]], dtype=np.uint8)
    >>> precision_recall(codes[:1], [1], codes, [1, 0, 1], ranks=(2,), radii=(0, 8)).precision_at_rank
    (0.5,)
    """
    query_labels, labels = _labels("query_labels", query_labels), _labels("labels", labels)
    ranks = tuple(check_count("ranks", k, most=len(labels), hint="no more than there are items") for k in ranks)
    radii = tuple(check_count("radii", radius, least=0) for radius in radii)
    found_at_rank = np.zeros((len(ranks), len(query_labels)))
    found_at_radius, seen_at_radius = np.zeros((2, len(radii), len(query_labels)))
    relevant_items = np.zeros(len(query_labels))
    for rows, counts, relevant in _grouped(query_codes, query_labels, codes, labels, None):
        seen, hits = counts.cumsum(axis=1), relevant.cumsum(axis=1)
        relevant_items[rows] = hits[:, -1]
        for i, k in enumerate(ranks):
            taken = np.clip(k - (seen - counts), 0, counts)
            found_at_rank[i, rows] = (relevant * taken / np.maximum(counts, 1)).sum(axis=1)
        for i, radius in enumerate(radii):
            last = min(radius, counts.shape[1] - 1)
            found_at_radius[i, rows], seen_at_radius[i, rows] = hits[:, last], seen[:, last]
    counted = relevant_items > 0
    if not counted.any():
        raise InputError("no query has a relevant item: query_labels and labels share no value")

    def mean(values: np.ndarray) -> float:
        return float(values[counted].mean())

    total = np.maximum(relevant_items, 1)
    return PrecisionRecall(
        rank=ranks,
        precision_at_rank=tuple(mean(hits / k) for k, hits in zip(ranks, found_at_rank)),
        recall_at_rank=tuple(mean(hits / total) for hits in found_at_rank),
        radius=radii,
        precision_at_radius=tuple(mean(f / np.maximum(s, 1)) for f, s in zip(found_at_radius, seen_at_radius)),
        recall_at_radius=tuple(mean(hits / total) for hits in found_at_radius),
    )


def _labels(name: str, values: Any) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim != 1 or len(array) == 0:
        raise InputError(f"{name} of shape {array.shape} must be one label per row")
    return array


def _grouped(query_codes: Any, query_labels: np.ndarray, codes: Any, labels: np.ndarray, distances: Any) -> Any:
    """Yield rows and, for each of their distances (nearest first), the number of items and of relevant items."""
    if distances is not None:
        distances = np.asarray(distances)
        if distances.shape != (len(query_labels), len(labels)) or np.isnan(distances).any():
            raise InputError(
                f"distances of shape {distances.shape} must be [{len(query_labels)}, {len(labels)}] without NaN"
            )
        for query, row in enumerate(distances):
            order = np.argsort(row, kind="stable")
            ranked = row[order]
            offsets = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))
            hits = np.concatenate([[0], np.cumsum(labels[order] == query_labels[query])])
            ends = np.append(offsets[1:], len(row))
            yield slice(query, query + 1), (ends - offsets)[None, :], (hits[ends] - hits[offsets])[None, :]
        return
    query_codes, codes = check_codes("query_codes", query_codes), check_codes("codes", codes)
    for name, array, labels_of_rows in (("query_codes", query_codes, query_labels), ("codes", codes, labels)):
        if len(array) != len(labels_of_rows):
            raise InputError(f"{name} has {len(array)} rows but {len(labels_of_rows)} labels")
    groups = 8 * codes.shape[1] + 1
    order = np.argsort(labels, kind="stable")  # the relevant items of a query are then a slice
    first, last = (np.searchsorted(labels, query_labels, side=side, sorter=order) for side in ("left", "right"))
    for rows, block in hamming_blocks(query_codes, codes[order]):
        counts, relevant = np.empty((2, len(block), groups), dtype=np.int64)
        for row_index, (row, start, end) in enumerate(zip(block, first[rows], last[rows])):
            counts[row_index] = np.bincount(row, minlength=groups)
            relevant[row_index] = np.bincount(row[start:end], minlength=groups)
        yield rows, counts, relevant


def _average_precision(counts: np.ndarray, relevant: np.ndarray, harmonic: np.ndarray) -> np.ndarray:
    """Return mean, best and worst average precision [3, rows] from counts per group."""
    before, hits = counts.cumsum(axis=1) - counts, relevant.cumsum(axis=1) - relevant
    total = np.maximum(relevant.sum(axis=1), 1)
    spread = harmonic[before + counts] - harmonic[before]  # sum of 1/(N+j)
    slope = (relevant - 1) / np.maximum(counts - 1, 1)
    mean = relevant / np.maximum(counts, 1) * ((hits + 1) * spread + slope * (counts - (before + 1) * spread))

    def consecutive(skipped: np.ndarray) -> np.ndarray:
        """Return relevant items in consecutive ranks after ``skipped`` items: sum of (R+i)/(M+i)."""
        return np.asarray(relevant + (hits - skipped) * (harmonic[skipped + relevant] - harmonic[skipped]))

    best, worst = consecutive(before), consecutive(before + counts - relevant)
    return np.asarray(np.stack([mean.sum(axis=1), best.sum(axis=1), worst.sum(axis=1)]) / total)
