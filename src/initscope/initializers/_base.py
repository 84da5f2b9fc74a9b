"""Base class of initializers: it fills modules, and it states the covariance that predictions need."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from initscope.errors import InputError
from initscope.initializers._matrices import Matrix, matrices

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch import nn

    from initscope.graph import WeightLayer

__all__ = [
    "Initializer",
    "WeightDistribution",
    "check_takes",
    "drawn_parameters",
    "equal_parameters",
    "fans",
    "fill_layers",
    "normal_like",
    "weight_layers",
]

AnyModule = TypeVar("AnyModule", bound="nn.Module")
Name = Literal["weight", "bias"]


@dataclass(frozen=True)
class WeightDistribution:
    r"""Second moments of one layer's weights, which determine the covariance of a wide layer.

    .. math:: k'_{xy} = n\,v\,(\langle k_{xy}\rangle - \lambda\,\langle m_x\rangle\langle m_y\rangle) + v_b

    Here n is the fan-in, ⟨·⟩ the average over a filter's taps and channels, v = ``variance`` of a weight, λ =
    ``strength`` of the mean removal, v_b = ``bias_variance``. With ``center`` only the center tap, number (k-1)//2 of
    each axis, has weights: ⟨·⟩ is then the average over channels, and n their number. ``independent``: whether weights
    are independent of each other, which the spread of a finite layer needs. ``note`` says which property of the weights
    these moments do not describe.
    """

    variance: float
    bias_variance: float = 0.0
    strength: float = 0.0
    center: bool = False
    note: str = ""
    independent: bool = True


@dataclass(frozen=True)
class Initializer:
    """An initializer for all weights of a model. Biases are zero unless given a variance."""

    bias_variance: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.bias_variance < math.inf:
            raise InputError(f"bias_variance = {self.bias_variance} must be finite and not negative")

    def weight_distribution(self, module: WeightLayer) -> WeightDistribution:
        """Second moments of the weights that `fill_` would give ``module``."""
        raise InputError(
            f"{type(self).__name__} states no distribution of weights; override weight_distribution(module) and "
            "draw(module, generator)"
        )

    def draw(self, module: WeightLayer, generator: torch.Generator | None) -> torch.Tensor:
        """Return a new weight for one layer; the layer itself is not changed."""
        raise InputError(
            f"{type(self).__name__} draws no weights; override weight_distribution(module) and draw(module, generator)"
        )

    def draw_bias(self, module: WeightLayer, generator: torch.Generator | None) -> torch.Tensor:
        """Return a new bias for one layer that has a bias."""
        import torch

        assert module.bias is not None
        if self.bias_variance == 0:
            return torch.zeros_like(module.bias)
        return normal_like(module.bias, self.bias_variance, generator)

    def fill_(self, module: AnyModule, *, generator: torch.Generator | None = None) -> AnyModule:
        """Draw new weights for ``module`` and all modules inside it, in place.

        These layers are Linear and convolutions, the projections of attention, the gates of recurrent layers, and
        matrices by which a user's module multiplies. `initscope.initializers.not_drawn` lists the parameters that are
        left unchanged. A parameter that several layers share is drawn once. Layers that are copies of each other are
        drawn independently, except with `Present`, which keeps them equal.

        If a weight is parametrized, as by ``torch.nn.utils.parametrizations.weight_norm``, its parameters are set to
        values that give the drawn weight. If there are none (spectral norm), `InputError` is raised and nothing is
        written.
        """
        return fill_layers(
            module, lambda layer: self.draw(layer, generator), lambda layer: self.draw_bias(layer, generator)
        )


def fill_layers(
    model: AnyModule,
    draw: Callable[[WeightLayer], torch.Tensor],
    draw_bias: Callable[[WeightLayer], torch.Tensor],
) -> AnyModule:
    """Set all weights of ``model`` to the results of ``draw`` and ``draw_bias`` for their layers.

    If one fails, none is set.
    """
    import torch

    layers, others = weight_layers(model), matrices(model)
    if not layers and not others:
        raise InputError(f"{type(model).__name__} holds no Linear or convolution whose weights could be drawn")
    drawn: list[tuple[WeightLayer, Name, torch.Tensor]] = []
    with torch.no_grad():
        for layer in layers:
            drawn.append((layer, "weight", draw(layer)))
            if layer.bias is not None:
                drawn.append((layer, "bias", draw_bias(layer)))
        for layer, name, values in drawn:
            check_takes(layer, name, values)
        drawn_matrices = [(matrix, *_drawn_matrix(matrix, draw, draw_bias)) for matrix in others]
        for matrix, weight, bias in drawn_matrices:
            matrix.write(weight, bias)
        for layer, name, values in drawn:
            if name in layer._parameters:
                getattr(layer, name).copy_(values)
            else:
                setattr(layer, name, values)  # the inverse of the parametrization
    return model


def _drawn_matrix(
    matrix: Matrix, draw: Callable[[WeightLayer], torch.Tensor], draw_bias: Callable[[WeightLayer], torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor | None]:
    layer = matrix.layer()
    return draw(layer), draw_bias(layer) if matrix.bias else None


def drawn_parameters(model: nn.Module) -> set[int]:
    """Return the parameters, by ``id``, that an initializer draws."""
    held = [parameter for layer in weight_layers(model) for parameter in layer.parameters()]
    return {id(parameter) for parameter in [*held, *(p for matrix in matrices(model) for p in matrix.parameters)]}


def equal_parameters(model: nn.Module) -> dict[int, int]:
    """Return drawn parameters that equal an earlier one, as in copied layers, with that first one, by ``id``."""
    import torch

    drawn, representatives = drawn_parameters(model), dict[int, int]()
    groups: dict[tuple[torch.Size, float], list[nn.Parameter]] = {}
    for parameter in model.parameters():
        if id(parameter) not in drawn or parameter.is_meta or parameter.dim() < 2 or parameter.numel() < 2:
            continue
        values = parameter.detach()
        alike = groups.setdefault((values.shape, float(values.sum(dtype=torch.float32))), [])
        first = next((candidate for candidate in alike if torch.equal(candidate, values)), None)
        if first is not None and not bool((values == values.flatten()[0]).all()):
            representatives[id(parameter)] = id(first)
        alike.append(parameter)
    return representatives


def check_takes(layer: WeightLayer, name: Name, values: torch.Tensor) -> None:
    """Refuse a layer whose weight is computed from other parameters, unless some values of these give ``values``."""
    import torch
    from torch.nn.utils import parametrize

    if name in layer._parameters:
        return
    kind = type(layer).__name__
    if not parametrize.is_parametrized(layer, name):
        raise InputError(
            f"the {name} of a {kind} is computed before every call (nn.utils.weight_norm, spectral_norm, prune), which "
            "would overwrite what is drawn; remove that first, use torch.nn.utils.parametrizations.weight_norm, "
            "or measure the weights it has (draws=0)"
        )
    trial: Any = copy.deepcopy(layer.parametrizations[name])  # type: ignore[index]
    try:
        trial.right_inverse(values)
        exact = torch.allclose(trial(), values, rtol=1e-3, atol=1e-6 * float(values.abs().max()))
    except (RuntimeError, ValueError, NotImplementedError):
        exact = False
    if not exact:
        raise InputError(
            f"the {name} of a {kind.removeprefix('Parametrized')} is parametrized by "
            f"{', '.join(type(step).__name__.lstrip('_') for step in trial)}, which cannot hold the weights of this "
            f"initializer; call torch.nn.utils.parametrize.remove_parametrizations(layer, {name!r}) first, "
            "or measure the weights it has (draws=0)"
        )


def normal_like(like: torch.Tensor, variance: float, generator: torch.Generator | None) -> torch.Tensor:
    """Return independent normal values of mean zero, shaped as ``like``."""
    import torch

    return torch.empty_like(like).normal_(0, math.sqrt(variance), generator=generator)


def weight_layers(model: nn.Module) -> list[WeightLayer]:
    """Return every Linear and convolution in ``model``, each once."""
    import torch

    from initscope.graph import WEIGHT_LAYERS, modules_of

    layers = [module for module in modules_of(model) if isinstance(module, WEIGHT_LAYERS)]
    for layer in layers:
        if isinstance(layer.weight, torch.nn.parameter.UninitializedParameter):
            raise InputError(
                f"{type(layer).__name__} has no shape yet; run the model once on a batch of its input first"
            )
    return layers


def fans(module: WeightLayer) -> tuple[float, float]:
    """Return fan-in and fan-out as PyTorch counts them: all taps, input channels of one group, all output channels.

    Transposed convolutions store inputs first, and with stride s an output depends on only one in s taps of each axis.
    Their fan-in is the mean number of values that an output sums. (PyTorch confuses their outputs with their inputs.)
    """
    from torch.nn.modules.conv import _ConvTransposeNd

    weight = module.weight
    taps = math.prod(weight.shape[2:])
    if isinstance(module, _ConvTransposeNd):
        inputs, outputs = weight.shape[0] // module.groups, weight.shape[1] * module.groups
        return inputs * taps / math.prod(module.stride), outputs * taps
    return int(weight.shape[1] * taps), int(weight.shape[0] * taps)
