"""Fitted hashes survive a file: the same codes from every method; damage is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from initscope.embed import (
    AGH,
    ITQ,
    KSH,
    SSH,
    DiffHash,
    LearnedHash,
    SignHash,
    load_hasher,
    save_hasher,
)
from initscope.errors import InputError

RNG = np.random.default_rng(9)
X, Y = RNG.standard_normal((80, 16)), np.array(["a", "b", "c", "d"])[np.arange(80) % 4]


@pytest.mark.parametrize(
    "hasher",
    [
        SignHash(bits=20, center=True, orthogonal=True),
        SignHash(bits=20, kernel_size=2, image_shape=(1, 4, 4), packed=False),
        ITQ(bits=12),
        AGH(bits=9, anchors=20),
        DiffHash(bits=5),
        SSH(bits=7, pairs=200),
        KSH(bits=6, anchors=20),
        LearnedHash(bits=11, layers=2, hidden=8, steps=5),
    ],
    ids=lambda hasher: type(hasher).__name__,
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_same_codes_after_a_file(hasher, dtype, tmp_path):
    rows = X.astype(dtype)
    codes = hasher.fit(rows, Y).transform(rows)
    save_hasher(hasher, tmp_path / "codes.hash")
    loaded = load_hasher(tmp_path / "codes.hash")
    assert loaded.get_params() == hasher.get_params()
    np.testing.assert_array_equal(loaded.transform(rows), codes)
    with pytest.raises(ValueError, match="features"):
        loaded.transform(rows[:, :3])


def test_damage_foreign_files_and_unsuitable_hashes_are_refused(tmp_path):
    hasher = SignHash(bits=8).fit(X)
    path = tmp_path / "codes.hash"
    save_hasher(hasher, path)
    content = path.read_bytes()
    for damaged in (content[:-1], content[:30], b"", b"x" * 200, content[:60] + b"?" + content[61:]):
        path.write_bytes(damaged)
        with pytest.raises(InputError):
            load_hasher(path)
    with pytest.raises(InputError, match="fit it first"):
        save_hasher(SignHash(), path)
    own = LearnedHash(bits=4, steps=1, network=lambda bits: torch.nn.Linear(16, bits)).fit(X, Y)
    with pytest.raises(InputError, match="network"):
        save_hasher(own, path)
    with pytest.raises(InputError, match="random_state"):
        save_hasher(SignHash(random_state=np.random.default_rng(0)).fit(X), path)
