r"""Gaussian mean width of sets, :math:`\omega(K) = E\sup_{u,v\in K}\langle u-v, g\rangle`, and Sudakov's inequality.

A set is known by its support function :math:`h_K(g) = \sup_{u\in K}\langle u, g\rangle`: `Ball`, `Subspace`,
`Ellipsoid`, `SparseSet`, `GaussianMixture`, or any other as a `SupportSet`. ``set.support(g)`` evaluates it exactly for
every row of ``g``; ``set.width()`` is the width without sampling where one is known, else None.
`initscope.mean_width` estimates the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from array_api_compat import device

from initscope.errors import InputError, check_between, check_count
from initscope.theory._arrays import Array, namespace
from initscope.theory._matrices import checked_matrix, orthonormal

__all__ = [
    "Ball",
    "Ellipsoid",
    "GaussianMixture",
    "SparseSet",
    "Subspace",
    "SupportSet",
    "WidthSet",
    "gaussian_norm_mean",
    "sudakov_log_packing",
]

_FAR = float("inf")


def gaussian_norm_mean(dimension: int) -> float:
    r"""Return the mean norm of a standard Gaussian vector.

    .. math:: E\|g\| = \sqrt2\,\frac{\Gamma((n+1)/2)}{\Gamma(n/2)} = \sqrt n\,(1 - \tfrac1{4n} + \tfrac1{32n^2} + \dots)

    A series of four terms replaces it above n = 1000, where the gamma functions lose digits.

    >>> round(gaussian_norm_mean(1), 6)      # sqrt(2/pi)
    0.797885
    """
    n = check_count("dimension", dimension)
    if n > 1000:
        return math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (32 * n**2) + 5 / (128 * n**3) - 21 / (2048 * n**4))
    return math.sqrt(2) * math.exp(math.lgamma((n + 1) / 2) - math.lgamma(n / 2))


def sudakov_log_packing(width: float, eps: float) -> float:
    r"""Return the largest logarithm of the number of points of a set that are pairwise at least ``eps`` apart.

    Source: [Bronstein2016]_, 'Training set size'; the constant is ours.

    .. math:: \log|K_\varepsilon| \le \frac{\pi\log 2}{2}\,\frac{\omega^2}{\varepsilon^2}
              \approx 1.089\,\frac{\omega^2}{\varepsilon^2}

    ``width`` is the two-sided width. By Sudakov–Fernique ω/2 is at least ε/√2 times the mean maximum of N independent
    normals, and that maximum over √(log N) is smallest at N = 2, where it is 1/√(π log 2): this is the constant.

    >>> round(sudakov_log_packing(1.0, 1.0), 3)
    1.089
    """
    check_between("eps", eps, 0.0, _FAR)
    if not 0 <= width < _FAR:
        raise InputError(f"width = {width} must be finite and not negative; it is what `initscope.mean_width` returns")
    return math.pi * math.log(2) / 2 * (width / eps) ** 2


@runtime_checkable
class WidthSet(Protocol):
    """Interface of a set for `initscope.mean_width`.

    A set may also have ``enclosing_radius``, the radius of the smallest ball around it (None: unknown), from which its
    intrinsic dimension follows, and ``width_method``, the method of its width: ``closed form`` by default.
    """

    @property
    def ambient(self) -> int:
        """Dimension of the space the set lives in."""

    def support(self, g: Array) -> Array:
        """Supremum over the set of its inner product with each row of ``g``."""

    def width(self) -> float | None:
        """The width without sampling, or None."""


def _on_library_of(g: Array, *constants: np.ndarray) -> tuple[Any, ...]:
    """Return ``(xp, g, *constants)``, the set's own arrays brought to the library, dtype and device of ``g``."""
    xp, g = namespace(g)
    return xp, g, *(xp.asarray(constant, dtype=g.dtype, device=device(g)) for constant in constants)


def _norm(g: Array) -> Array:
    xp, g = namespace(g)
    return xp.sqrt(xp.sum(g * g, axis=-1))


