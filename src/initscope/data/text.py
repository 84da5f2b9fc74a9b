"""Text as data: pairs of byte sequences, from a file or from bundled lines.

Each byte is a token, so any model with at least 256 embeddings can read it, and nothing is downloaded.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from initscope._utils.files import memory_limit, read_small
from initscope.data.image_set import ImageSet
from initscope.errors import InputError, check_count

__all__ = ["is_text", "text_pairs", "text_set", "text_tokens"]

_LINES = """\
Call me Ishmael. Some years ago, never mind how long precisely, having little or no money in my purse, and nothing
particular to interest me on shore, I thought I would sail about a little and see the watery part of the world.
It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in want of a wife.
However little known the feelings or views of such a man may be on his first entering a neighbourhood, this truth is
so well fixed in the minds of the surrounding families, that he is considered as the rightful property of some one or
other of their daughters.
Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to do: once or twice
she had peeped into the book her sister was reading, but it had no pictures or conversations in it, and what is the use
of a book, thought Alice, without pictures or conversations?
It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness, it was the
epoch of belief, it was the epoch of incredulity, it was the season of Light, it was the season of Darkness, it was the
spring of hope, it was the winter of despair, we had everything before us, we had nothing before us.
You will rejoice to hear that no disaster has accompanied the commencement of an enterprise which you have regarded with
such evil forebodings. I arrived here yesterday, and my first task is to assure my dear sister of my welfare.
Shall I compare thee to a summer's day? Thou art more lovely and more temperate: rough winds do shake the darling buds
of May, and summer's lease hath all too short a date.
"""
"""Melville, Austen, Carroll, Dickens, Shelley and Shakespeare: in the public domain."""


def is_text(spec: str | None) -> bool:
    """Return whether ``spec`` names text: ``text`` or ``text:FILE``."""
    return spec is not None and (spec == "text" or spec.startswith("text:"))


def text_tokens(spec: str = "text") -> npt.NDArray[np.int64]:
    """Return all bytes of ``text:FILE``, or of the bundled lines for ``text``.

    >>> text_tokens()[:4].tolist()
    [67, 97, 108, 108]
    """
    if not is_text(spec):
        raise InputError(f"data = {spec!r} is not text; give text or text:FILE")
    if spec == "text":
        raw = _LINES.encode()
    else:
        path = Path(spec.removeprefix("text:"))
        raw = read_small(path, "text", "give a smaller file", memory_limit() // 16)  # 8 bytes for each, and copies
    return np.frombuffer(raw, dtype=np.uint8).astype(np.int64)


def text_set(spec: str = "text", *, tokens: int = 64, limit: int | None = None) -> ImageSet:
    """Return consecutive passages of ``tokens`` bytes, as indices ``[N, tokens]``.

    >>> text_set(tokens=32, limit=5)
    ImageSet(text: 5 sequences of 32 tokens)
    """
    content, tokens = text_tokens(spec), check_count("tokens", tokens, least=2)
    count = len(content) // tokens if limit is None else min(limit, len(content) // tokens)
    if count < 2:
        raise InputError(f"the text has {len(content)} bytes, too few for two passages of {tokens}; give a longer one")
    return ImageSet(content[: count * tokens].reshape(count, tokens), name=spec)


def text_pairs(
    spec: str = "text", *, tokens: int = 64, pairs: int = 8
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return pairs of different passages, ``[pairs, tokens]`` bytes each, evenly spaced over the text.

    >>> x, y = text_pairs(tokens=16, pairs=3)
    >>> x.shape, bool((x == y).all())
    ((3, 16), False)
    """
    tokens, pairs = check_count("tokens", tokens, least=2), check_count("pairs", pairs)
    content = text_tokens(spec)
    if len(content) < tokens + 2 * pairs:
        raise InputError(
            f"the text has {len(content)} bytes, too few for {pairs} pairs of {tokens} tokens; give a longer one, "
            "fewer tokens or fewer pairs"
        )
    offsets = np.linspace(0, len(content) - tokens, 2 * pairs).round().astype(np.int64)
    passages = content[offsets[:, None] + np.arange(tokens)]
    return passages[::2], passages[1::2]
