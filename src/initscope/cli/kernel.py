"""``initscope kernel``: the expected kernel matrix of a model on a data set, written to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from initscope.cli._comparison import check_suffix
from initscope.cli._help import OUTPUT, WORK
from initscope.cli._output import ask_of, json_text, print_sentence, print_table, provenance, say, user_code
from initscope.cli._sources import BlockOptions, ModelSource, build_model, load_blocks, load_data
from initscope.cli.predict_measure import Model
from initscope.errors import InputError
from initscope.results import counted, format_number

__all__ = ["kernel"]

_MOST = 20_000
_ROWS = 512  # default size of a block


def kernel(
    model: Model,
    /,
    *,
    out: Annotated[Path, Parameter(group=OUTPUT, help="File for the matrix, .npy.")],
    source: ModelSource | None = None,
    kind: Annotated[
        Literal["nngp", "ntk"], Parameter(group=WORK, help="Covariances (nngp) or inner products of gradients (ntk).")
    ] = "nngp",
    blocks: BlockOptions | None = None,
    cosines: Annotated[
        bool, Parameter(group=WORK, help="Divide by the diagonal; otherwise print inner products per unit.")
    ] = True,
    format: Annotated[Literal["table", "json"], Parameter(group=OUTPUT, help="Output format.")] = "table",
) -> None:
    """Compute the expected kernel matrix (NNGP or NTK) of a model of infinite width on a data set.

    If the data have labels, the leave-one-out accuracy of a Gaussian process with this kernel is printed as well.
    """
    import numpy as np

    import initscope
    from initscope._utils.disk import check_space
    from initscope._utils.files import atomic_path
    from initscope.embed.network_kernel import left_out_accuracy

    check_suffix(out, "--out", (".npy",))
    source = source or ModelSource()
    if blocks is not None and blocks.asked:
        _show(_in_blocks(model, out, source, blocks, kind, cosines), format, out, cosines)
        return
    data = load_data(source)
    if len(data) > _MOST:
        raise InputError(
            f"{len(data)} images make {len(data) ** 2:.1e} pairs; give --limit, at most {_MOST}, or --rows"
        )
    check_space(out, np.dtype(float).itemsize * len(data) ** 2)
    with user_code():
        built = build_model(model, source, data.shape).eval()
        result, error = initscope.kernel(
            built, data.images, kind=kind, normalize=cosines, seed=source.seed, return_error=True
        )
    with atomic_path(out) as path, path.open("wb") as file:
        np.save(file, result)
    off = result[np.triu_indices(len(result), 1)]
    summary = {
        "images": len(result),
        "kind": kind,
        "least": float(off.min()) if len(off) else None,
        "mean": float(off.mean()) if len(off) else None,
        "largest": float(off.max()) if len(off) else None,
        "largest error": float(error.max()),
    }
    if data.labels is not None and len(set(data.labels.tolist())) > 1:
        summary["accuracy"], summary["noise"] = left_out_accuracy(result, data.labels)
    if format == "json":
        say(f"matrix: {out}")
    _show(summary, format, out, cosines)


def _in_blocks(
    model: str, out: Path, source: ModelSource, options: BlockOptions, kind: Literal["nngp", "ntk"], cosines: bool
) -> dict[str, Any]:
    """Compute the matrix of data larger than memory, block by block, in float32; return the messages for the user."""
    from initscope.distributed import kernel_in_blocks, named_model

    parts = load_blocks(source, options, rows=_ROWS)
    with user_code():
        named = named_model(model, source.weights, parts.shape, source.seed)
        error = kernel_in_blocks(named, parts, out, kind=kind, normalize=cosines, dask=options.dask)
    ask_of(model=model, weights=source.weights)
    say(f"matrix: {out}, {len(parts)}×{len(parts)} in float32")
    return {"images": len(parts), "kind": kind, "largest error": error}


def _show(summary: dict[str, Any], format: Literal["table", "json"], out: Path, cosines: bool) -> None:
    if format == "json":
        print(json_text(provenance() | summary), end="")
        return
    print_sentence(_conclusion(summary, cosines))
    print_table([summary])
    print_sentence(f"Next: numpy.load({str(out)!r}) reads the matrix; row and column k are of input k.")


def _conclusion(summary: dict[str, Any], cosines: bool) -> str:
    """Return a summary of the kernel: how similar inputs are after the network, and how well it classifies."""
    values, kind = "cosines" if cosines else "inner products", summary["kind"].upper()
    text = f"{kind} kernel of {counted(summary['images'], 'input')}"
    if summary.get("mean") is not None:
        low, mean, high = (format_number(summary[name]) for name in ("least", "mean", "largest"))
        text += f": {values} between different inputs are {mean} on average, from {low} to {high}"
    if "accuracy" in summary:
        text += f". A Gaussian process with it classifies {100 * summary['accuracy']:.3g} % of the inputs correctly "
        text += "when each is left out"
    elif "mean" not in summary:
        text += f", {values} in float32; the largest standard error is {summary['largest error']:.2g}"
    return f"{text}."
