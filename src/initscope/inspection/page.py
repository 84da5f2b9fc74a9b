"""The self-contained page of a `Report`: headline, suggested fix, before and after, figures, findings, layers."""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from initscope.geometry import Comparison, Measurement
from initscope.inspection._checks import checks
from initscope.inspection.finding import Finding
from initscope.inspection.layer_quantities import layer_quantities
from initscope.inspection.provenance import Pictures
from initscope.rendering.depth import drawn_panels
from initscope.rendering.layers import layer_table, page_data
from initscope.rendering.network import network_figure
from initscope.rendering.page import comparison_context, render_part
from initscope.rendering.summary import headline
from initscope.rendering.table import with_error
from initscope.results import counted, plain

if TYPE_CHECKING:
    from initscope.inspection.report import Deviation, Report

__all__ = ["as_comparison", "conclusion", "images_of", "render_report"]

MOST_EXPORTED = 120_000
"""Characters of the compressed JSON that a page holds for download: all digits for about 700 ops."""
_DIGITS = 4
"""Number of significant digits if the JSON with all digits would be too long."""


def as_comparison(report: Report) -> Comparison:
    """Return prediction and measurement of the pairs that have both; without draws those of the given weights."""
    measured = report.measurement
    if measured is None:
        seen = report.observation
        unknown = np.full_like(seen.cosine, np.nan)
        single = np.full(len(seen.rows), np.nan)
        compared = np.where(report.compared, 0.0, np.nan)
        measured = Measurement(
            seen.rows,
            seen.cosine + compared,
            seen.norm_ratio + compared,
            seen.rms_ratio + compared,
            unknown,
            unknown,
            single,
            single,
            draws=0,
            seed=0,
            gap=None if seen.gap is None else seen.gap + compared,
        )
    return Comparison(report.prediction, measured, report.title)


def render_report(report: Report, *, fragment: bool = False) -> str:
    """Return the page as text, or the fragment that a notebook cell shows."""
    seen, comparison = report.observation, as_comparison(report)
    facts = {
        "model": report.title,
        "mode": seen.mode,
        "how the model was read": seen.fallback or "symbolic trace",
        "pairs with a prediction": "" if report.prediction is None else int(report.compared.sum()),
    }
    images = images_of(report)
    quantities = layer_quantities(report, comparison)
    depth = drawn_panels(quantities.panels, [row.title for row in report.rows], quantities.marked)
    to_do = _what_to_do(report)
    network = network_figure(report.rows, quantities.sections, quantities.columns, _levels(report))
    context = comparison_context(comparison, facts, None) | to_do
    context |= {
        "body": "report.html",
        "title": report.headline,
        "subtitle": f"{report.title}: {seen.pairs} pairs, {seen.mode} mode",
        "cautions": report.cautions,
        "versus": _versus(report),
        "what_if": _what_if(report),
        "findings": [_shown(finding, to_do["code"]) for finding in report.findings],
        "serious": len(report.errors) + len(report.warnings),
        "headline": headline(comparison),
        "depth": depth,
        "error_is": quantities.error_is,
        "has_gradients": True,
        "network": network,
        "layers": layer_table(report.rows, quantities.columns, quantities.sections, quantities.faulty),
        "data": page_data(report.rows, quantities.columns, depth["data"])
        | {"network": network["data"], "markdown": report.to_markdown()},
        "whole": _exported(report),
        "conclusion": conclusion(report),
        "trial": _trial(report),
        "provenance": report.provenance,
        "thumbnails": images.sample,
        "deviating": _deviating(report, images),
        "more": "".join(_parts(report)),
        "thresholds": report.thresholds.to_dict(),
        "data_overview": "" if images.data is None else images.data.section(),
    }
    return render_part("report.html" if fragment else "page.html", **context)


def conclusion(report: Report) -> str:
    """Return the result in one sentence, for readers who read only this."""
    if report.errors:
        subject = "An error keeps" if len(report.errors) == 1 else "Errors keep"
        helps = ", and a fix that was tried helps." if report.fix is not None and report.fix.helped else "."
        return f"{subject} this model from learning{helps}"
    if report.warnings:
        return f"No errors, but {counted(len(report.warnings), 'warning')}."
    return "No problem was found that keeps this model from learning."


def _trial(report: Report) -> str:
    losses = () if report.trial is None else report.trial.losses
    if not losses or not math.isfinite(losses[-1]):
        return ""
    return f"In a trial of {counted(len(losses), 'step')} the loss went from {losses[0]:.3g} to {losses[-1]:.3g}."


def _exported(report: Report) -> str:
    """Return the report as compressed JSON, whole or shortened to what a page holds; the key `shortened` says how."""
    whole = report.to_dict()
    lists = {"rows": [], "audit": [], "blocks": plain(report.blocks(few=True))}
    what = f"numbers have {_DIGITS} digits"
    for value, shortened in (
        (whole, ""),
        (_rounded(whole), what),
        (_rounded(whole | lists), f"{what}, rows and audit are left out, and blocks are grouped"),
    ):
        text = _compressed(value | ({"shortened": f"{shortened}; report.to_json has all"} if shortened else {}))
        if len(text) <= MOST_EXPORTED:
            return text
    return ""


