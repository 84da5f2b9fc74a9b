"""The spread of the cosine over the weights of dense ReLU stacks of finite width; the standard error of samples."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import nn

from initscope.geometry import Floats, Row
from initscope.initializers import WeightDistribution
from initscope.theory.norms import relu_stack_cosine_sd

__all__ = ["finite_width_sd", "standard_error"]

_LEAST_WIDTH = 50
_MOST_DEPTH = 0.1
"""Of the sum of 1/width over layers: five layers of 50 units, ten of 100."""
_OPPOSITE, _LEAST_WIDTH_OPPOSITE = -0.75, 100
"""After the first ReLU, few units are active for both of two nearly opposite inputs."""


def finite_width_sd(
    model: nn.Module, rows: tuple[Row, ...], cosine: Floats, distribution_of: Callable[[nn.Module], WeightDistribution]
) -> Floats:
    """Standard deviation of each row's cosines over the weights, NaN from the first row that is not dense or ReLU.

    NaN also if the error of the formula may exceed 10 %: from the first layer that is narrower than 50 units or at
    which the sum of 1/width exceeds 0.1, and after a first ReLU of fewer than 100 units for pairs of cosine below -.75.

    The formula holds for independent weights without bias and without mean removal; no closed form is known for others.
    Square orthogonal weights preserve angles exactly, and no orthogonal weights are independent.
    `initscope.theory.norms.relu_stack_cosine_sd` has the formula.
    """
    modules = dict(model.named_modules()) if len(list(model.modules())) > 1 else {"": model}
    widths: list[int] = []
    columns = [0]  # of every row: 0 is the input, 2k - 1 and 2k are layer k before and after its ReLU
    for row in rows[1:]:
        after_relu = columns[-1] % 2 == 0
        if row.role in ("movement", "bookkeeping") and after_relu:
            columns.append(columns[-1])
        elif (
            row.role == "weights"
            and after_relu
            and len(row.shape) == 1
            and _plain(modules.get(row.layer), distribution_of)
        ):
            widths.append(row.shape[0])
            if widths[-1] < _LEAST_WIDTH or sum(1 / width for width in widths) > _MOST_DEPTH * (1 + 1e-9):
                widths.pop()
                break
            columns.append(columns[-1] + 1)
        elif row.traits.is_relu and not after_relu:
            columns.append(columns[-1] + 1)
        else:
            break
    known = np.isfinite(cosine[0])
    sds = [np.zeros_like(cosine[0])]
    for pair in relu_stack_cosine_sd(np.where(known, cosine[0], 0.0), widths) if widths else ():
        sds += [np.where(known, sd, np.nan) for sd in pair]
    if widths and widths[0] < _LEAST_WIDTH_OPPOSITE:
        sds[2] = np.where(cosine[0] < _OPPOSITE, np.nan, sds[2])
    result = np.full(cosine.shape, np.nan)
    result[: len(columns)] = np.stack(sds)[columns]
    return result


def _plain(module: nn.Module | None, distribution_of: Callable[[nn.Module], WeightDistribution]) -> bool:
    if not isinstance(module, nn.Linear):
        return False
    distribution = distribution_of(module)
    return distribution.independent and distribution.bias_variance == 0 and distribution.strength == 0


def standard_error(replicates: Floats) -> Floats:
    """Return the standard error of the mean of ``[replicates, ...]`` independent estimates.

    Its square is an unbiased estimate of the mean's variance: over many seeds, the mean of the squared errors is the
    variance of the estimates. From four replicates a single one is itself known to 40 %: (mean - truth)/error follows
    Student's distribution with three degrees of freedom, and 61 % of the means lie within one error.

    >>> round(float(standard_error(np.array([0.0, 1.0, 0.0, 1.0]))), 3)      # 0.577/2
    0.289
    """
    with np.errstate(invalid="ignore"):  # infinite replicates have no spread: NaN
        error: Floats = np.asarray(replicates.std(axis=0, ddof=1) / np.sqrt(len(replicates)))
    return error
