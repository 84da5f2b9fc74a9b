"""Layers that are copies of each other: torch's encoder copies one, and prediction takes equal weights as equal."""

import numpy as np
import pytest
import torch
from torch import nn

import initscope

WIDTH, TOKENS, PAIRS, LAYERS = 128, 16, 2, 6


def encoder(*, copies):
    """torch's encoder as it stands, or with every layer drawn for itself."""
    torch.manual_seed(1234)
    layers = [nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True) for _ in range(LAYERS)]
    if copies:
        return nn.TransformerEncoder(layers[0], LAYERS, enable_nested_tensor=False).eval()
    return nn.Sequential(*layers).eval()


@pytest.fixture(scope="module")
def pairs():
    """Sequences that have nothing in common."""
    generator = torch.Generator().manual_seed(7)
    return tuple(torch.randn(2, PAIRS, TOKENS, WIDTH, generator=generator))


def last(result, error):
    return np.array([result.cosine[-1].mean(), result.tokens.cosine[-1]]), np.array(
        [error, result.tokens.cosine_se[-1]]
    )


def test_prediction_follows_copies_and_not_independent_layers(pairs):
    """Six layers with torch's defaults: the cosine of unrelated pairs is .38 for copies, .14 for independent layers.

    |z| < 4, and an error of .16 would be found; copies and independent layers are apart by more than 5 standard errors.
    """
    predicted = initscope.predict(encoder(copies=True), *pairs, draws=12, seed=3)
    measured = initscope.measure(encoder(copies=True), *pairs, draws=20, seed=99)
    apart = initscope.measure(encoder(copies=False), *pairs, draws=8, seed=99)
    ours, own = last(predicted, predicted.cosine_se[-1].mean())
    theirs, error = last(measured, measured.mean_cosine_se[-1])
    others, other_error = last(apart, apart.mean_cosine_se[-1])
    assert (np.hypot(own, error) < 0.04).all()
    assert (np.abs(ours - theirs) < 4 * np.hypot(own, error)).all()
    assert (theirs - others > 5 * np.hypot(error, other_error)).all()
    assert (ours - others > 5 * np.hypot(own, other_error)).all()
    assert any("copies with equal weights" in row.note for row in predicted.rows)


def test_independent_layers_need_no_networks(pairs):
    predicted = initscope.predict(encoder(copies=False), *pairs)
    assert not any("networks" in row.note for row in predicted.rows)
