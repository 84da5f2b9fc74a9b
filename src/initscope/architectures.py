"""Architecture strings: ``"conv3x3x64-relu*12"`` becomes a `torch.nn.Sequential`. The grammar is at `build`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from initscope.errors import InputError

if TYPE_CHECKING:
    import torch

__all__ = ["build", "parse"]

ACTIVATIONS = {
    "celu": "CELU",
    "elu": "ELU",
    "gelu": "GELU",
    "hardsigmoid": "Hardsigmoid",
    "hardswish": "Hardswish",
    "hardtanh": "Hardtanh",
    "identity": "Identity",
    "leaky_relu": "LeakyReLU",
    "logsigmoid": "LogSigmoid",
    "mish": "Mish",
    "prelu": "PReLU",
    "relu": "ReLU",
    "relu6": "ReLU6",
    "selu": "SELU",
    "sigmoid": "Sigmoid",
    "silu": "SiLU",
    "softplus": "Softplus",
    "softsign": "Softsign",
    "tanh": "Tanh",
}
WITH_PARAMETER = ("celu", "elu", "leaky_relu")
PADDINGS = ("circular", "zeros", "reflect", "replicate", "valid")
KNOWN = (
    "convKxKxC[/STRIDE][:PADDING] (PADDING: " + ", ".join(PADDINGS) + "), denseN, flatten, avgpoolK, maxpoolK, bn, "
    "dropoutP, and activations: " + ", ".join(ACTIVATIONS)
)

TOKEN = re.compile(
    r"(?P<conv>conv(?P<sides>\d+(?:x\d+)+)(?:/(?P<stride>\d+))?(?::(?P<padding>[a-z]+))?)"
    r"|(?P<dense>dense(?P<units>\d+))"
    r"|(?P<flatten>flatten)"
    r"|(?P<pool>(?P<pooling>avg|max)pool(?P<window>\d+))"
    r"|(?P<bn>bn)"
    r"|(?P<dropout>dropout(?P<probability>0?\.\d+)?)"
    r"|(?P<activation>[a-z][a-z0-9_]*)(?::(?P<parameter>-?\d*\.?\d+))?"
)
REPEAT = re.compile(r"\*(\d*)")
MOST_LAYERS = 10_000


@dataclass(frozen=True)
class Token:
    """One layer of the string, and where it stands (from 0)."""

    text: str
    position: int
    fields: dict[str, str]

    @property
    def starts_block(self) -> bool:
        """Whether it is a layer with weights, with which a block begins."""
        return "conv" in self.fields or "dense" in self.fields


def parse(text: str) -> list[Token]:
    """Read an architecture string into its layers, repetitions written out (grammar: see `build`).

    >>> [token.text for token in parse("(conv3x3x8-relu)*2-dense10")]
    ['conv3x3x8', 'relu', 'conv3x3x8', 'relu', 'dense10']
    """
    tokens, end = _parse_stack(text, 0)
    if end < len(text):
        raise _error(text, end, "')' without its '('")
    return tokens


def _parse_stack(text: str, position: int) -> tuple[list[Token], int]:
    done: list[Token] = []
    block: list[Token] = []
    while True:
        position = _skip(text, position)
        if text.startswith("(", position):
            inner, end = _parse_stack(text, position + 1)
            if not text.startswith(")", end):
                raise _error(text, position, "'(' without its ')'")
            done += block
            block, closed, position = inner, True, end + 1
        else:
            token = _parse_token(text, position)
            if token.starts_block:
                done += block
                block = []
            block.append(token)
            closed, position = False, position + len(token.text)
        position = _skip(text, position)
        if match := REPEAT.match(text, position):
            times = int(match[1] or 0)
            if times < 1 or (len(done) + len(block) * times) > MOST_LAYERS:
                raise _error(text, position, f"repeat by '*n' with n from 1 on and at most {MOST_LAYERS} layers in all")
            block, closed, position = block * times, True, _skip(text, match.end())
        if closed:
            done += block
            block = []
        if not text.startswith("-", position):
            if position < len(text) and text[position] != ")":
                raise _error(text, position, f"unknown {text[position:].split('-')[0]!r}; layers are joined by '-'")
            return done + block, position
        position += 1


def _parse_token(text: str, position: int) -> Token:
    match = TOKEN.match(text, position)
    word = re.match(r"[^-*()\s]*", text[position:])
    whole = word[0] if word else ""
    if match is None or match[0] != whole:
        raise _error(text, position, f"unknown layer {whole!r}. Known: {KNOWN}")
    fields = {name: value for name, value in match.groupdict().items() if value is not None}
    if "activation" in fields and fields["activation"] not in ACTIVATIONS:
        raise _error(text, position, f"unknown layer {whole!r}. Known: {KNOWN}")
    if fields.get("padding", "zeros") not in PADDINGS:
        raise _error(text, position, f"unknown padding {fields['padding']!r}. Known: {', '.join(PADDINGS)}")
    if "parameter" in fields and fields["activation"] not in WITH_PARAMETER:
        raise _error(text, position, f"{fields['activation']} takes no parameter; {', '.join(WITH_PARAMETER)} do")
    sizes = [fields[key] for key in ("sides", "stride", "units", "window") if key in fields]
    if any(int(size) == 0 for group in sizes for size in group.split("x")):
        raise _error(text, position, f"{whole!r} has a size of 0; every size is at least 1")
    return Token(whole, position, fields)


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _error(text: str, position: int, problem: str) -> InputError:
    return InputError(f"architecture {text!r}, position {position + 1}: {problem}")


def build(text: str, input_shape: tuple[int, ...] | None) -> torch.nn.Sequential:
    """Build the `torch.nn.Sequential` of an architecture string for inputs of shape ``input_shape``.

    Layers are joined by ``-``:

    ``convKxKxC[/STRIDE][:PADDING]``
        Convolution with C filters of K×K (``convKxC`` in one dimension, ``convKxKxKxC`` in three). Padding keeps the
        size ("same") and is **circular** unless said otherwise, as in the theorems; or ``zeros``, ``reflect``,
        ``replicate``, ``valid`` (none).
    ``denseN``
        Linear layer with N outputs; images are flattened before it.
    ``relu``, ``tanh``, ``gelu``, ``leaky_relu:0.2`` …
        Any activation of the list in the error message.
    ``flatten``, ``avgpoolK``, ``maxpoolK``, ``bn``, ``dropoutP``
        Flattening; pooling with window and stride K; batch normalisation; dropout (P = 0.5 if left out).

    ``*n`` repeats: after a parenthesis, what is inside; else the block that it ends, which begins with the last conv or
    dense before it. So ``dense1000-relu*10`` is ten times dense, relu, and ``(conv3x3x64-bn-relu)*4-dense10`` four
    blocks and a dense layer. Layers have no bias; weights are drawn from N(0, 2/fan_in) (He) by torch's random state.

    Examples
    --------
    >>> build("conv3x3x8/2-relu-dense10", (3, 32, 32))
    Sequential(
      (conv1): Conv2d(3, 8, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), bias=False, padding_mode=circular)
      (relu1): ReLU()
      (flatten1): Flatten(start_dim=1, end_dim=-1)
      (dense1): Linear(in_features=2048, out_features=10, bias=False)
    )
    """
    import torch

    tokens = parse(text)
    if input_shape is None:
        raise InputError(f"architecture {text!r} needs the shape of its input; give data, or --input-shape 3x64x64")
    layers: dict[str, torch.nn.Module] = {}
    value = torch.empty(1, *input_shape, device="meta")

    def add(token: Token, kind: str, make: Callable[[], torch.nn.Module]) -> torch.Tensor:
        """Append a layer under a name of its own; run it without memory or arithmetic to learn the next shape."""
        number = sum(name.rstrip("0123456789") == kind for name in layers) + 1
        try:
            with torch.device("meta"):
                layer = make()
            result: torch.Tensor = layer.eval()(value)
        except (RuntimeError, ValueError, IndexError) as error:
            shape = "×".join(map(str, value.shape[1:]))
            raise _error(text, token.position, f"{token.text} cannot take an input of {shape}: {error}") from error
        if 0 in result.shape:
            raise _error(text, token.position, f"nothing is left of an input of {tuple(value.shape[1:])} after it")
        layers[f"{kind}{number}"] = layer
        return result

    for token in tokens:
        fields = token.fields
        if "dense" in fields and value.ndim > 2:
            value = add(token, "flatten", torch.nn.Flatten)
        kind = next(key for key in ("conv", "dense", "flatten", "pool", "bn", "dropout", "activation") if key in fields)
        name = {"pool": f"{fields.get('pooling')}pool", "activation": fields.get("activation", "")}.get(kind, kind)
        value = add(token, name, lambda token=token, value=value: _layer(text, token, tuple(value.shape)))  # type: ignore[misc]
    return _materialised(layers)


def _layer(text: str, token: Token, shape: tuple[int, ...]) -> torch.nn.Module:
    from torch import nn

    fields, channels, dimensions = token.fields, shape[1], len(shape) - 2
    if "conv" in fields:
        return _convolution(text, token, channels, dimensions)
    if "dense" in fields:
        return nn.Linear(channels, int(fields["units"]), bias=False)
    if "flatten" in fields:
        return nn.Flatten()
    if "pool" in fields or "bn" in fields:
        least = 1 if "pool" in fields else 0
        if not least <= dimensions <= 3:
            raise _error(
                text, token.position, f"{token.text} needs an image, but gets {shape[1:]}; put it before dense"
            )
        if "bn" in fields:
            normalisation: nn.Module = getattr(nn, f"BatchNorm{max(dimensions, 1)}d")(channels)
            return normalisation
        pooling: Any = getattr(nn, f"{fields['pooling'].capitalize()}Pool{dimensions}d")
        return pooling(int(fields["window"]))  # type: ignore[no-any-return]
    if "dropout" in fields:
        return nn.Dropout(float(fields.get("probability", "0.5")))
    activation: Any = getattr(nn, ACTIVATIONS[fields["activation"]])
    return activation(*([float(fields["parameter"])] if "parameter" in fields else []))  # type: ignore[no-any-return]


def _convolution(text: str, token: Token, channels: int, dimensions: int) -> torch.nn.Module:
    from torch import nn

    *kernel, filters = map(int, token.fields["sides"].split("x"))
    stride = int(token.fields.get("stride", 1))
    mode = token.fields.get("padding", "circular")
    if len(kernel) != dimensions:
        raise _error(
            text,
            token.position,
            f"{token.text} is a convolution in {len(kernel)} dimensions, its input has {dimensions}; "
            "write convKxC, convKxKxC or convKxKxKxC for 1, 2 or 3",
        )
    padding: Any = tuple(side // 2 for side in kernel)
    if mode == "valid":
        padding = 0
    elif any(side % 2 == 0 for side in kernel):
        if stride > 1:
            raise _error(
                text, token.position, f"{token.text}: even filters with a stride have no centred padding; add ':valid'"
            )
        padding = "same"
    module: Any = getattr(nn, f"Conv{dimensions}d")
    return module(  # type: ignore[no-any-return]
        channels,
        filters,
        tuple(kernel),
        stride=stride,
        padding=padding,
        padding_mode="zeros" if mode == "valid" else mode,
        bias=False,
    )


def _materialised(layers: dict[str, torch.nn.Module]) -> torch.nn.Sequential:
    """Give the layers memory, and draw their weights."""
    from collections import OrderedDict

    from torch import nn

    model = nn.Sequential(OrderedDict(layers)).to_empty(device="cpu").train()
    for layer in model:
        if isinstance(layer, (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        elif isinstance(layer, (nn.PReLU, nn.modules.batchnorm._BatchNorm)):
            layer.reset_parameters()
    return model
