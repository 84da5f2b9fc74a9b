"""`Report`: predicted next to measured, op by op and block by block, findings, fixes, alternatives, audit."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from initscope.geometry import (
    Floats,
    Measurement,
    Prediction,
    Row,
    Status,
    covered_rows,
    last_gradient,
    mean_over_pairs,
    median_over_pairs,
    over_last,
    spoken,
)
from initscope.initializers._believability import AFTER_TRAINING
from initscope.inspection._checks import Thresholds, failing, refuse_unknown
from initscope.inspection.alternatives import WhatIf
from initscope.inspection.expansivity import LayerExpansivity
from initscope.inspection.facts import Facts
from initscope.inspection.finding import Finding, Fix, NotChecked
from initscope.inspection.instruments import Head, Trial
from initscope.inspection.one_step import FormatShares, format_shares
from initscope.inspection.parameter_audit import Audit
from initscope.inspection.provenance import Pictures, Provenance
from initscope.measurement.number_formats import FormatCount
from initscope.measurement.observation import Observation
from initscope.rendering.folding import few_lines, fold, folded_table
from initscope.results import Result, counted, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["NOT_ASKED", "Deviation", "Report", "Unhealthy"]

NOT_ASKED = "not asked for"
"""Why there is no prediction if none was requested."""


@dataclass(frozen=True)
class Deviation(Result):
    """One pair: its angle at the input, and predicted and measured after the last op, in degrees."""

    index: int
    before: float
    predicted: float
    measured: float


class Unhealthy(AssertionError):
    """Raised by `Report.assert_healthy`; the message lists the errors."""


@dataclass(frozen=True, repr=False)
class Report(Result):
    """What `inspect` found: ``findings``, what was ``not_checked``, suggested ``fixes``, and a row per op.

    Attributes
    ----------
    findings : tuple of Finding
        Worst first, root causes before what follows from them.
    not_checked : tuple of NotChecked
        What could not be checked, why, and what to pass to check it.
    fixes : tuple of Fix
        Suggested changes, best first; those that are not measurably worse than the best are marked as ties.
    """

    observation: Observation
    prediction: Prediction | None
    measurement: Measurement | None
    findings: tuple[Finding, ...]
    what_if: WhatIf | None
    thresholds: Thresholds
    expansivity: tuple[LayerExpansivity, ...] = ()
    weights: dict[str, str] = field(default_factory=dict)
    """Layers whose weights do not look like independent samples, as after training, with the reason."""
    title: str = ""
    reason: str = field(default="", compare=False)
    """Why there is no prediction, if there is none."""
    audit: Audit = field(default=Audit(()), compare=False)
    """Every parameter, its distribution, and who set it."""
    facts: Facts = field(default_factory=Facts, repr=False, compare=False)
    """Facts about the weights, one training step and the data."""
    not_checked: tuple[NotChecked, ...] = ()
    checks: int = 0
    """Number of checks that ran."""
    fixes: tuple[Fix, ...] = ()
    provenance: Provenance = field(default=Provenance(), compare=False)
    """When, how and with which versions the report was made, and the size of the model."""
    pictures: Pictures | None = field(default=None, repr=False, compare=False)
    """Images for the page of a loaded report, which has no samples."""

    @property
    def healthy(self) -> bool:
        """Whether there is no error."""
        return not self.errors

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings that keep the model from learning."""
        return tuple(finding for finding in self.findings if finding.level == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Findings that may keep the model from learning."""
        return tuple(finding for finding in self.findings if finding.level == "warning")

    @property
    def head(self) -> Head | None:
        """The lowest loss that the head and the loss function allow; None if no loss is known."""
        return self.facts.head

    @property
    def trial(self) -> Trial | None:
        """The results of a few training steps; None if there was no trial."""
        return self.facts.trial

    @property
    def fix(self) -> Fix | None:
        """The best suggested fix; None if no fix that was tried helped."""
        return next((fix for fix in self.fixes if fix.helped or not fix.tried), None)

    @property
    def layers(self) -> int:
        """Number of layers with weights; a layer that is called several times counts once."""
        return self.observation.rows[0].layers

    @property
    def headline(self) -> str:
        """Number of errors and warnings, the first cause, and what was not checked, in one line."""
        size = f"({counted(self.layers, 'layer')}, {counted(self.checks, 'check')})"
        serious = [*self.errors, *self.warnings]
        levels = {"error": self.errors, "warning": self.warnings}
        counts = " and ".join(counted(len(items), name) for name, items in levels.items() if items)
        said = f"{counts} {size}: {serious[0].message}" if serious else f"No problems found {size}."
        said += "" if said.endswith((".", "?")) else "."  # the message of an exception may have none
        others = dict.fromkeys(finding.name for finding in serious[1:] if finding.name != serious[0].name)
        said += f" Also: {', '.join(others)}." if others else ""
        unknown = ", ".join(str(item) for item in self.not_checked)
        return f"{said} Not checked: {unknown}." if unknown else f"{said} All checks ran."

    @property
    def cautions(self) -> tuple[str, ...]:
        """Limits of all findings: too few samples, random data, norms that have seen no data, or trained weights with
        predictions that assume untrained ones."""
        return self.facts.cautions if self.prediction is None else (*self.facts.cautions, *self._of_other_weights)

    @property
    def _of_other_weights(self) -> tuple[str, ...]:
        trained = [layer for layer, note in self.weights.items() if AFTER_TRAINING in note]
        if not trained:
            return ()
        more = f" and {len(trained) - 1} more" if len(trained) > 1 else ""
        return (
            f"the weights of {spoken(trained[0])}{more} are aligned, {AFTER_TRAINING}: predictions are for Gaussian "
            "weights of the same variances, measurements and findings for those that the model has",
        )

    @property
    def precision(self) -> tuple[FormatShares, ...]:
        """Shares of values and of weight gradients that smaller number formats cannot hold."""
        counts = self.observation.formats or ()
        values = FormatCount()
        for row, count in zip(self.observation.rows, counts, strict=False):
            if row.role in ("weights", "activation", "merge", "norm", "recurrent"):
                values.join(count)
        step = self.facts.step
        return format_shares(values, None if step is None else step.gradients)

    @property
    def begins(self) -> dict[str, list[int]]:
        """The row in which each error and warning begins; all rows of a module if it begins in a module."""
        begun = {finding.name: finding.layer for finding in (*self.errors, *self.warnings)}
        return {
            name: [index for index, row in enumerate(self.observation.rows) if layer in (row.layer, row.within)]
            for name, layer in begun.items()
        }

    def blocks(self, depth: int | None = None, *, few: bool | int = False) -> list[dict[str, Any]]:
        """Return the table folded by module: one dict per block, with the numbers of its last row.

        Gradients are geometric means over the layers of a block, dead and saturated fractions its largest, entropies
        means over its attentions. ``depth`` folds to paths of that many modules instead. In the result ``rows`` is the
        number of ops of a line, ``findings`` are the errors and warnings that begin in it, and ``title`` is its
        displayed name. With ``few``, if there are more blocks than a terminal shows, or than that number, adjacent
        blocks become one line, except blocks in which a finding begins.
        """
        rows, begin, named = self.observation.rows, self.begins, set[str]()
        alone = frozenset(index for indices in begin.values() for index in indices)
        most = None if few is True else int(few)
        lines = few_lines(rows, depth, alone, most) if few else fold(rows, depth)
        table = folded_table(rows, self.table(), lines)
        for line, (_, members) in zip(table, lines, strict=True):
            line["findings"] = [
                name for name in begin if name not in named and not set(members).isdisjoint(begin[name])
            ]
            named.update(line["findings"])
        return table

    def to_markdown(self) -> str:
        """Return the report as Markdown, for pull requests and assistants: headline, findings, blocks, alternatives."""
        from initscope.inspection.markdown import render_markdown

        return render_markdown(self)

    @property
    def rows(self) -> tuple[Row, ...]:
        """One row per op, with the status of the prediction, and notes on prediction, measurement and weights."""
        expected = self.prediction
        result = []
        for index, seen in enumerate(self.observation.rows):
            status: Status = "not covered" if expected is None else expected.rows[index].status
            remark = self.reason if expected is None else expected.rows[index].note
            notes = (remark, seen.note, self.weights.get(seen.layer, ""))
            result.append(replace(seen, status=status, note="; ".join(filter(None, notes))))
        return tuple(result)

    def deviating(self, count: int = 6) -> list[Deviation]:
        """Return the pairs whose measured angle at the end is farthest from the predicted one, farthest first."""
        if self.prediction is None:
            return []
        predicted, measured = self.prediction.angle, self.observation.angle
        gap = np.abs(measured - predicted)
        covered = covered_rows(gap)
        if not covered:
            return []
        first, last = covered[0], covered[-1]
        order = [k for k in np.argsort(-gap[last], kind="stable") if np.isfinite(gap[last, k])][:count]
        return [
            Deviation(int(k), float(measured[first, k]), float(predicted[last, k]), float(measured[last, k]))
            for k in order
        ]

    @property
    def token_columns(self) -> dict[str, Floats]:
        """Mean cosine of tokens and entropy of attention, ``[rows]``, predicted and measured; empty without attention.

        Measured values are those of the present weights, or means over draws if there are any.
        """
        seen, unknown = self.observation, np.full(len(self.observation.rows), np.nan)
        if seen.attention_entropy is None or not np.isfinite(seen.attention_entropy).any():
            return {}
        expected, redrawn = (None if side is None else side.tokens for side in (self.prediction, self.measurement))
        sides: dict[str, Floats | None] = {
            "token_cosine_predicted": expected.cosine if expected else None,
            "token_cosine_measured": redrawn.cosine if redrawn else seen.token_cosine,
            "attention_entropy_predicted": expected.entropy if expected else None,
            "attention_entropy_measured": redrawn.entropy if redrawn else seen.attention_entropy,
        }
        return {name: unknown if values is None else values for name, values in sides.items()}

    @property
    def gradients_over_last(self) -> dict[str, Floats]:
        """Gradient of each layer's weights over that of the last layer, ``[rows]``, measured and predicted.

        Predictions exist only for gradients that were measured, and only if the last gradient is predicted.
        """
        seen = mean_over_pairs(self.observation.gradient_ratio)
        known = None if self.prediction is None else self.prediction.gradient_ratio
        expected = np.full(len(seen), np.nan) if known is None else np.where(np.isfinite(seen), known, np.nan)
        last = last_gradient(seen)
        return {"gradient_over_last": over_last(seen, last), "gradient_over_last_predicted": over_last(expected, last)}

    @property
    def compared(self) -> npt.NDArray[np.bool_]:
        """Whether each pair is compared with a prediction, ``[pairs]``; True for all pairs if none has one."""
        if self.prediction is None or not np.isfinite(self.prediction.cosine).any():
            return np.ones(self.observation.pairs, dtype=bool)
        return np.asarray(np.isfinite(self.prediction.cosine).any(axis=0))

    def table(self) -> list[dict[str, Any]]:
        """Return one dict per op: predicted next to measured, means over the same pairs; angles in degrees."""
        seen, predicted, redrawn = self.observation, self.prediction, self.measurement
        measured = seen if redrawn is None else redrawn
        columns: dict[str, Floats | None] = {}
        for name in ("angle", "cosine", "norm_ratio", "rms_ratio"):
            columns[f"{name}_predicted"] = None if predicted is None else mean_over_pairs(getattr(predicted, name))
            columns[f"{name}_measured"] = mean_over_pairs(getattr(measured, name)[:, self.compared])
            if name == "cosine":
                columns["cosine_se"] = None if redrawn is None else redrawn.mean_cosine_se
        columns |= self.token_columns
        columns["gradient_ratio"] = mean_over_pairs(seen.gradient_ratio)
        columns["gradient_ratio_predicted"] = None if predicted is None else predicted.gradient_ratio
        columns |= self.gradients_over_last
        columns["gradient_cosine"] = mean_over_pairs(seen.gradient_cosine)
        for name in ("dead_fraction", "saturated_fraction", "effective_rank", "mean_width"):
            columns[name] = getattr(seen, name)
        lists = {name: [None] * len(seen.rows) if of is None else plain(of) for name, of in columns.items()}
        return [
            {"layer": row.layer, "kind": row.kind, "status": row.status}
            | {name: values[index] for name, values in lists.items()}
            | {"note": row.note}
            for index, row in enumerate(self.rows)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the whole report, by the schema of the documentation; ``schema`` is its number."""
        return {
            "schema": 2,
            "healthy": self.healthy,
            "headline": self.headline,
            "layers": self.layers,
            "checks": self.checks,
            "findings": plain(self.findings),
            "errors": [finding.code for finding in self.errors],
            "warnings": [finding.code for finding in self.warnings],
            "not_checked": plain(self.not_checked),
            "fix": plain(self.fix),
            "fixes": plain(self.fixes),
            "loss": self.facts.loss_name,
            "head": plain(self.head),
            "trial": plain(self.trial),
            "cautions": list(self.cautions),
            "blocks": plain(self.blocks()),
            "rows": plain(self.table()),
            "what_if": [] if self.what_if is None else self.what_if.table(),
            "left_out": {} if self.what_if is None else self.what_if.skipped,
            "expansivity": [layer.to_dict() for layer in self.expansivity],
            "audit": plain(self.audit.table()),
            "precision": plain(self.precision),
            "thresholds": self.thresholds.to_dict(),
            "mode": self.observation.mode,
            "pairs": self.observation.pairs,
            "samples": self.observation.samples,
            "fallback": self.observation.fallback,
        }

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return `to_dict` as JSON text, and write it to ``path`` if one is given."""
        from initscope._utils.files import write_text

        text = json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"
        if path is not None:
            write_text(path, text)
        return text

    def _to_save(self) -> Report:
        """Return the report without the samples of the user, except the few images that its page shows."""
        from initscope.inspection.page import images_of

        seen = replace(self.observation, x=None, y=None, targets=None, targets_y=None)
        return replace(self, observation=seen, pictures=images_of(self))

    def _html(self) -> str:
        """Return the self-contained page."""
        from initscope.inspection.page import render_report

        return render_report(self)

    def _repr_html_(self) -> str:
        from initscope.inspection.page import render_report

        return render_report(self, fragment=True)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot scale, gradients, angles, rank and dead units against depth, with healthy bands, as on the page.

        On given axes plot only the median angle, measured and predicted, with the threshold of collapse.
        """
        if ax is None:
            return self._panels()
        measured = median_over_pairs(self.observation.angle[:, self.compared])
        ax.plot(measured, "o", label="measured")
        if self.prediction is not None:
            ax.plot(median_over_pairs(self.prediction.angle), label="predicted")
        start = next(iter(measured[np.isfinite(measured)]), np.nan)
        ax.axhline(self.thresholds.collapse * start, linestyle=":", label="collapse threshold")
        ax.set_xlabel("op")
        ax.set_ylabel("median angle of pairs (degrees)")
        ax.set_ylim(bottom=0)
        ax.legend()
        return ax

    def _panels(self) -> Axes:
        from initscope.inspection.layer_quantities import layer_quantities
        from initscope.inspection.page import as_comparison
        from initscope.rendering.figures import panels_figure

        quantities = layer_quantities(self, as_comparison(self))
        return panels_figure(quantities.panels, [row.title for row in self.rows], quantities.marked)

    def assert_healthy(self, *, ignore: Iterable[str] = ()) -> None:
        """Raise `Unhealthy` if there is an error; codes, prefixes and names in ``ignore`` do not count."""
        refuse_unknown(ignore, "ignore")
        ignored = {id(finding) for finding in failing(self.findings, ",".join(ignore))}
        errors = [finding for finding in self.errors if id(finding) not in ignored]
        if errors:
            raise Unhealthy("\n".join(str(finding) for finding in errors))

    def __repr__(self) -> str:
        return f"Report({self.observation.pairs} pairs, {self.headline})"
