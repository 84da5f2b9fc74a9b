"""`PairKernel`: the kernel of a model for pairs of inputs.

The model is traced once, and the kernel can be called often.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from initscope._utils.compiled import loops
from initscope.errors import InputError
from initscope.graph.batch import check_norms, real_tensor
from initscope.graph.borrowing import borrowed
from initscope.initializers import AnyInitializer, as_initializer
from initscope.propagate.kernels.by_rules import pair_kernel
from initscope.propagate.kernels.checked_inputs import bound_inputs, checked_model, on_device
from initscope.propagate.kernels.relu_stack import Rectified, ReluStack, Sums, stack_of
from initscope.propagate.prediction import networks_of
from initscope.theory import activations
from initscope.theory._fast import is_plain

__all__ = ["PairKernel"]

Floats = npt.NDArray[np.float64]


class PairKernel:
    r"""Expected kernel of a model for pairs: :math:`K(x_i, y_i)` for every i, where `initscope.kernel` has all i and j.

    The model is read once, at construction; calls then cost only the arithmetic. Later changes of the model have no
    effect: construct another kernel. Compiled loops (extra ``fast``) compute plain stacks of weights and ReLUs pair by
    pair in the caches, in the precision of the data; the rules of `predict` compute other models.

    Parameters
    ----------
    model : torch.nn.Module
        Any model that `predict` covers; its last step is the output. Left as it is.
    example : array or tensor, ``[N, ...]``
        Inputs of the shape that pairs will have.
    initializer, kind, normalize, draws, seed, device
        As `initscope.kernel`'s.

    Examples
    --------
    >>> import torch
    >>> layer = torch.nn.Sequential(torch.nn.Linear(2, 100, bias=False), torch.nn.ReLU())
    >>> cosines = PairKernel(layer, [[1.0, 1.0]])
    >>> cosines([[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]).round(4)
    array([0.3183, 1.    ])
    """

    def __init__(
        self,
        model: nn.Module,
        example: Any,
        *,
        initializer: AnyInitializer | None = None,
        kind: Literal["nngp", "ntk"] = "nngp",
        normalize: bool = True,
        draws: int = 4,
        seed: int = 0,
        device: str | torch.device | None = None,
    ) -> None:
        self._device = device
        self._model, example = on_device(checked_model(model, kind), device, example)
        self._kind, self._normalize = kind, normalize
        inputs = bound_inputs(self._model, example, "example")
        size, chosen = min(inputs.samples, 16), as_initializer(initializer)
        (first, *_) = inputs.sample_tensors()
        self._shape = tuple(first.shape[1:])
        self._compiled: _Compiled | None = None
        fused = loops("initscope.theory._fused", pays=True) if kind == "nngp" and first.device.type == "cpu" else None
        with borrowed(self._model):
            self._networks = networks_of(self._model, inputs, chosen, draws=draws, seed=seed, size=size)
            stack = stack_of(self._networks.traced, self._networks.context, self._shape) if fused is not None else None
        if stack is not None and not stack.mean.pooled:
            self._compiled = _Compiled(stack, self._shape, fused)

    def __call__(self, x: Any, y: Any) -> Floats:
        """Return cosines of the pairs ``[N]``, inner products per unit if not ``normalize``; x and y ``[N, ...]``."""
        _, x, y = on_device(self._model, self._device, x, y)
        left, right = (side if isinstance(side, Tensor) else real_tensor(side) for side in (x, y))
        for name, side in (("x", left), ("y", right)):
            if tuple(side.shape[1:]) != self._shape or len(side) == 0:
                raise InputError(f"{name} has shape {tuple(side.shape)}, and the example had [N, {self._shape}]")
        if len(left) != len(right):
            raise InputError(f"x has {len(left)} inputs and y {len(right)}; pairs need the same number of both")
        if self._compiled is not None and left.dtype == right.dtype and is_plain(left) and is_plain(right):
            return self._compiled(left, right, normalize=self._normalize)
        return self._by_rules(left, right)

    def _by_rules(self, left: Tensor, right: Tensor) -> Floats:
        sides = [bound_inputs(self._model, side, name) for side, name in ((left, "x"), (right, "y"))]
        indices, tangents = torch.arange(len(left)), self._kind == "ntk"

        def compute(a: Any, b: Any) -> Floats:
            return pair_kernel(self._networks, a, b, (indices, indices), tangents=tangents)

        with borrowed(self._model):
            xy = compute(*sides)
            if self._normalize:
                xy = xy / np.sqrt(compute(sides[0], sides[0]) * compute(sides[1], sides[1]))
        return np.asarray(xy.mean(axis=0))


class _Compiled:
    """Compute a stack on pairs: by loops on maps, then by formulas on one number per pair."""

    def __init__(self, stack: ReluStack, shape: tuple[int, ...], fused: Any) -> None:
        self._dense = stack.dense_steps
        steps = stack.image_steps
        layers = [
            fused.Layer(step.taps.options, step.gain, step.bias, steps[index + 1 : index + 2] == (Rectified(),))
            for index, step in enumerate(steps)
            if isinstance(step, Sums) and step.taps is not None
        ]
        # A vector is an image of one pixel, whose channels the first layer adds up.
        self._stack = fused.Stack(shape[1:] if steps else (1, 1), layers)

    def __call__(self, x: Tensor, y: Tensor, *, normalize: bool) -> Floats:
        squares = [torch.linalg.vector_norm(side.reshape(len(side), -1), dim=1) for side in (x, y)]
        check_norms(x, y, *squares)
        sides = [side.reshape(len(side), -1, *self._stack.size).numpy() for side in (x, y)]
        xx, yy, d = self._stack.sums(*sides) / math.prod(self._stack.out_size)
        for step in self._dense:
            if isinstance(step, Sums):
                xx, yy, d = step.gain * xx + step.bias, step.gain * yy + step.bias, step.gain * d
            else:
                xx, yy, d = activations.relu.transform(xx, yy, d)
        inner = (xx + yy - d) / 2
        return np.asarray(inner / np.sqrt(xx * yy) if normalize else inner)
