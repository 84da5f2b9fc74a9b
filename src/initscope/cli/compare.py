"""``initscope compare``: several models, checkpoints, initializations or saved reports on the same data."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from initscope.cli._comparison import check_suffix
from initscope.cli._help import MODEL, OUTPUT
from initscope.cli._output import emit, print_sentence, print_table, say, user_code
from initscope.cli._sources import InspectSource, build_model, load_data
from initscope.cli._training import TrainingOptions
from initscope.cli.inspection import InspectOptions, ReportFormat, inspect_arguments
from initscope.cli.predict_measure import Page
from initscope.errors import InputError
from initscope.initializers import named

if TYPE_CHECKING:
    from initscope.inspection import ModelComparison

__all__ = ["compare"]

_WEIGHTS = (".pt", ".pth", ".npz", ".safetensors")


def compare(
    model: Annotated[
        str,
        Parameter(group=MODEL, help="A model, as for inspect, or a report that inspect --save has written."),
    ],
    /,
    *others: Annotated[
        str,
        Parameter(group=MODEL, help="More models or reports, or files of weights (.pt, .pth, .npz) for the first."),
    ],
    initializers: Annotated[
        str, Parameter(group=MODEL, help="Also compare copies of the first model with these initializers: he,glorot.")
    ] = "",
    source: InspectSource | None = None,
    training: TrainingOptions | None = None,
    options: InspectOptions | None = None,
    save: Annotated[
        Path | None, Parameter(group=OUTPUT, help="Write the comparison to this .initscope file, for open.")
    ] = None,
    format: ReportFormat = "table",
    out: Page = None,
) -> None:
    """Compare models, checkpoints, initializations or saved reports: findings side by side, and what differs."""
    import initscope

    check_suffix(out, "--out", (".html", ".htm"))
    check_suffix(save, "--save", (".initscope",))
    added = {name.strip(): named(name.strip()) for name in initializers.split(",") if name.strip()}
    given = dict(zip(_names((model, *others)), (model, *others), strict=True))
    if len(given) + len(added) < 2:
        raise InputError("compare needs at least two models, reports, files of weights or --initializers")
    if all(_is_report(text) for text in given.values()) and not added:
        compared = initscope.compare(given)
    else:
        source, options = source or InspectSource(), options or InspectOptions()
        data = load_data(source)
        arguments = inspect_arguments(options, source, data)
        inputs, trained = (training or TrainingOptions()).apply(data)
        shape = tuple(inputs.shape[1:]) if inputs is not data else data.shape
        with user_code():
            models = {name: _built(text, model, source, shape) for name, text in given.items()} | added
            compared = initscope.compare(models, inputs, **trained, **arguments)
    if save is not None:
        say(f"saved: {compared.save(save)}")
    if out is not None:
        compared.to_html(out)
        say(f"page: {out}")
    if format == "table":
        _print(compared)
    elif format == "md":
        print(compared.to_markdown(), end="")
    else:
        emit(compared, format)


def _is_report(text: str) -> bool:
    return Path(text).suffix == ".initscope"


def _built(text: str, first: str, source: InspectSource, shape: tuple[int, ...]) -> Any:
    """Load a model, the first model with the weights of a file, or a saved report."""
    if _is_report(text):
        return text
    if Path(text).suffix in _WEIGHTS:
        if _is_report(first):
            raise InputError(f"{text} holds weights, and {first} is a report; give the model before its weights")
        return build_model(first, source, shape, text)
    return build_model(text, source, shape)


def _names(given: Iterable[str]) -> list[str]:
    """Return a short name for each: file names without folder and suffix if these differ."""
    texts = list(given)
    short = [Path(text).stem if _is_report(text) or Path(text).suffix in _WEIGHTS else text for text in texts]
    names = short if len(set(short)) == len(short) else texts
    return [name if names.index(name) == number else f"{name} ({number + 1})" for number, name in enumerate(names)]


def _print(compared: ModelComparison) -> None:
    for title, rows in compared.tables().items():
        print_table(rows, title=title)
    first = next(iter(compared.reports))
    for caution in compared.cautions:
        print_sentence(f"Caution: {caution}")
    for name, lines in compared.changes.items():
        print_sentence(f"{name} compared with {first}: {'; '.join(lines)}.")
