r"""Initialization audit: the distribution of every parameter, from its values, and whether it is PyTorch's default.

The shape of a distribution comes from the Kolmogorov–Smirnov statistic of up to 2,000 scaled values: the first of
uniform, Gaussian and Gaussian cut at ±2 deviations whose distance is below :math:`1.95/\sqrt n` (one draw in a
thousand exceeds that). An initializer is named if the deviation agrees within four standard errors,
:math:`\sigma\sqrt{(\kappa+2)/4n}` with κ the excess kurtosis.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvTransposeNd

from initscope.geometry import Floats
from initscope.graph import is_weight_layer
from initscope.results import Result

__all__ = ["Audit", "ParameterAudit", "audit"]

_SAMPLED = 2000
_LEAST = 20
_CUT = 0.8796
"""Standard deviation of a standard Gaussian cut at ±2."""
_NORMS = (_NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)
DEFAULT, OTHER = "torch's default, untouched", "the model or its library"


@dataclass(frozen=True)
class ParameterAudit(Result):
    """One parameter.

    Attributes
    ----------
    parameter, kind : str
        Its name, and the class of the module that holds it.
    shape : tuple of int
        Its shape.
    fan_in : int or None
        Inputs of one unit; for a bias those of its layer.
    mean, deviation : float
        Mean and standard deviation of its values.
    gain : float or None
        deviation · √fan_in: 1 preserves the scale in a linear layer, √2 after ReLU.
    distribution : str
        ``zeros``, ``ones``, ``constant``, ``uniform``, ``Gaussian``, ``Gaussian cut at 2``, ``orthogonal``, ``other``,
        or ``too few values``.
    law : str
        A known initializer that agrees with distribution and deviation, or empty.
    set_by : str
        Who set it, from the values alone: values that agree with PyTorch's default count as the default.
    frozen : bool
        Whether it requires no gradient.
    """

    parameter: str
    kind: str
    shape: tuple[int, ...]
    fan_in: int | None
    mean: float
    deviation: float
    gain: float | None
    distribution: str
    law: str
    set_by: str
    frozen: bool


@dataclass(frozen=True)
class Audit(Result):
    """All parameters of a model, in its order."""

    parameters: tuple[ParameterAudit, ...]

    def table(self) -> list[dict[str, Any]]:
        """Return one dict per parameter."""
        return [row.to_dict() for row in self.parameters]

    @property
    def untouched(self) -> tuple[str, ...]:
        """Matrices that have PyTorch's default initialization."""
        return tuple(row.parameter for row in self.parameters if row.set_by == DEFAULT and len(row.shape) > 1)

    def summary(self) -> list[dict[str, Any]]:
        """Return counts of parameters by kind, distribution, initializer and who set them."""
        counts: dict[tuple[str, ...], int] = {}
        for row in self.parameters:
            what = "bias" if row.parameter.endswith("bias") else "weight"
            key = (row.kind, what, row.distribution, row.law, row.set_by)
            counts[key] = counts.get(key, 0) + 1
        names = ("kind", "parameter", "distribution", "law", "set_by")
        return [dict(zip(names, key, strict=True)) | {"count": count} for key, count in counts.items()]


def audit(model: nn.Module) -> Audit:
    """Return the distribution and initializer of every parameter of ``model``, without running it.

    Parameters
    ----------
    model : torch.nn.Module
        Any model; its parameters are read.

    Returns
    -------
    Audit
        One entry per parameter: its distribution, its gain, and who set it.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> first = audit(nn.Linear(300, 200)).parameters[0]
    >>> first.distribution, first.set_by, round(first.gain, 2)
    ('uniform', "torch's default, untouched", 0.58)
    """
    rows = []
    modules = dict(model.named_modules())
    for name, parameter in model.named_parameters():
        path, _, attribute = name.rpartition(".")
        rows.append(_audited(name, attribute, modules[path], parameter))
    return Audit(tuple(rows))


def _audited(name: str, attribute: str, module: nn.Module, parameter: nn.Parameter) -> ParameterAudit:
    values, shape = parameter.detach(), tuple(parameter.shape)
    fan_in, fan_out = _fans(module, attribute, values)
    values = torch.view_as_real(values) if values.is_complex() else values
    flat = _sampled(values)
    mean, deviation = float(values.double().mean()), float(values.double().std(correction=0))
    distribution = _distribution(values, flat, mean, deviation)
    tolerance = _tolerance(flat, values.numel())
    known = [
        label
        for label, expected, shapes in _known_deviations(fan_in, fan_out)
        if distribution in shapes and abs(deviation / expected - 1) < tolerance
    ]
    default = _is_default(module, attribute, values, distribution, deviation, fan_in, tolerance)
    gain = None if fan_in is None or values.dim() < 2 else deviation * math.sqrt(fan_in)
    law = "torch's default" if default and not known else next(iter(known), "")
    return ParameterAudit(
        name,
        type(module).__name__,
        shape,
        fan_in,
        mean,
        deviation,
        gain,
        distribution,
        law,
        DEFAULT if default else OTHER,
        not parameter.requires_grad,
    )


def _fans(module: nn.Module, attribute: str, values: Tensor) -> tuple[int | None, int | None]:
    """Return the inputs and outputs of a unit; for a bias those of its layer's weights."""
    matrix = getattr(module, attribute.replace("bias", "weight"), values) if "bias" in attribute else values
    if isinstance(module, nn.MultiheadAttention) and attribute == "in_proj_bias":
        matrix = module.in_proj_weight if module.in_proj_weight is not None else values
    if not isinstance(matrix, Tensor) or matrix.dim() < 2 or isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        return None, None
    fans = nn.init._calculate_fan_in_and_fan_out(matrix)
    return fans[::-1] if isinstance(module, _ConvTransposeNd) else fans


