r"""How far the cosine of one draw strays from its prediction, in dense ReLU stacks; and the error of what was sampled.

Behind a layer of width m the cosine of a pair has a spread of its own, and what the layers before have strayed passes
on with the slope of the map: `initscope.theory.norms.relu_cosine_sd`, to first order in 1/m.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import nn

from initscope.geometry import Floats, Row
from initscope.graph import call_name
from initscope.initializers import WeightLaw
from initscope.theory.norms import relu_cosine_sd

__all__ = ["finite_width_sd", "standard_error"]


def finite_width_sd(
    model: nn.Module, rows: tuple[Row, ...], cosine: Floats, law: Callable[[nn.Module], WeightLaw]
) -> Floats:
    """Standard deviation of each row's cosines over the weights, NaN from the first row that is not dense or ReLU.

    For independent weights without bias and without mean removal: of others the spread is not known in closed form.
    Orthogonal weights keep angles exactly where they are square, and are not independent anywhere.
    """
    modules = dict(model.named_modules()) if len(list(model.modules())) > 1 else {"": model}
    result = np.full(cosine.shape, np.nan)
    result[0] = spread = np.zeros(cosine.shape[1])
    rho, width = cosine[0], 0
    for index, row in enumerate(rows[1:], start=1):
        if row.role in ("movement", "bookkeeping") and width == 0:
            result[index] = spread
        elif row.role == "weights" and width == 0 and len(row.shape) == 1 and _plain(modules.get(row.layer), law):
            width, rho = row.shape[0], cosine[index - 1]
            # The sample cosine of m independent Gaussian pairs.
            result[index] = np.sqrt(spread**2 + (1 - rho**2) ** 2 / width)
        elif row.role == "activation" and call_name(row.kind.lower()) == "relu" and width > 0:
            known = np.isfinite(rho)
            after = np.asarray(relu_cosine_sd(np.where(known, rho, 0.0), width, before=spread))
            spread = np.where(known, after, np.nan)
            result[index], width = spread, 0
        else:
            break
    return result


def _plain(module: nn.Module | None, law: Callable[[nn.Module], WeightLaw]) -> bool:
    if not isinstance(module, nn.Linear):
        return False
    stated = law(module)
    return stated.independent and stated.bias_variance == 0 and stated.strength == 0


_WIDER = {2: 1.837, 3: 1.321, 4: 1.197}
"""By how much a standard error from so few replicates has to be wider to cover 68.3 %: quantiles of Student's law."""


def standard_error(replicates: Floats) -> Floats:
    """Standard error of the mean of ``[replicates, ...]`` independent estimates, for which few are made up for.

    >>> round(float(standard_error(np.array([0.0, 1.0, 0.0, 1.0]))), 3)      # 1.197 · 0.577/2
    0.346
    """
    count = len(replicates)
    error: Floats = np.asarray(replicates.std(axis=0, ddof=1) / np.sqrt(count) * _WIDER[count])
    return error
