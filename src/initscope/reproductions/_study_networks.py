"""Small networks of the study of checks: dense, convolutional, residual and transformer, with several initializations.

`architectures` lists the architectures, ``INITIALIZATIONS`` the initializations; `Network.build` combines both.
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

__all__ = ["CLASSES", "INITIALIZATIONS", "Architecture", "Network", "architectures", "frozen_architectures", "networks"]

CLASSES = 10
Kind = Literal["dense", "convolutional", "residual", "transformer"]
Shape = tuple[Kind, int, int, str, str]
"""Kind, depth, width, activation, norm."""

_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}
_GAINS = {"relu": math.sqrt(2), "tanh": 1.0, "gelu": math.sqrt(2)}
"""Gain that preserves the scale of signals: √2 (He) for ReLU and GELU, 1 for tanh."""


@dataclass(frozen=True)
class Architecture:
    """An architecture: its kind, sizes, activation, normalization, and data set."""

    kind: Kind
    depth: int
    width: int
    activation: str = "relu"
    norm: str = "none"
    data: str = "digits"

    @property
    def name(self) -> str:
        """Name with all settings."""
        return f"{self.kind}-{self.depth}x{self.width}-{self.activation}-{self.norm}-{self.data}"

    def build(self) -> nn.Module:
        """Return the module for images ``[n, 1, side, side]``, with the default initialization of torch."""
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
    """Residual block x + body(x)."""

    def __init__(self, *body: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = self.body(x)
        return x + added


def _residual(of: Architecture) -> nn.Module:
    """Return a network of pre-activation blocks of two convolutions."""
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
    """Self-attention."""

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
    """Transformer block with the norm before each branch (``pre``), after each sum (``post``) or without norms."""

    def __init__(self, of: Architecture) -> None:
        super().__init__()
        self.norm_order = of.norm
        self.attention = _Attention(of.width)
        self.mlp = nn.Sequential(
            nn.Linear(of.width, 2 * of.width), _ACTIVATIONS[of.activation](), nn.Linear(2 * of.width, of.width)
        )
        normed = of.norm != "none"
        self.norm1, self.norm2 = (nn.LayerNorm(of.width) if normed else nn.Identity() for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        if self.norm_order == "pre":
            x = x + self.attention(self.norm1(x))
            x = x + self.mlp(self.norm2(x))
        else:
            x = self.norm1(x + self.attention(x))
            x = self.norm2(x + self.mlp(x))
        return x


class _Transformer(nn.Module):
    """Vision transformer on 2×2 patches, with learned positions and mean pooling of tokens."""

    def __init__(self, of: Architecture) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, of.width, 2, 2)
        self.positions = nn.Parameter(0.02 * torch.randn(1, 16, of.width))
        self.blocks = nn.Sequential(*[_Block(of) for _ in range(of.depth)])
        self.norm = nn.LayerNorm(of.width) if of.norm == "pre" else nn.Identity()
        self.head = nn.Linear(of.width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        logits: Tensor = self.head(self.norm(self.blocks(x)).mean(1))
        return logits


_BUILDERS: dict[str, Callable[[Architecture], nn.Module]] = {
    "dense": _dense, "convolutional": _convolutional, "residual": _residual, "transformer": _Transformer,
}  # fmt: skip


def _scaled(gain: float) -> Callable[[Architecture, list[Any]], None]:
    """Return an initialization with normal weights of variance (gain · g)²/fan-in, g the gain of the activation."""

    def initialize(of: Architecture, layers: list[Any]) -> None:
        for layer in layers:
            deviation = gain * _GAINS[of.activation] / math.sqrt(layer.weight[0].numel())
            nn.init.normal_(layer.weight, std=deviation)
            nn.init.zeros_(layer.bias)

    return initialize


def _default(of: Architecture, layers: list[Any]) -> None:
    """Keep the default initialization of torch."""


def _orthogonal(of: Architecture, layers: list[Any]) -> None:
    for layer in layers:
        nn.init.orthogonal_(layer.weight, gain=_GAINS[of.activation])
        nn.init.zeros_(layer.bias)


def _narrow(of: Architecture, layers: list[Any]) -> None:
    """Draw normal weights of standard deviation 0.02 in every layer, as in language models."""
    for layer in layers:
        nn.init.normal_(layer.weight, std=0.02)
        nn.init.zeros_(layer.bias)


def _with_bias(bias: float) -> Callable[[Architecture, list[Any]], None]:
    """Return an initialization with He's weights and constant biases in all layers except the head."""

    def initialize(of: Architecture, layers: list[Any]) -> None:
        _scaled(1.0)(of, layers)
        for layer in layers[:-1]:
            nn.init.constant_(layer.bias, bias)

    return initialize


def _equal(of: Architecture, layers: list[Any]) -> None:
    """Set all weights of a layer to the same value, of the scale of He's weights."""
    for layer in layers:
        nn.init.constant_(layer.weight, _GAINS[of.activation] / layer.weight[0].numel())
        nn.init.zeros_(layer.bias)


INITIALIZATIONS: dict[str, Callable[[Architecture, list[Any]], None]] = {
    "own": _default, "he": _scaled(1.0), "orthogonal": _orthogonal, "narrow": _narrow, "half": _scaled(0.5),
    "tenth": _scaled(0.1), "double": _scaled(2.0), "fivefold": _scaled(5.0), "low-bias": _with_bias(-2.0),
    "equal": _equal,
}  # fmt: skip
"""Good and bad initializations by name; each fills the weight layers of an architecture."""


@dataclass(frozen=True)
class Network:
    """An architecture with an initialization."""

    architecture: Architecture
    initialization: str

    @property
    def name(self) -> str:
        """Name with architecture and initialization."""
        return f"{self.architecture.name}-{self.initialization}"

    @property
    def seed(self) -> int:
        """Seed of the weights, derived from the name."""
        return zlib.crc32(self.name.encode())

    def build(self) -> nn.Module:
        """Return the initialized module, the same at every call."""
        with seeded(self.seed):
            model = self.architecture.build()
            layers = [module for module in model.modules() if is_weight_layer(module)]
            with torch.no_grad():
                INITIALIZATIONS[self.initialization](self.architecture, layers)
        return model


def architectures() -> tuple[Architecture, ...]:
    """Return the development set, on which thresholds and ranking were chosen; data sets alternate."""
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


def frozen_architectures() -> tuple[Architecture, ...]:
    """Return the frozen evaluation set: other depths and widths of the same kinds, not used in any choice."""
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
    """Return the architectures with alternating data sets."""
    return tuple(
        Architecture(*shape, data=("digits", "fashion-mnist")[index % 2]) for index, shape in enumerate(shapes)
    )


def networks() -> tuple[Network, ...]:
    """Return every architecture with every initialization; the frozen set comes last."""
    every = (*architectures(), *frozen_architectures())
    return tuple(Network(architecture, name) for architecture in every for name in INITIALIZATIONS)
