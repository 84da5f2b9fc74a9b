r"""Singular values of a model's input-output Jacobian: all of them where it is small, else their mean square and ends.

Only products with the Jacobian J and its transpose are needed, so the method works for any model: :math:`J^T u` is one
backward pass, and :math:`J w` is the derivative of :math:`\langle J^T u, w\rangle` with respect to u.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from initscope._utils.randomness import generator
from initscope.errors import InputError, check_count
from initscope.geometry import Floats
from initscope.graph import Batch, Mode, output_tensor, set_mode
from initscope.graph.borrowing import borrowed, runnable, without_dropout
from initscope.measurement.stream import batches
from initscope.results import Result

__all__ = ["JacobianSpectrum", "jacobian_spectrum"]

_WHOLE_ENTRIES = 1 << 22  # of a Jacobian that is taken whole
_WHOLE_SIDE = 1024


@dataclass(frozen=True)
class JacobianSpectrum(Result):
    """Singular values of ∂f/∂x at each of some inputs.

    Attributes
    ----------
    mean_square : array ``[samples]``
        ‖J‖_F² over the smaller side of J: the mean square singular value.
    mean_square_error : array ``[samples]``
        Its standard error; 0 if the whole J was computed.
    largest, smallest : array ``[samples]``
        Extreme singular values. If the whole J was not computed, these are Lanczos estimates: ``largest`` from below,
        ``smallest`` from above.
    values : array ``[samples, smaller side]`` or None
        All singular values in descending order, if the whole J was computed.
    inputs, outputs : int
        Size of J.
    method : str
        ``whole`` or ``products``.
    """

    mean_square: Floats
    mean_square_error: Floats
    largest: Floats
    smallest: Floats
    values: Floats | None
    inputs: int
    outputs: int
    method: str

    def table(self) -> list[dict[str, Any]]:
        """Return one dict per sample."""
        names = ("mean_square", "mean_square_error", "largest", "smallest")
        return [{name: float(getattr(self, name)[i]) for name in names} for i in range(len(self.largest))]


def jacobian_spectrum(
    model: nn.Module,
    data: Any,
    *,
    samples: int = 4,
    probes: int = 32,
    steps: int = 24,
    mode: Mode | None = "eval",
    seed: int = 0,
    whole: bool | None = None,
) -> JacobianSpectrum:
    r"""Compute singular values of the Jacobian of ``model`` at ``samples`` inputs.

    The mean square comes from :math:`E\|J^T u\|^2 = \|J\|_F^2` with Gaussian u, the extremes from Golub–Kahan–Lanczos
    bidiagonalisation with full reorthogonalisation. Dynamical isometry [Saxe2014]_ means that all of them are near 1;
    deep dense ReLU networks are far from it ([Nachum2022]_ section 1). Prediction for wide dense networks:
    `initscope.theory.jacobians.singular_value_distribution`.

    Parameters
    ----------
    model, data
        As for `observe`; the model must have one input tensor, and is restored.
    samples : int
        Number of inputs, in random order.
    probes, steps : int
        Random vectors for the mean square; Lanczos steps for the extremes.
    mode : "train", "eval" or None
        In train mode, batch norm would couple the samples, so they are run one by one. Dropout is off in both.
    seed : int
        Seed of the order of the inputs and of the random vectors.
    whole : bool, optional
        Take the whole Jacobian; None: if it has at most 2²² entries and a side of at most 1024.

    Returns
    -------
    JacobianSpectrum

    Examples
    --------
    >>> import torch
    >>> layer = torch.nn.Linear(6, 4, bias=False)
    >>> found = jacobian_spectrum(layer, torch.randn(3, 6), samples=1)
    >>> exact = torch.linalg.svdvals(layer.weight.detach())
    >>> bool(abs(found.largest[0] - float(exact[0])) < 1e-5)
    True
    """
    samples, probes = check_count("samples", samples), check_count("probes", probes, least=2)
    steps, seed = check_count("steps", steps, least=2), check_count("seed", seed, least=0)
    model = runnable(model)
    spectra: list[tuple[float, float, float, float, Floats | None]] = []
    sizes = (0, 0)
    with borrowed(model), without_dropout(model):
        set_mode(model, mode)
        for parameter in model.parameters():
            parameter.requires_grad_(False)
        for sample in _samples(model, data, samples, seed):
            try:
                products = _Products(model, sample)
                sizes = products.inputs, products.outputs
                small = min(sizes) <= _WHOLE_SIDE and sizes[0] * sizes[1] <= _WHOLE_ENTRIES
                take_whole = small if whole is None else whole
                spectra.append(_whole(products) if take_whole else _by_products(products, probes, steps, seed))
            except Exception as error:  # whatever the user's forward, or its derivative, raises
                raise sample.inputs.refused(error) from error
    columns = [np.array([entry[index] for entry in spectra]) for index in range(4)]
    values = None if spectra[0][4] is None else np.stack([entry[4] for entry in spectra if entry[4] is not None])
    method = "products" if values is None else "whole"
    return JacobianSpectrum(columns[0], columns[1], columns[2], columns[3], values, sizes[0], sizes[1], method)


def _samples(model: nn.Module, data: Any, samples: int, seed: int) -> list[Batch]:
    """Yield the first ``samples`` inputs of the data, one by one."""
    samples_of_one: list[Batch] = []
    for batch in batches(model, data, seed=seed):
        samples_of_one.extend(
            batch.pick(slice(index, index + 1)) for index in range(min(len(batch), samples - len(samples_of_one)))
        )
        if len(samples_of_one) == samples:
            break
    if not samples_of_one:
        raise InputError("the data has no samples")
    return samples_of_one


class _Products:
    """J w and Jᵀ u at one input."""

    def __init__(self, model: nn.Module, sample: Batch) -> None:
        real = [tensor for tensor in sample.inputs.tensors() if tensor.is_floating_point()]
        if len(real) != 1:
            raise InputError(f"the model has {len(real)} real-valued inputs; its Jacobian needs exactly one")
        with torch.enable_grad():
            self.x = real[0].detach().requires_grad_()
            # A copy, because the model may write into its input.
            inputs = sample.inputs.map(lambda tensor: self.x.clone() if tensor is real[0] else tensor)
            output = output_tensor(model(*inputs.args, **inputs.kwargs), 1)
            if output is None or not output.requires_grad:
                raise InputError("the model's output does not depend on its input, so there is no Jacobian")
            self.output = output
            self.u = torch.zeros_like(output, requires_grad=True)
            (self.pulled,) = torch.autograd.grad(output, self.x, self.u, create_graph=True, materialize_grads=True)
        self.inputs, self.outputs = self.x.numel(), output.numel()

    def transposed(self, vector: Tensor) -> Tensor:
        """Return Jᵀ times ``vector``."""
        (result,) = torch.autograd.grad(self.output, self.x, vector.view_as(self.output), retain_graph=True)
        return result.flatten()

    def forward(self, vector: Tensor) -> Tensor:
        """Return J times ``vector``, as the derivative of ⟨Jᵀu, vector⟩ with respect to u."""
        (result,) = torch.autograd.grad(self.pulled, self.u, vector.view_as(self.x), retain_graph=True)
        return result.flatten()


def _whole(products: _Products) -> tuple[float, float, float, float, Floats]:
    product: Callable[[Tensor], Tensor]
    if products.outputs <= products.inputs:
        size, product, like = products.outputs, products.transposed, products.output
    else:
        size, product, like = products.inputs, products.forward, products.x
    rows = [product(unit) for unit in torch.eye(size, dtype=like.dtype, device=like.device)]
    values = torch.linalg.svdvals(torch.stack(rows).double()).cpu().numpy()
    return float((values**2).mean()), 0.0, float(values[0]), float(values[-1]), values


def _by_products(products: _Products, probes: int, steps: int, seed: int) -> tuple[float, float, float, float, None]:
    rng = generator(seed, "probes of a Jacobian")

    def draw(size: int) -> Tensor:
        return torch.as_tensor(rng.standard_normal(size)).to(products.output)

    squares = np.array(
        [float(products.transposed(draw(products.outputs)).double().square().sum()) for _ in range(probes)]
    )
    side = min(products.inputs, products.outputs)
    largest, smallest = _lanczos(products, draw(side), min(steps, side))
    return squares.mean() / side, squares.std(ddof=1) / np.sqrt(probes) / side, largest, smallest, None


def _lanczos(products: _Products, start: Tensor, steps: int) -> tuple[float, float]:
    """Return extreme singular values of the bidiagonal matrix of J on a Krylov space of its smaller side.

    On the larger side the kernel of J would count as small singular values.
    """
    there, back_again, dtype = products.forward, products.transposed, products.x.dtype
    if products.outputs < products.inputs:
        there, back_again = back_again, there
    right, left = [(start / start.norm()).double()], list[Tensor]()
    bidiagonal = torch.zeros(steps, steps, dtype=torch.float64)
    for step in range(steps):
        image = there(right[step].to(dtype)).double()
        if step:
            image = image - bidiagonal[step - 1, step] * left[step - 1]
        image = _orthogonalized(image, left)
        bidiagonal[step, step] = length = image.norm()
        if length <= 1e-12 * bidiagonal.abs().max():
            return _ends(bidiagonal[: step + 1, : step + 1])
        left.append(image / length)
        back = back_again(left[step].to(dtype)).double() - length * right[step]
        back = _orthogonalized(back, right)
        if step + 1 == steps or back.norm() <= 1e-12 * bidiagonal.abs().max():
            return _ends(bidiagonal[: step + 1, : step + 1])
        bidiagonal[step, step + 1] = back.norm()
        right.append(back / back.norm())
    return _ends(bidiagonal)


def _orthogonalized(vector: Tensor, basis: list[Tensor]) -> Tensor:
    for _ in range(2):  # twice is enough
        for direction in basis:
            vector = vector - (direction @ vector) * direction
    return vector


def _ends(matrix: Tensor) -> tuple[float, float]:
    values = torch.linalg.svdvals(matrix)
    return float(values[0]), float(values[-1])
