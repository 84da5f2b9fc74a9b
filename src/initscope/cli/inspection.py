"""``initscope inspect``: what a model will do to the user's data, why, and what to change."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from initscope._utils.progress import interrupted
from initscope.cli._comparison import check_suffix
from initscope.cli._help import OUTPUT, WORK
from initscope.cli._options import Whole
from initscope.cli._output import emit, print_sentence, print_table, say, user_code
from initscope.cli._sources import InspectSource, build_model, load_data
from initscope.cli._training import TrainingOptions
from initscope.cli.predict_measure import Depth, InitializerName, Model, Page, check_depth
from initscope.errors import InputError
from initscope.results import counted, printable

if TYPE_CHECKING:
    from torch import nn

    from initscope.inspection import Fix, Report
    from initscope.inspection.instruments import Trial

__all__ = ["inspect"]

ReportFormat = Annotated[
    Literal["table", "json", "csv", "md"],
    Parameter(
        group=OUTPUT,
        help="table for people, json or csv for programs (every op), md for pull requests and assistants.",
    ),
]
_SHORT = {
    "layer": "layer",
    "finding": "finding",
    "angle predicted": "angle ° predicted",
    "angle measured": "angle ° measured",
    "rms ratio measured": "scale",
    "token cosine predicted": "token cosine predicted",
    "token cosine measured": "token cosine measured",
    "attention entropy predicted": "entropy predicted",
    "attention entropy measured": "entropy measured",
    "gradient over last predicted": "gradient predicted",
    "gradient over last": "gradient measured",
    "dead fraction": "dead",
    "saturated fraction": "saturated",
    "effective rank": "rank",
    "status": "status",
}
"""Columns that fit a terminal, and their names there; the page and the other formats have all."""


@Parameter(name="*", group=WORK)
@dataclass(frozen=True, kw_only=True)
class InspectOptions:
    """What `inspect` computes in addition to the measurement."""

    draws: Annotated[Whole, Parameter(help="0: the weights that the model has; n: mean over n draws of them.")] = 0
    initializer: InitializerName = "present"
    mode: Annotated[Literal["train", "eval"] | None, Parameter(help="What batch norm does; default: as it is.")] = None
    gradients: Annotated[bool, Parameter(help="Record the gradients of the weights.")] = True
    prediction: Annotated[bool, Parameter(help="Compute what theory expects beside what is measured.")] = True
    alternatives: Annotated[
        bool, Parameter(help="Try other initializations, widths and depths of a network that has a problem.")
    ] = True
    select: Annotated[str, Parameter(help="Run only these checks: codes, prefixes (IS2) or names, with commas.")] = ""
    ignore: Annotated[str, Parameter(help="Leave these checks out: codes, prefixes or names, with commas.")] = ""


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class InspectOutput:
    """What `inspect` writes."""

    fail_on: Annotated[
        str, Parameter(help="Exit with 1 on: error, warning (or worse), or codes and names of checks, with commas.")
    ] = ""
    apply: Annotated[Path | None, Parameter(help="Write the state dict after the suggested fix to this .pt file.")] = (
        None
    )
    depth: Depth = None
    format: ReportFormat = "table"
    out: Page = None

    def check(self) -> None:
        """Refuse, before any work is done, checks that do not exist, and files of other formats."""
        from initscope.inspection._checks import refuse_unknown

        refuse_unknown(self.fail_on, "--fail-on", levels=True)
        check_depth(self.depth)
        check_suffix(self.out, "--out", (".html", ".htm"))
        check_suffix(self.apply, "--apply", (".pt", ".pth"))


def inspect(
    model: Model,
    /,
    *,
    source: InspectSource | None = None,
    training: TrainingOptions | None = None,
    options: InspectOptions | None = None,
    output: InspectOutput | None = None,
) -> None:
    """Inspect a model on data: find what keeps it from learning, and suggest a fix that was tried."""
    import initscope
    from initscope._utils.disk import check_space
    from initscope.inspection._checks import failing, selected

    source, options, output = source or InspectSource(), options or InspectOptions(), output or InspectOutput()
    output.check()
    selected(options.select or None, options.ignore or None)
    if output.apply is not None and not options.alternatives:
        raise InputError("--apply writes the best alternative, and --no-alternatives tries none; drop one")
    data = load_data(source)
    if len(data) < 2:
        raise InputError(f"{data.name} has {len(data)} sample, which makes no pair; give at least two")
    inputs, trained = (training or TrainingOptions()).apply(data)
    with user_code():
        built = build_model(model, source, tuple(inputs.shape[1:]) if inputs is not data else data.shape)
        if output.apply is not None:
            check_space(output.apply, sum(value.nbytes for value in built.state_dict().values()))
        report = initscope.inspect(
            built,
            inputs,
            **trained,
            pairs=min(source.pairs, len(data) // 2),
            draws=options.draws,
            seed=source.seed,
            initializer=None if options.initializer == "present" else options.initializer,
            gradients=options.gradients,
            mode=options.mode,
            prediction=options.prediction,
            alternatives=options.alternatives,
            select=options.select or None,
            ignore=options.ignore or None,
        )
    unwritten = "" if output.apply is None else _apply(report, built, output.apply, source.seed)
    _show(report, output)
    if unwritten and (report.errors or report.warnings):
        raise InputError(f"--apply: {unwritten}")
    if unwritten:
        say(f"weights: {output.apply} is not written: {unwritten}")
    failed = failing(report.findings, output.fail_on)
    for finding in failed:
        say(f"initscope: {finding}")
    if failed and not interrupted():
        sys.exit(1)


def _show(report: Report, output: InspectOutput) -> None:
    """Write the page, then print the report: whoever reads it may go away half-way."""
    if output.out is not None:
        report.to_html(output.out)
        say(f"page: {output.out}")
    if output.format == "table":
        _print(report, output.depth)
    elif output.format == "md":
        print(report.to_markdown(), end="")
    else:
        emit(report, output.format)


def _print(report: Report, depth: int | None) -> None:
    """What limits the findings, the blocks, errors and warnings with their fixes, and what was not checked."""
    from initscope.inspection.page import table_texts
    from initscope.inspection.report import NOT_ASKED
    from initscope.rendering.table import WORDS, note_lines

    for caution in report.cautions:
        print_sentence(f"caution: {caution}")
    shown = {name: short for name, short in _SHORT.items() if name != "status" or report.prediction is not None}
    texts, folded = table_texts(report, depth)
    rows = [{shown[name]: text for name, text in row.items() if name in shown} for row in texts]
    below = note_lines({row.title: row.note.removeprefix(NOT_ASKED) for row in report.rows})
    print_table(
        rows,
        title=report.title,
        keep=("finding", "angle ° measured"),
        below=[*[folded] * bool(folded), *below],
        words=WORDS,
    )
    if report.facts.loss_name:
        print_sentence(f"loss: {report.facts.loss_name}")
    if report.trial is not None and report.trial.losses:
        print_sentence(_trial_line(report.trial))
    for finding in (*report.errors, *report.warnings):
        after = f" Follows from {finding.caused_by}." if finding.caused_by else ""
        print_sentence(f"{finding.level}: {finding.code} {finding.name}: {finding.message}{after}")
        if finding.fix is not None and not finding.caused_by and finding.fix != report.fix:
            _print_fix("  fix", finding.fix)
    if report.errors or report.warnings:
        _print_alternatives(report)
    if report.fix is not None:
        _print_fix("suggested fix", report.fix)
    print_sentence(f"{report.title}: {report.headline}")


def _trial_line(trial: Trial) -> str:
    """The trial in one line."""
    rate = "" if trial.rate is None else f", rate {trial.rate:.2g}"
    ends = f"loss {trial.losses[0]:.3g} → {trial.losses[-1]:.3g} in {counted(len(trial.losses), 'step')}"
    return f"trial: {trial.outcome}: {ends} ({trial.optimizer}{rate}, {counted(trial.samples, 'sample')})"


def _print_fix(what: str, fix: Fix) -> None:
    """One fix: its line to type or its advice, and what the trial showed."""
    ties = "; a tie with others" if fix.tie else ""
    if fix.code:
        _line(f"{what}: {fix.code}  # {fix.outcome}{ties}")
    else:
        print_sentence(f"{what}: {fix.advice} ({fix.outcome}{ties})")


def _print_alternatives(report: Report) -> None:
    """What was tried on a network that has a problem."""
    from initscope.rendering.table import note_lines

    open_question = [layer.to_dict() for layer in report.expansivity if layer.expansivity >= 2]
    if lossy := len(report.expansivity) - len(open_question):
        layers = counted(lossy, "ReLU layer")
        print_sentence(f"{layers} with fewer than two outputs per input: their inputs cannot be recovered")
    if open_question:
        print_table(open_question, title="Can the input of these ReLU layers be recovered?")
    if report.what_if is not None and report.what_if.untried:
        print_sentence(report.what_if.untried)
    elif report.what_if is not None:
        print_table(
            report.what_if.summary(),
            title="Alternatives that were tried, best first",
            keep=("score", "findings of samples"),
        )
        print_sentence(report.what_if.score_is)
        for line in note_lines(report.what_if.skipped):
            print_sentence(f"not tried: {line}")


def _line(text: str) -> None:
    """What may be typed or copied: not wrapped."""
    print(printable(text))


def _apply(report: Report, model: nn.Module, path: Path, seed: int) -> str:
    """Write the model's state dict after the suggested fix, if that changes only weights.

    Returns why nothing is written, or nothing.
    """
    import torch

    from initscope._utils.files import atomic_path
    from initscope._utils.randomness import torch_generator
    from initscope.graph.borrowing import copy_of

    fix = report.fix
    if fix is None:
        return (report.what_if.untried if report.what_if is not None else "") or "there is no fix to apply"
    if fix.law is None:
        return f"the suggested fix changes more than weights: {fix.advice}"
    with user_code():
        redrawn = fix.law.fill_(copy_of(model), generator=torch_generator(seed, "weights"))
        state = redrawn.state_dict()
    packed = io.BytesIO()  # torch's own writing to a file reports a full disk by an error without a reason
    torch.save(state, packed)
    with atomic_path(path) as temporary:
        temporary.write_bytes(packed.getvalue())
    say(f"weights: {path} ({fix.name}; {fix.outcome})")
    return ""
