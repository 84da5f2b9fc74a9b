"""`kernel`: the expected kernel of a model on a data set."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from initscope._utils.compiled import loops
from initscope.errors import InputError
from initscope.graph import Inputs
from initscope.graph.borrowing import borrowed
from initscope.initializers import AnyInitializer, as_initializer
from initscope.propagate.kernels.by_rules import pair_kernel
from initscope.propagate.kernels.checked_inputs import bound_inputs, checked_model, on_device
from initscope.propagate.kernels.relu_stack import ReluStack, stack_of
from initscope.propagate.networks import Networks
from initscope.propagate.prediction import networks_of
from initscope.propagate.spread import standard_error

__all__ = ["diagonal", "kernel"]

Floats = npt.NDArray[np.float64]
Parts = tuple[Floats, Floats, Floats]
_WORTH_COMPILING = 1 << 21  # pairs × input values × offsets; below, the rules take less time than loading the loops


def kernel(
    model: nn.Module,
    images: Any,
    others: Any = None,
    *,
    initializer: AnyInitializer | None = None,
    kind: Literal["nngp", "ntk"] = "nngp",
    normalize: bool = True,
    draws: int = 4,
    seed: int = 0,
    return_error: bool = False,
    device: str | torch.device | None = None,
) -> Any:
    r"""Return the expected kernel of ``model`` with random weights on all pairs of inputs, as its width grows.

    ``"nngp"``: the covariance of an output unit for two inputs, :math:`K_{ij} = E[f(x_i)f(x_j)]` [Daniely2016]_; the
    wide network is a Gaussian process with it [Lee2018]_. ``"ntk"``: the inner product of the gradients of an output
    unit with respect to all weights [Jacot2018]_, each weight written as its deviation times a standard normal number.
    Compiled loops in float32 compute plain stacks of weights and ReLUs; the rules of `predict` compute all other
    models.

    Parameters
    ----------
    model : torch.nn.Module
        Any model that `predict` covers; its last step is the output. Left as it is.
    images, others : array or tensor, ``[N, ...]`` and ``[M, ...]``
        Inputs. Without ``others`` the kernel is that of ``images`` with themselves, symmetric.
    initializer : Initializer, its class or its name, optional
        Draws the weights. None: zero-mean Gaussian with the variance that each layer's weights have now.
    kind : {"nngp", "ntk"}
        Which kernel.
    normalize : bool
        Cosines, :math:`K_{ij}/\sqrt{K_{ii}K_{jj}}`; if False inner products per unit of the output.
    draws : int
        Networks to draw for steps without a rule.
    seed : int
        Of all sampling.
    return_error : bool
        Whether to return standard errors too.
    device : str or torch.device, optional
        Device of torch, such as ``"cuda"``; the compiled loops run on the CPU. None: the device of the images.

    Returns
    -------
    ndarray, ``[N, N]`` or ``[N, M]``
        In float64. With ``return_error``, a tuple of the kernel and its standard errors, which are 0 unless steps of
        the model had to be sampled. Pairs are then sampled in batches, and such a kernel may have small negative
        eigenvalues.

    Examples
    --------
    >>> import torch, initscope
    >>> layer = torch.nn.Sequential(torch.nn.Linear(2, 100, bias=False), torch.nn.ReLU())
    >>> initscope.kernel(layer, [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]).round(4)
    array([[1.    , 0.3183, 0.7554],
           [0.3183, 1.    , 0.7554],
           [0.7554, 0.7554, 1.    ]])
    """
    model, images, others = on_device(checked_model(model, kind), device, images, others)
    left = bound_inputs(model, images, "images")
    right = left if others is None else bound_inputs(model, others, "others")
    if [t.shape[1:] for t in left.sample_tensors()] != [t.shape[1:] for t in right.sample_tensors()]:
        shapes = (tuple(side.sample_tensors()[0].shape[1:]) for side in (left, right))
        raise InputError("images have shape {} and others {}; both must be inputs of one model".format(*shapes))
    with borrowed(model):
        networks = networks_of(
            model, left, as_initializer(initializer), draws=draws, seed=seed, size=min(left.samples, 16)
        )
        values, xx, yy = _all_pairs(networks, left, None if others is None else right, tangents=kind == "ntk")
    if normalize:
        values = values / np.sqrt(xx[:, :, None] * yy[:, None, :])
        if others is None:
            values[:, np.arange(left.samples), np.arange(left.samples)] = 1.0
    k = values.mean(axis=0)
    if not return_error:
        return k
    return k, np.zeros_like(k) if len(values) == 1 else standard_error(values)


def diagonal(
    model: nn.Module,
    images: Any,
    *,
    initializer: AnyInitializer | None = None,
    kind: Literal["nngp", "ntk"] = "nngp",
    draws: int = 4,
    seed: int = 0,
    device: str | torch.device | None = None,
) -> Floats:
    """Return the kernel of every input with itself, not normalized: ``[N]``, at the cost of N pairs.

    Arguments as `kernel`'s.

    Examples
    --------
    >>> import torch
    >>> diagonal(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.ReLU()), [[3.0, -4.0]])   # no weights: (9 + 0)/2
    array([4.5])
    """
    model, images = on_device(checked_model(model, kind), device, images)
    inputs = bound_inputs(model, images, "images")
    indices, chosen = torch.arange(inputs.samples), as_initializer(initializer)
    with borrowed(model):
        networks = networks_of(model, inputs, chosen, draws=draws, seed=seed, size=min(inputs.samples, 16))
        stack = _stack(networks, inputs, pairs=inputs.samples)
        if stack is not None and stack.mean.pooled:
            from initscope.propagate.kernels.stacks import stack_diagonal

            return stack_diagonal(stack, inputs.tensors()[0], tangent=kind == "ntk")
        return np.asarray(
            pair_kernel(networks, inputs, inputs, (indices, indices), tangents=kind == "ntk").mean(axis=0)
        )


def _all_pairs(networks: Networks, left: Inputs, right: Inputs | None, *, tangents: bool) -> Parts:
    """Return the kernel and the diagonals of both sides for every replicate.

    ``[1, N, M]``, ``[1, N]`` … if they do not differ.
    """
    stack = _stack(networks, left, pairs=left.samples * (left if right is None else right).samples)
    if stack is None:
        return _by_rules(networks, left, right, tangents=tangents)
    from initscope.propagate.kernels.stacks import stack_kernel

    (images,), others = left.tensors(), None if right is None else right.tensors()[0]
    k, xx, yy = stack_kernel(stack, images, others, tangent=tangents)
    return k.astype(np.float64)[None], xx[None], yy[None]


def _stack(networks: Networks, inputs: Inputs, *, pairs: int) -> ReluStack | None:
    """Return the model as a stack for the compiled loops, if it runs on the CPU and loading the loops pays or is done.

    The loops for pooled maps are used only if loading them pays in this call, because the rules are more precise.
    """
    (images,) = inputs.tensors()
    stack = stack_of(networks.traced, networks.context, tuple(images.shape[1:]))
    if stack is None or images.device.type != "cpu":
        return None
    pays = pairs * images[0].numel() * max(1, stack.mean.pooled) >= _WORTH_COMPILING
    if stack.mean.pooled and not pays:
        return None
    return stack if loops("initscope.propagate.kernels._fused", pays=pays) is not None else None


def _by_rules(networks: Networks, left: Inputs, right: Inputs | None, *, tangents: bool) -> Parts:
    """Compute every pair once, and every input with itself, by the rules of prediction."""
    n, m = left.samples, left.samples if right is None else right.samples
    every = torch.arange(n), torch.arange(m)
    rows, columns = torch.triu_indices(n, n) if right is None else torch.cartesian_prod(*every).T
    xy = pair_kernel(networks, left, left if right is None else right, (rows, columns), tangents=tangents)
    k = np.zeros((len(xy), n, m))
    k[:, rows, columns] = xy
    if right is None:
        k[:, columns, rows] = xy
        squares = k.diagonal(axis1=1, axis2=2).copy()
        return k, squares, squares
    squares, other_squares = (
        pair_kernel(networks, side, side, (indices, indices), tangents=tangents)
        for side, indices in zip((left, right), every, strict=True)
    )
    return k, squares, other_squares
