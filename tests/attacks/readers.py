"""Every reader of files, with whole files to start from: what `fuzz.py` damages and the tests damage a little."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from initscope._utils.tensors import read_tensors
from initscope.cli._vectors import Codes, read_codes, write_codes
from initscope.data import load_array
from initscope.data.folders import read_images
from initscope.data.gist_descriptor import cifar10_gist
from initscope.data.idx import read_idx
from initscope.data.published import _read_cifar_archive, cifar10, imagenet_sample
from initscope.embed import ITQ, HammingIndex, SignHash, load_hasher, save_hasher
from initscope.injectivity import decide, read_proof, verify, write_proof
from initscope.injectivity.layers import layer_from_file
from initscope.models import load_weights

RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Reader:
    """A reader of a file of that name, the whole contents to damage, and whether a checksum is put right again."""

    file: str
    wholes: tuple[bytes, ...]
    read: Callable[[Path], Any]
    signed: bool = False


def written(write: Callable[[Any], Any]) -> bytes:
    """What ``write`` writes to a stream."""
    stream = io.BytesIO()
    write(stream)
    return stream.getvalue()


def written_to(folder: Path, write: Callable[[Path], Any]) -> bytes:
    """What ``write`` writes to a path."""
    write(folder / "whole")
    return (folder / "whole").read_bytes()


def _images(kind: str) -> tuple[bytes, ...]:
    pixels = RNG.integers(0, 256, (9, 7, 3), dtype=np.uint8)
    grey = Image.fromarray(pixels[..., 0])
    return tuple(written(lambda stream, one=one: one.save(stream, kind)) for one in (Image.fromarray(pixels), grey))


def _cifar() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        member = tarfile.TarInfo("cifar-10-batches-bin/test_batch.bin")
        content = bytes(RNG.integers(0, 10, 2 * 3073, dtype=np.uint8))
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def _search(path: Path) -> None:
    index = HammingIndex.load(path)
    if len(index):
        index.search(np.zeros((1, -(-index.bits // 8)), dtype=np.uint8), min(2, len(index)))


def _check(path: Path) -> None:
    proof = read_proof(path)
    if proof.weight is not None:
        verify(proof.weight, proof.bias, proof.decision)


def _index(kind: Any) -> Callable[[Path], Any]:
    index = HammingIndex(48, kind)
    index.add(RNG.integers(0, 256, (30, 6), dtype=np.uint8))
    return index.save


def readers(folder: Path) -> dict[str, Reader]:
    """All of them by name; ``folder`` is where whole files are made, and where data sets are looked for."""
    values, pixels = RNG.standard_normal((6, 5)).astype(np.float32), np.zeros((3, 32, 32, 3), np.uint8)
    tensors = {"weight": torch.randn(2, 5), "bias": torch.zeros(2)}
    npy = written(lambda stream: np.save(stream, values))
    npz = (
        written(lambda stream: np.savez(stream, images=values, labels=np.arange(6))),
        written(lambda stream: np.savez_compressed(stream, weight=values[:2], bias=values[0, :2], images=values)),
    )
    weights = (written(lambda stream: np.savez(stream, weight=values[:2], bias=values[0, :2])),)
    old = written(lambda stream: torch.save(tensors, stream, _use_new_zipfile_serialization=False))
    images = written(lambda stream: torch.save({"images": torch.randn(4, 3), "labels": [1, 2, 3, 4]}, stream))
    pt = (written(lambda stream: torch.save(tensors, stream)), old)
    idx = b"\0\0\x08\x03" + b"".join(side.to_bytes(4, "big") for side in (2, 4, 4)) + bytes(32)
    data = {"images": pixels, "labels": np.arange(3), "name": np.array(["a", "b", "c"])}
    archives = tuple(written(lambda stream, way=way: way(stream, **data)) for way in (np.savez, np.savez_compressed))
    gist = written(lambda stream: np.savez(stream, gist=np.zeros((3, 384), np.float16), labels=np.arange(3)))
    model = torch.nn.Linear(5, 2)
    layers = (np.vstack([np.eye(2), -np.eye(2)]), np.eye(2), RNG.standard_normal((12, 2)))
    proofs = tuple(
        written_to(folder, lambda path, layer=layer: write_proof(path, layer, None, decide(layer))) for layer in layers
    )
    indexes = tuple(written_to(folder, _index(kind)) for kind in ("flat", "ivf", "hnsw"))
    rows = RNG.standard_normal((40, 6))
    hashes = tuple(
        written_to(folder, lambda path, one=one: save_hasher(one.fit(rows), path)) for one in (SignHash(8), ITQ(4))
    )
    codes = Codes(RNG.integers(0, 256, (5, 2), dtype=np.uint8), 16, np.arange(5))
    packed, hint = written(lambda stream: np.save(stream, codes.codes)), "hint"
    found = {
        "read_tensors .npy": Reader("x.npy", (npy,), lambda path: read_tensors(path, hint=hint)),
        "read_tensors .npz": Reader("x.npz", npz, lambda path: read_tensors(path, hint=hint)),
        "read_tensors .pt": Reader("x.pt", pt, lambda path: read_tensors(path, hint=hint)),
        "load_array .npy": Reader("x.npy", (npy,), lambda path: load_array(path, limit=3)),
        "load_array .npz": Reader("x.npz", npz, load_array),
        "load_array .pt": Reader("x.pt", (images,), load_array),
        "load_weights .npz": Reader("x.npz", weights, lambda path: load_weights(model, path)),
        "load_weights .pt": Reader("x.pt", pt, lambda path: load_weights(model, path)),
        "layer_from_file": Reader("x.pt", pt, lambda path: layer_from_file(path, None)),
        "idx": Reader("x-ubyte", (idx,), read_idx),
        "idx, gzipped": Reader("x-ubyte.gz", (gzip.compress(idx),), read_idx),
        "cifar10 archive": Reader("x.tar.gz", (_cifar(),), lambda path: _read_cifar_archive(path, "test", None)),
        "cifar10 .npz": Reader("cifar10_train.npz", archives, lambda path: cifar10()),
        "imagenet .npz": Reader("imagenet_sample_128.npz", archives, lambda path: imagenet_sample()),
        "gist .npz": Reader("cifar10_gist384.npz", (gist,), lambda path: cifar10_gist()),
        "codes": Reader("codes", (packed, written_to(folder, lambda path: write_codes(path, codes))), read_codes),
        "index": Reader("index", indexes, _search),
        "index, signed again": Reader("index", indexes, _search, signed=True),
        "hash": Reader("hash", hashes, load_hasher),
        "hash, signed again": Reader("hash", hashes, load_hasher, signed=True),
        "proof": Reader("proof.json", proofs, _check),
    }
    for kind in ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP"):
        found[f"image {kind}"] = Reader("x.png", _images(kind), lambda path: read_images([path], None))
    return found


def damaged(reader: Reader, rng: np.random.Generator) -> bytes:
    """One of the reader's whole files with one to three kinds of damage."""
    content = bytearray(reader.wholes[rng.integers(len(reader.wholes))])
    if reader.signed:
        del content[-32:]
    for _ in range(rng.integers(1, 4)):
        _damage(content, rng)
    return bytes(content) + (hashlib.sha256(content).digest() if reader.signed else b"")


