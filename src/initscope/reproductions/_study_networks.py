"""The small networks of the study of verdicts: dense, convolutional, residual and transformer, each at several starts.

`architectures` lists what is built, ``STARTS`` how it is started; `Network.build` makes one from both and a seed.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from initscope.graph import is_weight_layer
from initscope.models.training_loop import seeded

__all__ = ["CLASSES", "STARTS", "Architecture", "Network", "architectures", "held_out_architectures", "networks"]

CLASSES = 10
Kind = Literal["dense", "convolutional", "residual", "transformer"]
Shape = tuple[Kind, int, int, str, str]
"""Kind, depth, width, activation, norm."""

_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}
_GAINS = {"relu": math.sqrt(2), "tanh": 1.0, "gelu": math.sqrt(2)}
"""Gain that keeps the size of signals: He's for ReLU and its kin, 1 for tanh."""


@dataclass(frozen=True)
class Architecture:
    """What is built: its kind, sizes, activation, normalisation, and the data that it is for."""

    kind: Kind
    depth: int
    width: int
    activation: str = "relu"
    norm: str = "none"
    data: str = "digits"

    @property
    def name(self) -> str:
        """All of it in a word."""
        return f"{self.kind}-{self.depth}x{self.width}-{self.activation}-{self.norm}-{self.data}"

    def build(self) -> nn.Module:
        """The module for images ``[n, 1, side, side]``, at torch's own start."""
        return _BUILDERS[self.kind](self)


def _norm(kind: str, width: int, images: bool) -> list[nn.Module]:
    if kind == "batch":
        return [nn.BatchNorm2d(width) if images else nn.BatchNorm1d(width)]
    if kind == "layer":
        return [nn.GroupNorm(1, width) if images else nn.LayerNorm(width)]
    return []


def _dense(of: Architecture) -> nn.Module:
    layers: list[nn.Module] = [nn.Flatten()]
    inputs = 64
    for _ in range(of.depth):
        layers += [nn.Linear(inputs, of.width), *_norm(of.norm, of.width, False), _ACTIVATIONS[of.activation]()]
        inputs = of.width
    return nn.Sequential(*layers, nn.Linear(inputs, CLASSES))


def _convolutional(of: Architecture) -> nn.Module:
    layers: list[nn.Module] = []
    inputs = 1
    for _ in range(of.depth):
        layers += [nn.Conv2d(inputs, of.width, 3, padding=1), *_norm(of.norm, of.width, True)]
        layers.append(_ACTIVATIONS[of.activation]())
        inputs = of.width
    return nn.Sequential(*layers, nn.AvgPool2d(4), nn.Flatten(), nn.Linear(4 * inputs, CLASSES))