def _sampled(values: Tensor) -> Floats:
    """Return up to `_SAMPLED` values, evenly spread."""
    flat = values.flatten()
    step = max(1, len(flat) // _SAMPLED)
    return np.asarray(flat[::step][:_SAMPLED].double().cpu().numpy())


def _tolerance(flat: Floats, count: int) -> float:
    """Return four standard errors of a deviation, relative to it."""
    centered = flat - flat.mean() if len(flat) else flat
    square = float(np.mean(centered**2)) if len(flat) else 0.0
    excess = float(np.mean(centered**4)) / square**2 - 3 if square > 0 else 0.0
    return max(2e-3, 4 * math.sqrt(max(0.0, excess + 2) / max(1, count)) / 2)


def _distribution(values: Tensor, flat: Floats, mean: float, deviation: float) -> str:
    if not len(flat):
        return "too few values"
    first = float(flat[0])
    if bool((values == first).all()):
        return {0.0: "zeros", 1.0: "ones"}.get(first, "constant")
    if values.dim() >= 2 and _is_orthogonal(values.flatten(1)):
        return "orthogonal"
    if values.numel() < _LEAST:
        return "too few values"
    if abs(mean) > 4 * deviation / math.sqrt(values.numel()):
        return "other"
    ordered = np.sort(flat) / deviation
    return next((name for name, distance in _distances(ordered) if distance < 1.95 / math.sqrt(len(flat))), "other")


def _distances(ordered: Floats) -> Iterator[tuple[str, float]]:
    """Return the Kolmogorov–Smirnov statistics of values with mean 0 and standard deviation 1."""
    from scipy.special import ndtr

    low, high = ndtr(-2), ndtr(2)
    cut = (ndtr(np.clip(ordered * _CUT, -2, 2)) - low) / (high - low)
    distributions = {
        "uniform": np.clip((ordered / math.sqrt(3) + 1) / 2, 0, 1),
        "Gaussian cut at 2": np.where(np.abs(ordered * _CUT).max() <= 2.01, cut, 2.0),
        "Gaussian": ndtr(ordered),
    }
    shares = np.arange(len(ordered)) / len(ordered)
    for name, expected in distributions.items():
        below, above = np.abs(expected - shares), np.abs(expected - shares - 1 / len(ordered))
        yield name, float(np.maximum(below, above).max())


def _is_orthogonal(matrix: Tensor) -> bool:
    """Return whether rows or columns, whichever are fewer, are orthogonal and of one length; tests 64 of them."""
    short = (matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T)[:64].double()
    if len(short) < 2 or short.shape[1] < 2:
        return False
    gram = short @ short.T
    scale = float(gram.diagonal().mean())
    off = float((gram - torch.diag(gram.diagonal())).abs().max())
    return scale > 0 and off < 1e-4 * scale and float((gram.diagonal() - scale).abs().max()) < 1e-3 * scale


def _known_deviations(fan_in: int | None, fan_out: int | None) -> list[tuple[str, float, tuple[str, ...]]]:
    """Return the name, standard deviation and distributions of known initializers."""
    random = ("uniform", "Gaussian", "Gaussian cut at 2")
    known: list[tuple[str, float, tuple[str, ...]]] = []
    if fan_in and fan_out:
        known = [
            ("torch's default (He, slope √5)", math.sqrt(1 / (3 * fan_in)), ("uniform",)),
            ("He", math.sqrt(2 / fan_in), random),
            ("LeCun", math.sqrt(1 / fan_in), random),
            ("Glorot", math.sqrt(2 / (fan_in + fan_out)), random),
            ("He, fan-out", math.sqrt(2 / fan_out), random),
        ]
    for deviation in (0.02, 0.01, 1.0):
        known.append((f"deviation {deviation:g}", deviation, ("Gaussian",)))
        known.append((f"deviation {deviation:g}, cut", deviation * _CUT, ("Gaussian cut at 2",)))
    return known


def _is_default(
    module: nn.Module,
    attribute: str,
    values: Tensor,
    distribution: str,
    deviation: float,
    fan_in: int | None,
    tolerance: float,
) -> bool:
    """Return whether the values agree with the default initialization of the PyTorch module."""
    if isinstance(module, _NORMS):
        return distribution == ("ones" if attribute == "weight" else "zeros")
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        return distribution == "Gaussian" and abs(deviation - 1) < tolerance
    if isinstance(module, nn.MultiheadAttention):
        if "bias" in attribute:
            return distribution == "zeros"
        expected = math.sqrt(2 / sum(values.shape))
    elif isinstance(module, (nn.RNNBase, nn.RNNCellBase)):
        expected = math.sqrt(1 / (3 * module.hidden_size))
    elif is_weight_layer(module) and fan_in:  # for transposed layers torch takes the fan of the other side
        fan_in = nn.init._calculate_fan_in_and_fan_out(module.weight)[0]
        expected = math.sqrt(1 / (3 * fan_in))
    else:
        return False
    few = distribution == "too few values" and values.dim() == 1 and deviation < 2 * expected
    return few or (distribution == "uniform" and abs(deviation / expected - 1) < tolerance)
