"""``initscope separation``: distances within and between classes, before and after training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from initscope.cli._comparison import check_suffix
from initscope.cli._options import Whole
from initscope.cli._output import Format, emit, print_sentence, print_table, say, user_code
from initscope.cli._sources import ModelSource, build_model, load_data
from initscope.cli.predict_measure import Model, Page
from initscope.errors import InputError

if TYPE_CHECKING:
    from initscope.class_geometry import Separations

__all__ = ["separation"]

_ENDS = ("network", "layer", "within_between", "variability", "cosine", "cosine_spread", "class_mean_accuracy",
         "class_mean_accuracy_se", "probe_accuracy", "probe_accuracy_se")  # fmt: skip


def separation(
    model: Model,
    /,
    *,
    source: ModelSource | None = None,
    checkpoints: Annotated[
        list[str] | None,
        Parameter(help="Further state dicts, in the order of training; repeat the option for each."),
    ] = None,
    anchors: Annotated[Whole, Parameter(help="Number of random triplets.")] = 2000,
    layers: Annotated[str, Parameter(help="Comma-separated names; default: activations and the last layer.")] = "",
    boundary: Annotated[
        bool, Parameter(help="Find the farthest sample of the class and the nearest sample of another class.")
    ] = True,
    rechosen: Annotated[bool, Parameter(help="Find them again in the features of every layer.")] = True,
    probes: Annotated[bool, Parameter(help="Add neural collapse, linear probes and nearest class means.")] = False,
    format: Format = "table",
    out: Page = None,
) -> None:
    """Compare distances within and between classes before and after training, at random points and at boundaries.

    The first network is the initialization (from --seed), followed by --weights and --checkpoints.
    """
    from initscope.class_geometry import separations

    check_suffix(out, "--out", (".html", ".htm"))
    source = source or ModelSource()
    data = load_data(source)
    if data.labels is None:
        raise InputError(f"{data.name} has no labels, so no classes; give labeled data, such as digits")
    files = [*([source.weights] if source.weights else []), *(checkpoints or [])]
    with user_code():
        start = replace(source, weights=None)
        networks = {"random weights": build_model(model, start, data.shape)}
        for name, file in zip(_names(files), files):
            networks[name] = build_model(model, start, data.shape, file)
        result = separations(
            networks,
            data,
            anchors=anchors,
            boundary=boundary,
            seed=source.seed,
            layers=[name.strip() for name in layers.split(",")] if layers else None,
            rechosen=rechosen,
            probes=probes,
        )
    if out is not None:
        result.to_html(out)
        say(f"page: {out}")
    if format == "table":
        _print(result)
    else:
        emit(result, format)


def _names(files: list[str]) -> list[str]:
    """Return the names of the files without folder and suffix if these are distinct."""
    short = [Path(file).stem for file in files]
    return short if len(set(short)) == len(set(files)) else files


_WORDS = {
    "intra": "within a class",
    "inter": "between classes",
    "random": "of random samples",
    "boundary": "of the samples nearest to another class",
    "rechosen": "nearest after the layer too",
}


def _print(result: Separations) -> None:
    from initscope.class_geometry.page import headline

    names = ("network", "layer", "intra_random", "inter_random", "intra_boundary", "inter_boundary", "intra_rechosen",
             "inter_rechosen", "recall")  # fmt: skip
    rows = [{name.replace("_", " "): row[name] for name in names if row[name] is not None} for row in result.table()]
    print_table(rows, title="Median distance ratios, after over before, scale removed", words=_WORDS)
    tests = result.tests(result.shown_layers[0])
    if tests:
        shown = ("after", "column", "median_before", "median_after", "superiority", "mann_whitney_p", "ks", "ks_p")
        table = [{name.replace("_", " "): test.to_dict()[name] for name in shown} for test in tests]
        print_table(table, title=f"Against {tests[0].before}, after {tests[0].layer}")
    if result.collapses:
        rows = [
            {"network": name} | row.to_dict() for name, collapse in result.collapses.items() for row in collapse.rows
        ]
        print_table(
            [{name.replace("_", " "): row[name] for name in _ENDS} for row in rows], title="Collapse and probes"
        )
    print_sentence(headline(result))
