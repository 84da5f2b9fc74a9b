"""``initscope flatness``: what one random layer can change in the cosines of your images, and images of one colour."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from initscope.cli._options import Whole
from initscope.cli._output import Format, emit, say
from initscope.cli._sources import DEFAULT_DATA, DataSource, load_data
from initscope.errors import InputError

__all__ = ["flatness"]


def flatness(
    source: DataSource | None = None,
    *,
    kernel_size: Annotated[Whole, Parameter(help="Side of the filter.")] = 3,
    outliers: Annotated[bool, Parameter(help="List the images of nearly one colour, the purest first.")] = False,
    below: Annotated[
        float | None, Parameter(help="With --outliers: the share of grey under which an image counts; default: 2/3.")
    ] = None,
    format: Format = "table",
) -> None:
    """Tell how flat the patches of your images are, how far one layer can move their cosines, or which are one colour.

    The bounds hold for ReLU, Gaussian filters of He scale, cyclic convolution with stride 1.
    """
    from initscope.data import file_names
    from initscope.theory.images import data_flatness, monochromatic_outliers

    source = source or DataSource()
    data = load_data(source)
    if len(data.shape) < 2:
        raise InputError(f"{data.name} holds vectors, which have no patches; give images, such as photos")
    if not outliers:
        emit(
            data_flatness(data.images, kernel_size=kernel_size),
            format,
            title=f"{data.name}: {kernel_size}×{kernel_size}",
        )
        return
    spec = source.data or DEFAULT_DATA
    folder = data.name == spec and Path(spec).is_dir()
    names = file_names(spec, limit=source.limit) if folder else ()
    found = monochromatic_outliers(data.images, below=below, names=names)
    emit(found, format, title=f"{data.name}: images of nearly one colour")
    say(f"{len(found.outliers)} of {found.images} images have less than {found.below:.3g} of their energy in grey")
