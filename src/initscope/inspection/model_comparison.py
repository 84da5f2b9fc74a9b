"""`compare`: several models, checkpoints, initializations or saved reports on the same data, side by side."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from initscope._utils.randomness import torch_generator
from initscope.errors import InputError
from initscope.geometry import median_over_pairs
from initscope.graph.borrowing import copy_of
from initscope.initializers import Initializer
from initscope.inspection.alternatives import what_is_kept
from initscope.inspection.examination import inspect
from initscope.inspection.finding import LEVELS
from initscope.inspection.provenance import short_count
from initscope.inspection.report import Report
from initscope.results import Result, counted, format_number, load, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ModelComparison", "compare"]

_LARGE = 1.5
"""Factor by which a quantity must differ to be listed as a change."""
_COLUMNS = {"cosine_measured": "cosine", "rms_ratio_measured": "rms_ratio", "gradient_over_last": "gradient",
            "dead_fraction": "dead_fraction", "effective_rank": "effective_rank"}  # fmt: skip
_CHANGING = {
    "angle ratio": "angle ratio (output / input)",
    "scale ratio": "scale ratio (output / input)",
    "gradient spread": "largest over smallest gradient",
    "loss after the trial": "loss after the trial",
}
"""Quantities that are compared with those of the first model, and their names in sentences."""


@dataclass(frozen=True, repr=False)
class ModelComparison(Result):
    """Reports of several models on the same data, by name; the others are compared with the first.

    Attributes
    ----------
    reports : dict of str to Report
        In the order in which they were given.
    """

    reports: dict[str, Report]

    @property
    def same_rows(self) -> bool:
        """Whether all models have the same ops in the same order."""
        layers = [[row.layer for row in report.observation.rows] for report in self.reports.values()]
        return all(names == layers[0] for names in layers)

    @property
    def cautions(self) -> tuple[str, ...]:
        """Differences that make the reports less comparable: numbers of samples or pairs, or the mode."""
        cautions = []
        for name in ("samples", "pairs", "mode"):
            values = [getattr(report.observation, name) for report in self.reports.values()]
            if len(set(values)) > 1:
                cautions.append(f"The reports differ in {name}: {', '.join(map(str, values))}.")
        return tuple(cautions)

    def table(self) -> list[dict[str, Any]]:
        """Return one dict per model: its size, findings, ratios over the depth, and the loss after the trial."""
        return [{"model": name} | _numbers(report) for name, report in self.reports.items()]

    def layers(self) -> list[dict[str, Any]]:
        """Return one dict per op with the measured columns of all models, if they have the same ops."""
        if not self.same_rows:
            sizes = ", ".join(f"{name} {len(report.rows)}" for name, report in self.reports.items())
            raise InputError(f"the models have different ops ({sizes}); table() compares models of any kind")
        tables = {name: report.table() for name, report in self.reports.items()}
        rows = zip(*tables.values(), strict=True)
        return [
            {"layer": row[0]["layer"], "kind": row[0]["kind"]}
            | {
                f"{column} {name}": line[key]
                for key, column in _COLUMNS.items()
                for name, line in zip(tables, row, strict=True)
            }
            for row in rows
        ]

    def findings(self) -> list[dict[str, str]]:
        """Return one dict per finding, worst first: its level in every model, empty if the model does not have it."""
        levels = {
            name: {finding.name: finding.level for finding in report.findings} for name, report in self.reports.items()
        }
        known = {finding.name: finding.code for report in self.reports.values() for finding in report.findings}

        def worst(finding: str) -> int:
            return min(LEVELS.index(of[finding]) for of in levels.values() if finding in of)

        return [
            {"finding": f"{known[finding]} {finding}"} | {name: of.get(finding, "") for name, of in levels.items()}
            for finding in sorted(known, key=lambda finding: (worst(finding), known[finding]))
        ]

    def tables(self) -> dict[str, list[dict[str, str]]]:
        """Return the displayed tables by title: short texts, a row per quantity or finding and a column per model."""
        findings = [{key: text or "–" for key, text in row.items()} for row in self.findings()]
        tables = {"Models on the same data": _transposed(self.table(), "model"), "Findings": findings}
        return {title: rows for title, rows in tables.items() if rows}

    def to_markdown(self) -> str:
        """Return the comparison as Markdown, for pull requests and assistants: what changed, numbers, findings."""
        from initscope.inspection.markdown import comparison_markdown

        return comparison_markdown(self)

    @cached_property
    def changes(self) -> dict[str, list[str]]:
        """Differences from the first model, by name of every other model: findings, size, ratios."""
        (_, first), *others = self.reports.items()
        return {name: list(_differences(first, other)) or ["no difference"] for name, other in others}

    def to_dict(self) -> dict[str, Any]:
        """Return all tables as a dict; the key ``layers`` has rows only if all models have the same ops."""
        return {
            "models": plain(self.table()),
            "findings": self.findings(),
            "changes": self.changes,
            "cautions": list(self.cautions),
            "layers": plain(self.layers()) if self.same_rows else [],
        }

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the median angle of the pairs after each op of every model; over relative depth if the ops differ."""
        from initscope.rendering.figures import new_axes

        ax = new_axes() if ax is None else ax
        for name, report in self.reports.items():
            angle = median_over_pairs(report.observation.angle)
            positions = np.arange(len(angle)) if self.same_rows else 100 * (np.arange(len(angle)) + 0.5) / len(angle)
            known = np.isfinite(angle)
            ax.plot(positions[known], angle[known], "o-", markersize=3, label=name)
        ax.set_xlabel("op" if self.same_rows else "share of the depth (%)")
        ax.set_ylabel("median angle of pairs (degrees)")
        ax.set_ylim(bottom=0)
        ax.legend(frameon=False)
        return ax

    def _to_save(self) -> ModelComparison:
        return ModelComparison({name: report._to_save() for name, report in self.reports.items()})

    def _html(self) -> str:
        from initscope.inspection.comparison_page import render_comparison

        return render_comparison(self)

    def _repr_html_(self) -> str:
        from initscope.inspection.comparison_page import render_comparison

        return render_comparison(self, fragment=True)

    def __repr__(self) -> str:
        return f"ModelComparison({', '.join(self.reports)})"