@dataclass(frozen=True)
class Ball:
    r"""Ball of a given radius: :math:`h(g) = r\|g\|`, :math:`\omega = 2r\,E\|g\|`.

    Source: the width of [Bronstein2016]_ for a set that is not among its examples.

    >>> round(Ball(9).width() ** 2 / 4, 2)      # close to the dimension
    8.51
    """

    ambient: int
    radius: float = 1.0

    def __post_init__(self) -> None:
        check_count("ambient", self.ambient)
        check_between("radius", self.radius, 0.0, _FAR)

    @property
    def enclosing_radius(self) -> float:
        """Its own."""
        return self.radius

    def support(self, g: Array) -> Array:
        """Return the radius times the norm of each row."""
        return self.radius * _norm(g)

    def width(self) -> float:
        """Closed form."""
        return 2 * self.radius * gaussian_norm_mean(self.ambient)


@dataclass(frozen=True, eq=False)
class Subspace:
    r"""Span of the columns of ``basis``, cut by a ball: :math:`h(g) = r\|Q^Tg\|` with Q orthonormal.

    Source: the width of [Bronstein2016]_ for one part of its Gaussian mixtures.
    """

    basis: np.ndarray
    radius: float = 1.0
    _frame: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_between("radius", self.radius, 0.0, _FAR)
        object.__setattr__(self, "_frame", orthonormal(checked_matrix("basis", self.basis)))

    @property
    def ambient(self) -> int:
        """Dimension of the surrounding space."""
        return int(self._frame.shape[0])

    @property
    def enclosing_radius(self) -> float:
        """Radius of the ball that cuts it."""
        return self.radius

    def support(self, g: Array) -> Array:
        """Return the radius times the norm of each row's projection."""
        _, g, frame = _on_library_of(g, self._frame)
        return self.radius * _norm(g @ frame)

    def width(self) -> float:
        """Closed form: that of a ball of the subspace's dimension."""
        return Ball(int(self._frame.shape[1]), self.radius).width()


@dataclass(frozen=True, eq=False)
class Ellipsoid:
    r"""Image :math:`\{Bz : \|z\|\le 1\}` of the unit ball: :math:`h(g) = \|B^Tg\|`.

    The width is one integral, with :math:`\lambda_i` the squared semi-axes (singular values of B squared):

    .. math:: E\sqrt{\textstyle\sum\lambda_i g_i^2}
              = \frac1{2\sqrt\pi}\int_0^\infty \Bigl(1 - \prod_i(1+2t\lambda_i)^{-1/2}\Bigr)\frac{dt}{t^{3/2}} .
    """

    width_method: ClassVar[str] = "quadrature"

    matrix: np.ndarray
    _axes: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrix", checked_matrix("matrix", self.matrix))
        object.__setattr__(self, "_axes", np.linalg.svd(self.matrix, compute_uv=False))
        if not self._axes[0] > 0:
            raise InputError("the matrix of the ellipsoid is zero: the set is one point and has no width")

    @classmethod
    def from_axes(cls, axes: Array) -> Ellipsoid:
        """Axis-parallel ellipsoid with these semi-axes."""
        return cls(np.diag(np.asarray(axes, dtype=np.float64).ravel()))

    @property
    def ambient(self) -> int:
        """Dimension of the surrounding space."""
        return int(self.matrix.shape[0])

    @property
    def enclosing_radius(self) -> float:
        """The longest semi-axis."""
        return float(self._axes[0])

    def support(self, g: Array) -> Array:
        """Return the norm of :math:`B^Tg` for each row."""
        _, g, matrix = _on_library_of(g, self.matrix)
        return _norm(g @ matrix)

    def width(self) -> float:
        """Return the integral above by quadrature (relative error below 1e-9)."""
        from scipy.integrate import quad

        scale = float(np.linalg.norm(self._axes))
        squares = (self._axes / scale) ** 2

        def integrand(s: float) -> float:  # t = exp(s): smooth, decaying on both sides
            t = math.exp(s)
            return -math.expm1(-0.5 * float(np.log1p(2 * t * squares).sum())) * math.exp(-s / 2)

        # Below exp(-60) and above exp(60) the two tails together are under 1e-12 of the whole.
        whole = sum(quad(integrand, a, a + 20, epsabs=1e-13, epsrel=1e-12, limit=200)[0] for a in range(-60, 60, 20))
        return 2 * scale * whole / (2 * math.sqrt(math.pi))