_EXTREMES = [b"\xff" * 8, b"\0" * 8, b"\x7f" + b"\xff" * 7, (2**31).to_bytes(8, "little"), b"\xff" * 4, b"\0" * 2]
_WORDS = [json.dumps(each).encode() for each in (None, True, -1, 10**30, 1e400, [], {}, "x", [[0]], 0.5)]


def _damage(content: bytearray, rng: np.random.Generator) -> None:
    size = len(content)
    at = int(rng.integers(size + 1)) if rng.random() < 0.6 else int(rng.integers(min(size, 160) + 1))
    other = int(rng.integers(size + 1))
    match rng.integers(8):
        case 0 if at < size:
            content[at] ^= 1 << int(rng.integers(8))
        case 1 if at < size:
            content[at] = int(rng.integers(256))
        case 2:
            del content[at:]
        case 3:
            del content[at : at + int(rng.integers(1, 20))]
        case 4:
            content[at:at] = content[other : other + int(rng.integers(1, 40))]
        case 5:
            extreme = _EXTREMES[rng.integers(len(_EXTREMES))]
            content[at : at + len(extreme)] = extreme
        case 6:
            word = _WORDS[rng.integers(len(_WORDS))]
            content[at : at + len(word)] = word
        case _:
            content[at:at] = bytes(rng.integers(0, 256, rng.integers(1, 20), dtype=np.uint8))
