"""Figure 2 of [ArpitBengio2019]_: how tight the bounds of lemmas 2 and 5 are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch

from initscope.initializers import He
from initscope.reproductions._figures import panels
from initscope.reproductions._networks import input_rows, make_layers
from initscope.reproductions.protocol import Declared, Number
from initscope.results import Result, line_color, make_axes
from initscope.theory.norms import relu_norm_bound_eps, relu_norm_eps

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["REPRODUCTIONS", "BoundTightness", "run"]


@dataclass(frozen=True)
class BoundTightness(Result):
    """Distortions by width, forward (lemma 2) and backward (lemma 5).

    ``*_mean`` is the mean of |1 - ratio of norms|, which the paper plots. ``*_quantile`` is the 1-δ quantile of
    |1 - squared ratio|, which the lemmas bound. ``lemma`` and ``exact`` are its bound and its exact value.
    """

    delta: float
    widths: tuple[int, ...]
    lemma: tuple[float, ...]
    exact: tuple[float, ...]
    forward_mean: tuple[float, ...]
    forward_quantile: tuple[float, ...]
    backward_mean: tuple[float, ...]
    backward_quantile: tuple[float, ...]

    def table(self) -> list[dict[str, Any]]:
        """Return one row per width."""
        columns = {name: values for name, values in self.to_dict().items() if isinstance(values, list)}
        return [dict(zip(columns, row)) for row in zip(*columns.values())]

    def plot(self, ax: Axes | None = None, *, direction: Literal["forward", "backward"] = "forward") -> Axes:
        """Plot the four curves of one direction."""
        ax = make_axes(ax)
        mean, quantile = (getattr(self, f"{direction}_{name}") for name in ("mean", "quantile"))
        percent = f"{100 * (1 - self.delta):g} %"
        ax.plot(self.widths, self.lemma, label=f"lemma {2 if direction == 'forward' else 5}", color=line_color(3))
        ax.plot(self.widths, self.exact, label=f"exact {percent} quantile, squared norm", color=line_color(0))
        ax.plot(
            self.widths,
            quantile,
            "o",
            label=f"measured {percent} quantile, squared norm",
            color=line_color(0),
            fillstyle="none",
        )
        ax.plot(self.widths, mean, "s--", label="measured mean, norm (as in the paper)", color=line_color(7))
        ax.set_xlabel("width")
        ax.set_ylabel("distortion")
        ax.set_ylim(bottom=0)
        ax.legend(fontsize="small")
        return ax

    def figure(self) -> Figure:
        """Return both panels of the published figure."""
        return panels(lambda ax: self.plot(ax, direction="forward"), lambda ax: self.plot(ax, direction="backward"))


def run(
    data: Any = None,
    *,
    widths: Sequence[int] = tuple(range(500, 4001, 500)),
    delta: float = 0.05,
    samples: int = 2000,
    inputs: int = 500,
    classes: int = 20,
    seed: int = 0,
) -> BoundTightness:
    """Compare bounds and measured distortions of one hidden layer per width.

    Source: [ArpitBengio2019]_ figure 2 and section 4.2.

    The backward pass multiplies the error at the softmax by weights of variance 2/width and the mask of the layer, as
    in lemma 5. The source finds that the bound is loose and becomes tighter as the distortion decreases.
    """
    generator = torch.Generator().manual_seed(seed)
    data = input_rows(data, samples, inputs, generator)
    samples, inputs = data.shape
    labels = torch.randint(classes, (samples,), generator=generator)
    columns: dict[str, list[float]] = {
        name: [] for name in ("forward_mean", "forward_quantile", "backward_mean", "backward_quantile")
    }
    for width in widths:
        layer, head = make_layers([inputs, width, classes])
        He(mode="fan_out").fill_(layer, generator=generator)
        He(mode="fan_in").fill_(head, generator=generator)
        forward, backward = _one_layer(layer.weight, head.weight, data, labels)
        for name, ratio in (("forward", forward), ("backward", backward)):
            columns[f"{name}_mean"].append(float((1 - ratio).abs().mean()))
            columns[f"{name}_quantile"].append(float((1 - ratio**2).abs().quantile(1 - delta)))
    return BoundTightness(
        delta=delta,
        widths=tuple(widths),
        lemma=tuple(relu_norm_bound_eps(width, delta) for width in widths),
        exact=tuple(relu_norm_eps(width, delta) for width in widths),
        **{name: tuple(values) for name, values in columns.items()},
    )


@torch.no_grad()
def _one_layer(
    layer: torch.Tensor, head: torch.Tensor, data: torch.Tensor, labels: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ratios of norms for every sample: activation / input, and error at the layer / error at the softmax."""
    hidden = (data @ layer.T).relu()
    error = torch.softmax(hidden @ head.T, dim=1)
    error[torch.arange(len(labels)), labels] -= 1
    back = (error @ head) * (hidden > 0)
    return hidden.norm(dim=1) / data.norm(dim=1), back.norm(dim=1) / error.norm(dim=1)


def _looseness(result: BoundTightness) -> dict[str, Number]:
    """Return the ratio of the bound and the exact distortion at the smallest and the largest width."""
    ends = {result.widths[index]: result.lemma[index] / result.exact[index] for index in (0, -1)}
    return {f"lemma / exact at width {width}": Number(ratio) for width, ratio in ends.items()}


def _holds(result: BoundTightness) -> bool:
    """Return whether the lemmas bound both measured quantiles, are loose, and become tighter with the width."""
    measured = (result.forward_quantile, result.backward_quantile)
    bounded = all(quantile < bound for values in measured for quantile, bound in zip(values, result.lemma))
    looseness = [number.value for number in _looseness(result).values()]
    return bounded and min(looseness) > 1 and looseness[0] > looseness[-1]


REPRODUCTIONS = (
    Declared(
        id="norms-figure-2",
        source="Arpit, Bengio 2019, figure 2",
        statement="The bounds of lemmas 2 and 5 hold and are loose; they become tighter as the distortion decreases.",
        produce=run,
        numbers=_looseness,
        holds=_holds,
        small={"widths": (200, 800), "samples": 500, "inputs": 100},
        data="data",
    ),
)
