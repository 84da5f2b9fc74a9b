"""``initscope predict`` and ``initscope measure``: what a model does to pairs of inputs, layer by layer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from initscope.cli._geometry import check_suffix, progress_bar, show, write_pairs
from initscope.cli._options import Whole
from initscope.cli._output import Format, prints_to_stderr
from initscope.cli._sources import DEFAULT_DATA, ModelSource, Sources, load_sources

if TYPE_CHECKING:
    from initscope.initializers import Initializer
    from initscope.report import Comparison

__all__ = ["InitializerName", "measure", "named_initializer", "predict"]

InitializerName = Literal["he", "glorot", "lecun", "zero-sum", "looks-linear", "present"]

Model = Annotated[
    str,
    Parameter(help="package.module:factory, file.py:factory, or an architecture such as 'conv3x3x64-relu*12'."),
]
Law = Annotated[InitializerName, Parameter(help="Law of the weights; present: that of the model's own weights.")]
PairsOut = Annotated[Path | None, Parameter(help="Write every pair's own numbers to this .json or .csv file.")]
Page = Annotated[Path | None, Parameter(help="Write a page with table and pictures to this .html file.")]


def named_initializer(name: InitializerName) -> Initializer:
    """The weight law that a name on the command line stands for."""
    from initscope import initializers

    laws: dict[str, type[Initializer]] = {
        "he": initializers.He,
        "glorot": initializers.Glorot,
        "lecun": initializers.LeCun,
        "zero-sum": initializers.ZeroSum,
        "looks-linear": initializers.LooksLinear,
        "present": initializers.Present,
    }
    return laws[name]()


def predict(
    model: Model,
    /,
    *,
    source: ModelSource | None = None,
    initializer: Law = "present",
    format: Format = "table",
    pairs_out: PairsOut = None,
    out: Page = None,
) -> None:
    """Predict angles and norms of pairs after every layer, from theory alone."""
    from initscope import predict
    from initscope.report import Comparison

    _check_files(pairs_out, out)
    source = source or ModelSource()
    built = load_sources(model, source)
    with prints_to_stderr():
        prediction = predict(built.model, built.x, built.y, named_initializer(initializer))
        if any(row.status == "not covered" for row in prediction.rows):
            _check_runs(built)
    _finish(Comparison(prediction=prediction), model, built, source, initializer, format, pairs_out, out)


def measure(
    model: Model,
    /,
    *,
    source: ModelSource | None = None,
    draws: Annotated[Whole, Parameter(help="Draws of the weights; 0 runs the weights that the model has.")] = 8,
    initializer: Law = "present",
    format: Format = "table",
    pairs_out: PairsOut = None,
    out: Page = None,
) -> None:
    """Measure angles and norms of pairs after every layer: run the model, with the prediction beside it."""
    from initscope import measure, predict
    from initscope.report import Comparison

    _check_files(pairs_out, out)
    source = source or ModelSource()
    built = load_sources(model, source)
    law = named_initializer(initializer)
    # Mirrored units are not independent: they have no prediction, and are measured alone.
    with prints_to_stderr():
        prediction = None if initializer == "looks-linear" else predict(built.model, built.x, built.y, law)
        measurement = measure(
            built.model, built.x, built.y, initializer=law, draws=draws, seed=source.seed, progress=progress_bar(draws)
        )
    _finish(Comparison(prediction, measurement), model, built, source, initializer, format, pairs_out, out)


def _check_runs(built: Sources) -> None:
    """Refuse inputs that the model fails on: a layer they do not fit looks to theory like one without a rule."""
    from initscope._untouched import leaves_no_trace
    from initscope.tracing import bind

    inputs = bind(built.model, built.x[:2])
    with leaves_no_trace(built.model):
        try:
            built.model(*inputs.args)
        except Exception as error:
            raise inputs.refused(error) from error


def _check_files(pairs_out: Path | None, out: Path | None) -> None:
    check_suffix(pairs_out, "--pairs-out", (".json", ".csv"))
    check_suffix(out, "--out", (".html", ".htm"))


def _finish(
    comparison: Comparison,
    model: str,
    built: Sources,
    source: ModelSource,
    initializer: str,
    format: Format,
    pairs_out: Path | None,
    out: Path | None,
) -> None:
    if pairs_out is not None:
        write_pairs(pairs_out, comparison)
    gaussian = source.data is None and source.input_shape is not None
    facts = {
        "model": model,
        "weights": source.weights,
        "law of the weights": initializer,
        "data": "independent Gaussian inputs" if gaussian else source.data or DEFAULT_DATA,
        "shape of an input": " × ".join(map(str, built.x.shape[1:])),
        "values": source.normalize,
    }
    show(comparison, format, out=out, facts=facts, images=(built.x, built.y))
