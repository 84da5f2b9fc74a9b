"""Gradients of a dense ReLU layer: the factorization of one sample's weight gradient, and its approximate norm.

Equations 17 to 20 of [ArpitBengio2019]_, on which theorem 3 rests; ``a`` are pre-activations, ``h`` activations,
``error`` is ∂ℓ/∂a. Arrays of NumPy or torch; samples are leading axes.
"""

from __future__ import annotations

from typing import Any

from initscope.errors import InputError
from initscope.theory._arrays import Array, namespace

__all__ = ["backward_error", "gradient_norm_equality", "weight_gradient", "weight_gradient_norm"]


def gradient_norm_equality(delta: Array, x: Array) -> Array:
    r"""Return the norm that every layer's gradient approaches in a wide network: ‖δ‖‖x‖, ``[…]`` from ``[…, units]``.

    .. math:: \Bigl\|\frac{\partial\ell}{\partial W^l}\Bigr\|_F \approx \|\delta(x, y)\|\,\|x\| \quad \forall l

    δ is the error ∂ℓ/∂a^L at the last hidden layer. [ArpitBengio2019]_ eq. 17: He fan-out, equal widths; how near is
    theorem 3, `initscope.theory.norms.gradient_bound`, and exactly `gradient_norm_failure`.

    >>> float(gradient_norm_equality([3.0, 4.0], [0.0, 2.0]))
    10.0
    """
    return weight_gradient_norm(delta, x)


def weight_gradient(error: Array, hidden: Array) -> Array:
    r"""Weight gradient of one layer for each sample, ``[…, n_l, n_{l-1}]``: an outer product.

    .. math:: \frac{\partial\ell}{\partial W^l}
              = \operatorname{diag}\Bigl(\frac{\partial\ell}{\partial a^l}\Bigr)\,\mathcal M_{n_l}(h^{l-1})

    Here :math:`\mathcal M_n(h)` is the matrix whose n rows are h. [ArpitBengio2019]_ eq. 18; exact for any activation.
    [ArpitBengio2019]_ eq. 18; exact, any activation.

    >>> weight_gradient([1.0, -2.0], [3.0, 5.0]).tolist()
    [[3.0, 5.0], [-6.0, -10.0]]
    """
    _, error, hidden = _samples(error, hidden)
    return error[..., :, None] * hidden[..., None, :]


def weight_gradient_norm(error: Array, hidden: Array) -> Array:
    r"""Frobenius norm of `weight_gradient` without forming it.

    .. math:: \Bigl\|\frac{\partial\ell}{\partial W^l}\Bigr\|_F
              = \Bigl\|\frac{\partial\ell}{\partial a^l}\Bigr\|\,\|h^{l-1}\|

    [ArpitBengio2019]_ eq. 19; exact, per sample (a mean over a batch is undone first).

    >>> float(weight_gradient_norm([3.0, 4.0], [0.0, 2.0]))
    10.0
    """
    xp, error, hidden = _samples(error, hidden)
    squares = (xp.sum(values * values, axis=-1) for values in (error, hidden))
    return xp.sqrt(next(squares)) * xp.sqrt(next(squares))


def backward_error(error: Array, weight: Array, preactivation: Array) -> Array:
    r"""Return the error one ReLU layer earlier, ``[…, n_l]``, from that at layer l + 1, ``[…, n_{l+1}]``.

    .. math:: \frac{\partial\ell}{\partial a^l}
              = \mathbb 1(a^l) \odot \Bigl(W^{l+1}{}^T\frac{\partial\ell}{\partial a^{l+1}}\Bigr)

    [ArpitBengio2019]_ eq. 20, ``weight`` [n_{l+1}, n_l]. Lemmas 4 and 5 say that its norm is kept for weights of
    variance 2/n_l, if error, weights and mask were independent (footnote 1).

    >>> backward_error([1.0], [[2.0, 3.0]], [1.0, -1.0]).tolist()
    [2.0, 0.0]
    """
    xp, error, weight, preactivation = namespace(error, weight, preactivation)
    if weight.ndim != 2 or weight.shape[0] != error.shape[-1] or weight.shape[1] != preactivation.shape[-1]:
        raise InputError(
            f"a weight of shape {tuple(weight.shape)} must be [units of the error, units before], here "
            f"[{error.shape[-1]}, {preactivation.shape[-1]}]"
        )
    back = error @ weight
    return xp.where(preactivation > 0, back, xp.zeros_like(back))


def _samples(error: Array, hidden: Array) -> tuple[Any, Array, Array]:
    """Return both as arrays with the same leading axes."""
    xp, error, hidden = namespace(error, hidden)
    if error.ndim == 0 or tuple(error.shape[:-1]) != tuple(hidden.shape[:-1]):
        raise InputError(
            f"errors of shape {tuple(error.shape)} and activations of shape {tuple(hidden.shape)} must be "
            "[samples, units] of the same samples"
        )
    return xp, error, hidden
