r"""How far predicted variances behind a head of attention, and of gradients before it, are from measured ones.

[Kedia2024]_ give formulas for one head of tokens with equal cosines, and percentiles of their errors over a grid of
sizes, cosines and score sizes. The same kind of grid, with drawn heads beside their formulas on the same runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from initscope.errors import check_count
from initscope.propagate.draws import factor_of
from initscope.propagate.heads import attention_weights, gradients_through_heads
from initscope.reproductions._figures import Rows
from initscope.reproductions.protocol import Declared, Number, published
from initscope.results import Result, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["REPRODUCTIONS", "Cell", "Errors", "run"]

ID = "attention-error-table"
_PERCENTILES = {"median": 50, "90th percentile": 90, "99th percentile": 99}
_TOGETHER = 4  # sequences whose matrices are alive together
_QUANTITIES = {"variance": "output", "gradient": "gradient"}


Measured = tuple[float, float]
"""A mean and its standard error."""
Normal = Callable[[Tensor, int], Tensor]


def _mean(draws: Sequence[Tensor]) -> Measured:
    """Over draws of the weights and sequences, with the error of the draws: the sequences are given."""
    values = torch.stack(list(draws)).double()
    return float(values.mean()), float((values.var(dim=0).mean() / values.numel()).sqrt())


@dataclass(frozen=True)
class _Setting(Result):
    """Tokens of mean square 1 and equal cosines, weights of deviation σ/√d, gradients with cosines of their own."""

    cosine: float
    scores: float
    gradient_cosine: float
    inputs: int
    head_size: int
    tokens: int

    def alike(self, cosine: float, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """``[..., tokens, channels]`` normal numbers whose tokens have that cosine."""
        *first, tokens, channels = shape
        own = torch.randn((*first, tokens, channels), generator=generator)
        common = torch.randn((*first, 1, channels), generator=generator)
        return math.sqrt(1 - cosine) * own + math.sqrt(cosine) * common

    def gram(self, cosine: float) -> Tensor:
        """Its Gram matrix, ``[1, tokens, tokens]``."""
        one = torch.full((self.tokens, self.tokens), cosine, dtype=torch.float64)
        return one.fill_diagonal_(1.0)[None]

    def measured(self, x: Tensor, draws: int, generator: torch.Generator) -> tuple[Measured, Measured]:
        """Mean squares of the output and of the input's gradient, over draws of the weights."""
        scales = torch.tensor([self.scores, self.scores, 1.0])[:, None, None] / math.sqrt(self.inputs)
        outputs, gradients = list[Tensor](), list[Tensor]()
        for _ in range(draws):
            matrices = scales * torch.randn((3, self.inputs, self.head_size), generator=generator)
            pieces = [self._run(piece.detach(), matrices, generator) for piece in torch.split(x, _TOGETHER)]
            output, gradient = (torch.cat(each) for each in zip(*pieces, strict=True))
            outputs.append(output)
            gradients.append(gradient)
        return _mean(outputs), _mean(gradients)

    def _run(self, x: Tensor, matrices: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """One head on some sequences, and backward: mean squares of each."""
        x.requires_grad_()
        q, k, v = (x @ one for one in matrices)
        out = attention_weights(q, k) @ v
        delta = self.alike(self.gradient_cosine, tuple(out.shape), generator)
        (back,) = torch.autograd.grad((out * delta).sum(), x)
        return out.detach().square().mean(dim=(1, 2)), back.square().mean(dim=(1, 2))

    def ours(self, x: Tensor, generator: torch.Generator) -> tuple[float, float]:
        """By heads drawn from the sequences' Gram matrices, one for each.

        What attention reads differs from sequence to sequence, and all are predicted; gradients behind it do not, and
        a few of them tell its weights.
        """
        output = math.fsum(self._attended(one, generator) for one in torch.split(x, _TOGETHER)) / len(x)
        return output, self._gradient(x[:_TOGETHER], generator)

    def _heads(self, x: Tensor, generator: torch.Generator) -> tuple[Tensor, list[Tensor], Normal]:
        """The Gram matrices of sequences, queries and keys that have them, and what else is drawn from such."""
        values = x.double() @ x.double().mT / self.inputs
        root = factor_of(values)

        def normal(root: Tensor, count: int) -> Tensor:
            return root @ torch.randn((*root.shape[:-1], count), generator=generator, dtype=root.dtype)

        return values, [(self.scores * normal(root, self.head_size)[:, None]).float() for _ in range(2)], normal

    def _attended(self, x: Tensor, generator: torch.Generator) -> float:
        """The sum over sequences of the mean square behind attention."""
        values, drawn, _ = self._heads(x, generator)
        weights = attention_weights(*drawn)[:, 0]
        return float((weights @ values.float() * weights).sum()) / self.tokens

    def _gradient(self, x: Tensor, generator: torch.Generator) -> float:
        """The mean square of gradients before attention."""
        values, drawn, normal = self._heads(x, generator)
        drawn = [one.requires_grad_() for one in drawn]
        delta = (self.gram(self.gradient_cosine) * self.head_size).expand_as(values)
        back, by_drawn = gradients_through_heads(
            [attention_weights(*drawn)], drawn, delta, values, self.head_size, normal
        )
        squares = sum(float(one.double().square().sum()) for pair in by_drawn for one in pair) / len(by_drawn)
        gradient = float(back.diagonal(dim1=-2, dim2=-1).sum()) + self.scores**2 * squares
        return gradient / (self.inputs * self.tokens * len(x))

    def theirs(self) -> tuple[float, float]:
        """The formulas of [Kedia2024]_ for a head without dropout."""
        rho, tokens, size = self.cosine, self.tokens, self.scores**4 / self.inputs
        spread = math.exp((1 - rho) * self.scores**4)
        inner = (1 - rho) ** 2 * (tokens - 1) * size + spread * (4 * (1 - rho) ** 2 * size + 1 - rho)
        gradient = self.head_size / self.inputs * (1 + (tokens - 1) * self.gradient_cosine) / tokens
        return inner / tokens + rho, gradient


@dataclass(frozen=True)
class Cell(_Setting):
    """One setting, and what was measured and predicted there: variance of the output, and of the input's gradient."""

    output: float
    output_se: float
    output_ours: float
    output_theirs: float
    gradient: float
    gradient_se: float
    gradient_ours: float
    gradient_theirs: float

    def scatter(self, quantity: str) -> float:
        """The standard error of what was measured, over that."""
        return float(getattr(self, f"{quantity}_se")) / float(getattr(self, quantity))

    def error(self, quantity: str, whose: str) -> float:
        """|measured - predicted| over measured."""
        measured = float(getattr(self, quantity))
        return abs(measured - float(getattr(self, f"{quantity}_{whose}"))) / measured


@dataclass(frozen=True)
class Errors(Rows):
    """All cells."""

    rows: tuple[Cell, ...]

    def percentiles(self, quantity: str, whose: str) -> dict[str, float]:
        """Errors in per cent, by the name of the percentile."""
        errors = [100 * row.error(quantity, whose) for row in self.rows]
        return {name: float(np.percentile(errors, share)) for name, share in _PERCENTILES.items()}

    def scatter(self, quantity: str) -> float:
        """Root mean square of the standard errors of what was measured, in per cent."""
        return 100 * math.sqrt(sum(row.scatter(quantity) ** 2 for row in self.rows) / len(self.rows))

    def left(self, quantity: str) -> float:
        """Root mean square of our errors without what the runs scatter, in per cent; 0 where they scatter as much."""
        square = sum((100 * row.error(quantity, "ours")) ** 2 for row in self.rows) / len(self.rows)
        return math.sqrt(max(0.0, square - self.scatter(quantity) ** 2))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Sorted errors: ours and the formulas', with the published percentiles."""
        ax = make_axes(ax, figsize=(6.4, 4.2))
        share = 100 * (np.arange(len(self.rows)) + 0.5) / len(self.rows)
        told = published(ID) or {}
        for index, (name, quantity) in enumerate(_QUANTITIES.items()):
            for whose, style in (("ours", "-"), ("theirs", "--")):
                errors = sorted(100 * row.error(quantity, whose) for row in self.rows)
                title = "drawn heads" if whose == "ours" else "their formula"
                ax.plot(share, errors, style, color=f"C{index}", label=f"{name}, {title}")
            heights = [told[f"{name}, {place}"] for place in _PERCENTILES]
            ax.plot(list(_PERCENTILES.values()), heights, "o", color=f"C{index}", label=f"{name}, published")
        ax.set(xlabel="share of the settings (%)", ylabel="error (%)", yscale="log")
        ax.legend(fontsize="small")
        return ax


def run(
    cells: int = 200,
    *,
    cosines: Sequence[float] = (0.0, 1 / 3, 2 / 3),
    scores: Sequence[float] = (0.1, 0.245, 0.6),
    inputs: Sequence[int] = (100, 316, 1000),
    heads: Sequence[int] = (32, 64, 128, 256),
    tokens: Sequence[int] = (300, 548, 1000),
    numbers: int = 10_000,
    batch: int = 32,
    seed: int = 0,
) -> Errors:
    """Errors of predicted variances at ``cells`` settings, chosen at random from the grid.

    Sizes, cosines and score sizes are those of [Kedia2024]_; there is no dropout, which is off in predictions. Weights
    are drawn anew on the same ``batch`` sequences until mean squares rest on ``numbers`` channels of sequences (theirs
    on one draw), which leaves a scatter of some √(2/numbers), 1.4 %, in what is measured. Their formulas know the
    cosine of the tokens, drawn heads the Gram matrix of each sequence, as predictions do.
    """
    cells, numbers, batch = (
        check_count(name, value) for name, value in (("cells", cells), ("numbers", numbers), ("batch", batch))
    )
    grid = [_Setting(*one) for one in product(cosines, scores, cosines, inputs, heads, tokens)]
    order = torch.randperm(len(grid), generator=torch.Generator().manual_seed(seed))[:cells].tolist()
    rows = []
    for index in order:
        setting = grid[index]
        generator = torch.Generator().manual_seed(1 + seed + index)
        x = setting.alike(setting.cosine, (batch, setting.tokens, setting.inputs), generator)
        draws = max(2, math.ceil(numbers / (batch * setting.head_size)))
        three = setting.measured(x, draws, generator), setting.ours(x, generator), setting.theirs()
        found = [number for seen, *told in zip(*three, strict=True) for number in (*seen, *told)]
        rows.append(Cell(*vars(setting).values(), *found))
    return Errors(tuple(rows))


def _numbers(found: Errors) -> dict[str, Number]:
    numbers = {}
    for whose, suffix in (("ours", ""), ("theirs", ", their formula on these runs")):
        for name, quantity in _QUANTITIES.items():
            for place, error in found.percentiles(quantity, whose).items():
                numbers[f"{name}, {place}{suffix}"] = Number(error)
    for name, quantity in _QUANTITIES.items():
        numbers[f"{name}, standard error of what was measured"] = Number(found.scatter(quantity))
        numbers[f"{name}, left without it"] = Number(found.left(quantity))
    return numbers


def _holds(found: Errors) -> bool:
    """Ahead of every published percentile."""
    numbers, told = _numbers(found), published(ID) or {}
    return all(numbers[name].value < value for name, value in told.items())


REPRODUCTIONS = (
    Declared(
        id=ID,
        source="Kedia et al. 2024, errors of the moments of single-head attention (their simulations, 'SHA')",
        statement="Predicted variances behind attention, and of gradients before it, are within a few per cent.",
        produce=run,
        numbers=_numbers,
        holds=_holds,
        small={"cells": 12, "inputs": (100, 316), "heads": (32, 64), "tokens": (64, 100), "batch": 64},
        incomparable="published are errors of another theory, to be undercut; grid and runs are of the same kind",
    ),
)
