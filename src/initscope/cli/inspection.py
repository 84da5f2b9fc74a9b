"""``initscope inspect``: what a model will do to the user's data, why, and what to change."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from initscope._utils.progress import interrupted
from initscope.cli._comparison import check_suffix
from initscope.cli._help import OUTPUT, WORK
from initscope.cli._options import Whole
from initscope.cli._output import command_line, emit, say, terminal_width, user_code
from initscope.cli._sources import InspectSource, build_model, data_spec, load_data
from initscope.cli._training import TrainingOptions
from initscope.cli.predict_measure import Depth, InitializerName, Model, Page, check_depth
from initscope.errors import InputError

if TYPE_CHECKING:
    from torch import nn

    from initscope.data import ImageSet
    from initscope.inspection import Report

__all__ = ["InspectOptions", "ReportFormat", "inspect", "inspect_arguments", "show_report"]

ReportFormat = Annotated[
    Literal["table", "json", "csv", "md"],
    Parameter(
        group=OUTPUT,
        help="table for people, json or csv for programs (every op), md for pull requests and assistants.",
    ),
]


@Parameter(name="*", group=WORK)
@dataclass(frozen=True, kw_only=True)
class InspectOptions:
    """What `inspect` computes in addition to the measurement."""

    draws: Annotated[Whole, Parameter(help="0: the weights that the model has; n: mean over n draws of them.")] = 0
    initializer: InitializerName = "present"
    mode: Annotated[Literal["train", "eval"] | None, Parameter(help="What batch norm does; default: as it is.")] = None
    gradients: Annotated[bool, Parameter(help="Record the gradients of the weights.")] = True
    prediction: Annotated[bool, Parameter(help="Compute what theory expects next to what is measured.")] = True
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
    save: Annotated[Path | None, Parameter(help="Write the report to this .initscope file, for open and compare.")] = (
        None
    )
    verbose: Annotated[bool, Parameter(help="Print every finding, the whole table and all alternatives.")] = False
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
        check_suffix(self.save, "--save", (".initscope",))


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
    data_spec(source or InspectSource())  # before anything loads torch: a wrong name is refused at once
    import initscope
    from initscope._utils.disk import check_space
    from initscope.inspection._checks import failing, selected

    source, options, output = source or InspectSource(), options or InspectOptions(), output or InspectOutput()
    output.check()
    selected(options.select or None, options.ignore or None)
    if output.apply is not None and not options.alternatives:
        raise InputError("--apply writes the best alternative, but --no-alternatives tries none; leave one of them out")
    data = load_data(source)
    arguments = inspect_arguments(options, source, data)
    inputs, trained = (training or TrainingOptions()).apply(data)
    with user_code():
        built = build_model(model, source, tuple(inputs.shape[1:]) if inputs is not data else data.shape)
        if output.apply is not None:
            check_space(output.apply, sum(value.nbytes for value in built.state_dict().values()))
        report = initscope.inspect(built, inputs, **trained, **arguments)
    report = replace(report, provenance=replace(report.provenance, model=model, command=command_line()))
    unwritten = "" if output.apply is None else _apply(report, built, output.apply, source.seed)
    if output.save is not None:
        say(f"saved: {report.save(output.save)}")
    given = () if output.apply is None else ("--apply",)
    show_report(report, output.format, out=output.out, verbose=output.verbose, depth=output.depth, given=given)
    if unwritten and (report.errors or report.warnings):
        raise InputError(f"--apply: {unwritten}")
    if unwritten:
        say(f"weights: {output.apply} is not written: {unwritten}")
    failed = failing(report.findings, output.fail_on)
    for finding in failed:
        say(f"initscope: {finding}")
    if failed and not interrupted():
        sys.exit(1)


def inspect_arguments(options: InspectOptions, source: InspectSource, data: ImageSet) -> dict[str, Any]:
    """Return the arguments of `initscope.inspect` that the options stand for."""
    if len(data) < 2:
        raise InputError(f"{data.name} has {len(data)} sample, which makes no pair; give at least two")
    return {
        "pairs": min(source.pairs, len(data) // 2),
        "draws": options.draws,
        "seed": source.seed,
        "initializer": None if options.initializer == "present" else options.initializer,
        "gradients": options.gradients,
        "mode": options.mode,
        "prediction": options.prediction,
        "alternatives": options.alternatives,
        "select": options.select or None,
        "ignore": options.ignore or None,
    }


def show_report(
    report: Report,
    format: Literal["table", "json", "csv", "md"],
    *,
    out: Path | None,
    verbose: bool,
    depth: int | None,
    given: tuple[str, ...],
) -> None:
    """Write the page, then print the report: the reader of a pipe may close it half-way.

    Tables get the width of the terminal; in a file or a pipe every sentence is one line.
    """
    from initscope.inspection.terminal import report_lines

    if out is not None:
        report.to_html(out)
        say(f"page: {out}")
    if format == "table":
        given = given if out is None else (*given, "--out")
        for line in report_lines(report, terminal_width(), verbose=verbose, depth=depth, given=given):
            print(line)
    elif format == "md":
        print(report.to_markdown(), end="")
    else:
        emit(report, format)


def _apply(report: Report, model: nn.Module, path: Path, seed: int) -> str:
    """Write the model's state dict after the suggested fix, if that changes only weights.

    Return why nothing is written, or an empty text.
    """
    import torch

    from initscope._utils.files import atomic_path
    from initscope.inspection.fixes import with_fix

    fix = report.fix
    if not report.errors and not report.warnings:
        return "no problems were found, so that there is nothing to fix"
    if fix is None:
        return (report.what_if.untried if report.what_if is not None else "") or "no fix was seen to help"
    with user_code():
        fixed = with_fix(model, fix, seed)
    if fixed is None:
        return f"the suggested fix changes more than weights: {fix.advice}"
    state = fixed.state_dict()
    packed = io.BytesIO()  # torch's own writing to a file reports a full disk by an error without a reason
    torch.save(state, packed)
    with atomic_path(path) as temporary:
        temporary.write_bytes(packed.getvalue())
    say(f"weights: {path} ({fix.name}; {fix.outcome})")
    return ""
