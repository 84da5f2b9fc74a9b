"""`linear_estimate`: an estimate of the inputs by one product with the weights, projected on the prior."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from initscope.errors import InputError
from initscope.invert.priors import Prior, as_priors
from initscope.theory import inversion
from initscope.theory.activations import Activation

__all__ = ["linear_estimate"]


def linear_estimate(
    weight: Any,
    outputs: Any,
    activation: str | Activation | Callable[[Any], Any] = "relu",
    *,
    prior: Prior | Sequence[Prior] | None = None,
    sd: float | None = None,
) -> Any:
    r"""Estimate the inputs of a Gaussian layer by :math:`2A^TR(Ax)/(ms^2)` (for ReLU), projected on the prior.

    Source: [PlanVershynin2016]_; 'Stable embedding' II of [Bronstein2016]_.

    See `initscope.theory.inversion.linear_estimate` for the formula and `linear_estimate_error` there for its error:
    of the order of the set's mean width over :math:`\sqrt m`. Weights and outputs are arrays or tensors, m×n and
    ``[..., m]``; the estimate comes as the outputs do.

    Parameters
    ----------
    weight : array or tensor ``[m, n]``
        Weights of the layer.
    outputs : array or tensor ``[..., m]``
        Outputs of the layer after its activation.
    activation : str, Activation or callable
        The activation.
    prior : Prior or sequence of Prior, optional
        Set on which the estimate is projected.
    sd : float, optional
        Standard deviation of the weights; default: the root mean square of ``weight``.

    Returns
    -------
    array or tensor ``[..., n]``
        The estimated inputs.

    Examples
    --------
    >>> A = np.random.default_rng(0).standard_normal((2000, 5))
    >>> x = np.array([1.0, 0, 0, 0, 0])
    >>> from initscope.invert.priors import Sparse
    >>> linear_estimate(A, np.maximum(A @ x, 0), prior=Sparse(1)).round(0)
    array([1., 0., 0., 0., 0.])
    """
    is_tensor = isinstance(outputs, Tensor)
    matrix, given = (
        value.detach().cpu().double().numpy() if isinstance(value, Tensor) else np.asarray(value, dtype=np.float64)
        for value in (weight, outputs)
    )
    if given.size == 0 or not np.isfinite(given).all():
        raise InputError("outputs are empty, or hold NaN or infinite entries; remove those samples first")
    estimate = torch.from_numpy(np.asarray(inversion.linear_estimate(matrix, given, activation, sd=sd)))
    for projection in as_priors(prior):
        rows = estimate.reshape(-1, estimate.shape[-1])
        estimate = torch.stack([projection.project(row) for row in rows]).reshape(estimate.shape)
    return estimate.to(outputs.dtype) if is_tensor else estimate.numpy()
