"""Hamming distances of long codes: counts beyond what 16 bits hold."""

from __future__ import annotations

import numpy as np
import pytest

from initscope.embed import mean_average_precision, pack_bits
from initscope.embed.codes import hamming_blocks


@pytest.mark.parametrize("bits", [8, 32_704, 32_768, 65_536, 80_000])
def test_distances_of_long_codes(bits):
    flags = np.arange(bits) < np.array([0, 1, bits // 2, bits])[:, None]
    ((_, distances),) = hamming_blocks(pack_bits(flags), pack_bits(flags))
    ones = flags.sum(axis=1)
    np.testing.assert_array_equal(distances, np.abs(ones[:, None] - ones[None]))


def test_the_farthest_of_long_codes_is_ranked_last():
    codes = np.zeros((3, 8192), dtype=np.uint8)
    codes[1, 0], codes[2] = 1, 255
    assert mean_average_precision(codes[:1], [1], codes, [0, 0, 1]).value == pytest.approx(1 / 3)
