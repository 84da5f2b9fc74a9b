"""The one table of what PyTorch's functions, methods and modules are; code outside of ``graph/`` compares no names.

`OPS` has an entry for every function by its name (see `call_name`); `MODULES` says which function a module is.
`initscope.graph.op_traits` fills in what depends on arguments (the axis of a softmax, the probability of dropout).
Activations have a table of their own (`initscope.graph.ACTIVATIONS`), which says more about them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeGuard, get_args

from torch import nn
from torch.nn.modules import padding, pooling
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.instancenorm import _InstanceNorm

from initscope.errors import InputError
from initscope.traits import Normalization, Pooling, Role, Traits

__all__ = [
    "DATA_ATTRIBUTES",
    "FACTORS",
    "MODULES",
    "OPS",
    "READS_VALUES",
    "SIZES",
    "TRANSPOSES",
    "WEIGHT_LAYERS",
    "Op",
    "WeightLayer",
    "declare_role",
    "draws_numbers",
    "is_convolution",
    "is_weight_layer",
    "module_op",
]


_UNKNOWN = Traits()


@dataclass(frozen=True)
class Op:
    """What a function is, independent of its arguments.

    Attributes
    ----------
    name : str
        Name of the function.
    traits : Traits
        Role of a call that reads one value of the data.
    role_of_several : Role, optional
        Role of a call that reads several values of the data.
    may_alias : bool
        Whether the output may share memory with the first argument.
    """

    name: str
    traits: Traits = _UNKNOWN
    role_of_several: Role | None = None
    may_alias: bool = False


OPS: dict[str, Op] = {}


def _ops(names: str, *, several: Role | None = None, may_alias: bool | None = None, **traits: Any) -> None:
    """Add facts to the entries of these functions; later lines add to earlier ones."""
    for name in names.split():
        op = OPS.get(name, Op(name))
        OPS[name] = Op(
            name,
            replace(op.traits, **traits),
            op.role_of_several if several is None else several,
            op.may_alias if may_alias is None else may_alias,
        )


# Weights: Linear, convolutions, products. Which parameters they are is read from the call.
_ops("linear addmm baddbmm bilinear", role="weights")
_ops("linear", unit_axis=-1)
_CONVOLUTIONS = "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d"
_ops(_CONVOLUTIONS, role="weights", is_convolution=True, unit_axis=0, reads_positions=True)
_ops("matmul mm bmm einsum tensordot dot", role="weights", several="attention")

# Norms.
_ops(
    "batch_norm layer_norm group_norm instance_norm rms_norm local_response_norm normalize rsqrt std var norm",
    role="norm",
)
for _name in ("batch", "layer", "group", "rms", "instance"):
    _ops(f"{_name}_norm", normalizes=Normalization(_name))
_ops("local_response_norm normalize", normalizes=Normalization("other"))

# Pooling: over windows, or over whole axes.
for _name, _pools in (
    ("mean avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d", "mean"),
    ("max amax max_pool1d max_pool2d max_pool3d fractional_max_pool2d fractional_max_pool3d", "max"),
    ("adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d", "max"),
    ("min amin", "min"),
    ("logsumexp lp_pool1d lp_pool2d lp_pool3d", "other"),
):
    _ops(_name, role="pooling", pools=Pooling(_pools), reads_positions=True)  # type: ignore[arg-type]
_ops("sum cumsum", role="merge")
_ops("sum", pools=Pooling("sum"), reads_positions=True)

# Movements: the same values at another position or in another shape.
_VIEWS = (
    "view view_as reshape reshape_as flatten unflatten ravel permute transpose swapaxes swapdims movedim moveaxis t T "
    "mT H mH adjoint unsqueeze squeeze expand expand_as broadcast_to chunk split split_with_sizes tensor_split hsplit "
    "vsplit dsplit unbind narrow select getitem diagonal unfold as_strided"
)
_ops(_VIEWS, role="movement", is_view=True, moves_values=True, may_alias=True)
_ops("as_strided", moves_values=False)  # which reads memory as it lies
_ops("view view_as reshape reshape_as flatten unflatten ravel squeeze unsqueeze", reshapes=True)
_ops("permute transpose swapaxes swapdims movedim moveaxis t T mT H mH adjoint", permutes_axes=True)
_ops(
    "pad roll flip repeat repeat_interleave tile gather index_select take_along_dim tril triu pixel_shuffle "
    "pixel_unshuffle channel_shuffle interpolate upsample rot90 grid_sample max_unpool",
    role="movement",
    moves_values=True,
)
_ops("interpolate upsample grid_sample", moves_values=False)  # which may average neighbors

# Sums, products and quotients of one value and a constant, or of several values.
_ops("add radd", role="scaling", several="merge", summand_signs=(1, 1))
_ops("sub rsub", role="scaling", several="merge", summand_signs=(1, -1))
_ops("mul rmul", role="scaling", several="gate")
_ops("div rtruediv", role="scaling", several="norm")
_ops("neg", role="scaling")
_ops("cat concat concatenate stack hstack vstack", role="merge", concatenates=True)
_ops("index_add fold", role="merge")
_ops("glu", role="gate", gate=True)

# Attention.
_ops("scaled_dot_product_attention", role="attention", attention="fused", reads_positions=True)
_ops("multi_head_attention_forward", role="attention", attention="module", reads_positions=True)
_ops("softmax softmax2d softmin", probabilities="probability", bounds=(0.0, 1.0))
_ops("log_softmax", probabilities="log-probability", bounds=(-float("inf"), 0.0))
_ops("softmax softmax2d softmin log_softmax", role="attention", exponential=True, softmax_axis=1)
_ops("softmax", attention="weights")

# Loops over time, tables.
_ops("lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell", role="recurrent", recurrent=True)
_ops("lstm gru rnn_tanh rnn_relu", reads_positions=True)
_ops("embedding embedding_bag one_hot", role="embedding", embedding=True)

# What reads no values, or returns orders and comparisons.
_ops(
    "new_empty new_zeros new_ones new_full new_tensor empty_like zeros_like ones_like full_like rand_like randn_like "
    "randint_like zeros ones empty rand randn",
    role="constant",
    constant=True,
)
_ops("full arange linspace bernoulli", role="constant")
_ops(
    "eq ne lt le gt ge logical_and logical_or logical_not isnan argmax argmin topk argsort",
    role="constant",
    rounds=True,
)
_ops("topk", rounds=False)
_ops("round floor ceil trunc fix sgn heaviside floordiv", rounds=True)
_ops("sort", sorts=True)
_ops("clamp clip", clamps=True)

# What leaves values as they are.
_DROPOUTS = "dropout dropout1d dropout2d dropout3d alpha_dropout feature_dropout feature_alpha_dropout"
_ops(_DROPOUTS, drops=True, random=True)
_ops(f"{_DROPOUTS} contiguous clone detach float double to type_as cpu cuda identity", keeps_values=True)
_ops(f"{_DROPOUTS} contiguous clone detach float double to type_as cpu cuda identity", role="bookkeeping")
_ops("half bfloat16 type masked_fill where getattr overwritten", role="bookkeeping")
_ops(
    f"{_DROPOUTS} contiguous detach data real imag to type type_as float double half bfloat16 cpu cuda identity",
    may_alias=True,
)
_ops("detach", detaches=True)
_ops("feature_dropout", may_alias=False)

# What draws numbers.
_ops(
    "rand randn randint randperm rand_like randn_like randint_like normal bernoulli multinomial poisson binomial "
    "gumbel_softmax fractional_max_pool2d fractional_max_pool3d uniform exponential cauchy geometric log_normal random "
    "rrelu",
    random=True,
)

SIZES = frozenset({
    "size", "dim", "ndimension", "numel", "nelement", "stride", "get_device", "type", "element_size", "is_contiguous",
    "is_floating_point", "is_complex", "item", "tolist", "len",
})  # fmt: skip
"""Methods whose result is no tensor of data."""
DATA_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "data", "real", "imag"})
"""Attributes of a tensor that hold its values."""
READS_VALUES = frozenset({
    "__bool__", "__int__", "__float__", "__index__", "__contains__", "__array__", "item", "tolist", "numpy", "nonzero",
    "argwhere", "unique", "unique_consecutive", "masked_select", "equal", "allclose", "is_nonzero", "bincount",
    "repeat_interleave", "split", "tensor_split",
})  # fmt: skip
"""Calls that hand values to Python, or make sizes of them."""

FACTORS: dict[str, tuple[tuple[int, bool], ...]] = {
    "linear": ((1, False),),
    **dict.fromkeys(("matmul", "mm", "bmm", "grouped_mm"), ((0, False), (1, True))),
    **dict.fromkeys(("addmm", "baddbmm"), ((1, False), (2, True))),
}
"""Arguments of a function that may be weights, each with whether its first axis meets the data (``x @ w``)."""
TRANSPOSES = frozenset(name for name, op in OPS.items() if op.traits.permutes_axes)
"""Functions, methods and attributes that put the axes of a matrix into another order."""

MODULES: dict[type[nn.Module], str] = {
    nn.Linear: "linear",
    nn.Bilinear: "bilinear",
    _ConvNd: "conv2d",
    nn.Embedding: "embedding",
    nn.EmbeddingBag: "embedding_bag",
    _BatchNorm: "batch_norm",
    _InstanceNorm: "instance_norm",
    _NormBase: "batch_norm",
    nn.LayerNorm: "layer_norm",
    nn.GroupNorm: "group_norm",
    nn.RMSNorm: "rms_norm",
    nn.LocalResponseNorm: "local_response_norm",
    nn.CrossMapLRN2d: "local_response_norm",
    pooling._MaxPoolNd: "max_pool2d",
    pooling._AvgPoolNd: "avg_pool2d",
    pooling._AdaptiveAvgPoolNd: "adaptive_avg_pool2d",
    pooling._AdaptiveMaxPoolNd: "adaptive_max_pool2d",
    pooling._LPPoolNd: "lp_pool2d",
    nn.FractionalMaxPool2d: "fractional_max_pool2d",
    nn.FractionalMaxPool3d: "fractional_max_pool3d",
    pooling._MaxUnpoolNd: "max_unpool",
    padding._ConstantPadNd: "pad",
    padding._CircularPadNd: "pad",
    padding._ReflectionPadNd: "pad",
    padding._ReplicationPadNd: "pad",
    nn.Flatten: "flatten",
    nn.Unflatten: "unflatten",
    nn.Upsample: "interpolate",
    nn.PixelShuffle: "pixel_shuffle",
    nn.PixelUnshuffle: "pixel_unshuffle",
    nn.ChannelShuffle: "channel_shuffle",
    nn.Fold: "fold",
    nn.Unfold: "unfold_windows",
    nn.MultiheadAttention: "multi_head_attention_forward",
    nn.Softmax: "softmax",
    nn.LogSoftmax: "log_softmax",
    nn.Softmax2d: "softmax2d",
    nn.Softmin: "softmin",
    nn.GLU: "glu",
    nn.LSTM: "lstm",
    nn.GRU: "gru",
    nn.RNNBase: "rnn_tanh",
    nn.LSTMCell: "lstm_cell",
    nn.GRUCell: "gru_cell",
    nn.RNNCellBase: "rnn_tanh_cell",
    nn.Identity: "identity",
    _DropoutNd: "dropout",
}
"""Which function a module is; subclasses are the same."""
_ops("unfold_windows", role="movement", moves_values=True)

_DECLARED: dict[type[nn.Module], Role] = {}


def declare_role(kind: type[nn.Module], role: Role) -> None:
    """Declare what modules of a class do; subclasses do the same.

    Parameters
    ----------
    kind : type
        A class of modules.
    role : Role
        Their role.
    """
    if role not in get_args(Role):
        raise InputError(f"role = {role!r} is unknown; choose one of {', '.join(get_args(Role))}")
    _DECLARED[kind] = role
    _BY_CLASS.clear()


_BY_CLASS: dict[type, Op | None] = {}


def module_op(kind: type) -> Op | None:
    """Return the op that modules of a class are: a user's declaration, or the table's; None if neither has it."""
    if kind in _BY_CLASS:
        return _BY_CLASS[kind]
    op = _op_of_class(kind)
    if kind.__module__.startswith("torch.nn.modules."):  # of others there may be no end
        _BY_CLASS[kind] = op
    return op


def _op_of_class(kind: type) -> Op | None:
    for base in kind.__mro__:
        op = OPS[MODULES[base]] if base in MODULES else Op("")
        if base in _DECLARED:
            return replace(op, traits=replace(op.traits, role=_DECLARED[base]))
        if base in MODULES:
            return op
    return None


WeightLayer = nn.Linear | _ConvNd
"""Layers whose weights an initializer draws."""
WEIGHT_LAYERS = (nn.Linear, _ConvNd)
"""The same for ``isinstance``."""


def is_weight_layer(module: Any) -> TypeGuard[WeightLayer]:
    """Return whether it is a Linear or a convolution of any number of dimensions, transposed or not.

    Parameters
    ----------
    module : object
        A module, or None.

    Returns
    -------
    bool
    """
    return isinstance(module, WEIGHT_LAYERS)


def is_convolution(module: Any) -> TypeGuard[_ConvNd]:
    """Return whether it is a convolution of any number of dimensions, transposed or not.

    Parameters
    ----------
    module : object
        A module, or None.

    Returns
    -------
    bool
    """
    return isinstance(module, _ConvNd)


def draws_numbers(raw_name: str) -> bool:
    """Return whether a call draws numbers that cannot be turned off, by its name with the underscore of in-place calls.

    Return whether an op draws numbers; ``bernoulli_`` with one probability is the mask of a dropout, which is off like
    dropout itself.

    >>> draws_numbers("normal_"), draws_numbers("bernoulli_"), draws_numbers("dropout"), draws_numbers("relu")
    (True, False, False, False)
    """
    op = OPS.get(raw_name.rstrip("_"))
    return op is not None and op.traits.random and not op.traits.drops and raw_name != "bernoulli_"
