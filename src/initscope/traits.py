"""`Traits`: properties of one op of a model, so that other code need not compare names of PyTorch functions.

The table of ops in ``graph/ops.py`` fills them, and rows of results have them (`initscope.geometry.Row.traits`). This
file does not import torch, so that results load fast.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal, NamedTuple

__all__ = ["LAYER_ROLES", "NO_BOUNDS", "Normalization", "Pooling", "Role", "RowStructure", "Traits"]

Role = Literal[
    "input",  # an argument of the model
    "weights",  # multiplies by weights that an initializer draws: Linear, convolutions, a matrix of parameters
    "activation",  # an elementwise function
    "norm",  # divides by a scale computed from the data
    "pooling",  # averages or maxima over positions
    "movement",  # the same values at another position or in another shape
    "scaling",  # multiplies by or adds a constant
    "merge",  # several values added or concatenated
    "attention",  # weights computed from the data: softmax, products of two values
    "gate",  # two values multiplied unit by unit
    "recurrent",  # a loop over time: LSTM, GRU, RNN
    "embedding",  # values from a table
    "constant",  # does not read values: zeros, masks, positions
    "bookkeeping",  # does not change values: inactive dropout, copies, casts
    "other",  # unknown
]

LAYER_ROLES = ("weights", "recurrent", "embedding")
"""Roles of layers: ops that have weights, or a table of them."""
NO_BOUNDS = (-math.inf, math.inf)
"""Bounds of an unbounded output."""


@dataclass(frozen=True)
class Normalization:
    """Properties of a norm.

    Attributes
    ----------
    kind : {"batch", "layer", "group", "rms", "instance", "other"}
        Family of the norm.
    axes : tuple of int
        Axes of the whole tensor ``[samples, ...]`` over which the scale is computed. Axes that the tensor does not have
        are ignored. Empty for groups of channels, or if unknown.
    over_samples : bool
        Whether the scale is computed over the batch, in the mode in which the model was traced.
    """

    kind: Literal["batch", "layer", "group", "rms", "instance", "other"]
    axes: tuple[int, ...] = ()
    over_samples: bool = False


@dataclass(frozen=True)
class Pooling:
    """Properties of a reduction over positions or units.

    Attributes
    ----------
    kind : {"mean", "max", "min", "sum", "other"}
        Reduction.
    axes : tuple of int or None
        Axes of the whole tensor that are reduced; None means all.
    windows : bool
        Whether it reduces windows, so that the number of axes does not change.
    """

    kind: Literal["mean", "max", "min", "sum", "other"]
    axes: tuple[int, ...] | None = None
    windows: bool = False


@dataclass(frozen=True)
class Traits:
    """Properties of one op, known from the op and its arguments without running the model.

    Attributes
    ----------
    role : Role
        Category of the op.
    activation : str
        Name of the activation (a row of `initscope.graph.ACTIVATIONS`), or empty.
    bounds : (float, float)
        Smallest and largest possible value of the output; infinite if unbounded.
    saturates : bool
        Whether it is an activation that saturates at both bounds (tanh, sigmoid).
    zero_is_off : bool
        Whether a unit whose output is zero passes no gradient (ReLU; not tanh).
    rectifier : bool
        Whether it is ReLU or a variant with a kink at zero: ReLU6, leaky, parametric, randomized ReLU.
    is_relu : bool
        Whether it is max(x, 0) exactly.
    value_at_zero : float
        Output of the activation for input 0; 0 for other ops.
    exponential : bool
        Whether values are exponentiated: exp, softmax.
    is_view : bool
        Whether the output is the input, or a part of it, possibly in another shape, and may share its memory.
    reshapes : bool
        Whether the output has another shape with the values in the same order: view, reshape, flatten.
    moves_values : bool
        Whether every output value is an input value, or a filled-in constant, possibly at another position.
    permutes_axes : bool
        Whether it permutes axes: transpose, permute, ``.T``.
    keeps_values : bool
        Whether values and positions do not change: copies, casts, inactive dropout.
    product : bool
        Whether it is a matrix product of two data values (attention scores, or weights times values).
    equation : str
        Equation of an einsum, or empty.
    gate : bool
        Whether it multiplies two data values elementwise.
    summand_signs : tuple of int
        Signs of the two data values that it adds (1, 1) or subtracts (1, -1); empty for other ops.
    concatenates : bool
        Whether it concatenates several values.
    random : bool
        Whether it samples random numbers in some mode: dropout, bernoulli, RReLU.
    drop_rate : float
        Probability with which a value is set to zero in training; 0 for other ops.
    drops : bool
        Whether it is dropout, with any probability.
    rounds : bool
        Whether its gradient is zero wherever it exists: round, sign, argmax, comparisons.
    sorts : bool
        Whether it returns its input in sorted order.
    weight_names : tuple of str
        Paths, in the model, of the parameters with two or more axes that it multiplies by.
    is_convolution : bool
        Whether it is a convolution, transposed or not.
    unit_axis : int or None
        Axis of the units in the output of one sample, if it has weights: -1 for Linear, 0 for convolutions.
    normalizes : Normalization or None
        Properties of the norm, if it is a norm.
    softmax_axis : int or None
        Axis of the whole tensor along which a softmax sums to 1; None for other ops.
    probabilities : {"", "probability", "log-probability"}
        Meaning of the output of a softmax or a sigmoid.
    clamps : bool
        Whether it clips values at ``bounds`` (clamp, clip).
    pools : Pooling or None
        Properties of the reduction over positions or units, if there is one.
    reads_positions : bool
        Whether an output position depends on several input positions: convolution windows, pooling, attention, loops.
    attention : {"", "weights", "fused", "module"}
        ``weights``: a softmax that may belong to attention; ``fused``: a call of scaled dot-product attention;
        ``module``: a module that computes a whole attention.
    recurrent : bool
        Whether it loops over time.
    embedding : bool
        Whether it reads values from a table.
    constant : bool
        Whether it reads only the shapes of its arguments.
    detaches : bool
        Whether it stops the gradient and preserves the values.
    couples_samples : bool
        Whether the output of a sample depends on the other samples, in the mode in which the model was traced.
    """

    role: Role = "other"
    activation: str = ""
    bounds: tuple[float, float] = NO_BOUNDS
    saturates: bool = False
    zero_is_off: bool = False
    rectifier: bool = False
    is_relu: bool = False
    value_at_zero: float = 0.0
    exponential: bool = False
    is_view: bool = False
    reshapes: bool = False
    moves_values: bool = False
    permutes_axes: bool = False
    keeps_values: bool = False
    product: bool = False
    equation: str = ""
    gate: bool = False
    summand_signs: tuple[int, ...] = ()
    concatenates: bool = False
    random: bool = False
    drop_rate: float = 0.0
    drops: bool = False
    rounds: bool = False
    sorts: bool = False
    weight_names: tuple[str, ...] = ()
    is_convolution: bool = False
    unit_axis: int | None = None
    normalizes: Normalization | None = None
    softmax_axis: int | None = None
    probabilities: Literal["", "probability", "log-probability"] = ""
    clamps: bool = False
    pools: Pooling | None = None
    reads_positions: bool = False
    attention: Literal["", "weights", "fused", "module"] = ""
    recurrent: bool = False
    embedding: bool = False
    constant: bool = False
    detaches: bool = False
    couples_samples: bool = False

    def __repr__(self) -> str:
        shown = (f.name for f in fields(self) if getattr(self, f.name) != f.default)
        return f"Traits({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    @property
    def bounded(self) -> bool:
        """Whether the output has a smallest and a largest value."""
        return math.isfinite(self.bounds[0]) and math.isfinite(self.bounds[1])


class RowStructure(NamedTuple):
    """What the row of an op is, whatever was measured there: its fields are those of `initscope.geometry.Row`."""

    layer: str
    role: str
    shape: tuple[int, ...]
    within: str
    reads: tuple[int, ...]
    traits: Traits

    @property
    def has_weights(self) -> bool:
        """Whether the op is a layer: it has weights, or a table of them."""
        return self.role in LAYER_ROLES