def _numbers(report: Report) -> dict[str, Any]:
    angle, scale, spread = what_is_kept(report.observation)
    trial = report.trial
    dead = report.observation.dead_fraction
    return {
        "layers": report.layers,
        "parameters": report.provenance.parameters,
        "multiply-adds": report.provenance.multiply_adds,
        "errors": ", ".join(finding.name for finding in report.errors),
        "warnings": ", ".join(finding.name for finding in report.warnings),
        "angle ratio": angle,
        "scale ratio": scale,
        "gradient spread": spread,
        "most dead units": float(np.nanmax(dead)) if np.isfinite(dead).any() else None,
        "loss after the trial": trial.losses[-1] if trial is not None and trial.losses else None,
    }


def _differences(first: Report, other: Report) -> Iterator[str]:
    """Yield short clauses: findings that are gone or new, other sizes, ratios that differ by a factor."""
    levels = [
        {finding.name: finding.level for finding in (*report.errors, *report.warnings)} for report in (first, other)
    ]
    gone, new = ([name for name in levels[side] if name not in levels[1 - side]] for side in (0, 1))
    if gone:
        yield f"no longer found: {', '.join(gone)}"
    if new:
        yield f"new: {', '.join(f'{name} ({levels[1][name]})' for name in new)}"
    before, after = _numbers(first), _numbers(other)
    if before["layers"] != after["layers"]:
        yield f"{counted(before['layers'], 'layer')} → {after['layers']}"
    if before["parameters"] != after["parameters"]:
        yield f"parameters {short_count(before['parameters'])} → {short_count(after['parameters'])}"
    for name, text in _CHANGING.items():
        if _differs(before[name], after[name]):
            yield f"{text} {format_number(before[name], 3)} → {format_number(after[name], 3)}"