@dataclass(frozen=True, eq=False)
class SparseSet:
    r"""Combinations :math:`\{D\alpha : \|\alpha\|_0\le k,\ \|\alpha\|_2\le 1\}` of at most k columns of a dictionary.

    Source: [Bronstein2016]_, 'Gaussian mean width': sparsely representable sets.

    :math:`h(g)` is the norm of the k largest entries of :math:`|D^Tg|`, exactly. The width squared grows like
    k log(n/k). For an orthonormal dictionary given as an int (the number of coordinates) and k = 1 or k = n the width
    needs no sampling.
    """

    dictionary: np.ndarray | int
    nonzeros: int

    def __post_init__(self) -> None:
        if isinstance(self.dictionary, (int, np.integer)):
            atoms = check_count("dictionary", self.dictionary)
            object.__setattr__(self, "dictionary", atoms)
        else:
            object.__setattr__(self, "dictionary", checked_matrix("dictionary", self.dictionary))
            atoms = int(self.dictionary.shape[1])
        check_count("nonzeros", self.nonzeros, most=atoms, hint="no more than the dictionary has columns")

    @property
    def ambient(self) -> int:
        """Dimension of the surrounding space."""
        return self.dictionary if isinstance(self.dictionary, int) else int(self.dictionary.shape[0])

    @property
    def enclosing_radius(self) -> float | None:
        """It is 1 in coordinates, and unknown for other dictionaries."""
        return 1.0 if isinstance(self.dictionary, int) else None

    def support(self, g: Array) -> Array:
        """Return the norm of the k largest correlations with the dictionary."""
        xp, g = namespace(g)
        if not isinstance(self.dictionary, int):
            _, g, matrix = _on_library_of(g, self.dictionary)
            g = g @ matrix
        if self.nonzeros < g.shape[-1]:
            g = xp.sort(xp.abs(g), axis=-1)[..., -self.nonzeros :]
        return _norm(g)

    @property
    def width_method(self) -> str:
        """How `width` comes about."""
        return "closed form" if self.nonzeros == self.ambient else "quadrature"

    def width(self) -> float | None:
        """Closed form for k = n, quadrature of the largest of n half-normals for k = 1, else None."""
        if not isinstance(self.dictionary, int):
            return None
        if self.nonzeros == self.dictionary:
            return Ball(self.dictionary).width()
        if self.nonzeros > 1:
            return None
        from scipy.integrate import quad
        from scipy.special import erfc, expm1, log1p

        def some_above(t: float) -> float:  # 1 - P(|g| <= t)^n, which for large n is all in the last digits of P
            return -float(expm1(self.dictionary * log1p(-erfc(t / math.sqrt(2)))))

        typical = math.sqrt(2 * math.log(self.dictionary))  # where it falls from 1 to 0
        pieces = ((0.0, typical), (typical, typical + 12))
        return 2 * sum(float(quad(some_above, low, high, epsrel=1e-12, limit=200)[0]) for low, high in pieces)


