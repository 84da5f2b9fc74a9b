"""Are these weights believable as independent draws? By mean, tails, spectrum, correlations, mirrored halves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from initscope.errors import InputError, check_count
from initscope.results import Result

if TYPE_CHECKING:
    import torch

    from initscope.graph import WeightLayer

__all__ = ["AFTER_TRAINING", "Believability", "believability"]

AFTER_TRAINING = "as after training"
"""How messages describe filters that are aligned more than random weights are."""
_LIMIT = 4.0  # standard errors beyond which a deviation counts
_EDGE_LIMIT = 6.0  # in units of the Tracy–Widom distribution, whose upper tail beyond this is below 1e-4
_ROWS, _COLUMNS = 256, 2048  # of the part of a large matrix that is looked at


@dataclass(frozen=True)
class Believability(Result):
    """Whether weights look like independent zero-mean draws.

    Attributes
    ----------
    believable : bool
        No test objects: neither mean, nor spectrum, nor correlations, nor mirrored halves.
    distribution : str
        ``Gaussian``, ``uniform`` or ``other``, by the tails.
    mean_z : float
        Mean in standard errors.
    excess_kurtosis : float
        0 for Gaussian, -1.2 for uniform weights.
    edge : float
        Largest eigenvalue of the Gram matrix, centered and scaled so that independent weights follow the Tracy–Widom
        distribution (mean -1.2, standard deviation 1.3) [Johnstone2001]_. Values above the Marchenko–Pastur edge show
        aligned weights.
    correlation_z : float
        Squared inner products of filters minus those expected for independent filters, in standard errors; strongly
        negative for orthogonal weights.
    mirror : float
        Mean product of the weights of the first and the second half of the filters, or of their inputs, at unit
        variance: 0 for independent weights, -1 if one half mirrors the other, as in `LooksLinear`.
    summary : str
        All this in words.
    """

    believable: bool
    distribution: str
    mean_z: float
    excess_kurtosis: float
    edge: float
    correlation_z: float
    mirror: float
    summary: str


def believability(module: WeightLayer, *, among: int = 1) -> Believability:
    r"""Test whether the present weights of a Linear or convolution could be independent zero-mean draws.

    With the n × p matrix of weights scaled to unit variance, the largest squared singular value of independent entries
    lies near :math:`\mu = (\sqrt{n-1}+\sqrt p)^2` with spread :math:`(\sqrt{n-1}+\sqrt p)(1/\sqrt{n-1}+1/\sqrt
    p)^{1/3}`, and squared inner products of rows have mean p and variance 2p². Training aligns filters and raises both;
    orthogonal weights lower both. For large matrices, only a part is examined.

    ``among`` is the number of layers that are judged together. The limits widen with the number of layers, so that a
    false alarm is as rare for all layers together as for one.

    >>> import torch
    >>> layer = torch.nn.Linear(300, 200)
    >>> _ = torch.nn.init.normal_(layer.weight, generator=torch.Generator().manual_seed(0))
    >>> believability(layer).summary
    'independent Gaussian weights are believable'
    """
    import torch

    limit, edge_limit = _limits(check_count("among", among))
    weight = module.weight.detach().double()
    if not bool(torch.isfinite(weight).all()):
        raise InputError("the weights hold NaN or infinite values")
    count, mean, variance = weight.numel(), float(weight.mean()), float(weight.var(correction=0))
    if count < 8 or variance == 0:
        return Believability(
            False, "other", math.nan, math.nan, math.nan, math.nan, math.nan, "too few or constant weights"
        )
    mean_z = mean / math.sqrt(variance / count)
    kurtosis = float(((weight - mean) / math.sqrt(variance)).square().square().mean()) - 3
    distribution = _distribution(kurtosis, limit * math.sqrt(24 / count))
    matrix = weight.flatten(1) / math.sqrt(variance)
    edge, correlation = _spectrum(matrix)
    mirror = _mirror(matrix)
    objections = []
    if mirror < -0.5 and mirror * math.sqrt(count / 2) < -limit:
        objections.append("one half of the units mirrors the other, as by LooksLinear")
    if abs(mean_z) > limit:
        objections.append(f"their mean is {abs(mean_z):.0f} standard errors from 0")
    if edge > edge_limit:
        objections.append(f"the largest singular value is beyond what chance gives, {AFTER_TRAINING}")
    elif correlation > limit:
        objections.append(f"filters are correlated, {AFTER_TRAINING}")
    elif correlation < -limit:
        objections.append("filters are closer to orthogonal than chance gives, as from an orthogonal initializer")
    summary = _summarize(objections, distribution, kurtosis)
    return Believability(not objections, distribution, mean_z, kurtosis, edge, correlation, mirror, summary)


def _distribution(kurtosis: float, slack: float) -> str:
    """Return the distribution whose excess kurtosis is within ``slack``; 0 is Gaussian, -1.2 uniform."""
    if abs(kurtosis) < slack:
        return "Gaussian"
    return "uniform" if abs(kurtosis + 1.2) < slack else "other"


def _summarize(objections: list[str], distribution: str, kurtosis: float) -> str:
    if objections:
        return "independent zero-mean weights are not believable: " + "; ".join(objections)
    if distribution == "other":
        kind = "heavy-tailed" if kurtosis > 0 else "light-tailed"
        return f"independent weights are believable, but {kind}: neither Gaussian nor uniform"
    return f"independent {distribution} weights are believable"


def _limits(layers: int) -> tuple[float, float]:
    """Where tails, :math:`e^{-z^2/2}` and Tracy and Widom's :math:`e^{-2s^{3/2}/3}`, are smaller by their number."""
    more = math.log(layers)
    return math.sqrt(_LIMIT**2 + 2 * more), (_EDGE_LIMIT**1.5 + 1.5 * more) ** (2 / 3)


def _mirror(matrix: torch.Tensor) -> float:
    """Return the lower of the mean products of both halves, of rows and of columns."""
    correlations = [0.0]
    for side in (matrix, matrix.T):
        half = len(side) // 2
        if half:
            correlations.append(float((side[:half] * side[half : 2 * half]).mean()))
    return min(correlations)


def _spectrum(matrix: torch.Tensor) -> tuple[float, float]:
    """Return the scaled largest eigenvalue, and squared inner products of rows in standard errors."""
    import torch

    if matrix.shape[0] > matrix.shape[1]:
        matrix = matrix.T
    rows, columns = matrix.shape
    matrix = matrix[:: max(1, -(-rows // _ROWS)), :: max(1, -(-columns // _COLUMNS))]
    rows, columns = matrix.shape
    if rows < 4:
        return math.nan, math.nan
    gram = matrix @ matrix.T
    first, second = math.sqrt(columns - 1), math.sqrt(rows)
    center, spread = (first + second) ** 2, (first + second) * (1 / first + 1 / second) ** (1 / 3)
    edge = (float(torch.linalg.eigvalsh(gram)[-1]) - center) / spread
    pairs = rows * (rows - 1) / 2
    total = float(gram.square().sum() - gram.diagonal().square().sum()) / 2
    return edge, (total - pairs * columns) / (columns * math.sqrt(2 * pairs))