def _differs(before: float | None, after: float | None) -> bool:
    if before is None or after is None or np.isnan(before) or np.isnan(after):
        return False
    low, high = sorted((before, after))
    return high > _LARGE * low


def compare(models: Mapping[str, Any], data: Any = None, *, seed: int = 0, **options: Any) -> ModelComparison:
    """Inspect several models on the same data and put the reports side by side.

    Parameters
    ----------
    models : mapping of str to model
        By name: a model; a report, or the path of a saved one (``"a.initscope"``); or, after a first model, an
        initializer or a state dict, which is applied to a copy of that model.
    data : any
        Data as `inspect` takes it, which can be read several times; not needed if all are reports.
    seed : int
        Seed of everything random, the same for all models: they see the same pairs.
    **options
        Further arguments of `inspect`, such as ``targets``, ``loss``, ``pairs`` and ``alternatives``.

    Returns
    -------
    ModelComparison
        A row for each model, findings side by side, what changed, and a page with all curves.

    Examples
    --------
    >>> import torch, initscope
    >>> layers = [layer for _ in range(20) for layer in (torch.nn.Linear(32, 32), torch.nn.ReLU())]
    >>> models = {"default": torch.nn.Sequential(*layers), "he": initscope.initializers.He()}
    >>> both = initscope.compare(models, torch.rand(40, 32), pairs=10, alternatives=False)
    >>> "no longer found: gradient-imbalance" in both.changes["he"][0]
    True
    """
    if not isinstance(models, Mapping) or len(models) < 2:
        raise InputError("compare needs at least two models by name, such as {'a': model_a, 'b': model_b}")
    if isinstance(data, Iterator):
        raise InputError("data is read once for each model, and an iterator can be read only once; give a list of it")
    base: nn.Module | None = next((model for model in models.values() if isinstance(model, nn.Module)), None)
    reports = {}
    for name, given in models.items():
        report = _report_of(given)
        if report is None:
            if data is None:
                raise InputError(f"{name!r} is not a report: give data to inspect it on")
            report = inspect(_model_of(str(name), given, base, seed), data, seed=seed, **options)
        reports[str(name)] = report
    return ModelComparison(reports)


def _report_of(given: Any) -> Report | None:
    """Return the given report, or that of a saved file; None for anything else."""
    if isinstance(given, (str, os.PathLike)) and Path(given).suffix == ".initscope":
        loaded = load(given)
        if not isinstance(loaded, Report):
            raise InputError(f"{given} holds a {type(loaded).__name__}, not a report of initscope.inspect")
        return loaded
    return given if isinstance(given, Report) else None


def _model_of(name: str, given: Any, base: nn.Module | None, seed: int) -> Any:
    """Return a model, or a copy of the first one with another initialization or the values of a state dict."""
    if not isinstance(given, (Initializer, Mapping)):
        return given
    if base is None:
        raise InputError(f"{name!r} is applied to a copy of a model, and none is given; give one before it")
    copied = copy_of(base)
    if isinstance(given, Initializer):
        return given.fill_(copied, generator=torch_generator(seed, "weights"))
    try:
        copied.load_state_dict(dict(given))
    except (RuntimeError, TypeError, AttributeError) as error:
        reason = str(error).splitlines()[-1].strip()
        raise InputError(f"{name!r}: the state dict does not fit the first model: {reason}") from error
    return copied


def _transposed(rows: Sequence[Mapping[str, Any]], by: str) -> list[dict[str, str]]:
    """Return a table transposed: one row per quantity, one column per value of ``by``."""
    names = [name for name in rows[0] if name != by and any(row[name] not in (None, "") for row in rows)]
    return [{by: name} | {str(row[by]): _cell(name, row[name]) for row in rows} for name in names]


def _cell(name: str, value: Any) -> str:
    if name in ("parameters", "multiply-adds") and value is not None:
        return short_count(value)
    return format_number(value, 3) if value != "" else "none"
