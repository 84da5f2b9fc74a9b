"""Laws of softmax attention against draws, limits and sums that are done by hand."""

import itertools
import math

import numpy as np
import pytest

from initscope.errors import InputError
from initscope.theory import attention

SAMPLES = 20_000


def weights(tokens, deviation, seed):
    logits = np.random.default_rng(seed).normal(0, deviation, (SAMPLES, tokens))
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


CASES = [(2, 0.5), (5, 1.0), (24, 2.5), (64, 0.2), (64, 6.0)]


@pytest.mark.parametrize(("tokens", "deviation"), CASES)
def test_participation_and_entropy_are_means_of_draws(tokens, deviation):
    """z-scores of 20,000 softmaxes below 4: errors of 1 % of a participation would show."""
    shares = weights(tokens, deviation, seed=tokens)
    own = -np.where(shares > 0, shares * np.log(np.maximum(shares, 1e-300)), 0).sum(axis=1) / math.log(tokens)
    for values, exact in (
        ((shares**2).sum(axis=1), attention.participation(tokens, deviation)),
        (own, attention.entropy(tokens, deviation)),
    ):
        assert abs(values.mean() - exact) < 4 * values.std() / math.sqrt(SAMPLES)


@pytest.mark.parametrize(
    ("tokens", "deviation", "value"),
    [(512, math.sqrt(math.log(512)), 0.1015), (512, math.sqrt(2 * math.log(512)), 0.249),
     (4096, 2 * math.sqrt(math.log(4096)), 0.401)],
)  # fmt: skip
def test_participation_of_many_keys(tokens, deviation, value):
    """Figures of an independent simulation."""
    assert abs(attention.participation(tokens, deviation) - value) < 5e-4 + 0.002 * value


def test_two_keys_are_a_logistic_of_one_normal_number():
    """p = 1/(1 + e^d) with d ~ N(0, 2s²): by quadrature in one dimension."""
    nodes, gauss = np.polynomial.hermite_e.hermegauss(120)
    for deviation in (0.3, 1.0, 2.0):
        p = 1 / (1 + np.exp(math.sqrt(2) * deviation * nodes))
        expected = (gauss * (p**2 + (1 - p) ** 2)).sum() / gauss.sum()
        assert abs(attention.participation(2, deviation) - expected) < 1e-6


def test_participation_tends_to_the_random_energy_model():
    """The gap to the limit shrinks as T grows with s/√ln T fixed."""
    gaps = [
        attention.participation(tokens, 2.5 * math.sqrt(math.log(tokens)))
        - attention.frozen_participation(tokens, 2.5 * math.sqrt(math.log(tokens)))
        for tokens in (16, 256, 4096, 65536)
    ]
    assert all(a > b > 0 for a, b in itertools.pairwise(gaps))


def test_variance_after_attention_of_equally_correlated_tokens():
    """Drawn tokens of cosine .6, logits of keys with the same cosine: z-score below 4."""
    rng, tokens, rho, deviation = np.random.default_rng(1), 12, 0.6, 2.0
    common, own = rng.normal(size=(2, SAMPLES, tokens))
    logits = deviation * (math.sqrt(rho) * common[:, :1] + math.sqrt(1 - rho) * own)
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    values = math.sqrt(rho) * rng.normal(size=(SAMPLES, 1)) + math.sqrt(1 - rho) * rng.normal(size=(SAMPLES, tokens))
    squares = (shares * values).sum(axis=1) ** 2
    exact = attention.attended_variance(rho, tokens, deviation)
    assert abs(squares.mean() - exact) < 4 * squares.std() / math.sqrt(SAMPLES)


def test_uniform_attention_collapses_at_its_rate():
    """The matrix itself: (I + βU)C(I + βU)ᵀ of uniform U, with independent values; and the depth scale near 1."""
    tokens, strength, rho = 6, 0.7, 0.4
    gram = np.full((tokens, tokens), rho) + (1 - rho) * np.eye(tokens)
    mean = np.full((tokens, tokens), 1 / tokens)
    after = gram + strength * mean @ gram @ mean
    assert math.isclose(attention.uniform_cosine(rho, tokens, strength=strength), after[0, 1] / after[0, 0])
    cosine, depth = 1 - 1e-3, attention.collapse_depth(strength)
    later = cosine
    for _ in range(3):
        later = attention.uniform_cosine(later, tokens, strength=strength)
    assert math.isclose(attention.angle_exponent(cosine, later), -3 / depth, rel_tol=2e-3)


