"""Packed binary codes ``uint8 [N, ceil(bits/8)]``, lowest bit first, padding zero; and their Hamming distances."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from initscope.errors import InputError, check_count

__all__ = ["check_codes", "code_bytes", "hamming_blocks", "hamming_distance", "pack_bits", "unpack_bits", "words"]

_BLOCK_ELEMENTS = 4_000_000  # distances held at once by `hamming_blocks`


def code_bytes(bits: int) -> int:
    """Return the number of bytes of a packed code."""
    return -(-check_count("bits", bits) // 8)


def pack_bits(bits: Any) -> np.ndarray:
    """Pack columns that are 0/1, boolean or scores (a bit is ``score > 0``) into bytes.

    >>> pack_bits([[1, 0, 0, 0, 0, 0, 0, 0, 1]])
    array([[1, 1]], dtype=uint8)
    """
    return np.packbits(np.asarray(bits) > 0, axis=1, bitorder="little")


def unpack_bits(codes: np.ndarray, bits: int) -> np.ndarray:
    """Return the 0/1 columns of packed codes.

    >>> unpack_bits(pack_bits([[0, 1, 1]]), 3)
    array([[0, 1, 1]], dtype=uint8)
    """
    return np.unpackbits(check_codes("codes", codes, bits), axis=1, count=bits, bitorder="little")


def check_codes(name: str, codes: Any, bits: int | None = None) -> np.ndarray:
    """Return ``codes`` as a contiguous uint8 matrix of the right width with zero padding, or raise `InputError`."""
    array = np.asarray(codes)
    if array.dtype != np.uint8 or array.ndim != 2 or array.shape[1] == 0:
        raise InputError(
            f"{name}: {array.dtype} of shape {array.shape} is no packed code; expected uint8 [N, bytes], as "
            "`transform` returns it (0/1 columns: pack them with `pack_bits`)"
        )
    if bits is not None:
        expected = code_bytes(bits)
        if array.shape[1] != expected:
            raise InputError(f"{name} has {array.shape[1]} bytes per code; {bits} bits need {expected}")
        if bits % 8 and (array[:, -1] >> (bits % 8)).any():
            raise InputError(f"{name} has bits set beyond the {bits} of a code; the padding must be zero")
    return np.ascontiguousarray(array)


def words(codes: np.ndarray) -> np.ndarray:
    """Return codes as uint64 words, padded with zeros: distances are the same and popcounts eight times fewer."""
    width = -(-codes.shape[1] // 8) * 8
    if width != codes.shape[1]:
        padded = np.zeros((codes.shape[0], width), dtype=np.uint8)
        padded[:, : codes.shape[1]] = codes
        codes = padded
    return np.ascontiguousarray(codes).view(np.uint64)


def hamming_distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the number of unequal bits of corresponding rows.

    >>> hamming_distance(pack_bits([[1, 0, 1]]), pack_bits([[0, 0, 1]]))
    array([1])
    """
    a, b = check_codes("a", a), check_codes("b", b)
    if a.shape != b.shape:
        raise InputError(f"codes of shapes {a.shape} and {b.shape} have no rows in common to compare")
    return np.asarray(np.bitwise_count(words(a) ^ words(b)).sum(axis=1, dtype=np.int64))


def hamming_blocks(queries: np.ndarray, codes: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield ``(rows, distances [rows, N])`` block by block; the whole matrix is never in memory."""
    queries, codes = check_codes("queries", queries), check_codes("codes", codes)
    if queries.shape[1] != codes.shape[1]:
        raise InputError(
            f"queries have {queries.shape[1]} bytes per code, the stored codes {codes.shape[1]}; "
            "encode both with the same hash"
        )
    left, right = words(queries), words(codes)
    rows = max(_BLOCK_ELEMENTS // max(len(right), 1), 1)
    counts = np.int16 if 64 * right.shape[1] <= np.iinfo(np.int16).max else np.int32
    for start in range(0, len(left), rows):
        block = slice(start, min(start + rows, len(left)))
        distances = np.bitwise_count(left[block, None, 0] ^ right[None, :, 0]).astype(counts)
        for word in range(1, right.shape[1]):
            distances += np.bitwise_count(left[block, None, word] ^ right[None, :, word])
        yield block, distances
