"""Fitted hashes survive a file: the same codes from every method; damage is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import initscope.embed
from initscope.embed import (
    AGH,
    ITQ,
    KSH,
    SSH,
    DiffHash,
    LearnedHash,
    SignHash,
    load_hasher,
    persistence,
    save_hasher,
)
from initscope.embed._container import read_arrays, write_arrays
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
    assert {name for name in vars(hasher) if name.endswith("_")} <= set(vars(loaded))
    if hasattr(hasher, "classes_"):
        assert loaded.classes_.tolist() == ["a", "b", "c", "d"]
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

    class ITQ(initscope.embed.ITQ):
        pass

    with pytest.raises(InputError, match="pickle"):
        save_hasher(ITQ(bits=4).fit(X), path)


def test_names_of_columns_are_kept(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X[:, :4], columns=list("abcd"))
    hasher = SignHash(bits=8).fit(frame)
    save_hasher(hasher, tmp_path / "codes.hash")
    loaded = load_hasher(tmp_path / "codes.hash")
    np.testing.assert_array_equal(loaded.transform(frame), hasher.transform(frame))
    for each in (hasher, loaded):
        with pytest.raises(ValueError, match="feature names"):
            each.transform(frame[list("dcba")])


def test_numbers_of_numpy_are_plain(tmp_path):
    hasher = SignHash(bits=np.int64(8), kernel_size=2, image_shape=(1, np.int64(4), 4), center=np.True_).fit(X)
    save_hasher(hasher, tmp_path / "codes.hash")
    loaded = load_hasher(tmp_path / "codes.hash")
    assert loaded.get_params() == hasher.get_params()
    np.testing.assert_array_equal(loaded.transform(X), hasher.transform(X))


def without(name):
    return lambda meta, arrays: arrays.pop(name)


@pytest.mark.parametrize(
    "alter",
    [
        without("weights_"),
        without("thresholds_"),
        lambda meta, arrays: arrays.update(weights_=np.zeros((3, 2))),
        lambda meta, arrays: arrays.update(weights_=np.zeros((3, 16))),
        lambda meta, arrays: arrays.update(thresholds_=np.zeros(3)),
        lambda meta, arrays: arrays.update(transform=np.zeros(2)),
        lambda meta, arrays: arrays.update(_start=np.zeros(2)),
        lambda meta, arrays: meta.update(features="x"),
        lambda meta, arrays: meta.update(features=17),
        lambda meta, arrays: meta.update(features=2**60),
        lambda meta, arrays: meta.update(method="pickle"),
        lambda meta, arrays: meta.update(parameters=[]),
        lambda meta, arrays: meta["parameters"].update(bits=9),
        lambda meta, arrays: meta["lists"].update(weights_=10**9),
        lambda meta, arrays: meta["numbers"].update(bandwidth_="x"),
        lambda meta, arrays: meta["labels"].update(feature_names_in_=["a"]),
    ],
)
def test_files_with_a_right_checksum_and_wrong_contents_are_refused(alter, tmp_path):
    path = tmp_path / "codes.hash"
    save_hasher(SignHash(bits=8, center=True).fit(X), path)
    meta, arrays = read_arrays(path, persistence._MAGIC, 1, "a hash")
    alter(meta, arrays)
    write_arrays(path, persistence._MAGIC, 1, meta, arrays)
    with pytest.raises(InputError, match="no usable hash"):
        load_hasher(path)


def test_a_hash_fitted_on_a_graphics_card_loads_without_one(tmp_path):
    hasher = SignHash(bits=8).fit(X).set_params(device="cuda:99")
    save_hasher(hasher, tmp_path / "codes.hash")
    loaded = load_hasher(tmp_path / "codes.hash")
    assert loaded.device == "cuda:99"
    np.testing.assert_array_equal(
        loaded.set_params(device=None).transform(X), hasher.set_params(device=None).transform(X)
    )
