"""Binary images: the shared r-boundary, and theorem 5, by which it limits the effect of a ReLU layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import array_api_compat

from initscope.errors import InputError, check_between, check_count
from initscope.results import Result, rows_of_columns
from initscope.theory._arrays import Array, namespace
from initscope.theory.images._windows import Windows

__all__ = [
    "BoundaryBounds",
    "boundary_bounds",
    "rectangle_boundary",
    "shared_boundary",
]


def shared_boundary(a: Array, b: Array, r: int) -> Array:
    r"""Mask of the pixels of the shared r-boundary of two binary images ``[..., height, width]``.

    .. math:: \partial_r(A, B) = (A \oplus \square \cap B \oplus \square) \setminus (A \ominus \square \cap B \ominus
              \square)

    with the square of side 2r+1, cyclic: the square around the pixel meets both bodies and does not lie in both.
    [Nachum2022]_ definition 2.

    >>> import numpy as np
    >>> a, b = np.zeros((2, 32, 32), dtype=bool)
    >>> a[3:20, 4:18], b[8:26, 6:24] = True, True
    >>> int(shared_boundary(a, b, 2).sum()), rectangle_boundary(12, 12, 2)
    (192, 192)
    """
    _, a, b = _bodies(a, b)
    r = check_count("r", r, least=0)
    windows = Windows.read(a.shape[-2:], 2 * r + 1)
    inside_a, inside_b = windows.sum(a), windows.sum(b)
    meets = (inside_a > 0) & (inside_b > 0)
    fills = (inside_a == windows.taps) & (inside_b == windows.taps)
    return meets & ~fills


def rectangle_boundary(e: int, f: int, r: int) -> int:
    r"""Return size of the shared r-boundary of two axis-aligned rectangles that overlap in e×f pixels: :math:`4r(e+f)`.

    [Nachum2022]_ example 1: e, f ≥ 2r. The images must be large enough: cyclic gaps of at least 2r around the bodies.
    """
    e, f, r = check_count("e", e), check_count("f", f), check_count("r", r, least=0)
    if min(e, f) < 2 * r:
        raise InputError(f"an overlap of {e}×{f} must be at least 2r = {2 * r} on each side for the formula 4r(e+f)")
    return 4 * r * (e + f)


@dataclass(frozen=True)
class BoundaryBounds(Result):
    """Bounds of theorem 5 on a ReLU layer for a pair of bodies, one entry per pair (see `boundary_bounds`)."""

    boundary: Array
    """Pixels of the shared boundary, |∂_r|."""
    inner: Array
    """⟨A, B⟩; the layer's expected value lies within ± ``boundary`` of it (eq. 16)."""
    distance: Array
    """‖A - B‖²; the layer's expected value lies within ± 2 ``boundary`` of it (eq. 17)."""
    cosine: Array
    """ρ_in."""
    cosine_radius: Array
    """|ρ_out - ρ_in| is at most this: |∂_r|/(‖A‖‖B‖) + ε."""

    @property
    def inner_bounds(self) -> tuple[Array, Array]:
        """Eq. 16: least and greatest E⟨R(F∗A), R(F∗B)⟩."""
        return self.inner - self.boundary, self.inner + self.boundary

    @property
    def distance_bounds(self) -> tuple[Array, Array]:
        """Eq. 17: least and greatest E‖R(F∗A) - R(F∗B)‖²."""
        return self.distance - 2 * self.boundary, self.distance + 2 * self.boundary

    @property
    def sharp_inner_bounds(self) -> tuple[Array, Array]:
        """Bounds from `excess_bound`: ⟨A,B⟩ and ⟨A,B⟩ + |∂_r|/π."""
        return self.inner, self.inner + self.boundary / math.pi

    @property
    def sharp_distance_bounds(self) -> tuple[Array, Array]:
        """Bounds from `excess_bound`: ‖A-B‖² - 2|∂_r|/π and ‖A-B‖², so distances never grow."""
        return self.distance - 2 * self.boundary / math.pi, self.distance

    def table(self) -> list[dict[str, Any]]:
        """Return one row per pair."""
        return rows_of_columns(self)


def boundary_bounds(a: Array, b: Array, r: int, *, eps: float = 0.0) -> BoundaryBounds:
    r"""Return the bounds of theorem 5, by which the shared boundary limits a ReLU layer.

    Bodies ``[height, width]`` or pairs.

    .. math:: |E\langle R(F*A),R(F*B)\rangle - \langle A,B\rangle| \le |\partial_r|, \qquad
              |E\|R(F*A)-R(F*B)\|^2 - \|A-B\|^2| \le 2|\partial_r|, \qquad
              |\rho_{out}-\rho_{in}| \le \frac{|\partial_r|}{\|A\|\|B\|} + \varepsilon

    [Nachum2022]_ theorem 5 (eqs. 16, 17) and what it implies with corollary 1: filters (2r+1)×(2r+1) of variance
    2/(2r+1)², cyclic. ε is 0 for the mean cosine `expected_cosine`, and for finitely many filters the ``eps`` that
    their number buys.

    >>> import numpy as np
    >>> a, b = np.zeros((2, 64, 64))
    >>> a[4:44, 4:44], b[14:54, 14:54] = 1, 1
    >>> bounds = boundary_bounds(a, b, 1)
    >>> float(bounds.cosine), float(bounds.cosine_radius)
    (0.5625, 0.15)
    """
    xp, a, b = _bodies(a, b)
    if eps != 0:
        check_between("eps", eps, 0.0, 2.0, hint="the deviation that the number of filters allows")
    axes = (-2, -1)
    size_a, size_b = xp.sum(a, axis=axes), xp.sum(b, axis=axes)
    if bool(xp.any((size_a == 0) | (size_b == 0))):
        raise InputError("a body without pixels has no angle; leave empty images out")
    norms = xp.sqrt(size_a) * xp.sqrt(size_b)
    inner = xp.sum(a * b, axis=axes)
    boundary = xp.sum(xp.astype(shared_boundary(a, b, r), a.dtype), axis=axes)
    return BoundaryBounds(boundary, inner, size_a + size_b - 2 * inner, inner / norms, boundary / norms + eps)


def _bodies(a: Array, b: Array) -> tuple[Any, Array, Array]:
    """Return two binary images (boolean, or numbers 0 and 1) as floating arrays of one shape."""
    if array_api_compat.is_array_api_obj(a) and array_api_compat.is_array_api_obj(b):
        xp = array_api_compat.array_namespace(a, b)
        a, b = (xp.astype(body, xp.float64) if body.dtype == xp.bool else body for body in (a, b))
    xp, a, b = namespace(a, b)
    if tuple(a.shape) != tuple(b.shape) or a.ndim < 2:
        raise InputError(
            f"bodies of shape {tuple(a.shape)} and {tuple(b.shape)} must have one shape, [height, width] or "
            "[pairs, height, width]"
        )
    for name, body in (("a", a), ("b", b)):
        if not bool(xp.all((body == 0) | (body == 1))):
            raise InputError(
                f"{name} must be binary (boolean, or 0 and 1); for gray images use excess_bound, or threshold them"
            )
    return xp, a, b
