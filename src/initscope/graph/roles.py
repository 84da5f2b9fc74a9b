"""What a step does, in one word: the `Role` of a module or of a call. Rows carry it (`Row.role`), everybody asks it."""

from __future__ import annotations

from typing import Any, Literal, get_args

from torch import nn
from torch.nn.modules import padding, pooling
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from initscope.errors import InputError
from initscope.graph.activations import activation_row
from initscope.graph.calls import STANDS_FOR, UNCHANGED, called_activation
from initscope.graph.modules import ActivationLayer
from initscope.graph.weights import is_weight_layer

__all__ = ["VIEWS", "Role", "declare_role", "role_of"]

Role = Literal[
    "input",  # what the model is given
    "weights",  # multiplies by weights that are drawn: Linear, convolutions, a matrix of parameters
    "activation",  # one function of every unit
    "norm",  # divides by a size that it measures
    "pooling",  # averages or maxima over places
    "movement",  # the same values in another place or shape
    "scaling",  # a constant factor or summand
    "merge",  # several values added, or put side by side
    "attention",  # weights computed from the data: softmax, products of two values
    "gate",  # two values multiplied unit by unit
    "recurrent",  # a loop over time: LSTM, GRU, RNN
    "embedding",  # values from a table
    "constant",  # made without looking at values: zeros, masks, positions
    "bookkeeping",  # nothing happens to the values: dropout that is off, copies, casts
    "other",  # unknown
]

VIEWS = frozenset({
    "view", "view_as", "reshape", "reshape_as", "flatten", "unflatten", "ravel", "permute", "transpose", "swapaxes",
    "swapdims", "movedim", "moveaxis", "t", "T", "mT", "H", "mH", "adjoint", "unsqueeze", "squeeze", "expand",
    "expand_as", "broadcast_to", "chunk", "split", "split_with_sizes", "tensor_split", "hsplit", "vsplit", "dsplit",
    "unbind", "narrow", "select", "getitem", "diagonal", "unfold", "as_strided",
})  # fmt: skip
"""Calls that return a part of their input or all of it in another shape."""

