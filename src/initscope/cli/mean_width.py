"""``initscope mean-width``: Gaussian mean width of a data set, and after each layer of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cyclopts import App

from initscope.cli._help import WORK, examples
from initscope.cli._options import Whole
from initscope.cli._output import Format, ask_of, emit, few_rows, print_table, say, user_code
from initscope.cli._sources import BlockOptions, ModelSource, build_model, load_blocks, load_data

if TYPE_CHECKING:
    from initscope.measurement import LayerWidths

__all__ = ["app"]

app = App(
    name="mean-width",
    help="Estimate the Gaussian mean width and intrinsic dimension of data, also after each layer of a model.",
    help_epilogue=examples("mean-width"),
    group_parameters=WORK,
)


@app.default
def mean_width(
    model: str | None = None,
    source: ModelSource | None = None,
    *,
    draws: Whole = 128,
    blocks: BlockOptions | None = None,
    format: Format = "table",
) -> None:
    """Estimate the mean width of a data set; with MODEL also after every layer of it.

    Parameters
    ----------
    model
        package.module:factory, file.py:factory or an architecture such as "dense1000-relu*4"; none: the data only.
    draws
        Random directions; the standard error falls with their root.
    format
        table, json or csv.
    """
    import initscope

    source = source or ModelSource()
    if blocks is not None and blocks.asked:
        _of_blocks(model, source, blocks, draws, format)
        return
    data = load_data(source)
    if model is None:
        emit(initscope.mean_width(data.images, draws=draws, seed=source.seed), format, title=f"Mean width, {data.name}")
    else:
        from initscope.measurement import layer_widths

        with user_code():
            built = build_model(model, source, data.shape)
            widths = layer_widths(built, data.images, draws=draws, seed=source.seed)
        _show(widths, format, data.name)
    say("A sample is smaller than the set it comes from; the gain of the last doubling is what half of it would miss.")


def _of_blocks(model: str | None, source: ModelSource, options: BlockOptions, draws: int, format: Format) -> None:
    """Compute the mean width of data larger than memory, block by block."""
    from initscope.distributed import layer_widths_of_blocks, mean_width_of_blocks, named_model

    parts = load_blocks(source, options)
    common: dict[str, Any] = {"draws": draws, "seed": source.seed, "dask": options.dask}
    if model is None:
        emit(mean_width_of_blocks(parts, **common), format, title=f"Mean width, {parts.name}")
        return
    with user_code():
        named = named_model(model, source.weights, parts.shape, source.seed)
        widths_by_layer = layer_widths_of_blocks(named, parts, **common)
    ask_of(model=model, weights=source.weights)
    _show(widths_by_layer, format, parts.name)


def _show(widths: LayerWidths, format: Format, data: str) -> None:
    """Every layer's width, for people with the kind next to its name: module 11 (Linear)."""
    from initscope.geometry import Row

    if format != "table":
        emit(widths, format)
        return
    rows = [row | {"layer": Row(row["layer"], row.pop("kind"), "measured").title} for row in widths.table()]
    print_table(few_rows(rows), title=f"Mean width after every layer, {data}")
