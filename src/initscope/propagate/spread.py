r"""How far the cosine of one draw strays from its prediction: the finite-width standard deviation of dense ReLU stacks.

Behind a layer of width m the cosine of a pair has a spread of its own (`relu_cosine_sd`), and what the layers before
have strayed passes on with the slope of the map,
:math:`\mathrm{sd}_l^2 = (\hat R'(\rho)\,\mathrm{sd}_{l-1})^2 + s^2(\rho)/m`, to first order.
"""

from __future__ import annotations

import numpy as np
from torch import nn

from initscope.geometry import Floats, Row
from initscope.initializers import Initializer
from initscope.layers import call_name
from initscope.theory.norms import relu_cosine_sd

__all__ = ["finite_width_sd"]


def finite_width_sd(model: nn.Module, rows: tuple[Row, ...], cosine: Floats, law: Initializer) -> Floats:
    """Standard deviation of each row's cosines over the weights, NaN from the first row that is not dense or ReLU.

    For weights without bias and without mean removal: behind those the spread is not known in closed form.
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
            slope = 1 - np.arccos(np.clip(rho, -1, 1)) / np.pi
            spread = np.sqrt((slope * spread) ** 2 + relu_cosine_sd(rho, width) ** 2)
            result[index], width = spread, 0
        else:
            break
    return result


def _plain(module: nn.Module | None, law: Initializer) -> bool:
    if not isinstance(module, nn.Linear):
        return False
    stated = law.law(module)
    return stated.bias_variance == 0 and stated.strength == 0
