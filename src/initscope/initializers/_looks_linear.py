"""Mirrored orthogonal weights: a ReLU network that is linear at initialization and preserves angles at any depth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from initscope.errors import InputError
from initscope.initializers._base import Initializer, WeightDistribution, fill_layers, weight_layers
from initscope.initializers._orthogonal import _haar

if TYPE_CHECKING:
    import torch
    from torch import nn

    from initscope.graph import WeightLayer
    from initscope.initializers._base import AnyModule

__all__ = ["LooksLinear"]


@dataclass(frozen=True)
class LooksLinear(Initializer):
    r"""Orthogonal weights in mirrored pairs of units, so that the network is linear at initialization [Balduzzi2017]_.

    Hidden units come in pairs, unit i of the first half with unit i of the second, that see the same with opposite
    signs. Since relu(u) - relu(-u) = u, the next layer takes differences, and the ReLUs cancel:

    .. math:: W = \begin{pmatrix} V & -V \\ -V & V \end{pmatrix}, \qquad
              W\,\mathrm{relu}\begin{pmatrix} u \\ -u \end{pmatrix} = \begin{pmatrix} Vu \\ -Vu \end{pmatrix}

    Here V is Haar orthogonal and scaled to preserve the mean square per unit, for any widths. Angles, rank and
    gradients are those of a product of orthogonal matrices. They are preserved at any depth, while independent weights
    lose them randomly once the depth is comparable to the width. Filters of hidden layers sum to zero. As soon as
    training moves the two units of a pair apart, the ReLUs take effect.

    - The first layer is (V; -V), the last (V, -V), a layer that is both is V. Which is which is read from the model
      where `torch.fx` can trace it, otherwise from the order of its layers.
    - A hidden width that is odd leaves its last unit without a partner: it has weights in, and none out. A single unit
      is passed on as it is.
    - Convolutions have V in the center tap alone [Xiao2018]_, with stride s in s taps of each axis from there on, so
      that no position is passed over. With groups, each output passes on one input of its group.
    - Exact for chains of layers with ReLU, GELU, SiLU or softplus (σ(u) - σ(-u) = u), average pooling, flattening of
      even channels, norms; ``slope`` makes it so for leaky ReLU. Max-pooling, concatenations and skips that carry an
      activation's output leave it linear in part: measure.

    Units are not independent, so second moments of single layers do not describe these weights: `weight_distribution`
    raises an error. Prediction is not possible; measurement is.

    Parameters
    ----------
    slope
        Slope of the leaky ReLU: the two of a pair differ by (1 + slope) u.
    bias_variance
        Only 0: biases would shift the two of a pair apart.

    Examples
    --------
    >>> import torch
    >>> layers = [layer for _ in range(50) for layer in (torch.nn.Linear(32, 32), torch.nn.ReLU())]
    >>> model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), *layers, torch.nn.Linear(32, 16))
    >>> _ = LooksLinear().fill_(model, generator=torch.Generator().manual_seed(0))
    >>> x = torch.rand(1, 16)
    >>> bool(torch.allclose(model(x).norm(), x.norm()))
    True
    """

    slope: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bias_variance:
            raise InputError(
                f"bias_variance = {self.bias_variance} must be 0: biases shift the two units of a pair apart"
            )
        if not -1 < self.slope < math.inf:
            raise InputError(f"slope = {self.slope} must be above -1 and finite; 0 is ReLU")

    def weight_distribution(self, module: WeightLayer) -> WeightDistribution:
        """Raise an error: the covariance of one layer does not describe mirrored layers."""
        raise InputError(
            "LooksLinear has mirrored units, which are not independent: prediction from second moments would be wrong; "
            "measure it: initscope.measure(model, x, y, initializer=LooksLinear())"
        )

    def fill_(self, module: AnyModule, *, generator: torch.Generator | None = None) -> AnyModule:
        """Draw new weights for every Linear and convolution, in place, each by its position in the model."""
        sides = _sides(module, weight_layers(module))

        def draw(layer: WeightLayer) -> torch.Tensor:
            reads_pairs, writes_pairs = sides.get(layer, (False, False))
            return self._drawn(layer, generator, reads_pairs=reads_pairs, writes_pairs=writes_pairs)

        return fill_layers(module, draw, lambda layer: self.draw_bias(layer, generator))

    def draw(self, module: WeightLayer, generator: torch.Generator | None) -> torch.Tensor:
        """Return a new weight for one hidden layer."""
        return self._drawn(module, generator, reads_pairs=True, writes_pairs=True)

    def _drawn(
        self, module: WeightLayer, generator: torch.Generator | None, *, reads_pairs: bool, writes_pairs: bool
    ) -> torch.Tensor:
        import torch

        stored = torch.zeros_like(module.weight)
        if getattr(module, "groups", 1) > 1:
            _pass_on(stored, module)
            return stored
        block = _outputs_first(module, stored)[(slice(None), slice(None), *_taps(module))]
        outputs, inputs = block.shape[:2]
        writes_pairs, reads_pairs = writes_pairs and outputs > 1, reads_pairs and inputs > 1
        rows = outputs // 2 if writes_pairs else outputs
        columns = inputs // 2 if reads_pairs else inputs
        v = _keeping_mean_square(rows, columns, block, module, generator) / (1 + self.slope if reads_pairs else 1)
        for first_row, row_sign in ((0, 1), (rows, -1)) if writes_pairs else ((0, 1),):
            for first_column, column_sign in ((0, 1), (columns, -1)) if reads_pairs else ((0, 1),):
                block[first_row : first_row + rows, first_column : first_column + columns] = row_sign * column_sign * v
        if writes_pairs and outputs > 2 * rows:  # the odd one out sees what the others see
            single = _keeping_mean_square(1, columns, block, module, generator)
            block[-1:, :columns] = single
            if reads_pairs:
                block[-1:, columns : 2 * columns] = -single
        return stored


def _sides(model: nn.Module, layers: list[WeightLayer]) -> dict[nn.Module, tuple[bool, bool]]:
    """Return for every layer whether the units that it reads and those that it writes are hidden, and so form pairs."""
    from initscope.graph import hidden_sides, trace

    try:
        return hidden_sides(trace(model))
    except InputError:  # not traceable without data
        return {layer: (layer is not layers[0], layer is not layers[-1]) for layer in layers}


def _outputs_first(module: WeightLayer, stored: torch.Tensor) -> torch.Tensor:
    """Return a view ``[outputs, inputs, *taps]`` of the weight of a layer without groups."""
    from torch.nn.modules.conv import _ConvTransposeNd

    return stored.transpose(0, 1) if isinstance(module, _ConvTransposeNd) else stored


def _taps(module: WeightLayer) -> tuple[slice, ...]:
    """Return the central taps of each axis, at most as many as the stride has steps."""
    taps = []
    for size, stride in zip(module.weight.shape[2:], getattr(module, "stride", ()), strict=True):
        count = min(size, stride)
        start = min((size - 1) // 2, size - count)
        taps.append(slice(start, start + count))
    return tuple(taps)


def _keeping_mean_square(
    rows: int, columns: int, block: torch.Tensor, module: WeightLayer, generator: torch.Generator | None
) -> torch.Tensor:
    """``[rows, columns, *taps]``: orthogonal, with entries of mean square 1 over the values that an output sums."""
    from torch.nn.modules.conv import _ConvTransposeNd

    taps = block.shape[2:]
    count = math.prod(taps)
    if isinstance(module, _ConvTransposeNd):  # each output sees one of the taps
        matrix = _haar(rows * count, columns, block, generator) * math.sqrt(max(1, rows * count / columns))
        return matrix.view(rows, *taps, columns).movedim(-1, 1).to(block.dtype)
    matrix = _haar(rows, columns * count, block, generator) * math.sqrt(max(1, rows / (columns * count)))
    return matrix.view(rows, columns, *taps).to(block.dtype)


def _pass_on(weight: torch.Tensor, module: WeightLayer) -> None:
    """Connect each output of a grouped convolution with one input of its group, in the center tap."""
    from torch.nn.modules.conv import _ConvTransposeNd

    groups = getattr(module, "groups", 1)
    center: list[slice | int] = [(size - 1) // 2 for size in weight.shape[2:]]
    matrix = weight[(slice(None), slice(None), *center)]  # as stored
    parts = matrix.view(groups, -1, matrix.shape[1])
    grouped = parts.mT if isinstance(module, _ConvTransposeNd) else parts  # [groups, outputs, inputs]
    for output in range(grouped.shape[1]):
        grouped[:, output, output % grouped.shape[2]] = 1
