"""`channels`: how many times its present channels a network needs, so that cosines are near those of the limit."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from initscope.errors import InputError, check_seed
from initscope.geometry import Floats, Prediction
from initscope.plan._base import Plan, check_delta, check_eps

__all__ = ["ChannelsPlan", "channels"]

Event = Literal["last-layer", "all-layers"]
_SAMPLES = 20_000
"""Gaussian deviations of all pairs and rows together, from which the quantile is read."""


@dataclass(frozen=True)
class ChannelsPlan(Plan):
    """`initscope.plan.channels`: the width of the first hidden layer; all others keep their ratio to it."""

    planner = "channels"
    unit = "channels of the first hidden layer"
    best = "sharp"
    statements: ClassVar[dict[str, str]] = {
        "sharp": "influence of single channels on later rows, to first order in 1/width",
    }

    pairs: int
    present: tuple[int, ...]
    """The hidden widths that the model has."""
    widths: tuple[int, ...]
    """The planned ones: the least multiples at which all of them are whole numbers."""
    layer: str
    """The last row whose cosines are planned: the one that the output layer reads."""
    event: str
    sd: float
    """Largest standard deviation of a planned cosine at the present widths."""
    shift: float
    """Largest difference of the mean of a planned cosine from its limit, at the present widths."""
    sharp: int
    model: Any = field(default=None, repr=False, compare=False)
    initializer: Any = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields except the model and its initializer."""
        fields = super().to_dict()
        del fields["model"], fields["initializer"]
        return fields

    @property
    def aim(self) -> dict[str, Any]:
        """Return the rows whose cosines are planned, and the widths."""
        rows = f"layer {self.layer}" if self.event == "last-layer" else f"all layers up to {self.layer}"
        return {"cosines of": rows, "widths": "-".join(map(str, self.widths))}

    def failures(self, size: int, trials: int, generator: np.random.Generator, images: Any = None) -> int:
        """Count the networks with ``size`` channels in the first layer in which a cosine is off by more than eps."""
        import torch

        from initscope.initializers import Present
        from initscope.measurement import measure
        from initscope.models.sizes import scale_widths
        from initscope.propagate import predict

        if images is None:
            raise InputError("a plan for channels is checked on its pairs; pass images=(x, y)")
        x, y = images
        scaled = copy.deepcopy(self.model)
        scale_widths(scaled, size / self.present[0] + 1e-9, torch.as_tensor(x), torch.Generator().manual_seed(0))
        limit = predict(scaled, x, y, self.initializer)
        rows = _rows(limit, self.event, _row(limit, self.layer))
        initializer = Present() if self.initializer is None else self.initializer
        failed = 0
        for _ in range(trials):
            drawn = measure(scaled, x, y, initializer=initializer, draws=1, seed=int(generator.integers(2**31)))
            failed += bool((np.abs(drawn.cosine - limit.cosine)[rows] > self.eps).any())
        return failed


