"""``initscope demo``: bundled photographs through a deep convolutional network, predicted and measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from initscope.cli._comparison import check_suffix, save_figure, show
from initscope.cli._help import OUTPUT
from initscope.cli._options import Seed, Whole
from initscope.cli._output import Format, ask_of, say
from initscope.results import counted

__all__ = ["demo"]


def demo(
    *,
    out: Annotated[Path, Parameter(group=OUTPUT, help="HTML file to write.")] = Path("report.html"),
    depth: Annotated[Whole, Parameter(help="Number of layers: each a 3×3 convolution and a ReLU.")] = 12,
    width: Annotated[Whole, Parameter(help="Number of filters of each layer.")] = 96,
    crop: Annotated[Whole, Parameter(help="Side of the crops in pixels.")] = 32,
    crops: Annotated[Whole, Parameter(help="Number of crops.")] = 20,
    pairs: Annotated[Whole, Parameter(help="Number of pairs of crops.")] = 40,
    draws: Annotated[Whole, Parameter(help="Number of draws of the weights.")] = 8,
    seed: Annotated[Seed, Parameter(help="Seed of everything random.")] = 0,
    finite_width: Annotated[
        bool, Parameter(negative="", help="Also predict the mean and the spread at this width; takes a minute.")
    ] = False,
    figure: Annotated[
        Path | None, Parameter(group=OUTPUT, help="Write the figure of the angles to this .png, .svg or .pdf file.")
    ] = None,
    format: Format = "table",
) -> None:
    """Show the effect of a deep CNN on photographs at initialization; needs no data and no model."""
    from initscope.reproductions.photographs import photographs

    check_suffix(out, "--out", (".html", ".htm"))
    check_suffix(figure, "--figure", (".png", ".svg", ".pdf"))
    asked = f"{counted(depth, 'layer')}, {counted(pairs, 'pair')}, {counted(draws, 'draw')} of the weights"
    say(f"predicting and measuring photographs: {asked} …")
    ask_of(model=f"conv3x3x{width}-relu*{depth}", data=f"photos:crop={crop}", seed=seed)
    shown = photographs(
        depth=depth,
        width=width,
        crop=crop,
        crops=crops,
        pairs=pairs,
        draws=draws,
        seed=seed,
        finite_width=finite_width,
    )
    if figure is not None:
        save_figure(shown.comparison.plot(), figure)
    show(
        shown.comparison,
        format,
        out=out,
        facts=shown.facts,
        images=(shown.x, shown.y),
        advice=shown.meaning,
        meaning=shown.meaning,
        step=f"open {out}, then run initscope inspect MODEL on a network of your own.",
        how_to_see_all="the page has them all",
    )
