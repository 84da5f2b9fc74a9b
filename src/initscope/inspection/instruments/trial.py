"""`Trial`: the results of a few training steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from initscope._utils.palette import line_color
from initscope.inspection.instruments.budget import Cost
from initscope.results import Result, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Trial", "TrialOutcome"]

_EQUAL = 0.05
"""Difference of shares up to which a model counts as no better than a linear function of its inputs."""
TrialOutcome = Literal["learns", "still falling", "flat", "undecided", "diverges", "failed", "not judged"]


@dataclass(frozen=True)
class Trial(Result):
    """The results of a few training steps.

    Shares are (c - loss)/(c - lowest), with c the loss of the best constant prediction and ``lowest`` that of free
    outputs (0 for cross-entropy and squared errors): 0 is no better than a constant, 1 is the best possible.

    Attributes
    ----------
    outcome : str
        ``learns`` (a share of at least 0.5 at the given rate); ``still falling`` when the budget ended;
        ``flat``: the curve is flat below that share; ``undecided``: it looks so, but there was no time for more steps
        or other rates; ``diverges``; ``failed``: an exception was raised, see ``reason``; ``not judged``: there is no
        loss to compare with, or no time for it, see ``reason``.
    losses : tuple of float
        Loss of each step at the given rate.
    constant_loss, lowest_loss : float or None
        Loss of the best constant prediction, and of free outputs.
    use : float or None
        Share at the given rate.
    learn : float or None
        Share at the best rate that was tried.
    plain : float or None
        Share with Adam without options, over all parameters, if no rate of the given optimizer learns.
    still_falling, flattened : bool
        Whether the curve still fell when the budget ended, and whether it became flat too early.
    optimizer, rate, assumed : str, float or None, bool
        The optimizer and its rate; ``assumed``: no optimizer and no rate were given.
    adapts : bool
        Whether steps of the optimizer do not depend on the size of gradients, as those of Adam.
    rates, losses_by_rate : tuple of float
        Learning rates that were tried, in increasing order, and the loss after ``rate_steps`` steps, infinite where it
        diverges. Empty if the given rate learns at once: then no other rate is tried.
    edge : float or None
        Edge of stability from the curvature at initialization, see `stability_edge`.
    suggested_rate : float or None
        The rate with the lowest loss, if it is clearly better than the given one.
    updates : dict
        Size of an update relative to the parameter, ‖Δw‖/‖w‖, by name; about 1e-3 is usual.
    unmoved, frozen, left_out : tuple of str
        Trainable parameters that did not change; those that require no gradient; those that the given optimizer
        does not hold.
    permuted : float or None
        Share with permuted targets, in the same number of steps.
    constant_inputs : float or None
        Share with the first sample as every input: above 0 the model distinguishes samples by their position.
    shuffled_inputs : float or None
        Share of the trained model with permuted inputs: about the same if it does not use them.
    readout : float or None
        Share of a linear function of the inputs.
    held_out : float or None
        Standard deviations by which predictions for held-out samples are better than chance, see `held_out`.
    neighbors : float or None
        The same for the model's answer at the nearest training sample.
    evaluation : float or None
        Share of the trained model in evaluation mode; None if its outputs only have another scale there.
    longer : float or None
        Share after more steps, if a linear function of the inputs leaves much to learn and steps are fast.
    neglected : tuple of int
        Columns of the outputs that the loss hardly depends on, although they are learned with equal weights.
    accuracies : tuple of float or None
        Accuracies of the first and the last step, for classes.
    cost : Cost or None
        The expected cost.
    samples, passes, seconds : int, int, float
        Samples of the batch; forward and backward passes in total; wall time.
    not_done : dict
        Parts that did not run, with the reasons.
    reason : str
        Why it failed or was not judged.
    """

    outcome: TrialOutcome
    losses: tuple[float, ...] = ()
    constant_loss: float | None = None
    lowest_loss: float | None = None
    use: float | None = None
    learn: float | None = None
    plain: float | None = None
    still_falling: bool = False
    flattened: bool = False
    optimizer: str = ""
    rate: float | None = None
    assumed: bool = False
    adapts: bool = False
    rates: tuple[float, ...] = ()
    losses_by_rate: tuple[float, ...] = ()
    rate_steps: int = 0
    edge: float | None = None
    suggested_rate: float | None = None
    updates: dict[str, float] = field(default_factory=dict)
    unmoved: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    permuted: float | None = None
    constant_inputs: float | None = None
    shuffled_inputs: float | None = None
    readout: float | None = None
    held_out: float | None = None
    neighbors: float | None = None
    evaluation: float | None = None
    longer: float | None = None
    neglected: tuple[int, ...] = ()
    accuracies: tuple[float, float] | None = None
    cost: Cost | None = None
    samples: int = 0
    passes: int = 0
    seconds: float = 0.0
    not_done: dict[str, str] = field(default_factory=dict)
    reason: str = ""

    @property
    def slow(self) -> bool:
        """Whether the model learns only after more steps than were planned."""
        return self.outcome == "learns" and self.cost is not None and len(self.losses) > self.cost.more_passes

    @property
    def linear(self) -> bool:
        """Whether more steps get no further than a linear function of the inputs, although much is left to learn."""
        known = self.longer is not None and self.readout is not None
        return known and abs((self.longer or 0.0) - (self.readout or 0.0)) < _EQUAL

    @property
    def late(self) -> bool:
        """Whether the given rate is no better than a constant prediction after the same steps as the other rates."""
        level = self.losses[0] if self.constant_loss is None else self.constant_loss
        return 0 < self.rate_steps <= len(self.losses) and self.losses[self.rate_steps - 1] >= level

    @property
    def prompt(self) -> bool:
        """Whether the model learns within the planned steps."""
        return self.outcome == "learns" and not self.slow

    def table(self) -> list[dict[str, Any]]:
        """Return the loss of each step."""
        return [{"step": step, "loss": loss} for step, loss in enumerate(self.losses)]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the loss against the learning rate or, if only one was tried, against the steps."""
        ax = make_axes(ax)
        if len(self.rates) < 2:
            ax.plot(self.losses, label="loss")
            ax.set_xlabel("step")
        else:
            finite = [(r, loss) for r, loss in zip(self.rates, self.losses_by_rate) if loss < float("inf")]
            ax.plot(*zip(*finite), "o-", label=f"loss after {self.rate_steps} steps")
            ax.set_xscale("log")
            ax.set_xlabel("learning rate")
            top = max((loss for _, loss in finite), default=1.0)
            diverged = [r for r, loss in zip(self.rates, self.losses_by_rate) if not loss < float("inf")]
            if diverged:
                ax.plot(diverged, [top] * len(diverged), "x", color=line_color(3), label="diverges")
            for value, name, color in (
                (self.rate, "given rate", line_color(1)),
                (self.edge, "edge of stability", line_color(3)),
                (self.suggested_rate, "suggested rate", line_color(2)),
            ):
                if value is not None:
                    ax.axvline(value, linestyle="--", color=color, label=f"{name} {value:.2g}")
        if self.constant_loss is not None:
            ax.axhline(self.constant_loss, linestyle=":", color="gray", label="best constant prediction")
        ax.set_ylabel("loss")
        ax.legend()
        return ax