class _Residual(nn.Module):
    """x + body(x)."""

    def __init__(self, *body: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = self.body(x)
        return x + added


def _residual(of: Architecture) -> nn.Module:
    """Pre-activation blocks of two convolutions."""
    blocks = []
    for _ in range(of.depth):
        body: list[nn.Module] = []
        for _ in range(2):
            body += [*_norm(of.norm, of.width, True), _ACTIVATIONS[of.activation]()]
            body.append(nn.Conv2d(of.width, of.width, 3, padding=1))
        blocks.append(_Residual(*body))
    head = [*_norm(of.norm, of.width, True), _ACTIVATIONS[of.activation](), nn.AvgPool2d(4), nn.Flatten()]
    return nn.Sequential(nn.Conv2d(1, of.width, 3, padding=1), *blocks, *head, nn.Linear(4 * of.width, CLASSES))


class _Attention(nn.Module):
    """Self-attention of tokens."""

    def __init__(self, width: int, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            layer(x).unflatten(2, (self.heads, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        weights = torch.softmax(self.scale * (query @ key.mT), dim=-1)
        mixed: Tensor = self.out((weights @ value).transpose(1, 2).flatten(2))
        return mixed


class _Block(nn.Module):
    """Attention and perceptron with skips, the norm before each (``pre``), behind each sum (``post``) or nowhere."""

    def __init__(self, of: Architecture) -> None:
        super().__init__()
        self.place = of.norm
        self.attention = _Attention(of.width)
        self.mlp = nn.Sequential(
            nn.Linear(of.width, 2 * of.width), _ACTIVATIONS[of.activation](), nn.Linear(2 * of.width, of.width)
        )
        normed = of.norm != "none"
        self.norm1, self.norm2 = (nn.LayerNorm(of.width) if normed else nn.Identity() for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        if self.place == "pre":
            x = x + self.attention(self.norm1(x))
            x = x + self.mlp(self.norm2(x))
        else:
            x = self.norm1(x + self.attention(x))
            x = self.norm2(x + self.mlp(x))
        return x


class _Transformer(nn.Module):
    """Patches of 2×2 for tokens, learned places, blocks, the mean of the tokens."""

    def __init__(self, of: Architecture) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, of.width, 2, 2)
        self.places = nn.Parameter(0.02 * torch.randn(1, 16, of.width))
        self.blocks = nn.Sequential(*[_Block(of) for _ in range(of.depth)])
        self.norm = nn.LayerNorm(of.width) if of.norm == "pre" else nn.Identity()
        self.head = nn.Linear(of.width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2) + self.places
        logits: Tensor = self.head(self.norm(self.blocks(x)).mean(1))
        return logits


_BUILDERS: dict[str, Callable[[Architecture], nn.Module]] = {
    "dense": _dense, "convolutional": _convolutional, "residual": _residual, "transformer": _Transformer,
}  # fmt: skip


def _scaled(gain: float) -> Callable[[Architecture, list[Any]], None]:
    """Independent normal weights of variance (gain · g)²/fan-in with g the activation's own gain; biases 0."""

    def start(of: Architecture, layers: list[Any]) -> None:
        for layer in layers:
            deviation = gain * _GAINS[of.activation] / math.sqrt(layer.weight[0].numel())
            nn.init.normal_(layer.weight, std=deviation)
            nn.init.zeros_(layer.bias)

    return start


def _own(of: Architecture, layers: list[Any]) -> None:
    """Torch's own start, as it is."""


def _orthogonal(of: Architecture, layers: list[Any]) -> None:
    for layer in layers:
        nn.init.orthogonal_(layer.weight, gain=_GAINS[of.activation])
        nn.init.zeros_(layer.bias)


def _narrow(of: Architecture, layers: list[Any]) -> None:
    """Normal weights of deviation .02 in every layer, as in language models."""
    for layer in layers:
        nn.init.normal_(layer.weight, std=0.02)
        nn.init.zeros_(layer.bias)


def _with_bias(bias: float) -> Callable[[Architecture, list[Any]], None]:
    """He's law, and biases that are all equal in the layers before the head."""

    def start(of: Architecture, layers: list[Any]) -> None:
        _scaled(1.0)(of, layers)
        for layer in layers[:-1]:
            nn.init.constant_(layer.bias, bias)

    return start


def _equal(of: Architecture, layers: list[Any]) -> None:
    """All weights of a layer equal, of He's size."""
    for layer in layers:
        nn.init.constant_(layer.weight, _GAINS[of.activation] / layer.weight[0].numel())
        nn.init.zeros_(layer.bias)


STARTS: dict[str, Callable[[Architecture, list[Any]], None]] = {
    "own": _own, "he": _scaled(1.0), "orthogonal": _orthogonal, "narrow": _narrow, "half": _scaled(0.5),
    "tenth": _scaled(0.1), "double": _scaled(2.0), "fivefold": _scaled(5.0), "low-bias": _with_bias(-2.0),
    "equal": _equal,
}  # fmt: skip
"""Good and bad starts by name; each fills the weight layers of an architecture."""


@dataclass(frozen=True)
class Network:
    """An architecture at a start."""

    architecture: Architecture
    start: str

    @property
    def name(self) -> str:
        """Architecture and start in a word."""
        return f"{self.architecture.name}-{self.start}"

    @property
    def seed(self) -> int:
        """Of its draw, from its name."""
        return zlib.crc32(self.name.encode())

    def build(self) -> nn.Module:
        """The module at its start, the same every time."""
        with seeded(self.seed):
            model = self.architecture.build()
            layers = [module for module in model.modules() if is_weight_layer(module)]
            with torch.no_grad():
                STARTS[self.start](self.architecture, layers)
        return model


def architectures() -> tuple[Architecture, ...]:
    """Those on which thresholds and ranking are chosen, with the data sets in turn."""
    shapes: list[Shape] = [
        *[("dense", depth, width, "relu", "none") for depth, width in ((3, 64), (10, 32), (10, 96), (30, 48))],
        *[("dense", depth, 64, activation, "none") for depth, activation in ((5, "tanh"), (20, "tanh"), (10, "gelu"))],
        *[("dense", depth, 64, "relu", norm) for depth, norm in ((8, "batch"), (20, "batch"), (20, "layer"))],
        *[("convolutional", depth, 12, "relu", "none") for depth in (3, 7, 14)],
        *[("convolutional", 7, 12, activation, "none") for activation in ("tanh", "gelu")],
        *[("convolutional", depth, 12, "relu", norm) for depth, norm in ((6, "batch"), (12, "batch"), (9, "layer"))],
        *[("residual", depth, 12, "relu", norm) for depth in (2, 5) for norm in ("none", "batch", "layer")],
        ("residual", 3, 12, "tanh", "none"),
        *[("transformer", depth, 32, "gelu", norm) for depth in (1, 3, 6) for norm in ("pre", "post")],
        ("transformer", 3, 32, "relu", "none"),
    ]
    return _on_data(shapes)


def held_out_architectures() -> tuple[Architecture, ...]:
    """Those that had no part in any choice: of other depths and widths, the same kinds and data."""
    shapes: list[Shape] = [
        *[("dense", depth, width, "relu", "none") for depth, width in ((6, 48), (15, 64), (24, 96))],
        ("dense", 12, 64, "tanh", "none"),
        ("dense", 6, 96, "gelu", "none"),
        *[("dense", depth, 48, "relu", norm) for depth, norm in ((12, "batch"), (25, "batch"), (12, "layer"))],
        *[("convolutional", depth, width, "relu", "none") for depth, width in ((5, 16), (10, 10))],
        ("convolutional", 5, 12, "tanh", "none"),
        *[("convolutional", depth, 14, "relu", norm) for depth, norm in ((8, "batch"), (6, "layer"))],
        *[("residual", depth, 10, "relu", norm) for depth, norm in ((3, "none"), (7, "none"), (4, "batch"))],
        ("residual", 4, 14, "gelu", "layer"),
        *[("transformer", depth, 24, "gelu", norm) for depth, norm in ((2, "pre"), (4, "post"), (4, "pre"))],
    ]
    return _on_data(shapes)


def _on_data(shapes: list[Shape]) -> tuple[Architecture, ...]:
    """The data sets in turn."""
    return tuple(
        Architecture(*shape, data=("digits", "fashion-mnist")[index % 2]) for index, shape in enumerate(shapes)
    )


def networks() -> tuple[Network, ...]:
    """Every architecture at every start, those that are held out at the end."""
    every = (*architectures(), *held_out_architectures())
    return tuple(Network(architecture, start) for architecture in every for start in STARTS)
