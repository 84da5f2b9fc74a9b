"""`overview`: what enters a network, in one table: range, mean and deviation, missing values, duplicates, classes.

The cost is linear in the data: statistics take one pass, exact duplicates are found by their digests, and
near-duplicates and the intrinsic dimension among at most 2,000 samples.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from initscope.data.image_set import ImageSet
from initscope.data.sources import load
from initscope.errors import InputError
from initscope.results import Result, counted, format_number, plain, rendering_module

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ColumnFacts", "Overview", "intrinsic_dimension", "overview"]

_COMPARED = 2000
_COMPARED_VALUES = 1 << 24
"""Values of the samples that are compared with each other, which bounds memory and time."""
_NEAR = 0.1
"""Largest share of the median distance at which two samples are near-duplicates."""
_CHANCE = 0.05
"""Expected number of pairs of independent samples that are as close."""
_MOST_PAIRS = 20
_IMBALANCE = 10.0
_SCALES = 100.0
_FEW = 30
"""Samples below which the intrinsic dimension is not estimated."""
_BLOCK = 1 << 22


@dataclass(frozen=True)
class ColumnFacts:
    """Statistics of one column or channel over the values that are not missing; NaN if there are none."""

    name: str
    minimum: float
    maximum: float
    mean: float
    sd: float
    missing: int
    constant: bool


@dataclass(frozen=True)
class Overview(Result):
    """Result of `overview`.

    Attributes
    ----------
    name, kind : str
        Source of the data, and ``images``, ``vectors`` or ``tokens``.
    samples : int
        Number of samples.
    shape : tuple of int
        Shape of one sample.
    steps : tuple of str
        Processing steps that were applied to the values.
    columns : tuple of ColumnFacts
        Statistics, one entry per column of a table or channel of images, or one for all tokens.
    incomplete : int
        Samples with a missing (NaN) or infinite value.
    duplicates : int
        Samples that equal an earlier one exactly.
    contradictions : int
        Duplicates with another label or target than the sample that they equal.
    near_duplicates : tuple of (int, int, float)
        Pairs of different samples with their distance relative to the median distance: at most a tenth of it, and less
        if few directions matter, so that independent samples are rarely included. The closest first, at most 20.
    compared : int
        Samples among which near-duplicates were searched, evenly spaced.
    intrinsic_dimension, intrinsic_dimension_error : float or None
        Estimate from the distances to the two nearest neighbors [Facco2017]_, and its standard error.
    constant_positions : float or None
        Share of the pixels (all channels) that have the same value in all images.
    classes : dict
        Number of samples of each class; empty if there are no labels.
    targets : ColumnFacts or None
        Statistics of real-valued targets.
    images : tuple of (str, str)
        Up to 40 images as data URIs, with the names of their classes.
    """

    name: str
    kind: str
    samples: int
    shape: tuple[int, ...]
    steps: tuple[str, ...]
    columns: tuple[ColumnFacts, ...]
    incomplete: int
    duplicates: int
    contradictions: int
    near_duplicates: tuple[tuple[int, int, float], ...]
    compared: int
    intrinsic_dimension: float | None
    intrinsic_dimension_error: float | None
    constant_positions: float | None
    classes: dict[str, int]
    targets: ColumnFacts | None
    images: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def problems(self) -> tuple[str, ...]:
        """Warnings about what to check before training, the worst first."""
        return tuple(_problems(self))

    @property
    def headline(self) -> str:
        """The conclusion in one sentence."""
        problems = self.problems
        if not problems:
            return f"No problems found in {counted(self.samples, 'sample')} of shape {self.sides}"
        more = f" ({len(problems) - 1} more)" if len(problems) > 1 else ""
        return f"{problems[0][:1].upper()}{problems[0][1:]}{more}"

    @property
    def sides(self) -> str:
        """The shape as text: 3×64×64."""
        return "×".join(map(str, self.shape))

    @property
    def summary(self) -> str:
        """Return name and steps in one line."""
        return "; ".join([f"{self.name} ({self.kind})", *self.steps])

    def facts(self) -> dict[str, str]:
        """Return the numbers about the whole set as texts, by name."""
        near = f"{len(self.near_duplicates)}{'+' if len(self.near_duplicates) == _MOST_PAIRS else ''}"
        facts = {
            "samples": f"{self.samples} of shape {self.sides}",
            "incomplete samples": str(self.incomplete),
            "duplicates": f"{self.duplicates}"
            + (f", {self.contradictions} with another label" if self.contradictions else ""),
            "near-duplicate pairs": f"{near} among {self.compared} samples"
            + (f", closest: {self.near_duplicates[0][0]} and {self.near_duplicates[0][1]}" if near != "0" else ""),
        }
        if self.intrinsic_dimension is not None:
            error = f" ± {self.intrinsic_dimension_error:.1g}" if self.intrinsic_dimension_error else ""
            facts["intrinsic dimension"] = f"{self.intrinsic_dimension:.3g}{error} of {math.prod(self.shape)}"
        if self.constant_positions is not None:
            facts["constant pixels"] = f"{100 * self.constant_positions:.3g} %"
        if self.classes:
            facts["classes"] = _balance(self.classes)
        if self.targets is not None:
            low, high, mean, sd = (
                format_number(number, 3)
                for number in (self.targets.minimum, self.targets.maximum, self.targets.mean, self.targets.sd)
            )
            facts["targets"] = f"{low} to {high}, mean {mean}, sd {sd}"
        return facts

    def table(self) -> list[dict[str, Any]]:
        """Return one row for each column or channel."""
        what = "channel" if self.kind == "images" else "column"
        return [
            {
                what: column.name,
                "minimum": column.minimum,
                "maximum": column.maximum,
                "mean": column.mean,
                "sd": column.sd,
                "missing": column.missing,
                "note": "constant" if column.constant else "",
            }
            for column in self.columns
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the conclusion and all fields but the images."""
        shown = {part.name: plain(getattr(self, part.name)) for part in fields(self) if part.name != "images"}
        return {"headline": self.headline, "problems": list(self.problems), **shown}

    def to_markdown(self) -> str:
        """Return the overview as Markdown."""
        rows = self.table()
        lines = [f"## {self.headline}", "", *(f"- {problem}" for problem in self.problems), ""]
        lines += [f"- **{name}**: {text}" for name, text in self.facts().items()]
        lines += ["", f"| {' | '.join(rows[0])} |", f"|{'---|' * len(rows[0])}"]
        lines += [
            f"| {' | '.join(format_number(cell, 3).replace('|', '/') for cell in row.values())} |" for row in rows
        ]
        return "\n".join(lines) + "\n"

    def section(self) -> str:
        """Return the overview as HTML without a title, for a page that shows more."""
        text: str = rendering_module().render_overview(self, "overview_section.html")
        return text

    def _html(self) -> str:
        text: str = rendering_module().render_overview(self, "page.html")
        return text

    def _repr_html_(self) -> str:
        text: str = rendering_module().render_overview(self, "overview.html")
        return text

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot mean and deviation of each column or channel; `ImageSet.plot` is a contact sheet."""
        drawn: Axes = rendering_module().columns_figure(self, ax)
        return drawn


def overview(source: Any, /, **options: Any) -> Overview:
    """Return an overview of data: what enters the network.

    Parameters
    ----------
    source
        Anything that `load` takes: a name, a path, a table, an array, or an `ImageSet`.
    **options
        Options of `load`, such as ``limit=1000`` or ``target_column="price"``.

    Returns
    -------
    Overview
        Statistics of every column or channel, missing values, duplicates, near-duplicates, classes, the intrinsic
        dimension, and warnings about what to check before training.

    Examples
    --------
    >>> summary = overview("digits")
    >>> summary.duplicates, summary.facts()["constant pixels"]
    (0, '4.69 %')
    """
    data = source if isinstance(source, ImageSet) and not options else load(source, **options)
    if not len(data):
        raise InputError(f"{data.name} is empty; give at least one sample")
    finite = np.isfinite(data.images).reshape(len(data), -1).all(axis=1) if data.images.dtype.kind == "f" else None
    duplicates, contradictions = _duplicates(data)
    whole = data if finite is None or finite.all() else data[finite]
    near, compared, dimension, error = _neighbors(whole)
    if finite is not None and not finite.all():
        rows = np.flatnonzero(finite)
        near = tuple((int(rows[first]), int(rows[second]), share) for first, second, share in near)
    return Overview(
        data.name,
        "tokens" if finite is None else "images" if data.images.ndim > 2 else "vectors",
        len(data),
        data.shape,
        data.steps,
        tuple(_column_facts(data)),
        0 if finite is None else int((~finite).sum()),
        duplicates,
        contradictions,
        near,
        compared,
        dimension,
        error,
        _constant_positions(data),
        _class_counts(data),
        None if data.targets is None else next(_column_facts(ImageSet(data.targets.reshape(-1, 1)))),
        rendering_module().contact_sheet(data),
    )


def intrinsic_dimension(distances: NDArray[Any]) -> tuple[float, float] | None:
    r"""Return the two-nearest-neighbors estimate of the dimension of a set, and its standard error.

    Source: [Facco2017]_. The ratio :math:`r_2/r_1` of the distances to the two nearest neighbors has the distribution
    function :math:`1 - \mu^{-d}` where the density is constant, so :math:`d = (n-1)/\sum\log\mu_i`. Ratios of nearest
    neighbors share distances. Their covariances are part of the error, which is 1.2 times too small without them.

    Parameters
    ----------
    distances
        Matrix of distances, ``[n, n]``; duplicates are left out.

    Returns
    -------
    tuple of float, or None
        None for fewer than 30 samples with two neighbors at different distances.
    """
    off = np.where(distances > 0, distances, np.inf)
    if len(off) < _FEW:
        return None
    nearest = np.partition(off, 1, axis=1)[:, :2].astype(np.float64)
    known = np.isfinite(nearest).all(axis=1)
    ratios = np.zeros(len(off))
    ratios[known] = np.log(nearest[known, 1] / nearest[known, 0])
    count, total = int(known.sum()), float(ratios.sum())
    if count < _FEW or not total > 0:
        return None
    deviations = np.where(known, ratios * count / total - 1, 0.0)
    neighbor = off.argmin(axis=1)
    products = deviations * deviations[neighbor]
    mutual = neighbor[neighbor] == np.arange(len(off))
    square = float((deviations**2).sum() + (np.where(mutual, 1, 2) * products).sum())
    dimension = (count - 1) / total
    return dimension, dimension * math.sqrt(max(square, 0.0)) / count


def _balance(classes: dict[str, int]) -> str:
    least, most = min(classes, key=classes.__getitem__), max(classes, key=classes.__getitem__)
    if classes[least] == classes[most]:
        return f"{len(classes)}, each with {counted(classes[least], 'sample')}"
    return f"{len(classes)}, from {classes[least]} ({least}) to {classes[most]} ({most}) samples"


def _problems(summary: Overview) -> Iterator[str]:
    total = summary.samples
    missing = [column for column in summary.columns if column.missing]
    if missing:
        worst = max(missing, key=lambda column: column.missing)
        more = f" and {counted(len(missing) - 1, 'other column')}" if len(missing) > 1 else ""
        yield (
            f"{counted(summary.incomplete, 'sample')} of {total} {_verb(summary.incomplete, 'has', 'have')} missing or "
            f"infinite values, in {worst.name!r} ({worst.missing}){more}: fill them or leave these samples out"
        )
    if summary.contradictions:
        yield f"{counted(summary.contradictions, 'duplicate')} with another label than the sample that they equal"
    if summary.duplicates:
        verb = _verb(summary.duplicates, "equals an earlier one", "equal earlier ones")
        yield f"{counted(summary.duplicates, 'sample')} of {total} {verb}: remove them before the data is split"
    if summary.classes and (low := min(summary.classes.values())) * _IMBALANCE < (
        high := max(summary.classes.values())
    ):
        yield f"classes are imbalanced, {low} to {high} samples: accuracy alone misleads; weight the loss"
    constant = [column.name for column in summary.columns if column.constant]
    if constant:
        named = ", ".join(constant[:5]) + (", …" if len(constant) > 5 else "")
        verb = _verb(len(constant), "carries", "carry")
        yield f"{counted(len(constant), 'constant input')} {verb} no information: {named}"
    if summary.kind != "tokens":
        yield from _scale_problems(summary)
    if summary.near_duplicates:
        shown = len(summary.near_duplicates)
        pairs = f"at least {shown} pairs" if shown == _MOST_PAIRS else counted(shown, "pair")
        yield f"{pairs} of near-duplicates among {summary.compared} samples: keep both of a pair on one side of a split"


def _verb(count: int, singular: str, plural: str) -> str:
    return singular if count == 1 else plural


def _scale_problems(summary: Overview) -> Iterator[str]:
    sds = {column.name: column.sd for column in summary.columns if column.sd > 0}
    if len(sds) > 1 and max(sds.values()) > _SCALES * min(sds.values()):
        small, large = min(sds, key=sds.__getitem__), max(sds, key=sds.__getitem__)
        yield (
            f"scales differ by a factor of {sds[large] / sds[small]:.2g} ({large!r} against {small!r}): "
            "standardize each column"
        )
    elif sds and max(abs(column.mean) + column.sd for column in summary.columns if column.sd > 0) > _SCALES:
        largest = max((abs(column.maximum), abs(column.minimum)) for column in summary.columns if column.sd > 0)
        yield f"values reach {max(largest):.3g}: divide by a constant, or standardize (--normalize standardize)"


def _column_facts(data: ImageSet) -> Iterator[ColumnFacts]:
    """Return the facts of each column or channel, in blocks of samples so that float64 copies stay small."""
    tokens = data.images.dtype.kind != "f"
    values = data.images.reshape(len(data), 1 if tokens else data.shape[0], -1)
    columns, step = values.shape[1], max(1, _BLOCK // values[0].size)
    count, missing = np.zeros(columns), np.zeros(columns, dtype=np.int64)
    low, high, total, squares = (np.full(columns, start) for start in (np.inf, -np.inf, 0.0, 0.0))
    parts = [slice(start, start + step) for start in range(0, len(values), step)]
    for part in parts:
        block = values[part].astype(np.float64)
        finite = np.isfinite(block)
        missing += (~finite).any(axis=2).sum(axis=0)
        count += finite.sum(axis=(0, 2))
        low = np.minimum(low, block.min(axis=(0, 2), initial=np.inf, where=finite))
        high = np.maximum(high, block.max(axis=(0, 2), initial=-np.inf, where=finite))
        total += block.sum(axis=(0, 2), where=finite)
    mean = np.divide(total, count, out=np.full(columns, np.nan), where=count > 0)
    for part in parts:
        block = values[part].astype(np.float64)
        deviation = block - mean[None, :, None]
        squares += (deviation**2).sum(axis=(0, 2), where=np.isfinite(block))
    sd = np.sqrt(np.divide(squares, count, out=np.full(columns, np.nan), where=count > 0))
    for index, name in enumerate(_column_titles(data, columns)):
        there = count[index] > 0
        yield ColumnFacts(
            name,
            float(low[index]) if there else math.nan,
            float(high[index]) if there else math.nan,
            float(mean[index]),
            float(sd[index]),
            int(missing[index]),
            bool(there and low[index] == high[index] and len(values) > 1),
        )


def _column_titles(data: ImageSet, columns: int) -> tuple[str, ...]:
    if data.images.dtype.kind != "f":
        return ("tokens",)
    if data.images.ndim > 2:
        return {1: ("gray",), 3: ("red", "green", "blue")}.get(columns, tuple(f"channel {k}" for k in range(columns)))
    return data.column_names if len(data.column_names) == columns else tuple(map(str, range(columns)))


def _duplicates(data: ImageSet) -> tuple[int, int]:
    """Return how many samples equal an earlier one, and how many of these have another label or target."""
    answers = data.labels if data.targets is None else data.targets.reshape(len(data), -1)[:, 0]
    first: dict[bytes, int] = {}
    equal = other = 0
    for row, sample in enumerate(data.images):
        earlier = first.setdefault(hashlib.blake2b(sample.tobytes(), digest_size=16).digest(), row)
        if earlier != row:
            equal += 1
            other += answers is not None and answers[earlier] != answers[row]
    return equal, other


def _neighbors(data: ImageSet) -> tuple[tuple[tuple[int, int, float], ...], int, float | None, float | None]:
    """Return near-duplicate pairs, how many samples were compared, and the intrinsic dimension with its error."""
    count = min(len(data), _COMPARED, max(2, _COMPARED_VALUES // max(1, math.prod(data.shape))))
    if count < 2:
        return (), count, None, None
    rows = np.arange(count) * len(data) // count
    distances, directions = _distances(data, rows)
    median = float(np.median(distances[np.triu_indices(count, 1)]))
    share = min(_NEAR, (2 * _CHANCE / count**2) ** (1 / directions))
    near = np.argwhere(np.triu((distances > 0) & (distances < share * median), 1))
    shares = [float(distances[first, second]) / median for first, second in near]
    closest = np.argsort(shares, kind="stable")[:_MOST_PAIRS]
    pairs = tuple((int(rows[near[k][0]]), int(rows[near[k][1]]), round(shares[k], 6)) for k in closest)
    estimate = intrinsic_dimension(distances) if data.images.dtype.kind == "f" else None
    return pairs, count, *(estimate or (None, None))


def _distances(data: ImageSet, rows: NDArray[np.int64]) -> tuple[NDArray[np.float64], float]:
    """Return distances of some samples and the number of directions that matter (participation ratio).

    Distances are Euclidean for vectors of standardized columns; for tokens, the distance is the share of tokens that
    differ.
    """
    flat = data.images[rows].reshape(len(rows), -1)
    if flat.dtype.kind != "f":
        return np.stack([(flat != sample).mean(axis=1) for sample in flat]), float(flat.shape[1])
    values = flat.astype(np.float64)
    values -= values.mean(axis=0)
    if data.images.ndim == 2:
        sd = values.std(axis=0)
        values /= np.where(sd > 0, sd, 1)
    products = values @ values.T
    norms = products.diagonal()
    squared = norms[:, None] + norms[None, :] - 2 * products
    close = np.argwhere(np.triu(squared < 1e-6 * (norms[:, None] + norms[None, :]), 1))  # products lose their digits
    for first, second in close:
        squared[first, second] = squared[second, first] = ((values[first] - values[second]) ** 2).sum()
    np.fill_diagonal(squared, 0.0)
    directions = float(norms.sum() ** 2 / max((products**2).sum(), np.finfo(float).tiny))
    return np.sqrt(np.maximum(squared, 0.0)), max(directions, 1.0)


def _constant_positions(data: ImageSet) -> float | None:
    if data.images.ndim < 3 or len(data) < 2:
        return None
    return float((data.images.max(axis=0) == data.images.min(axis=0)).all(axis=0).mean())


def _class_counts(data: ImageSet) -> dict[str, int]:
    if data.labels is None or 2 * len(np.unique(data.labels)) > max(len(data), 4):  # labels that number the samples
        return {}
    labels, counts = np.unique(data.labels, return_counts=True)
    names = data.class_names
    known = {names[label] if 0 <= label < len(names) else str(label): int(n) for label, n in zip(labels, counts)}
    return dict.fromkeys(names, 0) | known
