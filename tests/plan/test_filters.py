"""`plan.filters` on any layer: against quadratic forms, against drawn layers, against the formulas by hand."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from initscope import plan
from initscope.errors import InputError
from initscope.theory import activations, concentration
from initscope.theory.images import expected_inner, patch_norms


def pair(seed=0, channels=2, size=8):
    generator = np.random.default_rng(seed)
    x = generator.random((channels, size, size))
    return x, np.clip(x + 0.7 * generator.standard_normal(x.shape), 0, 1)


def cut(image, kernel, padding, stride):
    """Patches [positions, taps] of an image with zeros around it, cut out one by one."""
    wide = np.pad(image, ((0, 0), (padding, padding), (padding, padding)))
    ends = [range(0, side - kernel + 1, stride) for side in wide.shape[1:]]
    return np.array([wide[:, i : i + kernel, j : j + kernel].ravel() for i in ends[0] for j in ends[1]])


def test_linear_layers_have_the_variance_of_a_quadratic_form():
    """One filter's inner product is fᵀMf, M = Σ[x][y]ᵀ: variance 2ν⁴‖sym M‖²; 16,384 filters, 4 errors of 1.5 %."""
    x, y = pair()
    found = plan.filters(
        x, y, eps=0.1, delta=0.05, activation="identity", padding=1, stride=2, quantity="inner", weight_variance=0.3
    )
    matrix = cut(x, 3, 1, 2).T @ cut(y, 3, 1, 2)
    sd = 0.3 * math.sqrt(2) * np.linalg.norm((matrix + matrix.T) / 2)
    scale = 0.3 * np.linalg.norm(cut(x, 3, 1, 2)) * np.linalg.norm(cut(y, 3, 1, 2))
    assert found.sd == pytest.approx(sd / scale, rel=0.06)
    assert found.expected == pytest.approx(0.3 * np.trace(matrix) / scale, abs=4 * found.sd / 128)
    assert isinstance(found, plan.InnerProductPlan)


def test_lemma_2_finds_its_own_largest_patch():
    x, y = pair()
    found = plan.filters(x, y, eps=0.1, delta=0.05, activation="identity", quantity="inner", pilot=500)
    largest = [patch_norms(side[None], kernel_size=3).max() for side in (x, y)]
    absolute = 0.1 * np.linalg.norm(x) * np.linalg.norm(y)  # ν² = 1/r² keeps norms: lemma 1
    by_hand = concentration.linear_filters(
        positions=64, patch_norm=math.sqrt(largest[0] * largest[1]), kernel_size=3, eps=absolute, delta=0.05
    )
    assert found.paper == pytest.approx(by_hand, rel=1e-5)
    assert found.sharp < found.no_union < found.paper
    np.testing.assert_allclose(
        patch_norms(x[None], kernel_size=3, padding=1, stride=2).ravel(), np.linalg.norm(cut(x, 3, 1, 2), axis=1)
    )


def test_the_general_corollary_is_the_papers_on_its_own_ground():
    x, y = pair()
    found = plan.filters(x, y, eps=0.1, delta=0.05, pilot=500)
    ratio = max(patch_norms(side[None], kernel_size=3).max() / np.linalg.norm(side) for side in (x, y))
    printed = concentration.cosine_filters(positions=64, patch_ratio=float(ratio), kernel_size=3, eps=0.1, delta=0.05)
    assert found.paper == pytest.approx(printed, rel=1e-5)
    assert found.no_union == pytest.approx(concentration.cosine_filters_without_union(eps=0.1, delta=0.05), rel=1e-5)


@pytest.mark.parametrize(
    ("options", "eps"),
    [
        ({"activation": "tanh", "padding": "zeros"}, 0.15),
        ({"activation": np.tanh, "padding": "valid", "quantity": "inner"}, 0.3),
        ({"activation": "relu", "padding": "reflect", "stride": 2, "quantity": "inner"}, 0.4),
        ({"activation": "sigmoid", "padding": "replicate"}, 0.01),
        ({"activation": "identity", "padding": "circular", "quantity": "inner"}, 0.35),
    ],
)
def test_drawn_layers_keep_the_promise_and_not_much_more(options, eps):
    """1,500 layers, δ = .2: at most δ + 4 σ fail (σ = .0103), and at least a third of δ."""
    x, y = pair(1)
    planned = plan.filters(x, y, eps=eps, delta=0.2, pilot=6000, **options)
    found = plan.check(planned, trials=1500, images=(x, y))
    assert 0.2 / 3 < found.observed <= 0.2 + 4 * math.sqrt(0.16 / 1500)
    assert json.loads(json.dumps(planned.to_dict()))["sharp"] == planned.sharp


def test_the_expectation_is_that_of_theorem_1():
    """The pilot's mean against the closed form: 4 standard errors of 6,000 filters."""
    x, y = pair(2)
    options = {"activation": "tanh", "padding": "zeros"}
    found = plan.filters(x, y, eps=0.1, delta=0.1, quantity="inner", pilot=6000, **options)
    inner, first, second = (
        float(expected_inner(a[None], b[None], kernel_size=3, **options)[0]) for a, b in ((x, y), (x, x), (y, y))
    )
    assert abs(found.expected - inner / math.sqrt(first * second)) < 4 * found.sd / math.sqrt(6000)


def test_where_nothing_is_proven_there_is_no_number():
    x, y = pair()
    for name in ("sigmoid", "step", "exp"):
        found = plan.filters(x, y, eps=0.3, delta=0.1, activation=name, weight_variance=0.01, pilot=500)
        assert (found.paper, found.no_union) == (None, None)
        assert list(found.answers) == ["sharp"]
        assert "no bound is proven" in found.assumptions[-1]
        assert [row["answer"] for row in found.table()] == ["sharp"]


def test_lipschitz_constants():
    """By calculus: tanh 1, leaky ReLU 1, erf 2/√π, GELU where its second derivative (2 - t²)φ vanishes, t = √2."""
    gelu = (1 + math.erf(1)) / 2 + math.sqrt(2) * math.exp(-1) / math.sqrt(2 * math.pi)
    for name, value in (("relu", 1.0), ("tanh", 1.0), ("identity", 1.0), ("gelu", gelu)):
        assert activations.activation(name).lipschitz == pytest.approx(value, rel=1e-6)
    assert activations.activation("step").lipschitz == math.inf
    assert activations.activation("exp").lipschitz == math.inf


def test_refusals():
    x, y = pair()
    with pytest.raises(InputError, match="quantity"):
        plan.filters(x, y, eps=0.1, delta=0.1, quantity="distance")
    with pytest.raises(InputError, match="padding"):
        plan.filters(x, y, eps=0.1, delta=0.1, padding="mirror")
    with pytest.raises(InputError, match="weight_variance"):
        plan.filters(x, y, eps=0.1, delta=0.1, weight_variance=-1.0)
    with pytest.raises(InputError, match="pilot is made of vectors"):
        concentration.sharp_inner_filters(np.ones((2, 2)), eps=0.1, delta=0.1)
