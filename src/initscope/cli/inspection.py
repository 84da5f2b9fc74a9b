"""``initscope inspect``: what a model will do to the user's data, why, and what to change."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from initscope._utils.progress import interrupted
from initscope.cli._comparison import check_suffix
from initscope.cli._help import OUTPUT, WORK
from initscope.cli._options import Whole
from initscope.cli._output import emit, print_sentence, print_table, say, user_code
from initscope.cli._sources import InspectSource, build_model, load_data
from initscope.cli.predict_measure import Depth, Law, Model, Page, check_depth
from initscope.errors import InputError
from initscope.results import counted, printable

if TYPE_CHECKING:
    from torch import nn

    from initscope.inspection import Report

__all__ = ["inspect"]

ReportFormat = Annotated[
    Literal["table", "json", "csv", "md"],
    Parameter(
        group=OUTPUT,
        help="table for people, json or csv for programs (every step), md for pull requests and assistants.",
    ),
]
_SHORT = {
    "layer": "layer",
    "verdict": "verdict",
    "angle predicted": "angle ° predicted",
    "angle measured": "angle ° measured",
    "rms ratio measured": "size",
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
    """What `inspect` computes beside the measurement."""

    draws: Annotated[Whole, Parameter(help="0: the weights that the model has; n: mean over n draws of them.")] = 0
    initializer: Law = "present"
    mode: Annotated[Literal["train", "eval"] | None, Parameter(help="What batch norm does; default: as it is.")] = None
    gradients: Annotated[bool, Parameter(help="Record the gradients of the weights.")] = True
    prediction: Annotated[bool, Parameter(help="Compute what theory expects beside what is measured.")] = True
    alternatives: Annotated[bool, Parameter(help="Try other starts of a network that has a fault.")] = True


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class InspectOutput:
    """What `inspect` writes."""

    fail_on: Annotated[
        str, Parameter(help="Exit with 1 on: any (verdict), faults, or names of verdicts, joined by commas.")
    ] = ""
    apply: Annotated[
        Path | None, Parameter(help="Write the state dict under the best weight law to this .pt file.")
    ] = None
    depth: Depth = None
    format: ReportFormat = "table"
    out: Page = None

    def check(self) -> None:
        """Refuse, before any work is done, names of verdicts that there are not, and files of other formats."""
        from initscope.inspection.verdicts import check_fail_on

        check_fail_on(self.fail_on)
        check_depth(self.depth)
        check_suffix(self.out, "--out", (".html", ".htm"))
        check_suffix(self.apply, "--apply", (".pt", ".pth"))


def inspect(
    model: Model,
    /,
    *,
    source: InspectSource | None = None,
    options: InspectOptions | None = None,
    output: InspectOutput | None = None,
) -> None:
    """Inspect a model on data: angles, sizes, gradients, dead units, rank; verdicts; what to change."""
    import initscope
    from initscope._utils.disk import check_space
    from initscope.inspection.verdicts import failing

    source, options, output = source or InspectSource(), options or InspectOptions(), output or InspectOutput()
    output.check()
    if output.apply is not None and not options.alternatives:
        raise InputError("--apply writes the best of the other starts, which --no-alternatives does not try; drop one")
    data = load_data(source)
    if len(data) < 2:
        raise InputError(f"{data.name} has {len(data)} sample, which makes no pair; give at least two")
    with user_code():
        built = build_model(model, source, data.shape)
        if output.apply is not None:
            check_space(output.apply, sum(value.nbytes for value in built.state_dict().values()))
        report = initscope.inspect(
            built,
            data,
            pairs=min(source.pairs, len(data) // 2),
            draws=options.draws,
            seed=source.seed,
            initializer=None if options.initializer == "present" else options.initializer,
            gradients=options.gradients,
            mode=options.mode,
            prediction=options.prediction,
            alternatives=options.alternatives,
        )
    unwritten = "" if output.apply is None else _apply(report, built, output.apply, source.seed)
    _show(report, output)
    if unwritten and not report.healthy:
        raise InputError(f"--apply: {unwritten}")
    if unwritten:
        say(f"weights: {output.apply} is not written: {unwritten}")
    failed = failing(report.verdicts, output.fail_on)
    for verdict in failed:
        say(f"initscope: {verdict}")
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
        emit(report, output.format, best=_best(report))


def _best(report: Report) -> dict[str, Any] | None:
    """The start to take, where others were tried."""
    if report.what_if is None or not report.what_if.alternatives:
        return None
    best: dict[str, Any] = report.what_if.best.to_dict()
    return best


def _print(report: Report, depth: int | None) -> None:
    """What to know of the data, the blocks, the faults with what to do, and the conclusion in one line."""
    from initscope.inspection.page import table_texts
    from initscope.inspection.report import NOT_ASKED
    from initscope.rendering.table import WORDS, notes_told

    for caution in report.cautions:
        print_sentence(f"caution: {caution}")
    shown = {name: short for name, short in _SHORT.items() if name != "status" or report.prediction is not None}
    texts, folded = table_texts(report, depth)
    rows = [{shown[name]: text for name, text in row.items() if name in shown} for row in texts]
    below = notes_told({row.title: row.note.removeprefix(NOT_ASKED) for row in report.rows})
    print_table(
        rows,
        title=report.diagnosis,
        keep=("verdict", "angle ° measured"),
        below=[*[folded] * bool(folded), *below],
        words=WORDS,
    )
    helped = report.what_if is not None and report.what_if.helps
    typed = set[str]()
    for verdict in report.verdicts:
        if verdict.fault:
            mended = helped and verdict.of_the_start  # what is fed or wired wrongly has to be mended beside
            print_sentence(f"verdict: {verdict.finding if mended else verdict}")
            print_sentence(f"  source: {verdict.source}")
            if verdict.code and not mended and verdict.code not in typed:
                _line(f"  type: {verdict.code}")
                typed.add(verdict.code)
    if not report.healthy:
        _print_alternatives(report)
    print_sentence(f"{report.title}: {report.conclusion}")


def _print_alternatives(report: Report) -> None:
    """What may be changed, of a network with a fault."""
    from initscope.rendering.table import notes_told

    open_question = [layer.to_dict() for layer in report.expansivity if layer.expansivity >= 2]
    if lossy := len(report.expansivity) - len(open_question):
        layers = counted(lossy, "ReLU layer")
        print_sentence(f"fewer than two outputs per input in {layers}: what enters there cannot be recovered")
    if open_question:
        print_table(open_question, title="Can the input of these ReLU layers be recovered?")
    if report.what_if is not None and report.what_if.untried:
        print_sentence(report.what_if.untried)
    elif report.what_if is not None:
        print_table(
            report.what_if.summary(),
            title="What if: the same network started otherwise, best first",
            keep=("score", "verdicts of draws"),
        )
        print_sentence(report.what_if.score_is)
        for line in notes_told(report.what_if.skipped):
            print_sentence(f"not tried: {line}")
        best = report.what_if.best
        if report.what_if.helps:
            still = f" (still {', '.join(best.crossed)})" if best.crossed else ""
            _line(f"best, {best.name}{still}: {f'type {best.code}' if best.code else best.advice}")


def _line(text: str) -> None:
    """What may be typed or copied: not wrapped."""
    print(printable(text))


def _apply(report: Report, model: nn.Module, path: Path, seed: int) -> str:
    """Write the model's state dict with weights drawn from the best law that needs no change of the architecture.

    Returns why there is none to write, or nothing.
    """
    import torch

    from initscope._utils.files import atomic_path
    from initscope._utils.randomness import torch_generator
    from initscope.graph.borrowing import copy_of

    best = None if report.what_if is None else report.what_if.best_law
    if best is None or best.law is None:
        reason = report.what_if.untried if report.what_if is not None else ""
        return reason or "no alternative weight law could be tried on this model"
    with user_code():
        redrawn = best.law.fill_(copy_of(model), generator=torch_generator(seed, "weights"))
        state = redrawn.state_dict()
    packed = io.BytesIO()  # torch's own writing to a file tells a full disk by an error without a reason
    torch.save(state, packed)
    with atomic_path(path) as temporary:
        temporary.write_bytes(packed.getvalue())
    still = f", of which every draw that was tried has a fault: {', '.join(best.crossed)}"
    say(f"weights: {path} ({best.name}{still if best.sick == best.draws else ''})")
    return ""
