"""``initscope predict`` and ``initscope measure``: what a model does to pairs of inputs, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from initscope.cli._comparison import check_suffix, show, write_pairs
from initscope.cli._configurations import ConfigurationOptions, is_configuration, show_configuration
from initscope.cli._help import MODEL, OUTPUT, WORK
from initscope.cli._options import Whole
from initscope.cli._output import Format, user_code
from initscope.cli._sources import DEFAULT_DATA, ModelSource, Sources, load_sources
from initscope.data.text import is_text
from initscope.errors import InputError, check_count
from initscope.initializers import INITIALIZERS, named

if TYPE_CHECKING:
    from initscope.geometry import Comparison

__all__ = ["Depth", "InitializerName", "Model", "Page", "check_depth", "measure", "predict"]

Model = Annotated[
    str,
    Parameter(
        group=MODEL,
        help="package.module:factory or file.py:factory, whose code is run; an architecture: 'conv3x3x64-relu*12'; "
        "hf:NAME_OR_CONFIG of transformers or timm:NAME, if installed (weights are initialized, not downloaded).",
    ),
]
if TYPE_CHECKING:
    InitializerName = str
else:  # the names come from a dict, which a type checker cannot read
    InitializerName = Annotated[
        Literal[tuple(INITIALIZERS)],
        Parameter(
            group=WORK, help="Initializer of the weights; present: the distribution of the weights of the model."
        ),
    ]
Depth = Annotated[
    Whole | None,
    Parameter(
        group=OUTPUT, help="Fold the table to module paths of this length; 0: every op; default: blocks, few lines."
    ),
]
Page = Annotated[Path | None, Parameter(group=OUTPUT, help="Write a page with table and figures to this .html file.")]


def check_depth(depth: int | None) -> None:
    """Refuse depths below zero."""
    if depth is not None:
        check_count("depth", depth, least=0, hint="0 prints every step")


@Parameter(name="*", group=WORK)
@dataclass(frozen=True, kw_only=True)
class GeometryOptions:
    """Options of `predict` and `measure` in addition to model and data."""

    initializer: InitializerName = "present"
    depth: Depth = None
    format: Format = "table"
    pairs_out: Annotated[
        Path | None, Parameter(group=OUTPUT, help="Write the numbers of every pair to this .json or .csv file.")
    ] = None
    out: Page = None

    def check(self) -> None:
        """Refuse, before any work is done, file names of other formats, and a depth that there is not."""
        check_depth(self.depth)
        check_suffix(self.pairs_out, "--pairs-out", (".json", ".csv"))
        check_suffix(self.out, "--out", (".html", ".htm"))


def predict(
    model: Model,
    /,
    *,
    source: ModelSource | None = None,
    configuration: ConfigurationOptions | None = None,
    gradients: Annotated[bool, Parameter(group=WORK, help="Also predict the gradients of the weights.")] = True,
    finite_width: Annotated[
        bool,
        Parameter(group=WORK, help="Also predict the spread and the mean of one network of the model's own widths."),
    ] = False,
    options: GeometryOptions | None = None,
) -> None:
    """Predict angles and norms of pairs after every layer from theory, without running the model.

    MODEL may also be a Hugging Face config.json, or hf:LlamaConfig: models of any size then need no weights.
    """
    from initscope import predict
    from initscope.geometry import Comparison

    if is_configuration(model):
        requested = options or GeometryOptions()
        text = None if source is None else source.data
        if source is not None and (replace(source, data=None) != ModelSource() or not (text is None or is_text(text))):
            raise InputError(f"{model} is a configuration: it takes --data text, no other data, weights or shapes")
        show_configuration(model, configuration or ConfigurationOptions(), requested.format, requested.out, text)
        return
    if configuration is not None and configuration != ConfigurationOptions():
        raise InputError(f"--tokens, --set and --compare are for configurations; {model} is a model")
    source, options, built = _load(model, source, options)
    with user_code():
        initializer = named(options.initializer)
        prediction = predict(built.model, built.x, built.y, initializer, gradients=gradients, finite_width=finite_width)
        if any(row.status == "not covered" for row in prediction.rows):
            _check_runs(built)
    _finish(Comparison(prediction=prediction), model, built, source, options)


def measure(
    model: Model,
    /,
    *,
    source: ModelSource | None = None,
    draws: Annotated[
        Whole, Parameter(group=WORK, help="Number of draws of the weights; 0 uses the given weights.")
    ] = 8,
    options: GeometryOptions | None = None,
) -> None:
    """Measure angles and norms of pairs after every layer by running the model, and compare with the prediction."""
    from initscope import measure, predict
    from initscope.geometry import Comparison

    check_count("draws", draws, least=0, hint="0 runs the weights the model has")
    source, options, built = _load(model, source, options)
    initializer = named(options.initializer)
    # Mirrored units are not independent: they have no prediction, and are measured alone.
    with user_code():
        prediction = (
            None if options.initializer == "looks-linear" else predict(built.model, built.x, built.y, initializer)
        )
        measurement = measure(built.model, built.x, built.y, initializer=initializer, draws=draws, seed=source.seed)
    _finish(Comparison(prediction, measurement), model, built, source, options)


def _load(
    model: str, source: ModelSource | None, options: GeometryOptions | None
) -> tuple[ModelSource, GeometryOptions, Sources]:
    """Return the options, or their defaults, with the loaded model and data."""
    source, options = source or ModelSource(), options or GeometryOptions()
    options.check()
    return source, options, load_sources(model, source)


def _check_runs(built: Sources) -> None:
    """Refuse inputs that the model cannot process.

    Theory cannot distinguish a layer that they do not fit from one without a rule.
    """
    from initscope.graph import bind
    from initscope.graph.borrowing import borrowed

    inputs = bind(built.model, built.x[:2])
    with borrowed(built.model):
        try:
            built.model(*inputs.args)
        except Exception as error:
            raise inputs.refused(error) from error


def _finish(comparison: Comparison, model: str, built: Sources, source: ModelSource, options: GeometryOptions) -> None:
    from initscope.rendering.summary import suggestion

    if options.pairs_out is not None:
        write_pairs(options.pairs_out, comparison)
    gaussian = source.data is None and source.input_shape is not None
    facts = {
        "model": model,
        "weights": source.weights,
        "initializer": options.initializer,
        "data": "independent Gaussian inputs" if gaussian else source.data or DEFAULT_DATA,
        "shape of an input": " × ".join(map(str, built.x.shape[1:])),
        "values": source.normalize,
    }
    advice, images = suggestion(comparison, options.initializer), (built.x, built.y)
    show(comparison, options.format, out=options.out, facts=facts, images=images, advice=advice, depth=options.depth)