def _rounded(value: Any) -> Any:
    """Return plain values with numbers of few digits."""
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def _compressed(value: dict[str, Any]) -> str:
    """Return the JSON of a value, compressed and as text; equal values give equal texts."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode("utf-8", "replace"), mtime=0)).decode()


def _levels(report: Report) -> dict[int, str]:
    """Return the worst level of the findings that begin in each row."""
    level = {finding.name: finding.level for finding in (*report.warnings, *report.errors)}
    begun = sorted(report.begins.items(), key=lambda item: level[item[0]] == "error")
    return {index: level[name] for name, indices in begun for index in indices}


def _shown(finding: Finding, code: str) -> dict[str, Any]:
    """Return a finding with the fields of its check, and its suggested line unless that is the line at the top."""
    declared = checks(finding.code)[0]
    line = "" if finding.fix is None or finding.fix.code is None else finding.fix.code
    fix = "" if finding.fix is None or finding.caused_by else finding.fix.advice
    extra = {"line": "" if finding.caused_by or _typed(line) == code else line, "advice": fix}
    sources = "; ".join(declared.references)
    return vars(finding) | extra | {"why": declared.why, "unit": declared.unit, "sources": sources}


def _what_to_do(report: Report) -> dict[str, str]:
    """Return the best fix: its line of code, its name and outcome, and what to do by hand."""
    best, untried = report.fix, "" if report.what_if is None or report.healthy else report.what_if.untried
    if best is None:
        return {"code": "", "code_is": "", "advice": untried}
    ties = "; ties with others" if best.tie else ""
    named = f"{best.name} ({best.outcome}{ties})"
    if best.code:
        return {"code": _typed(best.code), "code_is": named, "advice": untried}
    return {"code": "", "code_is": "", "advice": f"Suggested fix: {best.advice} ({best.outcome}{ties})"}


def _typed(code: str) -> str:
    return f"import initscope\n{code}" if code.startswith("initscope.") else code


def _versus(report: Report) -> dict[str, Any] | None:
    """Return the numbers of the network as it is and of the best alternative, marked by their thresholds."""
    table = report.what_if
    if table is None or not table.helps:
        return None
    before = next((item for item in table.alternatives if item.name == table.current), None)
    if before is None:
        return None
    both, limits = (before, table.best), report.thresholds
    names = [", ".join(item.crossed) or "none" for item in both]
    lines = [("findings", names, [bool(item.crossed) for item in both])]
    for name, attribute, low, high in (
        ("angle ratio (output / input)", "angle_ratio", limits.collapse, np.inf),
        ("scale ratio (output / input)", "rms_ratio", limits.vanishing, limits.exploding),
        ("largest over smallest gradient", "gradient_spread", 0.0, limits.gradient_imbalance),
        ("score (best: 1)", "score", 0.0, np.inf),
    ):
        values = [float(getattr(item, attribute)) for item in both]
        lines.append((name, [_short(value) for value in values], [not low <= value <= high for value in values]))
    return {
        "before": before.name,
        "after": table.best.name,
        "lines": [
            {"name": name, "before": texts[0], "after": texts[1],
             "mark": ["bad" if wrong else "fine" for wrong in bad] if any(bad) else ["", ""]}
            for name, texts, bad in lines
        ],
    }  # fmt: skip


def _what_if(report: Report) -> str:
    table = report.what_if
    if table is None or not table.alternatives:
        return ""
    return render_part(
        "what_if.html",
        alternatives=table.alternatives,
        current=table.current,
        score=table.score_is,
        skipped=table.skipped,
        short=_short,
    )


def _short(value: float | None) -> str:
    return "0" if value == 0 else with_error(value, None, 3)


def images_of(report: Report) -> Pictures:
    """Return the images that the page shows: those that were saved, or of the samples."""
    if report.pictures is not None:
        return report.pictures
    measured = as_comparison(report).measurement
    assert measured is not None
    return Pictures.of(report.observation, measured.angle, [pair.index for pair in _differing(report)])


def _differing(report: Report) -> list[Deviation]:
    """Return pairs whose measured angle differs visibly from the predicted one."""
    return [pair for pair in report.deviating() if f"{pair.predicted:.1f}" != f"{pair.measured:.1f}"]


def _deviating(report: Report, images: Pictures) -> str:
    pairs = [vars(pair) | {"images": images.of_pair.get(pair.index)} for pair in _differing(report)]
    return render_part("deviating.html", pairs=pairs) if pairs else ""


def _parts(report: Report) -> Iterator[str]:
    """Return the sections below the pairs: the initialization, and which layers can be inverted."""
    if report.audit.parameters:
        yield render_part("audit.html", rows=report.audit.summary(), formats=report.precision)
    if report.expansivity:
        yield render_part("expansivity.html", layers=_grouped(report))


def _grouped(report: Report) -> list[dict[str, Any]]:
    """Return one line for all layers with equal sizes and equal answers."""
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for item in report.expansivity:
        groups.setdefault((item.inputs, item.outputs, item.stands, item.injective), []).append(item)
    title = {row.layer: row.title for row in reversed(report.observation.rows)}  # for equal names the first counts
    lines = []
    for items in groups.values():
        titles = [title.get(item.layer, item.layer) for item in items]
        names = ", ".join(titles) if len(titles) < 4 else f"{len(titles)} layers: {titles[0]} to {titles[-1]}"
        lines.append(vars(items[0]) | {"names": names})
    return lines
