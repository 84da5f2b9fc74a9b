"""Softmaxes of Gaussian scores and what they average, drawn."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax
from theorems.witness import Witness, drawn


def participation_and_entropy():
    """Of 32 scores of deviation 1.5, drawn 20,000 times."""
    weights = softmax(1.5 * np.random.default_rng(0).normal(size=(20_000, 32)), axis=1)
    told = -(weights * np.log(weights)).sum(axis=1) / np.log(32)
    return drawn(np.stack([(weights**2).sum(axis=1), told], axis=1))


def variance_behind_attention():
    """Keys and values of 32 tokens of cosine ρ, one query: scores of deviation 1.5, of which ρ is common to all."""
    rng, found = np.random.default_rng(0), []
    for cosine in (0.0, 0.3):
        parts = [rng.normal(size=(20_000, size)) for size in (1, 32, 1, 32)]
        scores, values = (
            np.sqrt(cosine) * common + np.sqrt(1 - cosine) * own for common, own in (parts[:2], parts[2:])
        )
        found.append((softmax(1.5 * scores, axis=1) * values).sum(axis=1) ** 2)
    return drawn(np.stack(found, axis=1))


def tokens_behind_a_mean():
    """16 tokens of cosine .2 in 400 dimensions, with values of their mean by other weights added to each."""
    rng, found = np.random.default_rng(0), []
    for _ in range(60):
        tokens = np.sqrt(0.2) * rng.normal(size=400) + np.sqrt(0.8) * rng.normal(size=(16, 400))
        tokens = tokens + tokens.mean(axis=0) @ rng.normal(size=(400, 400)) / 20
        gram = tokens @ tokens.T / 400
        off = (gram.sum() - np.trace(gram)) / (16 * 15)
        found.append([off, np.trace(gram) / 16])
    both = drawn(found)
    ratio = both.value[0] / both.value[1]
    spread = np.std([one - ratio * other for one, other in found], ddof=1) / np.sqrt(len(found)) / both.value[1]
    return Witness(ratio, spread)
