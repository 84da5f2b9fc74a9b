r"""The zero-temperature k-RSB functional of the ground-state energy, its gradient, and its functions f and P.

Levels 0 < c_1 < … < c_k, overlaps q_0 < … < q_{k-1} < q_k = 1, response χ (1 - q_k = χ/β):

.. math:: e = \sup\; -\alpha\int\gamma_{q_0}f_0
   - \tfrac12\Big[\frac{q_0}{\Lambda_0} + \sum_i \frac1{c_i}\log\frac{\Lambda_{i-1}}{\Lambda_i}\Big],
   \quad \Lambda_k = \chi,\; \Lambda_{i-1} = \Lambda_i + c_i(q_i - q_{i-1}),\quad
   f_{i-1} = \frac1{c_i}\log\,\gamma_{q_i-q_{i-1}}\star e^{c_if_i},\; f_k = -\min(1, h_+^2/2\chi)

Maillard et al. 2022. Convolutions are exact for the even (DCT-II) extension; the first, with its kink, is closed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.fft import dct, idct, idst
from scipy.special import ndtr

__all__ = ["FunctionalValue", "Grid", "Levels", "evaluate", "first_step"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Levels:
    """One point of the ansatz: χ, the overlaps q_0 … q_{k-1} and the levels c_1 … c_k (none for RS)."""

    chi: float
    q: Floats
    c: Floats

    @property
    def gaps(self) -> Floats:
        """Δ_i = q_i - q_{i-1} for i = 1 … k, with q_k = 1."""
        return np.diff(self.q, append=1.0)

    @property
    def response(self) -> Floats:
        """Λ_0 … Λ_k."""
        tail = np.cumsum((self.c * self.gaps)[::-1])[::-1]
        return self.chi + np.append(tail, 0.0)


class Grid:
    """Midpoints on |h| ≤ 9 with Gaussian convolution and derivative through the discrete cosine transform."""

    def __init__(self, points: int = 2048, width: float = 9.0) -> None:
        self.spacing = 2 * width / points
        self.h: Floats = np.asarray(-width + self.spacing * (np.arange(points) + 0.5), dtype=np.float64)
        self.frequency: Floats = np.asarray(np.pi * np.arange(points) / (2 * width), dtype=np.float64)

    def smooth(self, values: Floats, variance: float) -> Floats:
        """Convolve with the centered Gaussian of this variance."""
        return np.asarray(idct(dct(values) * np.exp(-0.5 * variance * self.frequency**2)))

    def smooth_with_slope(self, values: Floats, variance: float) -> tuple[Floats, Floats]:
        """Return the convolution and its derivative, from one forward transform."""
        spectrum = dct(values) * np.exp(-0.5 * variance * self.frequency**2)
        sine = np.append(-self.frequency[1:] * spectrum[1:], 0.0)
        return np.asarray(idct(spectrum)), np.asarray(idst(sine))

    def gaussian(self, variance: float) -> Floats:
        """Density of the centered Gaussian."""
        return np.asarray(np.exp(-(self.h**2) / (2 * variance)) / math.sqrt(2 * math.pi * variance))

    def integrate(self, values: Floats) -> float:
        """Midpoint rule: spectrally accurate, the integrands vanish at both ends."""
        return float(values.sum() * self.spacing)


class FirstStep(NamedTuple):
    """f_{k-1} with its derivatives in h, χ and c."""

    value: Floats
    slope: Floats
    by_chi: Floats
    by_c: Floats


def first_step(h: Floats, chi: float, variance: float, c: float) -> FirstStep:
    r"""Return the step that starts from the kinked boundary, in closed form.

    .. math:: u = \gamma_\Delta\star e^{-c\min(1,h_+^2/2\chi)}
       = \Phi(-h/\sqrt\Delta) + e^{-c}\Phi((h-\sqrt{2\chi})/\sqrt\Delta)
       + \sqrt{\tfrac{\chi}{\chi+c\Delta}}\,e^{-ch^2/2(\chi+c\Delta)}\,\big[\Phi(t_1) - \Phi(t_0)\big],\quad
       f = \tfrac1c\log u
    """
    scale, edge, wide = math.sqrt(variance), math.sqrt(2 * chi), chi + c * variance
    mean, deviation = h * chi / wide, math.sqrt(variance * chi / wide)
    low, high = -mean / deviation, (edge - mean) / deviation
    weight = math.sqrt(chi / wide) * np.exp(-c * h * h / (2 * wide))
    mass = np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
    phi_low, phi_high = (np.exp(-t * t / 2) / math.sqrt(2 * math.pi) for t in (low, high))
    first = weight * (mean * mass + deviation * (phi_low - phi_high))
    second = weight * (
        (mean**2 + deviation**2) * mass
        + deviation**2 * (low * phi_low - high * phi_high)
        + 2 * mean * deviation * (phi_low - phi_high)
    )
    violated = math.exp(-c) * ndtr((h - edge) / scale)
    u = ndtr(-h / scale) + violated + weight * mass
    value = np.log(u) / c
    return FirstStep(
        value,
        -first / (chi * u),
        second / (2 * chi**2 * u),
        -value / c - (second / (2 * chi) + violated) / (c * u),
    )


@dataclass(frozen=True)
class FunctionalValue:
    """The functional at one point: the parts F = ∫γ f_0 and S, their gradients in (χ, q, c), and f, f', P per level."""

    levels: Levels
    grid: Grid
    free: float
    entropy: float
    free_gradient: Floats
    entropy_gradient: Floats
    f: list[Floats]
    slopes: list[Floats]
    density: list[Floats]

    def energy(self, alpha: float) -> float:
        """Return the value of the functional at expansivity ``alpha``; its slope in α is ``-free``."""
        return -alpha * self.free - 0.5 * self.entropy

    def gradient(self, alpha: float) -> Floats:
        """Derivatives of `energy` by χ, q_0 … q_{k-1}, c_1 … c_k."""
        return -alpha * self.free_gradient - 0.5 * self.entropy_gradient

    @property
    def unit_energy_alpha(self) -> float:
        """The expansivity at which this point has energy 1: the threshold, at the optimum."""
        return (1 + 0.5 * self.entropy) / -self.free

    @cached_property
    def overlap_rates(self) -> Floats:
        """G_0 … G_{k-1}, G_i = ∫ P_i f_i'²."""
        return np.array([self.grid.integrate(p * s * s) for p, s in zip(self.density, self.slopes, strict=True)])


