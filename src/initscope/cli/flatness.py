"""``initscope flatness``: bounds on how one random layer changes cosines of images, and a list of monochrome images."""

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
    outliers: Annotated[bool, Parameter(help="List the nearly monochrome images, the purest first.")] = False,
    below: Annotated[
        float | None, Parameter(help="With --outliers: list images with a gray share below this; default: 2/3.")
    ] = None,
    format: Format = "table",
) -> None:
    """Bound the change of cosines by one layer from the flatness of image patches, or list monochrome images.

    The bounds hold for ReLU, Gaussian filters of He scale, and circular convolution with stride 1.
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
    outlying = monochromatic_outliers(data.images, below=below, names=names)
    emit(outlying, format, title=f"{data.name}: nearly monochrome images")
    say(
        f"{len(outlying.outliers)} of {outlying.images} images have less than "
        f"{outlying.below:.3g} of their energy in gray"
    )
