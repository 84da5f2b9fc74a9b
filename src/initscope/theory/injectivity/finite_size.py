r"""Probability p(m, n) that a Gaussian ReLU layer of shape m×n is injective: exact, simulated or asymptotic, by size.

The theorem p = P[V ∩ C = {0}] (V a random n-dimensional subspace of R^m, C the vectors with fewer than n positive
entries; Maillard et al. 2022) can be checked with `meets_cone`, which knows nothing of rows and vertices.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from initscope.errors import check_count
from initscope.theory.injectivity._estimate import Estimate
from initscope.theory.injectivity.bounds import union_failure_bound
from initscope.theory.injectivity.replica import FULL_RSB

__all__ = ["meets_cone", "probability", "simulate_probability"]

SAMPLES = {3: 20_000, 4: 8_000, 5: 4_000, 6: 1_000, 7: 200}
CERTAIN = 1e-6


def probability(m: int, n: int, *, samples: int | None = None, seed: int = 0) -> Estimate:
    r"""Return the probability that x ↦ ReLU(Wx), W Gaussian m×n, is injective.

    Source: the theorem p = P[V ∩ C = {0}] of [Maillard2022]_; values at finite size go beyond it.

    - 0 for m < 3n - 1, for :math:`n = 1` :math:`1 - 2^{1-m}`, for :math:`n = 2` :math:`1 - m(m-2)/2^{m-1}` (exact);
    - 1 where the rigorous union bound on the failure is below 1e-6 (the error is the bound);
    - simulated with exact decisions up to n = 7 (or if ``samples`` is given): the error is one standard error;
    - beyond, `asymptotic`: the full-RSB threshold with finite-size corrections fitted to n = 3 … 8.

    >>> probability(5, 2).value, probability(5, 2).method
    (0.0625, 'exact')
    """
    m, n = check_count("m", m), check_count("n", n)
    if n == 1:
        return Estimate(1 - 2.0 ** (1 - m), 0.0, "exact")
    if m < 3 * n - 1:
        return Estimate(0.0, 0.0, "exact")
    if n == 2:
        return Estimate(1 - m * (m - 2) * 2.0 ** (1 - m), 0.0, "exact")
    failure = union_failure_bound(m, n)
    if failure < CERTAIN and samples is None:
        return Estimate(1.0, failure, "union bound")
    if samples is not None or n in SAMPLES:
        return simulate_probability(m, n, samples=SAMPLES[n] if samples is None else samples, seed=seed)
    return asymptotic(m, n)


def simulate_probability(m: int, n: int, *, samples: int, seed: int = 0) -> Estimate:
    """Return the share of injective layers among ``samples`` random ones, each decided exactly by branching.

    The error is the standard error of the share (with one success and one failure added, so that it is never 0).
    """
    from initscope.theory.injectivity.branching import branch

    m, n, samples = check_count("m", m), check_count("n", n), check_count("samples", samples)
    rng = np.random.default_rng(seed)
    injective = sum(branch(rng.standard_normal((m, n))).injective is True for _ in range(samples))
    share, smoothed = injective / samples, (injective + 1) / (samples + 2)
    return Estimate(share, math.sqrt(smoothed * (1 - smoothed) / samples), f"simulated ({samples} layers)")


def asymptotic(m: int, n: int) -> Estimate:
    r"""Finite-size form of the transition, for n beyond exact simulation.

    .. math:: p_{m,n} \approx \Phi\Big(\frac{m - n\,\alpha_{1/2}(n)}{1.6\sqrt n}\Big),\qquad
       \alpha_{1/2}(n) = 6.698 - 3.1\,n^{-2/3} - 2.1\,n^{-1}

    The limit is the full-RSB threshold (a conjecture). The two corrections are solved from simulated medians at n = 3
    and 7 (4, 5, 6 and 8 agree to 0.03 in α), the width from n = 3 … 8; all is extrapolated in n, and the error quoted,
    what a tenth of the shift and of the width would change, is a convention, not a standard error.
    """
    shift, width = 3.1 * n ** (1 / 3) + 2.1, 1.6 * math.sqrt(n)
    center = FULL_RSB * n

    def transition(shift: float, width: float) -> float:
        return 0.5 * math.erfc(-(m - center + shift) / (width * math.sqrt(2)))

    value = transition(shift, width)
    changed = [transition(shift * a, width * b) for a in (0.9, 1.1) for b in (0.9, 1.1)]
    return Estimate(value, max(abs(other - value) for other in changed), "asymptotic (full RSB, fitted shift)")


def meets_cone(basis: npt.NDArray[np.float64]) -> bool:
    """Does the column span of ``basis`` (m×n) contain a nonzero vector with fewer than n positive entries?

    Source: the cone of 'Injectivity and random geometry' in [Maillard2022]_.

    One linear program per choice of the n - 1 entries that may be positive; for small m and n. An independent way to
    injectivity: W is injective exactly when its range meets the cone at 0 only.

    >>> meets_cone(np.array([[1.0], [-1.0]])), meets_cone(np.array([[1.0], [2.0]]))
    (False, True)
    """
    from itertools import combinations

    from scipy.optimize import linprog

    m, n = basis.shape
    for free in combinations(range(m), n - 1):
        bound = np.ones(m, dtype=bool)
        bound[list(free)] = False
        rows = basis[bound]
        # The subspace meets the closed orthant in a ray of full dimension: some entries sum to -1, none is positive.
        result = linprog(
            np.zeros(n),
            A_ub=rows,
            b_ub=np.zeros(len(rows)),
            A_eq=rows.sum(axis=0)[None],
            b_eq=[-1.0],
            bounds=(None, None),
        )
        if result.status == 0:
            return True
    return False
