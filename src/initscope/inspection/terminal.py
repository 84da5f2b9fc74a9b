"""A `Report` as lines of text: headline, causes with fixes, the folded table, what was tried, the next step."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from initscope.geometry import ROUNDING, named
from initscope.rendering.folding import folding_summary
from initscope.rendering.table import MOST_LINES, WORDS, note_lines, rich_table, table_lines, with_error, wrapped
from initscope.results import counted, printable

if TYPE_CHECKING:
    from initscope.inspection.finding import Finding, Fix
    from initscope.inspection.report import Report

__all__ = ["COLUMNS", "MOST_LINES", "block_texts", "report_lines"]

_FEWEST_ROWS, _MOST_CAUSES, _SHORT_REASON = 4, 3, 20
COLUMNS = {
    "angle_predicted": ("angle ° predicted", "", 1),
    "angle_measured": ("angle ° measured", "angle °", 1),
    "rms_ratio_measured": ("scale", "scale", 3),
    "token_cosine_predicted": ("token cosine predicted", "", 3),
    "token_cosine_measured": ("token cosine measured", "", 3),
    "attention_entropy_predicted": ("entropy predicted", "", 3),
    "attention_entropy_measured": ("entropy measured", "entropy", 3),
    "gradient_over_last_predicted": ("gradient predicted", "", 3),
    "gradient_over_last": ("gradient measured", "gradient", 3),
    "dead_fraction": ("dead", "dead", 2),
    "saturated_fraction": ("saturated", "saturated", 2),
    "effective_rank": ("rank", "rank", 1),
}
"""Columns of the table: title in the detailed and in the short table, and digits; the page and other formats have all
columns."""


def report_lines(
    report: Report,
    width: int | None = None,
    *,
    verbose: bool = False,
    depth: int | None = None,
    given: Collection[str] = (),
) -> list[str]:
    """Return the report as lines of at most ``width`` characters, or with one line per sentence if that is None.

    Parameters
    ----------
    report : Report
        What is shown.
    width : int, optional
        Columns of the terminal.
    verbose : bool
        Show every finding, predictions next to measurements, what the columns are and all alternatives.
    depth : int, optional
        Fold the table to paths of that many modules; the table is then shown in full.
    given : collection of str
        Options that the next step does not suggest, because they are given or do not exist.
    """
    top = [*wrapped(report.headline, width), *_cautions(report, width, verbose)]
    tried = _tried(report, width, verbose)
    step = wrapped(f"Next: {_next_step(report, {*given, '--verbose'} if verbose else given)}", width)
    serious = [*report.errors, *report.warnings]
    roots = [finding for finding in serious if finding.caused_by is None]
    if verbose:
        return [*top, *_findings(report, width), "", *_detailed_table(report, width, depth), *tried, *step]
    lines: list[str] = []
    for most in range(_MOST_CAUSES, 0, -1):
        causes = list(_causes(report, roots[:most], width))
        end = [*_hidden(report, roots[:most], width), *tried, *step]
        if depth is not None:
            return [*top, *causes, "", *_detailed_table(report, width, depth), *end]
        left = MOST_LINES - len(top) - len(causes) - len(end) - 2  # two empty lines
        lines = [*top, *causes, "", *_short_table(report, width, left), "", *end]
        if len(lines) <= MOST_LINES:
            break
    return lines


def _cautions(report: Report, width: int | None, verbose: bool) -> Iterator[str]:
    shown = report.cautions if verbose else report.cautions[:1]
    more = len(report.cautions) - len(shown)
    for caution in shown:
        yield from wrapped(f"Caution: {caution}{f' ({more} more with --verbose)' if more else ''}", width)


def _causes(report: Report, causes: Sequence[Finding], width: int | None) -> Iterator[str]:
    """Return root causes with their fixes; the headline has the message of the first finding already."""
    said: Fix | None = None
    for finding in causes:
        message = "" if finding is (report.errors or report.warnings)[0] else f": {finding.message}"
        yield from wrapped(f"{finding.level}: {finding.code} {finding.name}{message}", width)
        if finding.fix is not None and finding.fix != said:
            yield from _fix_lines(report, finding.fix, width)
        said = finding.fix


def _hidden(report: Report, causes: Sequence[Finding], width: int | None) -> list[str]:
    """Return the names of the findings other than ``causes``, by level."""
    levels: dict[str, list[str]] = {}
    for finding in report.findings:
        if not any(finding is cause for cause in causes):
            levels.setdefault(finding.level, []).append(finding.name)
    names = ", ".join(f"{', '.join(dict.fromkeys(items))} ({level})" for level, items in levels.items())
    return wrapped(f"More with --verbose: {names}", width) if names else []


def _findings(report: Report, width: int | None) -> Iterator[str]:
    for finding in report.findings:
        after = f" Follows from {finding.caused_by}." if finding.caused_by else ""
        yield from wrapped(f"{finding.level}: {finding.code} {finding.name}: {finding.message}{after}", width)
        if finding.fix is not None and not finding.caused_by:
            yield from _fix_lines(report, finding.fix, width)


def _fix_lines(report: Report, fix: Fix, width: int | None) -> Iterator[str]:
    """Return a fix: its line of code or its advice, and what the trial showed."""
    tied = [other.name for other in report.fixes if other.tie and other.name != fix.name] if fix.tie else []
    outcome = f"({'; a tie with '.join(filter(None, (fix.outcome, ', '.join(tied))))})"
    what = f"  fix: {printable(fix.code or fix.advice)}"
    if width is None or len(what) + len(outcome) + 2 <= width:
        yield f"{what}  # {outcome[1:-1]}" if fix.code else f"{what} {outcome}"
        return
    yield from textwrap.wrap(what, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    yield from wrapped(outcome, width, "    ")


def _short_table(report: Report, width: int | None, most: int) -> list[str]:
    """Return the table in at most ``most`` lines if that is possible: long names take two lines."""
    causes = {finding.name for finding in (*report.errors, *report.warnings) if finding.caused_by is None}
    lines: list[str] = []
    for count in range(max(_FEWEST_ROWS, most - 2), _FEWEST_ROWS - 1, -1):
        rows = block_texts(report.blocks(few=count), short=True)
        for row in rows:
            row["finding"] = ", ".join(name for name in row["finding"].split(", ") if name in causes)
        lines = _table(rows, width, captions=False)
        if len(lines) <= most:
            break
    return lines


def _detailed_table(report: Report, width: int | None, depth: int | None) -> list[str]:
    from initscope.inspection.report import NOT_ASKED

    blocks = report.blocks(depth, few=True)
    if depth == 0:  # every op, by the name of its module
        blocks = [block | {"title": named(block["layer"], block["kind"])} for block in blocks]
    notes = note_lines({row.title: row.note.removeprefix(NOT_ASKED) for row in report.rows})
    folded = folding_summary(blocks)
    rows = block_texts(blocks)
    if report.prediction is not None:
        rows = [row | {"status": block["status"]} for row, block in zip(rows, blocks, strict=True)]
    return _table(rows, width, below=[*[folded] * bool(folded), *notes], words=WORDS)


def block_texts(blocks: Sequence[Mapping[str, Any]], *, short: bool = False) -> list[dict[str, str]]:
    """Return the lines of `Report.blocks` as short texts."""
    shown = [(name, titles[short], digits) for name, (*titles, digits) in COLUMNS.items() if titles[short]]
    return [
        {"op": block["title"], "finding": ", ".join(block["findings"])}
        | {
            title: with_error(block.get(name), None, digits, ROUNDING if name == "angle_measured" else 0.0)
            for name, title, digits in shown
        }
        for block in blocks
    ]


def _table(rows: Sequence[Mapping[str, Any]], width: int | None, *, captions: bool = True, **options: Any) -> list[str]:
    """Return a table as lines; captions below it are wrapped as text."""
    table = rich_table(rows, width=width, keep=("finding", "angle ° measured", "angle °", "score"), **options)
    return table_lines(table, width, captions=captions)


def _tried(report: Report, width: int | None, verbose: bool) -> list[str]:
    """Return what was tried, in one sentence; with all alternatives in a table if ``verbose``."""
    trial, alternatives = report.trial, () if report.what_if is None else report.what_if.alternatives
    parts = []
    if trial is not None and trial.losses:
        rate = "" if trial.rate is None else f" at {trial.rate:.2g}"
        steps = f"{counted(len(trial.losses), 'training step')} on one batch ({trial.optimizer}{rate}, loss "
        parts.append(f"{steps}{trial.losses[0]:.3g} → {trial.losses[-1]:.3g}: {trial.outcome})")
    fixes = {fix for finding in report.findings if (fix := finding.fix) is not None and fix.tried} | set(report.fixes)
    if alternatives:
        skipped = {} if report.what_if is None else report.what_if.skipped
        reasons = set(skipped.values())
        why = next(iter(reasons)) if len(reasons) == 1 and len(min(reasons)) < _SHORT_REASON else "see --verbose"
        parts.append(counted(len(alternatives), "alternative") + (f" ({len(skipped)} not: {why})" if skipped else ""))
    tried = sum(fix.tried for fix in fixes)
    parts += [f"{tried} {'fix' if tried == 1 else 'fixes'}"] if tried else []
    said = wrapped(f"Tried: {', '.join(parts)}.", width) if parts else []
    return [*said, *_details(report, width)] if verbose else said


def _details(report: Report, width: int | None) -> Iterator[str]:
    """Return the loss that was used, which inputs can be recovered, and every alternative."""
    if report.facts.loss_name:
        yield from wrapped(f"Loss: {report.facts.loss_name}", width)
    open_question = [layer.to_dict() for layer in report.expansivity if layer.expansivity >= 2]
    if lossy := len(report.expansivity) - len(open_question):
        layers = counted(lossy, "ReLU layer")
        yield from wrapped(f"{layers} with fewer than two outputs per input: their inputs cannot be recovered", width)
    if open_question:
        yield "Can the input of these ReLU layers be recovered?"
        yield from _table(open_question, width)
    what_if = report.what_if
    if what_if is not None and what_if.untried:
        yield from wrapped(what_if.untried, width)
    elif what_if is not None:
        yield "Alternatives that were tried, best first"
        yield from _table(what_if.summary(), width)
        yield from wrapped(what_if.score_is, width)
        for line in note_lines(what_if.skipped):
            yield from wrapped(f"not tried: {line}", width)


def _next_step(report: Report, given: Collection[str]) -> str:
    """Return the next step on the command line."""
    steps = ["look at the first finding, change the model and run this again"]
    if report.fix is not None and report.fix.initializer is not None and "--apply" not in given:
        steps = ["--apply weights.pt writes the weights of the suggested fix"]
    elif report.fix is not None:
        steps = ["make the suggested change and run this again"]
    elif not (report.errors or report.warnings):
        options = [f"--{name}" for item in report.not_checked for name in item.options]
        steps = [f"pass {' and '.join(options)} to check more" if options else "train it"]
    further = {"--out": "--out report.html writes the page", "--verbose": "--verbose shows the details"}
    shown = [step for option, step in further.items() if option not in given]
    return "; ".join([*steps, ", ".join(shown)] if shown else steps) + "."
