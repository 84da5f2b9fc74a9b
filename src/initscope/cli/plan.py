"""``initscope plan``: how wide, how deep, how many filters, dimensions and bits; ``plan check`` draws it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import App, Parameter

from initscope.cli._options import Seed, Whole
from initscope.cli._output import Format, emit, say
from initscope.cli._sources import DataSource, load_pairs
from initscope.plan import planners, simulation
from initscope.plan.planners import Event, Quantity
from initscope.plan.results import Plan

__all__ = ["app"]

app = App(name="plan", help="How wide, how deep, how many filters, dimensions and bits: bounds and exact answers.")
checks = App(name="check", help="Draw what a planner answers, many times, and count the failures beside the promise.")
app.command(checks)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Aim:
    """What every planner asks."""

    eps: float = 0.1
    """Distortion, between 0 and 1."""
    delta: float = 0.05
    """Probability of failure."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Trials:
    """Options of plan check."""

    answer: str | None = None
    """Which answer to draw, such as paper; default: the planner's best."""
    trials: Whole = 2000
    """Networks, layers or codes to draw."""
    check_seed: Seed = 0
    """Seed of the draws."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WidthOptions(Aim):
    """Options of plan width."""

    depth: Whole = 1
    """Number of layers."""
    samples: Whole = 1
    """Number of inputs that must all be kept."""
    event: Event = "last-layer"
    """Which layers must stay in the band."""
    quantity: Quantity = "activations"
    """Norms of activations, or of weight gradients."""
    per_layer: bool = True
    """Band (1 ± eps)^layer as in the paper, or with --no-per-layer 1 ± eps for all layers."""

    def plan(self) -> Plan:
        """Run the planner."""
        return planners.width(**vars(self))


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DepthOptions(Aim):
    """Options of plan depth."""

    width: Whole
    """Width of every layer."""
    samples: Whole = 1
    """Number of inputs that must all be kept."""
    event: Event = "last-layer"
    """Which layers must stay within 1 ± eps."""

    def plan(self) -> Plan:
        """Run the planner."""
        return planners.depth(**vars(self))


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SubspaceOptions(Aim):
    """Options of plan subspace."""

    dim: Whole
    """Dimension of the subspace."""
    squared: bool = True
    """Squared norms, or with --no-squared norms."""
    ambient: Whole | None = None
    """Dimension of the space around the subspace (only checked)."""
    depth: Whole = 1
    """Number of layers."""

    def plan(self) -> Plan:
        """Run the planner."""
        return planners.subspace(**vars(self))


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class BitsOptions(Aim):
    """Options of plan bits."""

    pairs: Whole = 1
    """Number of pairs that must all be kept."""
    angle: float | None = None
    """Angle of the pairs in radians; default: the worst."""
    mean_width: float | None = None
    """Two-sided Gaussian mean width of the set, for the talk's theorem."""

    def plan(self) -> Plan:
        """Run the planner."""
        return planners.bits(**vars(self))


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ProjectionOptions(Aim):
    """Options of plan projection."""

    samples: Whole
    """Number of samples, all of whose distances are kept."""

    def plan(self) -> Plan:
        """Run the planner."""
        return planners.projection(**vars(self))


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class FiltersOptions(Aim):
    """Options of plan filters."""

    kernel_size: Whole = 3
    """Side of the filters."""


def _show(result: Plan, format: Format) -> None:
    emit(result, format, title=f"plan {result.planner}: eps = {result.eps:g}, delta = {result.delta:g}")
    if format == "table":
        for assumption in result.assumptions:
            say(f"assumes: {assumption}")


def _check(result: Plan, options: Trials | None, format: Format, images: tuple[Any, Any] | None = None) -> None:
    options = options or Trials()
    found = simulation.check(
        result, answer=options.answer, trials=options.trials, seed=options.check_seed, images=images
    )
    emit(found, format, title=f"plan check {found.planner}: the answer {found.answer!r}")


@app.command
def width(options: WidthOptions | None = None, *, format: Format = "table") -> None:
    """Width at which a ReLU network keeps the norms of its inputs, or of its gradients."""
    _show((options or WidthOptions()).plan(), format)


@app.command
def depth(options: DepthOptions, *, format: Format = "table") -> None:
    """Depth up to which a ReLU network of a given width keeps the norms of its inputs."""
    _show(options.plan(), format)


@app.command
def subspace(options: SubspaceOptions, *, format: Format = "table") -> None:
    """Width at which ReLU layers keep the norms of a whole subspace at once."""
    _show(options.plan(), format)


@app.command
def bits(options: BitsOptions | None = None, *, format: Format = "table") -> None:
    """Bits of a sign embedding whose Hamming distances keep angles."""
    _show((options or BitsOptions()).plan(), format)


@app.command
def expansivity(
    *,
    inputs: Annotated[Whole, Parameter(name=["--inputs", "-n", "--n"])],
    delta: float = 0.05,
    depth: Whole = 1,
    format: Format = "table",
) -> None:
    """Widths at which random ReLU layers are injective, layer by layer.

    Parameters
    ----------
    inputs
        Inputs n of the first layer.
    delta
        Probability that the network is not injective.
    depth
        Number of layers.
    format
        table, json or csv.
    """
    emit(planners.expansivity(n=inputs, delta=delta, depth=depth), format, title="plan expansivity")


@app.command
def projection(options: ProjectionOptions, *, format: Format = "table") -> None:
    """Dimensions of a random linear layer that keeps all distances."""
    _show(options.plan(), format)


@app.command
def filters(
    options: FiltersOptions | None = None, source: DataSource | None = None, *, format: Format = "table"
) -> None:
    """Filters of a convolutional ReLU layer whose output cosines are near their expectation, on your images."""
    result, _ = _plan_filters(options, source)
    _show(result, format)


def _plan_filters(options: FiltersOptions | None, source: DataSource | None) -> tuple[Plan, tuple[Any, Any]]:
    source = source or DataSource()
    images = load_pairs(source)
    return planners.filters(*images, seed=source.seed, **vars(options or FiltersOptions())), images


@checks.command(name="width")
def check_width(options: WidthOptions | None = None, trials: Trials | None = None, *, format: Format = "table") -> None:
    """Check the answer of plan width."""
    _check((options or WidthOptions()).plan(), trials, format)


@checks.command(name="depth")
def check_depth(options: DepthOptions, trials: Trials | None = None, *, format: Format = "table") -> None:
    """Check the answer of plan depth."""
    _check(options.plan(), trials, format)


@checks.command(name="subspace")
def check_subspace(options: SubspaceOptions, trials: Trials | None = None, *, format: Format = "table") -> None:
    """Check the answer of plan subspace: the extremes found over the subspace."""
    _check(options.plan(), trials, format)


@checks.command(name="bits")
def check_bits(options: BitsOptions | None = None, trials: Trials | None = None, *, format: Format = "table") -> None:
    """Check the answer of plan bits."""
    _check((options or BitsOptions()).plan(), trials, format)


@checks.command(name="projection")
def check_projection(options: ProjectionOptions, trials: Trials | None = None, *, format: Format = "table") -> None:
    """Check the answer of plan projection."""
    _check(options.plan(), trials, format)


@checks.command(name="filters")
def check_filters(
    options: FiltersOptions | None = None,
    source: DataSource | None = None,
    trials: Trials | None = None,
    *,
    format: Format = "table",
) -> None:
    """Check the answer of plan filters on your images."""
    result, images = _plan_filters(options, source)
    _check(result, trials, format, images)
