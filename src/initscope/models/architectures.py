"""Architecture strings: ``"conv3x3x64-relu*12"`` becomes a `torch.nn.Sequential`. The grammar is at `build`."""

from __future__ import annotations

import math
import re
from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from initscope.errors import InputError, did_you_mean
from initscope.results import counted

if TYPE_CHECKING:
    import torch

__all__ = ["build", "parse"]

PADDINGS = ("circular", "zeros", "reflect", "replicate", "valid")
KNOWN = (
    f"convKxKxC[/STRIDE][:PADDING] (PADDING: {', '.join(PADDINGS)}), denseN, flatten, avgpoolK, maxpoolK, bn, dropoutP"
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
REPEAT = re.compile(r"\*\s*(\d*)")
MOST_LAYERS = 10_000


@dataclass(frozen=True)
class Token:
    """One layer of the string, and its position in the string (from 0)."""

    text: str
    position: int
    fields: dict[str, str]

    @property
    def kind(self) -> str:
        """Return the type of the layer: conv, maxpool, relu, …"""
        if "pool" in self.fields:
            return f"{self.fields['pooling']}pool"
        kinds = ("conv", "dense", "flatten", "bn", "dropout")
        return self.fields.get("activation") or next(kind for kind in kinds if kind in self.fields)

    @property
    def begins_block(self) -> bool:
        """Return whether the layer has weights and so begins a block."""
        return self.kind in ("conv", "dense")


def parse(text: str) -> list[Token]:
    """Read an architecture string into its layers, repetitions written out (grammar: see `build`).

    >>> [token.text for token in parse("(conv3x3x8-relu)*2-dense10")]
    ['conv3x3x8', 'relu', 'conv3x3x8', 'relu', 'dense10']
    """
    tokens, end = _parse_stack(text, 0)
    if end < len(text):
        raise _error(text, end, "')' without a matching '('")
    return tokens


def _parse_stack(text: str, position: int) -> tuple[list[Token], int]:
    done: list[Token] = []
    block: list[Token] = []
    while True:
        position = _skip(text, position)
        if text.startswith("(", position):
            inner, end = _parse_stack(text, position + 1)
            if not text.startswith(")", end):
                raise _error(text, position, "'(' without a matching ')'")
            done += block
            block, closed, position = inner, True, end + 1
        else:
            token = _parse_token(text, position)
            if token.begins_block:
                done += block
                block = []
            block.append(token)
            closed, position = False, position + len(token.text)
        position = _skip(text, position)
        if match := REPEAT.match(text, position):
            times = int(match[1] or 0)
            if times < 1 or (len(done) + len(block) * times) > MOST_LAYERS:
                raise _error(
                    text, position, f"'*n' needs n of at least 1 and gives at most {MOST_LAYERS} layers in all"
                )
            block, closed, position = block * times, True, _skip(text, match.end())
        if closed:
            done += block
            block = []
        if not text.startswith("-", position):
            if position < len(text) and text[position] != ")":
                raise _error(text, position, f"unknown {text[position:].split('-')[0]!r}; layers are joined by '-'")
            return done + block, position
        position += 1


_SIZED = {
    "dense": "dense64",
    "conv": "conv3x3x64",
    "avgpool": "avgpool2",
    "maxpool": "maxpool2",
    "dropout": "dropout0.1",
}
"""Kinds of layers that have a size, with an example."""


def _parse_token(text: str, position: int) -> Token:
    match = TOKEN.match(text, position)
    word = re.match(r"[^-*()\s]*", text[position:])
    whole = word[0] if word else ""
    fields = {name: value for name, value in match.groupdict().items() if value is not None} if match else {}
    activations = activation_names()
    if match is None or match[0] != whole or fields.get("activation", "relu") not in activations:
        known = f"{KNOWN}, and activations: {', '.join(activations)}"
        kind = re.sub(r"[\d.].*", "", whole)
        meant = did_you_mean(kind, [*activations, "conv", "dense", "flatten", "avgpool", "maxpool", "bn", "dropout"])
        if whole in _SIZED:
            raise _error(text, position, f"{whole!r} has no size; write it as in {_SIZED[whole]}")
        raise _error(text, position, f"unknown layer {whole!r}{meant}. Known: {known}")
    if fields.get("padding", "zeros") not in PADDINGS:
        raise _error(text, position, f"unknown padding {fields['padding']!r}. Known: {', '.join(PADDINGS)}")
    if "parameter" in fields and fields["activation"] not in (ours := _with_parameter()):
        raise _error(text, position, f"{fields['activation']} takes no parameter; {', '.join(ours)} do")
    sizes = [fields[key] for key in ("sides", "stride", "units", "window") if key in fields]
    if any(int(size) == 0 for group in sizes for size in group.split("x")):
        raise _error(text, position, f"{whole!r} has a size of 0; every size is at least 1")
    return Token(whole, position, fields)


def activation_names() -> list[str]:
    """Return the activations for architecture strings: all that can be built without parameters."""
    from initscope.graph import ACTIVATIONS

    return sorted(name for row in ACTIVATIONS if row.buildable for name in row.names)


def _with_parameter() -> list[str]:
    from initscope.graph import ACTIVATIONS

    return sorted(row.name for row in ACTIVATIONS if row.parameter)


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
        Convolution with C filters of K×K (``convKxC`` in one dimension, ``convKxKxKxC`` in three). The default
        padding is **circular** and preserves the size, as in the theorems; others are ``zeros``, ``reflect``,
        ``replicate`` and ``valid`` (none).
    ``denseN``
        Linear layer with N outputs; images are flattened before it.
    ``relu``, ``tanh``, ``gelu``, ``leaky_relu:0.2`` …
        Any activation of the list in the error message.
    ``flatten``, ``avgpoolK``, ``maxpoolK``, ``bn``, ``dropoutP``
        Flattening; pooling with window and stride K; batch normalization; dropout (P = 0.5 if left out).

    ``*n`` after a parenthesis repeats its content; otherwise it repeats the block before it, which begins with the last
    conv or dense. So ``dense1000-relu*10`` is dense, relu ten times, and ``(conv3x3x64-bn-relu)*4-dense10`` four
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
    layers: OrderedDict[str, torch.nn.Module] = OrderedDict()
    counts: Counter[str] = Counter()

    def add(kind: str, layer: torch.nn.Module) -> None:
        counts[kind] += 1
        # The first relu6 is not the 61st relu.
        separator = "_" if kind[-1].isdigit() else ""
        layers[f"{kind}{separator}{counts[kind]}"] = layer

    shape = tuple(input_shape)
    if not shape or min(shape) < 1:
        raise InputError(f"input_shape = {shape}: give the positive sizes of one input, such as (3, 64, 64)")
    for token in tokens:
        if token.kind == "dense" and len(shape) > 1:
            add("flatten", torch.nn.Flatten())
            shape = (math.prod(shape),)
        layer, shape = _layer(text, token, shape)
        add(token.kind, layer)
    return torch.nn.Sequential(layers)


def _layer(text: str, token: Token, shape: tuple[int, ...]) -> tuple[torch.nn.Module, tuple[int, ...]]:
    """Return the layer of a token for inputs of ``shape``, and the shape of its output."""
    from torch import nn

    fields = token.fields
    if "conv" in fields:
        return _convolution(text, token, shape)
    if "pool" in fields:
        return _pooling(text, token, shape)
    if "dense" in fields:
        linear = nn.Linear(shape[0], int(fields["units"]), bias=False)
        nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
        return linear, (linear.out_features,)
    if "flatten" in fields:
        return nn.Flatten(), (math.prod(shape),)
    return _elementwise(text, token, shape), shape


def _elementwise(text: str, token: Token, shape: tuple[int, ...]) -> torch.nn.Module:
    """Return a layer that preserves the shape: batch norm, dropout or an activation."""
    from torch import nn

    from initscope.graph import activation_row

    fields, dimensions = token.fields, len(shape) - 1
    if "bn" in fields:
        if dimensions > 3:
            raise _misfit(text, token, shape, "batch normalization has at most three dimensions")
        normalization: Any = getattr(nn, f"BatchNorm{max(dimensions, 1)}d")
        return normalization(shape[0])  # type: ignore[no-any-return]
    if "dropout" in fields:
        return nn.Dropout(float(fields.get("probability", "0.5")))
    row = activation_row(fields["activation"])
    assert row is not None
    return row.build(*([float(fields["parameter"])] if "parameter" in fields else []))


def _pooling(text: str, token: Token, shape: tuple[int, ...]) -> tuple[torch.nn.Module, tuple[int, ...]]:
    from torch import nn

    dimensions, window = len(shape) - 1, int(token.fields["window"])
    if not 1 <= dimensions <= 3:
        raise _error(text, token.position, f"{token.text} needs an image, but gets {shape}; put it before dense")
    if min(shape[1:]) < window:
        raise _misfit(text, token, shape, "its window is larger")
    pooling: Any = getattr(nn, f"{token.fields['pooling'].capitalize()}Pool{dimensions}d")
    return pooling(window), (shape[0], *(side // window for side in shape[1:]))


def _convolution(text: str, token: Token, shape: tuple[int, ...]) -> tuple[torch.nn.Module, tuple[int, ...]]:
    from torch import nn

    *kernel, filters = map(int, token.fields["sides"].split("x"))
    stride = int(token.fields.get("stride", 1))
    mode = token.fields.get("padding", "circular")
    if len(kernel) != len(shape) - 1:
        problem = (
            f"{token.text} is a convolution in {counted(len(kernel), 'dimension')}, but its input has {len(shape) - 1}"
        )
        raise _error(text, token.position, f"{problem}; write convKxC, convKxKxC or convKxKxKxC for 1, 2 or 3")
    if len(kernel) > 3:
        raise _misfit(text, token, shape, "convolutions have at most three dimensions")
    even = any(side % 2 == 0 for side in kernel)
    if even and stride > 1 and mode != "valid":
        problem = f"{token.text}: even filters with a stride cannot have centered padding"
        raise _error(text, token.position, f"{problem}; add ':valid'")
    for side, width in zip(shape[1:], kernel):
        # What torch needs: valid filters fit inside; one side's padding is at most (reflect: less than) the image.
        least = {"valid": width, "circular": width // 2, "reflect": width // 2 + 1}.get(mode, 1)
        if side < least:
            reason = f"with {mode} padding a filter of {width} needs sides of at least {least}"
            raise _misfit(text, token, shape, reason)
    padding: Any = "same" if even else tuple(side // 2 for side in kernel)
    module: Any = getattr(nn, f"Conv{len(kernel)}d")
    layer = module(
        shape[0],
        filters,
        tuple(kernel),
        stride=stride,
        padding=0 if mode == "valid" else padding,
        padding_mode="zeros" if mode == "valid" else mode,
        bias=False,
    )
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    inside = [side - width + 1 for side, width in zip(shape[1:], kernel)] if mode == "valid" else shape[1:]
    return layer, (filters, *(-(-side // stride) for side in inside))


def _misfit(text: str, token: Token, shape: tuple[int, ...], reason: str) -> InputError:
    sides = "×".join(map(str, shape))
    return _error(text, token.position, f"{token.text} cannot take an input of {sides}: {reason}")
