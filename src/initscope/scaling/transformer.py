"""`Transformer`: the sizes of a transformer and the distribution of its weights at initialization."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal

from initscope.errors import InputError
from initscope.results import Result

__all__ = ["Spreads", "Transformer"]


@dataclass(frozen=True)
class Spreads(Result):
    """Standard deviations of the weights by their purpose; ``positions`` is 0 without learned positions.

    ``embedding`` includes the factor by which some models multiply the embedding. ``common`` belongs to a vector that
    is added to all tokens, such as the token type embedding.
    """

    embedding: float
    positions: float
    query: float
    key: float
    value: float
    output: float
    up: float
    down: float
    head: float
    common: float = 0.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 <= value < math.inf:
                raise InputError(f"standard deviation of {name} = {value} must be finite and at least 0")


@dataclass(frozen=True)
class Transformer(Result):
    """Sizes of a stack of equal blocks of attention and feed-forward layers, and the distribution of its weights.

    With ``decoder`` layers there are two stacks: a bidirectional encoder, and a causal decoder with cross-attention to
    the encoder.

    Attributes
    ----------
    width, layers, heads, key_heads, head_size, inner, vocabulary : int
        Sizes. ``key_heads`` is less than ``heads`` for grouped-query attention; ``inner`` is the width of the
        feed-forward layer; ``vocabulary`` is 0 for vision models, whose tokens are patches.
    activation : str
        Activation of the feed-forward layer, a name in `initscope.theory.activations`.
    gated, causal, tied : bool
        Whether the feed-forward layer is gated, attention is causal, and the head shares the embedding.
    norm : {"rms", "layer"}; order : {"pre", "post"}
        RMSNorm or LayerNorm, before the branches (pre-norm) or after the sums (post-norm).
    rotation : float; rotated : int
        Base of the rotary position embedding, 0 without it; and the number of rotated channels per head, 0 for all.
    waves, embedding_norm, branch_norm, head_norm, parallel, head_layer : bool
        Whether there are sinusoidal positions; norms of embeddings, of branch outputs, and of queries and keys;
        parallel attention and feed-forward branches; a layer before the output matrix in the head.
    scale : float
        Factor of the scores.
    shortcut : float
        Factor of the stream at the sum with a branch: 1, or larger as in DeepNorm.
    experts, chosen : int
        Number of experts of a mixture, and number that each token uses; both are 1 for a plain feed-forward layer.
    """

    family: str
    width: int
    layers: int
    heads: int
    key_heads: int
    head_size: int
    inner: int
    vocabulary: int
    activation: str
    spreads: Spreads
    gated: bool = False
    causal: bool = True
    tied: bool = False
    norm: Literal["rms", "layer"] = "layer"
    order: Literal["pre", "post"] = "pre"
    rotation: float = 0.0
    rotated: int = 0
    waves: bool = False
    embedding_norm: bool = False
    branch_norm: bool = False
    head_norm: bool = False
    parallel: bool = False
    head_layer: bool = False
    decoder: int = 0
    scale: float = 0.0
    eps: float = 1e-6
    shortcut: float = 1.0
    experts: int = 1
    chosen: int = 1
    head_scale: float = field(default=1.0)
    """Factor on the logits."""

    def __post_init__(self) -> None:
        for name in ("width", "layers", "heads", "key_heads", "head_size", "inner", "experts", "chosen"):
            _check_whole(name, getattr(self, name), 1)
        for name in ("vocabulary", "decoder", "rotated"):
            _check_whole(name, getattr(self, name), 0)
        if not 0 <= self.eps < math.inf:
            raise InputError(f"eps = {self.eps!r} of the norms must be finite and at least 0")
        if self.heads % self.key_heads:
            raise InputError(f"heads = {self.heads} must be a multiple of key_heads = {self.key_heads}")
        if self.chosen > self.experts:
            raise InputError(f"chosen = {self.chosen} exceeds the number of experts, {self.experts}")

    @property
    def parameters(self) -> int:
        """Number of weights of all matrices, without norms and biases."""
        attention = self.width * self.head_size * (2 * self.heads + 2 * self.key_heads)
        forward = self.width * self.inner * (3 if self.gated else 2) * self.experts
        table = self.vocabulary * self.width * (1 if self.tied else 2)
        return self.layers * (attention + forward) + self.decoder * (2 * attention + forward) + table

    def deepened(self, factor: float) -> Transformer:
        """Return a copy whose number of blocks is multiplied by ``factor``, at least one."""
        blocks = max(1, round(self.layers * factor))
        return replace(self, layers=blocks, decoder=self.decoder and max(1, round(self.decoder * factor)))

    def widened(self, factor: float) -> Transformer:
        """Return a copy with all widths times ``factor``; heads keep their size and become more."""
        times = {
            name: round(getattr(self, name) * factor) for name in ("width", "heads", "key_heads", "inner")
        }  # fmt: skip
        if any(abs(times[name] - getattr(self, name) * factor) > 1e-9 or times[name] < 1 for name in times):
            raise InputError(
                f"widths of {self.family} cannot be multiplied by {factor}: the result is not a whole number"
            )
        return replace(self, **times)


def _check_whole(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(f"{name} = {value!r} must be a whole number of at least {least}")
