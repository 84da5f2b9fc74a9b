"""Orlicz norms against closed forms and Markov's inequality; Bernstein against exact laws of means."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats

from initscope.errors import InputError
from initscope.theory.concentration import BERNSTEIN_CONSTANT
from initscope.theory.tails import BERNSTEIN_RATE, bernstein_bound, orlicz_norm

CLOSED = [
    (stats.norm(), 2, math.sqrt(8 / 3)),  # E exp(X²/t²) = (1 - 2/t²)^(-1/2) = 2
    (stats.norm(0, 3), 2, 3 * math.sqrt(8 / 3)),
    (stats.expon(), 1, 2.0),  # 1/(1 - 1/t) = 2
    (stats.laplace(), 1, 2.0),
    (stats.gamma(3), 1, 1 / (1 - 2 ** (-1 / 3))),  # (1 - 1/t)^-3 = 2
    (stats.chi2(1), 1, 8 / 3),  # the square of the first
    (stats.poisson(2.0), 1, 1 / math.log(1 + math.log(2) / 2)),  # exp(2 (e^{1/t} - 1)) = 2
    (stats.binom(1, 0.25), 2, 1 / math.sqrt(math.log(5))),  # 3/4 + e^{1/t²}/4 = 2
]


@pytest.mark.parametrize(("variable", "power", "expected"), CLOSED, ids=[v.dist.name + str(p) for v, p, _ in CLOSED])
def test_norms_that_are_known(variable, power, expected):
    assert orlicz_norm(variable, power=power) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("variable", "power"), [(stats.expon(), 2), (stats.t(3), 1), (stats.lognorm(1), 1)])
def test_heavy_tails_have_none(variable, power):
    assert orlicz_norm(variable, power=power) == math.inf


def test_of_a_sample_it_is_the_norm_of_its_empirical_law():
    sample = np.array([-3.0, 0.5, 1.0, 2.0])
    root = optimize.brentq(lambda t: np.exp(np.abs(sample) / t).mean() - 2, 0.5, 50, xtol=1e-14)
    assert orlicz_norm(sample, power=1) == pytest.approx(root, rel=1e-12)
    assert orlicz_norm(5 * sample, power=1) == pytest.approx(5 * root, rel=1e-12)
    assert orlicz_norm(sample, psi=np.square) == pytest.approx(math.sqrt((sample**2).mean()), rel=1e-12)
    assert orlicz_norm([0.0, 0.0]) == 0.0


def test_markov_lemma_4_and_the_constant_of_theorem_2():
    """P(|X| > s) ≤ 2 exp(-(s/K)^p); the ψ₁-norm of a product of Gaussians is below the product of ψ₂-norms."""
    for variable, power, _ in CLOSED:
        norm = orlicz_norm(variable, power=power)
        s = np.linspace(0.1, 20, 50)
        assert np.all(variable.sf(s) + variable.cdf(-s) <= 2 * np.exp(-((s / norm) ** power)) + 1e-12)
    # The product of independent Gaussians is the difference of two halved chi-squares: E e^{XY/t} = (1 - 1/t²)^(-1/2)
    sample = np.random.default_rng(0).standard_normal((2, 100_000)).prod(axis=0)
    assert orlicz_norm(sample, power=1) < 8 / 3
    centering = (1 + 1 / math.log(2)) * orlicz_norm(stats.norm()) ** 2
    assert pytest.approx(centering / BERNSTEIN_RATE) == BERNSTEIN_CONSTANT


@pytest.mark.parametrize("count", [1, 5, 40, 300])
def test_bernstein_holds_for_exact_laws(count):
    """Means of centered exponentials (gamma law) and of signs (binomial law)."""
    norm = orlicz_norm(stats.expon(-1), power=1)
    signs = 1 / math.log(2)
    for t in np.geomspace(0.02, 6, 25):
        law = stats.gamma(count, scale=1 / count)
        exact = law.sf(1 + t) + law.cdf(1 - t)
        assert exact <= bernstein_bound(t, count, norm)
        heads = stats.binom(count, 0.5)
        exact = 2 * heads.sf(math.ceil(count * (1 + t) / 2 - 1e-9) - 1)
        assert exact <= bernstein_bound(t, count, signs)


def test_the_rate_of_bernstein_is_within_a_small_factor_of_needed():
    """At the Gaussian end the exact exponent of exponentials is t²/2; a rate twenty times larger would be violated."""
    norm = orlicz_norm(stats.expon(-1), power=1)
    law = stats.gamma(300, scale=1 / 300)
    exact = law.sf(1.3) + law.cdf(0.7)
    assert exact > bernstein_bound(0.3, 300, norm, rate=20 * BERNSTEIN_RATE)


def test_refusals():
    with pytest.raises(InputError, match="at least 1"):
        orlicz_norm([1.0], power=0.5)
    with pytest.raises(InputError, match="only finite ones"):
        orlicz_norm([])
    with pytest.raises(InputError, match="samples"):
        orlicz_norm(stats.norm(), psi=np.square)
    with pytest.raises(InputError, match="norm = 0"):
        bernstein_bound(0.1, 10, 0.0)
