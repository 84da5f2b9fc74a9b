"""Ranking with 48-bit hashes: a few queries, and the first ten answers of each method, right or wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope import data, embed
from initscope.errors import InputError, check_count
from initscope.reproductions._figures import Rows
from initscope.reproductions.hashing_table import METHODS, split_rows
from initscope.reproductions.protocol import Declared, Number
from initscope.results import Result, make_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["REPRODUCTIONS", "RankedImages", "RankedRow", "run"]


@dataclass(frozen=True)
class RankedRow(Result):
    """One method: the fraction of right answers among the first ten over all queries, with its standard error."""

    method: str
    right: float
    standard_error: float


@dataclass(frozen=True)
class RankedImages(Rows):
    """Rows by method; images of some queries and of their first answers, and which answers are right."""

    bits: int
    rows: tuple[RankedRow, ...]
    queries: np.ndarray = field(repr=False)
    answers: np.ndarray = field(repr=False)
    """Images, ``[methods, queries, first, channels, height, width]``."""
    right: np.ndarray = field(repr=False)

    def figure(self) -> Figure:
        """Plot a row per query and method: the query and its answers, framed green if right and red if wrong."""
        methods, shown, first = self.right.shape
        axes = make_grid(methods * shown, first + 1, (0.62 * (first + 3), 0.62 * methods * shown))
        for method in range(methods):
            for query in range(shown):
                line = axes[query * methods + method]
                _draw_image(line[0], self.queries[query])
                # Text, not the label of the axis, because the layout reserves its width at any size of the figure.
                line[0].set_yticks([line[0].get_ylim()[0] / 2], [self.rows[method].method], fontsize=8)
                line[0].tick_params(length=0)
                for rank in range(first):
                    color = "#2e8b57" if self.right[method, query, rank] else "#d03b3b"
                    _draw_image(line[rank + 1], self.answers[method, query, rank], color)
        return axes.flat[0].figure  # type: ignore[no-any-return]


def _draw_image(ax: Any, image: np.ndarray, color: str | None = None) -> None:
    shades = image[0] if len(image) == 1 else np.clip(image.transpose(1, 2, 0), 0, 1)
    ax.imshow(shades, cmap="gray", interpolation="nearest")
    ax.set(xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set(visible=color is not None, color=color, linewidth=2)


def run(
    images: data.ImageSet | None = None,
    *,
    spec: str = "cifar10",
    methods: Sequence[str] = ("random", "ITQ", "DiffHash", "SSH", "AGH", "KSH", "NN-1", "NN-2"),
    bits: int = 48,
    limit: int | None = 10_000,
    queries: int = 200,
    per_class: int = 200,
    shown: int = 3,
    first: int = 10,
    steps: int | None = None,
    seed: int = 0,
) -> RankedImages:
    """Fit hashes on descriptors (GIST for images larger than 16×16, otherwise pixels), and rank images.

    ``methods`` are names in `hashing_table.METHODS`; ties are in the order of the rows.
    """
    loaded = data.load(spec, limit=limit) if images is None else images
    if loaded.labels is None:
        raise InputError(f"{loaded.name} has no labels, which are needed to compare answers")
    originals = np.asarray(loaded.images)
    large = min(originals.shape[2:]) > 16
    rows = np.asarray(data.gist(originals) if large else originals.reshape(len(originals), -1))
    ask, rest, train = split_rows(loaded.labels, queries=queries, per_class=per_class, seed=seed)
    ask = ask[: check_count("queries", queries, least=shown)]
    ranked_rows, answers, marks = [], [], []
    for name in methods:
        hasher = METHODS[name](bits, seed)
        if steps is not None and isinstance(hasher, embed.LearnedHash):
            hasher.set_params(steps=steps)
        codes = hasher.fit(rows[train], loaded.labels[train]).transform(rows)
        distances = np.stack([embed.hamming_distance(codes[rest], codes[[query] * len(rest)]) for query in ask])
        order = np.argsort(distances, axis=1, kind="stable")[:, :first]
        right = loaded.labels[rest[order]] == loaded.labels[ask][:, None]
        shares = right.mean(axis=1)
        ranked_rows.append(RankedRow(name, float(shares.mean()), float(shares.std(ddof=1) / np.sqrt(len(shares)))))
        answers.append(originals[rest[order[:shown]]])
        marks.append(right[:shown])
    return RankedImages(bits, tuple(ranked_rows), originals[ask[:shown]], np.array(answers), np.array(marks))


REPRODUCTIONS = (
    Declared(
        id="talk-ranked-pictures",
        source="Bronstein 2016, 'Ranking using 48-bit hashes'",
        statement="Trained hashes rank images of the right class first more often than random ones.",
        produce=run,
        numbers=lambda result: {
            f"{row.method}: right in the first ten": Number(row.right, row.standard_error) for row in result.rows
        },
        holds=lambda result: result.rows[-1].right > result.rows[0].right,
        small={
            "spec": "digits",
            "methods": ("random", "ITQ", "KSH", "NN-2"),
            "limit": 600,
            "queries": 60,
            "per_class": 30,
            "shown": 2,
            "steps": 60,
        },
        data="images",
    ),
)
