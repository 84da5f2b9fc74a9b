"""`Traits`: what one op of a model is, so that nobody else compares names of PyTorch's functions and classes.

The table that fills them is in ``graph/ops.py``; rows of results carry them (`initscope.geometry.Row.traits`). No torch
here, so that results stay light.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal, NamedTuple

__all__ = ["LAYER_ROLES", "NO_BOUNDS", "Normalization", "Pooling", "Role", "RowStructure", "Traits"]

Role = Literal[
    "input",  # an argument of the model
    "weights",  # multiplies by weights that an initializer draws: Linear, convolutions, a matrix of parameters
    "activation",  # one function of every unit
    "norm",  # divides by a scale that it measures
    "pooling",  # averages or maxima over positions
    "movement",  # the same values at another position or in another shape
    "scaling",  # a constant factor or summand
    "merge",  # several values added or concatenated
    "attention",  # weights computed from the data: softmax, products of two values
    "gate",  # two values multiplied unit by unit
    "recurrent",  # a loop over time: LSTM, GRU, RNN
    "embedding",  # values from a table
    "constant",  # made without reading values: zeros, masks, positions
    "bookkeeping",  # values stay as they are: dropout that is off, copies, casts
    "other",  # unknown
]

LAYER_ROLES = ("weights", "recurrent", "embedding")
"""Roles of layers: ops that have weights, or a table of them."""
NO_BOUNDS = (-math.inf, math.inf)
"""Least and largest value of an output that has neither."""


@dataclass(frozen=True)
class Normalization:
    """What a norm divides by.

    Attributes
    ----------
    kind : {"batch", "layer", "group", "rms", "instance", "other"}
        Its family.
    axes : tuple of int
        Axes of the whole tensor ``[samples, ...]`` over which the scale is taken; those that the tensor does not have
        do not count. Empty where it is no whole axis (groups of channels), or not known.
    over_samples : bool
        Whether the scale is taken over the samples of the batch, in the mode that the model was traced in.
    """

    kind: Literal["batch", "layer", "group", "rms", "instance", "other"]
    axes: tuple[int, ...] = ()
    over_samples: bool = False


@dataclass(frozen=True)
class Pooling:
    """What is taken over positions or units.

    Attributes
    ----------
    kind : {"mean", "max", "min", "sum", "other"}
        What is taken.
    axes : tuple of int or None
        Axes of the whole tensor that are reduced; None: all.
    windows : bool
        Whether it is taken over windows, so that the axes stay.
    """

    kind: Literal["mean", "max", "min", "sum", "other"]
    axes: tuple[int, ...] | None = None
    windows: bool = False


@dataclass(frozen=True)
class Traits:
    """What one op is. Everything is known from the op and its arguments alone, without a run.

    Attributes
    ----------
    role : Role
        What it does to the values, in one word.
    activation : str
        Name of the activation that it applies (a row of `initscope.graph.ACTIVATIONS`), or empty.
    bounds : (float, float)
        Least and largest value that the output can have; infinite where there is none.
    saturates : bool
        Whether it is an activation that levels off at both of its bounds (tanh, sigmoid).
    zero_is_off : bool
        Whether a unit whose output is zero passes no gradient (ReLU; not tanh).
    rectifier : bool
        Whether it is ReLU or one of its relatives with a kink at zero: ReLU6, leaky, parametric, randomized ReLU.
    is_relu : bool
        Whether it is max(x, 0) exactly.
    value_at_zero : float
        Output of the activation for input 0; 0 for other ops.
    exponential : bool
        Whether values are exponentiated: exp, softmax.
    is_view : bool
        Whether the output is part of the input, or all of it in another shape, and may share its memory.
    reshapes : bool
        Whether the output has another shape with the values in the same order: view, reshape, flatten.
    moves_values : bool
        Whether every output value is an input value, or a filled-in constant, possibly at another position.
    permutes_axes : bool
        Whether it puts axes into another order: transpose, permute, ``.T``.
    keeps_values : bool
        Whether values stay as they are, at their positions: copies, casts, dropout that is off.
    product : bool
        Whether it is a matrix product of two data values (attention scores, or weights times values).
    equation : str
        Equation of an einsum, or empty.
    gate : bool
        Whether it multiplies two data values unit by unit.
    summand_signs : tuple of int
        Signs of the two data values that it adds (1, 1) or subtracts (1, -1); empty for other ops.
    concatenates : bool
        Whether it puts several values side by side.
    random : bool
        Whether it draws random numbers in some mode: dropout, bernoulli, RReLU.
    drop_rate : float
        Probability with which a value is set to zero in training; 0 where nothing is dropped.
    drops : bool
        Whether it is dropout, whatever its probability.
    rounds : bool
        Whether its gradient is zero wherever it exists: round, sign, argmax, comparisons.
    sorts : bool
        Whether it returns its input in sorted order.
    weight_names : tuple of str
        Paths from the model of the parameters with two or more axes that it multiplies by.
    is_convolution : bool
        Whether it is a convolution, transposed or not.
    unit_axis : int or None
        Axis of one sample's output along which its units lie, where weights decide it: -1 Linear, 0 convolutions.
    normalizes : Normalization or None
        What it divides by, if it is a norm.
    softmax_axis : int or None
        Axis of the whole tensor along which a softmax sums to 1; None if it is no softmax.
    probabilities : {"", "probability", "log-probability"}
        What the output is, of a softmax or a sigmoid.
    clamps : bool
        Whether it cuts values off at ``bounds`` (clamp, clip).
    pools : Pooling or None
        What it takes over positions or units, if it does.
    reads_positions : bool
        Whether an output position depends on several input positions: convolution windows, pooling, attention, loops.
    attention : {"", "weights", "fused", "module"}
        ``weights``: a softmax, which may be that of an attention; ``fused``: one call of scaled dot-product attention;
        ``module``: a module that holds a whole attention.
    recurrent : bool
        Whether it loops over time.
    embedding : bool
        Whether it looks values up in a table.
    constant : bool
        Whether it reads no values of its arguments, only their sizes.
    detaches : bool
        Whether it cuts the gradient off and leaves the values.
    couples_samples : bool
        Whether the output of a sample depends on the other samples, in the mode that the model was traced in.
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
        """Whether the output has a least and a largest value."""
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
