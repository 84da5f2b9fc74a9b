"""The k-RSB functional against quadrature and finite differences; thresholds; the two roads to full RSB."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad

from initscope.errors import InputError
from initscope.theory.injectivity import parisi, parisi_functional, parisi_grid, replica
from initscope.theory.injectivity.parisi_functional import Grid, Levels, evaluate

POINT = Levels(0.05, np.array([0.72, 0.9, 0.97]), np.array([2.3, 3.5, 7.0]))


@pytest.mark.parametrize("h", [-2.0, -0.1, 0.05, 0.4, 3.0])
def test_first_step_is_the_gaussian_convolution(h):
    """scipy.quad to 1e-11 against the closed form, and its three derivatives against differences of it."""
    chi, variance, c = 0.05, 0.03, 7.0
    edge = math.sqrt(2 * chi)
    kernel = lambda y: math.exp(-((h - y) ** 2) / (2 * variance) - c * min(1.0, max(y, 0) ** 2 / (2 * chi)))
    parts = [quad(kernel, a, b, epsabs=1e-13)[0] for a, b in ((h - 3, 0), (0, edge), (edge, edge + h + 3)) if b > a]
    step = parisi_functional.first_step(np.array([h]), chi, variance, c)
    assert step.value[0] == pytest.approx(math.log(sum(parts) / math.sqrt(2 * math.pi * variance)) / c, abs=1e-10)
    value = lambda h, chi, c: parisi_functional.first_step(np.array([h]), chi, variance, c).value[0]
    width = 1e-5
    assert step.slope[0] == pytest.approx((value(h + width, chi, c) - value(h - width, chi, c)) / 2e-5, abs=1e-8)
    assert step.by_chi[0] == pytest.approx((value(h, chi + width, c) - value(h, chi - width, c)) / 2e-5, abs=1e-6)
    assert step.by_c[0] == pytest.approx((value(h, chi, c + width) - value(h, chi, c - width)) / 2e-5, abs=1e-8)


def test_gradient_matches_finite_differences():
    """All 2k + 1 derivatives to 1e-8 (differences of fourth order); a gradient off by 1e-7 would fail."""
    grid, alpha = Grid(), 6.0
    vector = np.concatenate([[POINT.chi], POINT.q, POINT.c])
    energy = lambda v: evaluate(Levels(float(v[0]), v[1:4], v[4:]), grid).energy(alpha)
    analytic = evaluate(POINT, grid).gradient(alpha)
    for i, unit in enumerate(np.eye(7)):
        w = (2e-4 if i else 2e-5) * unit
        difference = (
            8 * (energy(vector + w) - energy(vector - w)) - energy(vector + 2 * w) + energy(vector - 2 * w)
        ) / 12
        assert difference / w.sum() == pytest.approx(analytic[i], abs=1e-8)


def test_density_keeps_its_mass_and_grid_is_fine_enough():
    evaluation = evaluate(POINT, Grid())
    for density in evaluation.density:
        assert evaluation.grid.integrate(density) == pytest.approx(1.0, abs=1e-11)
    assert evaluate(POINT, Grid(4096)).energy(6.0) == pytest.approx(evaluation.energy(6.0), abs=1e-12)


def test_one_level_agrees_with_quadrature():
    """Two codes, two integration rules, one number."""
    assert parisi.k_rsb_threshold(1).value == pytest.approx(replica.one_rsb_threshold().value, abs=1e-9)
    assert parisi.optimum(1, 4.0).energy(4.0) == pytest.approx(replica.one_rsb_energy(4.0), abs=1e-10)


def test_thresholds_decrease_with_the_levels_to_the_talks_value():
    values = [parisi.k_rsb_threshold(k).value for k in range(parisi.DEEPEST + 1)]
    assert values == sorted(values, reverse=True)
    full = parisi.full_rsb_threshold()
    assert full.error < 1e-6
    assert full.value < values[-1]
    assert round(full.value, 3) == 6.698
    assert round(full.value, 5) == replica.FULL_RSB


def test_the_optimum_is_stationary_and_the_tail_counts_the_violated_rows():
    """At the optimum e = α P(h > √2χ), which uses the density and not the functional."""
    point = parisi.optimum(5)
    alpha = point.unit_energy_alpha
    assert np.abs(point.gradient(alpha)).max() < 1e-6
    levels = point.levels
    step = parisi_functional.first_step(point.grid.h, levels.chi, levels.gaps[-1], levels.c[-1])
    edge = math.sqrt(2 * levels.chi)
    from scipy.special import ndtr

    violated = np.exp(-levels.c[-1] * (1 + step.value)) * ndtr((point.grid.h - edge) / math.sqrt(levels.gaps[-1]))
    assert alpha * point.grid.integrate(point.density[-1] * violated) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("alpha", [3.5, 6.0, 9.4])
def test_grid_method_agrees_with_free_levels(alpha):
    """Each within the sum of the stated errors, and the grid below the full value: it is a restricted supremum."""
    grid, free = parisi_grid.grid_energy(alpha, levels=40), parisi.ground_state_energy(alpha)
    assert abs(grid.value - free.value) < grid.error + free.error
    assert grid.value < free.value + free.error
    assert grid.error < 1e-4 * max(1, grid.value)


def test_energy_is_increasing_with_the_slope_of_the_optimum():
    """Envelope theorem: (e(6.001) - e(5.999))/0.002 is the slope, to the curvature times 1e-6."""
    slope = parisi.order_parameter(6.0, levels=3).slope
    energy = lambda alpha: parisi.ground_state_energy(alpha, levels=3).value
    assert (energy(6.001) - energy(5.999)) / 0.002 == pytest.approx(slope, abs=1e-5)


def test_edges_of_the_domain():
    assert parisi.ground_state_energy(1.0).value == 0.0
    near = parisi.ground_state_energy(2.1)
    assert replica.rs_energy(2.1) < near.value < 0.01
    for bad in (math.nan, -1.0, 0.0, 1e6, 2.05):
        with pytest.raises(InputError, match="alpha"):
            parisi.ground_state_energy(bad)
    with pytest.raises(InputError, match="levels"):
        parisi.ground_state_energy(6.0, levels=99)
    for bad in (2.2, 12.0):
        with pytest.raises(InputError, match="alpha"):
            parisi_grid.grid_energy(bad)


def test_order_parameter_of_many_levels_is_that_of_few_free_ones():
    """The grid of 60 levels and 8 free ones approximate the same q(x): energies to 1e-3, q(0) to 0.02."""
    many, few = parisi.order_parameter(6.0, levels=60), parisi.order_parameter(6.0)
    assert len(many.c) == 60
    assert abs(many.energy - few.energy) < 1e-3
    assert abs(many.q[0] - few.q[0]) < 0.02
    assert (np.diff(many.q) >= -1e-12).all()


def test_arrays_of_a_result_are_its_own():
    """Writing into them changed all later results."""
    first = parisi.order_parameter(6.0, levels=2)
    kept = {name: getattr(first, name).copy() for name in ("c", "q", "h", "f", "density")}
    for name in kept:
        getattr(first, name)[:] = -1
    again = parisi.order_parameter(6.0, levels=2)
    assert all((getattr(again, name) == values).all() for name, values in kept.items())


def test_order_parameter_draws():
    result = parisi.order_parameter(6.0, levels=3)
    assert result.plot().get_xlabel()
    assert result.q[-1] == 1.0
    assert len(result.f) == len(result.density) == 3
