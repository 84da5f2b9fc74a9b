"""``initscope coordinates``: how activation scales grow with the width, predicted and after optimizer steps."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from initscope.cli._comparison import check_suffix
from initscope.cli._configurations import change, is_configuration
from initscope.cli._help import OUTPUT
from initscope.cli._options import Seed, Whole
from initscope.cli._output import Format, ask_of, emit, few_rows, print_table, say, user_code
from initscope.errors import InputError

if TYPE_CHECKING:
    import torch

    from initscope.scaling import CoordinateCheck, DepthCheck

__all__ = ["coordinates"]

_MOST_WEIGHTS = 50_000_000  # of a copy that is trained for a few steps


def coordinates(
    model: Annotated[str, Parameter(help="file.py:factory or package.module:factory, called with a width.")],
    /,
    *,
    widths: Annotated[str, Parameter(help="Comma-separated widths, or factors for a configuration: 64,128,256,512.")],
    depths: Annotated[
        str | None,
        Parameter(help="Also depths, passed to the factory as depth=, or factors for a configuration: 2,4,8."),
    ] = None,
    measured: Annotated[
        bool,
        Parameter(
            negative="", help="For a configuration: also build models at these widths and train them for the steps."
        ),
    ] = False,
    set: Annotated[
        tuple[str, ...],
        Parameter(consume_multiple=False, help="For a configuration: NAME=VALUE to change an entry."),
    ] = (),
    data: Annotated[str | None, Parameter(help="text, text:FILE, or an array file; default: text.")] = None,
    input_shape: Annotated[str | None, Parameter(help="Use Gaussian inputs of this shape instead of data.")] = None,
    tokens: Annotated[Whole, Parameter(help="Number of tokens per sequence of text.")] = 32,
    samples: Annotated[Whole, Parameter(help="Number of samples in the batch.")] = 16,
    steps: Annotated[Whole, Parameter(help="Number of optimizer steps; 0 checks only the initialization.")] = 5,
    optimizer: Annotated[
        str | None, Parameter(help="file.py:function, called with the model; default: Adam in μP.")
    ] = None,
    tolerance: Annotated[float, Parameter(help="Largest exponent, in absolute value, that passes.")] = 0.2,
    seed: Annotated[Seed, Parameter(help="Seed of everything random.")] = 0,
    format: Format = "table",
    out: Annotated[Path | None, Parameter(group=OUTPUT, help="Write a figure to this .png, .svg or .pdf file.")] = None,
) -> None:
    """Coordinate check: exponents of activation scales against the width, predicted and after optimizer steps.

    Exits with code 1 if scales depend on the width.
    """
    from initscope.scaling import coordinates, depth_coordinates

    check_suffix(out, "--out", (".png", ".svg", ".pdf"))
    sizes = _numbers(widths)
    ask_of(model=model, data=None if input_shape else data or "text", seed=seed)
    if is_configuration(model):
        if out is not None and not measured:
            raise InputError(f"--out {out}: the figure shows measured models of a configuration; add --measured")
        changes = dict(map(change, set))
        if format == "table" or not measured:
            _of_configuration(model, changes, sizes, depths, tokens, format)
        if measured:
            x = _inputs(data, input_shape, tokens, samples, seed)
            result = _copies(model, changes, sizes, x, steps=steps, tolerance=tolerance, seed=seed)
            _show_checks([(result, "width of drawn copies")], format, out)
        return
    if set or measured:
        raise InputError(f"--set and --measured are for configurations; {model} is a factory")
    with user_code():
        factory = _callable(model)
        made = None if optimizer is None else _callable(optimizer)
        x = _inputs(data, input_shape, tokens, samples, seed)
        options: dict[str, Any] = {"steps": steps, "optimizer": made, "tolerance": tolerance, "seed": seed}
        whole, blocks = _whole(sizes, "--widths"), _whole(_numbers(depths or "1", "--depths"), "--depths")
        checks: list[tuple[CoordinateCheck | DepthCheck, str]] = []
        if depths is not None:
            deeper = depth_coordinates(factory, x, width=min(whole), depths=blocks, **options)
            checks.append((deeper, "depth"))
            factory = functools.partial(factory, depth=min(blocks))
        if depths is None or format == "table":  # programs get one of them
            checks.insert(0, (coordinates(factory, x, widths=whole, **options), "width"))
    _show_checks(checks, format, out)


_WORDS = {
    "predicted": "at initialization, by theory",
    "initial": "measured before the first step",
    "final": "after the last step, where 0 is right",
    "±": "standard error: of predictions over the models, of measurements of the fit",
}


def _show_checks(checks: Sequence[tuple[CoordinateCheck | DepthCheck, str]], format: Format, out: Path | None) -> None:
    """Print tables and findings of checks and write the figure."""
    from initscope.results import panels

    for check, size in checks:
        if format == "table":
            print_table(
                few_rows(_texts(check)), title=f"exponents of the root mean square against the {size}", words=_WORDS
            )
        else:
            emit(check, format)
        for finding in check.findings or (f"scales do not depend on the {size}",):
            say(finding)
    if out is not None:
        panels(*(check.plot for check, _ in checks)).savefig(out)
        say(f"figure: {out}")
    if not all(check.passes for check, _ in checks):
        raise SystemExit(1)


def _texts(check: CoordinateCheck | DepthCheck) -> list[dict[str, str]]:
    """The rows for people: names with their kinds, exponents with their errors."""
    from initscope.geometry import Row
    from initscope.rendering.table import with_error

    return [
        {
            "layer": Row(row.layer, row.kind, "measured", role=row.role).title,
            "predicted": with_error(row.predicted, row.predicted_se, 2),
            "initial": with_error(row.measured[0], row.errors[0], 2),
            "final": with_error(row.measured[-1], row.errors[-1], 2),
        }
        for row in check.rows
    ]


def _whole(sizes: Sequence[float], option: str) -> list[int]:
    if any(size != int(size) for size in sizes):
        raise InputError(f"{option}: for a factory give whole numbers, not {', '.join(f'{size:g}' for size in sizes)}")
    return [int(size) for size in sizes]


def _numbers(text: str, option: str = "--widths") -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} {text!r}: give numbers joined by commas, such as 64,128,256") from None


def _callable(spec: str) -> Any:
    from initscope.models.loading import load_factory

    return load_factory(spec)


def _inputs(data: str | None, shape: str | None, tokens: int, samples: int, seed: int) -> torch.Tensor:
    import torch

    from initscope._utils.randomness import torch_generator
    from initscope.cli._sources import parse_shape
    from initscope.data import load

    if shape is not None:
        return torch.randn(samples, *parse_shape(shape), generator=torch_generator(seed, "inputs"))
    spec = data or "text"
    result = load(spec, size=tokens if spec.startswith("text") else None, limit=samples)
    return torch.from_numpy(result.images[:samples])


def _of_configuration(
    model: str, changes: dict[str, Any], factors: list[float], depths: str | None, tokens: int, format: Format
) -> None:
    """Print exponents of a configuration at initialization, from theory alone.

    JSON and CSV include those of the depth if requested.
    """
    from initscope.scaling import depth_exponents, read, width_exponents

    built = read(model, **changes)
    deeper = None if depths is None else depth_exponents(built, _numbers(depths, "--depths"), tokens=tokens)
    if deeper is None or format == "table":
        wider = width_exponents(built, factors, tokens=tokens)
        emit(wider, format, title="exponents against the width at initialization, by theory")
        for finding in wider.findings:
            say(finding)
    if deeper is not None:
        emit(deeper, format, title="exponents against the depth at initialization, by theory")
        for finding in deeper.findings:
            say(finding)


def _copies(
    model: str, changes: dict[str, Any], factors: list[float], x: torch.Tensor, **options: Any
) -> CoordinateCheck:
    """The coordinate check of copies of the model at these widths, which must be small enough to be trained."""
    from initscope.scaling import coordinates, read, scaled_copies

    largest = read(model, **changes).widened(max(factors))
    if largest.parameters > _MOST_WEIGHTS:
        raise InputError(
            f"--measured: at {max(factors):g} times its width the model has {largest.parameters / 1e6:.0f} million "
            f"weights (bound: {_MOST_WEIGHTS / 1e6:.0f}); give smaller factors, or --set for smaller sizes"
        )
    width, factory = scaled_copies(model, **changes)
    return coordinates(factory, x, widths=[round(width * factor) for factor in factors], **options)
