"""What a weight law is: it fills modules, and it states the covariance that prediction needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from initscope.errors import InputError

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.nn.modules.conv import _ConvNd

    WeightLayer = nn.Linear | _ConvNd

__all__ = ["Initializer", "WeightLaw", "fans", "weight_layers"]

AnyModule = TypeVar("AnyModule", bound="nn.Module")


@dataclass(frozen=True)
class WeightLaw:
    r"""Second moments of one layer's weights: all that a wide layer's covariance depends on.

    .. math:: k'_{xy} = n\,v\,(\langle k_{xy}\rangle - \lambda\,\langle m_x\rangle\langle m_y\rangle) + v_b

    with n the fan-in, ⟨·⟩ the average over a filter's taps and channels, v = ``variance`` of a weight, λ = ``strength``
    of the mean removal, v_b = ``bias_variance``. With ``centre`` only the centre tap, number (k-1)//2 of each axis, has
    weights: ⟨·⟩ is the average over channels there, n their number. ``note`` says what the law cannot express.
    """

    variance: float
    bias_variance: float = 0.0
    strength: float = 0.0
    centre: bool = False
    note: str = ""


@dataclass(frozen=True)
class Initializer:
    """A weight law for every Linear and convolution of a model. Biases are zero unless given a variance."""

    bias_variance: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.bias_variance < math.inf:
            raise InputError(f"bias_variance = {self.bias_variance} must be finite and not negative")

    def law(self, module: WeightLayer) -> WeightLaw:
        """Second moments of the weights that `fill_` would give ``module``."""
        raise InputError(f"{type(self).__name__} states no law; override law(module) and draw_(module, generator)")

    def draw_(self, module: WeightLayer, generator: torch.Generator | None) -> None:
        """Draw the weight of one layer in place."""
        raise InputError(f"{type(self).__name__} draws no weights; override law(module) and draw_(module, generator)")

    def fill_(self, module: AnyModule, *, generator: torch.Generator | None = None) -> AnyModule:
        """Draw the weights of ``module`` and of every Linear and convolution inside it anew, in place."""
        import torch

        layers = weight_layers(module)
        if not layers:
            raise InputError(f"{type(module).__name__} holds no Linear or convolution whose weights could be drawn")
        with torch.no_grad():
            for layer in layers:
                self.draw_(layer, generator)
                if layer.bias is not None:
                    self.draw_bias_(layer, generator)
        return module

    def draw_bias_(self, module: WeightLayer, generator: torch.Generator | None) -> None:
        """Draw the bias of one layer in place."""
        assert module.bias is not None
        if self.bias_variance == 0:
            module.bias.zero_()
        else:
            module.bias.normal_(0, math.sqrt(self.bias_variance), generator=generator)


def weight_layers(model: nn.Module) -> list[WeightLayer]:
    """Every Linear and convolution in ``model``, each once."""
    import torch
    from torch.nn.modules.conv import _ConvNd

    layers = [module for module in model.modules() if isinstance(module, (torch.nn.Linear, _ConvNd))]
    for layer in layers:
        if isinstance(layer.weight, torch.nn.parameter.UninitializedParameter):
            raise InputError(
                f"{type(layer).__name__} has no shape yet; run the model once on a batch of its input first"
            )
    return layers


def fans(module: WeightLayer) -> tuple[float, float]:
    """Fan-in and fan-out as PyTorch counts them: all taps, input channels of one group, all output channels.

    Transposed convolutions store inputs first, and with stride s an output sees only one in s taps of each axis: their
    fan-in is the mean number of values that an output sums. (PyTorch takes their outputs for inputs there.)
    """
    from torch.nn.modules.conv import _ConvTransposeNd

    weight = module.weight
    taps = math.prod(weight.shape[2:])
    if isinstance(module, _ConvTransposeNd):
        inputs, outputs = weight.shape[0] // module.groups, weight.shape[1] * module.groups
        return inputs * taps / math.prod(module.stride), outputs * taps
    return int(weight.shape[1] * taps), int(weight.shape[0] * taps)
