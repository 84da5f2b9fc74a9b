"""GIST from its definition: transforms written out as sums, gratings, and published values where they are at hand."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest

from initscope import data
from initscope.data.locations import find
from initscope.errors import InputError

DATA = os.environ.get("INITSCOPE_DATA", "")


def slow_gist(grey, orientations, cells):
    """The definition with explicit Fourier sums, one image, no FFT."""
    height, width = grey.shape
    side = max(height, width) + 10
    side += side % 2
    line = lambda size, before, i: (
        i - before if 0 <= i - before < size else (before - 1 - i if i < before else 2 * size - 1 - i + before)
    )
    logs = np.array(
        [[math.log(1 + grey[line(height, 5, i), line(width, 5, j)]) for j in range(side)] for i in range(side)]
    )

    def transform(size, sign):
        return np.exp(sign * 2j * np.pi * np.outer(np.arange(size), np.arange(size)) / size)

    def filtered(image, transfer):
        h, w = image.shape
        spectrum = transform(h, -1) @ image @ transform(w, -1)
        return transform(h, 1) @ (spectrum * transfer) @ transform(w, 1) / (h * w)

    signed = lambda size: np.array([k if k < size / 2 else k - size for k in range(size)])
    cycles = signed(side)
    low = np.exp(-(cycles[:, None] ** 2 + cycles[None] ** 2) / (4 / math.sqrt(math.log(2))) ** 2)
    detail = logs - filtered(logs, low).real
    clean = detail / (0.2 + np.sqrt(np.abs(filtered(detail**2, low))))
    clean = clean[5 : 5 + height, 5 : 5 + width]
    fy, fx = signed(height)[:, None] / height, signed(width)[None] / width
    values = []
    for scale, count in enumerate(orientations):
        for number in range(count):
            angle = np.angle(np.exp(1j * (np.arctan2(fy + 0 * fx, fx + 0 * fy) + math.pi * number / count)))
            gabor = np.exp(
                -10 * 0.35 * (np.hypot(fx, fy) / (0.3 / 1.85**scale) - 1) ** 2
                - 2 * math.pi * 16 * count**2 / 32**2 * angle**2
            )
            energy = np.abs(filtered(clean, gabor))
            values += [
                energy[
                    r * height // cells : (r + 1) * height // cells, c * width // cells : (c + 1) * width // cells
                ].mean()
                for c in range(cells)
                for r in range(cells)
            ]
    return values


@pytest.mark.parametrize("shape", [(16, 16), (12, 18), (13, 11)])
def test_against_the_definition_written_out(shape):
    grey = np.random.default_rng(1).random(shape)
    fast = data.gist(grey[None], orientations=(4, 3), cells=3)
    np.testing.assert_allclose(fast[0], slow_gist(255 * grey, (4, 3), 3), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("number", range(8))
def test_a_grating_answers_in_its_own_filter(number):
    """A grating of 0.3 cycles per pixel across direction -πj/8 is strongest in orientation j of the finest scale."""
    y, x = np.mgrid[:64, :64]
    angle = -np.pi * number / 8
    grating = 0.5 + 0.4 * np.cos(2 * np.pi * 0.3 * (x * np.cos(angle) + y * np.sin(angle)))
    energy = data.gist(grating[None]).reshape(24, 16).sum(axis=1)
    assert int(np.argmax(energy)) == number


def test_a_coarse_grating_answers_at_a_coarse_scale():
    x = np.arange(64)[None, :] * np.ones((64, 1))
    grating = 0.5 + 0.4 * np.cos(2 * np.pi * 0.3 / 1.85**2 * x)
    energy = data.gist(grating[None]).reshape(3, 8, 16).sum(axis=2)
    assert np.unravel_index(np.argmax(energy), energy.shape) == (2, 0)


def test_colours_bytes_and_image_sets_agree():
    photos = data.load("photos", limit=3)
    base = data.gist(photos)
    np.testing.assert_allclose(data.gist(photos.images), base)
    grey = np.einsum("nchw,c->nhw", photos.images.astype(float), [0.299, 0.587, 0.114])
    np.testing.assert_allclose(data.gist(grey), base, rtol=1e-4)
    whole = (photos.images * 255).round().astype(np.uint8)
    np.testing.assert_allclose(data.gist(whole), base, rtol=1e-3, atol=1e-4)


def test_chunks_do_not_matter(monkeypatch):
    images = np.random.default_rng(2).random((7, 16, 16))
    whole = data.gist(images)
    monkeypatch.setattr("initscope.data.gist_descriptor._CHUNK", 3)
    np.testing.assert_array_equal(data.gist(images), whole)


def test_descriptors_of_cifar10_are_read_or_computed(monkeypatch, tmp_path):
    """From the stored file where there is one, else from the images, train then test."""
    rng = np.random.default_rng(3)
    for split in ("train", "test"):
        images = rng.integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)
        np.savez(tmp_path / f"cifar10_{split}.npz", images=images, labels=np.arange(4) + (split == "test"))
    monkeypatch.setenv("INITSCOPE_DATA", str(tmp_path))
    computed = data.load("cifar10-gist", limit=6)
    assert computed.labels.tolist() == [0, 1, 2, 3, 1, 2]
    np.testing.assert_array_equal(computed.images[:4], data.gist(data.load("cifar10")))
    labels = np.arange(5, dtype=np.uint8)  # as published
    np.savez(tmp_path / "cifar10_gist384.npz", gist=np.ones((5, 384), np.float16), labels=labels)
    stored = data.load("cifar10-gist", limit=3)
    assert stored.images.shape == (3, 384)
    assert stored.class_names == ("0", "1", "2")
    assert (stored.images == 1).all()


@pytest.mark.parametrize(("orientations", "cells"), [((8, 8, 8), 4), ((5, 2, 1), 2)])
def test_mirrored_descriptors_are_those_of_the_mirrored_images(orientations, cells):
    """To 1 % of the descriptors' spread; mirroring only the cells, or only the filters, is off by more than 10 %."""
    images = data.load("photos", limit=6).images[:, :, :64, :64]
    options = {"orientations": orientations, "cells": cells}
    rows, expected = data.gist(images, **options), data.gist(images[..., ::-1], **options)

    def error(ours):
        return np.sqrt(((ours - expected) ** 2).mean() / expected.var())

    assert error(data.mirrored_gist(rows, **options)) < 0.01
    columns_only = rows.reshape(len(rows), -1, cells, cells)[:, :, ::-1].reshape(rows.shape)
    assert error(columns_only) > 0.1
    assert error(data.mirrored_gist(columns_only, **options)) > 0.1
    with pytest.raises(InputError, match="filters in"):
        data.mirrored_gist(rows[:, 1:], **options)


