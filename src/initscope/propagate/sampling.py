"""Samples of single units, for activations of what is not Gaussian (theory §3.4): sums of an activation's output and
fresh weights, as after an identity skip. Only second moments go on, so one unit at each position is enough."""

from __future__ import annotations

import torch
from torch import Tensor

from initscope.propagate.registry import Context
from initscope.propagate.state import Maps
from initscope.propagate.units import Sampled, draw
from initscope.report.geometry import weakest
from initscope.theory.activations import Activation

__all__ = ["sampled_units", "standard_error_note"]

_BUDGET = 1 << 22  # samples of all pairs and positions together
_LEAST, _MOST = 256, 1 << 18


def sampled_units(state: Maps, sigma: Activation, context: Context) -> Maps:
    """σ of samples of the state's units, whatever their law; the samples are kept for the next such step."""
    count = min(_MOST, max(_LEAST, _BUDGET // max(1, state.kxx.numel())))
    x, y = (sigma(side) for side in draw(state, count, context.generator))
    squares = [x.square(), y.square(), (x - y).square()]
    kxx, kyy, d = (values.mean(dim=0) for values in squares)
    return state.after(
        kxx=kxx,
        kyy=kyy,
        d=d,
        unit=Sampled(x, y),
        fresh=frozenset(),
        origin=None,
        status=weakest(state.status, "sampled"),
        note=standard_error_note(squares, state.sizes, f"{count} units at each position"),
    )


def standard_error_note(squares: list[Tensor], sizes: tuple[int, ...], what: str) -> str:
    """Standard error of the mean cosine over pairs, from samples of x², y², (x-y)² ``[count, pairs, blocks, …]``."""
    weights = torch.tensor(sizes, dtype=torch.float64, device=squares[0].device)
    xx, yy, gap = (
        (v.flatten(3).sum(dim=3, dtype=torch.float64) if v.dim() > 3 else v.double()) @ weights for v in squares
    )
    total = [v.mean(dim=0) for v in (xx, yy, gap)]
    product = (total[0] * total[1]).sqrt()
    cosine = (total[0] + total[1] - total[2]) / (2 * product)
    # the influence of each sample on the cosine, first order
    influence = (xx + yy - gap) / (2 * product) - cosine * (xx / total[0] + yy / total[1]) / 2
    error = float(influence.nan_to_num().mean(dim=1).std() / len(xx) ** 0.5)
    return f"{what} sampled: cosine ± {error:.1g}"