def channels(
    model: Any,
    x: Any,
    y: Any,
    *,
    eps: float,
    delta: float,
    event: Event = "last-layer",
    initializer: Any = None,
    seed: int = 0,
) -> ChannelsPlan:
    r"""How many times its present channels must a network have, so that the cosines of all pairs are within ``eps`` of
    those of an infinitely wide network?

    Parameters
    ----------
    model
        Any network whose rows `initscope.predict` covers with ``finite_width``, with an output layer: the planned
        widths are those of all hidden layers, multiplied by one factor.
    x, y
        The pairs, shaped as inputs of the model. The plan holds for all of them at once.
    eps
        Distortion of a cosine, between 0 and 1.
    delta
        Probability of failure, over the draw of the weights, for all pairs together.
    event
        ``"last-layer"``: the cosines that the output layer reads stay within eps; ``"all-layers"``: those of every row
        before it too.
    initializer
        Initializer of the weights, for example he; None: Gaussian with the variance that each layer's weights have now.
    seed
        Seed of the drawn channels.

    Returns
    -------
    ChannelsPlan
        ``sharp``: the width of the first hidden layer, and ``widths`` of all of them, in the ratios that they have;
        `check` draws networks of these widths.

    Notes
    -----
    At f times the widths a cosine deviates by :math:`b/f + g/\sqrt f`, with the shift b and the Gaussian deviation g of
    the present widths, of all pairs together. The factor is the quantile of the smallest f that satisfies
    :math:`|b/f + g/\sqrt f| \le \varepsilon` for all of them. The paper has a bound for one layer: `filters`.
    """
    from initscope.propagate import predict

    check_eps(eps, "the distortion of a cosine")
    check_delta(delta)
    check_seed("seed", seed)
    if event not in ("last-layer", "all-layers"):
        raise InputError(f"event = {event!r} must be 'last-layer' or 'all-layers'")
    head, present = _hidden(model, x)
    predicted = predict(model, x, y, initializer, seed=seed, finite_width=True)
    last = predicted.rows[_row(predicted, head)].reads[0]
    rows = _rows(predicted, event, last)
    unknown = [row for row in rows if np.isnan(predicted.cosine_shift[row]).any()]  # type: ignore[index]
    if unknown:
        row = predicted.rows[unknown[0]]
        raise InputError(
            f"no spread is predicted after {row.layer}: {row.note}; plan for a network that ends before it"
        )
    assert predicted.cosine_deviations is not None
    assert predicted.cosine_shift is not None
    deviations = predicted.cosine_deviations[:, rows].reshape(len(predicted.cosine_deviations), -1)
    shift = predicted.cosine_shift[rows].ravel()
    whole = math.gcd(*present)  # in steps of 1/whole all widths are whole numbers
    steps = max(1, math.ceil(_factor(deviations, shift, eps, delta, seed) * whole))
    widths = tuple(width * steps // whole for width in present)
    return ChannelsPlan(
        eps=eps,
        delta=delta,
        pairs=predicted.cosine.shape[1],
        present=present,
        widths=widths,
        layer=predicted.rows[last].layer,
        event=event,
        sd=float(np.sqrt((deviations**2).mean(axis=0)).max(initial=0)),
        shift=float(np.abs(shift).max(initial=0)),
        sharp=widths[0],
        model=model,
        initializer=initializer,
        assumptions=(
            "independent Gaussian or uniform weights, no training",
            "inputs fixed before the weights are drawn",
            "first order in 1/width: deviations are taken for Gaussian, which those of narrow layers are not",
            f"spreads estimated from {len(deviations)} combinations of drawn channels: the answer is known to "
            f"{200 * math.sqrt(2 / len(deviations)):.0f} % (two standard errors)",
        ),
    )


def _hidden(model: Any, x: Any) -> tuple[str, tuple[int, ...]]:
    """Return the path of the first layer that reads hidden units and writes the output, and all hidden widths."""
    import torch

    from initscope.graph import hidden_sides, is_weight_layer, trace

    sides = {
        module: both
        for module, both in hidden_sides(trace(model, torch.as_tensor(x)[:2])).items()
        if is_weight_layer(module)
    }
    paths = {module: path for path, module in model.named_modules()}
    heads = [paths[module] for module, (reads, writes) in sides.items() if reads and not writes]
    if not heads:
        raise InputError(
            "the network has no output layer that reads hidden units, and only hidden widths are planned; append one, "
            "such as nn.Linear, or -flatten-dense10 to an architecture string"
        )
    return heads[0], tuple(len(module.weight) for module, (_, writes) in sides.items() if writes)


def _row(predicted: Prediction, layer: str) -> int:
    return next(index for index, row in enumerate(predicted.rows) if row.layer == layer)


def _rows(predicted: Prediction, event: str, last: int) -> list[int]:
    return [last] if event == "last-layer" else list(range(1, last + 1))


def _factor(deviations: Floats, shift: Floats, eps: float, delta: float, seed: int) -> float:
    """Return the smallest multiple of the widths at which all deviations are at most eps with probability 1 - delta."""
    from initscope._utils.randomness import generator

    numbers = generator(seed, "deviations of a plan").standard_normal((_SAMPLES, len(deviations)))
    g = numbers @ deviations / math.sqrt(len(deviations))
    # with u = 1/√f the deviation b u² + g u, of one sign or the other, first reaches eps at the smaller positive root
    b, g = np.where(g < 0, -shift, shift), np.abs(g)
    with np.errstate(divide="ignore", invalid="ignore"):
        grows = 2 * eps / (g + np.sqrt(g**2 + 4 * b * eps))  # b u² + g u = eps
        falls = 2 * eps / (-g + np.sqrt(g**2 - 4 * b * eps))  # = -eps, only for b < 0
    first = np.where(np.isfinite(grows), grows, np.inf)
    second = np.where((b < 0) & np.isfinite(falls), falls, np.inf)
    u = np.minimum(first, second).min(axis=1)
    return float(np.quantile(1 / u**2, 1 - delta))