@pytest.mark.skipif(
    find("cifar10_gist384.npz") is None or find("cifar10_train.npz") is None,
    reason="published descriptors or CIFAR-10 are not in INITSCOPE_DATA",
)
def test_published_values(monkeypatch):
    """Descriptors of the published C implementation, kept in half precision: equal to its rounding, 2⁻¹² relative."""
    monkeypatch.setenv("INITSCOPE_DATA", DATA)  # the fixture of this folder hides it from the other tests
    images = data.load("cifar10", limit=500)
    published = data.load("cifar10-gist", limit=500)
    np.testing.assert_array_equal(images.labels, published.labels)
    np.testing.assert_allclose(data.gist(images), published.images, rtol=2**-11, atol=2e-7)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: data.gist(np.ones((2, 4, 8, 8))),
        lambda: data.gist(np.ones((8, 8))),
        lambda: data.gist(np.full((1, 8, 8), np.nan)),
        lambda: data.gist(np.full((1, 8, 8), -1.0)),
        lambda: data.gist(np.full((1, 8, 8), 255.0)),
        lambda: data.gist(np.full((1, 8, 8), 256, dtype=np.int16)),
        lambda: data.gist(np.ones((1, 8, 8)), orientations=()),
        lambda: data.gist(np.ones((1, 8, 8)), cells=9),
    ],
)
def test_bad_images_are_refused(bad):
    with pytest.raises(InputError):
        bad()