_MODULES: dict[type[nn.Module], Role] = {
    nn.Embedding: "embedding",
    nn.EmbeddingBag: "embedding",
    _NormBase: "norm",
    nn.LayerNorm: "norm",
    nn.GroupNorm: "norm",
    nn.RMSNorm: "norm",
    nn.LocalResponseNorm: "norm",
    nn.CrossMapLRN2d: "norm",
    pooling._MaxPoolNd: "pooling",
    pooling._AvgPoolNd: "pooling",
    pooling._AdaptiveAvgPoolNd: "pooling",
    pooling._AdaptiveMaxPoolNd: "pooling",
    pooling._LPPoolNd: "pooling",
    nn.FractionalMaxPool2d: "pooling",
    nn.FractionalMaxPool3d: "pooling",
    pooling._MaxUnpoolNd: "movement",
    padding._ConstantPadNd: "movement",
    padding._CircularPadNd: "movement",
    padding._ReflectionPadNd: "movement",
    padding._ReplicationPadNd: "movement",
    nn.Flatten: "movement",
    nn.Unflatten: "movement",
    nn.Upsample: "movement",
    nn.PixelShuffle: "movement",
    nn.PixelUnshuffle: "movement",
    nn.ChannelShuffle: "movement",
    nn.Fold: "merge",
    nn.Unfold: "movement",
    nn.Bilinear: "weights",
    nn.MultiheadAttention: "attention",
    nn.Softmax: "attention",
    nn.LogSoftmax: "attention",
    nn.Softmax2d: "attention",
    nn.Softmin: "attention",
    nn.GLU: "gate",
    nn.RNNBase: "recurrent",
    nn.RNNCellBase: "recurrent",
    nn.Identity: "bookkeeping",
    _DropoutNd: "bookkeeping",
}
_CALLS: dict[Role, frozenset[str]] = {
    "weights": frozenset({
        "linear", "bilinear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
        "addmm", "baddbmm",
    }),
    "norm": frozenset({
        "batch_norm", "layer_norm", "group_norm", "instance_norm", "rms_norm", "local_response_norm", "normalize",
        "rsqrt", "std", "var", "norm",
    }),
    "pooling": frozenset({
        "mean", "amax", "amin", "max", "min", "logsumexp", "adaptive_max_pool1d", "adaptive_max_pool2d",
        "adaptive_max_pool3d", "lp_pool1d", "lp_pool2d",
    }),
    "movement": VIEWS | {
        "pad", "roll", "flip", "repeat", "repeat_interleave", "gather", "index_select", "take_along_dim", "tril",
        "triu", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "interpolate", "upsample",
        "rot90", "grid_sample",
    },
    "merge": frozenset({"cat", "concat", "concatenate", "stack", "hstack", "vstack", "sum", "cumsum", "index_add"}),
    "attention": frozenset({"scaled_dot_product_attention", "softmax", "log_softmax"}),
    "gate": frozenset({"glu"}),
    "recurrent": frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"}),
    "embedding": frozenset({"embedding", "embedding_bag", "one_hot"}),
    "constant": frozenset({
        "zeros", "ones", "full", "empty", "arange", "linspace", "zeros_like", "ones_like", "full_like", "empty_like",
        "new_zeros", "new_ones", "new_full", "new_empty", "rand", "randn", "rand_like", "randn_like", "bernoulli",
        "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_not", "isnan", "argmax", "argmin",
        "topk", "argsort",
    }),
    "bookkeeping": UNCHANGED | {"masked_fill", "where", "half", "bfloat16", "cuda", "type", "getattr", "overwritten"},
}  # fmt: skip
_PRODUCTS = frozenset({"matmul", "mm", "bmm", "einsum", "tensordot", "dot"})
_BY_NUMBER: dict[str, tuple[Role, Role]] = {
    **dict.fromkeys(("add", "sub", "rsub", "radd"), ("scaling", "merge")),
    **dict.fromkeys(("mul", "rmul"), ("scaling", "gate")),
    **dict.fromkeys(("div", "rtruediv"), ("scaling", "norm")),
    **dict.fromkeys(_PRODUCTS, ("weights", "attention")),
    "neg": ("scaling", "scaling"),
}
"""Roles of calls that read one value of the data and something constant, or several values of the data."""


def declare_role(kind: type[nn.Module], role: Role) -> None:
    """Say what modules of a class of one's own do; subclasses do the same."""
    if role not in get_args(Role):
        raise InputError(f"role = {role!r} is unknown; one of {', '.join(get_args(Role))}")
    _MODULES[kind] = role


def role_of(step: nn.Module | type[nn.Module] | str, reads: int = 1) -> Role:
    """The role of a module, or of a call by its name (see `call_name`) that reads ``reads`` values of the data.

    >>> role_of(nn.ReLU()), role_of("max_pool2d"), role_of("add", reads=2), role_of("add")
    ('activation', 'pooling', 'merge', 'scaling')
    """
    if isinstance(step, str):
        return _role_of_call(step, reads)
    if isinstance(step, ActivationLayer):
        return "activation"
    classes: tuple[Any, ...] = step.__mro__ if isinstance(step, type) else type(step).__mro__
    for kind in classes:
        if kind in _MODULES:
            return _MODULES[kind]
    if is_weight_layer(step) or (isinstance(step, type) and issubclass(step, nn.Linear)):
        return "weights"
    return "other" if activation_row(step) is None else "activation"


def _role_of_call(name: str, reads: int) -> Role:
    if name in _BY_NUMBER:
        return _BY_NUMBER[name][reads > 1]
    for role, names in _CALLS.items():
        if name in names:
            return role
    if name in STANDS_FOR:
        return role_of(STANDS_FOR[name])
    return "other" if called_activation(name) is None else "activation"
