r"""`outlook`: predict the Gram matrix of the tokens of a pair of sequences after every block, without weights.

For a pair (x, y) of T tokens each, the state is the matrix C ``[2T, 2T]`` of second moments of a unit. Norms divide by
its diagonal, weights multiply it, activations apply their dual, heads are sampled (`propagate.heads`), and branches
are added. The cost of a block depends on the size of the sampled heads, but not on the width.
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

from initscope._utils.randomness import torch_generator
from initscope.errors import InputError, check_count
from initscope.results import Result, make_axes
from initscope.scaling.branches import attention, feed_forward, mixed
from initscope.scaling.transformer import Transformer
from initscope.theory.attention import expected_log_sum_exp, growth_exponent, mean_token_cosine

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BlockRow", "Outlook", "outlook"]

_REPLICATES = 2
_MEMORY = 1 << 30  # limit on the bytes of all matrices that exist at the same time
_ALIVE = 10
_LARGEST = {"float16": 65504.0, "bfloat16": 3.39e38}
_STEP_OF = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


@dataclass(frozen=True)
class BlockRow(Result):
    """The residual stream after a layer: its RMS, cosines of tokens and of the pair, and statistics of attention.

    ``entropy`` and ``scores`` (standard deviation of the scores of a query) are NaN except after attention. ``share``
    is the mean square of the branch divided by that of the stream.
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
    """Prediction for a transformer at initialization (see `initscope.scaling.outlook`).

    ``rows`` are the embedding, every attention and feed-forward layer, and the logits. ``logits`` is the RMS of the
    logits, and ``loss`` the expected cross-entropy of the first batch for targets that differ from the input token;
    both are NaN without a vocabulary. Logits are Gaussian, so small logits give a loss of about ln V + logits²/2. If
    the head shares the embedding, the logit of the input token has a nonzero mean, because the stream still contains
    its embedding. ``growth`` is the exponent of the RMS of the stream against the number of blocks.
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
        """Return one dict per row."""
        return [row.to_dict() for row in self.rows]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the RMS of the stream, the cosine of tokens and the entropy of attention against depth."""
        ax = make_axes(ax)
        stream = [row for row in self.rows if row.kind != "logits"]
        ax.plot([row.rms for row in stream], label="root mean square")
        ax.plot([row.token_cosine for row in stream], label="cosine of tokens")
        attention = [(index, row.entropy) for index, row in enumerate(stream) if row.kind == "attention"]
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
    """Predict the residual stream, attention, logits and loss of a transformer at initialization, without weights.

    The prediction is exact in the limit of large width, except for the sampled heads. Standard errors come from the
    difference of two halves of the heads.

    Parameters
    ----------
    model : Transformer
        From `initscope.scaling.read`.
    tokens : int
        Length of the sequences.
    ids : two sequences of int, optional
        Token indices of x and y. None: random tokens, with every second token of y equal to that of x.
    heads : int, optional
        Heads to sample in each layer, rounded down to a multiple of 4: two halves, each query with its negative. None:
        16, fewer for long sequences.
    seed : int
        Seed of the heads.

    Returns
    -------
    Outlook

    Examples
    --------
    >>> from initscope.scaling import read
    >>> model = read({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 2, "vocab_size": 100})
    >>> [row.kind for row in outlook(model, 8).rows]
    ['embedding', 'attention', 'feed-forward', 'attention', 'feed-forward', 'logits']
    """
    indices = _indices(model, check_count("tokens", tokens, least=2), ids)
    tokens = indices.shape[1]
    if _ALIVE * 8 * (2 * tokens) ** 2 > _MEMORY:
        most = int(math.sqrt(_MEMORY / _ALIVE / 8) / 2)
        raise InputError(f"tokens = {tokens} needs more than 1 GB for Gram matrices; use at most {most} tokens")
    count = check_count("heads", heads or max(4, min(16, 2048 // tokens)), least=2 * _REPLICATES)
    forward = feed_forward(model)
    with ThreadPoolExecutor(_REPLICATES) as pool:  # a replicate is a chain of small ops on one core

        def chain(index: int) -> tuple[list[BlockRow], float]:
            generator = torch_generator(seed, f"heads of replicate {index}")
            return _run(model, indices, forward, count // (2 * _REPLICATES), generator)

        runs = list(pool.map(chain, range(_REPLICATES)))
    rows = tuple(_together(replicates) for replicates in zip(*(rows for rows, _ in runs), strict=True))
    logits = rows[-1].rms if model.vocabulary else math.nan
    loss = float(np.mean([loss for _, loss in runs]))
    stream = [row.rms for row in rows if row.kind == "feed-forward"]
    growth = _exponent(stream[-(model.decoder or model.layers) :])
    return Outlook(model, tokens, count, seed, rows, logits, loss, growth, _notes(model, rows))


def _indices(model: Transformer, tokens: int, ids: Sequence[Sequence[int]] | None) -> Tensor:
    """Return the token indices ``[2, T]``."""
    if ids is not None:
        given = torch.as_tensor(np.asarray(ids))
        if given.dim() != 2 or len(given) != 2 or given.shape[1] < 2:
            raise InputError(
                f"ids of shape {tuple(given.shape)} must be two sequences of equal length, at least two tokens each"
            )
        if model.vocabulary and not bool(((given >= 0) & (given < model.vocabulary)).all()):
            raise InputError(
                f"ids up to {int(given.max())} exceed the vocabulary of {model.vocabulary} tokens; text is read as "
                "bytes, which need vocab_size = 256"
            )
        return given
    size = max(model.vocabulary, 4 * tokens)
    both = torch.randint(size, (2, tokens), generator=torch.Generator().manual_seed(1))
    both[1, ::2] = both[0, ::2]
    return both


@dataclass(frozen=True)
class _Stream:
    """Second moments of a unit over the tokens of x and y, and two parts of them.

    ``mean`` is the contribution of the mean over channels: sinusoidal position encodings have one, and layer norms
    remove it. ``words [tokens]`` are the factors of the token embeddings that remain in the stream.
    """

    gram: Tensor
    mean: Tensor
    words: Tensor

    def normed(self, eps: float) -> _Stream:
        """Return the stream after a norm."""
        rest = self.gram - self.mean
        scale = (rest.diagonal() + eps).rsqrt()
        return _Stream(scale[:, None] * rest * scale, torch.zeros_like(self.mean), scale * self.words)

    def plus(self, branch: Tensor, shortcut: float) -> _Stream:
        """Return ``shortcut`` times the stream plus a branch with independent weights."""
        return _Stream(shortcut**2 * self.gram + branch, shortcut**2 * self.mean, shortcut * self.words)


def _run(
    model: Transformer, indices: Tensor, forward: Callable[[Tensor], Tensor], draws: int, generator: torch.Generator
) -> tuple[list[BlockRow], float]:
    """Return the rows of all layers, and the expected loss."""
    stream = _embedded(model, indices)
    rows = [_row("embedding", "embedding", stream.gram, status="closed form")]
    blocks = _Blocks(model, forward, draws, generator, rows)
    if model.decoder:
        memory = blocks.run("encoder.", stream, model.layers, causal=False).gram
        read = blocks.run("decoder.", stream, model.decoder, causal=True, memory=memory)
    else:
        read = blocks.run("", stream, model.layers, causal=model.causal)
    if not model.vocabulary:
        return rows, math.nan
    spread = (model.spreads.embedding if model.tied else model.spreads.head) * model.head_scale
    gram = model.width * spread**2 * read.gram
    own_mean = torch.zeros_like(read.words)
    if model.tied and not model.head_layer:
        flat = indices.flatten()
        own_mean = model.width * spread * model.spreads.embedding * read.words
        rows.append(
            _row("logits", "logits", gram + own_mean[:, None] * own_mean * (flat[:, None] == flat) / model.vocabulary)
        )
    else:
        rows.append(_row("logits", "logits", gram))
    return rows, _loss(model, gram.diagonal(), own_mean)


def _loss(model: Transformer, square: Tensor, own_mean: Tensor) -> float:
    """Return the expected cross-entropy of logits of mean square ``square``; the input token's have mean ``own_mean``.

    The logit of the input token is ⟨E, r⟩ for a row E of the head and a normalized stream r that has the cosine c with
    it. Its variance over the weights is s²(1 - c²/2) with c = own_mean/(s√width), to first order, as norms fix ‖r‖.
    """
    half = len(own_mean) // 2  # tokens of x, as in all rows
    deviation, means = float(square[:half].mean().sqrt()), own_mean[:half].numpy()
    cosine = float(np.sqrt(np.mean(means**2) / model.width)) / deviation if deviation > 0 else 0.0
    spread = deviation * math.sqrt(1 - min(1.0, cosine) ** 2 / 2)
    return float(np.mean(expected_log_sum_exp(model.vocabulary, deviation, own_mean=means, own_deviation=spread)))


def _embedded(model: Transformer, indices: Tensor) -> _Stream:
    """Return the stream before the first block: token embeddings plus positions."""
    flat, position = indices.flatten(), torch.arange(indices.shape[1]).repeat(2)
    gram = model.spreads.embedding**2 * (flat[:, None] == flat).double() + model.spreads.common**2
    mean, words = gram.new_zeros(()), gram.new_ones(len(flat))
    if model.waves:
        frequency = 10000.0 ** (-torch.arange(0, model.width, 2, dtype=torch.float64) / model.width)
        angle = position[:, None] * frequency
        waves = torch.cat([angle.sin(), angle.cos()], dim=1)
        gram, mean = gram + waves @ waves.T / waves.shape[1], waves.mean(dim=1)[:, None] * waves.mean(dim=1)
    elif model.spreads.positions:
        gram = gram + model.spreads.positions**2 * (position[:, None] == position).double()
    stream = _Stream(gram, mean, words)
    return stream.normed(model.eps) if model.embedding_norm else stream


@dataclass(frozen=True)
class _Blocks:
    """Propagates the stream through a stack of blocks and adds a row after every branch."""

    model: Transformer
    forward: Callable[[Tensor], Tensor]
    draws: int
    generator: torch.Generator
    rows: list[BlockRow]

    def run(self, name: str, stream: _Stream, layers: int, *, causal: bool, memory: Tensor | None = None) -> _Stream:
        """Return the normalized stream after ``layers`` blocks; with ``memory``, blocks also have cross-attention."""
        model, read = self.model, stream
        kinds = ["attention", "feed-forward"] if memory is None else ["attention", "cross", "feed-forward"]
        for layer in range(layers):
            for kind in kinds:
                if model.order == "pre" and (kind == "attention" or not model.parallel):
                    read = stream.normed(model.eps)
                branch, statistics = self._branch(kind, read.gram, causal, memory)
                stream = stream.plus(branch, model.shortcut)
                statistics["share"] = float(branch.diagonal().mean() / stream.gram.diagonal().mean())
                row = "feed-forward" if kind == "feed-forward" else "attention"
                self.rows.append(_row(f"{name}{layer}.{kind}", row, stream.gram, **statistics))
                if model.order == "post":
                    read = stream = stream.normed(model.eps)
        return stream.normed(model.eps) if model.order == "pre" else stream

    def _branch(self, kind: str, read: Tensor, causal: bool, memory: Tensor | None) -> tuple[Tensor, dict[str, Any]]:
        """Return the Gram matrix of a branch, and its statistics."""
        model, statistics = self.model, dict[str, Any]()
        if kind == "feed-forward":
            branch = mixed(model, self.forward(read), read, self.generator)
        else:
            source, past = (memory, False) if kind == "cross" else (None, causal)
            branch, statistics = attention(model, read, self.draws, self.generator, causal=past, source=source)
        if model.branch_norm:
            scale = (branch.diagonal() + model.eps).rsqrt()
            branch = scale[:, None] * branch * scale
        return branch, statistics


def _row(
    layer: str, kind: str, stream: Tensor, *, status: str = "closed form after sampling", **statistics: float
) -> BlockRow:
    half, square = len(stream) // 2, stream.diagonal()
    pair = float(stream[:half, half:].diagonal().sum() / (square[:half].sum() * square[half:].sum()).sqrt())
    token_cosine = float(mean_token_cosine(stream[:half, :half]))
    rms = float(square[:half].mean().sqrt())
    return BlockRow(layer, kind, rms, token_cosine, 0.0, pair, 0.0, status=status, **statistics)


def _together(rows: Sequence[BlockRow]) -> BlockRow:
    """Return the mean of replicates, with standard errors from their difference."""
    mean: dict[str, Any] = {name: float(np.mean([getattr(row, name) for row in rows])) for name in _AVERAGED}
    errors: dict[str, Any] = {
        f"{name}_se": float(np.std([getattr(row, name) for row in rows], ddof=1) / math.sqrt(len(rows)))
        for name in ("token_cosine", "cosine")
    }
    return replace(rows[0], **mean, **errors)


_AVERAGED = ("rms", "token_cosine", "cosine", "entropy", "scores", "share")


def _exponent(stream: list[float]) -> float:
    later = stream[len(stream) // 2 :]
    if len(later) < 2 or min(later) <= 0:
        return math.nan
    return float(growth_exponent(np.arange(len(stream) - len(later) + 1, len(stream) + 1), later))


def _notes(model: Transformer, rows: Sequence[BlockRow]) -> tuple[str, ...]:
    """Return notes on overflow, rounding, indistinguishable tokens and low-entropy attention."""
    stream = [row for row in rows if row.kind not in ("cross", "logits")]
    notes = []
    peak = max(row.rms for row in stream) * math.sqrt(2 * math.log(max(2, model.width)))
    if peak > _LARGEST["float16"]:
        notes.append(f"values of the residual stream reach {peak:.3g}, which overflows float16 (maximum 65504)")
    smallest = min((row.share for row in stream if row.share == row.share), default=1.0)
    if 0 < math.sqrt(smallest) < _STEP_OF["bfloat16"]:
        notes.append(
            f"the RMS of a branch is {math.sqrt(smallest):.2g} times that of the "
            "stream: bfloat16 (2^-8) rounds most of it off"
        )
    last = stream[-1]
    if last.token_cosine > 0.95:
        notes.append(
            f"tokens of a sequence become indistinguishable: their mean cosine is {last.token_cosine:.3f} at the end"
        )
    entropies = [row.entropy for row in stream if row.kind == "attention"]
    if min(entropies) < 0.1:
        notes.append(f"attention concentrates on single tokens: its entropy falls to {min(entropies):.3f} of ln n")
    return tuple(notes)
