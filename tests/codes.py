"""Random binary codes, for tests of what stores and searches them."""

from __future__ import annotations

from initscope.embed import pack_bits


def random_codes(rng, rows, bits):
    """Packed codes of fair coins."""
    return pack_bits(rng.integers(0, 2, (rows, bits)))
