"""`token_rows`: texts as rows of token indices of one length, by a tokenizer or by their bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from initscope._utils.libraries import library
from initscope.errors import InputError, check_count

__all__ = ["token_rows"]


def token_rows(texts: Iterable[str], tokenizer: Any = None, length: int = 64) -> tuple[NDArray[np.int64], str]:
    """Return ``[N, length]`` token indices, cut or padded to one length, and a sentence about how they were made.

    Parameters
    ----------
    texts
        One text for each row.
    tokenizer
        A tokenizer of transformers or tokenizers, a function from a text to its indices, or the name or folder of a
        transformers tokenizer (nothing is downloaded). None: the bytes of the text.
    length
        Tokens of a row.

    Examples
    --------
    >>> token_rows(["ab", "c"], length=2)[0].tolist()
    [[97, 98], [99, 0]]
    """
    length = check_count("tokens", length, least=2)
    encode, padding, name = _encoder(tokenizer, length)
    rows, cut, padded = [], 0, 0
    for text in texts:
        ids = encode(text)
        cut, padded = cut + (len(ids) > length), padded + (len(ids) < length)
        rows.append([*ids[:length], *[padding] * (length - len(ids))])
    return np.array(rows, dtype=np.int64), f"tokens: {name}; {cut} texts cut, {padded} padded with {padding}"


def _encoder(tokenizer: Any, length: int) -> tuple[Any, int, str]:
    """Return the function from a text to its indices, the index that pads, and a name."""
    if tokenizer is None:
        return (lambda text: list(text.encode())), 0, "bytes"
    if isinstance(tokenizer, str):
        try:
            tokenizer = library("transformers").AutoTokenizer.from_pretrained(tokenizer, local_files_only=True)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"tokenizer {tokenizer!r} is not a folder with a tokenizer, nor one in the local cache of "
                "transformers; initscope downloads nothing"
            ) from error
    name, padding = type(tokenizer).__name__, getattr(tokenizer, "pad_token_id", None) or 0
    if hasattr(tokenizer, "pad_token_id"):  # of transformers, which warns about long texts unless it cuts them

        def called(text: str) -> list[int]:
            return list(tokenizer(text, truncation=True, max_length=length + 1)["input_ids"])

        return called, padding, name
    if not callable(tokenizer) and not hasattr(tokenizer, "encode"):
        raise InputError(f"tokenizer is of type {name}; give a tokenizer, a function from text to indices, or a name")

    def encoded(text: str) -> list[int]:
        ids = tokenizer.encode(text) if hasattr(tokenizer, "encode") else tokenizer(text)
        ids = ids["input_ids"] if isinstance(ids, Mapping) else getattr(ids, "ids", ids)
        return [int(index) for index in ids]

    return encoded, padding, getattr(tokenizer, "__name__", name)
