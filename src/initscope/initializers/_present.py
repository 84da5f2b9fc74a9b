"""The distribution that a model's present weights suggest: zero-mean Gaussian with each layer's own variance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from initscope.errors import InputError
from initscope.initializers._base import Initializer, WeightDistribution, equal_parameters, normal_like

if TYPE_CHECKING:
    import torch

    from initscope.graph import WeightLayer
    from initscope.initializers._base import AnyModule

__all__ = ["Present"]

_FEW = 1 << 10
_PART = 1 << 16  # weights looked at at once: in double precision they stay in the cache


@dataclass(frozen=True)
class Present(Initializer):
    """Zero-mean Gaussian weights with the variance that each layer's weights have now; biases likewise.

    What ``initializer=None`` means. A weight mean beyond 4 standard errors is reported in the row's note, not modeled.
    """

    def weight_distribution(self, module: WeightLayer) -> WeightDistribution:
        """Return the variance about the mean of the weights, mean square of the biases."""
        if module.weight.is_meta:
            raise InputError(
                "weights on the meta device have no values; give an initializer that needs none: initializer=He()"
            )
        weight = module.weight.detach()
        mean, variance = _mean_and_variance(weight)
        error = math.sqrt(variance / weight.numel())
        note = ""
        if variance == 0 and mean != 0:
            # One weight, or all alike: their spread says nothing, their size is all there is.
            variance = mean**2
            what = "a single weight" if weight.numel() == 1 else "weights are all equal"
            note = f"{what}: taken as zero-mean with that mean square"
        elif abs(mean) > 4 * error:
            distance = abs(mean) / error if error > 0 else math.inf
            note = f"weights have mean {mean:.3g}, {distance:.0f} standard errors from 0: not modeled"
        return WeightDistribution(variance, self._bias_variance(module), note=note)

    def _bias_variance(self, module: WeightLayer) -> float:
        present = 0.0 if module.bias is None else float(module.bias.detach().double().square().mean())
        return present + self.bias_variance

    def fill_(self, module: AnyModule, *, generator: torch.Generator | None = None) -> AnyModule:
        """Draw new weights; parameters that are equal now, as those of copied layers, stay equal."""
        import torch

        parameters = list(module.parameters())
        same = equal_parameters(module)
        super().fill_(module, generator=generator)
        by_id = {id(parameter): parameter for parameter in parameters}
        with torch.no_grad():
            for twin, first in same.items():
                by_id[twin].copy_(by_id[first])
        return module

    def draw(self, module: WeightLayer, generator: torch.Generator | None) -> torch.Tensor:
        """Return Gaussian weights of the present variance."""
        return normal_like(module.weight, self.weight_distribution(module).variance, generator)

    def draw_bias(self, module: WeightLayer, generator: torch.Generator | None) -> torch.Tensor:
        """Return Gaussian biases of the present mean square."""
        assert module.bias is not None
        return normal_like(module.bias, self._bias_variance(module), generator)


def _mean_and_variance(weight: torch.Tensor) -> tuple[float, float]:
    """Return the mean and the variance in double precision, part by part, which is faster than a copy."""
    import torch

    flat, count = weight.reshape(-1), weight.numel()
    # Taken off: a weight in the middle of them, so that equal weights have a variance of exactly 0, and no digits are
    # lost where the mean is large.
    middle = float(flat[:_FEW].double().median())
    total = squares = 0.0
    for part in torch.split(flat, _PART):
        off = part.double() - middle
        total, squares = total + float(off.sum()), squares + float(off.dot(off))
    return middle + total / count, max(0.0, squares - total**2 / count) / max(1, count - 1)
