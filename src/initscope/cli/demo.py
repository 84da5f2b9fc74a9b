"""``initscope demo``: bundled photographs through a deep convolutional network, predicted and measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from initscope.cli._geometry import check_suffix, progress_bar, show
from initscope.cli._options import Seed, Whole
from initscope.cli._output import Format, say
from initscope.cli._sources import ModelSource, Sources, load_sources
from initscope.errors import check_count
from initscope.results import counted

if TYPE_CHECKING:
    from initscope.geometry import Comparison

__all__ = ["demo"]

_DEEPEST = 96
"""Blocks up to which the prediction is continued to find where angles have halved."""
_WIDEST = 4096
"""Filters up to which a layer's weights stay below a gigabyte."""


def demo(
    *,
    out: Annotated[Path, Parameter(help="The page to write.")] = Path("report.html"),
    depth: Annotated[Whole, Parameter(help="Number of layers: each a 3×3 convolution and a ReLU.")] = 12,
    width: Annotated[Whole, Parameter(help="Number of filters of each layer.")] = 96,
    crop: Annotated[Whole, Parameter(help="Side of the photographs' crops in pixels.")] = 32,
    crops: Annotated[Whole, Parameter(help="Number of crops.")] = 20,
    pairs: Annotated[Whole, Parameter(help="Number of pairs of crops.")] = 40,
    draws: Annotated[Whole, Parameter(help="How often the weights are drawn.")] = 8,
    seed: Annotated[Seed, Parameter(help="Seed of everything random.")] = 0,
    figure: Annotated[
        Path | None, Parameter(help="Write the picture of the angles to this .png, .svg or .pdf.")
    ] = None,
    format: Format = "table",
) -> None:
    """Show what a deep CNN does to real photographs: no data, no model needed."""
    from initscope import measure, predict
    from initscope.geometry import Comparison
    from initscope.initializers import He

    check_suffix(out, "--out", (".html", ".htm"))
    check_suffix(figure, "--figure", (".png", ".svg", ".pdf"))
    depth = check_count("depth", depth, most=_DEEPEST, hint="the number of layers")
    width = check_count("width", width, most=_WIDEST, hint="the number of filters of each layer")
    crops = check_count("crops", crops, least=2, hint="a pair needs two crops")
    source = ModelSource(data=f"photos:crop={crop}", limit=crops, pairs=pairs, seed=seed)
    model = f"conv3x3x{width}-relu*{depth}"
    built = load_sources(model, source)
    say(f"predicting and measuring {model}: {counted(pairs, 'pair')}, {counted(draws, 'draw')} of the weights …")
    law = He()
    comparison = Comparison(
        predict(built.model, built.x, built.y, law),
        measure(built.model, built.x, built.y, initializer=law, draws=draws, seed=seed, progress=progress_bar(draws)),
        title=f"Photographs through {counted(depth, 'layer')} of a ReLU network at initialisation",
    )
    facts = {
        "model": f"{model} ({depth} × 3×3 convolution with {width} filters, circular padding, ReLU)",
        "law of the weights": "He: Gaussian, variance 2/fan-in, no bias",
        "data": f"{crops} crops, {crop}×{crop} pixels, of two photographs that ship with scikit-learn",
    }
    advice = _meaning(comparison, built)
    show(comparison, format, out=out, facts=facts, images=(built.x, built.y), advice=advice)
    if figure is not None:
        _save_figure(comparison, figure)


def _meaning(comparison: Comparison, built: Sources) -> str:
    """What it means and what to try, with the numbers that theory gives for it."""
    from initscope import predict
    from initscope.geometry import Comparison
    from initscope.initializers import He, ZeroSum
    from initscope.models.architectures import build

    law = comparison.prediction
    assert law is not None
    halved = Comparison(law).halving_depth()
    if halved is None:
        # Only the law of the weights matters to a prediction, so the continuation may be narrow and cheap to build.
        deep = build(f"conv3x3x8-relu*{_DEEPEST}", tuple(built.x.shape[1:]))
        halved = Comparison(predict(deep, built.x, built.y, He())).halving_depth()
    where = f"; theory puts the depth at which the median angle has halved at {halved}" if halved else ""
    remedy = predict(built.model, built.x, built.y, ZeroSum(compensate=True))
    before, after, plain = (float(angles.mean()) for angles in (remedy.angle[0], remedy.angle[-1], law.angle[-1]))
    assert comparison.measurement is not None
    measured = float(comparison.measurement.angle[-1].mean())
    return f"{_finding(before, plain, measured)}{where}. {_remedy(before, after, plain)}"


def _finding(before: float, theory: float, measured: float) -> str:
    """What happens to the mean angle of a pair, in degrees, as far as theory and the network agree."""
    if max(theory, measured) < before:
        return "Before any training the network already makes different photographs more alike"
    if theory < before:
        return (
            "A wide network makes different photographs more alike before any training; "
            "in one as narrow and shallow as this chance still outweighs it"
        )
    return "This network does not make these crops more alike"


def _remedy(before: float, after: float, plain: float) -> str:
    """Whether filters that sum to zero are worth a try: whether theory says that pairs are further apart with them."""
    change = f"the mean angle from {before:.1f}° to {after:.1f}° instead of {plain:.1f}°"
    if after > plain:
        law = "initscope.initializers.ZeroSum(compensate=True)"
        return f"What to try: filters that sum to zero, {law}; theory says they would take {change}."
    return f"Filters that sum to zero would not help here: theory says they would take {change}."


def _save_figure(comparison: Comparison, path: Path) -> None:
    from matplotlib.figure import Figure

    from initscope._hall.files import atomic_path

    ax = comparison.plot()
    assert isinstance(ax.figure, Figure)
    with atomic_path(path) as temporary:
        ax.figure.savefig(temporary, dpi=160)
    say(f"picture: {path}")