@dataclass(frozen=True, eq=False)
class GaussianMixture:
    r"""Supports of L Gaussians :math:`N(\mu_l, B_lB_l^T)` of low rank, cut by a ball of the given radius.

    Source: [Bronstein2016]_, 'Gaussian mean width': mixtures; the growth with rank and number is ours.

    Each is an affine subspace; with :math:`Q_l` an orthonormal basis of its directions and :math:`c_l` its point
    nearest to the origin, :math:`h(g) = \max_l \langle c_l,g\rangle + \sqrt{r^2-\|c_l\|^2}\,\|Q_l^Tg\|`.
    For centered Gaussians of rank d, :math:`\omega^2/4 \approx (\sqrt d + \sqrt{2\log L})^2`.
    Without a radius the supports are unbounded and the width is infinite: refused.
    """

    means: np.ndarray
    factors: np.ndarray
    radius: float | None = None
    _centers: np.ndarray = field(init=False, repr=False)
    _frames: list[np.ndarray] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.radius is None:
            raise InputError(
                "radius = None: a Gaussian mixture is unbounded and its mean width infinite; give a radius to cut it"
            )
        check_between("radius", self.radius, 0.0, _FAR)
        means = checked_matrix("means", self.means)
        factors = np.asarray(self.factors, dtype=np.float64)
        if factors.ndim != 3 or factors.shape[:2] != means.shape or not np.isfinite(factors).all():
            raise InputError(
                f"factors have shape {factors.shape}, means {means.shape}; expected finite [L, n, d] and [L, n]"
            )
        frames = [orthonormal(factor) for factor in factors]
        centers = np.stack([mean - frame @ (frame.T @ mean) for mean, frame in zip(means, frames)])
        meets = np.linalg.norm(centers, axis=1) <= self.radius
        if not meets.any():
            nearest = float(np.linalg.norm(centers, axis=1).min())
            raise InputError(f"radius = {self.radius}: no component meets the ball; the nearest is at {nearest:.4g}")
        object.__setattr__(self, "_centers", centers[meets])
        object.__setattr__(self, "_frames", [frame for frame, meet in zip(frames, meets) if meet])

    @property
    def ambient(self) -> int:
        """Dimension of the surrounding space."""
        return int(self._centers.shape[1])

    @property
    def enclosing_radius(self) -> float | None:
        """For one component it is that of its own ball, for centered ones that of the cutting ball.

        For others it is unknown.
        """
        if len(self._frames) == 1:
            return self._reach(self._centers[0])
        centered = np.allclose(self._centers, 0, atol=1e-12 * self._reach(np.zeros(1)))
        return self.radius if centered else None

    def _reach(self, center: np.ndarray) -> float:
        """Radius of the ball that the cutting ball leaves of the component with this center."""
        assert self.radius is not None
        return math.sqrt(max(self.radius**2 - float(center @ center), 0.0))

    def support(self, g: Array) -> Array:
        """Return the largest support function of the components."""
        xp, g = namespace(g)
        result = None
        for center, frame in zip(self._centers, self._frames):
            _, _, middle, directions = _on_library_of(g, center, frame)
            value = g @ middle + self._reach(center) * _norm(g @ directions)
            result = value if result is None else xp.maximum(result, value)
        return result

    def width(self) -> float | None:
        """Closed form for one component (a ball of its rank), else None."""
        if len(self._frames) > 1:
            return None
        return 2 * self._reach(self._centers[0]) * gaussian_norm_mean(int(self._frames[0].shape[1]))


@dataclass(frozen=True)
class SupportSet:
    """Any set, by its support function: ``function(g)`` maps rows [draws, ambient] to [draws].

    >>> cross_polytope = SupportSet(lambda g: abs(g).max(axis=1), ambient=5)
    >>> cross_polytope.support(np.array([[1.0, -3.0, 0.0, 0.0, 2.0]]))
    array([3.])
    """

    function: Callable[[Array], Array]
    ambient: int

    def support(self, g: Array) -> Array:
        """Return the user's function, checked for shape."""
        values = self.function(g)
        if getattr(values, "shape", None) != (g.shape[0],):
            raise InputError(
                f"the support function returned shape {getattr(values, 'shape', None)} for rows {tuple(g.shape)}; "
                f"expected ({g.shape[0]},)"
            )
        return values

    def width(self) -> None:
        """Unknown without sampling."""
        return
