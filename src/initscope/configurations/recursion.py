r"""`outlook`: the tokens' Gram matrix of one pair of sequences through all blocks, without any weights.

Of a pair (x, y) of T tokens each the state is the matrix C ``[2T, 2T]`` of second moments of a unit. Norms divide by
its diagonal, weights multiply it, activations take their dual, heads are drawn (`propagate.heads`), branches add.
What a block costs does not depend on its width, except for the size of the heads that are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from initscope._hall.randomness import torch_generator
from initscope.configurations.transformer import Transformer
from initscope.errors import InputError, check_count
from initscope.propagate.draws import factor_of
from initscope.propagate.heads import attended_gram, attention_weights, entropy_of
from initscope.results import Result, make_axes
from initscope.theory.activations import activation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BlockRow", "Outlook", "outlook"]

_REPLICATES = 2
_MEMORY = 1 << 30  # bytes of all matrices that are alive together
_ALIVE = 10
_NODES = 1025  # of the table of a dual: linear between them it is right to 1e-6
_LARGEST = {"float16": 65504.0, "bfloat16": 3.39e38}
_STEP_OF = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


@dataclass(frozen=True)
class BlockRow(Result):
    """The stream behind a step: root mean square, cosines of tokens and of the pair; and what attention did.

    ``entropy`` and ``scores`` (deviation of the scores of a query) are NaN except behind attention; ``share`` is what
    the branch has of the stream's mean square.
    """

    layer: str
    kind: str
    rms: float
    token_cosine: float
    token_cosine_se: float
    cosine: float
    cosine_se: float
    entropy: float = math.nan
    scores: float = math.nan
    share: float = math.nan
    status: str = "closed form after sampling"


@dataclass(frozen=True)
class Outlook(Result):
    """What a transformer does at its start (see `initscope.configurations.outlook`).

    ``rows`` are the embedding, every attention and feed-forward layer, and the logits. ``logits`` is their root mean
    square, ``loss`` the expected cross-entropy of the first batch, ln V + logits²/2 for Gaussian logits; both NaN
    without a vocabulary. ``growth`` is the exponent of the stream's root mean square against the number of blocks.
    """

    model: Transformer
    tokens: int
    heads: int
    seed: int
    rows: tuple[BlockRow, ...]
    logits: float
    loss: float
    growth: float
    notes: tuple[str, ...] = ()

    def table(self) -> list[dict[str, Any]]:
        """One dict per row."""
        return [row.to_dict() for row in self.rows]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Root mean square of the stream, cosine of tokens and entropy against depth."""
        ax = make_axes(ax)
        stream = [row for row in self.rows if row.kind != "logits"]
        ax.plot([row.rms for row in stream], label="root mean square")
        ax.plot([row.token_cosine for row in stream], label="cosine of tokens")
        attention = [(place, row.entropy) for place, row in enumerate(stream) if row.kind == "attention"]
        ax.plot(*zip(*attention, strict=True), ".", label="entropy of attention")
        ax.set_xlabel("attention and feed-forward layers")
        ax.set_yscale("symlog", linthresh=1.0)
        ax.legend()
        return ax


