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
    """Standard deviations of the weights, by what they do; ``positions`` 0 where none are learned.

    ``embedding`` is what enters the stream, with the factor that some models give it; ``common`` is that of a vector
    which all tokens get, as that of their type.
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
                raise InputError(f"standard deviation of {name} = {value} must be finite and not negative")


@dataclass(frozen=True)
class Transformer(Result):
    """Sizes of a stack of equal blocks of attention and feed-forward layers, and the law of its weights.

    With ``decoder`` layers there are two stacks: an encoder, whose tokens see each other, and a causal decoder, whose
    blocks read what the encoder made as well.

    Attributes
    ----------
    width, layers, heads, key_heads, head_size, inner, vocabulary : int
        Sizes; ``key_heads`` fewer than ``heads`` where heads share keys and values; ``inner`` is the width of the
        feed-forward layer; ``vocabulary`` 0 for models of images, whose tokens are patches.
    activation : str
        Of the feed-forward layer, a name of `initscope.theory.activations`.
    gated, causal, tied : bool
        Whether activations gate a second projection, a token sees only those before it, the head is the embedding.
    norm : {"rms", "layer"}; order : {"pre", "post"}
        What is normed, and whether before the branches or behind the sums.
    rotation : float; rotated : int
        Base of the rotation of queries and keys by their position; 0: none. How many channels of a head it turns; 0:
        all.
    waves, embedding_norm, branch_norm, head_norm, parallel, head_layer : bool
        Whether sines are added for positions; whether embeddings, what branches add, and queries and keys are normed;
        whether the feed-forward layer reads what attention reads; whether the head has a layer before its table.
    scale : float
        Factor of the scores.
    shortcut : float
        Factor of the stream where a branch is added: 1, or more as in DeepNorm.
    experts, chosen : int
        Of a mixture: how many, and how many each token reads; 1 and 1 for a plain feed-forward layer.
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
    """Factor of what the head reads or gives."""

    def __post_init__(self) -> None:
        for name in ("width", "layers", "heads", "key_heads", "head_size", "inner", "experts", "chosen"):
            _check_whole(name, getattr(self, name), 1)
        for name in ("vocabulary", "decoder", "rotated"):
            _check_whole(name, getattr(self, name), 0)
        if not 0 <= self.eps < math.inf:
            raise InputError(f"eps = {self.eps!r} of the norms must be finite and not negative")
        if self.heads % self.key_heads:
            raise InputError(f"{self.heads} heads cannot share {self.key_heads} keys evenly; one must divide the other")
        if self.chosen > self.experts:
            raise InputError(f"a token cannot read {self.chosen} of {self.experts} experts")

    @property
    def parameters(self) -> int:
        """Weights of all matrices, norms and biases left out."""
        attention = self.width * self.head_size * (2 * self.heads + 2 * self.key_heads)
        forward = self.width * self.inner * (3 if self.gated else 2) * self.experts
        table = self.vocabulary * self.width * (1 if self.tied else 2)
        return self.layers * (attention + forward) + self.decoder * (2 * attention + forward) + table

    def deepened(self, factor: float) -> Transformer:
        """The numbers of blocks times ``factor``, at least one."""
        blocks = max(1, round(self.layers * factor))
        return replace(self, layers=blocks, decoder=self.decoder and max(1, round(self.decoder * factor)))

    def widened(self, factor: float) -> Transformer:
        """All widths times ``factor``: more heads of the same size, a wider stream and feed-forward layer."""
        times = {
            name: round(getattr(self, name) * factor) for name in ("width", "heads", "key_heads", "inner")
        }  # fmt: skip
        if any(abs(times[name] - getattr(self, name) * factor) > 1e-9 or times[name] < 1 for name in times):
            raise InputError(
                f"widths of {self.family} cannot be multiplied by {factor}: heads would be no whole number"
            )
        return replace(self, **times)


def _check_whole(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(f"{name} = {value!r} must be a whole number from {least} on")