def evaluate(levels: Levels, grid: Grid) -> FunctionalValue:
    """Return the k-RSB functional (k ≥ 1) with its analytic gradient: one backward sweep for f, one forward for P."""
    k, gaps, c, q = len(levels.c), levels.gaps, levels.c, levels.q
    step = first_step(grid.h, levels.chi, gaps[-1], c[-1])
    f, slopes = [step.value], [step.slope]
    for i in range(k - 2, -1, -1):  # f_i from f_{i+1}
        u, du = grid.smooth_with_slope(np.exp(c[i] * f[0]), gaps[i])
        f.insert(0, np.log(u) / c[i])
        slopes.insert(0, du / (c[i] * u))
    density = [grid.gaussian(q[0])]
    for i in range(1, k):
        tilted = density[-1] * np.exp(-c[i - 1] * f[i - 1])
        density.append(np.exp(c[i - 1] * f[i]) * grid.smooth(tilted, gaps[i - 1]))

    means = np.array([grid.integrate(p * value) for p, value in zip(density, f, strict=True)])
    rates = np.array([grid.integrate(p * s * s) for p, s in zip(density, slopes, strict=True)])
    by_q = 0.5 * (np.concatenate([[0.0], c[:-1]]) - c) * rates
    by_c = np.append(np.diff(means) / c[:-1], grid.integrate(density[-1] * step.by_c))
    by_chi = grid.integrate(density[-1] * step.by_chi)
    entropy, entropy_gradient = _entropy(levels)
    return FunctionalValue(
        levels,
        grid,
        float(means[0]),
        entropy,
        np.concatenate([[by_chi], by_q, by_c]),
        entropy_gradient,
        f,
        slopes,
        density,
    )


def _entropy(levels: Levels) -> tuple[float, Floats]:
    """S = q_0/Λ_0 + Σ c_i^{-1} log(Λ_{i-1}/Λ_i) and its gradient."""
    response, gaps, c, q = levels.response, levels.gaps, levels.c, levels.q
    logs = np.log(response[:-1] / response[1:])
    value = q[0] / response[0] + float(np.sum(logs / c))
    by_response = (np.append(1 / c, 0.0) - np.append(0.0, 1 / c)) / response
    by_response[0] -= q[0] / response[0] ** 2
    total = np.cumsum(by_response)  # Λ_i depends on c_j and Δ_j for j > i
    by_q = total[:-1] * -c
    by_q[1:] += total[:-2] * c[:-1]
    by_q[0] += 1 / response[0]
    by_c = total[:-1] * gaps - logs / c**2
    return float(value), np.concatenate([[total[-1]], by_q, by_c])