def outlook(
    model: Transformer,
    tokens: int = 128,
    *,
    ids: Sequence[Sequence[int]] | None = None,
    heads: int | None = None,
    seed: int = 0,
) -> Outlook:
    """Growth of the stream, collapse of tokens, spread of attention, logits and loss at the start, without weights.

    Exact as widths grow, but for the heads that are drawn: standard errors tell how far two halves of them differ.

    Parameters
    ----------
    model : Transformer
        From `initscope.configurations.read`.
    tokens : int
        Length of the sequences.
    ids : two sequences of int, optional
        Tokens of x and y, by index. None: as good as all different in x, every second one of y as in x.
    heads : int, optional
        Heads to draw in each layer. None: 16, fewer for long sequences.
    seed : int
        Of the heads.

    Returns
    -------
    Outlook

    Examples
    --------
    >>> from initscope.configurations import read
    >>> model = read({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 2, "vocab_size": 100})
    >>> [row.kind for row in outlook(model, 8).rows]
    ['embedding', 'attention', 'feed-forward', 'attention', 'feed-forward', 'logits']
    """
    start = _indices(model, check_count("tokens", tokens, least=2), ids)
    tokens = start.shape[1]
    if _ALIVE * 8 * (2 * tokens) ** 2 > _MEMORY:
        most = int(math.sqrt(_MEMORY / _ALIVE / 8) / 2)
        raise InputError(f"tokens = {tokens}: their matrices would take more than 1 GB; at most {most} tokens fit")
    count = check_count("heads", heads or max(4, min(16, 2048 // tokens)), least=2)
    forward = _feed_forward(model)
    with ThreadPoolExecutor(_REPLICATES) as pool:  # each is a chain of small steps that keep one core busy

        def chain(index: int) -> list[BlockRow]:
            generator = torch_generator(seed, f"heads of replicate {index}")
            return _run(model, start, forward, count // _REPLICATES, generator)

        runs = list(pool.map(chain, range(_REPLICATES)))
    rows = tuple(_together(each) for each in zip(*runs, strict=True))
    logits = rows[-1].rms if model.vocabulary else math.nan
    loss = math.log(model.vocabulary) + logits**2 / 2 if model.vocabulary else math.nan
    stream = [row.rms for row in rows if row.kind == "feed-forward"]
    growth = _exponent(stream)
    return Outlook(model, tokens, count, seed, rows, logits, loss, growth, _notes(model, rows))


def _indices(model: Transformer, tokens: int, ids: Sequence[Sequence[int]] | None) -> Tensor:
    """``[2, T]`` indices, equal where tokens are."""
    if ids is not None:
        given = torch.as_tensor(np.asarray(ids))
        if given.dim() != 2 or len(given) != 2 or given.shape[1] < 2:
            raise InputError(
                f"ids of shape {tuple(given.shape)} must be two sequences of one length, from two tokens on"
            )
        if model.vocabulary and not bool(((given >= 0) & (given < model.vocabulary)).all()):
            raise InputError(f"ids up to {int(given.max())} are beyond the vocabulary of {model.vocabulary} tokens")
        return given
    size = max(model.vocabulary, 4 * tokens)
    both = torch.randint(size, (2, tokens), generator=torch.Generator().manual_seed(1))
    both[1, ::2] = both[0, ::2]
    return both


def _run(
    model: Transformer, start: Tensor, forward: Callable[[Tensor], Tensor], heads: int, generator: torch.Generator
) -> list[BlockRow]:
    spreads, flat = model.spreads, start.flatten()
    stream = spreads.embedding**2 * (flat[:, None] == flat).double()
    if spreads.positions:
        place = torch.arange(start.shape[1]).repeat(2)
        stream = stream + spreads.positions**2 * (place[:, None] == place).double()
    if model.order == "post":
        stream = _normed(stream, model.eps)
    rows = [_row("embedding", "embedding", stream, status="closed form")]
    for layer in range(model.layers):
        for kind in ("attention", "feed-forward"):
            read = _normed(stream, model.eps) if model.order == "pre" else stream
            told: dict[str, Any] = {}
            if kind == "attention":
                branch, told = _attention(model, read, heads, generator)
            else:
                branch = _mixed(model, forward(read), read, generator)
            stream = model.shortcut**2 * stream + branch
            told["share"] = float(branch.diagonal().mean() / stream.diagonal().mean())
            rows.append(_row(f"{layer}.{kind}", kind, stream, **told))
            if model.order == "post":
                stream = _normed(stream, model.eps)
    if model.vocabulary:
        read = _normed(stream, model.eps) if model.order == "pre" else stream
        spread = spreads.embedding if model.tied else spreads.head
        rows.append(_row("logits", "logits", model.width * (spread * model.head_scale) ** 2 * read))
    return rows


def _normed(stream: Tensor, eps: float) -> Tensor:
    scale = (stream.diagonal() + eps).rsqrt()
    return scale[:, None] * stream * scale


def _attention(
    model: Transformer, read: Tensor, heads: int, generator: torch.Generator
) -> tuple[Tensor, dict[str, Any]]:
    """The branch of attention: heads drawn at their own size."""
    spreads, half = model.spreads, len(read) // 2
    root = factor_of(read).float()
    shape = (len(read), heads * model.head_size)
    sides = []
    for spread in (spreads.query, spreads.key):
        drawn = root @ torch.randn(shape, generator=generator) * (spread * math.sqrt(model.width))
        drawn = drawn.reshape(2, half, heads, model.head_size).transpose(1, 2)
        sides.append(_rotated(drawn, model.rotation) if model.rotation else drawn)
    query, key = sides
    weights = attention_weights(query, key, causal=model.causal, scale=model.scale)
    after = attended_gram(read[None], weights[:1], weights[1:])[0]
    gain = model.width * spreads.value**2 * model.heads * model.head_size * spreads.output**2
    scores = model.scale * (query[:, :1] @ key[:, :1].mT)
    told = {"entropy": entropy_of(weights), "scores": float((scores - scores.mean(dim=-1, keepdim=True)).std())}
    return gain * after, told


def _rotated(values: Tensor, base: float) -> Tensor:
    """Halves of the channels turned against each other by the position [Su2021]_."""
    half = values.shape[-1] // 2
    angle = torch.arange(values.shape[-2])[:, None] / base ** (torch.arange(half) / half)
    cos, sin = (function(angle).float() for function in (torch.cos, torch.sin))
    first, second = values[..., :half], values[..., half : 2 * half]
    return torch.cat([first * cos - second * sin, second * cos + first * sin, values[..., 2 * half :]], dim=-1)


def _feed_forward(model: Transformer) -> Callable[[Tensor], Tensor]:
    """The branch of a feed-forward layer on normed tokens: the dual, read from a table over the cosine."""
    sigma, variance = activation(model.activation), model.width * model.spreads.up**2
    angle = np.linspace(0, np.pi, _NODES)
    size = np.full(_NODES, variance)
    dual = np.asarray(sigma.dual(size, size, variance * np.cos(angle))) if variance > 0 else np.zeros(_NODES)
    gain = model.inner * model.spreads.down**2 * (variance if model.gated else 1.0)
    nodes = torch.from_numpy(gain * dual)
    steps = torch.cat([nodes.diff(), nodes.new_zeros(1)])

    def branch(read: Tensor) -> Tensor:
        cosine = read.clamp(-1, 1)
        place = torch.arccos(cosine).mul_((_NODES - 1) / math.pi)
        below = place.long()
        values = nodes[below] + (place - below) * steps[below]
        return values * cosine if model.gated else values

    return branch


def _mixed(model: Transformer, branch: Tensor, read: Tensor, generator: torch.Generator) -> Tensor:
    """Of a mixture: two tokens share what an expert adds only where both chose it, with the weights of both."""
    if model.experts == 1:
        return branch
    total, draws = torch.zeros_like(branch), 8
    root = factor_of(read).float()
    for _ in range(draws):
        scores = root @ torch.randn((len(read), model.experts), generator=generator)
        scores = scores * (model.spreads.up * math.sqrt(model.width))
        best, chosen = scores.topk(model.chosen, dim=1)
        gates = torch.zeros_like(scores).scatter(1, chosen, best.softmax(dim=1)).double()
        total += gates @ gates.T
    return branch * total / draws


def _row(
    layer: str, kind: str, stream: Tensor, *, status: str = "closed form after sampling", **told: float
) -> BlockRow:
    half, square = len(stream) // 2, stream.diagonal()
    scale = square.clamp_min(1e-300).rsqrt()
    cosines = scale[:half, None] * stream[:half, :half] * scale[:half]
    pair = float(stream[:half, half:].diagonal().sum() / (square[:half].sum() * square[half:].sum()).sqrt())
    own = float((cosines.sum() - half) / (half * (half - 1)))
    rms = float(square[:half].mean().sqrt())
    return BlockRow(layer, kind, rms, own, 0.0, pair, 0.0, status=status, **told)


def _together(rows: Sequence[BlockRow]) -> BlockRow:
    """The mean of replicates, with the error that their difference tells."""
    mean: dict[str, Any] = {name: float(np.mean([getattr(row, name) for row in rows])) for name in _AVERAGED}
    errors: dict[str, Any] = {
        f"{name}_se": float(np.std([getattr(row, name) for row in rows], ddof=1) / math.sqrt(len(rows)))
        for name in ("token_cosine", "cosine")
    }
    return replace(rows[0], **mean, **errors)


_AVERAGED = ("rms", "token_cosine", "cosine", "entropy", "scores", "share")


def _exponent(stream: list[float]) -> float:
    from initscope.theory.attention import growth_exponent

    later = stream[len(stream) // 2 :]
    if len(later) < 2 or min(later) <= 0:
        return math.nan
    return float(growth_exponent(np.arange(len(stream) - len(later) + 1, len(stream) + 1), later))


def _notes(model: Transformer, rows: Sequence[BlockRow]) -> tuple[str, ...]:
    """What the numbers mean for number formats, tokens and heads, where they mean something."""
    stream = [row for row in rows if row.kind in ("embedding", "attention", "feed-forward")]
    notes = []
    peak = max(row.rms for row in stream) * math.sqrt(2 * math.log(max(2, model.width)))
    if peak > _LARGEST["float16"]:
        notes.append(f"values of the stream reach {peak:.3g}: beyond float16 (65504)")
    smallest = min((row.share for row in stream if row.share == row.share), default=1.0)
    if 0 < math.sqrt(smallest) < _STEP_OF["bfloat16"]:
        notes.append(f"a branch is {math.sqrt(smallest):.2g} of the stream: bfloat16 rounds most of it off (2^-8)")
    last = stream[-1]
    if last.token_cosine > 0.95:
        notes.append(f"tokens of a sequence are one: their mean cosine is {last.token_cosine:.3f} at the end")
    entropies = [row.entropy for row in stream if row.kind == "attention"]
    if min(entropies) < 0.1:
        notes.append(f"attention reads single tokens: its entropy falls to {min(entropies):.3f} of ln n")
    if model.tied and model.vocabulary:
        notes.append("the head is the embedding: the logit of a token that was just read is larger than told here")
    return tuple(notes)
