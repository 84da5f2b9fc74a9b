"""`recover`: the inputs of a layer or of a model from its outputs, exact if the outputs determine them.

A chain of affine maps and activations is inverted block by block (`chain`, `least_squares`, `constrained`). Other
models, and inputs that the blocks do not determine, go through `gradient`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from initscope._utils.randomness import torch_generator
from initscope.errors import InputError, check_between, check_count, check_seed
from initscope.graph import Graph, Node
from initscope.invert.chain import Chain, chain_of, prepared, run_to, step_named, traced
from initscope.invert.gradient import WINDOW, Descent, back_projection, descend
from initscope.invert.layers import LayerRecovery, undo
from initscope.invert.nonlinearities import preimage
from initscope.invert.operators import Affine
from initscope.invert.priors import Prior, as_priors
from initscope.invert.spectrum import spectrum_of
from initscope.results import Result

__all__ = ["Recovery", "recover"]

Method = Literal["auto", "layers", "svd", "lsmr", "cg", "gradient"]
METHODS = ("auto", "layers", "svd", "lsmr", "cg", "gradient")
ENOUGH = 1e-6
"""Relative residual below which an undetermined chain needs no further descent."""


@dataclass(frozen=True, eq=False)
class Recovery(Result):
    """Inputs that explain the outputs, and how sure they are.

    Attributes
    ----------
    inputs : array or tensor
        In the form of the outputs: NumPy or torch, with or without a batch.
    relative_residual : float
        ‖f(inputs) - outputs‖/‖outputs‖ of the worst sample, computed through the model itself.
    exact : bool
        Whether every layer's known rows span, for every sample: the inputs are then the only ones, up to rounding and
        noise.
    condition : float
        Condition number of the rows that were used; of several layers the product, which bounds the whole.
    noise_amplification : float
        Root mean square error of an input per unit of noise on every output; NaN if unknown.
    layers : tuple of LayerRecovery
        One per block and sample, last block first.
    method, message : str
        The method, and the part that is not determined.
    converged : bool
        False if the descent of some sample stopped at the limit of iterations before it converged.
    """

    inputs: Any
    relative_residual: float
    exact: bool
    condition: float
    noise_amplification: float
    method: str
    message: str
    iterations: int
    layers: tuple[LayerRecovery, ...] = field(repr=False)
    converged: bool = True

    def table(self) -> list[dict[str, Any]]:
        """Return one row per layer and sample; for a whole network, one row."""
        if self.layers:
            return [layer.to_dict() for layer in self.layers]
        whole, shown = self.to_dict(), ("method", "relative_residual", "exact", "converged", "iterations", "message")
        return [{name: whole[name] for name in shown}]


def recover(
    layer_or_model: nn.Module,
    outputs: Any,
    *,
    prior: Prior | Sequence[Prior] | None = None,
    method: Method = "auto",
    seed: int = 0,
    activation: nn.Module | None = None,
    layer: str | None = None,
    input_shape: Sequence[int] | None = None,
    noise: float = 0.0,
    start: Any = None,
    iterations: int | None = None,
    progress: bool = False,
) -> Recovery:
    r"""Recover the inputs of a layer or model from its outputs.

    Parameters
    ----------
    layer_or_model : torch.nn.Module
        A layer, a layer with its activation (``nn.Sequential(conv, nn.ReLU())``) or a model; it is evaluated in
        evaluation mode and not changed.
    outputs : array or tensor
        The outputs, ``[N, …]`` or one sample; their precision is used for all computations.
    prior : prior or several, optional
        Prior knowledge about inputs (`initscope.invert.priors`), used if the outputs do not determine the inputs.
    method : {"auto", "layers", "svd", "lsmr", "cg", "gradient"}
        ``layers``: block by block, solver chosen by size; ``svd``, ``lsmr``, ``cg``: that solver; ``gradient``: descent
        on the whole. ``auto``: block by block if the model is a chain of blocks, gradient descent otherwise.
    seed : int
        Seed of the initial point of the descent.
    activation : nn.Module, optional
        The activation after a bare layer: ``recover(conv, outputs, activation=nn.ReLU())``.
    layer : str, optional
        The layer of the model that made the outputs; default: the last.
    input_shape : tuple, optional
        Shape of one input, if it does not follow from that of the outputs: strides, pooling, whole networks.
    noise : float
        Standard deviation of noise on the outputs: rows count as active only well above it, and rows with a small slope
        weigh less.
    start : array, optional
        Initial point of the descent; default: the linear estimate.
    iterations : int, optional
        Most iterations of the solver.
    progress : bool
        Show a line on stderr with the current error; Ctrl-C returns the best input so far.

    Returns
    -------
    Recovery
        The inputs, whether they are exact, and how far their outputs are from the given ones.

    Notes ----- At an input only the rows with a positive product pass a ReLU. If these *active* rows span the input
    space, least squares on them recovers the input; noise of standard deviation τ then adds an error of
    :math:`\tau\sqrt{\mathrm{tr}(A_+^TA_+)^{-1}}`. If they do not, the input of least norm that also meets the bounds of
    the inactive rows is returned, or the one that fits the prior best, and ``exact`` is False. [Bronstein2016]_.
    [Bronstein2016]_.

    Examples
    --------
    >>> import torch
    >>> layer = torch.nn.Sequential(torch.nn.Linear(8, 40), torch.nn.ReLU()).double()
    >>> x = torch.arange(8, dtype=torch.float64)
    >>> recovery = recover(layer, layer(x).detach())
    >>> recovery.exact, bool((recovery.inputs - x).abs().max() < 1e-10)
    (True, True)
    """
    _check(layer_or_model, method, seed, noise, iterations)
    model = layer_or_model if activation is None else nn.Sequential(layer_or_model, activation)
    priors = as_priors(prior)
    given, dtype = _as_outputs(outputs, model)
    model = prepared(model, dtype)
    steps = traced(model, input_shape, dtype)
    last = step_named(steps, layer)
    chain = chain_of(steps, last) if method != "gradient" else Chain((), "method='gradient' was given")
    if not chain.blocks and method not in ("auto", "gradient"):
        raise InputError(f"method = {method!r} goes layer by layer, but {chain.reason}; use method='gradient'")
    unbatched = _is_single(steps, last, chain, given, input_shape)
    batch = given[None] if unbatched else given
    _refuse_bare_relu(chain, batch)
    problem = _Problem(steps, last, chain, priors, method, noise, iterations, progress, seed)
    samples = [problem.solve(target, _nth(start, index, unbatched), input_shape) for index, target in enumerate(batch)]
    inputs = torch.stack([sample.x for sample in samples])
    inputs = inputs[0] if unbatched else inputs
    return Recovery(
        inputs=inputs if isinstance(outputs, Tensor) else inputs.numpy(),
        relative_residual=max(sample.residual for sample in samples),
        exact=all(sample.exact for sample in samples),
        condition=max(sample.condition for sample in samples),
        noise_amplification=float(np.max([sample.amplification for sample in samples])),
        method=samples[0].method,
        message="; ".join(dict.fromkeys(sample.message for sample in samples if sample.message)),
        iterations=sum(sample.iterations for sample in samples),
        layers=tuple(layer for sample in samples for layer in sample.layers),
        converged=all(sample.converged for sample in samples),
    )


@dataclass(frozen=True)
class _Solution:
    """Return the solution for one sample."""

    x: Tensor
    residual: float
    exact: bool
    condition: float
    amplification: float
    method: str
    message: str
    iterations: int
    layers: tuple[LayerRecovery, ...] = ()
    converged: bool = True


@dataclass(frozen=True)
class _Problem:
    """The problem without the sample."""

    steps: Graph
    last: Node
    chain: Chain
    priors: tuple[Prior, ...]
    method: str
    noise: float
    iterations: int | None
    progress: bool
    seed: int

    def solve(self, target: Tensor, start: Tensor | None, input_shape: Sequence[int] | None) -> _Solution:
        """Solve layer by layer if the model is a chain; else, or to improve an inexact result, by descent."""
        if not self.chain.blocks:
            return self._descend(target, start, input_shape)
        operators = self.chain.operators(input_shape, target.shape, target.dtype)
        if self.method == "auto" and len(operators) > 1 and not self._may_span(operators[-1], target):
            return self._descend(target, start, operators[0].input_shape)
        solution = self._undo(operators, target)
        if solution.exact or self.method != "auto" or len(solution.layers) == 1 or solution.residual < ENOUGH:
            return solution
        more = self._descend(target, solution.x if start is None else start, solution.x.shape)
        if more.residual >= solution.residual:
            return solution
        return replace(
            solution,
            x=more.x,
            residual=more.residual,
            exact=False,
            method=f"{solution.method} then {more.method}",
            iterations=solution.iterations + more.iterations,
            converged=more.converged,
        )

    def _undo(self, operators: Sequence[Affine], target: Tensor) -> _Solution:
        solver = self.method if self.method in ("svd", "lsmr", "cg") else "auto"
        x, layers, message = undo(
            self.chain, operators, target, self.priors, self.noise, solver=solver, iterations=self.iterations
        )
        with torch.no_grad():
            image = run_to(self.steps, self.last, x[None])[0]
        return _Solution(
            x=x,
            residual=float((image - target).norm()) / max(float(target.norm()), 1e-300),
            exact=all(layer.spans for layer in layers),
            condition=math.prod(layer.condition for layer in layers),
            amplification=math.prod(layer.noise_amplification for layer in layers),
            method=" then ".join(dict.fromkeys(layer.method for layer in layers)),
            message=message,
            iterations=sum(layer.iterations for layer in layers),
            layers=layers,
        )

    def _may_span(self, affine: Affine, target: Tensor) -> bool:
        """Return whether the last block has enough known outputs; if not, inverting block by block would fail."""
        known = preimage(self.chain.blocks[-1].activation, target, self.noise).known
        return int(known.sum()) >= affine.size

    def _descend(self, target: Tensor, start: Tensor | None, input_shape: Sequence[int] | None) -> _Solution:
        if start is not None:
            input_shape = start.shape
        if input_shape is None:
            raise InputError(
                f"the shape of the input is not known ({self.chain.reason}); give input_shape, such as (3, 32, 32)"
            )
        shape = tuple(input_shape)

        def forward(x: Tensor) -> Tensor:
            return run_to(self.steps, self.last, x[None])[0]

        if start is None:
            generator = torch_generator(self.seed, "start")
            around = 1e-2 * torch.randn(shape, generator=generator, dtype=torch.float64).to(target.dtype)
            with torch.no_grad():
                _same_shape(forward(around), target)
            start = back_projection(forward, target, around, spectrum_of(shape, self.priors, target.dtype))
        else:
            start = start.to(target.dtype)
        done = descend(forward, target, start, self.priors, iterations=self.iterations or 200, progress=self.progress)
        return _Solution(
            x=done.x,
            residual=done.residual,
            exact=False,
            condition=math.nan,
            amplification=math.nan,
            method="gradient",
            message=_message(done),
            iterations=done.iterations,
            converged=done.converged,
        )


def _message(done: Descent) -> str:
    """Return a message on whether the descent converged."""
    if done.interrupted:
        return "interrupted: the best input so far"
    if done.converged:
        return "descent converged: this input fits best locally; others may fit too"
    falling = "" if math.isnan(done.gain) else f", and the last {WINDOW} still gained {done.gain:.0%}"
    return f"descent stopped after {done.iterations} iterations{falling}; more iterations may improve the result"


def _same_shape(made: Tensor, target: Tensor) -> None:
    if made.shape != target.shape:
        raise InputError(
            f"outputs have shape {tuple(target.shape)} each, but the model makes {tuple(made.shape)} of inputs of this "
            "shape; give the outputs of this layer, or another input_shape"
        )


def _check(model: Any, method: str, seed: int, noise: float, iterations: int | None) -> None:
    if not isinstance(model, nn.Module):
        raise InputError(
            f"the layer is of type {type(model).__name__}; give a torch.nn.Module, or a matrix to linear_estimate"
        )
    if method not in METHODS:
        raise InputError(f"method = {method!r} must be one of {', '.join(METHODS)}")
    check_seed("seed", seed)
    check_between("noise", noise, 0.0, math.inf, ends="low", hint="the standard deviation of the outputs' noise")
    if iterations is not None:
        check_count("iterations", iterations)


def _as_outputs(outputs: Any, model: nn.Module) -> tuple[Tensor, torch.dtype]:
    """Return outputs as a tensor in the precision to compute in."""
    try:
        given = outputs.detach().cpu() if isinstance(outputs, Tensor) else torch.from_numpy(np.asarray(outputs))
    except TypeError as error:
        raise InputError(f"outputs of type {type(outputs).__name__} are not an array of numbers: {error}") from error
    if given.numel() == 0:
        raise InputError(f"outputs of shape {tuple(given.shape)} are empty; give at least one sample")
    if given.is_complex():
        raise InputError("outputs are complex; layers of real weights have real outputs")
    kinds = [parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()]
    double = given.dtype == torch.float64 or (given.is_floating_point() is False) or torch.float64 in kinds
    dtype = torch.float64 if double else torch.float32
    wrong = int((~torch.isfinite(given)).sum()) if given.is_floating_point() else 0
    if wrong:
        raise InputError(f"outputs hold {wrong} NaN or infinite entries of {given.numel()}; remove those samples first")
    return given.to(dtype), dtype


def _is_single(steps: Graph, last: Node, chain: Chain, given: Tensor, input_shape: Sequence[int] | None) -> bool:
    """Return whether the outputs are one sample without a batch."""
    if input_shape is not None:
        with torch.no_grad():
            try:
                made = run_to(steps, last, torch.zeros(1, *input_shape, dtype=given.dtype))
            except (RuntimeError, ValueError) as error:
                raise InputError(
                    f"the model does not take inputs of shape {tuple(input_shape)}: {str(error).splitlines()[0]}"
                ) from error
        if given.shape[1:] == made.shape[1:]:
            return False
        if given.shape == made.shape[1:]:
            return True
        raise InputError(
            f"outputs have shape {tuple(given.shape)}, but the model makes {('N', *made.shape[1:])} of inputs of shape "
            f"{tuple(input_shape)}; give the outputs of this layer, or another input_shape"
        )
    expected = next((count for block in reversed(chain.blocks) for part in reversed(block.parts)
                     if (count := _dimensions(part))), 0)  # fmt: skip
    return bool(expected) and given.dim() == expected - 1


def _dimensions(part: Any) -> int:
    """Return the number of dimensions of a batch of a layer's outputs, if the layer determines it."""
    if isinstance(part, nn.Linear):
        return 2
    for count in (1, 2, 3):
        if isinstance(part, (getattr(nn, f"Conv{count}d"), getattr(nn, f"ConvTranspose{count}d"))):
            return count + 2
    return 0


def _refuse_bare_relu(chain: Chain, batch: Tensor) -> None:
    """A layer without activation does not give a tenth of exact zeros and nothing negative."""
    if not chain.blocks or chain.blocks[-1].activation is not None or batch.numel() < 10:
        return
    zeros = float((batch == 0).double().mean())
    if 0.1 < zeros < 1 and float(batch.min()) >= 0:
        raise InputError(
            f"{zeros:.0%} of the outputs are exactly 0 and none is negative, as after a ReLU, but the layer has none; "
            "give activation=torch.nn.ReLU(), or nn.Sequential(layer, nn.ReLU())"
        )


def _nth(start: Any, index: int, unbatched: bool) -> Tensor | None:
    if start is None:
        return None
    given = start.detach() if isinstance(start, Tensor) else torch.from_numpy(np.asarray(start))
    return given if unbatched else given[index]
