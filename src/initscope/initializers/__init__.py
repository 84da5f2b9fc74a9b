"""Initializers: each fills the Linear and convolution layers of a model and states its covariance for prediction.

``_base`` defines initializers, ``_scaled`` has the common ones, ``_names`` their names on the command line.

>>> import torch
>>> layer = ZeroSum().fill_(torch.nn.Conv2d(3, 8, 5), generator=torch.Generator().manual_seed(0))
>>> bool(layer.weight.sum(dim=(1, 2, 3)).abs().max() < 1e-5)
True
"""

from initscope.initializers._base import Initializer, WeightDistribution
from initscope.initializers._believability import Believability, believability
from initscope.initializers._functions import (
    delta_orthogonal_,
    glorot_,
    he_,
    lecun_,
    looks_linear_,
    orthogonal_,
    zero_sum_,
)
from initscope.initializers._looks_linear import LooksLinear
from initscope.initializers._matrices import not_drawn
from initscope.initializers._names import INITIALIZERS, AnyInitializer, as_initializer, named
from initscope.initializers._orthogonal import DeltaOrthogonal, Orthogonal
from initscope.initializers._present import Present
from initscope.initializers._scaled import Gaussian, Glorot, He, LeCun
from initscope.initializers._zero_sum import ZeroSum

__all__ = [
    "INITIALIZERS",
    "AnyInitializer",
    "Believability",
    "DeltaOrthogonal",
    "Gaussian",
    "Glorot",
    "He",
    "Initializer",
    "LeCun",
    "LooksLinear",
    "Orthogonal",
    "Present",
    "WeightDistribution",
    "ZeroSum",
    "as_initializer",
    "believability",
    "delta_orthogonal_",
    "glorot_",
    "he_",
    "lecun_",
    "looks_linear_",
    "named",
    "not_drawn",
    "orthogonal_",
    "zero_sum_",
]