def test_exponents_and_growth():
    assert np.allclose(attention.growth_exponent([8, 16, 32], [[1, 1, 1], [8, 4, 2]]), [0, -1])
    assert np.isnan(attention.growth_exponent([1, 2], [0.0, 1.0]))
    assert attention.residual_growth(10, 0.5) == 11


@pytest.mark.parametrize(
    "call",
    [
        lambda: attention.participation(0, 1.0),
        lambda: attention.participation(4, -1.0),
        lambda: attention.entropy(1, 1.0),
        lambda: attention.attended_variance(-0.5, 4, 1.0),
        lambda: attention.uniform_cosine(0.1, 4, strength=-1),
        lambda: attention.collapse_depth(-1),
        lambda: attention.angle_exponent(1.0, 0.5),
        lambda: attention.growth_exponent([2], [1.0]),
    ],
)
def test_bad_input_is_told(call):
    with pytest.raises(InputError):
        call()


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_mean_token_cosine_leaves_out_zero_tokens(library):
    """Against a loop over all pairs of non-zero tokens, for samples with 5, 3, 1 and no such token."""
    tokens = np.random.default_rng(0).normal(1, 1, (4, 5, 7))
    for sample, zero in enumerate(([], [0, 3], [0, 1, 2, 4], range(5))):
        tokens[sample, list(zero)] = 0

    def by_loop(sample):
        rows = [row / np.linalg.norm(row) for row in sample if row.any()]
        cosines = [a @ b for a, b in itertools.combinations(rows, 2)]
        return np.mean(cosines) if cosines else math.nan

    gram = tokens @ tokens.swapaxes(1, 2)
    given = gram if library == "numpy" else pytest.importorskip("torch").as_tensor(gram)
    expected = [by_loop(sample) for sample in tokens]
    np.testing.assert_allclose(np.asarray(attention.mean_token_cosine(given)), expected, rtol=1e-12)
    assert np.isnan(expected).tolist() == [False, False, True, True]


@pytest.mark.parametrize(
    ("tokens", "deviation", "own", "own_deviation"),
    [
        (2, 1.0, None, None),
        (1000, 0.5, 9.0, 0.3),
        (500, 11.0, 30.0, 8.0),
        (200, 3.0, None, None),
        (50, 60.0, None, None),
    ],
)
def test_log_sum_exp_is_the_mean_of_draws(tokens, deviation, own, own_deviation):
    """z-scores of 20,000 sums below 4: .02 of a sum would show for s = .5, .6 for s = 60."""
    generator = np.random.default_rng(tokens)
    logits = generator.normal(0, deviation, (SAMPLES, tokens))
    if own is not None:
        logits[:, 0] = generator.normal(own, own_deviation, SAMPLES)
    sums = np.logaddexp.reduce(logits, axis=1)
    expected = attention.expected_log_sum_exp(tokens, deviation, own_mean=own, own_deviation=own_deviation)
    assert abs(sums.mean() - expected) < 4 * sums.std() / math.sqrt(SAMPLES)


def test_log_sum_exp_of_fixed_logits():
    """s = 0: ln(V - 1 + e^o), for several means at once."""
    means = np.array([-3.0, 0.0, 2.5, 30.0])
    found = attention.expected_log_sum_exp(100, 0.0, own_mean=means)
    assert np.allclose(found, np.log(99 + np.exp(means)), rtol=0, atol=2e-5)


def test_log_sum_exp_of_two_logits_by_quadrature():
    """ln(e^a + e^b) = (a + b)/2 + ln(2 cosh((a - b)/2)) with a - b ~ N(o, s² + t²)."""
    nodes, gauss = np.polynomial.hermite_e.hermegauss(200)
    for deviation, own, spread in ((0.7, 0.0, 0.7), (1.0, 2.0, 0.5)):
        gap = own + math.hypot(deviation, spread) * nodes
        expected = own / 2 + (gauss * np.logaddexp(gap / 2, -gap / 2)).sum() / gauss.sum()
        found = attention.expected_log_sum_exp(2, deviation, own_mean=own, own_deviation=spread)
        assert abs(found - expected) < 2e-5


def test_log_sum_exp_needs_a_deviation():
    with pytest.raises(InputError, match="deviation = -1"):
        attention.expected_log_sum_exp(10, -1.0)
